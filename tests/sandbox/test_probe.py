"""The look from inside: it finds what leaks, and says when it could not look."""

import os
from pathlib import Path

import pytest

from homarus.sandbox.probe import probe, try_out
from homarus.sandbox.process import available
from homarus.sandbox.spec import Access, Backend, Mount, SandboxSpec

BACKENDS = [backend for backend in (Backend.BWRAP, Backend.LANDLOCK) if available(backend)]


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "ws").mkdir()
    (tmp_path / "secret").write_text("word")
    return tmp_path / "ws", tmp_path / "secret"


@pytest.mark.parametrize("access", list(Access))
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_sandbox_that_holds(places: tuple[Path, Path], backend: Backend, access: Access) -> None:
    found = await probe(SandboxSpec(backend, str(places[0]), access), os.environ, places[1])
    assert found.holds, found
    assert list(places[0].iterdir()) == []


@pytest.mark.parametrize("backend", BACKENDS)
async def test_what_leaks_is_named(places: tuple[Path, Path], backend: Backend) -> None:
    spec = SandboxSpec(backend, str(places[0]), Access.RO, mounts=(Mount(str(places[1])),))
    assert (await probe(spec, os.environ, places[1])).leaks == ("a file outside of the workspace can be read",)


async def test_nothing_holds_without_a_sandbox(places: tuple[Path, Path]) -> None:
    assert not (await probe(SandboxSpec(Backend.OFF, str(places[0])), os.environ, places[1])).holds


async def test_without_any_wall_every_leak_is_found(places: tuple[Path, Path]) -> None:
    """The probe itself must be able to find something: run where nothing is held back, it does."""
    from homarus.core.cancel import Cancel
    from homarus.sandbox.probe import _SCRIPT, _neighbours
    from homarus.sandbox.process import Order, run

    async with _neighbours() as (port, word):
        argv = ("/bin/sh", "-c", _SCRIPT, "probe", str(places[0]), str(port), word)
        env = {"PATH": "/usr/bin:/bin", "HOMARUS_PROBE_SECRET": str(places[1]), "HOMARUS_PROBE_LEAK": "1"}
        spec = SandboxSpec(Backend.OFF, str(places[0]))
        output, _ = await run(spec, Order(argv, "/", env, "m"), limit=10_000, seconds=20, cancel=Cancel())
    words = set(output.decode().split())
    assert {"secret", "workspace", "processes", "network", "environment", "done"} <= words


def test_an_agent_whose_workspace_is_not_there_yet(tmp_path: Path) -> None:
    if not BACKENDS:
        pytest.skip("no sandbox here")
    (tmp_path / ".homarus-probe-0123").mkdir()  # of a probe that was killed
    found = try_out(SandboxSpec(BACKENDS[0], str(tmp_path / "later")), {**os.environ, "HOME": str(tmp_path)})
    assert found.holds, found
    assert list(tmp_path.iterdir()) == []
