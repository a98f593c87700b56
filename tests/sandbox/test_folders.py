"""What stays as it is in the folders that a command may write: repositories, whatever their place and whatever is missing in them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from homarus.core.cancel import Cancel
from homarus.core.errors import ToolError
from homarus.sandbox import folders
from homarus.sandbox.process import Order, available, run
from homarus.sandbox.resolve import clean_environment
from homarus.sandbox.spec import Access, Backend, Mount, SandboxSpec
from homarus.tools.git import alone

BACKENDS = [backend for backend in (Backend.BWRAP, Backend.LANDLOCK) if available(backend)]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git (apt install git)")
needs_bwrap = pytest.mark.skipif(Backend.BWRAP not in BACKENDS, reason="needs bubblewrap (apt install bubblewrap)")
WHO = "-c user.name=x -c user.email=y"


async def said(spec: SandboxSpec, command: str, cwd: Path | None = None) -> str:
    """Run what exec would run."""
    folder, env = str(cwd or spec.workspace), clean_environment(spec, os.environ, {})
    if own := alone(command, folder, env, spec):
        command, env, spec = own.script, own.env, own.spec
    order = Order(("/bin/sh", "-c", command), folder, env, os.urandom(6).hex())
    output, _ = await run(spec, order, limit=20_000, seconds=30, cancel=Cancel())
    return output.decode("utf-8", "replace")


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    line = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=y", *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, env=env).stdout


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    (folder / "f").write_text("one\n")
    git(folder, "add", "f")
    git(folder, "commit", "-qm", "one")
    return folder


# Each plants something that runs when the owner uses git, by a name that is there or by one that is not. {evil} is a program
# that leaves a file behind.
PLANTED = [
    "git config core.fsmonitor {evil}",
    "cp -r .git evil && git config -f evil/config core.fsmonitor {evil} && echo ../evil > .git/commondir",
    "printf '[core]\\n\\tfsmonitor = {evil}\\n' >> .git/config",
    "printf '[core]\\n\\tfsmonitor = {evil}\\n' > .git/config.worktree; git config extensions.worktreeConfig true",
    "rm -rf .git/hooks; mkdir .git/hooks; cp {evil} .git/hooks/pre-commit; cp {evil} .git/hooks/post-index-change",
    "mv .git old; cp -r old .git; git config core.fsmonitor {evil}",
    "rm -rf .git; git init -q; git config core.fsmonitor {evil}",
    "git init -q other; git -C other config core.fsmonitor {evil}; rm -rf .git; echo 'gitdir: other/.git' > .git",
    "git init -q other; git -C other config core.fsmonitor {evil}; ln -sfn other/.git .git; mv -T other/.git .git",
    "mkdir -p .git/info && echo '* filter=x' > .git/info/attributes; git config filter.x.clean {evil}; touch f",
    "git init -q sub; git -C sub " + WHO + " commit -q --allow-empty -m x; git -C sub config core.fsmonitor {evil}; git add sub",
    "git --git-dir=.git config core.fsmonitor {evil}; GIT_DIR=.git git config core.fsmonitor {evil}",
    "git diff --output=.git/commondir; git log --output=.git/config",
    'python3 -c \'import ctypes; ctypes.CDLL(None).syscall(316, -100, b".git", -100, b"notes", 2)\'',
]  # fmt: skip


@needs_git
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", ["workspace", "bind", "nested", "nested in a bind", "locked"])
async def test_nothing_is_planted_in_a_repository(tmp_path: Path, backend: Backend, place: str) -> None:
    """Written first as the escape: every line ran on the host with the owner's next `git status`."""
    workspace, bind = tmp_path / "ws", tmp_path / "bind"
    top = {"bind": bind, "nested": workspace / "a" / "b", "nested in a bind": bind / "c"}.get(place, workspace)
    for folder in (workspace, bind, top / "notes"):
        folder.mkdir(parents=True, exist_ok=True)
    repository(top)
    evil = top / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    evil.chmod(0o755)
    spec = SandboxSpec(
        backend,
        str(workspace),
        mounts=(Mount(str(bind), True),),
        locked=("SOUL.md", ".git") if place == "locked" else (),
    )
    files = sorted(str(path) for path in (top / ".git").rglob("*"))
    config = (top / ".git" / "config").read_text()
    for command in PLANTED:
        await said(spec, command.format(evil=evil), top)
        assert (top / ".git" / "config").read_text() == config, command
        now = sorted(str(path) for path in (top / ".git").rglob("*"))
        assert [path for path in now if "/objects" not in path] == [path for path in files if "/objects" not in path], (
            command
        )
        for work in (("status",), ("add", "-A", "--dry-run"), ("diff",)):
            git(top, *work)
        assert not (tmp_path / "ran").exists(), command


