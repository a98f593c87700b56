"""The starter files are ours, short, and do not switch off or trigger anything by accident."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import homarus.workspace.templates as folder
from homarus.core.text import neutralize
from homarus.workspace import names
from homarus.workspace.templates import template

ALL = (*names.SEEDED, names.BOOT, names.BOOTSTRAP)


@pytest.mark.parametrize("name", ALL)
def test_front_matter_says_title_and_summary_and_is_not_written(name):
    raw = (Path(folder.__file__).parent / name).read_text(encoding="utf-8")
    block = raw.split("---\n")[1]
    assert set(yaml.safe_load(block)) == {"title", "summary"}
    text = template(name)
    assert text.startswith("# ")
    assert text.endswith("\n")
    assert "summary:" not in text


def test_what_a_first_prompt_carries_is_short():
    assert sum(len(template(name)) for name in ALL if name not in (names.BOOT, names.HEARTBEAT)) < 7000


def test_the_heartbeat_list_holds_no_task():
    for line in template(names.HEARTBEAT).splitlines():
        assert not line.strip() or line.startswith("# ") or re.fullmatch(r"<!--.*-->", line)


def test_templates_do_not_retire_the_tools_page_or_break_in_a_prompt():
    assert not re.search(r"^##+ Tools\b", template(names.AGENTS), re.MULTILINE)
    for name in ALL:
        assert neutralize(template(name)) == template(name)


def test_identity_values_are_placeholders_until_chosen():
    values = re.findall(r"^- (\w+): (.*)$", template(names.IDENTITY), re.MULTILINE)
    assert [label for label, _ in values] == ["Name", "Creature", "Vibe", "Emoji", "Avatar"]
    assert all(re.fullmatch(r"_\(.*\)_", value) for _, value in values)
