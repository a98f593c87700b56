"""What was typed in `homarus chat`, kept across runs: private, bounded, and never a reason to fail."""

from __future__ import annotations

from pathlib import Path

import msgspec

from homarus.core.errors import StorageError
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.jsonl import JsonlWriter, read_lines

MAX_LINES = 2_000
MAX_CHARS = 20_000


class ChatHistory:
    """The lines of earlier chats, oldest first. A line that begins with a space is not kept, as in a shell."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> list[str]:
        """Return what is kept; a file that has grown too long is cut on the way."""
        if not self.path.exists():
            return []
        try:
            values = [line.value for line in read_lines(self.path)]
        except OSError:
            return []
        lines = [value["text"] for value in values if isinstance(value, dict) and isinstance(value.get("text"), str)]
        if len(lines) > 2 * MAX_LINES:
            kept = lines[-MAX_LINES:]
            try:
                write_atomic(self.path, b"".join(msgspec.json.encode({"text": text}) + b"\n" for text in kept))
            except StorageError:
                return kept
        return lines[-MAX_LINES:]

    def add(self, text: str) -> None:
        """Keep one line; a disk that is full must not end a conversation."""
        if not text.strip() or text.startswith(" ") or len(text) > MAX_CHARS:
            return
        try:
            ensure_dir(self.path.parent)
            with JsonlWriter.open(self.path) as file:
                file.append({"text": text}, durable=False)
        except StorageError:
            return