@needs_git
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_folder_around_a_repository_cannot_be_exchanged(tmp_path: Path, backend: Backend) -> None:
    top = repository(tmp_path / "a" / "b")
    spec = SandboxSpec(backend, str(tmp_path))
    await said(spec, "mv a old; mkdir -p a/b/.git; echo evil > a/b/.git/config; mv a/b c; rm -rf a")
    assert git(top, "log", "--format=%s") == "one\n"
    assert "evil" not in (top / ".git" / "config").read_text()


@needs_git
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_submodule_that_is_not_there_yet_cannot_be_made(tmp_path: Path, backend: Backend) -> None:
    """The index names it, and so `git status` looks into whatever is there."""
    top = repository(tmp_path / "ws")
    head = git(top, "rev-parse", "HEAD").strip()
    for version in ("2", "4"):
        git(top, "update-index", "--add", "--index-version", version, "--cacheinfo", f"160000,{head},lib/sub")
        (top / "lib" / "sub").mkdir(parents=True, exist_ok=True)
        assert f"{top}/lib/sub" in folders.repositories(str(top))
        await said(
            SandboxSpec(backend, str(top)),
            f"git init -q lib/sub; git -C lib/sub config core.fsmonitor 'touch {tmp_path}/ran'; mv lib old",
        )
        git(top, "status")
        assert not (tmp_path / "ran").exists()


@needs_git
@pytest.mark.parametrize("backend", BACKENDS)
async def test_the_agent_commits_all_the_same(tmp_path: Path, backend: Backend) -> None:
    top = repository(tmp_path / "ws")
    (top / "f").write_text("two\n")
    (top / "new file").write_text("n\n")
    spec = SandboxSpec(backend, str(top))
    assert await said(spec, f"git add -A && git {WHO} commit -qm 'two & more'") == ""
    assert git(top, "log", "--format=%s") == "two & more\none\n"
    assert git(top, "status", "--short") == ""
    assert await said(spec, "git checkout -qb side && git tag v1 && git gc -q") == ""
    (top / "f").write_text("three\n")
    assert await said(spec, f"git {WHO} stash -q && git {WHO} stash pop -q") == ""
    assert git(top, "diff", "--stat").endswith(" 1 file changed, 1 insertion(+), 1 deletion(-)\n")
    assert git(top, "branch", "--show-current") == "side\n"
    assert "side" in await said(spec, "git status | cat; git log --oneline | head -3")
    # From a folder inside, and in a repository of a bind.
    (top / "deep").mkdir()
    (top / "deep" / "g").write_text("g\n")
    assert await said(spec, f"cd deep && git add g && git {WHO} commit -qm three") == ""
    assert git(top, "show", "--stat", "--format=%s").startswith("three\n\n deep/g")


@needs_git
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_first_commit_and_a_refused_one(tmp_path: Path, backend: Backend) -> None:
    git(tmp_path, "init", "-q")
    spec = SandboxSpec(backend, str(tmp_path))
    (tmp_path / "f").write_text("x")
    assert await said(spec, f"git add f && git {WHO} commit -qm one") == ""
    inner = repository(tmp_path / "inner")
    shown = await said(spec, f"git add -A && git {WHO} commit -qm two")
    assert "cannot be added" in shown
    assert "160000" not in git(tmp_path, "ls-files", "-s")
    assert git(tmp_path, "log", "--format=%s") == "one\n"
    (tmp_path / "f").unlink()
    shutil.move(inner, tmp_path / "f")
    assert "cannot be added" in await said(spec, f"git {WHO} commit -qam three")
    assert "160000" not in git(tmp_path, "ls-files", "-s") + git(tmp_path, "ls-tree", "HEAD")
    assert git(tmp_path, "log", "--format=%s") == "one\n"


@needs_git
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_commit_runs_nothing_that_lies_in_the_workspace(tmp_path: Path, backend: Backend) -> None:
    """While git may write there, a hook could do so, too."""
    top = repository(tmp_path / "ws")
    plant = f"#!/bin/sh\necho planted > {top}/.git/commondir\n"
    for name in ("pre-commit", "post-commit", "post-index-change", "fsmonitor"):
        hook = top / "hooks.d" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(plant)
        hook.chmod(0o755)
    git(top, "config", "core.hooksPath", "hooks.d")
    git(top, "config", "core.fsmonitor", str(top / "hooks.d" / "fsmonitor"))
    # A folder that looks like a repository of its own, with settings of its own.
    bare = top / "bare"
    git(top, "init", "-q", "--bare", str(bare))
    git(bare, "config", "filter.x.clean", str(top / "hooks.d" / "pre-commit"))
    (bare / ".gitattributes").write_text("* filter=x\n")
    (top / "f").write_text("two\n")
    await said(SandboxSpec(backend, str(top)), f"git add f && git {WHO} commit -qm two")
    await said(SandboxSpec(backend, str(top)), "cd bare && git add .gitattributes")
    assert not (top / ".git" / "commondir").exists()
    assert git(top, "log", "-1", "--format=%s") == "two\n"


