"""What a person's program can do with a home besides talking: read transcripts, delete, count costs, change the configuration.

`LocalClient.operations`: what a program does that has the home in its own process, as the gateway has.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from homarus.agent.home import Home
from homarus.agent.outcome import Status, end_in, unheard_in
from homarus.config.keypath import lookup
from homarus.config.load import inspect_config
from homarus.config.redact import redact, redact_text
from homarus.config.view import Config
from homarus.config.write import Operation, change
from homarus.core.cancel import DELETED
from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError, StorageError, Unknown
from homarus.core.messages import Assistant, Message, StopReason, Text, ToolResult, User
from homarus.core.routes import SessionKey
from homarus.runtime.events import Watcher
from homarus.sessions.codec import keys_of
from homarus.sessions.entry import MessageEntry
from homarus.sessions.log import load_tail, read_entries, to_entries
from homarus.sessions.places import Place, visit
from homarus.sessions.usage import By, Ledger, Total, calls
from homarus.storage.cache import BoundedCache
from homarus.storage.jsonl import read_lines

if TYPE_CHECKING:
    from homarus.models.info import ModelInfo
    from homarus.runtime.runtime import Runtime
    from homarus.sessions.store import SessionInfo
    from homarus.tools.approval import Request, Rule

KNOWN_COSTS = 64  # sessions


class Line(Struct, frozen=True):
    """One message of a transcript, with its place in it."""

    id: str
    seq: int
    time: int
    message: Message


class Costs(Struct, frozen=True):
    """What sessions took, by session, day, model, agent and what it was for; and how often who spoke and which tool was used."""

    sessions: dict[str, Total]
    days: dict[str, Total]
    models: dict[str, Total]
    agents: dict[str, Total]
    causes: dict[str, Total]
    total: Total
    roles: Counter[str]
    tools: Counter[str]
    errors: int


class ConfigState(Struct, frozen=True):
    """The configuration as it may be shown: secrets are markers."""

    path: str
    exists: bool
    hash: str
    raw: str
    document: dict[str, Any]
    problems: tuple[dict[str, Any], ...] = ()


class Operations:
    """Fills that part of the contract in this process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._home = runtime.home
        # What transcripts have cost up to which byte.
        self._spent: BoundedCache[Path, tuple[int, float]] = BoundedCache(KNOWN_COSTS)

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Tell a watcher what happens in every session of this process; returns what takes it off again."""
        return self._runtime.listeners.watch(watcher)

    def find(self, session: SessionKey) -> SessionInfo | None:
        """Return what is known of a session; None where there is none. Looking makes none."""
        return self._home.store(session.agent_id).find(session)

    def is_busy(self, session: SessionKey) -> bool:
        lane = self._runtime.open_lane(session)
        return lane is not None and lane.busy

    def waits(self, session: SessionKey, key: str) -> bool:
        """Say whether a message waits for its turn."""
        lane = self._runtime.open_lane(session)
        return lane is not None and any(item.key == key for item in lane.waiting)

    async def transcript(self, session: SessionKey) -> Sequence[Line]:
        """Return the messages of a session as far back as the last compaction, oldest first. Nothing is opened for writing."""
        live = self._home.sessions.get(session)
        if live is not None:
            return _lines(live.writer.branch)
        info = self.find(session)
        if info is None:
            return ()

        def read() -> Sequence[Line]:
            try:
                with visit(info.place) as source:
                    return _lines(load_tail(source).entries)
            except (OSError, StorageError):
                return ()

        return await asyncio.to_thread(read)

    async def spent(self, session: SessionKey) -> float:
        """Return what a session has cost, in dollars, by its whole transcript: read once, and then as far as it grew."""
        info = self.find(session)
        return await asyncio.to_thread(self._counted, info.place) if info else 0.0

    def _counted(self, place: Place) -> float:
        at, total = self._spent.get(place.path, (0, 0.0))
        try:
            with visit(place) as source:
                if not source.native or source.path != place.path:  # it is another file once somebody writes to it
                    return sum(call.usage.cost.total for call in calls(read_entries(source)))
                for line in read_lines(place.path, start=at, decoded=False):
                    if line.torn:
                        break  # it is being written
                    at = line.offset + len(line.raw) + 1
                    if b'"usage"' in line.raw:
                        total += sum(call.usage.cost.total for call in calls(to_entries(line)))
        except (OSError, StorageError):
            return total
        self._spent.put(place.path, (at, total))
        return total

    async def begin_with(self, session: SessionKey, messages: Sequence[Message]) -> None:
        """Give a new session what was said elsewhere; one in which something was said keeps its own."""
        async with self._runtime.exclusively(session):
            with self._home.opened(session) as live:
                for message in messages if live.is_new else ():
                    live.writer.append_message(message, durable=False)

    async def delete(self, session: SessionKey) -> str | None:
        """Take a session away; its transcript becomes an archive, whose path is returned. What runs in it ends first.

        The path is empty where nothing was said in it; None says that there was no such session.
        """
        if self.find(session) is None:
            return None
        await self._runtime.stop(session, DELETED)
        async with self._runtime.exclusively(session):
            self._home.tell.session_ended(session, "deleted")
            self._home.sessions.forget(session)
            place = self._home.store(session.agent_id).delete(session)
        self._runtime.drop_lane(session)
        return str(place.path) if place else ""

    async def fork(self, session: SessionKey, entry_id: str, into: SessionKey) -> str:
        """Begin another session where this one was at an entry. A user's message is left out and returned: it is to be said anew."""
        before, said = await self._before(session, entry_id)
        info, store = self.find(session), self._home.store(into.agent_id)
        assert info is not None
        if before is not None:
            await asyncio.to_thread(store.fork, info.place, at=before, key=into)
        return said

    async def rewind(self, session: SessionKey, entry_id: str) -> str:
        """Go back in a session to before a user's message, and return it; what came after stays in the file, out of view."""
        before, said = await self._before(session, entry_id)
        if before is None:
            raise Unknown("nothing was said before that", cure="start over instead")
        async with self._runtime.exclusively(session):
            with self._home.opened(session) as live:
                live.writer.move_leaf(before)
        return said

    async def _before(self, session: SessionKey, entry_id: str) -> tuple[str | None, str]:
        """Return the entry to go back to, and the words that are taken back: none where the entry is no user's."""
        info = self.find(session)
        lines = await self.transcript(session)
        at = next((place for place, line in enumerate(lines) if line.id == entry_id), None)
        if info is None or at is None:
            raise Unknown(f"the session's branch has no entry {entry_id[:80]}", cure="chat.history names them")
        if not isinstance(lines[at].message, User):
            return entry_id, ""
        return (lines[at - 1].id if at else None), lines[at].message.text

    async def inject(self, session: SessionKey, text: str) -> str:
        """Put words into a session's transcript as if the agent had said them; no model is asked. Returns the entry's id."""
        said = Assistant(
            (Text(text),), timestamp=epoch_ms(self._home.clock.now()), provider="homarus", model="injected"
        )
        async with self._runtime.exclusively(session):
            with self._home.opened(session) as live:
                return live.writer.append_message(said).id

    async def costs(self, since: int, until: int | None = None, *, agent: str = "", session: str = "") -> Costs:
        """Add up what the sessions took in a span of time, from the transcripts; of one agent or session if asked."""
        zone = self._home.zone(self._home.config.default_agent.id)
        kinds: tuple[By, ...] = ("session", "day", "model", "agent", "cause")
        ledgers = {by: Ledger(by, zone, since=since, until=until) for by in kinds}
        agents = [each.id for each in self._home.config.agents if agent in ("", each.id)]
        infos = [info for each in agents for info in self._home.store(each).list() if session in ("", info.name)]
        roles, tools, failed = Counter[str](), Counter[str](), Counter[str]()

        def read() -> None:
            for info in infos:
                if info.entry.updated_at < since:
                    continue
                try:
                    with visit(info.place) as source:
                        entries = list(read_entries(source))
                except (OSError, StorageError):
                    continue
                for ledger in ledgers.values():
                    ledger.add(info.name, info.agent_id, entries)
                for entry in entries:
                    if not isinstance(entry, MessageEntry) or not since <= entry.time < (until or sys.maxsize):
                        continue
                    roles[entry.role] += 1
                    if isinstance(entry.message, ToolResult):
                        tools[entry.message.tool_name] += 1
                        failed["tool"] += entry.message.is_error
                    elif isinstance(entry.message, Assistant):
                        failed["model"] += bool(entry.message.error)

        await asyncio.to_thread(read)
        found = {by: ledger.totals for by, ledger in ledgers.items()}
        sums = (found["session"], found["day"], found["model"], found["agent"], found["cause"], ledgers["day"].sum())
        return Costs(*sums, roles, tools, failed.total())

    def models(self) -> Sequence[ModelInfo]:
        """Return the models that can be asked here: those with a key, an address of their own, or built in."""
        models, agent = self._home.models, self._home.config.default_agent
        catalog, found = models.catalog, []
        for name in catalog.providers():
            own = catalog.own_settings(name).base_url
            if name == "builtin" or own or models.bare_keys(name) or models.store(agent).credentials(name):
                found += list(catalog.models(name))
        return found

    def model_configured(self) -> bool:
        return bool(self._home.config.default_agent.get("model.primary")) or bool(self.models())

    def questions(self) -> Sequence[Request]:
        """Return what running turns ask the owner now."""
        return self._home.toolkit.approvals.read().pending

    def lasting_approvals(self) -> Sequence[Rule]:
        """Return what may always happen."""
        return self._home.toolkit.approvals.read().rules

    def tools(self, agent_id: str) -> Sequence[tuple[str, str, str]]:
        """Return the tools of an agent: name, group, what it does."""
        box = self._home.toolkit.box(agent_id)
        return [(name, tool.group, tool.spec.summary or tool.spec.description) for name, tool in box.tools.items()]

    def children(self) -> Sequence[dict[str, Any]]:
        """Return the sub-agents that are at work, in all sessions."""
        books = self._runtime.children.books
        open_runs = [kept.run for parent in books.in_debt() for kept in books.look(parent).open]
        return [
            {
                "id": run.run_id,
                "sessionKey": run.parent,
                "childSessionKey": run.child,
                "title": run.label or run.task[:80],
            }
            | {"status": "running", "kind": "subagent", "createdAt": run.started_ms, "updatedAt": run.started_ms}
            for run in open_runs
        ]

    # The configuration.

    def config(self) -> ConfigState:
        """Return the file as it is now, with every secret hidden."""
        config = self._fresh()
        path = config.paths.config_path
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeError):
            text = ""
        from homarus.config.blocks import validate

        problems = [{"path": each.key, "message": each.message, "severity": each.severity} for each in validate(config)]
        shown = redact(config.authored)
        raw = _encoded(shown) if text else ""
        return ConfigState(str(path), path.is_file(), config.hash, raw, shown, tuple(problems))

    async def change_config(self, operations: Sequence[Operation], base: str) -> ConfigState:
        """Write changes if the file is still what the caller saw. Raises ConfigError."""
        config = self._fresh()
        if not base:
            raise ConfigError("the change names no base hash", cure="read the configuration first and pass its hash")
        if base != config.hash:
            raise ConfigError("config changed since last load; re-run config.get and retry")
        _refuse_programs(config, operations)
        await asyncio.to_thread(change, config, self._home.env, operations)
        return self.config()

    def _fresh(self) -> Config:
        paths, env = self._home.config.paths, self._home.env
        return inspect_config(paths, env)


