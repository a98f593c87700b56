"""What somebody crossed out is forgotten: no page, no prompt and no other note brings it back."""

from __future__ import annotations

import pytest

from homarus.memory.bank.assist import prompt, shown
from homarus.memory.bank.grammar import format_bullet, parse_bullet
from homarus.memory.bank.reflect import reflect

NOTE = """# 2026-05-03

- ~~Ada lives in Reykjavik.~~
- Ada works at the Tromso observatory.
- Jonas: ~~I moved to Salamanca.~~
- Jonas: I drive a Trabant.

## Retain
- O(c=0.9) @Ada: ~~Prefers absinthe over coffee.~~
- ~~W @Ada: Keeps a python called Nagini.~~
- O(c=0.8) @Ada: Prefers written invitations.
"""
GONE = ("Reykjavik", "Salamanca", "absinthe", "Nagini")


def told(notes) -> str:
    return "\n".join(path.read_text() for path in sorted((notes.root / "bank").rglob("*.md")))


def test_lines_that_are_crossed_out_reach_no_page_and_no_prompt(notes):
    notes.write("memory/2026-05-03.md", NOTE)
    notes.write(
        "memory/2026-05-09.md", "- Ada lives in Reykjavik.\n\n## Retain\n- O @Ada: Prefers absinthe over coffee.\n"
    )
    memory = notes.open()
    reflect(memory)
    known = memory.knowledge()
    seen = told(notes) + prompt(shown(known.facts))
    assert "written invitations" in seen and "observatory" in seen
    assert not [word for word in GONE if word in seen], "also not from a later note that says the same"
    assert "not learned again" not in seen
    assert not [fact for fact in known.facts if fact.holds and any(word in fact.text for word in GONE)]


def test_what_the_crossed_out_line_had_replaced_holds_again(notes):
    notes.write("memory/2026-05-01.md", "- Ada lives in Lisbon.\n- Ada works at Zeiss.\n")
    later = notes.write("memory/2026-05-03.md", "- Ada lives in Oslo.\n")
    memory = notes.open()
    assert [fact.text for fact in memory.knowledge().facts if fact.holds] == [
        "Ada works at Zeiss.",
        "Ada lives in Oslo.",
    ]
    later.write_text("- ~~Ada lives in Oslo.~~\n")
    assert [fact.text for fact in memory.knowledge().facts if fact.holds] == [
        "Ada lives in Lisbon.",
        "Ada works at Zeiss.",
    ]


def test_a_question_finds_what_holds_before_what_is_crossed_out(notes):
    notes.write(
        "memory/2026-05-01.md",
        "- ~~The wifi password is kestrel nine.~~\n- Bought bread.\n- The wifi password is heron.\n",
    )
    assert [hit.start_line for hit in notes.open().ranking("What is the wifi password?", 2)] == [3, 1]


@pytest.mark.parametrize(
    ("line", "text", "kind"),
    [
        ("- O(c=0.9) @Ada: ~~Prefers tea.~~", "Prefers tea.", "opinion"),
        ("- ~~O(c=0.9) @Ada: Prefers tea.~~", "Prefers tea.", "opinion"),
        ("- W ~~@Ada: Lives in Oslo.~~", "Lives in Oslo.", "world"),
        ("- ~~Lives in Oslo.~~", "Lives in Oslo.", "world"),
    ],
)
def test_a_bullet_is_the_same_fact_crossed_out(line, text, kind):
    bullet = parse_bullet(line)
    assert bullet is not None and bullet.struck and (bullet.text, bullet.kind) == (text, kind)
    plain = parse_bullet(line.replace("~~", ""))
    assert plain is not None and plain.id == bullet.id and not plain.struck
    again = parse_bullet(format_bullet(bullet))
    assert again is not None and again.struck and again.id == bullet.id


@pytest.mark.parametrize(
    "line", ["- W @Ada: Paid ~~9~~ 12 euros for it.", "- W @Ada: ~~ is a tilde ~~ and more", "- W @Ada: ~~~~"]
)
def test_what_is_crossed_out_in_part_is_kept(line):
    bullet = parse_bullet(line)
    assert bullet is None or not bullet.struck
