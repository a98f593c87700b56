"""A conversation as Markdown, JSON or a page of HTML that needs nothing else. Pure: entries in, text out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from itertools import chain
from typing import Literal

from msgspec import Struct

from homarus.core.messages import BY_PROGRAM, Image, Message, Text, Thinking, ToolCall, ToolResult, User
from homarus.core.prompt import CONTEXT_BEGIN, CONTEXT_END
from homarus.core.text import printable
from homarus.sessions.codec import Json
from homarus.sessions.entry import (
    RUNTIME_CONTEXT,
    BranchSummary,
    Compaction,
    CustomMessage,
    Entry,
    Header,
    MessageEntry,
    Reset,
)

Format = Literal["md", "json", "html"]
FORMATS: tuple[Format, ...] = ("md", "json", "html")


class Block(Struct, frozen=True):
    """A piece of a conversation as people read it. `kind` is user, assistant, thinking, call, result, note or mark."""

    kind: str
    text: str
    title: str = ""
    time: int = 0
    entry_id: str = ""
    error: bool = False


def blocks(entries: Iterable[Entry]) -> Iterator[Block]:
    for entry in entries:
        if isinstance(entry, MessageEntry):
            message = entry.message
            if message is not None:
                yield from _message(message, entry)
        elif isinstance(entry, Compaction):
            yield Block("mark", entry.summary, "summary of what came before", entry.time, entry.id)
        elif isinstance(entry, BranchSummary):
            yield Block("mark", str(entry.data.get("summary") or ""), "summary of another branch", entry.time, entry.id)
        elif isinstance(entry, Reset):
            yield Block("mark", "", "started over", entry.time, entry.id)
        elif isinstance(entry, CustomMessage):
            title = "context" if entry.custom_type == RUNTIME_CONTEXT else entry.custom_type
            yield Block("note", entry.text, title, entry.time, entry.id)


def _message(message: Message, entry: MessageEntry) -> Iterator[Block]:
    time = message.timestamp or entry.time
    if isinstance(message, ToolResult):
        text = message.text or _images(message)
        yield Block("result", text, message.tool_name, time, entry.id, error=message.is_error)
        return
    if isinstance(message, User):
        by_program = (message.provenance or {}).get("kind") == BY_PROGRAM
        kind = "user" if entry.role == "user" and not by_program else "note"
        title = "the program" if by_program else ""
        yield Block(kind, without_context(message.text) or _images(message), title, time, entry.id)
        return
    for part in message.parts:
        if isinstance(part, Text) and part.text.strip():
            yield Block("assistant", part.text, message.model, time, entry.id)
        elif isinstance(part, Thinking) and part.text.strip():
            yield Block("thinking", part.text, message.model, time, entry.id)
        elif isinstance(part, ToolCall):
            yield Block("call", json.dumps(part.arguments, ensure_ascii=False), part.name, time, entry.id)
    if message.error:
        yield Block("assistant", message.error, "failed", time, entry.id, error=True)


def without_context(text: str) -> str:
    """Return a message without what the program told the model in it; older versions wrote both into one text."""
    while CONTEXT_BEGIN in text and CONTEXT_END in text.partition(CONTEXT_BEGIN)[2]:
        before, _, rest = text.partition(CONTEXT_BEGIN)
        text = before.rstrip() + "\n" + rest.partition(CONTEXT_END)[2].lstrip()
    return text.strip("\n")


def _images(message: Message) -> str:
    count = sum(isinstance(part, Image) for part in message.parts)
    return f"[{count} image{'s' if count > 1 else ''}]" if count else ""


def render(
    header: Header, entries: Iterable[Entry], form: Format, *, title: str, zone: tzinfo = UTC, full: bool = False
) -> Iterator[str]:
    """Yield a conversation in one of the forms, piece by piece: it may be longer than memory is large.

    People get what was said and done, and what the program told the model besides only in `full`. JSON holds everything.
    """
    if form == "json":
        return _json(header, entries)
    shown = (block for block in blocks(entries) if full or block.kind != "note")
    if form == "html":
        return _page(title, shown, zone)
    sections = ("\n" + "\n".join(_section(block, zone)).rstrip() + "\n" for block in shown)
    return chain([f"# {title}\n"], sections)


def _json(header: Header, entries: Iterable[Entry]) -> Iterator[str]:
    yield f'{{\n  "session": {_indented(header.data, 2)},\n  "entries": ['
    first = True
    for entry in entries:
        yield f"{'' if first else ','}\n    {_indented(entry.data, 4)}"
        first = False
    yield "]\n}\n" if first else "\n  ]\n}\n"


def _indented(value: Json, depth: int) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n" + " " * depth)


def _section(block: Block, zone: tzinfo) -> list[str]:
    text = printable(block.text).rstrip()
    when = moment(block.time, zone)
    if block.kind in {"user", "assistant"}:
        who = "You" if block.kind == "user" else f"Assistant ({block.title})" if block.title else "Assistant"
        return [f"## {who}, {when}" if when else f"## {who}", "", text]
    if block.kind == "call":
        return [f"Called `{block.title}`:", "", *_fenced(text)]
    if block.kind == "result":
        return [f"`{block.title}` {'failed' if block.error else 'answered'}:", "", *_fenced(text)]
    if block.kind == "mark":
        return [f"---\n*{block.title}*", "", text] if text else [f"---\n*{block.title}*"]
    return [f"> *{block.title or block.kind}:* " + text.replace("\n", "\n> ")]


def _fenced(text: str) -> list[str]:
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence, text, fence]


_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
article{margin:1rem 0;padding:.6rem 1rem;border-left:4px solid #ccc;overflow-wrap:anywhere}
article.user{border-color:#2b6cb0;background:#f0f6fc}article.assistant{border-color:#2f855a}article.error{border-color:#c53030}
article.mark{border-color:#b7791f;background:#fffaf0}article>header{font-size:.8rem;color:#666}pre{white-space:pre-wrap;margin:.3rem 0}
summary{cursor:pointer;color:#666;font-size:.85rem}
@media (prefers-color-scheme:dark){body{background:#1a1a1a;color:#ddd}article.user{background:#17212b}article.mark{background:#2a2415}}"""


def _page(title: str, found: Iterator[Block], zone: tzinfo) -> Iterator[str]:
    import html

    yield "<!doctype html>\n<html lang='en'><meta charset='utf-8'>\n"
    yield "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    yield "<meta name='viewport' content='width=device-width'>\n"
    yield f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n<h1>{html.escape(title)}</h1>\n"
    for block in found:
        head = html.escape(" · ".join(part for part in (block.kind, block.title, moment(block.time, zone)) if part))
        body = f"<pre>{html.escape(printable(block.text))}</pre>"
        mark = f"{block.kind} error" if block.error else block.kind
        if block.kind in {"call", "result", "thinking", "note"}:
            yield f"<article class='{mark}'><details><summary>{head}</summary>{body}</details></article>\n"
        else:
            yield f"<article class='{mark}'><header>{head}</header>{body}</article>\n"
    yield "</html>\n"


def moment(time: int, zone: tzinfo) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC).astimezone(zone):%Y-%m-%d %H:%M}" if time else ""
