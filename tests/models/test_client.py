"""Asking a chain: retries, rotation, fallback, notices, deadlines, and exactly one end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock, epoch_ms
from homarus.core.errors import ModelError
from homarus.core.errors import ModelFailure as F
from homarus.core.events import ModelCalled, Notice, TextDelta
from homarus.core.messages import Assistant, Message, StopReason, Text, Thinking, User
from homarus.core.prompt import SystemPrompt
from homarus.models.auth import AuthStore
from homarus.models.catalog import Catalog
from homarus.models.client import ClientEvent, ModelClient
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.models.ref import ModelRef
from homarus.models.registry import Registry
from homarus.models.rotation import Credential, Pin
from homarus.models.select import Chain
from homarus.models.settings import AuthSettings
from homarus.net.client import HttpClient

START = datetime(2026, 11, 15, 8, tzinfo=UTC)
OK = "ok"


class Script:
    """Providers that answer from a script: one list of outcomes per model, the last one repeats."""

    def __init__(self, **outcomes: list[object]) -> None:
        self.outcomes = {name.replace("__", "/"): list(value) for name, value in outcomes.items()}
        self.asked: list[tuple[str, str, str]] = []
        self.messages: list[tuple[Message, ...]] = []

    def open(self, ref: ModelRef, credential: Credential) -> Script.Provider:
        return Script.Provider(self, ref, credential)

    class Provider:
        def __init__(self, script: Script, ref: ModelRef, credential: Credential) -> None:
            self.script, self.ref, self.credential = script, ref, credential

        async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
            self.script.messages.append(request.messages)
            self.script.asked.append((self.ref.key, self.credential.id, request.thinking))
            waiting = self.script.outcomes[self.ref.key]
            outcome = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            text = "hello"
            if isinstance(outcome, tuple):
                text, outcome = outcome
            if outcome != OK and text == "hello":
                text = ""
            if text:
                yield TextDelta(text)
            error = (
                None
                if outcome == OK
                else outcome
                if isinstance(outcome, ModelError)
                else ModelError(outcome, "it broke")
            )
            reason = StopReason.STOP if error is None else StopReason.ERROR
            parts = (Text(text),) if text else ()
            yield Stop(Assistant(parts, provider=self.ref.provider, model=self.ref.model, stop_reason=reason), error)


class World:
    """A client over scripted providers, with a clock that only waits make move."""

    def __init__(self, folder: Path, script: Script, keys: tuple[str, ...] = ("k1",)) -> None:
        self.clock = ManualClock(START)
        self.script = script
        registry = Registry(Catalog(), http=HttpClient(), clock=self.clock)
        for provider in {name.partition("/")[0] for name in script.outcomes}:
            registry.register(provider, script.open)
        self.auth = AuthStore(folder, clock=self.clock)
        self.client = ModelClient(
            registry,
            self.auth,
            clock=self.clock,
            settings=AuthSettings(),
            last_resort=lambda provider: [Credential(f"{provider}:{key}", provider, "api_key", key) for key in keys],
            dice=lambda: 0.0,
        )

    async def ask(
        self,
        *models: str,
        thinking: str = "",
        messages: tuple[Message, ...] = (User((Text("hi"),)),),
        **options: object,
    ) -> tuple[list[ClientEvent], Stop]:
        refs = tuple(ModelRef(*name.split("/", 1)) for name in models)
        request = ModelRequest("", SystemPrompt("s"), messages, thinking=thinking, session_id="s1")
        options.setdefault("cancel", Cancel())
        events = [event async for event in self.client.stream(request, Chain(refs, "config"), **options)]  # type: ignore[arg-type]
        assert sum(isinstance(event, Stop) for event in events) == 1
        assert isinstance(events[-1], Stop)
        return events[:-1], events[-1]


def notices(events: list[ClientEvent], kind: str) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.kind == kind]


async def test_a_good_answer_passes_through(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[OK]))
    events, stop = await world.ask("a/m")
    assert events == [ModelCalled("a/m", 1), TextDelta("hello")]
    assert stop.error is None
    assert stop.message.text == "hello"


async def test_transient_failures_are_retried_with_growing_waits_and_each_is_told(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[F.OVERLOADED, F.SERVER, F.NO_CONNECTION, OK]))
    events, stop = await world.ask("a/m")
    assert stop.error is None
    assert world.clock.monotonic() == 1 + 2 + 4
    assert [event.attempt for event in events if isinstance(event, ModelCalled)] == [1, 2, 3, 4]
    assert notices(events, "retry") == [
        "a/m: overloaded; trying again in 1 s",
        "a/m: server error; trying again in 2 s",
        "a/m: no connection; trying again in 4 s",
    ]


async def test_the_servers_wish_is_waited_for(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[ModelError(F.RATE_LIMIT, "slow down", retry_after=17.0), OK]))
    await world.ask("a/m")
    assert world.clock.monotonic() == 17


async def test_fallback_after_recovery_failed(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[F.SERVER], b__n=[OK]))
    events, stop = await world.ask("a/m", "b/n")
    assert stop.message.model == "n"
    # 1 + 2 + 4 + 8 + 16 + 30 seconds, and one more try within the 90 seconds of outage.
    assert len(world.script.asked) == 8 + 1
    assert notices(events, "fallback") == ["a/m failed (server error); going on with b/n"]


async def test_who_listens_hears_how_each_model_ended(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[F.AUTH], b__n=[F.OVERLOADED, OK]))
    heard: list[tuple[str, F | None]] = []
    world.client.heard = lambda ref, error: heard.append((ref.key, error.kind if error else None))
    await world.ask("a/m", "b/n")
    assert heard == [("a/m", F.AUTH), ("b/n", None)], "an attempt that is made again is no end"


async def test_bad_keys_rotate_and_rest(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[F.AUTH, F.BILLING, OK]), keys=("k1", "k2", "k3"))
    _, stop = await world.ask("a/m")
    assert stop.error is None
    assert [credential for _, credential, _ in world.script.asked] == ["a:k1", "a:k2", "a:k3"]
    assert world.clock.monotonic() == 0, "a bad key is not waited for"
    now = epoch_ms(world.clock.now())
    assert world.auth.stats("a:k1").resting_until("m", now)
    assert world.auth.stats("a:k2").disabled_until
    await world.ask("a/m")
    assert world.script.asked[-1][1] == "a:k3", "resting keys come last"


async def test_everything_failed(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[F.AUTH], b__n=[F.MODEL_NOT_FOUND]))
    _, stop = await world.ask("a/m", "b/n")
    assert stop.error is not None
    assert stop.error.kind is F.MODEL_NOT_FOUND
    assert "all 2 models failed" in stop.error.message
    assert stop.message.error == stop.error.message


@pytest.mark.parametrize("kind", [F.REFUSAL, F.REQUEST_TOO_LARGE, F.CONTEXT_OVERFLOW])
async def test_what_no_other_model_can_cure_stops_at_once(tmp_path: Path, kind: F):
    world = World(tmp_path, Script(a__m=[kind], b__n=[OK]))
    _, stop = await world.ask("a/m", "b/n")
    assert stop.error is not None
    assert stop.error.kind is kind
    assert len(world.script.asked) == 1


@pytest.mark.parametrize("kind", [F.FORMAT, F.UNREACHABLE, F.MODEL_NOT_FOUND])
async def test_what_fails_here_again_in_the_same_way_is_asked_of_the_next_model_at_once(tmp_path: Path, kind: F):
    world = World(tmp_path, Script(a__m=[kind], b__n=[OK]))
    events, stop = await world.ask("a/m", "b/n")
    assert stop.error is None
    assert len(world.script.asked) == 2
    assert kind.value.replace("_", " ") in notices(events, "fallback")[0]


async def test_a_model_that_a_person_chose_has_no_fallback(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[F.BILLING]))
    events, stop = await world.ask("a/m")
    assert stop.error is not None
    assert stop.error.kind is F.BILLING
    assert notices(events, "fallback") == []


async def test_a_level_that_the_model_refuses_is_lowered_and_remembered(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[F.THINKING_LEVEL, F.THINKING_LEVEL, OK]))
    _, stop = await world.ask("a/m", thinking="high")
    assert stop.error is None
    assert [level for _, _, level in world.script.asked] == ["high", "off", ""]
    await world.ask("a/m", thinking="high")
    assert world.script.asked[-1][2] == "", "asked once, known from then on"


async def test_reasoning_that_a_server_does_not_take_back_is_left_out_and_the_level_stays(tmp_path: Path):
    stale = ModelError(F.THINKING_LEVEL, "a/m: messages.1.content.0: Invalid `signature` in `thinking` block")
    world = World(tmp_path, Script(a__m=[stale, OK]))
    history = (User((Text("hi"),)), Assistant((Thinking("hm", "old"), Text("yes"))), User((Text("and?"),)))
    _, stop = await world.ask("a/m", thinking="high", messages=history)
    assert stop.error is None
    assert [level for _, _, level in world.script.asked] == ["high", "high"]
    assert world.script.messages[0] == history
    assert world.script.messages[1] == (history[0], Assistant((Text("yes"),)), history[2])


async def test_levels_are_fitted_to_the_model(tmp_path: Path):
    world = World(tmp_path, Script(anthropic__claude_x=[OK]))
    world.script.outcomes = {"anthropic/claude-opus-5-5": [OK], "openai/gpt-4o": [OK]}
    world.client.registry.register("openai", world.script.open)
    await world.ask("anthropic/claude-opus-5-5", thinking="minimal")
    await world.ask("openai/gpt-4o", thinking="high")
    assert [level for _, _, level in world.script.asked] == ["low", ""]


async def test_cancel_while_waiting(tmp_path: Path):
    class Slow(ManualClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(30)

    world = World(tmp_path, Script(a__m=[F.SERVER]))
    world.client._clock = Slow(START)
    cancel = Cancel()
    asyncio.get_running_loop().call_later(0.02, cancel.cancel, "user")
    _, stop = await world.ask("a/m", cancel=cancel)
    assert stop.error is not None
    assert stop.error.kind is F.ABORTED
    assert stop.message.stop_reason is StopReason.ABORTED


async def test_the_deadline_ends_the_retries(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[F.SERVER]))
    _, stop = await world.ask("a/m", deadline=5.0)
    assert stop.error is not None
    assert world.clock.monotonic() <= 5


async def test_half_a_stream_that_timed_out_does_not_cool_the_key(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[("half", F.TIMEOUT)]))
    _, stop = await world.ask("a/m")
    assert stop.message.text == "half"
    assert world.auth.stats("a:k1").cooldown_until == 0
    silent = World(tmp_path, Script(a__m=[F.TIMEOUT]))
    await silent.ask("a/m")
    assert silent.auth.stats("a:k1").cooldown_until


async def test_a_resting_model_is_skipped_while_there_is_another(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[F.RATE_LIMIT], b__n=[OK]))
    await world.ask("a/m", "b/n")
    before = len(world.script.asked)
    events, stop = await world.ask("a/m", "b/n")
    assert [name for name, _, _ in world.script.asked[before:]] == ["b/n"]
    assert notices(events, "fallback") == [], "the session lives on the fallback already"
    assert stop.error is None
    alone = len(world.script.asked)
    await world.ask("a/m")
    assert len(world.script.asked) > alone, "the only model is tried all the same"


async def test_coming_back_is_said_once(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[F.BILLING, OK], b__n=[OK]))
    await world.ask("a/m", "b/n")
    world.clock.advance(3600)
    events, stop = await world.ask("a/m", "b/n")
    assert stop.message.model == "m"
    assert notices(events, "fallback") == ["back on a/m"]
    events, _ = await world.ask("a/m", "b/n")
    assert notices(events, "fallback") == []


async def test_no_key_is_said_without_a_call(tmp_path: Path):
    world = World(tmp_path, Script(b__n=[OK]), keys=())
    _, stop = await world.ask("anthropic/claude-opus-5-5")
    assert stop.error is not None
    assert stop.error.kind is F.AUTH
    assert "ANTHROPIC_API_KEY" in stop.error.cure
    _, stop = await world.ask("anthropic/claude-opus-5-5", "b/n")
    assert stop.error is None


async def test_an_unknown_provider_says_what_is_missing(tmp_path: Path):
    world = World(tmp_path, Script(b__n=[OK]))
    _, stop = await world.ask("nowhere/m")
    assert stop.error is not None
    assert stop.error.kind is F.MODEL_NOT_FOUND
    assert "models.providers.nowhere.baseUrl" in stop.error.cure


async def test_a_pinned_credential_goes_first(tmp_path: Path):
    (tmp_path / "auth-profiles.json").write_text(
        '{"profiles": {"a:x": {"type": "api_key", "provider": "a", "key": "1"}, "a:y": {"type": "api_key", "provider": "a", "key": "2"}}}'
    )
    world = World(tmp_path, Script(a__m=[OK]))
    await world.ask("a/m", pin=Pin("a:y"))
    assert world.script.asked[-1][1] == "a:y"
    request = ModelRequest("", SystemPrompt("s"), (User((Text("hi"),)),))
    chain = Chain((ModelRef("a", "m", "a:x"),), "user", strict=True)
    async for _ in world.client.stream(request, chain, cancel=Cancel()):
        pass
    assert world.script.asked[-1][1] == "a:x"


async def test_words_of_a_broken_attempt_are_called_void(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[("half a tho", F.TIMEOUT), OK]))
    events, stop = await world.ask("a/m")
    assert stop.message.text == "hello"
    assert notices(events, "restart") == ["a/m broke off; what it said so far is void"]
    kinds = [event.kind if isinstance(event, Notice) else type(event).__name__ for event in events]
    assert kinds == ["ModelCalled", "TextDelta", "restart", "retry", "ModelCalled", "TextDelta"]


async def test_a_consumer_that_walks_away_closes_the_stream(tmp_path: Path):
    world = World(tmp_path, Script(a__m=[("long", OK)]))
    request = ModelRequest("", SystemPrompt("s"), (User((Text("hi"),)),))
    stream = world.client.stream(request, Chain((ModelRef("a", "m"),), "config"), cancel=Cancel())
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await stream.aclose()
