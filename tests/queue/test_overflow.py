from hypothesis import given
from hypothesis import strategies as st
from tests.queue.helpers import queued

from homarus.queue.collect import COLLECTED, plan
from homarus.queue.modes import Rules
from homarus.queue.overflow import LINE_CHARS, Overflow, admit
from homarus.queue.settings import Drop, Mode

COLLECT = Rules(mode=Mode.COLLECT)


@given(st.lists(st.integers(), max_size=30), st.integers(1, 25), st.sampled_from(Drop))
def test_a_queue_never_outgrows_its_cap_and_nothing_vanishes_unseen(items: list[int], cap: int, drop: Drop) -> None:
    queue: tuple[int, ...] = ()
    gone: list[int] = []
    for item in items:
        admission = admit(queue, item, cap=cap, drop=drop)
        queue, gone = admission.queue, gone + list(admission.dropped)
        assert len(queue) <= cap
        assert admission.refused == (drop is Drop.NEW and bool(admission.dropped))
    assert sorted([*queue, *gone]) == sorted(items)
    assert list(queue) == (items[:cap] if drop is Drop.NEW else items[-cap:])


def test_twenty_one_messages_with_a_cap_of_twenty_leave_one_line() -> None:
    overflow = Overflow().add(queued("first \n message " + "x" * 300), 20)
    head, line = overflow.text.split("\n")
    assert head == "[Queue overflow] Dropped 1 message(s) due to cap."
    assert line.startswith("- first message xxx")
    assert len(line) == 2 + LINE_CHARS


def test_only_the_newest_lines_are_kept_but_all_are_counted() -> None:
    overflow = Overflow()
    for number in range(9):
        overflow = overflow.add(queued(f"m{number}"), 3)
    assert (overflow.count, overflow.lines) == (9, ("m6", "m7", "m8"))
    assert len(overflow.keys) == 9


def test_one_route_is_collected_into_one_prompt() -> None:
    items = [queued("one", rules=COLLECT), queued("two", rules=COLLECT)]
    (batch,) = plan(items, Overflow(2, ("x",)))
    assert batch.text == (
        f"{COLLECTED}\n\n[Queue overflow] Dropped 2 message(s) due to cap.\n- x\n\n"
        "---\nQueued #1\none\n\n---\nQueued #2\ntwo"
    )
    assert batch.items == tuple(items)
    assert batch.newest == items[-1]


def test_different_routes_are_never_merged() -> None:
    items = [queued("1", rules=COLLECT), queued("2", to="b", rules=COLLECT), queued("3", rules=COLLECT)]
    assert [batch.text for batch in plan(items, Overflow())] == ["1", "2", "3"]


def test_a_mixed_batch_stays_single_to_its_end() -> None:
    items = [queued("2", to="b", rules=COLLECT), queued("3", to="b", rules=COLLECT)]
    assert len(plan(items, Overflow())) == 1
    assert [batch.text for batch in plan(items, Overflow(), apart={items[0].key})] == ["2", "3"]


def test_followups_hear_of_an_overflow_first() -> None:
    batches = plan([queued("a"), queued("b")], Overflow(1, ("lost",)))
    assert [batch.text.split("\n")[0] for batch in batches] == [
        "[Queue overflow] Dropped 1 message(s) due to cap.",
        "a",
        "b",
    ]
    assert batches[0].items == ()


def test_a_single_message_stays_as_it_was_written() -> None:
    assert plan([queued("  as  is\n", rules=COLLECT)], Overflow())[0].text == "  as  is\n"
    assert plan([], Overflow(3)) == []
