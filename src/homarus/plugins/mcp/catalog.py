"""What a server offers, kept on disk, so that a turn knows its tools without starting anything; and what a model is told of it.

What a server writes about its tools is text of a stranger that would stand in every prompt. It is bounded, stripped of what
poses as ours, and a server that changes it is named in the log and in `homarus mcp list`.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from homarus.core.errors import StorageError
from homarus.core.patterns import late
from homarus.core.tools import Risk, ToolSpec
from homarus.plugins.mcp.settings import ServerSettings, ToolFilter
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.tools.tool import RunTool, Tool
from homarus.tools.untrusted import harmless

if TYPE_CHECKING:
    from mcp import Client

_log = logging.getLogger(__name__)
MAX_OFFERS, MAX_PAGES = 200, 20
MAX_DESCRIPTION, MAX_SCHEMA, MAX_NAME = 1_000, 16_000, 64
_ODD = late(r"[^A-Za-z0-9_-]+")
_KINDS = frozenset({"string", "integer", "number", "boolean", "array", "object"})
_EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
_URI = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
_PROMPT = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["name"],
}
# Tools of ours for what a server has besides tools, by the name that follows the server's.
UTILITIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "resources_list": ("resources", "List the documents of this server.", _EMPTY),
    "resources_read": ("resources", "Read one document of this server.", _URI),
    "prompts_list": ("prompts", "List the prompt templates of this server.", _EMPTY),
    "prompts_get": ("prompts", "Fill in one prompt template of this server.", _PROMPT),
}


class Offer(Struct, frozen=True, omit_defaults=True):
    """One tool of a server. `utility` is one of ours that looks at its resources or prompts."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    # In the server's own words: it changes nothing; it reaches nothing but what the server holds.
    read_only: bool = False
    closed: bool = False
    utility: bool = False

    @property
    def risk(self) -> Risk:
        if not self.closed:
            return Risk.SEND
        return Risk.READ if self.read_only else Risk.WRITE


class Listing(Struct, frozen=True, omit_defaults=True):
    """What a server offered when it was last asked. `of` names the settings that it was asked with."""

    of: str
    offers: tuple[Offer, ...] = ()
    changed: int = 0


def settings_key(settings: ServerSettings) -> str:
    """Return what tells a server from another one under the same name; keys are no part of it."""
    facts = (settings.command, settings.args, settings.cwd, settings.url, settings.kind, settings.sandbox)
    if settings.tool_filter != ToolFilter():  # what it took away was not kept, so another filter asks anew
        facts += (settings.tool_filter,)  # type: ignore[assignment]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:16]


