"""The registry: order, time limits, and failures that stay inside."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from datetime import UTC, datetime

import pytest

from homarus.hooks.events import HookEvent, event
from homarus.hooks.registry import HookRegistry

NOW = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)


def note(name: str, kind: str = "async"):
    """A handler that leaves its name in the messages."""

    async def later(heard: HookEvent) -> None:
        heard.messages.append(name)

    def now(heard: HookEvent) -> None:
        heard.messages.append(name)

    return later if kind == "async" else now


async def test_families_first_then_order_then_registration():
    hooks = HookRegistry()
    hooks.register("session:compact:after", note("exact 1"), source="t")
    hooks.register("session:compact", note("middle"), source="t")
    hooks.register("session:compact:after", note("exact early"), source="t", order=-1)
    hooks.register("session:*", note("family 1", "sync"), source="t")
    hooks.register("session", note("family 2"), source="t")
    hooks.register("command", note("never"), source="t")
    heard = await hooks.emit(event("session:compact:after", NOW))
    assert heard.messages == ["family 1", "family 2", "middle", "exact early", "exact 1"]


async def test_a_removed_listener_hears_nothing():
    hooks = HookRegistry()
    remove = hooks.register("command:new", note("gone"), source="t")
    hooks.register("command:new", note("stays"), source="t")
    remove()
    remove()
    assert (await hooks.emit(event("command:new", NOW))).messages == ["stays"]
    hooks.clear()
    assert (await hooks.emit(event("command:new", NOW))).messages == []


@pytest.mark.parametrize(
    "problem", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()]
)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_raising_hook_is_logged_and_the_turn_goes_on(problem, kind, caplog):
    hooks = HookRegistry()

    async def later(heard: HookEvent) -> None:
        heard.messages.append("half done")
        heard.context["files"].append("half done")
        raise problem

    def now(heard: HookEvent) -> None:
        heard.messages.append("half done")
        raise problem

    hooks.register("command:new", later if kind == "async" else now, source="bad\nhook")
    hooks.register("command:new", note("after"), source="good")
    with caplog.at_level(logging.WARNING):
        heard = await hooks.emit(event("command:new", NOW, context={"files": []}))
    assert heard.messages == ["after"]
    assert heard.context == {"files": []}
    (record,) = caplog.records
    assert type(problem).__name__ in record.getMessage() or kind == "async"
    assert "command:new" in record.getMessage()


async def test_a_slow_hook_is_left_behind_and_changes_nothing_later(caplog):
    hooks = HookRegistry()
    release = threading.Event()
    finished = threading.Event()

    def slow(heard: HookEvent) -> None:
        release.wait(60)
        heard.messages.append("late")
        heard.context["files"].append("late")
        finished.set()

    async def stubborn(heard: HookEvent) -> None:
        while not release.is_set():
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                heard.messages.append("late")
                await asyncio.sleep(0.01)

    hooks.register("command:new", slow, source="slow", timeout=0.02)
    hooks.register("command:new", stubborn, source="stubborn", timeout=0.02)
    hooks.register("command:new", note("after"), source="good", timeout=60)
    with caplog.at_level(logging.WARNING):
        heard = await hooks.emit(event("command:new", NOW, context={"files": []}), timeout=0.02)
    assert heard.messages == ["after"]
    release.set()
    assert await asyncio.to_thread(finished.wait, 60)
    await asyncio.sleep(0)
    assert heard.messages == ["after"]
    assert heard.context == {"files": []}
    assert [record.args[0] for record in caplog.records] == ["slow", "stubborn"]


async def test_being_cancelled_is_not_contained():
    hooks = HookRegistry()
    started = asyncio.Event()
    ended = asyncio.Event()

    async def waits(_: HookEvent) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    hooks.register("command:new", waits, source="t")
    emitting = asyncio.create_task(hooks.emit(event("command:new", NOW)))
    await started.wait()
    emitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await emitting
    await asyncio.wait_for(ended.wait(), 60)


async def test_changes_reach_the_objects_that_the_emitter_holds():
    hooks = HookRegistry()
    files = [{"name": "SOUL.md", "content": "old"}, {"name": "USER.md"}]
    context = {"bootstrapFiles": files, "gone": 1}

    def swap(heard: HookEvent) -> None:
        heard.context["bootstrapFiles"][0]["content"] = "new"
        heard.context["bootstrapFiles"].append({"name": "AGENTS.md"})

    async def rebuild(heard: HookEvent) -> None:
        heard.context["bootstrapFiles"] = [*heard.context["bootstrapFiles"], {"name": "X.md"}]
        del heard.context["gone"]
        heard.context["added"] = True

    hooks.register("agent:bootstrap", swap, source="t")
    hooks.register("agent:bootstrap", rebuild, source="t")
    await hooks.emit(event("agent:bootstrap", NOW, context=context))
    assert [item["name"] for item in files] == ["SOUL.md", "USER.md", "AGENTS.md", "X.md"]
    assert files[0]["content"] == "new"
    assert context == {"bootstrapFiles": files, "added": True}


async def test_every_handler_sees_only_its_own_options():
    hooks = HookRegistry()
    seen = []

    def look(heard: HookEvent) -> None:
        seen.append(dict(heard.options))
        heard.options["leak"] = True

    hooks.register("command", look, source="a", options={"paths": ["x"]})
    hooks.register("command", look, source="b")
    heard = await hooks.emit(event("command:stop", NOW))
    await hooks.emit(event("command:stop", NOW))
    assert seen == [{"paths": ["x"]}, {}] * 2
    assert heard.options == {}


async def test_a_plain_function_may_return_a_coroutine():
    hooks = HookRegistry()
    hooks.register("command:new", lambda heard: note("wrapped")(heard), source="t")
    assert (await hooks.emit(event("command:new", NOW))).messages == ["wrapped"]


def test_emit_sync_without_a_loop():
    hooks = HookRegistry()
    hooks.register("agent:bootstrap", note("a"), source="t")
    hooks.register("agent:bootstrap", note("b", "sync"), source="t")
    assert hooks.emit_sync(event("agent:bootstrap", NOW)).messages == ["a", "b"]


async def test_emit_sync_inside_a_running_loop():
    hooks = HookRegistry()
    hooks.register("agent:bootstrap", note("a"), source="t")
    assert hooks.emit_sync(event("agent:bootstrap", NOW)).messages == ["a"]


def test_emit_sync_contains_failures_and_hangs(caplog):
    hooks = HookRegistry()
    release = threading.Event()

    def hang(heard: HookEvent) -> None:
        release.wait(60)
        heard.context["files"].append("late")

    def leave(_: HookEvent) -> None:
        sys.exit(1)

    hooks.register("agent:bootstrap", hang, source="hang")
    hooks.register("agent:bootstrap", leave, source="leave", timeout=60)
    hooks.register("agent:bootstrap", note("after"), source="good", timeout=60)
    heard = event("agent:bootstrap", NOW, context={"files": []})
    with caplog.at_level(logging.WARNING):
        assert hooks.emit_sync(heard, timeout=0.02).messages == ["after"]
    release.set()
    assert heard.context == {"files": []}
    assert len(caplog.records) == 2


def test_emit_sync_goes_on_without_a_handler_that_blocks_its_loop(caplog):
    hooks = HookRegistry()
    release = threading.Event()

    async def blocks(heard: HookEvent) -> None:
        release.wait(60)
        heard.messages.append("late")

    hooks.register("agent:bootstrap", blocks, source="blocks", timeout=0.01)
    heard = event("agent:bootstrap", NOW)
    with caplog.at_level(logging.WARNING):
        hooks.emit_sync(heard)
    release.set()
    assert heard.messages == []
    assert "hook blocks failed on agent:bootstrap: TimeoutError: no answer within 0.01 s" in caplog.text


def test_emit_sync_waits_for_each_handler_alone():
    hooks = HookRegistry()
    release = threading.Event()

    async def blocks(_: HookEvent) -> None:
        release.wait(60)

    hooks.register("agent:bootstrap", blocks, source="blocks", timeout=0.01)
    hooks.register("agent:bootstrap", note("after"), source="good")
    assert hooks.emit_sync(event("agent:bootstrap", NOW)).messages == ["after"]
    release.set()


def test_emit_sync_cancels_a_coroutine_that_is_late():
    hooks = HookRegistry()
    cancelled = threading.Event()

    async def waits(_: HookEvent) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    hooks.register("agent:bootstrap", waits, source="waits", timeout=0.02)
    hooks.emit_sync(event("agent:bootstrap", NOW))
    assert cancelled.wait(60)


def test_emit_sync_without_listeners_starts_no_thread():
    before = threading.active_count()
    heard = event("agent:bootstrap", NOW)
    assert HookRegistry().emit_sync(heard) is heard
    assert threading.active_count() == before


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_an_exception_that_cannot_be_shown(kind, caplog):
    async def later(_: HookEvent) -> None:
        raise Mute

    def now(_: HookEvent) -> None:
        raise Mute

    hooks = HookRegistry()
    hooks.register("command", later if kind == "async" else now, source="mute")
    with caplog.at_level(logging.WARNING):
        await hooks.emit(event("command:new", NOW))
    assert "it cannot even say what" in caplog.text


@pytest.mark.parametrize(
    ("field", "value"), [("context", None), ("context", [1]), ("messages", None), ("messages", "text"), ("messages", 3)]
)
async def test_a_hook_that_leaves_nonsense_has_changed_nothing(field, value):
    def spoil(heard: HookEvent) -> None:
        heard.context["x"] = 2
        setattr(heard, field, value)

    hooks = HookRegistry()
    hooks.register("command", spoil, source="spoil")
    hooks.register("command", note("after"), source="good")
    heard = await hooks.emit(event("command:new", NOW, context={"x": 1}))
    assert (heard.context, heard.messages) == ({"x": 1}, ["after"])


async def test_messages_that_are_no_text_are_left_out():
    hooks = HookRegistry()
    hooks.register("command", lambda heard: heard.messages.extend([1, "text", None]), source="t")
    assert (await hooks.emit(event("command:new", NOW))).messages == ["text"]


def test_emit_sync_does_not_wait_for_a_handler_that_swallows_its_cancellation():
    release = threading.Event()

    async def stubborn(_: HookEvent) -> None:
        while not release.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue

    hooks = HookRegistry()
    hooks.register("agent:bootstrap", stubborn, source="stubborn", timeout=0.02)
    hooks.register("agent:bootstrap", note("after"), source="good")
    heard = hooks.emit_sync(event("agent:bootstrap", NOW))
    release.set()
    assert heard.messages == ["after"]
