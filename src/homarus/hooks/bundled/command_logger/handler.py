"""Append every command event to a JSON-lines log that cannot grow without end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from homarus.core.clock import iso_ms
from homarus.core.text import single_line
from homarus.hooks.events import HookEvent
from homarus.storage.atomic import ensure_dir
from homarus.storage.jsonl import JsonlWriter

MAX_BYTES = 5_000_000


def handle(event: HookEvent) -> None:
    """Expect `stateDir` in the options; `senderId` and `commandSource` in the context are logged when they are there."""
    file = Path(event.options["stateDir"]) / "logs" / "commands.log"
    ensure_dir(file.parent)
    record = {
        "timestamp": iso_ms(event.timestamp),
        "action": event.action,
        "sessionKey": single_line(event.session_key, 300),
        "senderId": _fact(event.context.get("senderId")),
        "source": _fact(event.context.get("commandSource")),
    }
    with JsonlWriter.open(file) as log:
        # Losing the last line to a power cut is fine for a log, waiting for the disk in a command is not.
        log.append(record, durable=False)
        full = log.size > MAX_BYTES
    if full:
        file.replace(file.with_name("commands.log.1"))


def _fact(value: Any) -> str:
    return "unknown" if value is None or value == "" else single_line(str(value), 300)
