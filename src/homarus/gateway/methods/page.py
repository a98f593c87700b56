"""What our own page asks of conversations: a session with what is being said in it, messages with files, branches, the window."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from homarus.agent.session_state import prompt_report
from homarus.context.budget import budget_for, estimate, measure
from homarus.context.cut import plan
from homarus.context.settings import CompactionSettings
from homarus.core.encoding import decode
from homarus.core.errors import StorageError, Unknown
from homarus.core.messages import Assistant, Image, Message, Thinking, ToolCall, ToolResult, User
from homarus.core.routes import SessionKey
from homarus.core.text import estimate_tokens, single_line
from homarus.gateway.methods import Call, Method, Params
from homarus.gateway.methods.chat import MAX_IMAGES, command_scope, defaults, hand_in
from homarus.gateway.page_feed import lines_of
from homarus.gateway.protocol import Code, Refused
from homarus.gateway.rows import row_of
from homarus.gateway.scopes import ADMIN, APPROVALS, READ, WRITE
from homarus.queue.modes import Overrides, parse_mode
from homarus.runtime.client import RunOptions
from homarus.sessions.entry import Compaction, Entry, Leaf, MessageEntry, Reset, without_images
from homarus.sessions.log import WINDOW, load_branch, load_tail, read_entries
from homarus.sessions.places import visit
from homarus.sessions.view import project, visible
from homarus.storage.boundary import Root

Json = dict[str, Any]
PAGE, MAX_FOLLOWED = 200, 50
FIRST_WEIGHT = 80_000  # characters that are read of a long session before it is shown; the rest is fetched afterwards
MAX_TEXT, MAX_FILES, MAX_BRANCHES = 200_000, 20, 100
MAX_BATCH = 100  # results that stand with one call of tools
UPLOADS = "uploads"
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_UNSAFE = re.compile(r"[^\w .()+@,-]+")


class OpenParams(Params, frozen=True, kw_only=True):
    session: str
    after: str = ""
    limit: int = PAGE


class EarlierParams(Params, frozen=True, kw_only=True):
    session: str
    before: str
    limit: int = 1000


class SessionParams(Params, frozen=True, kw_only=True):
    session: str


class ArchiveParams(Params, frozen=True, kw_only=True):
    session: str
    archived: bool


class File(Struct, frozen=True, rename="camel"):
    name: str
    data: str
    mime_type: str = ""


class SendParams(Params, frozen=True, kw_only=True):
    session: str
    message: str
    id: str
    files: tuple[File, ...] = ()
    queue_mode: str = ""


class EntryParams(Params, frozen=True, kw_only=True):
    session: str
    entry: str


async def _entries(call: Call, key: SessionKey, weight: int = WINDOW) -> list[Entry]:
    """Return the branch of a session as far back as its last compaction, or about so many characters of it.

    Nothing is opened for writing.
    """
    home = call.client.home
    if (live := home.sessions.get(key)) is not None:
        return list(live.writer.branch)
    info = call.client.operations.find(key)
    if info is None:
        return []

    def read() -> list[Entry]:
        try:
            with visit(info.place) as source:
                return list(load_tail(source, limit=weight).entries)
        except (OSError, StorageError):
            return []

    found = await asyncio.to_thread(read)
    # It may have been opened meanwhile, and then more was said.
    return list(opened.writer.branch) if (opened := home.sessions.get(key)) is not None else found


async def open_session(call: Call, params: OpenParams) -> Json:
    """Look at a session from now on. What happens while it is read comes as events, which name their lines."""
    gateway, key = call.gateway, call.gateway.key(params.session)
    if call.connection is not None:
        followed = [name for name in call.connection.messages_of if name.startswith("page:")]
        if len(followed) >= MAX_FOLLOWED:
            call.connection.messages_of.discard(followed[0])
        call.connection.messages_of.add(f"page:{key}")
    gateway.feed.attend(key)
    entries = await _entries(call, key, WINDOW if params.after else FIRST_WEIGHT)
    state = gateway.page_feed.state(key)
    place = next((at for at, entry in enumerate(entries) if entry.id == params.after), None) if params.after else None
    first = max(0, len(entries) - max(1, min(params.limit, 1000))) if place is None else place + 1
    lines = lines_of(entries[first:])
    if place is None:
        while first and (not lines or lines[0]["role"] == "tool"):  # a result is shown with its call
            first -= 1
            lines = lines_of(entries[first:])
    more = place is None and (first > 0 or _goes_on_above(entries))
    facts = {"key": str(key), "lines": lines, "more": more, "continued": place is not None}
    return {**facts, **state, "session": row_of(gateway, key), "defaults": await defaults(call, key)}


async def close_session(call: Call, params: SessionParams) -> Json:
    if call.connection is not None:
        call.connection.messages_of.discard(f"page:{call.gateway.key(params.session)}")
    return {}


async def earlier(call: Call, params: EarlierParams) -> Json:
    """Return what was said before a line, also what a compaction replaced; a conversation that started over ends there."""
    key, limit = call.gateway.key(params.session), max(1, min(params.limit, 2000))
    entries = await _entries(call, key)
    end = next((at for at, entry in enumerate(entries) if entry.id == params.before), 0)
    if end < limit and (_goes_on_above(entries) or not end):
        entries = await asyncio.to_thread(_before, call, key, params.before, limit + MAX_BATCH)
        end = len(entries)
    first = max(0, end - limit)
    while first and isinstance(entry := entries[first], MessageEntry) and entry.role == "toolResult":
        first -= 1
    return {"lines": lines_of(entries[first:end]), "more": first > 0 or (end > 0 and _goes_on_above(entries))}


def _goes_on_above(entries: Sequence[Entry]) -> bool:
    """Say whether the file may hold more of a branch than what was read of it."""
    if not entries or any(isinstance(entry, Reset) for entry in entries):
        return False
    return entries[0].parent_id is not None or not entries[0].linked


def _before(call: Call, key: SessionKey, before: str, most: int) -> list[Entry]:
    """Return the last entries of a branch before one, read from the file; pictures of so long ago stay there."""
    held: deque[Entry] = deque(maxlen=most)
    info = call.client.operations.find(key)
    if info is None:
        return []
    try:
        with visit(info.place) as source:
            for entry in load_branch(source):
                if entry.id == before:
                    return list(held)
                if isinstance(entry, Reset):
                    held.clear()
                held.append(without_images(entry))
    except (OSError, StorageError):
        pass
    return []


async def archive(call: Call, params: ArchiveParams) -> Json:
    """Put a session out of sight, or bring it back; it stays as it is."""
    key = call.gateway.key(params.session)
    if call.client.operations.find(key) is None:
        raise Refused(f"no session {params.session}")
    await call.client.patch(key, archived=params.archived or None)
    call.gateway.feed.changed(key, "patch")
    return {"ok": True}


# Messages.


async def send(call: Call, params: SendParams) -> Json:
    key = call.gateway.key(params.session)
    images, texts = _attached(call.client.home.workspace(key.agent_id), params.files)
    mode = Overrides(mode=parse_mode(params.queue_mode)) if params.queue_mode else None
    text = params.message if params.message.strip() or images or not texts else "See the attached files."
    return await hand_in(call, key, text, params.id, RunOptions(images=images, attached=texts, queue=mode))


def _attached(workspace: Path, files: tuple[File, ...]) -> tuple[tuple[Image, ...], str]:
    """Return pictures as they are and texts as they read; anything else is put into the workspace, and its place is told."""
    images, blocks = list[Image](), list[str]()
    if len(files) > MAX_FILES:
        raise Refused(f"more than {MAX_FILES} files")
    for file in files:
        name = _UNSAFE.sub("_", single_line(file.name, 120)).lstrip(". ") or "file"
        try:
            data = base64.b64decode(file.data, validate=True)
        except (binascii.Error, ValueError):
            raise Refused(f"{name} is no base64") from None
        if file.mime_type in _PICTURES:
            images.append(Image(file.data, file.mime_type))
            continue
        made = decode(data) if len(data) <= MAX_TEXT else None
        told = made.text.rstrip() if made else f"({len(data):,} bytes, saved as {_kept(workspace, name, data)})"
        if made and made.encoding:
            blocks.append(made.note(name))
        blocks.append(f'<file name="{name}">\n{told}\n</file>')
    if len(images) > MAX_IMAGES:
        raise Refused(f"more than {MAX_IMAGES} pictures")
    return tuple(images), "\n\n".join(blocks)


def _kept(workspace: Path, name: str, data: bytes) -> str:
    with Root(workspace) as root:
        root.make_dirs(UPLOADS)
        stem, dot, end = name.rpartition(".")
        for number in range(1, 1000):
            free = (
                f"{UPLOADS}/{name}" if number == 1 else f"{UPLOADS}/{stem or name}-{number}{dot}{end if stem else ''}"
            )
            if not root.exists(free):
                root.write(free, data)
                return free
    raise Refused(f"{UPLOADS}/ of the workspace holds too many files called {name}")


# Branches.


async def branches(call: Call, params: SessionParams) -> Json:
    """Return the ends of a session's branches, the newest first."""
    key = call.gateway.key(params.session)
    info = call.client.operations.find(key)
    if info is None:
        return {"branches": []}

    def read() -> list[Entry]:
        with visit(info.place) as source:
            return list(read_entries(source))

    entries = [entry for entry in await asyncio.to_thread(read) if not entry.side and not isinstance(entry, Leaf)]
    by_id = {entry.id: entry for entry in entries}
    parents = {entry.parent_id for entry in entries if entry.parent_id}
    active = (await _entries(call, key))[-1:]
    rows = []
    for end in [entry for entry in entries if entry.id not in parents][-MAX_BRANCHES:]:
        count, said, above = 0, "", end.id
        seen: set[str] = set()
        while (entry := by_id.get(above)) is not None and above not in seen:
            seen.add(above)
            if isinstance(entry, MessageEntry) and isinstance(entry.message, User | Assistant):
                count += 1
                if not said and isinstance(entry.message, User):
                    said = single_line(entry.message.text, 120)
            above = entry.parent_id or ""
        if count:
            rows.append(
                {
                    "leaf": end.id,
                    "said": said,
                    "count": count,
                    "time": end.time,
                    "active": [end.id] == [each.id for each in active],
                }
            )
    return {"branches": rows[::-1]}


