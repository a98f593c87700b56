"""The order of the files is fixed, and every standard file has a meaning."""

from __future__ import annotations

from homarus.workspace import names


def test_the_prompt_order_is_the_numeric_map():
    shuffled = ["zeta.md", "MEMORY.md", "BOOTSTRAP.md", "TOOLS.md", "USER.md", "IDENTITY.md", "SOUL.md", "alpha.md"]
    ordered = sorted([*shuffled, "AGENTS.md"], key=lambda name: names.order_key(name, "/w/" + name))
    assert ordered == [
        "AGENTS.md",
        "SOUL.md",
        "IDENTITY.md",
        "USER.md",
        "TOOLS.md",
        "BOOTSTRAP.md",
        "MEMORY.md",
        "alpha.md",
        "zeta.md",
    ]


def test_order_ignores_case_and_folder_and_breaks_ties_by_path():
    assert names.order_key("docs/Agents.MD", "/b")[0] == 10
    assert names.order_key("a.md", "/1") < names.order_key("a.md", "/2")
    assert names.order_key("USER.md", "/2") == names.order_key("user.md", "/1")


def test_every_loaded_and_seeded_file_has_a_meaning():
    for name in {*names.LOADED, *names.SEEDED} - {names.MEMORY_LOWER}:
        assert names.MEANINGS[name]


def test_memory_is_known_in_any_case_and_place():
    assert names.is_memory("MEMORY.md")
    assert names.is_memory("sub/memory.MD")
    assert not names.is_memory("memory/2026-01-01.md")
