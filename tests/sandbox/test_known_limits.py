"""What `docs/sandbox.md` says a command sees of /proc and of files outside: exactly that, no more and no less."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from homarus.core.cancel import Cancel
from homarus.sandbox.process import Order, available, run
from homarus.sandbox.spec import Backend, SandboxSpec

BACKENDS = [
    pytest.param(backend, marks=pytest.mark.skipif(not available(backend), reason=f"{backend} cannot be used here"))
    for backend in (Backend.BWRAP, Backend.LANDLOCK)
]


async def printed(folder: Path, backend: Backend, script: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    order = Order(("/bin/sh", "-c", script), str(folder), {"PATH": "/usr/bin:/bin"}, os.urandom(6).hex())
    output, ended = await run(SandboxSpec(backend, str(folder)), order, limit=99_999, seconds=20, cancel=Cancel())
    assert ended is not None
    return output.decode().split("\n")


@pytest.mark.parametrize("backend", BACKENDS)
async def test_nothing_of_a_process_outside_can_be_read_in_proc(tmp_path: Path, backend: Backend) -> None:
    with subprocess.Popen(["/bin/sleep", "600"], env={"WORD": "outside-word"}) as neighbour:
        try:
            script = (
                'for p in /proc/[0-9]*; do test "$p" = "/proc/$$" || cat $p/environ $p/cmdline $p/maps $p/stat; done\n'
                "cat /proc/$$/net/tcp /proc/net/unix /proc/$$/net/unix; ls -l /proc/[0-9]*/cwd /proc/[0-9]*/exe /proc/[0-9]*/fd\n"
                f"cat /proc/{neighbour.pid}/environ; readlink /proc/{neighbour.pid}/cwd; echo end"
            )
            said = "\n".join(await printed(tmp_path / "ws", backend, f"( {script} ) 2>/dev/null"))
        finally:
            neighbour.kill()
    assert "end" in said
    assert "outside-word" not in said and "sleep" not in said and "@/" not in said


@pytest.mark.parametrize("backend", BACKENDS)
async def test_bubblewrap_has_a_proc_of_its_own_and_landlock_tells_only_that_others_are_there(
    tmp_path: Path, backend: Backend
) -> None:
    said = await printed(tmp_path / "ws", backend, f"test -e /proc/{os.getpid()} && echo there; echo end")
    assert said == (["end", ""] if backend is Backend.BWRAP else ["there", "end", ""])


@pytest.mark.parametrize("backend", BACKENDS)
async def test_where_a_link_outside_leads_is_hidden_by_bubblewrap_alone(tmp_path: Path, backend: Backend) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("the words")
    (outside / "link").symlink_to("target-name")
    script = f"readlink {outside}/link; stat -c %s {outside}/secret; cat {outside}/secret; ls {outside}; echo end"
    said = await printed(tmp_path / "ws", backend, f"( {script} ) 2>/dev/null")
    assert said == (["end", ""] if backend is Backend.BWRAP else ["target-name", "9", "end", ""])
