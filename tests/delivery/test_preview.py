"""A reply that is seen while it is written: how often, what of it, and what happens when the platform objects."""

import asyncio
from datetime import UTC, datetime

import pytest

from homarus.core.clock import ManualClock
from homarus.core.errors import DeliveryError, DeliveryFailure
from homarus.core.events import MessageEnded, ModelCalled, TextDelta, ToolStarted
from homarus.core.messages import Assistant, Outbound, Text
from homarus.delivery.place import Piece, Place
from homarus.delivery.preview import Preview
from homarus.delivery.settings import PreviewSettings, ProgressSettings, StreamingSettings


class Screen:
    """Shows pieces at the moments of a clock that moves when the test says so."""

    def __init__(self, place: Place | None = None, **options: object) -> None:
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.clock.sleep = self.sleep  # type: ignore[method-assign]
        self.shown: list[tuple[str, str]] = []
        self.answers: list[DeliveryError | None] = []
        self.slept: list[float] = []
        self.second = asyncio.Event()
        self.gate: asyncio.Event | None = None
        self.preview = Preview(
            Outbound("p", "irc", "bob", ""),
            place or Place(edit=True),
            self.show,
            self.clock,
            **options,  # type: ignore[arg-type]
        )

    async def show(self, sent: str, piece: Piece) -> str:
        if self.answers and (answer := self.answers.pop(0)) is not None:
            raise answer
        if self.gate is not None:
            await self.gate.wait()
        self.shown.append((sent, piece.text))
        return sent or "m1"

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)
        self.second.clear()
        await self.second.wait()

    async def tick(self) -> list[tuple[str, str]]:
        """Let the next pause end, and everything that follows from it happen."""
        for _ in range(3):
            await asyncio.sleep(0)
        self.second.set()
        for _ in range(5):
            await asyncio.sleep(0)
        return self.shown

    async def end(self) -> str:
        return await self.preview.release()


def failure(kind: str, retry_after: float | None = None) -> DeliveryError:
    return DeliveryError(DeliveryFailure(kind), "no", retry_after=retry_after)


async def test_one_message_is_sent_and_then_edited_once_in_a_second() -> None:
    screen = Screen()
    screen.preview.update("One")
    screen.preview.update("One two")
    assert await screen.tick() == [("", "One two")]
    screen.preview.update("One two three")
    screen.preview.update("One two three four")
    assert await screen.tick() == [("", "One two"), ("m1", "One two three four")]
    assert await screen.tick() == [("", "One two"), ("m1", "One two three four")]  # nothing new, nothing sent
    assert set(screen.slept) == {1.0}
    assert await screen.end() == "m1"


async def test_words_that_may_become_the_silent_token_are_never_shown() -> None:
    screen = Screen()
    for part in ("NO", "_RE", "PLY"):
        screen.preview.take(TextDelta(part))
    assert await screen.tick() == []
    assert await screen.end() == ""


async def test_what_is_for_the_program_is_never_shown() -> None:
    screen = Screen()
    for part in ("<think>secret", " plan</think>", "Visible", "\nMEDIA: x.png"):
        screen.preview.take(TextDelta(part))
    await screen.tick()
    assert [text for _, text in screen.shown] == ["Visible"]
    await screen.end()


async def test_an_answer_that_is_begun_anew_starts_from_nothing() -> None:
    screen = Screen()
    screen.preview.take(TextDelta("Half of an ans"))
    await screen.tick()
    screen.preview.take(ModelCalled("m", 2))
    screen.preview.take(TextDelta("The whole answer."))
    assert (await screen.tick())[-1] == ("m1", "The whole answer.")
    screen.preview.take(MessageEnded(Assistant((Text("The whole answer."),))))
    assert (await screen.tick())[-1] == ("m1", "The whole answer.")
    await screen.end()


async def test_only_the_first_message_of_a_long_text_is_seen() -> None:
    screen = Screen(Place(limit=20, edit=True))
    screen.preview.update("one two three four five six seven")
    assert await screen.tick() == [("", "one two three four")]
    await screen.end()