class Catalog:
    """The listings of all servers, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Listing] = {}

    def look(self, name: str, settings: ServerSettings) -> Listing | None:
        """Return what a server offered last; None when it was never asked, or was another one then."""
        if name not in self._known:
            try:
                self._known[name] = msgspec.json.decode(self._path(name).read_bytes(), type=Listing)
            except (OSError, ValueError):
                return None
        found = self._known[name]
        return found if found.of == settings_key(settings) else None

    def keep(self, name: str, settings: ServerSettings, offers: tuple[Offer, ...]) -> Listing:
        """Remember what a server offers; one that has changed its words since is named."""
        before = self.look(name, settings)
        if before is not None and before.offers == offers:
            return before
        if before is not None:
            _log.warning("mcp: the server %s changed what it offers: %s", name, _difference(before.offers, offers))
        now = Listing(settings_key(settings), offers, before.changed + 1 if before else 0)
        self._known[name] = now
        try:
            ensure_dir(self._folder)
            write_atomic(self._path(name), msgspec.json.encode(now), lasting=False)
        except StorageError as problem:
            _log.warning("mcp: what %s offers cannot be kept: %s", name, problem)
        return now

    def forget(self, name: str) -> None:
        self._known.pop(name, None)
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        plain = _ODD.sub("-", name)[:60]
        mark = "" if plain == name else f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        return self._folder / f"{plain}{mark}.json"


async def ask(client: Client, settings: ServerSettings) -> tuple[Offer, ...]:
    """Ask a server what it offers."""
    offers: list[Offer] = []
    able = client.server_capabilities
    cursor: str | None = None
    for _ in range(MAX_PAGES if able.tools else 0):
        page = await client.list_tools(cursor=cursor)
        offers += [_offer(each) for each in page.tools if settings.tool_filter.takes(each.name)]
        cursor = page.next_cursor
        if not cursor or len(offers) >= MAX_OFFERS:
            break
    for name, (needs, text, schema) in UTILITIES.items():
        if getattr(able, needs, None) is not None and settings.tool_filter.takes(name):
            offers.append(Offer(name, text, schema, read_only=True, closed=True, utility=True))
    return tuple(offers[:MAX_OFFERS])


def _offer(tool: Any) -> Offer:
    hints = tool.annotations
    schema = tool.input_schema if isinstance(tool.input_schema, dict) else {}
    if len(msgspec.json.encode(schema)) > MAX_SCHEMA:
        names = list(schema.get("properties") or {})[:50]
        schema = {"type": "object", "properties": {str(name): {} for name in names}}
    return Offer(
        name=tool.name,
        description=_cleaned(tool.description or tool.title or "", MAX_DESCRIPTION),
        schema=_clean_schema(schema),
        read_only=bool(hints and hints.read_only_hint),
        closed=bool(hints and hints.open_world_hint is False),
    )


def _cleaned(text: str, limit: int) -> str:
    text = re.sub(r"\n{3,}", "\n\n", harmless(text)).strip()
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def _clean_schema(part: Any, depth: int = 0) -> Any:
    """Return a schema whose descriptions are fit for a prompt; what lies too deep for any model is left out."""
    if isinstance(part, dict):
        if depth > 20:
            return {}
        return {
            str(key): _cleaned(value, MAX_DESCRIPTION)
            if key in {"description", "title"} and isinstance(value, str)
            else _clean_schema(value, depth + 1)
            for key, value in part.items()
            if key not in {"$schema", "$id"}
        }
    return [_clean_schema(item, depth + 1) for item in part] if isinstance(part, list) else part


def tools_of(
    listings: Mapping[str, Listing], runner: Callable[[str, Offer], RunTool], alone: Collection[str] = ()
) -> tuple[Tool, ...]:
    """Return the tools of all servers as a turn sees them; those `alone` take one call at a time."""
    made: dict[str, Tool] = {}
    for server in sorted(listings):
        for offer in listings[server].offers:
            name = tool_name(server, offer.name, made)
            made[name] = _tool(name, offer, runner(server, offer), alone=server in alone)
    return tuple(made.values())


def tool_name(server: str, tool: str, taken: Iterable[str] = ()) -> str:
    """Return `<server>__<tool>` in letters that every provider takes, and another one where that is taken."""
    plain = f"{_plain(server, 30)}__{_plain(tool, MAX_NAME)}"[:MAX_NAME]
    known, name, count = {each.lower() for each in taken}, plain, 1
    while name.lower() in known:
        count += 1
        name = f"{plain[: MAX_NAME - 4]}_{count}"
    return name


def _plain(text: str, limit: int) -> str:
    return (_ODD.sub("-", text).strip("-") or "x")[:limit]


def _tool(name: str, offer: Offer, run: RunTool, *, alone: bool) -> Tool:
    parameters = {"type": "object", "properties": {}, **offer.schema}
    summary = offer.description.partition("\n")[0].partition(". ")[0][:100]
    return Tool(
        spec=ToolSpec(name, offer.description, parameters, summary),
        risk=offer.risk,
        run=run,
        group="mcp",
        schema=checked(parameters),
        sequential=alone,
        taints=True,
        foreign=True,
    )


def checked(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what we check ourselves: kinds that are plain, and what must be there. The rest is the server's business."""
    known = schema.get("properties")
    parts = known if isinstance(known, dict) else {}
    plain = {
        name: {"type": part["type"]}
        for name, part in parts.items()
        if isinstance(part, dict) and isinstance(part.get("type"), str) and part["type"] in _KINDS
    }
    needed = schema.get("required")
    required = [name for name in needed if isinstance(name, str)] if isinstance(needed, list) else []
    return {
        "type": "object",
        "properties": {**{name: {} for name in parts}, **plain},
        "required": required,
        "additionalProperties": True,
    }


def _difference(before: tuple[Offer, ...], now: tuple[Offer, ...]) -> str:
    old, new = ({offer.name: offer for offer in offers} for offers in (before, now))
    parts = [f"new {name}" for name in new.keys() - old.keys()] + [
        f"no more {name}" for name in old.keys() - new.keys()
    ]
    parts += [f"other words for {name}" for name in old.keys() & new.keys() if old[name] != new[name]]
    return ", ".join(sorted(parts)[:10])
