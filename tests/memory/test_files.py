from __future__ import annotations

import os

import pytest

from homarus.memory.files import NoteSet, transcripts
from homarus.memory.settings import ExtraPath


@pytest.fixture
def home(tmp_path):
    root = tmp_path / "ws"
    for path in (
        "MEMORY.md",
        "USER.md",
        "AGENTS.md",
        "DREAMS.md",
        "memory/2026-01-01.md",
        "memory/deep/er/note.md",
        "memory/.dreams/state.md",
        "memory/.hidden.md",
        "memory/data.json",
        "bank/world.md",
        "projects/plan.md",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return root


def paths(notes):
    return [found.path for found in notes.sweep()]


def test_which_files_are_notes(home):
    assert paths(NoteSet(home)) == [
        "MEMORY.md",
        "USER.md",
        "bank/world.md",
        "memory/2026-01-01.md",
        "memory/deep/er/note.md",
    ]


def test_a_missing_workspace_is_an_empty_one(tmp_path):
    assert paths(NoteSet(tmp_path / "nowhere")) == []
    assert transcripts(tmp_path / "nowhere") == []


def test_both_spellings_when_they_are_two_files(home):
    (home / "memory.md").write_text("other")
    assert paths(NoteSet(home))[:3] == ["MEMORY.md", "USER.md", "bank/world.md"]
    assert "memory.md" in paths(NoteSet(home))


def test_one_spelling_when_they_are_one_file(home):
    os.link(home / "MEMORY.md", home / "memory.md")
    assert [path for path in paths(NoteSet(home)) if path.lower() == "memory.md"] == ["MEMORY.md"]


def test_symlinks_are_skipped_everywhere(home, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (home / "memory" / "link.md").symlink_to(outside / "secret.md")
    (home / "memory" / "folder").symlink_to(outside)
    (home / "USER.md").unlink()
    (home / "USER.md").symlink_to(outside / "secret.md")
    notes = NoteSet(home, [str(outside / "secret.md"), str(home / "memory" / "folder")])
    assert paths(notes)[0].endswith("outside/secret.md")
    assert [skipped.partition(": ")[2] for skipped in notes.skipped] == [
        "is a symlink, or lies behind one; name the real path"
    ]
    assert paths(notes)[1:] == ["MEMORY.md", "bank/world.md", "memory/2026-01-01.md", "memory/deep/er/note.md"]


def test_a_linked_memory_folder_is_not_walked(home, tmp_path):
    other = tmp_path / "other"
    (home / "memory").rename(other)
    (home / "memory").symlink_to(other)
    assert paths(NoteSet(home)) == ["MEMORY.md", "USER.md", "bank/world.md"]


def test_extra_paths(home, tmp_path):
    outside = tmp_path / "library"
    for name in ("a.md", "sub/b.md", "sub/c.txt"):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text(name)
    assert "projects/plan.md" in paths(NoteSet(home, ["projects"]))
    assert "projects/plan.md" in paths(NoteSet(home, ["projects/plan.md"]))
    found = paths(NoteSet(home, [str(outside)]))
    assert found[:2] == [f"{outside}/a.md", f"{outside}/sub/b.md"]
    assert paths(NoteSet(home, [ExtraPath(str(outside), "sub/*.md")]))[0] == f"{outside}/sub/b.md"
    assert f"{tmp_path}/library/a.md" in paths(NoteSet(home, ["~/library"], home=tmp_path))
    notes = NoteSet(home, ["nowhere", "projects/none.txt"])
    notes.sweep()
    assert [skipped.partition(": ")[0] for skipped in notes.skipped] == ["nowhere", "projects/none.txt"]


def test_every_found_path_can_be_located_again(home, tmp_path):
    outside = tmp_path / "library"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / "b.md").write_text("b")
    notes = NoteSet(home, [str(outside), "projects", "AGENTS.md"])
    for found in notes.sweep():
        assert notes.locate(found.path) == (found.root, found.name)
        assert (found.root / found.name).is_file()


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "/",
        "..",
        "../ws/MEMORY.md",
        "memory/../AGENTS.md",
        "memory/../../etc/passwd.md",
        "/etc/passwd",
        "/etc/motd.md",
        "AGENTS.md",
        "memory",
        "memory/",
        "memory/x.txt",
        "memory/.dreams/state.md",
        "memory/\0.md",
        "memory\\..\\x.md",
        "MEMORY.MD/../x.md",
        "sessions/a.jsonl",
        "projects/plan.md",
        "file:///etc/x.md",
        "~/x.md",
    ],
)
def test_paths_that_no_rule_allows(home, path):
    assert NoteSet(home).locate(path) is None


def test_stamps_follow_edits(home):
    notes = NoteSet(home)
    before = {found.path: found.stamp for found in notes.sweep()}
    target = home / "memory" / "2026-01-01.md"
    state = target.stat()
    target.write_text("M" * state.st_size)
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))
    after = {found.path: found.stamp for found in notes.sweep()}
    assert {path for path in before if before[path] != after[path]} == {"memory/2026-01-01.md"}
