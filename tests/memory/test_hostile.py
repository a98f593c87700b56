"""Nothing outside the notes can be read, whatever the path, the links and the file types."""

from __future__ import annotations

import os

import pytest

from homarus.memory.settings import MemorySettings

SECRET = "top secret content"


@pytest.fixture
def trap(notes, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text(f"{SECRET}\n")
    (notes.root / "private.md").write_text(f"{SECRET}\n")
    (notes.root / ".env.md").write_text(f"{SECRET}\n")
    notes.write("memory/ok.md", "fine\n")
    notes.write("memory/.hidden/x.md", f"{SECRET}\n")
    (notes.root / "memory" / "file-link.md").symlink_to(outside / "secret.md")
    (notes.root / "memory" / "folder-link").symlink_to(outside)
    (notes.root / "memory" / "up-link").symlink_to("..")
    (notes.root / "memory" / "loop.md").symlink_to("loop.md")
    (notes.root / "memory" / "inside-link.md").symlink_to("ok.md")
    os.mkfifo(notes.root / "memory" / "pipe.md")
    (notes.root / "memory" / "folder.md").mkdir()
    return notes


HOSTILE = [
    "../outside/secret.md",
    "memory/../private.md",
    "memory/../../outside/secret.md",
    "memory/./../private.md",
    "memory//..//private.md",
    "memory/ok.md/../../private.md",
    "./private.md",
    "private.md",
    ".env.md",
    "memory/.hidden/x.md",
    "memory/file-link.md",
    "memory/inside-link.md",
    "memory/folder-link/secret.md",
    "memory/up-link/private.md",
    "memory/loop.md",
    "memory/pipe.md",
    "memory/folder.md",
    "memory/ok.md\x00.md",
    "memory\\..\\private.md",
    "/etc/passwd",
    "/proc/self/environ.md",
    "~/secret.md",
    "file:memory/ok.md",
    "sessions/abc.jsonl",
    "MEMORY.md/../private.md",
    "memory/%2e%2e/private.md",
    "memory/" + "a" * 300 + ".md",
    "memory/" + "a/" * 3000 + "x.md",
    "\u202ememory/ok.md",
]


@pytest.mark.parametrize("path", HOSTILE)
def test_get_refuses(trap, path):
    found = trap.open().get(path)
    assert found.status in {"error", "not_found"}
    assert found.text == ""
    assert SECRET not in found.error


@pytest.mark.parametrize("path", HOSTILE)
def test_get_refuses_with_extra_paths_too(trap, tmp_path, path):
    extra = tmp_path / "library"
    extra.mkdir()
    (extra / "book.md").write_text("a book\n")
    (extra / "link.md").symlink_to(tmp_path / "outside" / "secret.md")
    memory = trap.open(settings=MemorySettings(extra_paths=(str(extra), "memory/ok.md")))
    assert memory.get(f"{extra}/book.md").text == "a book"
    for name in (
        path,
        f"{extra}/link.md",
        f"{extra}/../outside/secret.md",
        f"{extra}",
        f"{extra}/none.md",
        f"{extra}evil/x.md",
    ):
        assert memory.get(name).text == ""


def test_the_index_holds_none_of_it(trap):
    memory = trap.open()
    answer = memory.search(SECRET, 20, min_score=0.0)
    assert not any(SECRET in hit.text for hit in answer)
    assert memory.status().files == 1


def test_an_extra_path_that_is_a_link_is_skipped_and_named(trap, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "outside")
    memory = trap.open(settings=MemorySettings(extra_paths=(str(link), str(link / "secret.md"))))
    report = memory.sync()
    assert any("symlink" in problem for problem in report.problems)


def test_a_folder_swapped_for_a_link_is_not_followed(trap, tmp_path):
    memory = trap.open()
    memory.sync()
    (trap.root / "memory").rename(trap.root / "kept")
    (trap.root / "memory").symlink_to(tmp_path / "outside")
    assert memory.get("memory/secret.md").text == ""
    assert not any(SECRET in hit.text for hit in memory.search(SECRET))


def test_case_must_be_exact(notes):
    notes.write("memory/Note.md", "hello there\n")
    memory = notes.open()
    found = memory.get("memory/note.md")
    assert found.status == "not_found" or found.text == "hello there"  # the second on file systems without case


def test_files_that_vanish_or_cannot_be_read_are_reported_not_fatal(notes):
    path = notes.write("memory/a.md", "one boat\n")
    notes.write("memory/b.md", "two boats\n")
    path.chmod(0)
    memory = notes.open()
    memory.sync()
    assert memory.search("two boats")
    path.chmod(0o600)
