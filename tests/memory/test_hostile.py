"""Nothing outside the notes can be read, whatever the path, the links and the file types."""

from __future__ import annotations

import os

import pytest

from homarus.memory.settings import MemorySettings
from homarus.storage.boundary import BoundaryError

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
    "memory/\uff0e\uff0e/private.md",  # full-width dots must stay letters
    "memory/\u2024\u2024/private.md",
    "memory/..\u200b/private.md",
    "memory/..%00/private.md",
    "memory/ok.md\n../private.md",
    "MEMORY.md/",
    "memory/ok.md/",
    "/proc/self/cwd/private.md",
    "/proc/self/root/etc/x.md",
    "/dev/stdin.md",
    "//etc/x.md",
    "memory/\udcff.md",
    "@private.md",
    "private.md#L1",
    "../outside/secret.md#L1-L9",
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


@pytest.mark.parametrize("path", ["docs", "docs/sub", "docs/sub/plan.md", "docs/**/*.md"])
def test_an_extra_path_inside_the_workspace_cannot_be_led_elsewhere(notes, tmp_path, path):
    outside = tmp_path / "outside" / "sub"
    outside.mkdir(parents=True)
    (outside / "plan.md").write_text(f"{SECRET}\n")
    notes.write("docs/sub/plan.md", "our plan\n")
    memory = notes.open(settings=MemorySettings(extra_paths=(path,)))
    assert memory.get("docs/sub/plan.md").text == "our plan"
    assert memory.search("plan")[0].text == "our plan"
    (notes.root / "docs").rename(notes.root / "kept")
    (notes.root / "docs").symlink_to(tmp_path / "outside")
    assert memory.get("docs/sub/plan.md").text == ""
    assert not memory.search(SECRET).hits
    assert any("symlink" in problem for problem in memory.sync().problems)


def test_an_extra_folder_swapped_for_a_link_between_looking_and_reading(notes, tmp_path):
    outside, library = tmp_path / "outside", tmp_path / "library"
    for folder, text in ((outside, SECRET), (library, "a book")):
        folder.mkdir()
        (folder / "book.md").write_text(f"{text}\n")
    memory = notes.open(settings=MemorySettings(extra_paths=(str(library),)))
    (found,) = memory.notes.sweep()
    library.rename(tmp_path / "kept")
    library.symlink_to(outside)
    with pytest.raises(BoundaryError):
        memory._sync._read(found, 1000)


def test_files_swapped_for_links_while_everything_is_read(notes, tmp_path):
    """Writers replace notes and folders by links all the time; a reader never gets a line from outside."""
    import threading

    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text(f"{SECRET}\n")
    folder, kept = notes.root / "memory" / "f", notes.root / "memory" / "kept"
    notes.write("memory/f/a.md", "mine\n")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            folder.rename(kept)
            folder.symlink_to(outside)
            folder.unlink()
            kept.rename(folder)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        memory = notes.open()
        for _ in range(150):
            assert memory.get("memory/f/a.md").text in {"", "mine"}
            memory.sync()
        assert not any(SECRET in hit.text for hit in memory.search(SECRET, 50, 0.0))
    finally:
        stop.set()
        swapper.join()


def test_hidden_files_count_only_where_the_owner_named_the_folder(notes, tmp_path):
    library = tmp_path / ".library"
    for name in ("a.md", ".git/b.md", ".c.md", "sub/.d.md"):
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(f"book {name}\n")
    memory = notes.open(settings=MemorySettings(extra_paths=(str(library),)))
    assert [hit.path for hit in memory.search("book", 9, 0.0)] == [f"{library}/a.md"]
    assert memory.get(f"{library}/a.md").text == "book a.md"
    for name in (".git/b.md", ".c.md", "sub/.d.md"):
        assert memory.get(f"{library}/{name}").status == "error"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("docs", ["docs/a.md", "docs/sub/b.md", "docs/sub/deep/c.md"]),
        ("docs/*.md", ["docs/a.md"]),
        ("docs/*/*.md", ["docs/sub/b.md"]),
        ("docs/**/*.md", ["docs/a.md", "docs/sub/b.md", "docs/sub/deep/c.md"]),
        ("docs/**/c.md", ["docs/sub/deep/c.md"]),
        ("docs/[ab].md", ["docs/a.md"]),
        ("docs/[!a].md", []),
        ("docs/?.md", ["docs/a.md"]),
        ("docs/[", []),
        ("docs/sub/../a.md", ["docs/a.md"]),
        ("", []),
        ("   ", []),
        ("\0", []),
        ("nowhere/*.md", []),
    ],
)
def test_globs_and_odd_extra_paths(notes, given, found):
    for name in ("a.md", "sub/b.md", "sub/deep/c.md", "x.txt"):
        notes.write(f"docs/{name}", f"{name}\n")
    memory = notes.open(settings=MemorySettings(extra_paths=(given,)))
    assert [item.path for item in memory.notes.sweep()] == found
    for path in ("docs/a.md", "docs/sub/b.md", "docs/sub/deep/c.md", "docs/x.txt"):
        assert (memory.get(path).status == "ok") is (path in found)


def test_two_extra_paths_over_one_file_are_one_note(notes):
    notes.write("docs/a.md", "one\n")
    memory = notes.open(settings=MemorySettings(extra_paths=("docs", "docs/a.md", "docs/../docs", "docs/*.md")))
    assert memory.sync().files == 1