def reply_in_log(home: Home, session: SessionKey, key: str) -> tuple[Assistant, tuple[ToolResult, ...]] | None:
    """Return the answer to a message as the transcript has it, and what came of its calls; None before the last word."""
    info = home.store(session.agent_id).find(session)
    if info is None:
        return None
    try:
        with visit(info.place) as source:
            entries = load_tail(source).entries
    except OSError:
        return None
    if forgotten := next((end_in(entry) for entry in entries if key in unheard_in(entry)), None):
        return Assistant((), stop_reason=_REASONS[forgotten.status], error=forgotten.error), ()
    said = (at for at, entry in enumerate(entries) if isinstance(entry, MessageEntry) and key in keys_of(entry.body))
    begun = next(said, None)
    results: list[ToolResult] = []
    ended: Assistant | None = None  # without a last word; a turn that goes on after that may have one yet
    for entry in entries[begun + 1 :] if begun is not None else ():
        message = entry.message if isinstance(entry, MessageEntry) else None
        if (end := end_in(entry)) is not None:
            ended = Assistant((), stop_reason=_REASONS[end.status], error=end.error)
        elif isinstance(message, User) and ended is not None:
            break
        elif isinstance(message, ToolResult):
            results.append(message)
        elif isinstance(message, Assistant) and not message.calls:
            return message, tuple(results)
    return (ended, tuple(results)) if ended is not None else None


