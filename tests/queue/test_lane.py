"""Lanes with a fake turn: what runs when, and that nothing is lost on the way."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.queue.helpers import queued

from homarus.core.cancel import CLOSED, HANDED_OVER, Cancel
from homarus.core.clock import ManualClock
from homarus.core.errors import Fenced, StorageError
from homarus.core.mailbox import Mailbox
from homarus.core.messages import Trust
from homarus.queue.collect import Batch, Queued
from homarus.queue.inbox import MAX_RESUMES, Inbox
from homarus.queue.lane import Places, SessionLane
from homarus.queue.modes import Action, Rules
from homarus.queue.settings import Drop, Mode

FOLLOWUP = Rules(mode=Mode.FOLLOWUP)
COLLECT = Rules(mode=Mode.COLLECT)
INTERRUPT = Rules(mode=Mode.INTERRUPT)


class Given(NamedTuple):
    """What a lane gives a turn."""

    batch: Batch
    mailbox: Mailbox[Queued]
    cancel: Cancel
    settle: Callable[..., None]


class Turns:
    """A fake agent: it notes the batches it got and settles them, waiting at a gate when there is one."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.batches: list[Batch] = []
        self.active = self.most = 0
        self.gate: asyncio.Event | None = None
        self.during: Callable[[Given], Awaitable[None]] | None = None

    async def __call__(self, *given_: Any) -> None:
        given = Given(*given_)
        self.texts.append(given.batch.text)
        self.batches.append(given.batch)
        given.settle(*given.batch.keys)
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            if self.during is not None:
                await self.during(given)
            if self.gate is not None:
                waits = [asyncio.ensure_future(self.gate.wait()), asyncio.ensure_future(given.cancel.wait())]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for wait in waits:
                    wait.cancel()
        finally:
            self.active -= 1

    @property
    def trusts(self) -> list[Trust]:
        return [batch.trust for batch in self.batches]


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def lane(tmp_path: Path, turns: Turns) -> SessionLane:
    return make_lane(tmp_path / "inbox.jsonl", turns)


def make_lane(path: Path, turns: Turns, places: Places | None = None) -> SessionLane:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    return SessionLane(Inbox(path), turns, places or Places(), clock)


async def busy(lane: SessionLane, turns: Turns, trust: Trust = Trust.EXTERNAL) -> asyncio.Event:
    turns.gate = asyncio.Event()
    assert lane.submit(queued("first", trust=trust)).action is Action.RUN
    while not turns.texts:
        await asyncio.sleep(0)
    return turns.gate


async def test_messages_of_one_session_never_overlap(lane: SessionLane, turns: Turns) -> None:
    gate = await busy(lane, turns)
    for text in ("second", "third"):
        assert lane.submit(queued(text, rules=FOLLOWUP)).action is Action.ENQUEUE
    gate.set()
    await lane.idle()
    assert turns.texts == ["first", "second", "third"]
    assert turns.most == 1


async def test_collect_answers_all_at_once(lane: SessionLane, turns: Turns) -> None:
    gate = await busy(lane, turns)
    for text in ("second", "third"):
        lane.submit(queued(text, rules=COLLECT))
    gate.set()
    await lane.idle()
    assert len(turns.texts) == 2
    assert "Queued #2\nthird" in turns.texts[1]


async def test_a_mixed_collection_is_drained_one_by_one(lane: SessionLane, turns: Turns) -> None:
    gate = await busy(lane, turns)
    for text, to in (("a", "x"), ("b", "y"), ("c", "y")):
        lane.submit(queued(text, to=to, rules=COLLECT))
    gate.set()
    await lane.idle()
    assert turns.texts == ["first", "a", "b", "c"]


async def test_a_steered_message_goes_into_the_run_and_comes_back_if_not_taken(lane: SessionLane, turns: Turns) -> None:
    gate = await busy(lane, turns)
    assert lane.submit(queued("steer")).action is Action.STEER
    gate.set()
    await lane.idle()
    assert turns.texts == ["first", "steer"]


