"""One step of the notebook: from the conversation and the offered tools to tool calls or an answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from homarus.core.messages import Assistant, Message, ToolCall, ToolResult, User
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.core.tools import ToolSpec
from homarus.models.notebook import words
from homarus.models.notebook.evidence import answer, bare, complaint, place
from homarus.models.notebook.grammar import Intent, Kind, content_words, read_message
from homarus.models.notebook.summary import summarize, wants_summary

MAX_SHOWN_LINES, MAX_SHOWN = 80, 6_000
_DATE = late(r"\b\d{4}-\d{2}-\d{2}\b")
_CLOCK = late(r"\b\d{1,2}:\d{2}\b")
_OPINION = late(r"\b(?:prefers?|likes?|loves?|hates?|wants?|thinks?|favou?rite|dislikes?)\b", re.IGNORECASE)
_RETAIN = late(r"^## Retain[ \t]*$", re.MULTILINE | re.IGNORECASE)

# The names a parameter may have, by what we want to put into it.
_TEXT = ("text", "content", "fact", "note", "statement")
_QUERY = ("query", "question", "q", "text")
_PATH = ("path", "file_path", "file", "filename", "directory")
_PATTERN = ("pattern", "query", "regex")


class Step(Struct, frozen=True):
    """What the notebook says next: words, calls, or both."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


def next_step(messages: Sequence[Message], tools: Sequence[ToolSpec], system: str, now: datetime) -> Step:
    """Return the next step of the current turn. The same conversation always gets the same step."""
    start = max((i for i, message in enumerate(messages) if isinstance(message, User)), default=-1)
    if start < 0:
        return Step(words.HELP)
    user = messages[start]
    assert isinstance(user, User)
    if not tools and wants_summary(system, user.text):
        return Step(summarize(system, user.text))
    offered = {spec.name: spec for spec in tools}
    intents = read_message(user.text)
    done = _done(messages[start + 1 :])
    plan = [(intent, _call(intent, offered, _today(user, now))) for intent in intents]
    if not done:
        wanted = [call for _, call in plan if call is not None]
        if wanted:
            calls = tuple(
                ToolCall(f"note{len(messages)}x{n}", call.name, call.arguments) for n, call in enumerate(wanted)
            )
            return Step(calls=calls)
    follow = _append(plan, done, offered, len(messages))
    if follow is not None:
        return follow
    return Step(_compose(plan, done, now))


def _done(later: Sequence[Message]) -> list[tuple[ToolCall, ToolResult]]:
    results = {message.call_id: message for message in later if isinstance(message, ToolResult)}
    calls = [call for message in later if isinstance(message, Assistant) for call in message.calls]
    return [(call, results[call.id]) for call in calls if call.id in results]


def _today(user: User, now: datetime) -> str:
    found = _DATE.search(user.context)
    return found.group(0) if found else now.strftime("%Y-%m-%d")


def _call(intent: Intent, offered: dict[str, ToolSpec], today: str) -> ToolCall | None:
    match intent.kind:
        case Kind.KEEP | Kind.REMIND:
            found = _fill(offered.get("memory_retain"), {_TEXT: intent.text}, _kind(intent.text))
            if found is None and "write" in offered and "edit" in offered:
                found = _fill(offered.get("read"), {_PATH: f"memory/{today}.md"})
            return found
        case Kind.ASK:
            for name in ("memory_recall", "memory_search"):
                found = _fill(offered.get(name), {_QUERY: intent.text})
                if found is not None:
                    return found
            pattern = "|".join(sorted(re.escape(word) for word in content_words(intent.text)))
            return _fill(offered.get("grep"), {_PATTERN: pattern, _PATH: "."}) if pattern else None
        case Kind.READ:
            return _fill(offered.get("read"), {_PATH: intent.text})
        case Kind.TODAY:
            return _fill(offered.get("read"), {_PATH: f"memory/{today}.md"})
        case Kind.LIST:
            return _fill(offered.get("ls"), {_PATH: intent.text})
        case Kind.TIME | Kind.STATUS:
            return _fill(offered.get("session_status"), {})
        case _:
            return None


def _kind(text: str) -> dict[str, str]:
    return {"kind": "opinion"} if _OPINION.search(text) else {}


def _fill(
    spec: ToolSpec | None, wanted: dict[tuple[str, ...], str], extra: dict[str, str] | None = None
) -> ToolCall | None:
    """Return a call whose arguments fit the tool's own schema, or None when something it needs is not ours to give."""
    if spec is None:
        return None
    properties = spec.parameters.get("properties") or {}
    arguments: dict[str, Any] = {}
    for names, value in wanted.items():
        name = next((name for name in names if name in properties), names[0] if not properties else None)
        if name is None:
            return None
        arguments[name] = value
    offered = {name: (properties.get(name) or {}).get("enum") or () for name in extra or {}}
    arguments |= {name: value for name, value in (extra or {}).items() if value in offered[name]}
    for name in spec.parameters.get("required") or ():
        if name not in arguments:
            choices = (properties.get(name) or {}).get("enum")
            if not choices:
                return None
            arguments[name] = choices[0]
    return ToolCall("", spec.name, arguments)


