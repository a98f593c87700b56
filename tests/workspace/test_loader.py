"""Guarded, cached reading: the same object while nothing changed, and no file that can hang, escape or end a turn."""

from __future__ import annotations

import os
import socket
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from homarus.core.clock import ManualClock
from homarus.storage.boundary import Guarded, Root
from homarus.workspace import names
from homarus.workspace.loader import WorkspaceFile, WorkspaceLoader, read_sections
from homarus.workspace.settings import MAX_FILE_BYTES

# The files of these tests are milliseconds old; to this clock they have long settled.
LATER = ManualClock(datetime(2100, 1, 1, tzinfo=UTC))


@pytest.fixture
def loader(warnings) -> WorkspaceLoader:
    return WorkspaceLoader(warn=warnings.append, clock=LATER)


def get(loader: WorkspaceLoader, workspace: Path, name: str) -> WorkspaceFile:
    return next(file for file in loader.load(workspace) if file.name == name)


class CountingRoot(Root):
    """Counts what is opened, by name."""

    reads: list[str] = []
    looks: list[str] = []

    def read(self, name, *, max_bytes):
        type(self).reads.append(str(name))
        return super().read(name, max_bytes=max_bytes)

    def fingerprint(self, name):
        type(self).looks.append(str(name))
        return super().fingerprint(name)


def counting() -> type[CountingRoot]:
    return type("Counting", (CountingRoot,), {"reads": [], "looks": []})


def test_all_standard_files_are_loaded_in_prompt_order(workspace, loader, warnings):
    files = loader.load(workspace)
    assert [file.name for file in files] == [
        "AGENTS.md",
        "SOUL.md",
        "IDENTITY.md",
        "USER.md",
        "TOOLS.md",
        "BOOTSTRAP.md",
        "MEMORY.md",
        "HEARTBEAT.md",
    ]
    assert files[1].content == "# SOUL.md\n\nText of SOUL.md.\n"
    assert files[1].raw_chars == len("# SOUL.md\n\nText of SOUL.md.")
    assert files[1].path == str(workspace / "SOUL.md")
    assert warnings == []


def test_boot_and_dreams_are_never_loaded(workspace, loader):
    assert {"BOOT.md", "DREAMS.md"}.isdisjoint(file.name for file in loader.load(workspace))


def test_unchanged_files_give_the_same_tuple_and_are_not_read_again(workspace):
    root = counting()
    loader = WorkspaceLoader(open_root=root, clock=LATER)
    first = loader.load(workspace)
    assert sorted(root.reads) == sorted(set(names.LOADED) - {names.MEMORY_LOWER})  # which is not there, and not opened
    root.reads.clear()
    assert loader.load(workspace) is first
    assert root.reads == [names.HEARTBEAT]  # on purpose
    (workspace / names.MEMORY_LOWER).write_text("now it is")
    assert "now it is" in [file.content for file in loader.load(workspace)]


def test_no_file_is_opened_twice_in_a_cold_load(workspace):
    root = counting()
    WorkspaceLoader(open_root=root).load(workspace)
    assert root.looks == []
    assert len(root.reads) == len(set(root.reads))


def test_a_touch_changes_the_fingerprint_and_keeps_the_object(workspace, loader):
    first = loader.load(workspace)
    os.utime(workspace / "SOUL.md", ns=(1, 1))
    with Root(workspace) as root:
        assert root.fingerprint("SOUL.md").fingerprint != first[1].fingerprint
    assert loader.load(workspace) is first


def test_a_touched_file_is_not_read_at_every_later_turn(workspace):
    root = counting()
    loader = WorkspaceLoader(open_root=root, clock=LATER)
    loader.load(workspace)
    os.utime(workspace / "SOUL.md", ns=(1, 1))
    loader.load(workspace)
    root.reads.clear()
    loader.load(workspace)
    assert "SOUL.md" not in root.reads