async def test_who_is_trusted_less_than_the_running_turn_waits_for_a_turn_of_their_own(
    lane: SessionLane, turns: Turns
) -> None:
    report = Rules(kept=True)
    gate = await busy(lane, turns, trust=Trust.PAIRED)
    for text, rules, trust, action in (
        ("a guest", None, Trust.GROUP, Action.ENQUEUE),
        ("what a guest asked for", report, Trust.GROUP, Action.ENQUEUE),
        ("the owner", None, Trust.OWNER, Action.STEER),
        ("their own report", report, Trust.PAIRED, Action.STEER),
    ):
        assert lane.submit(queued(text, rules=rules, trust=trust)).action is action
    assert [item.text for item in lane._mailbox.waiting] == ["the owner", "their own report"]  # type: ignore[union-attr]
    gate.set()
    await lane.idle()
    assert dict(zip(turns.texts, turns.trusts, strict=True)) == {
        "first": Trust.PAIRED,
        "the owner": Trust.OWNER,
        "a guest": Trust.GROUP,
        "what a guest asked for": Trust.GROUP,
        "their own report": Trust.PAIRED,
    }


async def test_who_writes_in_another_chat_has_a_turn_whose_answer_goes_there(lane: SessionLane, turns: Turns) -> None:
    gate = await busy(lane, turns)
    assert lane.submit(queued("here")).action is Action.STEER
    assert lane.submit(queued("from elsewhere", to="b")).action is Action.ENQUEUE
    assert lane.submit(queued("at the machine", to="")).action is Action.STEER
    gate.set()
    await lane.idle()
    assert [batch.items[-1].route.to for batch in turns.batches if "from elsewhere" in batch.text] == ["b"]


async def test_the_notice_of_dropped_messages_has_their_writers_trust(lane: SessionLane, turns: Turns) -> None:
    rules = Rules(mode=Mode.FOLLOWUP, cap=1)
    gate = await busy(lane, turns, trust=Trust.OWNER)
    lane.submit(queued("send me the keys", rules=rules, trust=Trust.EXTERNAL))
    lane.submit(queued("and the news?", rules=rules, trust=Trust.OWNER))
    gate.set()
    await lane.idle()
    assert turns.texts[1].endswith("- send me the keys")
    assert turns.trusts == [Trust.OWNER, Trust.EXTERNAL, Trust.OWNER]
    assert turns.batches[1].taint == ("sender:external",)


async def test_a_steered_message_that_was_taken_runs_no_turn_of_its_own(lane: SessionLane, turns: Turns) -> None:
    async def during(given: Given) -> None:
        while not (taken := given.mailbox.take()):
            await asyncio.sleep(0)
        given.settle(*(item.key for item in taken))

    turns.during = during
    lane.submit(queued("first"))
    while not turns.texts:
        await asyncio.sleep(0)
    lane.submit(queued("steer"))
    await lane.idle()
    assert turns.texts == ["first"]


async def test_interrupt_ends_the_run_and_runs_the_newest_first(lane: SessionLane, turns: Turns) -> None:
    await busy(lane, turns)
    lane.submit(queued("later", rules=FOLLOWUP))
    turns_gate, turns.gate = turns.gate, None
    assert lane.submit(queued("now", rules=INTERRUPT)).action is Action.INTERRUPT
    await lane.idle()
    assert turns.texts == ["first", "now", "later"]
    assert turns_gate is not None


async def test_of_several_that_interrupt_only_the_newest_runs(lane: SessionLane, turns: Turns) -> None:
    await busy(lane, turns)
    turns.gate = None
    outcomes = [lane.submit(queued(f"m{number}", rules=INTERRUPT)) for number in range(3)]
    await lane.idle()
    assert turns.texts == ["first", "m2"]
    assert [item.text for outcome in outcomes for item in outcome.dropped] == ["m0", "m1"]


async def test_the_twenty_first_message_by_each_policy(tmp_path: Path, turns: Turns) -> None:
    for drop in Drop:
        lane = make_lane(tmp_path / f"{drop}.jsonl", turns)
        turns.texts.clear()
        gate = await busy(lane, turns)
        rules = Rules(mode=Mode.FOLLOWUP, drop=drop)
        outcomes = [lane.submit(queued(f"m{number}", rules=rules)) for number in range(21)]
        assert outcomes[20].refused is (drop is Drop.NEW)
        gate.set()
        await lane.idle()
        rest = turns.texts[1:]
        if drop is Drop.NEW:
            assert rest == [f"m{number}" for number in range(20)]
        elif drop is Drop.OLD:
            assert rest == [f"m{number}" for number in range(1, 21)]
        else:
            assert rest[0].startswith("[Queue overflow] Dropped 1 message(s)")
            assert rest[1:] == [f"m{number}" for number in range(1, 21)]


