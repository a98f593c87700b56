"""Heartbeats: when an agent looks after things by itself, when it does not, and what is said of it. The rules are pure.

A poll that has nothing to do costs no model call, and failures or a spent budget end polls instead of repeating them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from homarus.agent.budget import Spent, exceeded
from homarus.agent.home import Home
from homarus.automation.events import SystemEvents
from homarus.automation.schedule import hours_begin, in_hours
from homarus.automation.settings import HeartbeatSettings
from homarus.config.view import Config
from homarus.core.clock import epoch_ms
from homarus.core.errors import HomarusError, Locked, StorageError
from homarus.core.messages import Inbound, Trust
from homarus.core.routes import MAIN, SessionKey, SessionKind, named_session
from homarus.core.text import single_line
from homarus.delivery.sanitize import shape
from homarus.prompt.gather import find_zone
from homarus.prompt.sections.conversation import HEARTBEAT_PROMPT
from homarus.queue.collect import message_key
from homarus.storage.atomic import ensure_dir, move_aside, write_atomic
from homarus.storage.boundary import Root
from homarus.workspace import names
from homarus.workspace.inject import effectively_empty

if TYPE_CHECKING:
    from homarus.automation.starter import Ran, Starter

_log = logging.getLogger(__name__)
EVENT_PROMPT = (
    "Something happened: see System Events. Do what it asks of you, or tell the user what matters in your own words; "
    "a reminder is always passed on. "
    "Leave old tasks of this chat alone. If there is nothing to do or to tell, answer HEARTBEAT_OK."
)
MAX_LIST = 100_000
SAME_MS = 86_400_000  # how long the same words are not said again
CHANNEL = "heartbeat"
COALESCE_MS, WAKE_APART_MS = 250, 30_000
RETRY_MS = 60_000  # when a poll that met a busy session is tried again


class Pulse(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """What is known of one agent's heartbeats."""

    next_ms: int = 0
    last_ms: int = 0
    # sent, ok, skipped or failed, and why.
    status: str = ""
    reason: str = ""
    preview: str = ""
    duration_ms: int = 0
    errors: int = 0
    # Why polls stopped; empty while they go on.
    stopped: str = ""
    day: str = ""
    spent: Spent = Spent()
    sent_text: str = ""
    sent_ms: int = 0

    def told(self) -> dict[str, Any]:
        """Return the newest one as clients of the gateway know it."""
        fields = {"ts": self.last_ms, "status": self.status, "reason": self.reason, "preview": self.preview}
        return {**{key: value for key, value in fields.items() if value}, "durationMs": self.duration_ms}


class Pulses(Struct, rename="camel", kw_only=True):
    enabled: bool = True
    agents: dict[str, Pulse] = {}