def test_a_replacement_of_the_same_size_and_time_is_seen(workspace, loader):
    before = loader.load(workspace)
    old = (workspace / "SOUL.md").stat()
    new = workspace / "new"
    new.write_text((workspace / "SOUL.md").read_text().replace("Text", "Next"))
    os.utime(new, ns=(old.st_atime_ns, old.st_mtime_ns))
    new.rename(workspace / "SOUL.md")
    after = loader.load(workspace)
    assert after is not before
    assert "Next of SOUL.md" in (after[1].content or "")
    # Texts that did not change are the same objects, so whoever compares them compares nothing.
    assert after[0].content is before[0].content


def test_two_writes_within_a_tick_of_the_disks_clock_are_both_seen(workspace):
    moment = datetime.now(UTC)
    stopped = int(moment.timestamp() * 1000) * 10**6

    class SlowClock(Root):
        """A disk on which everything happens at the same moment."""

        def read(self, name, *, max_bytes):
            return self._slow(super().read(name, max_bytes=max_bytes))

        def fingerprint(self, name):
            return self._slow(super().fingerprint(name))

        def _slow(self, got):
            stable = ":".join([*got.fingerprint.split(":")[:3], str(stopped), str(stopped)])
            return replace(got, fingerprint=stable) if got.kind == "ok" else got

    loader = WorkspaceLoader(open_root=SlowClock, clock=ManualClock(moment))
    for text in ("one", "two"):
        with (workspace / "SOUL.md").open("wb") as handle:
            handle.write(text.encode())
        assert get(loader, workspace, "SOUL.md").content == text


def test_a_young_file_is_trusted_once_it_has_settled(workspace):
    root, clock = counting(), ManualClock(datetime.now(UTC))
    loader = WorkspaceLoader(open_root=root, clock=clock)
    first = loader.load(workspace)
    assert loader.load(workspace) is first
    assert root.reads.count("SOUL.md") == 2
    clock.advance(60)
    for _ in range(3):
        assert loader.load(workspace) is first
    assert root.reads.count("SOUL.md") == 3


def test_the_heartbeat_list_is_read_at_every_load(workspace):
    root = counting()
    loader = WorkspaceLoader(open_root=root, clock=LATER)
    for _ in range(3):
        loader.load(workspace)
    assert root.reads.count("HEARTBEAT.md") == 3
    assert "HEARTBEAT.md" not in root.looks


def test_forgetting_gives_a_new_object(workspace, loader):
    first = loader.load(workspace)
    loader.forget(workspace)
    assert loader.load(workspace) == first
    assert loader.load(workspace) is not first


def test_missing_files_are_marked_and_memory_is_left_out(tmp_path, loader, warnings):
    files = loader.load(tmp_path)
    assert all(file.missing and file.content is None for file in files)
    assert [file.name for file in files] == [n for n in names.LOADED if not names.is_memory(n)]
    assert warnings == []


def test_a_workspace_that_is_not_there_is_all_missing(tmp_path, loader, warnings):
    assert all(file.missing for file in loader.load(tmp_path / "nowhere"))
    assert warnings == []


def test_a_workspace_that_is_a_file_is_unreadable(tmp_path, loader, warnings):
    path = tmp_path / "file"
    path.write_text("x")
    assert all(file.unreadable for file in loader.load(path))
    assert warnings


