from pathlib import Path

import pytest

from homarus.core.errors import ConfigError, Denied
from homarus.core.routes import SessionKey
from homarus.sandbox.process import Order, start
from homarus.sandbox.resolve import Place, is_dangerous_variable, parse_binds, resolve
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Access, Backend, Limits, SandboxSpec


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for name in ("ws", "home/.openclaw", "home/.ssh", "data"):
        (tmp_path / name).mkdir(parents=True)
    return Place(SessionKey.parse("main"), tmp_path / "ws", tmp_path / "home", tmp_path / "home" / ".openclaw")


def everything(_: Backend) -> bool:
    return True


def nothing(_: Backend) -> bool:
    return False


def test_without_a_setting_every_session_is_sandboxed(place: Place) -> None:
    spec = resolve(SandboxSettings(), place, everything)
    assert spec.backend is Backend.BWRAP
    assert (spec.access, spec.network, spec.limits) == (Access.RW, False, Limits(600, 2048 << 20, 256))


def test_the_next_backend_is_taken_where_the_first_is_missing(place: Place) -> None:
    assert resolve(SandboxSettings(), place, lambda it: it is Backend.LANDLOCK).backend is Backend.LANDLOCK


def test_a_missing_sandbox_never_means_the_host(place: Place) -> None:
    for backend in ("auto", "bwrap", "docker", "ssh"):
        with pytest.raises(Denied, match=r"\(.+\)"):
            resolve(SandboxSettings(backend=backend), place, nothing)  # type: ignore[arg-type]


def test_a_missing_sandbox_names_the_package(place: Place) -> None:
    with pytest.raises(Denied, match="apt install bubblewrap"):
        resolve(SandboxSettings(), place, nothing)


def test_what_is_left_without_a_sandbox_stays_so_for_children(place: Place) -> None:
    left = SandboxSpec.nothing(str(place.workspace), "no sandbox: install one")
    wish = resolve(SandboxSettings(), place, everything)
    for spec in (left, left.narrow(wish), wish.narrow(left), SandboxSpec(Backend.OFF, "/").narrow(left)):
        assert spec.refused == "no sandbox: install one"
        assert spec.enforced
        assert not spec.can_read(str(place.workspace))


async def test_no_command_starts_without_the_sandbox_that_was_wanted(place: Place) -> None:
    spec = SandboxSpec.nothing(str(place.workspace), "no sandbox: install one")
    with pytest.raises(Denied, match="install one"):
        await start(spec, Order(("/bin/true",), "/", {}, "m"))


def test_the_host_needs_an_explicit_word(place: Place) -> None:
    assert resolve(SandboxSettings(mode="off"), place, nothing).backend is Backend.OFF
    assert resolve(SandboxSettings(mode="non-main"), place, nothing).backend is Backend.OFF
    group = Place(SessionKey.parse("agent:main:irc:group:x"), place.workspace, place.home, place.state_dir)
    assert resolve(SandboxSettings(mode="non-main"), group, everything).backend is Backend.BWRAP


def test_a_broken_block_closes_everything() -> None:
    assert SandboxSettings.disabled().workspace_access == "none"
    assert SandboxSettings.disabled().mode == "all"


def test_binds_are_resolved_and_dangerous_ones_refused(place: Place, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place.home / ".ssh")

    def parse(*binds: str) -> list[tuple[str, bool]]:
        mounts = parse_binds(list(binds), home=place.home, state_dir=place.state_dir)
        return [(mount.path, mount.writable) for mount in mounts]

    assert parse(f"{tmp_path}/data", f"{tmp_path}/data:rw") == [(f"{tmp_path}/data", False), (f"{tmp_path}/data", True)]
    bad = ["/etc", "/etc/shadow", "/", "/proc", "/var/run/docker.sock", str(place.home), f"{place.home}/.ssh"]
    bad += [
        str(place.state_dir),
        f"{tmp_path}/link",
        "relative",
        f"{tmp_path}/data:exec",
        f"{tmp_path}/missing",
        "~/.ssh",
    ]
    for bind in bad:
        with pytest.raises(ConfigError):
            parse(bind)


@pytest.mark.parametrize(
    ("name", "dangerous"),
    [
        ("LD_PRELOAD", True),
        ("ld_library_path", True),
        ("PATH", True),
        ("BASH_ENV", True),
        ("GIT_CONFIG_COUNT", True),
        ("NODE_OPTIONS", True),
        ("A=B", True),
        ("", True),
        ("MY_TOKEN", False),
        ("LANG", False),
    ],
)
def test_variables_that_choose_what_runs(name: str, dangerous: bool) -> None:
    assert is_dangerous_variable(name) is dangerous


def own(place: Place, **settings: object) -> SandboxSpec:
    return resolve(SandboxSettings(**settings), place, everything)  # type: ignore[arg-type]


def test_without_a_writable_workspace_work_happens_in_a_folder_of_its_own(place: Place) -> None:
    """`none`: only that folder. `ro`: the agent's workspace beside it, to read."""
    workspace, top = str(place.workspace), place.state_dir / "sandboxes"
    for access, seen in (("none", Access.NONE), ("ro", Access.RO)):
        spec = own(place, workspace_access=access)
        assert Path(spec.workspace).parent == top
        assert (spec.access, spec.home_access, spec.instead_of) == (Access.RW, seen, workspace)
        assert spec.can_write(f"{spec.workspace}/x")
        assert spec.can_read(workspace) is (access == "ro")
        assert not spec.can_write(f"{workspace}/x")
        assert spec.folder(place.workspace) == Path(spec.workspace)
    assert own(place).folder(place.workspace) == place.workspace
    assert (
        resolve(SandboxSettings(mode="off", workspace_access="none"), place, nothing).folder(place.workspace)
        == place.workspace
    )


def test_whose_folder_it_is(place: Place) -> None:
    others = [
        place,
        Place(SessionKey.parse("agent:main:irc:group:x"), place.workspace, place.home, place.state_dir),
        Place(SessionKey.parse("agent:two:main"), place.workspace, place.home, place.state_dir),
    ]
    for scope, number in (("session", 3), ("agent", 2), ("shared", 1)):
        folders = {own(each, workspace_access="none", scope=scope).workspace for each in others}
        assert len(folders) == number
        assert all(Path(folder).parent == place.state_dir / "sandboxes" for folder in folders)
    assert own(place, workspace_access="none").workspace == own(place, workspace_access="none", scope="agent").workspace


def test_where_the_folders_are(place: Place, tmp_path: Path) -> None:
    assert own(place, workspace_access="none", workspace_root="~/boxes").workspace.startswith(f"{place.home}/boxes/")
    assert own(place, workspace_access="none", workspace_root=f"{tmp_path}/b").workspace.startswith(f"{tmp_path}/b/")
    for bad in ("/etc", "~/.ssh", "/proc"):
        assert own(place, workspace_access="none", workspace_root=bad).access is Access.NONE
    evil = Place(SessionKey.parse("agent:main:irc:group:../../../x"), place.workspace, place.home, place.state_dir)
    assert Path(own(evil, workspace_access="none", scope="session").workspace).parent == place.state_dir / "sandboxes"


def test_a_child_works_in_the_folder_of_its_parent(place: Place) -> None:
    parent = own(place, workspace_access="ro", scope="session")
    child = Place(SessionKey.parse("agent:main:subagent:1"), place.workspace, place.home, place.state_dir)
    given = parent.narrow(own(child, workspace_access="ro", scope="session"))
    assert (given.workspace, given.access) == (parent.workspace, Access.RW)
    assert parent.contains(given)