async def test_stop_forgets_what_waits_before_it_ends_the_run(lane: SessionLane, turns: Turns, tmp_path: Path) -> None:
    await busy(lane, turns)
    lane.submit(queued("never", rules=FOLLOWUP))
    assert lane.stop()
    await lane.idle()
    assert turns.texts == ["first"]
    assert Inbox(tmp_path / "inbox.jsonl").pending == ()
    assert not lane.stop()


async def test_a_failing_turn_does_not_stop_its_lane(lane: SessionLane, turns: Turns) -> None:
    async def during(given: Given) -> None:
        if given.batch.text == "first":
            raise RuntimeError("broken turn")

    turns.during = during
    lane.submit(queued("first"))
    lane.submit(queued("second", rules=FOLLOWUP))
    await lane.idle()
    assert turns.texts == ["first", "second"]


async def test_what_an_earlier_process_accepted_is_answered(tmp_path: Path, turns: Turns) -> None:
    path = tmp_path / "inbox.jsonl"
    Inbox(path).accept(queued("left over"))
    lane = make_lane(path, turns)
    assert lane.recover() == 1
    await lane.idle()
    assert turns.texts == ["left over"]


async def test_a_turn_that_was_cut_off_goes_on_as_one_and_not_for_ever(tmp_path: Path, turns: Turns) -> None:
    path = tmp_path / "inbox.jsonl"
    for text in ("begun", "steered", "waiting"):
        Inbox(path).accept(queued(text))
    stored = {queued("begun").key, queued("steered").key}
    for _ in range(MAX_RESUMES):
        assert Inbox(path).resume(*stored)  # and that process died, too
    lane = make_lane(path, turns)
    assert lane.recover(stored.__contains__) == 1
    await lane.idle()
    assert turns.texts == ["waiting"]


async def test_only_a_turn_that_was_begun_again_counts_as_cut_off_again(tmp_path: Path, turns: Turns) -> None:
    path, places = tmp_path / "inbox.jsonl", Places(lambda: {"main": 1})
    Inbox(path).accept(queued("begun"))
    async with places.place("main"):
        for _ in range(MAX_RESUMES + 2):  # processes that die while others are at work
            lane = make_lane(path, turns, places)
            assert lane.recover(lambda _key: True) == 1
            await asyncio.sleep(0)
            assert lane.task is not None
            lane.task.cancel()
            await lane.idle()
        assert turns.texts == []
    lane = make_lane(path, turns, places)
    assert lane.recover(lambda _key: True) == 1
    await lane.idle()
    assert turns.texts == ["begun"]
    assert path.read_text().count("resumed") == 1


async def test_a_turn_that_goes_on_has_all_its_messages(tmp_path: Path, turns: Turns) -> None:
    path = tmp_path / "inbox.jsonl"
    for text in ("begun", "steered", "waiting"):
        Inbox(path).accept(queued(text))
    lane = make_lane(path, turns)
    assert lane.recover(lambda key: key != queued("waiting").key) == 3
    await lane.idle()
    assert turns.texts == ["steered", "waiting"]
    assert Inbox(path).pending == ()


async def test_a_turn_that_was_cut_off_ends_where_that_is_configured(tmp_path: Path, turns: Turns) -> None:
    path = tmp_path / "inbox.jsonl"
    Inbox(path).accept(queued("begun"))
    lane = make_lane(path, turns)
    assert lane.recover(lambda _key: True, go_on=False) == 0
    assert Inbox(path).pending == ()
    assert turns.texts == []


async def test_a_message_stays_in_the_inbox_until_its_turn_is_over(tmp_path: Path, turns: Turns) -> None:
    path = tmp_path / "inbox.jsonl"
    lane = make_lane(path, turns)
    gate = await busy(lane, turns)
    assert Inbox(path).pending == (queued("first"),)
    gate.set()
    await lane.idle()
    assert Inbox(path).pending == ()


async def test_closing_keeps_what_waits_for_the_next_start(tmp_path: Path, turns: Turns) -> None:
    path = tmp_path / "inbox.jsonl"
    lane = make_lane(path, turns)
    gate = await busy(lane, turns)
    lane.submit(queued("later", rules=FOLLOWUP))
    gate.set()
    await lane.close()
    assert lane.submit(queued("too late")).refused
    assert turns.texts == ["first"]
    assert [item.text for item in Inbox(path).pending] == ["later"]