async def test_tools_are_named_until_there_are_words() -> None:
    screen = Screen()
    screen.preview.take(ToolStarted("1", "read", {"path": "notes.md"}))
    screen.preview.take(
        ToolStarted("2", "exec", {"command": "curl -H 'Authorization: Bearer sk-1234567890abcdefghij1234567890'"})
    )
    [(_, text)] = await screen.tick()
    assert text.startswith("⏳ Working…\n• read: notes.md\n• exec: curl")
    assert "sk-1234567890abcdefghij" not in text
    screen.preview.take(TextDelta("Here it is."))
    assert (await screen.tick())[-1] == ("m1", "Here it is.")
    await screen.end()


async def test_a_complete_answer_stays_until_it_is_sent() -> None:
    screen = Screen()
    screen.preview.take(ToolStarted("1", "read", {}))
    screen.preview.take(TextDelta("All of it."))
    screen.preview.take(MessageEnded(Assistant((Text("All of it."),))))
    assert await screen.tick() == [("", "All of it.")]
    await screen.end()


async def test_progress_shows_tools_and_never_words() -> None:
    screen = Screen(mode="progress")
    screen.preview.take(TextDelta("Some words"))
    for number in range(12):
        screen.preview.take(ToolStarted(str(number), "read", {"path": str(number)}))
    [(_, text)] = await screen.tick()
    assert text.splitlines() == ["⏳ Working…", *(f"• read: {number}" for number in range(4, 12))]
    assert await screen.end() == "m1"


async def test_progress_is_as_long_and_as_wide_as_configured() -> None:
    screen = Screen(mode="progress", settings=StreamingSettings(progress=ProgressSettings(2, 10, label="Busy")))
    for number in range(5):
        screen.preview.take(ToolStarted(str(number), "read", {"path": f"{number} and more"}))
    [(_, text)] = await screen.tick()
    assert text == "Busy\n• read: 3 a…\n• read: 4 a…"
    await screen.end()


async def test_no_tools_are_named_where_that_is_switched_off() -> None:
    screen = Screen(settings=StreamingSettings(preview=PreviewSettings(tool_progress=False)))
    screen.preview.take(ToolStarted("1", "read", {}))
    assert await screen.tick() == []
    await screen.end()


async def test_a_platform_that_asks_for_patience_gets_it() -> None:
    screen = Screen()
    screen.answers = [failure("rate_limit", 30.0), failure("transient")]
    screen.preview.update("One")
    await screen.tick()
    await screen.tick()
    assert await screen.tick() == [("", "One")]
    assert screen.slept[:3] == [1.0, 30.0, 2.0]
    await screen.end()


@pytest.mark.parametrize("kind", ["refused", "unknown"])
async def test_a_platform_that_refuses_is_left_alone(kind: str) -> None:
    screen = Screen()
    screen.answers = [failure(kind)]
    screen.preview.update("One")
    await screen.tick()
    screen.preview.update("One two")
    assert await screen.tick() == []
    assert await screen.end() == ""


async def test_refused_markup_is_shown_as_words() -> None:
    screen = Screen(Place(dialect="telegram-html", edit=True))
    screen.answers = [failure("markup")]
    screen.preview.update("**One**")
    await screen.tick()
    assert await screen.tick() == [("", "One")]
    await screen.end()


async def test_nothing_is_shown_after_the_end_and_the_end_can_be_asked_for_twice() -> None:
    screen = Screen()
    screen.preview.update("One")
    await screen.tick()
    assert await screen.end() == await screen.end() == "m1"
    screen.preview.update("One two")
    assert await screen.tick() == [("", "One")]


async def test_the_end_waits_for_what_is_on_its_way_and_for_nothing_else() -> None:
    screen = Screen()
    screen.gate = asyncio.Event()
    screen.preview.update("One")
    await screen.tick()
    releasing = asyncio.ensure_future(screen.preview.release())
    await asyncio.sleep(0)
    assert not releasing.done()
    screen.gate.set()
    assert await releasing == "m1"


async def test_a_thought_is_seen_until_there_are_words() -> None:
    screen = Screen(mode="progress")
    screen.preview.think("Is it ")
    screen.preview.think("Is it blue, with sk-ant-REDACTED?")
    [(_, thought)] = await screen.tick()
    assert thought.startswith("💭 Is it blue") and "abcdefghij" not in thought
    screen.preview.think("x" * 5000)
    assert len((await screen.tick())[-1][1]) < 2000
    partial = Screen()
    partial.preview.think("Hm")
    await partial.tick()
    partial.preview.take(TextDelta("It is blue."))
    assert (await partial.tick())[-1] == ("m1", "It is blue.")
    await screen.end(), await partial.end()
