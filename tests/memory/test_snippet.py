"""Where the words of a question stand in a line, and which stretch of a long line is shown."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.terms import LIMIT, excerpt, forms, spans, stem


def pattern(terms: list[str]) -> re.Pattern[str]:
    """Return one expression for all words: words that begin with a stem and end soon after, other scripts anywhere."""
    found = {stem(form) for term in terms for form in forms(term)}
    parts = [rf"\b{re.escape(word)}[^\W_]{{0,4}}\b" if word.isascii() else re.escape(word) for word in found]
    return re.compile("|".join(sorted(parts, key=len, reverse=True)), re.IGNORECASE)


@given(
    st.text("aAb_c3 É東京.'-\t", max_size=40),
    st.lists(st.text("abce3東", min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_words_are_found_as_by_one_expression(text, terms):
    assert spans(text, terms) == [match.span() for match in pattern(terms).finditer(text.replace("É", "E"))]


def test_stems_endings_and_boundaries():
    text = "Painted painting repaint paintbrushes paint_1 PAINTS, went home"
    assert [text[a:b] for a, b in spans(text, ["paint", "go"])] == ["Painted", "painting", "PAINTS", "went"]
    assert spans("das CAFÉ", ["cafe"]) == [(4, 8)]
    assert spans("Straße: BOATS", ["boat"]) == [(8, 13)]  # folding makes this text longer


def test_the_stretch_with_most_words_is_shown():
    text = "start " + "x " * 400 + "the blue boat " + "y " * 300 + "a boat, blue sails and a boat" + " z" * 400
    shown = excerpt(text, ["blue", "boat"])
    assert "blue sails" in shown
    assert len(shown) <= LIMIT + 2
    assert shown[0] == shown[-1] == "…"
    assert excerpt(text, ["nothing"]).startswith("start x")
    assert excerpt("short", ["short"]) == "short"
