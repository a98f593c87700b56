from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.bank.grammar import Bullet, entities_in, fact_id, format_bullet, lint, parse_bullet
from homarus.memory.schema import KINDS


def test_a_full_bullet():
    bullet = parse_bullet("- O(c=0.95,t=2025-11) @Peter @{The Castle}: Prefers concise replies on WhatsApp.")
    assert bullet is not None
    assert (bullet.kind, bullet.text) == ("opinion", "Prefers concise replies on WhatsApp.")
    assert bullet.entities == ("Peter", "The Castle")
    assert bullet.confidence == 0.95
    assert bullet.attr("t") == "2025-11"
    assert not bullet.inferred


@pytest.mark.parametrize(
    ("line", "kind", "inferred"),
    [
        ("- W @Peter: Lives in Marrakech now.", "world", False),
        ("* B: I fixed the crash.", "experience", False),
        ("+ S The week was calm.", "observation", False),
        ("- @Peter prefers tea to coffee", "opinion", True),
        ("- I moved the server to the cellar", "experience", True),
        ("- Water boils at 100 degrees", "world", True),
        ("- Boats are expensive", "world", True),
        ("- Web: a label, not a kind", "world", True),
    ],
)
def test_kinds(line, kind, inferred):
    bullet = parse_bullet(line)
    assert bullet is not None
    assert (bullet.kind, bullet.inferred) == (kind, inferred)


@pytest.mark.parametrize("line", ["plain text", "", "- ", "-no space", "- W @Peter:", "    indented"])
def test_what_is_no_bullet(line):
    assert parse_bullet(line) is None


def test_confidence_is_clamped_and_belongs_to_opinions():
    assert parse_bullet("- O(c=7) @A: likes very tall trees").confidence == 1.0
    assert parse_bullet("- O(c=nope) @A: likes very tall trees").confidence is None
    world = parse_bullet("- W(c=0.5) @A: owns three tall trees")
    assert world.confidence is None
    assert "c= counts" in lint(world)[0]


def test_unknown_attributes_are_kept():
    assert parse_bullet("- W(mood=odd, c=1) @A: is here today too").attrs == (("mood", "odd"), ("c", "1"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ask @Peter and @warelay.", ("Peter", "warelay")),
        ("mail me at anna@example.org", ()),
        ("install @scope/package first", ()),
        ("the `@decorator` and ``@other`` are code", ()),
        ("@{Van der Berg} called", ("Van der Berg",)),
        ("twice @Bo @Bo", ("Bo",)),
        ("@Müller und @名前", ("Müller", "名前")),
        ("at @ 5", ()),
        ("foo.@bar", ()),
    ],
)
def test_inline_entities(text, found):
    assert entities_in(text) == found


def test_the_id_survives_moves_and_case_but_not_another_meaning():
    one = parse_bullet("- W @Peter @Anna: Lives  in Rome.")
    other = parse_bullet("* W @anna @peter: lives in Rome.")
    assert one.id == other.id
    assert len(one.id) == 10
    assert one.id != fact_id("opinion", one.entities, one.text)


def test_lint_asks_for_sentences_that_stand_alone():
    assert lint(parse_bullet("- W @A: He moved to Paris last year"))
    assert lint(parse_bullet("- W @A: moved away"))
    assert not lint(parse_bullet("- W @A: Anna moved to Paris in 2024."))


_name = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}[A-Za-z0-9]", fullmatch=True)


@given(
    st.sampled_from(sorted(KINDS.values())),
    st.from_regex(r"[A-Z][a-z]{2,9}( [a-z]{2,9}){3,8}\.", fullmatch=True),
    st.lists(_name, max_size=3, unique=True),
)
def test_what_is_written_parses_back(kind, text, names):
    bullet = Bullet(kind, text, tuple(names), (("t", "2025"),))
    again = parse_bullet(format_bullet(bullet))
    assert again is not None
    assert (again.kind, again.text, again.entities, again.attrs) == (kind, text, tuple(names), bullet.attrs)


@given(st.text(max_size=200))
def test_any_line_parses_or_not_but_never_fails(line):
    parse_bullet("- " + line)
    entities_in(line)
