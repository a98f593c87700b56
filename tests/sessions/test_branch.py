"""Branches of a transcript, by the quick walk from the tail and by the look at the whole file."""

import pytest
from tests.sessions.lines import entry, says, user

from homarus.sessions.branch import Nodes, cut, walk_tail
from homarus.sessions.entry import to_entry
from homarus.sessions.view import project, visible


def entries(*rows):
    return [to_entry(row, offset=number) for number, row in enumerate(rows)]


def whole(rows):
    held = entries(*rows)
    return [held[node.index] for node in Nodes(held).resolve()]


def ids(found):
    return " ".join(e.id for e in found)


A, B, C = user("A", None), says("B", "A"), user("C", "B")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([A, B, C], "A B C"),
        ([A, B, C, user("D", "A")], "A D"),
        ([A, B, C, entry("leaf", "L", "C", targetId="B"), user("E", "B")], "A B E"),
        ([A, B, C, entry("leaf", "L", "C", targetId="B"), user("E", "L")], "A B E"),
        ([A, B, C, entry("leaf", "L", "C", targetId="B")], "A B"),
        ([A, B, C, entry("leaf", "L", "C", targetId="nowhere")], "A B C"),
        ([A, B, C, entry("leaf", "L", "C", targetId="nowhere"), user("E", "L")], "A B C E"),
        ([A, B, entry("reset", "R", "B"), user("D", "R"), entry("leaf", "L", "D", targetId="A")], "A B R D"),
        ([A, B, entry("reset", "R", "B"), user("D", "A")], "A D"),
        ([A, B, entry("novelty", "N", "B"), user("D", "N")], "A B N D"),
        ([A, B, {**user("S", "B"), "appendMode": "side"}], "A B"),
        ([A, B, user("D", None)], "D"),
        ([user("A", "A")], "A"),
        ([A, B, {k: v for k, v in user("D", None).items() if k != "parentId"}], "A B D"),
        ([], ""),
    ],
)
def test_active_branch(rows, expected):
    assert ids(whole(rows)) == expected
    quick = walk_tail(reversed(entries(*rows)), limit=1 << 20)
    if quick is not None:
        assert ids(quick.entries) == expected


def test_a_circle_ends():
    assert len(whole([user("A", "B"), says("B", "A")])) == 2


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # the line B is gone
        ([A, user("C", "B", minute=2), says("D", "C", minute=3)], "A C D"),
        # two lines swapped places
        ([A, user("C", "B", minute=2), says("B", "A", minute=1)], "A B C"),
        # the last line was moved to the middle, and one line is gone
        ([user("1", None), user("4", "3", minute=4), user("5", "4", minute=5), user("2", "1", minute=2)], "1 2 4 5"),
        # an old line stands once more at the end
        ([A, B, C, A], "A B C"),
        # the first line is gone
        ([B, C], "B C"),
        # every second line is gone and all moments are equal
        ([user(str(i), str(i - 1)) for i in range(0, 10, 2)], "0 2 4 6 8"),
    ],
)
def test_a_lost_or_moved_line_costs_nothing_but_itself(rows, expected):
    assert ids(whole(rows)) == expected
    quick = walk_tail(reversed(entries(*rows)), limit=1 << 20)
    assert quick is None or ids(quick.entries) == expected


def boundary(kept):
    rows = [user(str(i), str(i - 1) if i else None) for i in range(5)]
    return [*rows, entry("compaction", "K", "4", summary="S", firstKeptEntryId=kept), user("after", "K")]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (boundary("2"), ["S", "2", "3", "4", "after"]),
        (boundary("unknown"), ["S", "after"]),
        ([*boundary("2"), entry("compaction", "K2", "after", summary="T", firstKeptEntryId="after")], ["T", "after"]),
        ([*boundary("2"), entry("reset", "R", "after"), user("new", "R")], ["new"]),
        ([*boundary("2"), entry("reset", "R", "after", firstKeptEntryId="4"), user("new", "R")], ["4", "after", "new"]),
    ],
)
def test_what_a_boundary_leaves_in_view(rows, expected):
    held = entries(*rows)
    tails = [
        walk_tail(reversed(held), limit=1 << 20).entries,
        whole(rows),
        [held[n.index] for n in cut(Nodes(held).resolve(), 1 << 20)[0]],
    ]
    for branch in tails:
        said = project(visible(branch))
        texts = [m.text.partition("<summary>\n")[2].partition("\n<")[0] or m.text for m in said]
        assert texts == expected


def test_a_reset_keeps_words_but_not_work():
    rows = [
        user("q", None),
        says("a", "q", calls=("c1",)),
        entry("reset", "R", "a", firstKeptEntryId="q"),
        user("new", "R"),
    ]
    said = project(visible(entries(*rows)))
    assert [m.text for m in said] == ["q", "a", "new"]
    assert said[1].calls == ()


def test_without_a_boundary_only_the_window_is_held_and_it_begins_with_a_user():
    rows = []
    for i in range(100):
        rows += [user(f"u{i}", f"a{i - 1}" if i else None, "x" * 100), says(f"a{i}", f"u{i}", "y" * 100)]
    tail = walk_tail(reversed(entries(*rows)), limit=1000)
    assert not tail.complete
    assert ids(tail.entries).split()[0] == "u95"
    held = entries(*rows)
    nodes, complete = cut(Nodes(held).resolve(), 1000)
    assert not complete
    assert [n.id for n in nodes] == [e.id for e in tail.entries]


def test_a_boundary_that_keeps_more_than_a_window_keeps_nothing():
    rows = [user(str(i), str(i - 1) if i else None) for i in range(100)]
    rows += [entry("compaction", "K", "99", summary="S", firstKeptEntryId="1"), user("after", "K")]
    tail = walk_tail(reversed(entries(*rows)), limit=1000)
    assert (ids(tail.entries), tail.complete) == ("K after", False)
    nodes, complete = cut(Nodes(entries(*rows)).resolve(), 1000)
    assert ([node.id for node in nodes], complete) == (["K", "after"], False)


def test_the_walk_stops_reading_at_the_boundary():
    rows = [user(str(i), str(i - 1) if i else None) for i in range(1000)]
    rows += [entry("compaction", "K", "999", summary="S", firstKeptEntryId="998"), user("after", "K")]
    read = 0

    def source():
        nonlocal read
        for e in reversed(entries(*rows)):
            read += 1
            yield e

    assert ids(walk_tail(source(), limit=1 << 20).entries) == "998 999 K after"
    assert read == 4
