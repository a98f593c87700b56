"""What the session tools show: rows, histories and search, of the conversations that a turn may see. Nothing is changed.

Words from a session in which strangers may have written taint the turn that reads them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from homarus.agent.home import Home
from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError, Denied, ToolError
from homarus.core.messages import Assistant, Message, Text, ToolResult, User
from homarus.core.routes import SessionKey
from homarus.core.text import single_line
from homarus.runtime.tool_backends.visibility import (
    PeerSettings,
    Scope,
    SessionVisibility,
    VisibilitySettings,
    is_foreign,
    scope_of,
)
from homarus.sandbox.settings import SandboxSettings
from homarus.sessions.entry import Compaction, Entry
from homarus.sessions.log import load_branch, load_tail
from homarus.sessions.places import Place, visit
from homarus.sessions.store import SessionInfo
from homarus.sessions.taint import tainted_by
from homarus.sessions.view import speak
from homarus.tools.services import Json
from homarus.tools.tool import ToolContext

_TAIL = 256 << 10  # as much of a transcript as its last twenty messages rarely exceed
_PLACES = 5_000


class SessionsBackend:
    """The `SessionsView` of a home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def sight(self, context: ToolContext) -> SessionVisibility:
        """Return how far a turn sees."""
        config = self._home.config
        settings = config.block("tools.sessions", VisibilitySettings)
        sandbox = config.agent(context.agent_id).block("sandbox", SandboxSettings)
        confined = context.sandbox.enforced and sandbox.session_tools_visibility != "all"
        scope = scope_of(settings.visibility, context.session, context.trust, confined=confined)
        return SessionVisibility(context.session, scope, config.block("tools.agentToAgent", PeerSettings))

    def visible(self, context: ToolContext) -> list[SessionInfo]:
        """Return every session that a turn may see, the newest first."""
        sight = self.sight(context)
        infos = [info for agent in self._agents(sight) for info in self._home.store(agent).list()]
        parents = {info.name: info.entry.spawned_by or info.entry.parent_session_key or "" for info in infos}
        seen = [info for info in infos if (key := _key_of(info)) and sight.sees(key, parents)]
        return sorted(seen, key=lambda info: info.entry.updated_at, reverse=True)

    def find(self, context: ToolContext, name: str) -> SessionInfo:
        """Return the session that a key, a label or a session id names; what a turn may not see does not exist for it."""
        infos = self.visible(context)
        try:
            wanted = str(self._home.store(context.agent_id).key(name))
        except ConfigError:
            wanted = ""
        for matches in (
            [info for info in infos if info.name == wanted or str(_key_of(info)) == wanted],
            [info for info in infos if info.entry.session_id == name],
            [info for info in infos if info.title == name],
        ):
            if len(matches) == 1:
                return matches[0]
            if matches:
                names = ", ".join(info.name for info in matches[:5])
                raise ToolError(f"several sessions are called '{single_line(name, 80)}'", cure=f"use a key: {names}")
        raise Denied(
            f"there is no session '{single_line(name, 120)}' that this one may see",
            cure="see those that it may with sessions_list",
        )

    async def rows(self, context: ToolContext, query: Json) -> list[Json]:
        """Return rows, newest first."""
        if query.get("archived"):
            return self._archives(context)[: query["limit"]]
        since = epoch_ms(self._home.clock.now()) - 60_000 * query["activeMinutes"] if query.get("activeMinutes") else 0
        kinds = {str(kind).lower() for kind in query.get("kinds") or ()}
        needle = str(query.get("search") or "").casefold()
        found = [
            info
            for info in self.visible(context)
            if info.entry.updated_at >= since
            and (not kinds or _kind(info) in kinds)
            and (not query.get("agentId") or info.agent_id == query["agentId"])
            and (not query.get("label") or info.entry.label == query["label"])
            and needle in f"{info.name} {info.title}".casefold()
        ][: query["limit"]]
        count = int(query.get("messageLimit") or 0)
        if not count:
            return [_row(info) for info in found]
        for info in found:
            self._note(context, info)
        return await asyncio.to_thread(lambda: [_row(info, _last(info.place, count)) for info in found])

    def _archives(self, context: ToolContext) -> list[Json]:
        """Return what resets and deletions left behind, for who sees all of an agent: nobody knows whose they were."""
        sight = self.sight(context)
        agents = self._agents(sight) if sight.scope is Scope.ALL else [sight.viewer.agent_id]
        seen = [
            agent
            for agent in (agents if sight.scope in {Scope.AGENT, Scope.ALL} else ())
            if sight.peers.joins(sight.viewer.agent_id, agent)
        ]
        places = [place for agent in seen for place in self._home.store(agent).archives()]
        return [
            {"sessionId": place.session_id, "kind": "archive", "agentId": place.agent_id, "transcript": place.label}
            for place in reversed(places)
        ]

    async def history(
        self, context: ToolContext, session_key: str, limit: int, offset: int, *, tools: bool
    ) -> list[Json]:
        """Return messages, oldest first; `offset` leaves out that many of the newest."""
        info = self.find(context, session_key)
        self._note(context, info)

        def read() -> list[Json]:
            with visit(info.place) as source:
                rows = deque(_shown(load_branch(source), tools=tools), maxlen=limit + offset)
            return list(rows)[: max(0, len(rows) - offset)] if offset else list(rows)

        try:
            return await asyncio.to_thread(read)
        except FileNotFoundError:
            return []

    async def search(self, context: ToolContext, query: str, limit: int) -> list[Json]:
        """Return places in the conversations that are in sight."""
        from homarus.sessions.search import FILE, SessionSearch

        infos = {info.entry.session_id: info for info in self.visible(context)}
        agents = [agent.id for agent in self._home.config.agents]
        # The index is of all sessions, whoever asks: one that left some out would forget them.
        places = [info.place for agent in agents for info in self._home.store(agent).list(orphans=True)][:_PLACES]
        places += [place for agent in agents for place in self._home.store(agent).archives()]
        path = self._home.config.paths.own_dir / FILE

        def look() -> list[Json]:
            with SessionSearch(path) as index:
                index.refresh(places)
                hits = index.find(query, limit=limit, sessions=frozenset(infos))
            return [
                {
                    "sessionKey": infos[hit.session_id].name,
                    "role": hit.role,
                    "text": hit.snippet,
                    "timestamp": hit.time,
                    "entryId": hit.entry_id,
                }
                for hit in hits
            ]

        rows = await asyncio.to_thread(look)
        names = {row["sessionKey"] for row in rows}
        for info in infos.values():
            if info.name in names:
                self._note(context, info)
        return rows

    def is_tainted(self, info: SessionInfo) -> bool:
        """Say whether words that nobody trusted wrote may be in a session: of people in it, or of what it has read."""
        key = _key_of(info)
        return key is None or is_foreign(key) or bool(tainted_by(_tail(info.place)))

    def is_tainted_id(self, agent_id: str, session_id: str) -> bool:
        """Say the same of a transcript by its id, put away or not; one that nobody knows is not trusted."""
        store = self._home.store(agent_id)
        info = store.by_id(session_id)
        if info is not None:
            return self.is_tainted(info)
        place = next((place for place in store.archives() if place.session_id == session_id), None)
        return place is None or bool(tainted_by(_tail(place)))

    def _note(self, context: ToolContext, info: SessionInfo) -> None:
        if _key_of(info) != context.session and self.is_tainted(info):
            context.taint.add(f"session:{info.name}")

    def _agents(self, sight: SessionVisibility) -> list[str]:
        """Return the agents whose sessions can be in sight: a child may live with another agent."""
        if sight.scope is Scope.SELF:
            return [sight.viewer.agent_id]
        return [agent.id for agent in self._home.config.agents]