@pytest.mark.parametrize(
    "command",
    [
        "git add -A; git commit -m x", "git commit -m $(id)", "git add -A && make", "make && git add -A", "git config core.fsmonitor x", "git -c core.fsmonitor=x add -A",
        "git add -A | sh", "git stash show --output=.git/config", "git stash list --output=x", "git diff --output=x", "git log", "git status", "git --exec-path=x add f",
        "git --git-dir=x add f", "git -C x add f", "git checkout --recurse-submodules x", "git submodule add x", "git rebase -x sh", "git merge --output x", "git add `id`",
        "git", "git -c user.name=x", "cd ..", "cd .. && git add f", "cd a b && git add f", "GIT_DIR=x git add f", "command git add f", "/usr/bin/git add f", "",
    ],
)  # fmt: skip
def test_what_is_not_git_alone(tmp_path: Path, command: str) -> None:
    (tmp_path / ".git").mkdir()
    assert alone(command, str(tmp_path), {}, SandboxSpec(Backend.BWRAP, str(tmp_path))) is None


def test_which_repository_a_command_may_change(tmp_path: Path) -> None:
    for name in ("ws/.git", "ws/a/.git", "ws/b", "ro/.git", "out/.git"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ws" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "ws" / "c").mkdir()
    (tmp_path / "ws" / "c" / ".git").symlink_to(tmp_path / "out" / ".git")
    spec = SandboxSpec(Backend.BWRAP, f"{tmp_path}/ws", mounts=(Mount(f"{tmp_path}/ro"),))

    def change(folder: str) -> str:
        found = alone("git add f", f"{tmp_path}/{folder}", {"GIT_TRACE": "/x", "GIT_AUTHOR_NAME": "me"}, spec)
        assert found is None or ("GIT_TRACE" not in found.env and found.env["GIT_AUTHOR_NAME"] == "me")
        return found.spec.commits.removeprefix(f"{tmp_path}/") if found else ""

    assert [change(name) for name in ("ws", "ws/b", "ws/a")] == ["ws/.git", "ws/.git", "ws/a/.git"]
    assert [change(name) for name in ("ws/link", "ws/c", "ro", "out", ".")] == [""] * 5


def test_what_is_shown_and_in_which_order(tmp_path: Path) -> None:
    for name in ("ws/a/b/.git", "ws/bare/objects", "ws/bare/refs", "ws/notes", "big/ws2/.git"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ws" / "bare" / "HEAD").touch()
    (tmp_path / "ws" / "SOUL.md").touch()
    at, root = str(tmp_path), f"{tmp_path}/ws"
    spec = SandboxSpec(Backend.BWRAP, root)
    inner = [(f"{root}/a", True), (f"{root}/a/b", True), (f"{root}/a/b/.git", False), (f"{root}/bare", False)]
    assert folders.layers(spec) == [(root, True), *inner]
    assert folders.open_parts(spec) == [f"{root}/SOUL.md", f"{root}/notes"]
    locked = SandboxSpec(Backend.BWRAP, root, locked=("SOUL.md",))
    assert folders.layers(locked)[0] == (root, False)
    assert (f"{root}/SOUL.md", True) not in folders.layers(locked)
    assert (f"{root}/a/b/.git", False) in folders.layers(locked)
    # A folder that can only be read stays so in one that can be written.
    around = SandboxSpec(Backend.BWRAP, f"{at}/big/ws2", Access.RO, mounts=(Mount(f"{at}/big", True),))
    assert folders.layers(around)[-1] == (f"{at}/big/ws2", False)
    assert folders.open_parts(around) == []


def test_too_much_to_look_through_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_FOLDERS", 3)
    for name in "abcd":
        (tmp_path / name).mkdir()
    with pytest.raises(ToolError, match="more than 3 folders"):
        folders.repositories(str(tmp_path))


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_link_in_place_of_a_repository_is_not_replaced(tmp_path: Path, backend: Backend) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / ".git").symlink_to(tmp_path / "real")
    await said(SandboxSpec(backend, str(tmp_path / "ws")), "rm .git; mkdir .git; echo evil > .git/config")
    assert (tmp_path / "ws" / ".git").is_symlink()


@needs_bwrap
async def test_a_file_in_place_of_a_repository_is_not_led_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /somewhere\n")
    await said(SandboxSpec(Backend.BWRAP, str(tmp_path)), "echo gitdir: evil > .git; rm .git; mv .git x; mkdir .git")
    assert (tmp_path / ".git").read_text() == "gitdir: /somewhere\n"
