"""The lines worth scoring, compared with the slow and obvious way."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.candidates import OPEN, Posting, Postings, _by_words, idf

LINES = 240


def slow(found: list[Posting], keep: int) -> list[float]:
    """Return the weights of the lines to choose, the highest first: lines with most words, and all with a rare one."""
    found = sorted(found, key=lambda posting: posting.count)
    held = {number: [p for p in found if number in p.ids] for number in range(LINES)}
    opened: set[int] = set()
    for posting in found:
        if len(opened) < OPEN * keep:
            opened |= posting.ids
    most = max((words for words in range(1, len(found) + 1) if _count(held, opened, words) >= keep), default=1)
    pool = {number for number in opened if len(held[number]) >= most}
    pool.update(number for posting in found if posting.count <= keep for number in posting.ids)
    return sorted((_weight(held[number]) for number in pool), reverse=True)[:keep]


def _count(held: dict[int, list[Posting]], opened: set[int], words: int) -> int:
    return sum(len(held[number]) >= words for number in opened)


def _weight(postings: list[Posting]) -> float:
    return round(sum(posting.idf for posting in postings), 9)


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 5, 40, 120, 230]), st.randoms(use_true_random=False)), min_size=1, max_size=5
    ),
    st.sampled_from([2, 6, 20]),
)
def test_the_heaviest_lines_are_chosen(words, keep):
    found = []
    for at, (count, rnd) in enumerate(words):
        ids = sorted(rnd.sample(range(LINES), count))
        found.append(Posting(f"w{at}", count, frozenset(ids), idf(count, LINES) + at * at * 1e-6))
    chosen = _by_words(sqlite3.connect(":memory:"), Postings(), found, keep)
    assert len(set(chosen)) == len(chosen)
    assert [_weight([p for p in found if number in p.ids]) for number in chosen] == slow(found, keep)


def test_of_a_crowd_of_equal_lines_the_newest_are_chosen():
    everywhere, often, once = list(range(LINES)), list(range(0, LINES, 2)), [7]
    found = [
        Posting(name, len(ids), frozenset(ids), idf(len(ids), LINES))
        for name, ids in (("a", everywhere), ("b", often), ("c", once))
    ]
    chosen = _by_words(sqlite3.connect(":memory:"), Postings(), found, 5)
    assert chosen == [7, 238, 236, 234, 232]


FILLER = "".join(f"- The parcel number {n} came and went to the cellar\n" for n in range(200))


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("When is the dentsit?", "Dentist on Tuesday at ten"),
        ("restaurnat", "That restaurant by the lake has closed"),
        ("Who makes coconut ice cream?", "Nate sells coconut icecream at the market"),
        ("ice cream", "We have icecream for the party"),
        ("What is he writing?", "He wrote a play about two sisters"),
    ],
)
def test_slips_of_the_pen_words_written_as_one_and_other_forms_are_found(notes, question, line):
    notes.write("memory/2026-01-01.md", f"{FILLER}- {line}\n{FILLER}")
    assert line in notes.open().search(question)[0].text


def test_a_word_that_is_there_is_no_slip_of_another(notes):
    notes.write("memory/2026-01-01.md", f"- The casual talk was long\n{FILLER}- The causal chain was long\n")
    assert [hit.text for hit in notes.open().search("casual")] == ["The casual talk was long"]
    assert [hit.text for hit in notes.open().search("cassual")] == ["The casual talk was long"]


def test_a_word_without_end_is_no_slip_of_anything(notes):
    notes.write("memory/2026-01-01.md", FILLER)
    assert not list(notes.open().search("gege" * 1000))
