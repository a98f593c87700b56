"""What a command may not leave behind for somebody outside to run, and what it may not use up."""

import os
import shutil
from pathlib import Path

import pytest

from homarus.core.cancel import Cancel
from homarus.core.routes import main_session
from homarus.sandbox import bwrap, cgroups
from homarus.sandbox.folders import without
from homarus.sandbox.process import Order, available, run
from homarus.sandbox.resolve import Place, clean_environment, resolve
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Access, Backend, Limits, SandboxSpec

BACKENDS = [backend for backend in (Backend.BWRAP, Backend.LANDLOCK) if available(backend)]
needs_bwrap = pytest.mark.skipif(Backend.BWRAP not in BACKENDS, reason="needs bubblewrap (apt install bubblewrap)")


async def said(spec: SandboxSpec, command: str, seconds: float = 20) -> str:
    order = Order(
        ("/bin/sh", "-c", command), spec.workspace, clean_environment(spec, os.environ, {}), os.urandom(6).hex()
    )
    output, _ = await run(spec, order, limit=20_000, seconds=seconds, cancel=Cancel())
    return output.decode("utf-8", "replace")


def repository(folder: Path) -> Path:
    """Make what git takes for a repository."""
    for name in ("hooks", "objects", "refs/heads", "modules/sub"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("config", "modules/sub/config"):
        (folder / ".git" / name).write_text("[core]\n\tbare = false\n")
    return folder / ".git"


GIT = [
    "echo evil >> .git/config",
    "rm .git/config; echo evil > .git/config",
    "mv .git/config .git/c && echo evil > .git/config",
    "echo evil > .git/hooks/pre-commit",
    "mv .git/hooks .git/h && mkdir .git/hooks && echo evil > .git/hooks/pre-commit",
    "rm -rf .git/hooks; ln -s ../notes .git/hooks; mkdir notes; echo evil > notes/pre-commit",
    "mv .git old && cp -r old .git && echo evil >> .git/config",
    "mv .git old; mkdir .git; echo evil > .git/config",
    "rm -rf .git; mkdir .git; echo evil > .git/config",
    "ln -sfn notes .git; mv -T notes .git",
    "echo evil >> .git/modules/sub/config; mv .git/modules .git/m && mkdir -p .git/modules/sub && echo evil > .git/modules/sub/config",
    "mv hooks h && mkdir hooks; echo evil > hooks/mine/handler.py; rm -rf hooks; ln -s notes hooks",
    'python3 -c \'import os; os.rename(".git", "old"); os.mkdir(".git")\'',
    'python3 -c \'import ctypes; ctypes.CDLL(None).syscall(316, -100, b".git", -100, b"notes", 2)\'',
]


@needs_bwrap
async def test_what_git_and_we_run_stays_as_it_is(tmp_path: Path) -> None:
    git, ours = repository(tmp_path), tmp_path / "hooks" / "mine" / "handler.py"
    ours.parent.mkdir(parents=True)
    ours.write_text("fine\n")
    (tmp_path / "notes").mkdir()
    before = (git / "config").read_text()
    for command in GIT:
        await said(SandboxSpec(Backend.BWRAP, str(tmp_path)), command)
        assert git.is_dir(), command
        assert not git.is_symlink(), command
        assert [(git / name).read_text() for name in ("config", "modules/sub/config")] == [before] * 2, command
        assert os.listdir(git / "hooks") == [], command
        assert ours.read_text() == "fine\n", command


@needs_bwrap
async def test_links_where_something_is_shown_on_top(tmp_path: Path) -> None:
    """A link that a command leaves where the next one is shown something shows nothing but itself."""
    outside, workspace = tmp_path / "out", tmp_path / "ws"
    for folder in (outside, workspace / ".git"):
        folder.mkdir(parents=True)
    for name in ("secret", "config"):
        (outside / name).write_text("the-hidden-word")
    spec = SandboxSpec(Backend.BWRAP, str(workspace))
    await said(
        spec, f"ln -s {outside} hooks; ln -s {outside} .git/hooks; cd .git; for n in config commondir modules; do ln -s {outside}/secret $n; done"
    )  # fmt: skip
    output = await said(spec, "cat hooks/* .git/hooks/* .git/config .git/commondir .git/modules; echo ran")
    assert "hidden-word" not in output
    assert output.endswith("ran\n")


@pytest.mark.parametrize("backend", BACKENDS)
async def test_memory_of_a_whole_command_is_bounded(tmp_path: Path, backend: Backend) -> None:
    """Many processes, files in memory and folders in memory count together where a control group can be made."""
    probe = cgroups.make(f"probe-{os.urandom(4).hex()}", Limits())
    if probe is None or len(list(Path("/sys/fs/cgroup").glob("memory*"))) == 0:
        pytest.skip("memory cannot be counted here")
    probe.close()
    spec = SandboxSpec(backend, str(tmp_path), limits=Limits(20, 128 << 20, 64))
    many = (
        "for i in 1 2 3 4; do python3 -c 'import time; x = bytearray(70 << 20); time.sleep(3); print(1)' & done; wait"
    )
    assert (await said(spec, many)).count("1\n") < 4
    file = 'import os; f = os.memfd_create("x"); print(sum(os.write(f, bytes(1 << 20)) for _ in range(400)) >> 20)'
    assert "400" not in await said(spec, f"python3 -c '{file}'")


@needs_bwrap
async def test_no_folder_in_memory_is_without_bounds(tmp_path: Path) -> None:
    spec = SandboxSpec(Backend.BWRAP, str(tmp_path), limits=Limits(20, 64 << 20, 64))
    places = "for d in / /dev /dev/shm /tmp /run /var/tmp; do touch $d/x 2>/dev/null && stat -f -c '%b %S' $d; done"
    sizes = [int(blocks) * int(size) for blocks, size in map(str.split, (await said(spec, places)).splitlines())]
    assert sizes == [16 << 20] * 4


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_home_among_the_programs_is_hidden(tmp_path: Path, backend: Backend) -> None:
    """A service's home is often in /opt, which commands see."""
    place = next((top for top in ("/opt", "/usr/local") if os.access(top, os.W_OK)), None)
    if place is None:
        pytest.skip("only root can make a home among the programs")
    home = Path(place, f"homarus-test-{os.getpid()}-{backend.value}")
    (home / "state").mkdir(parents=True)
    try:
        (home / "state" / "secret").write_text("the-hidden-word")
        (home / "state" / "workspace").mkdir()
        where = Place(main_session("main"), home / "state" / "workspace", home, home / "state")
        spec = resolve(SandboxSettings(backend=backend.value), where, lambda _: True)
        output = await said(spec, f"cat {home}/state/secret; cat {place}/*/state/secret; ls /usr/bin/env")
        assert "hidden-word" not in output
        assert "/usr/bin/env" in output
        assert await said(spec, f"echo x > f && cat f; (echo x > {home}/state/made) 2>/dev/null && echo made") == "x\n"
        assert sorted(os.listdir(home / "state")) == ["secret", "workspace"]
    finally:
        shutil.rmtree(home)


@pytest.mark.parametrize("home", ["/usr/bin", "/usr", "/usr/local", "/bin", "/", "/usr/sbin", "/usr/lib"])
def test_the_programs_are_no_home(tmp_path: Path, home: str) -> None:
    """Users of the system such as `bin` and `daemon` live there."""
    where = Place(main_session("main"), tmp_path / "ws", Path(home), tmp_path / "state")
    hidden = resolve(SandboxSettings(), where, lambda _: True).hidden
    assert str(Path(home).resolve()) not in hidden
    assert str(tmp_path / "state") in hidden


def test_a_folder_without_a_hidden_one(tmp_path: Path) -> None:
    for name in ("a/b/hidden", "a/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    hidden = (f"{tmp_path}/a/b/hidden",)
    assert without(str(tmp_path), hidden) == [f"{tmp_path}/a/c", f"{tmp_path}/d"]
    assert without(f"{tmp_path}/d", hidden) == [f"{tmp_path}/d"]


def test_keys_that_lie_beside_certificates_are_not_shown() -> None:
    """As root a command could read them: every folder of certificates is named, and none of keys."""
    line = bwrap.command(SandboxSpec(Backend.BWRAP, "/w", Access.NONE), ["true"], cwd="/", env={}, held=[])
    shown = [word for word in line if word.startswith("/etc/")]
    for key in ("/etc/ssl/private/k", "/etc/pki/tls/private/k", "/etc/pki/consumer/k", "/etc/pki/entitlement/k", "/etc/shadow"):  # fmt: skip
        assert not any(Path(key).is_relative_to(path) for path in shown), key


@pytest.mark.parametrize(
    ("workspace", "shown"),
    [
        ("{home}", False), ("{home}/..", False), ("/", False), ("{state}", False), ("{state}/..", False), ("{home}/link", False),
        ("{home}/.ssh", False), ("{home}/.aws/x", False), ("/etc", False), ("/proc", False), ("/dev/shm", False), ("/run/user/0", False), ("/boot", False),
        ("{home}/notes", True), ("{state}/workspace", True), ("{home}/.openclaw/workspace", True),
    ],
)  # fmt: skip
def test_a_workspace_shows_neither_a_home_nor_keys_nor_the_machine(tmp_path: Path, workspace: str, shown: bool) -> None:
    """Wherever the state folder is: in a home lie keys, and what a shell runs at the next login."""
    home, state = tmp_path / "home", tmp_path / "elsewhere" / "state"
    for folder in (home, state):
        folder.mkdir(parents=True)
    (home / "link").symlink_to(home)
    folder = Path(workspace.format(home=home, state=state))
    spec = resolve(SandboxSettings(), Place(main_session("main"), folder, home, state), lambda _: True)
    assert spec.enforced
    assert (spec.access is Access.RW) is shown