async def test_closing_hands_over_a_turn_that_another_process_waits_for(tmp_path: Path, turns: Turns) -> None:
    reasons: list[str] = []

    async def during(given: Given) -> None:
        reasons.append(await given.cancel.wait())

    turns.during = during
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    for name, waits in (("theirs", ""), ("mine", ""), ("mine", "theirs")):
        inbox = Inbox(tmp_path / f"{name}{waits}.jsonl")
        lane = SessionLane(inbox, turns, Places(), clock)
        lane.theirs = lambda item: item.text == "theirs"
        lane.submit(queued(name))
        while len(turns.texts) == len(reasons):
            await asyncio.sleep(0)
        if waits:  # it stays in the inbox, and the turn is none of its business
            lane.submit(queued(waits, rules=FOLLOWUP))
        await lane.close()
    assert reasons == [HANDED_OVER, CLOSED, CLOSED]


@pytest.mark.parametrize("mode", [FOLLOWUP, Rules(mode=Mode.STEER)], ids=["waits", "is to be heard"])
async def test_a_message_is_taken_back_that_no_turn_has_begun_with(
    mode: Rules, lane: SessionLane, turns: Turns, tmp_path: Path
) -> None:
    gate = await busy(lane, turns)
    first, second, third = queued("first"), queued("second", rules=mode), queued("third", rules=FOLLOWUP)
    lane.submit(second)
    lane.submit(third)
    assert lane.take_back(first.key, running=False) == ""
    assert lane.take_back("unknown", running=True) == ""
    assert lane.take_back(second.key, running=True) == "forgotten"
    assert lane.take_back(second.key, running=True) == ""
    gate.set()
    await lane.idle()
    assert turns.texts == ["first", "third"]
    assert Inbox(tmp_path / "inbox.jsonl").pending == ()


async def test_a_turn_is_ended_for_the_one_who_asked_and_for_nobody_else(lane: SessionLane, turns: Turns) -> None:
    await busy(lane, turns)
    lane.submit(queued("later", rules=FOLLOWUP))
    assert lane.take_back(queued("first").key, running=True) == "stopping"
    turns.gate = None
    await lane.idle()
    assert turns.texts == ["first", "later"]


async def test_the_same_message_twice_is_answered_once(lane: SessionLane, turns: Turns) -> None:
    lane.submit(queued("hello"))
    assert lane.submit(queued("hello")).refused
    await lane.idle()
    assert lane.submit(queued("hello")).refused
    assert turns.texts == ["hello"]


