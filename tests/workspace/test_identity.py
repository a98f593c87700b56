"""The identity record is read in every hand and edited without touching anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.errors import StorageError
from homarus.workspace.identity import edit_identity, parse_identity, write_identity
from homarus.workspace.templates import template

HAND = """# Identity

- **Name:** Juno
* vibe: calm
- __Emoji__: 🦞
- Creature: _(to be chosen)_
- Theme: [later]
- Avatar: <url>
- Hobby: chess
Name: not an item
- name: Second
"""


def test_values_are_read_and_placeholders_are_not():
    assert parse_identity(HAND) == {"name": "Juno", "vibe": "calm", "emoji": "🦞"}
    assert parse_identity(template("IDENTITY.md")) == {}
    assert parse_identity("") == {}


def test_a_value_changes_in_its_own_line_alone():
    edited = edit_identity(HAND, {"name": "Otto", "Creature": "owl"})
    assert edited == HAND.replace("Juno", "Otto").replace("_(to be chosen)_", "owl")


def test_a_new_label_goes_after_the_last_item():
    assert edit_identity("# I\n\n- Name: A\n\nText.\n", {"emoji": "🦉"}) == "# I\n\n- Name: A\n- Emoji: 🦉\n\nText.\n"
    assert edit_identity("# I\n", {"name": "A"}) == "# I\n\n- Name: A\n"
    assert edit_identity("", {"name": "A"}) == "- Name: A\n"


def test_line_ends_stay_and_a_value_cannot_bring_new_lines():
    assert (
        edit_identity("- Name: A\r\n- Vibe: b\r\n", {"name": "C\n- Emoji: x"})
        == "- Name: C - Emoji: x\r\n- Vibe: b\r\n"
    )


@given(st.text(alphabet="abcXYZ äö", min_size=1, max_size=20).filter(str.strip), st.sampled_from(["Name", "Emoji"]))
def test_what_was_set_is_read_back(value, label):
    edited = edit_identity(template("IDENTITY.md"), {label: value})
    assert parse_identity(edited)[label.lower()] == " ".join(value.split())
    assert edit_identity(edited, {label: value}) == edited


def test_a_record_is_made_from_the_template_where_there_is_none(tmp_path):
    path = write_identity(tmp_path / "new", {"name": "Ada"})
    assert path.read_text() == template("IDENTITY.md").replace("_(to be chosen together)_", "Ada")


def test_an_unchanged_record_is_not_written(tmp_path):
    (tmp_path / "IDENTITY.md").write_text("- Name: Ada")
    before = (tmp_path / "IDENTITY.md").stat()
    write_identity(tmp_path, {"name": "Ada"})
    assert (tmp_path / "IDENTITY.md").stat().st_ino == before.st_ino


@pytest.mark.parametrize("data", [b"- Name: \xff\n", b"x" * (1024 * 1024 + 1)])
def test_a_record_that_cannot_be_kept_whole_is_left_alone(tmp_path, data):
    (tmp_path / "IDENTITY.md").write_bytes(data)
    with pytest.raises(StorageError, match="is not edited"):
        write_identity(tmp_path, {"name": "Ada"})
    assert (tmp_path / "IDENTITY.md").read_bytes() == data