def _append(
    plan: list[tuple[Intent, ToolCall | None]],
    done: list[tuple[ToolCall, ToolResult]],
    offered: dict[str, ToolSpec],
    count: int,
) -> Step | None:
    """Without a memory tool: put the bullet into today's note by hand, but only where nothing can get lost."""
    if len(plan) != 1 or len(done) != 1 or plan[0][0].kind is not Kind.KEEP or done[0][0].name != "read":
        return None
    (intent, _), (call, result) = plan[0], done[0]
    path, bullet = str(next(iter(call.arguments.values()))), f"- {single_line(intent.text, 2000)}"
    if result.is_error and re.search(r"no such|not found|does not exist|missing", result.text, re.IGNORECASE):
        made = _fill(offered.get("write"), {_PATH: path, ("content", "text"): f"## Retain\n{bullet}\n"})
    elif not result.is_error and len(_RETAIN.findall(result.text)) == 1:
        heading = _RETAIN.search(result.text)
        old = heading.group(0) if heading else "## Retain"
        given: dict[tuple[str, ...], str] = {
            _PATH: path,
            ("oldText", "old_string", "old_text"): old,
            ("newText", "new_string", "new_text"): f"{old}\n{bullet}",
        }
        made = _fill(offered.get("edit"), given)
    else:
        return Step(words.NO_SAFE_APPEND.format(path=path))
    return Step(calls=(ToolCall(f"note{count}x0", made.name, made.arguments),)) if made else Step(words.NO_MEMORY)


def _compose(plan: list[tuple[Intent, ToolCall | None]], done: list[tuple[ToolCall, ToolResult]], now: datetime) -> str:
    rest = list(done)
    texts: list[str] = []
    for intent, call in plan:
        result = None
        if call is not None and rest:
            ran, result = rest.pop(0)
            if ran.name == "read" and intent.kind is Kind.KEEP and rest:
                # The note was read first and changed then; the change is what counts.
                _, result = rest.pop(0)
        texts.append(_say(intent, result, now))
    return "\n\n".join(dict.fromkeys(text for text in texts if text))


def _say(intent: Intent, result: ToolResult | None, now: datetime) -> str:
    wrong = result is not None and (result.text if result.is_error else complaint(result.text))
    if wrong and intent.kind in words.FAILED:
        return words.FAILED[intent.kind].format(why=single_line(wrong, 300), about=intent.text)
    match intent.kind:
        case Kind.KEEP | Kind.REMIND:
            if result is None:
                return words.NO_MEMORY
            cited = place(result.text)
            where = f" in {cited}" if cited else ""
            kept = f"Kept{where}: “{single_line(intent.text, 200)}”"
            return f"{kept}\n{words.NO_ALARM}" if intent.kind is Kind.REMIND else kept
        case Kind.ASK:
            return answer(intent.text, result.text) if result is not None else words.NO_SEARCH
        case Kind.READ | Kind.LIST:
            if result is None:
                return words.NO_FILES
            return f"{intent.text}:\n\n{_shown(result.text)}"
        case Kind.TODAY:
            return _today_note(result)
        case Kind.TIME:
            return _time(result, now)
        case Kind.STATUS:
            return result.text.strip() if result is not None else words.NO_STATUS
        case Kind.SILENT:
            return "NO_REPLY"
        case Kind.HEARTBEAT:
            return "HEARTBEAT_OK"
        case _:
            return words.FIXED.get(intent.kind, words.HELP)


def _today_note(result: ToolResult | None) -> str:
    if result is None:
        return words.NO_FILES
    lines = [] if result.is_error else [bare(line) for line in result.text.splitlines()]
    kept = [line for line in lines if line and not line.startswith("#")]
    return (
        "Today's note:\n" + "\n".join(f"- {line}" for line in kept[:MAX_SHOWN_LINES]) if kept else words.NOTHING_TODAY
    )


def _time(result: ToolResult | None, now: datetime) -> str:
    if result is not None:
        lines = [line.strip() for line in result.text.splitlines() if _CLOCK.search(line)]
        timed = [line for line in lines if re.search(r"time|date|now|clock", line, re.IGNORECASE)]
        if timed or lines:
            return single_line((timed or lines)[0])
    return f"It is {now.strftime('%A, %Y-%m-%d %H:%M %Z').strip()} by this machine's clock."


def _shown(text: str) -> str:
    lines = text.rstrip().splitlines()
    shown = "\n".join(lines[:MAX_SHOWN_LINES])[:MAX_SHOWN]
    return shown if shown == text.rstrip() else f"{shown}\n\n[… {len(lines)} lines in all]"
