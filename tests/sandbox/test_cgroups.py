"""Control groups come and go with their commands."""

import os
from pathlib import Path

import pytest

from homarus.core.cancel import Cancel
from homarus.sandbox import cgroups
from homarus.sandbox.process import Order, available, run
from homarus.sandbox.spec import Backend, Limits, SandboxSpec


@pytest.mark.skipif(not available(Backend.BWRAP), reason="needs bubblewrap (apt install bubblewrap)")
async def test_no_group_is_left_behind(tmp_path: Path) -> None:
    probe = cgroups.make("probe-" + os.urandom(4).hex(), Limits())
    if probe is None:
        pytest.skip("groups cannot be made or are not needed here")
    base = Path(probe.entrances[0]).parent.parent
    probe.close()
    spec = SandboxSpec(Backend.BWRAP, str(tmp_path))
    marks = [f"group-{os.urandom(4).hex()}" for _ in range(20)]
    for mark in marks:
        env = {"PATH": "/usr/bin:/bin"}
        await run(
            spec,
            Order(("/bin/sh", "-c", "sleep 0 & true"), str(tmp_path), env, mark),
            limit=100,
            seconds=10,
            cancel=Cancel(),
        )
    last = cgroups.make("last-" + os.urandom(4).hex(), Limits())
    assert last is not None
    last.close()
    left = [mark for mark in marks if (base / f"homarus-{mark}").exists()]
    # The very last may still be going; it is removed by the next.
    assert len(left) <= 1