def test_a_link_that_leaves_is_refused(workspace, loader, warnings, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    for target in (secret, Path("/etc/hosts"), Path("../secret.txt")):
        (workspace / "SOUL.md").unlink()
        (workspace / "SOUL.md").symlink_to(target)
        soul = get(loader, workspace, "SOUL.md")
        assert soul.content is None
        assert soul.unreadable
    assert "SOUL.md cannot be read" in warnings[0]


def test_a_folder_link_on_the_way_out_is_refused(workspace, loader, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "AGENTS.md").write_text("secret")
    (workspace / "sub").symlink_to(tmp_path / "outside")
    (file,) = loader.read(workspace, ["sub/AGENTS.md"])
    assert file.unreadable
    assert file.content is None


def test_a_link_that_stays_inside_is_followed(workspace, loader):
    (workspace / "persona").mkdir()
    (workspace / "persona" / "soul.md").write_text("inside")
    (workspace / "SOUL.md").unlink()
    (workspace / "SOUL.md").symlink_to("persona/soul.md")
    soul = get(loader, workspace, "SOUL.md")
    assert soul.content == "inside"
    assert soul.realpath == str((workspace / "persona" / "soul.md").resolve())


def test_pipes_sockets_folders_and_loops_do_not_hang(workspace, loader, warnings, monkeypatch):
    for name in ("USER.md", "SOUL.md", "TOOLS.md", "IDENTITY.md"):
        (workspace / name).unlink()
    os.mkfifo(workspace / "USER.md")
    (workspace / "SOUL.md").mkdir()
    (workspace / "TOOLS.md").symlink_to("TOOLS.md")
    monkeypatch.chdir(workspace)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("IDENTITY.md")
        bad = {file.name: file for file in loader.load(workspace) if file.unreadable}
    assert set(bad) == {"USER.md", "SOUL.md", "TOOLS.md", "IDENTITY.md"}
    assert len(warnings) == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_refused(workspace, loader):
    (workspace / "USER.md").unlink()
    try:
        os.mknod(workspace / "USER.md", 0o020666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no devices here")
    assert get(loader, workspace, "USER.md").unreadable


def test_a_three_gigabyte_file_is_cut_with_one_warning(workspace, loader, warnings):
    with (workspace / "USER.md").open("wb") as handle:
        handle.write(b"Hello.\n")
        handle.truncate(3 * 1024**3)
    for _ in range(3):
        user = get(loader, workspace, "USER.md")
    assert user.content == "Hello.\n\ufffd"
    assert user.beyond == 3 * 1024**3 - MAX_FILE_BYTES
    assert len([line for line in warnings if "over 2,097,152 bytes" in line]) == 1


def test_the_cap_falls_on_a_whole_character(workspace, loader):
    (workspace / "USER.md").write_bytes(b"x" + "ä".encode() * MAX_FILE_BYTES)
    text = get(loader, workspace, "USER.md").content or ""
    assert set(text) == {"x", "ä"}
    assert len(text.encode()) == MAX_FILE_BYTES - 1


def test_a_file_of_exactly_the_cap_is_whole(workspace, loader, warnings):
    (workspace / "USER.md").write_bytes(b"y" * MAX_FILE_BYTES)
    user = get(loader, workspace, "USER.md")
    assert user.raw_chars == MAX_FILE_BYTES
    assert user.beyond == 0
    assert warnings == []


def test_bytes_that_are_no_text_become_replacements(workspace, loader, warnings):
    (workspace / "USER.md").write_bytes(b"\xef\xbb\xbfa\xff\xfeb\x80")
    (workspace / "SOUL.md").write_bytes(b"x\0\0\0y\0")
    assert get(loader, workspace, "USER.md").content == "a\ufffd\ufffdb\ufffd"
    assert get(loader, workspace, "SOUL.md").content == "x\ufffdy\ufffd"
    assert any("USER.md is not all UTF-8" in line for line in warnings)
    assert any("SOUL.md holds NUL bytes" in line for line in warnings)


def test_a_replacement_character_that_was_written_is_no_problem(workspace, loader, warnings):
    (workspace / "USER.md").write_text("a\ufffdb", encoding="utf-8")
    assert get(loader, workspace, "USER.md").content == "a\ufffdb"
    assert warnings == []


def test_a_file_swapped_during_the_read_gives_one_whole_version(workspace):
    new = workspace / "swap"

    class Swapping(Root):
        def read(self, name, *, max_bytes):
            if str(name) == "SOUL.md":
                new.write_text("new text")
                new.rename(workspace / "SOUL.md")
            return super().read(name, max_bytes=max_bytes)

    loader = WorkspaceLoader(open_root=Swapping)
    assert get(loader, workspace, "SOUL.md").content == "new text"


def test_a_file_that_never_holds_still_is_unreadable_and_tried_again(workspace, warnings):
    class Restless(Root):
        def read(self, name, *, max_bytes):
            if str(name) == "SOUL.md":
                return Guarded("io", reason="it changes faster than it can be read")
            return super().read(name, max_bytes=max_bytes)

    loader = WorkspaceLoader(open_root=Restless, warn=warnings.append)
    assert get(loader, workspace, "SOUL.md").unreadable == "it changes faster than it can be read"
    assert get(loader, workspace, "SOUL.md").unreadable
    assert len(warnings) == 1
    calm = WorkspaceLoader(warn=warnings.append)
    assert get(calm, workspace, "SOUL.md").content


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.deep)])
def test_any_number_of_other_files_changes_nothing(workspace, count):
    for number in range(count):
        os.close(os.open(workspace / f"note-{number}.md", os.O_CREAT | os.O_WRONLY))
    root = counting()
    root.listdir = None  # whoever lists the folder fails
    WorkspaceLoader(open_root=root).load(workspace)
    assert sorted(root.reads) == sorted(set(names.LOADED) - {names.MEMORY_LOWER})


