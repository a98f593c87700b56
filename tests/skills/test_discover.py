"""Finding skills: depth, order, limits, links, and what a hostile folder can try."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.skills.helpers import write_skill

from homarus.core.errors import StorageError
from homarus.skills import discover as module
from homarus.skills.discover import SkillRoot, Source, read_text, scan_root, standard_roots
from homarus.skills.library import discover
from homarus.skills.settings import SkillLimits

LIMITS = SkillLimits()


def names(root: Path, source: Source = Source.WORKSPACE, limits: SkillLimits = LIMITS, links=()) -> list[str]:
    return [skill.name for skill in scan_root(SkillRoot(source, str(root), tuple(map(str, links))), limits).skills]


def test_up_to_six_levels_and_no_further_below_a_hit(tmp_path):
    write_skill(tmp_path, "a")
    write_skill(tmp_path, "a/inner")
    write_skill(tmp_path, "1/2/3/4/5/six")
    write_skill(tmp_path, "1/2/3/4/5/6/seven")
    assert names(tmp_path) == ["six", "a"]


def test_a_root_that_is_a_skill_itself(tmp_path):
    write_skill(tmp_path, ".", name="solo")
    write_skill(tmp_path, "inner")
    assert names(tmp_path) == ["solo"]


def test_the_name_comes_from_the_folder_where_the_header_has_none(tmp_path):
    write_skill(tmp_path, "by-folder", name="")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "SKILL.md").write_bytes(b"\xff no header")
    assert names(tmp_path) == ["by-folder", "plain"]


def test_hidden_and_vendored_folders_are_not_searched(tmp_path):
    for place in (".git/x", "node_modules/y", "__pycache__/z", "real"):
        write_skill(tmp_path, place)
    (tmp_path / "SKILL.md.bak").write_text("")
    (tmp_path / "lower").mkdir()
    (tmp_path / "lower" / "skill.md").write_text("---\nname: lower\n---\n")
    assert names(tmp_path) == ["real"]


def test_the_order_does_not_depend_on_the_disk(tmp_path):
    wanted = [f"s{number:03}" for number in range(40)]
    shuffled = random.Random(7).sample(wanted, len(wanted))
    for name in shuffled:
        write_skill(tmp_path, name)
    assert names(tmp_path) == wanted
    assert scan_root(SkillRoot(Source.EXTRA, str(tmp_path)), LIMITS) == scan_root(
        SkillRoot(Source.EXTRA, str(tmp_path)), LIMITS
    )


def test_three_hundred_candidates_and_two_hundred_of_a_source(tmp_path):
    for number in range(310):
        write_skill(tmp_path, f"s{number:03}")
    found = scan_root(SkillRoot(Source.EXTRA, str(tmp_path)), LIMITS)
    assert [skill.name for skill in found.skills] == [f"s{number:03}" for number in range(300)]
    assert found.problems == (f"{tmp_path}: more than 300 skills; the rest is left out",)
    merged = discover((SkillRoot(Source.EXTRA, str(tmp_path)), SkillRoot(Source.PLUGIN, str(tmp_path))))
    assert len(merged.skills) == 200
    assert merged.skills[-1].name == "s199"
    assert "300 extra skills; only the first 200 are used" in merged.problems
    assert len(merged.shadowed) == 200


def test_a_source_with_two_roots_shares_one_limit(tmp_path):
    for number in range(3):
        write_skill(tmp_path / "a", f"a{number}")
        write_skill(tmp_path / "b", f"b{number}")
    roots = (SkillRoot(Source.EXTRA, str(tmp_path / "a")), SkillRoot(Source.EXTRA, str(tmp_path / "b")))
    found = discover(roots, SkillLimits(max_skills_loaded_per_source=4))
    assert [skill.name for skill in found.skills] == ["a0", "a1", "a2", "b0"]


def test_a_file_at_the_size_limit_and_one_above(tmp_path):
    for name, size in (("fits", 256_000), ("too-large", 256_001)):
        file = write_skill(tmp_path, name)
        file.write_bytes(file.read_bytes() + b"x" * (size - file.stat().st_size))
    found = scan_root(SkillRoot(Source.WORKSPACE, str(tmp_path)), LIMITS)
    assert [skill.name for skill in found.skills] == ["fits"]
    assert found.problems == (f"{tmp_path}/too-large/SKILL.md: larger than 256,000 bytes",)


def test_the_number_of_folders_is_bounded(tmp_path):
    for number in range(module.MAX_FOLDERS + 10):
        (tmp_path / f"f{number:05}").mkdir()
    write_skill(tmp_path, "zzz")
    found = scan_root(SkillRoot(Source.WORKSPACE, str(tmp_path)), LIMITS)
    assert found.skills == ()
    assert found.problems == (f"{tmp_path}: only the first 5000 folders were searched",)


def test_special_files_do_not_hang_or_count(tmp_path):
    write_skill(tmp_path, "real")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    (tmp_path / "folder" / "SKILL.md").mkdir(parents=True)
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / "SKILL.md").symlink_to("/dev/zero")
    found = scan_root(SkillRoot(Source.WORKSPACE, str(tmp_path)), LIMITS)
    assert [skill.name for skill in found.skills] == ["real"]
    assert len(found.problems) == 3


@pytest.fixture
def linked(tmp_path):
    """A root with links to a folder and to a file outside, and to a folder inside."""
    write_skill(tmp_path / "outside", "far")
    write_skill(tmp_path / "outside", "pack/nested")
    root = tmp_path / "root"
    write_skill(root, "near")
    (root / "far").symlink_to(tmp_path / "outside" / "far")
    (root / "pack").symlink_to(tmp_path / "outside" / "pack")
    (root / "file").mkdir()
    (root / "file" / "SKILL.md").symlink_to(tmp_path / "outside" / "far" / "SKILL.md")
    (root / "again").symlink_to("near")
    (root / "dangling").symlink_to(tmp_path / "nowhere")
    (root / "loop").symlink_to(root)
    return tmp_path


@pytest.mark.parametrize("source", [Source.WORKSPACE, Source.PROJECT, Source.EXTRA, Source.BUNDLED])
def test_links_out_are_refused(linked, source):
    found = scan_root(SkillRoot(source, str(linked / "root")), LIMITS)
    assert [(skill.name, skill.folder) for skill in found.skills] == [("near", str(linked / "root" / "near"))]
    assert [problem.split(":")[0] for problem in found.problems] == [
        str(linked / "root" / name) for name in ("file/SKILL.md", "far", "pack")
    ]


@pytest.mark.parametrize("source", [Source.MANAGED, Source.PERSONAL, Source.PLUGIN])
def test_links_out_are_followed_where_only_the_owner_writes(linked, source):
    found = scan_root(SkillRoot(source, str(linked / "root")), LIMITS)
    assert sorted(skill.name for skill in found.skills) == ["far", "near", "nested"]
    assert found.problems == ()
    nested = next(skill for skill in found.skills if skill.name == "nested")
    assert nested.file == str(linked / "root" / "pack" / "nested" / "SKILL.md")


def test_links_out_are_followed_to_allowed_targets(linked):
    root = linked / "root"
    assert sorted(names(root, links=[linked / "outside" / "pack"])) == ["near", "nested"]
    assert sorted(names(root, links=[linked / "outside"])) == ["far", "near", "nested"]
    # A name that only begins like the allowed one is another folder.
    assert names(root, links=[linked / "out"]) == ["near"]


def test_a_limit_behind_a_link_ends_the_search(linked):
    found = scan_root(SkillRoot(Source.MANAGED, str(linked / "root")), SkillLimits(max_candidates_per_root=2))
    assert len(found.skills) <= 2
    assert found.problems[-1].endswith("more than 2 skills; the rest is left out")


def test_a_root_that_is_a_link_is_searched_where_it_leads(tmp_path):
    write_skill(tmp_path / "real", "a")
    (tmp_path / "root").symlink_to(tmp_path / "real")
    assert names(tmp_path / "root") == ["a"]


def test_roots_that_are_not_there(tmp_path):
    (tmp_path / "file").write_text("")
    missing = scan_root(SkillRoot(Source.WORKSPACE, str(tmp_path / "missing")), LIMITS)
    assert (missing.skills, missing.problems, len(missing.stamps)) == ((), (), 1)
    assert len(scan_root(SkillRoot(Source.WORKSPACE, str(tmp_path / "file")), LIMITS).problems) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_folders_are_said(tmp_path):
    write_skill(tmp_path, "closed/x")
    (tmp_path / "closed").chmod(0)
    try:
        assert len(scan_root(SkillRoot(Source.WORKSPACE, str(tmp_path)), LIMITS).problems) == 1
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_precedence_from_strongest_to_weakest(tmp_path):
    home, state, workspace, extra = (tmp_path / name for name in ("home", "state", "ws", "extra"))
    roots = standard_roots(workspace=workspace, home=home, state_dir=state, extra=[extra])
    assert [root.source for root in roots] == list(Source)
    writable = [root for root in roots if root.source is not Source.BUNDLED]
    for root in reversed(writable):
        write_skill(Path(root.path), "same", description=root.source.value)
        found = discover(roots).get("same")
        assert (found.source, found.header.description) == (root.source, root.source.value)
    assert [skill.source for skill in discover(roots).shadowed] == [root.source for root in writable[1:]]


def test_a_workspace_skill_overrides_a_bundled_one(tmp_path):
    write_skill(tmp_path / "skills", "daily-review", description="Mine.")
    found = discover(standard_roots(workspace=tmp_path))
    assert found.get("daily-review").header.description == "Mine."
    assert [skill.name for skill in found.shadowed] == ["daily-review"]


def test_the_bundled_skills_are_sound():
    found = discover(standard_roots())
    assert len(found.skills) == 12
    assert {"daily-review", "memory-curator", "skill-creator"} <= {skill.name for skill in found.skills}
    assert found.problems == ()
    for skill in found.skills:
        text = read_text(skill, LIMITS)
        assert skill.header.problem == ""
        assert 40 < len(skill.header.description) <= 300
        assert text.count("\n") <= 120
        assert Path(skill.folder).name == skill.name


def test_read_text_gives_the_file_as_it_is_now(tmp_path):
    file = write_skill(tmp_path, "a", body="old")
    (found,) = scan_root(SkillRoot(Source.WORKSPACE, str(tmp_path)), LIMITS).skills
    file.write_text("new")
    assert read_text(found, LIMITS) == "new"
    file.unlink()
    file.symlink_to("/etc/hostname")
    with pytest.raises(StorageError):
        read_text(found, LIMITS)


def test_reading_changes_nothing(tmp_path):
    write_skill(tmp_path, "a")
    before = [(path, path.stat().st_mtime_ns) for path in sorted(tmp_path.rglob("*"))]
    names(tmp_path)
    assert [(path, path.stat().st_mtime_ns) for path in sorted(tmp_path.rglob("*"))] == before