async def go_back(call: Call, params: EntryParams) -> Json:
    """Go on from the end of another branch, or from right before a message, so that it can be said otherwise."""
    gateway, key = call.gateway, call.gateway.key(params.session)
    if call.client.operations.is_busy(key):
        raise Refused("the agent is at work in this session; stop it first", Code.UNAVAILABLE)
    if params.entry in {entry.id for entry in await _entries(call, key)}:
        try:
            await call.client.operations.rewind(key, params.entry)
        except Unknown as problem:
            raise Refused(str(problem), details={"code": "FIRST_MESSAGE"}) from None
    else:
        async with gateway.runtime.exclusively(key):
            with call.client.home.opened(key) as live:
                live.go_back(params.entry)
    gateway.feed.changed(key, "branch")
    return {"ok": True}


# The window.


async def context(call: Call, params: SessionParams) -> Json:
    """Return what fills the window of a session, what of it a provider keeps, and what a compaction would cut."""
    key, home = call.gateway.key(params.session), call.client.home
    report = prompt_report(home, key, fresh=True)
    view = visible(await _entries(call, key))
    messages = project(view)
    settings = home.config.agent(key.agent_id).block("compaction", CompactionSettings)
    window = report.about.window or 0
    budget = budget_for(window, settings) if window else None
    fixed = report.system.tokens + report.tool_schemas.tokens
    used = measure(messages, fixed=fixed, since=view.boundary.time if view.boundary else 0)
    newest = next((each for each in reversed(messages) if isinstance(each, Assistant) and each.usage.total), None)
    last = newest.usage if newest else None
    keep = settings.keep_recent_tokens
    if budget:
        keep = min(keep, max(1_000, budget.compact_above // 2))
    cut = plan(view, keep, force=True)
    pieces = [("instructions", report.system.tokens), ("tools", report.tool_schemas.tokens)]
    pieces += _pieces(messages, summarised=isinstance(view.boundary, Compaction))
    return {
        "report": report.to_json(),
        "parts": _parts(pieces, used, last.cache_read + last.cache_write if last else 0),
        "used": used,
        "window": window,
        "compactAbove": budget.compact_above if budget else 0,
        "flushAt": budget.flush_at if budget else 0,
        "cache": {"read": last.cache_read, "written": last.cache_write, "prompt": last.prompt} if last else None,
        "cut": cut if isinstance(cut, str) else _cut(cut.left_out, cut.first_kept),
    }


def _pieces(messages: list[Message], *, summarised: bool) -> Iterator[tuple[str, int]]:
    """Yield what a request is made of, in its order, by kind and estimated size."""
    for place, message in enumerate(messages):
        if isinstance(message, ToolResult):
            yield "toolResults", estimate(message)
        elif isinstance(message, User):
            context = estimate_tokens(message.context) if message.context else 0
            yield "summary" if place == 0 and summarised else "user", estimate(message) - context
            yield "turnContext", context
        else:
            calls = tuple(part for part in message.parts if isinstance(part, ToolCall))
            thoughts = tuple(part for part in message.parts if isinstance(part, Thinking))
            rest = tuple(part for part in message.parts if not isinstance(part, ToolCall | Thinking))
            for name, parts in (("thinking", thoughts), ("assistant", rest), ("toolCalls", calls)):
                if parts:
                    yield name, estimate(Assistant(parts))


def _parts(pieces: Sequence[tuple[str, int]], used: int, kept: int) -> list[Json]:
    """Return the parts of the window, which add up to what is used: the provider counts, and our estimates share that out.

    What a provider keeps is the beginning of a request, so the first `kept` tokens are those.
    """
    total = sum(size for _, size in pieces)
    known = kept * total / max(1, used)  # in the measure of our estimates
    sizes: Counter[str] = Counter()
    cached: Counter[str] = Counter()
    for name, size in pieces:
        sizes[name] += size
        cached[name] += max(0, min(size, round(known - cached.total())))
    rows, done, told = list[Json](), 0, 0
    for name, size in sizes.items():
        done += size
        tokens = round(used * done / max(1, total)) - told
        told += tokens
        if size:
            rows.append({"name": name, "tokens": tokens, "cached": round(tokens * cached[name] / size)})
    return rows


def _cut(left_out: tuple[Entry, ...], first_kept: str) -> Json:
    said = [each.message for each in left_out if isinstance(each, MessageEntry) and each.message is not None]
    spoken = [single_line(each.text, 100) for each in said if isinstance(each, User) and each.text]
    tokens = sum(map(estimate, said))
    return {"messages": len(said), "tokens": tokens, "said": spoken[:20], "more": len(spoken) > 20, "keeps": first_kept}


# Questions and the way in.


async def approvals(call: Call, _params: Params) -> Json:
    """Return what running turns ask, each with the whole of what would happen."""
    rows = []
    for request in call.client.operations.questions():
        facts = {"id": request.id, "kind": request.kind, "session": request.session, "agent": request.agent_id}
        asked = {"summary": request.summary, "reason": request.reason, "details": request.details}
        until = {"created": request.created_ms, "expires": request.expires_ms, "lasting": request.lasting}
        rows.append({**facts, **asked, **until, "subject": request.subject})
    return {"approvals": rows}


async def link(call: Call, _params: Params) -> Json:
    """Make a code that opens the page once, in one browser, with the rights of whoever asks on this machine."""
    if call.principal.method != "local":
        raise Refused("only a program on the gateway's machine may ask for this", Code.FORBIDDEN)
    gateway = call.gateway
    settings = gateway.live.settings
    scheme = "https" if settings.tls.enabled else "http"
    code = gateway.devices.invite(call.principal.scopes)
    return {"url": f"{scheme}://127.0.0.1:{gateway.port or settings.port}/", "code": code}


METHODS = {
    "page.open": Method(READ, open_session, OpenParams),
    "page.close": Method(READ, close_session, SessionParams),
    "page.earlier": Method(READ, earlier, EarlierParams),
    "page.send": Method(WRITE, send, SendParams, raised=lambda params: command_scope(params.message)),
    "page.archive": Method(WRITE, archive, ArchiveParams),
    "page.branches": Method(READ, branches, SessionParams),
    "page.goBack": Method(WRITE, go_back, EntryParams),
    "page.context": Method(READ, context, SessionParams),
    "page.approvals": Method(APPROVALS, approvals),
    "page.link": Method(ADMIN, link),
}