_REASONS = {
    Status.OK: StopReason.STOP,
    Status.ERROR: StopReason.ERROR,
    Status.TIMEOUT: StopReason.ERROR,
    Status.ABORTED: StopReason.ABORTED,
}


# Keys that name a program which is run later: only whoever can write the file may set them.
_PROGRAMS = frozenset(
    {"command", "cmd", "bin", "binary", "executable", "exec", "path", "argv", "setupcommand", "shell"}
)


def _refuse_programs(config: Config, operations: Sequence[Operation]) -> None:
    for operation in operations:
        old = lookup(config.document, operation.path)
        for path, value in _leaves(operation.path, operation.value):
            names = {str(step).lower() for step in path}
            if names & _PROGRAMS and value != _at(old, path[len(operation.path) :]):
                where = ".".join(map(str, path))
                raise ConfigError(f"{where} names a program", cure="change it in the file, on the machine itself")


def _leaves(path: tuple[Any, ...], value: Any) -> Sequence[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in _leaves((*path, key), inner)]
    if isinstance(value, list):
        return [found for at, inner in enumerate(value) for found in _leaves((*path, at), inner)]
    return [(path, value)]


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    return lookup(value, path) if path else value


def _lines(entries: Sequence[Any]) -> Sequence[Line]:
    said = [entry for entry in entries if isinstance(entry, MessageEntry)]
    heard = [(entry, entry.message) for entry in said if entry.message is not None]
    return [Line(entry.id, at, entry.time, message) for at, (entry, message) in enumerate(heard, 1)]


def _encoded(document: dict[str, Any]) -> str:
    import json

    return redact_text(json.dumps(document, indent=2, ensure_ascii=False)) if document else ""