class PulseFile:
    """Where heartbeats are remembered. A file that cannot be read switches them off: nobody knows any more what was stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: object = None

    def changed(self) -> bool:
        """Say whether somebody else has written it since this process did."""
        return self._path.exists() and self._now() != self._stamp

    def _now(self) -> object:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def read(self, now: datetime) -> Pulses:
        self._stamp = self._now()
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Pulses)
        except FileNotFoundError:
            return Pulses()
        except (OSError, ValueError) as problem:
            _log.warning("%s: %s; heartbeats are off (homarus system heartbeat enable)", self._path, problem)
        pulses = Pulses(enabled=False)
        if self._path.is_file():
            move_aside(self._path, "corrupt", now)
            self.write(pulses)
        return pulses

    def write(self, pulses: Pulses) -> None:
        ensure_dir(self._path.parent)
        write_atomic(self._path, msgspec.json.format(msgspec.json.encode(pulses), indent=2), lasting=False)
        self._stamp = self._now()


def beating(config: Config) -> dict[str, HeartbeatSettings]:
    """Return the agents that have heartbeats: those with a block of their own, or the default agent by the defaults."""
    entries = config.get("agents.entries")
    own = [name for name, entry in entries.items() if _has(entry)] if isinstance(entries, Mapping) else []
    ids = own or [config.default_agent.id]
    found = {agent_id: config.agent(agent_id).block("heartbeat", HeartbeatSettings) for agent_id in ids}
    return {agent_id: settings for agent_id, settings in found.items() if settings.seconds}


def _has(entry: Any) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("heartbeat"), Mapping)


def next_beat(pulse: Pulse, settings: HeartbeatSettings, now_ms: int) -> int:
    """Return when the next poll is due. After a long sleep that is once, and a clock that went back puts none off for long."""
    every = round(settings.seconds * 1000)
    due = pulse.next_ms or now_ms + every
    return min(due, now_ms + every)


def skip_reason(settings: HeartbeatSettings, pulse: Pulse, *, now: datetime, zone: tzinfo, workspace: Path) -> str:
    """Return why a poll is left out, in the order in which one would ask; empty when it runs."""
    if pulse.stopped:
        return "stopped"
    if hours := settings.active_hours:
        try:
            if not in_hours(hours.start, hours.end, now.astimezone(_zone(hours.timezone, zone, now))):
                return "quiet-hours"
        except HomarusError as problem:
            return f"quiet-hours: {problem}"  # hours that nobody understands allow none
    if over := over_budget(settings, pulse, now, zone):
        return f"budget: {over}"
    if nothing_to_do(workspace):
        return "empty-heartbeat-file"
    return ""


def over_budget(settings: HeartbeatSettings, pulse: Pulse, now: datetime, zone: tzinfo) -> str:
    over = exceeded(pulse.spent, settings.budget, whose="today's") if pulse.day == _day(now, zone) else None
    return over.text if over else ""


def resumes(settings: HeartbeatSettings, now: datetime, zone: tzinfo) -> int | None:
    """Return when quiet hours end; None where there are none now."""
    hours = settings.active_hours
    if hours is None:
        return None
    local = now.astimezone(_zone(hours.timezone, zone, now))
    try:
        return None if in_hours(hours.start, hours.end, local) else epoch_ms(hours_begin(hours.start, hours.end, local))
    except HomarusError:
        return None


def nothing_to_do(workspace: Path) -> bool:
    """Say whether HEARTBEAT.md is there and holds no task. Without one the agent is asked."""
    try:
        with Root(workspace) as root:
            found = root.read(names.HEARTBEAT, max_bytes=MAX_LIST)
    except StorageError:
        return False
    return found.kind == "ok" and effectively_empty(found.data.decode("utf-8", "replace"))


def prompt_for(settings: HeartbeatSettings) -> str:
    return settings.prompt.strip() or HEARTBEAT_PROMPT


def answer(text: str, settings: HeartbeatSettings) -> str:
    """Return what of an answer is for people: nothing where it acknowledges, with a few words beside it at most."""
    return shape(text, heartbeat=True, ack_chars=settings.ack_max_chars).text


def counted(pulse: Pulse, spent: Spent, now: datetime, zone: tzinfo) -> None:
    """Add to what the day has cost."""
    day = _day(now, zone)
    pulse.spent = pulse.spent.plus(spent) if pulse.day == day else spent
    pulse.day = day


def _day(now: datetime, zone: tzinfo) -> str:
    return now.astimezone(zone).date().isoformat()


def _zone(name: str, user: tzinfo, now: datetime) -> tzinfo:
    if name in {"", "user"}:
        return user
    if name == "local":
        return now.astimezone().tzinfo or user
    return find_zone(name) or user


class Heartbeats:
    """The polls and the wake-ups of one home, in the one process that runs them."""

    def __init__(
        self, home: Home, starter: Starter, events: SystemEvents, changed: Callable[[str, dict[str, Any]], None]
    ) -> None:
        self._home = home
        self._starter = starter
        self._events = events
        self._changed = changed
        self._file = PulseFile(home.config.paths.own_dir / "heartbeat.json")
        self.pulses = self._file.read(home.clock.now())
        self._tasks: dict[object, asyncio.Task[Any]] = {}
        # Sessions that are to hear their events, when, and when each did last.
        self._wakes: dict[SessionKey, int] = {}
        self._woken: dict[SessionKey, int] = {}

    def pulse(self, agent_id: str) -> Pulse:
        return self.pulses.agents.setdefault(agent_id, Pulse())

    def enable(self, on: bool) -> None:
        """Switch polls on or off for all agents; switching them on forgets what stopped them."""
        self.pulses.enabled = on
        for pulse in self.pulses.agents.values():
            pulse.next_ms = 0
            if on:
                pulse.stopped, pulse.errors = "", 0
        self._file.write(self.pulses)

    def wake(self, session: SessionKey) -> None:
        """Let a session hear its events soon: several that come together are heard together, and not twice a minute."""
        now = self._now()
        soonest = max(now + COALESCE_MS, self._woken.get(session, 0) + WAKE_APART_MS)
        if self._woken.get(session, 0) > now:  # the clock went back
            soonest = now + COALESCE_MS
        self._wakes.setdefault(session, soonest)

    def tick(self) -> int | None:
        """Begin what is due and return when something is next; None when nothing is."""
        now, times = self._now(), []
        if self._file.changed():  # somebody used the switch in another process
            self.pulses = self._file.read(self._home.clock.now())
        waiting = self._events.sessions()
        self._woken = {key: at for key, at in self._woken.items() if key in waiting or at + WAKE_APART_MS > now}
        for session, items in waiting.items():
            newest = max((item.inbound.timestamp for item in items if item.facts.get("wake")), default=-1)
            if newest > self._woken.get(session, -1):
                self.wake(session)
        for session, due in list(self._wakes.items()):
            if due > now:
                times.append(min(due, now + WAKE_APART_MS))
            else:
                del self._wakes[session]
                self._woken[session] = now
                if over := self._over_budget(session.agent_id):  # they wait for a turn that somebody asks for
                    self._note(session.agent_id, self.pulse(session.agent_id), "skipped", f"budget: {over}")
                    continue
                self._do(("wake", session), self.event_turn(session, self._home.ids.uuid()))
        if not self.pulses.enabled:
            return min(times, default=None)
        for agent_id, settings in beating(self._home.config).items():
            pulse = self.pulse(agent_id)
            due = next_beat(pulse, settings, now)
            if due <= now:
                due = self._poll(agent_id, settings, pulse, now)
            pulse.next_ms = due
            if not pulse.stopped:
                times.append(due)
        return min(times, default=None)

    def _over_budget(self, agent_id: str) -> str:
        settings = self._home.config.agent(agent_id).block("heartbeat", HeartbeatSettings)
        return over_budget(settings, self.pulse(agent_id), self._home.clock.now(), self._home.zone(agent_id))

    def _poll(self, agent_id: str, settings: HeartbeatSettings, pulse: Pulse, now: int) -> int:
        """Begin a poll, or write down why not; return when the next one is due."""
        moment, zone = self._home.clock.now(), self._home.zone(agent_id)
        reason = skip_reason(settings, pulse, now=moment, zone=zone, workspace=self._home.workspace(agent_id))
        main = self._session(agent_id, settings)
        if not reason and (self._starter.busy(main) or ("beat", agent_id) in self._tasks):
            self._note(agent_id, pulse, "skipped", "requests-in-flight")
            return now + min(RETRY_MS, round(settings.seconds * 1000))
        if not reason and settings.target != "none":
            lost = self._starter.reaches(main, _target(settings))
            reason = f"no-target: {lost}" if lost else ""
        if reason:
            self._note(agent_id, pulse, "skipped", reason)
            return resumes(settings, moment, zone) or now + round(settings.seconds * 1000)
        self._do(("beat", agent_id), self.beat(agent_id, settings))
        return now + round(settings.seconds * 1000)

    async def beat(self, agent_id: str, settings: HeartbeatSettings) -> Ran:
        """Poll an agent now."""
        session = self._session(agent_id, settings)
        inbound = self._inbound(settings, prompt_for(settings), self._home.ids.uuid())
        where = named_session(agent_id, SessionKind.HEARTBEAT, MAIN) if settings.isolated_session else session
        ran = await self._starter.start(where, inbound, fresh=settings.isolated_session)
        return await self._after(session, where, inbound, settings, ran, poll=True)

    async def event_turn(self, session: SessionKey, ident: str) -> Ran | None:
        """Let a session hear its events now; None when they were heard in another turn before this one could begin."""
        settings = self._home.config.agent(session.agent_id).block("heartbeat", HeartbeatSettings)
        waiting = self._events.waiting(session)
        # A turn that strangers caused has no more rights than they have.
        trust = max((item.trust for item in waiting), key=list(Trust).index, default=Trust.OWNER)
        inbound = self._inbound(settings, EVENT_PROMPT, ident, trust=trust)
        if not waiting and not self._starter.busy(session) and not self._begun(session, inbound):
            return None
        ran = await self._starter.start(session, inbound)
        return await self._after(session, session, inbound, settings, ran, poll=False)

    def _begun(self, session: SessionKey, inbound: Inbound) -> bool:
        """Say whether a message is in the transcript: a crash came after it, and its answer is looked for."""
        if self._home.store(session.agent_id).find(session) is None:
            return False
        with suppress(Locked), self._home.opened(session) as live:
            return live.writer.holds(message_key(inbound))
        return False

    async def _after(
        self,
        main: SessionKey,
        where: SessionKey,
        inbound: Inbound,
        settings: HeartbeatSettings,
        ran: Ran,
        *,
        poll: bool,
    ) -> Ran:
        """Deliver an answer, or take an acknowledgement back; count what it cost, and stop after failures."""
        agent_id, pulse = main.agent_id, self.pulse(main.agent_id)
        now, zone = self._now(), self._home.zone(agent_id)
        counted(pulse, Spent(ran.calls, ran.usage, ran.seconds), self._home.clock.now(), zone)
        pulse.duration_ms = round(ran.seconds * 1000)
        if not ran.ok:
            return await self._failed(main, pulse, settings, ran, inbound.id)
        pulse.errors = 0
        text = answer(ran.text, settings)
        pulse.preview = single_line(text, 200)
        if not text:
            if poll and not ran.acted and not ran.joined and where == main:  # an event stays in view
                await self._starter.take_back(where, inbound)
            self._note(agent_id, pulse, "ok", "")
        elif ran.joined or ran.sent or settings.target == "none":
            self._note(
                agent_id, pulse, "ok", "joined" if ran.joined else "sent-by-agent" if ran.sent else "target-none"
            )
        elif poll and text == pulse.sent_text and 0 <= now - pulse.sent_ms < SAME_MS:
            self._note(agent_id, pulse, "skipped", "duplicate")
        else:
            problem = await self._starter.deliver(main, _target(settings), text, f"heartbeat:{inbound.id}", said=where)
            pulse.sent_text, pulse.sent_ms = text, now
            self._note(agent_id, pulse, "failed" if problem else "sent", problem)
            if problem:
                self._events.add(main, f"A message of yours could not be delivered ({problem}): {text}")
        return ran

    async def _failed(self, main: SessionKey, pulse: Pulse, settings: HeartbeatSettings, ran: Ran, ident: str) -> Ran:
        pulse.errors += 1
        if pulse.errors >= settings.max_errors and not pulse.stopped:
            pulse.stopped = f"{pulse.errors} failures in a row, the last: {single_line(ran.error or ran.status, 200)}"
            text = f"Heartbeats of {main.agent_id} stopped after {pulse.stopped}. Go on with: homarus system heartbeat enable"
            _log.warning("%s", text)
            if await self._starter.deliver(main, _target(settings), text, f"heartbeat-stopped:{ident}"):
                self._events.add(main, text)
        self._note(main.agent_id, pulse, "failed", single_line(ran.error or ran.status, 300))
        return ran

    def _inbound(self, settings: HeartbeatSettings, text: str, ident: str, *, trust: Trust = Trust.OWNER) -> Inbound:
        facts: dict[str, Any] = {
            "why": "heartbeat",
            "seconds": settings.timeout_seconds,
            "provenance": {"kind": "heartbeat"},
            **({"model": settings.model} if settings.model else {}),
            **({"light": True} if settings.light_context else {}),
        }
        return Inbound(
            id=ident, channel=CHANNEL, text=text, sender=CHANNEL, trust=trust, timestamp=self._now(), facts=facts
        )

    def _session(self, agent_id: str, settings: HeartbeatSettings) -> SessionKey:
        return self._home.store(agent_id).key("" if settings.session in {"", MAIN} else settings.session)

    def _note(self, agent_id: str, pulse: Pulse, status: str, reason: str) -> None:
        pulse.last_ms, pulse.status, pulse.reason = self._now(), status, reason
        self._file.write(self.pulses)
        self._changed("heartbeat", {"agentId": agent_id, **pulse.told()})

    def _do(self, name: object, work: Coroutine[Any, Any, Any]) -> None:
        task = self._tasks[name] = asyncio.get_running_loop().create_task(work)

        def ended(done: asyncio.Task[Any]) -> None:
            self._tasks.pop(name, None)
            if not done.cancelled() and (problem := done.exception()):
                _log.error("a heartbeat failed", exc_info=problem)

        task.add_done_callback(ended)

    def _now(self) -> int:
        return epoch_ms(self._home.clock.now())

    async def aclose(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _target(settings: HeartbeatSettings) -> dict[str, Any]:
    fields = {"channel": settings.target, "to": settings.to, "accountId": settings.account_id}
    return {key: value for key, value in fields.items() if value}