def test_both_memory_files_are_loaded_when_they_differ(workspace, loader):
    (workspace / "memory.md").write_text("lower")
    assert [f.name for f in loader.load(workspace) if names.is_memory(f.name)] == ["MEMORY.md", "memory.md"]


@pytest.mark.parametrize("link", ["hard", "soft"])
def test_two_names_for_one_memory_are_loaded_once(workspace, loader, link):
    if link == "hard":
        os.link(workspace / "MEMORY.md", workspace / "memory.md")
    else:
        (workspace / "memory.md").symlink_to("MEMORY.md")
    assert [f.name for f in loader.load(workspace) if names.is_memory(f.name)] == ["MEMORY.md"]


def test_a_disk_that_ignores_case_does_not_invent_a_second_memory(workspace):
    (workspace / "MEMORY.md").rename(workspace / "memory.md")

    class CaseBlind(Root):
        def read(self, name, *, max_bytes):
            return super().read("memory.md" if name == "MEMORY.md" else name, max_bytes=max_bytes)

    loader = WorkspaceLoader(open_root=CaseBlind)
    assert [f.name for f in loader.load(workspace) if names.is_memory(f.name)] == ["memory.md"]


def test_the_caches_are_bounded(tmp_path):
    loader = WorkspaceLoader(keep=4)
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "SOUL.md").write_text(str(number))
        loader.load(folder)
    assert len(loader._snapshots) == 4
    assert len(loader._texts) <= 64


RULES = """# Rules
intro
## Session Startup
Read memory/YYYY-MM-DD.md.
### Detail
More.
## Other
no
```
## Red Lines
```
### Red lines ##
Never delete.
# End
"""


@pytest.mark.parametrize(
    ("headings", "expected"),
    [
        (["Session startup"], "## Session Startup\nRead memory/2026-05-01.md.\n### Detail\nMore."),
        (["## Detail", "red lines"], "### Detail\nMore.\n### Red lines ##\nNever delete."),
        (["Rules", "nothing"], ""),
    ],
)
def test_named_sections_of_the_rules(tmp_path, headings, expected):
    (tmp_path / "AGENTS.md").write_text(RULES)
    assert read_sections(tmp_path, headings, date(2026, 5, 1)) == expected


def test_named_sections_are_bounded_and_a_missing_file_has_none(tmp_path):
    assert read_sections(tmp_path, ["A"], date(2026, 5, 1)) == ""
    assert read_sections(tmp_path / "gone", ["A"], date(2026, 5, 1)) == ""
    (tmp_path / "AGENTS.md").write_text("## A\n" + "x" * 9_000)
    assert len(read_sections(tmp_path, ["A"], date(2026, 5, 1))) == 1_800
