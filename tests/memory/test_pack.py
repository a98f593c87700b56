"""Packing holds for lines of any length, in any order, within any budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.candidates import LineRow
from homarus.memory.pack import Packer, cost
from homarus.memory.results import as_json
from homarus.memory.schema import CONTINUED, RETAIN


@st.composite
def notebooks(draw):
    """Some files of some lines; a long line is several rows with one number, and rows of a file have consecutive ids."""
    rows, texts, number = [], {}, 1
    for file in range(draw(st.integers(1, 3))):
        number += 3
        for line in range(1, draw(st.integers(1, 6)) + 1):
            kind, flags = draw(
                st.sampled_from([("note", 0)] * 3 + [("heading", 0), ("world", RETAIN), ("world", RETAIN | CONTINUED)])
            )
            for _ in range(draw(st.integers(1, 3))):
                rows.append(LineRow(number, file, line, None, None, None, "", kind, flags, 1, 1, None, ""))
                said = draw(st.sampled_from(["word ", "one two three four five ", f"only {number} here "]))
                texts[number] = said * draw(st.sampled_from([1, 3, 40]))
                number += 1
    return rows, texts


@given(
    notebook=notebooks(),
    chance=st.randoms(use_true_random=False),
    k=st.integers(1, 8),
    budget=st.sampled_from([1, 20, 100, 10_000]),
    by_score=st.booleans(),
)
def test_any_lines_in_any_order_are_packed_within_the_budget(notebook, chance, k, budget, by_score):
    rows, texts = notebook
    order = chance.sample(range(len(rows)), len(rows))
    scores = [chance.choice([0.1, 0.5, 1.0]) for _ in rows]
    packer = Packer(rows, texts.__getitem__, k=k, budget=budget, scores=scores if by_score else None)
    packer.fill(order)
    packer.surround({row.id: at for at, row in enumerate(rows)}, scores)

    shown = [member for group in packer.ranges for member in group.members]
    assert len(packer.ranges) <= k
    assert len(shown) == len(set(shown))
    assert sum(cost(texts[rows[member].id]) for member in shown) == packer.spent <= budget
    for group in packer.ranges:
        assert group.best in group.members
        assert {rows[member].file for member in group.members} == {group.file}
        assert [rows[member].id for member in group.members] == sorted(rows[member].id for member in group.members)
    cited = [{(rows[member].file, rows[member].line) for member in group.members} for group in packer.ranges]
    assert sum(map(len, cited)) == len(set().union(*cited)), "a line is cited once"


def test_a_slice_between_its_own_line_and_the_line_before_joins_both():
    rows = [
        LineRow(number, 0, line, None, None, None, "", "note", 0, 1, 1, None, "")
        for number, line in ((1, 1), (2, 2), (3, 2))
    ]
    packer = Packer(rows, {1: "one", 2: "two", 3: "three"}.__getitem__, k=5, budget=100)
    packer.fill([0, 2, 1])
    assert [group.members for group in packer.ranges] == [[0, 1, 2]]


def test_a_retained_fact_is_an_item_of_its_own(notes):
    notes.write(
        "memory/2026-06-01.md",
        "## Retain\n- O(c=0.9) @Peter: Prefers short replies on the boat.\n- W @Anna: Owns the boat Marlene,\n  which is a boat of wood.\n"
        "- B: I painted the boat.\n\nA boat is a hole in the water.\nThe boat club meets on Fridays.\n",
    )
    items = {hit.citation: hit for hit in notes.open().recall("boat")}
    places = ["L2", "L3-L4", "L5", "L7-L8"]
    assert sorted(items) == [f"memory/2026-06-01.md#{place}" for place in places]
    peter, anna, own, rest = (items[place] for place in sorted(items))
    assert (peter.kind, peter.entities, peter.confidence) == ("opinion", ("Peter",), 0.9)
    assert (anna.kind, anna.entities, anna.confidence) == ("world", ("Anna",), None)
    assert (own.kind, rest.kind) == ("experience", "note")
    assert as_json(peter)["confidence"] == 0.9 and "confidence" not in as_json(anna)
