"""What a routine of the notebook works with: the offered tools, the day, the conversation before, and how to call and to say. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from msgspec import Struct

from homarus.core.messages import Assistant, Message, ToolCall, ToolResult
from homarus.core.text import single_line
from homarus.core.tools import ToolSpec
from homarus.models.notebook import evidence
from homarus.models.notebook.language import read
from homarus.models.notebook.reader import Reader
from homarus.models.notebook.words import say

# The names a parameter may have, by what we want to put into it.
TEXT = ("text", "content", "fact", "note", "statement")
QUERY = ("query", "question", "q", "text")
PATH = ("path", "file_path", "file", "filename", "directory")
PATTERN = ("pattern", "query", "regex")
OLD, NEW = ("oldText", "old_string", "old_text"), ("newText", "new_string", "new_text")
_MANY = {"maxResults": 50, "corpus": "memory"}

Got = Sequence[ToolResult]
Next = str | list[ToolCall]


class Desk(Struct, frozen=True):
    """What a routine works with, beside the results of its own calls."""

    offered: dict[str, ToolSpec]
    today: str
    now: datetime
    german: bool
    before: Sequence[Message]
    reader: Reader

    @property
    def day(self) -> date:
        try:
            return date.fromisoformat(self.today)
        except ValueError:
            return self.now.date()

    def say(self, name: str, **values: object) -> str:
        return say(name, self.german, **values)

    def quote(self, line: evidence.Line) -> str:
        return self.say("quote", text=line.text, source=line.source)

    def call(self, tool: str, wanted: dict[tuple[str, ...], str], **extra: object) -> ToolCall | None:
        """Return a call whose arguments fit the tool's own schema, or None when something it needs is not ours to give."""
        spec = self.offered.get(tool)
        if spec is None:
            return None
        properties = spec.parameters.get("properties") or {}
        arguments: dict[str, Any] = {}
        for names, value in wanted.items():
            name = next((name for name in names if name in properties), names[0] if not properties else None)
            if name is None:
                return None
            arguments[name] = value
        for name, given in extra.items():
            choices = (properties.get(name) or {}).get("enum")
            if name in properties and (not choices or given in choices):
                arguments[name] = given
        for name in spec.parameters.get("required") or ():
            if name not in arguments:
                choices = (properties.get(name) or {}).get("enum")
                if not choices:
                    return None
                arguments[name] = choices[0]
        return ToolCall("", spec.name, arguments)

    def look(self, query: str, least: float = 0.0) -> ToolCall | None:
        """Return a search of the notes by the best tool there is. Below 0 it also returns lines that share no word with the query."""
        for name in ("memory_search", "memory_recall"):
            if found := self.call(name, {QUERY: query}, minScore=least, **_MANY):
                return found
        pattern = "|".join(sorted(re.escape(word) for word in re.findall(r"[^\W_]{3,}", query) if read(word).words))
        return self.call("grep", {PATTERN: pattern, PATH: "."}) if pattern else None


def wrong(result: ToolResult) -> str:
    return single_line(result.text if result.is_error else evidence.complaint(result.text), 300)


def last_kept(before: Sequence[Message]) -> str:
    """Return the citation of what was kept last in this conversation."""
    return _last(before)[1]


def last_told(before: Sequence[Message]) -> evidence.Line | None:
    """Return what was kept last in this conversation, in its own words."""
    text, source = _last(before)
    return evidence.Line(text, source) if source else None


def _last(before: Sequence[Message]) -> tuple[str, str]:
    kept = {
        call.id: next((str(call.arguments[name]) for name in TEXT if name in call.arguments), "")
        for message in before
        if isinstance(message, Assistant)
        for call in message.calls
        if call.name == "memory_retain"
    }
    results = [
        message
        for message in before
        if isinstance(message, ToolResult) and message.call_id in kept and not message.is_error
    ]
    return (kept[results[-1].call_id], evidence.place(results[-1].text)) if results else ("", "")
