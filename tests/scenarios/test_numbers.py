"""Numbers that are plain settings: each stands here once, beside what it is for."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.queue.helpers import queued
from tests.scenarios.home import House
from tests.scenarios.script import Line

from homarus.agent.settings import TurnSettings
from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock, SystemClock
from homarus.core.errors import ModelError, ModelFailure
from homarus.core.routes import SessionKey, main_session
from homarus.models.catalog import Catalog
from homarus.models.ref import ModelRef
from homarus.models.registry import Registry
from homarus.models.rotation import Credential
from homarus.models.settings import ModelsSettings, ProviderSettings
from homarus.net.client import HttpClient
from homarus.queue.inbox import MAX_SETTLED, Inbox
from homarus.queue.lane import LIMITS, Places, SessionLane
from homarus.queue.settings import InboundSettings
from homarus.runtime.lanes import lane_of


def test_a_run_may_take_ten_minutes() -> None:
    assert TurnSettings().timeout_seconds == 600


@pytest.mark.parametrize(
    ("url", "seconds", "idle"),
    [
        ("https://api.example.com/v1", None, 120),
        ("http://127.0.0.1:1234/v1", None, 300),
        ("http://192.168.1.7:8000/v1", None, 300),
        ("https://api.example.com/v1", 500, 500),
        ("https://api.example.com/v1", 10, 120),
    ],
)
def test_how_long_a_model_may_be_silent(url: str, seconds: float | None, idle: float) -> None:
    own = ProviderSettings(base_url=url, timeout_seconds=seconds)
    catalog = Catalog(ModelsSettings(providers={"acme": own}))
    registry = Registry(catalog, http=HttpClient(), clock=SystemClock())
    assert registry.endpoint(ModelRef("acme", "m"), Credential("c", "acme")).idle_timeout == idle


@pytest.mark.parametrize(
    ("key", "lane", "places"),
    [
        ("agent:main:main", "main", 32),
        ("agent:main:subagent:x", "subagent", 8),
        ("agent:main:cron:job", "cron-nested", 1),
    ],
)
def test_the_lane_of_a_session_and_its_places(key: str, lane: str, places: int) -> None:
    assert lane_of(SessionKey.parse(key)) == lane
    assert LIMITS[lane] == places


async def test_an_unknown_lane_has_one_place() -> None:
    place = Places().place("nobody knows it")
    await place.acquire()
    assert place.locked()


async def test_a_turn_that_waited_longer_than_two_seconds_for_its_place_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, places = ManualClock(datetime(2026, 5, 1, tzinfo=UTC)), Places(lambda: {"main": 1})
    await places.place("main").acquire()

    async def run(*_given: Any) -> None:
        return None

    for seconds, logged in ((1.9, False), (2.1, True)):
        lane = SessionLane(Inbox(tmp_path / f"{seconds}.jsonl"), run, places, clock)
        with caplog.at_level(logging.WARNING):
            lane.submit(queued(f"wait {seconds}"))
            await asyncio.sleep(0)
            clock.advance(seconds)
            places.place("main").release()
            await lane.idle()
            await places.place("main").acquire()
        assert ("waited" in caplog.text) is logged


def test_the_newest_five_thousand_messages_are_known_also_after_the_file_was_cleaned(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox.jsonl")
    inbox._settled = {f"key-{number}": None for number in range(MAX_SETTLED)}
    big = queued("x" * 1_200_000)
    inbox.accept(big)
    inbox.settle(big.key)
    inbox.close()
    again = Inbox(tmp_path / "inbox.jsonl")
    assert MAX_SETTLED == 5_000
    assert again.knows(big.key)
    assert again.knows("key-4999")
    assert not again.knows("key-0")


@pytest.mark.parametrize(
    ("settings", "channel", "wait"),
    [
        ({}, "telegram", 300),
        ({}, "discord", 0),
        ({"debounceMs": 50}, "telegram", 50),
        ({"byChannel": {"telegram": 0}}, "telegram", 0),
        ({"debounceMs": 50, "byChannel": {"discord": 900}}, "discord", 900),
    ],
)
def test_how_long_a_sender_who_types_in_pieces_is_waited_for(
    settings: dict[str, object], channel: str, wait: int
) -> None:
    import msgspec

    assert msgspec.convert(settings, InboundSettings).delay_ms(channel) == wait


async def test_a_run_that_fails_too_often_is_given_up(tmp_path: Path) -> None:
    overloaded = Line("", (), ModelError(ModelFailure.OVERLOADED, "busy"))
    good = Line("", (("ls", {}),))
    lines = [line for _ in range(12) for line in (overloaded, overloaded, overloaded, good)]
    house = House(tmp_path, *lines)
    async with house.agent() as agent:
        reply = await agent.ask("hi", seconds=0)
    assert reply.status == "error"
    assert "given up after 33 failed attempts" in reply.error


async def test_a_fallback_that_an_older_program_stored_is_not_kept_to(tmp_path: Path) -> None:
    house = House(tmp_path)
    async with house.agent() as agent:
        await agent.ask("hi")
    index = house.state / "agents/main/sessions/sessions.json"
    rows = json.loads(index.read_text())
    rows["agent:main:main"] |= {"providerOverride": "script", "modelOverride": "old", "modelOverrideSource": "auto"}
    index.write_text(json.dumps(rows))
    async with house.agent() as agent:
        await agent.ask("hi again")
    assert [request.model for request in house.model.requests] == ["model", "model"]


def test_a_stop_reaches_children_first() -> None:
    parent = Cancel()
    child = parent.child()
    parent.cancel("stop")
    assert child.cancelled
    assert str(main_session("main")) == "agent:main:main"