def _key_of(info: SessionInfo) -> SessionKey | None:
    try:
        return info.key
    except ConfigError:
        return None  # a key that no version of ours wrote belongs to nobody's sight


def _kind(info: SessionInfo) -> str:
    key = _key_of(info)
    return key.kind.value if key else "other"


def _row(info: SessionInfo, messages: list[Json] | None = None) -> Json:
    entry = info.entry
    row: Json = {
        "key": info.name,
        "kind": _kind(info),
        "agentId": info.agent_id,
        "label": entry.label,
        "displayName": info.title or None,
        "channel": entry.last_channel or entry.channel,
        "updatedAt": entry.updated_at,
        "sessionId": entry.session_id,
        "model": entry.model,
        "totalTokens": entry.total_tokens or None,
        "status": entry.status,
        "spawnedBy": entry.spawned_by,
        "messages": messages,
    }
    return {name: value for name, value in row.items() if value is not None}


def _last(place: Place, count: int) -> list[Json]:
    return list(deque(_shown(_tail(place), tools=False), maxlen=count))


def _tail(place: Place) -> Sequence[Entry]:
    try:
        with visit(place) as source:
            return load_tail(source, limit=_TAIL).entries
    except OSError:
        return ()


def _shown(entries: Iterable[Entry], *, tools: bool) -> Iterator[Json]:
    """Yield what was said, without thoughts, signatures and pictures."""
    for entry in entries:
        if isinstance(entry, Compaction):
            yield {"role": "summary", "text": entry.summary, "timestamp": entry.time}
            continue
        messages: list[Message] = []
        speak((entry,), messages)
        for message in messages:
            row = _said(message, tools=tools)
            if row:
                yield row


def _said(message: Message, *, tools: bool) -> Json | None:
    row: dict[str, Any]
    if isinstance(message, ToolResult):
        if not tools:
            return None
        row = {"role": "toolResult", "tool": message.tool_name, "text": _text(message)}
        row |= {"isError": True} if message.is_error else {}
    else:
        calls = [f"{call.name} {single_line(str(call.arguments), 300)}" for call in _calls(message)] if tools else []
        text = _text(message)
        if not text and not calls:
            return None
        row = {"role": "user" if isinstance(message, User) else "assistant", "text": text}
        row |= {"calls": calls} if calls else {}
    return {**row, "timestamp": message.timestamp}


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text)).strip()


def _calls(message: Message) -> tuple[Any, ...]:
    return message.calls if isinstance(message, Assistant) else ()
