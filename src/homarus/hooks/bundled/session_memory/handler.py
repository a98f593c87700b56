"""Write the last messages of a session that is left behind to a note in `memory/`. The emitter passes the messages in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from homarus.core.errors import StorageError
from homarus.core.messages import Assistant, User
from homarus.core.text import printable, single_line, slug
from homarus.hooks.events import HookEvent
from homarus.storage.atomic import create_new, ensure_dir
from homarus.storage.boundary import Root

MESSAGES = 15
_MAX_MESSAGES = 200
_MAX_CHARS = 8_000
FOLDER = "memory"


def handle(event: HookEvent) -> None:
    """Expect `workspaceDir` and `messages` (of core types, or {role, content}) in the context; `slug` names the note."""
    wanted = event.options.get("messages", MESSAGES)
    count = wanted if isinstance(wanted, int) and 0 < wanted <= _MAX_MESSAGES else MESSAGES
    said = [pair for pair in map(_said, event.context.get("messages") or ()) if pair is not None][-count:]
    if not said:
        return
    workspace = Path(event.context["workspaceDir"])
    ensure_dir(workspace / FOLDER)
    with Root(workspace) as root:
        if not root.exists(FOLDER):
            raise StorageError(f"{workspace / FOLDER} leads out of the workspace", cure="make it a plain folder")
    moment = _local(event)
    name = slug(str(event.context.get("slug") or ""), 40) or moment.strftime("%H%M")
    data = _note(event, moment, said).encode("utf-8", "replace")
    for number in range(1, 100):
        ending = name if number == 1 else f"{name}-{number}"
        if create_new(workspace / FOLDER / f"{moment:%Y-%m-%d}-{ending}.md", data):
            return
    raise StorageError(f"{workspace / FOLDER} has no free name for {name}", cure="tidy up the notes of that day")


def _said(message: Any) -> tuple[str, str] | None:
    """Return who said what, or None for a tool's words, a command, or nothing."""
    if isinstance(message, User | Assistant):
        role, text = ("user" if isinstance(message, User) else "assistant"), message.text
    elif isinstance(message, Mapping) and message.get("role") in {"user", "assistant"}:
        role, text = str(message["role"]), _text(message.get("content"))
    else:
        return None
    text = printable(text).strip()
    if not text or (role == "user" and text.startswith("/")):
        return None
    return role, text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + " …"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts: Iterable[Any] = content if isinstance(content, list | tuple) else ()
    return "\n".join(
        str(part.get("text", "")) for part in parts if isinstance(part, Mapping) and part.get("type") == "text"
    )


def _local(event: HookEvent) -> datetime:
    """Return the moment in the user's time zone where the context names one, else as it came."""
    name = event.context.get("timezone")
    if isinstance(name, str) and name:
        from zoneinfo import ZoneInfo

        try:
            return event.timestamp.astimezone(ZoneInfo(name))
        except (OSError, ValueError, KeyError):
            pass
    return event.timestamp


def _note(event: HookEvent, moment: datetime, said: list[tuple[str, str]]) -> str:
    facts = [f"# Session of {moment:%Y-%m-%d %H:%M %Z}".rstrip(), ""]
    facts.append(f"- Session: {single_line(event.session_key, 200) or 'unknown'}")
    if session_id := single_line(str(event.context.get("sessionId") or ""), 80):
        facts.append(f"- Id: {session_id}")
    source = single_line(str(event.context.get("commandSource") or ""), 80)
    facts.append(f"- Ended by: {event.key}{f' ({source})' if source else ''}")
    blocks = ["\n".join(f"> {line}".rstrip() for line in f"{role}: {text}".split("\n")) for role, text in said]
    return "\n".join([*facts, "", "## Conversation", "", "\n\n".join(blocks), ""])