async def test_a_fifth_session_waits_for_a_place(tmp_path: Path, turns: Turns) -> None:
    turns.gate = asyncio.Event()
    places = Places(lambda: {"main": 4})
    lanes = [make_lane(tmp_path / f"{number}.jsonl", turns, places) for number in range(5)]
    for number, lane in enumerate(lanes):
        lane.submit(queued(f"m{number}"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert turns.active == 4
    turns.gate.set()
    await asyncio.gather(*(lane.idle() for lane in lanes))
    assert turns.most == 4
    assert len(turns.texts) == 5


async def test_what_was_dropped_and_not_told_of_is_told_after_a_crash(tmp_path: Path, turns: Turns) -> None:
    path, rules = tmp_path / "inbox.jsonl", Rules(mode=Mode.FOLLOWUP, cap=2)
    lane = make_lane(path, turns)
    await busy(lane, turns)
    for number in range(5):
        lane.submit(queued(f"m{number}", rules=rules))
    # The process is killed here: nobody has heard of m0, m1 and m2.
    again = Turns()
    revived = make_lane(path, again)
    revived.recover(lambda key: key == "a/first", go_on=False)
    await revived.idle()
    assert again.texts[0].startswith("[Queue overflow] Dropped 3 message(s) due to cap.\n- m1\n- m2")
    assert again.texts[1:] == ["m3", "m4"]
    assert Inbox(path).pending == Inbox(path).dropped == ()
    third = make_lane(path, turns)
    assert third.recover() == 0
    assert third.idle_now


async def test_a_notice_alone_is_told_when_the_rest_was_answered_before_the_crash(tmp_path: Path, turns: Turns) -> None:
    path = tmp_path / "inbox.jsonl"
    inbox = Inbox(path)
    inbox.accept(queued("gone"))
    inbox.drop("a/gone")
    inbox.close()
    lane = make_lane(path, turns)
    assert not inbox.accept(queued("gone"))  # it counts as known
    lane.recover()
    await lane.idle()
    assert turns.texts == ["[Queue overflow] Dropped 1 message(s) due to cap.\n- gone"]
    told = make_lane(path, Turns())
    assert told.recover(lambda _key: True) == 0


async def test_stop_forgets_what_was_dropped_too(tmp_path: Path, turns: Turns) -> None:
    lane = make_lane(tmp_path / "inbox.jsonl", turns)
    await busy(lane, turns)
    for number in range(4):
        lane.submit(queued(f"m{number}", rules=Rules(mode=Mode.FOLLOWUP, cap=1)))
    assert lane.stop()
    await lane.idle()
    assert Inbox(tmp_path / "inbox.jsonl").dropped == ()
    assert turns.texts == ["first"]


async def test_steer_backlog_joins_the_turn_and_has_a_turn_of_its_own(lane: SessionLane, turns: Turns) -> None:
    heard: list[str] = []

    async def listen(given: Given) -> None:
        while given.batch.text == "first" and not heard:
            await asyncio.sleep(0)
            for item in given.mailbox.take():
                heard.append(item.text)
                given.settle(item.key)

    turns.during = listen
    lane.submit(queued("first"))
    while not turns.texts:
        await asyncio.sleep(0)
    assert lane.submit(queued("and this", rules=Rules(mode=Mode.STEER_BACKLOG))).action is Action.STEER
    assert lane.submit(queued("and this", rules=Rules(mode=Mode.STEER_BACKLOG))).refused
    await lane.idle()
    assert heard == ["and this"]
    assert turns.texts == ["first", "and this"]


async def test_what_waits_to_steer_is_bounded(lane: SessionLane, turns: Turns) -> None:
    gate = await busy(lane, turns)
    rules = Rules(mode=Mode.STEER, cap=3, drop=Drop.NEW)
    actions = [lane.submit(queued(f"m{number}", rules=rules)) for number in range(8)]
    assert [one.action for one in actions[:3]] == [Action.STEER] * 3
    assert [one.action for one in actions[3:6]] == [Action.ENQUEUE] * 3
    assert all(one.refused for one in actions[6:])
    gate.set()
    await lane.idle()


async def test_what_steers_is_not_heard_before_an_earlier_one_that_a_crash_left(tmp_path: Path, turns: Turns) -> None:
    steer = Rules(mode=Mode.STEER, debounce_ms=0)
    inbox = Inbox(tmp_path / "inbox.jsonl")
    for name in ("one", "two"):
        inbox.accept(queued(name, rules=steer))
    inbox.close()
    lane = make_lane(tmp_path / "inbox.jsonl", turns)
    heard: list[str] = []
    begun = asyncio.Event()

    async def listen(given: Given) -> None:
        if begun.is_set():
            return
        begun.set()
        assert lane.submit(queued("three", rules=steer)).action is Action.ENQUEUE
        heard.extend(item.text for item in given.mailbox.take())

    turns.during = listen
    lane.recover(lambda key: key == queued("one", rules=steer).key)  # its turn was cut off; the second was not begun
    await lane.idle()
    assert not heard
    said = "\n".join(turns.texts)
    assert said.index("two") < said.index("three")


class Refusing(Inbox):
    """An inbox whose home is somebody else's, or whose disk is full, once a turn has run."""

    problem: StorageError | None = None

    def settle(self, *keys: str) -> None:
        if self.problem is not None and keys:
            raise self.problem
        super().settle(*keys)


@pytest.mark.parametrize(("problem", "then"), [(Fenced("taken"), ["one"]), (StorageError("full"), ["one", "two"])])
async def test_a_turn_whose_end_cannot_be_noted(problem, then, tmp_path: Path, turns: Turns, caplog) -> None:
    inbox = Refusing(tmp_path / "inbox.jsonl")
    inbox.problem = problem
    lane = SessionLane(inbox, turns, Places(), ManualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    lane.submit(queued("one", rules=FOLLOWUP))
    await lane.idle()
    task = lane._task
    assert task is not None and task.exception() is None, "nobody would fetch it"
    assert lane.submit(queued("two", rules=FOLLOWUP)).refused == isinstance(problem, Fenced)
    await lane.idle()
    assert turns.texts == then
    assert not any(record.exc_info for record in caplog.records)
