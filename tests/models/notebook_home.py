"""A workspace for the notebook: the real memory tools over a real folder, and files that can be read and changed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from homarus.core.clock import ManualClock
from homarus.core.messages import Assistant, Message, Text, ToolResult, User
from homarus.core.tools import ToolSpec
from homarus.memory import Memory, toolset
from homarus.models.notebook.turn import next_step

NAMES = ("read", "write", "edit", "ls", "grep")
FILES = tuple(
    ToolSpec(name, name, {"type": "object", "properties": {key: {"type": "string"} for key in ("path", "content", "oldText", "newText", "pattern", "literal")}, "required": ["path"]})
    for name in NAMES
)  # fmt: skip
RUN = {
    "memory_retain": toolset.retain_fact,
    "memory_recall": toolset.recall,
    "memory_search": toolset.search,
    "memory_get": toolset.get,
}


class Home:
    """A workspace with the real memory tools and files that can be read and changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock(datetime(2026, 11, 15, 8, tzinfo=UTC))
        self.memory = Memory.open(root, clock=self.clock, tz=UTC, provider="none")
        self.messages: list[Message] = []

    def say(self, text: str) -> str:
        self.messages.append(User((Text(text),)))
        while True:
            step = next_step(self.messages, (*toolset.SPECS, *FILES), "", self.clock.now())
            self.messages.append(Assistant((*([Text(step.text)] if step.text else []), *step.calls)))
            if not step.calls:
                return step.text
            for call in step.calls:
                given = call.arguments
                result = (
                    self.file(call.name, given)
                    if call.name in NAMES
                    else json.dumps(RUN[call.name](self.memory, given), ensure_ascii=False)
                )
                self.messages.append(ToolResult(call.id, call.name, (Text(result),)))

    def file(self, tool: str, given: dict[str, str]) -> str:
        path = self.root / given["path"]
        if tool == "ls":
            return "\n".join(sorted(page.name for page in path.iterdir())) if path.exists() else ""
        if tool == "grep":
            rows = [
                (page, n, line)
                for page in sorted(path.iterdir())
                for n, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
            ]
            return "\n".join(f"memory/{page.name}:{n}: {line}" for page, n, line in rows if given["pattern"] in line)
        if tool == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(given["content"], encoding="utf-8")
        if tool == "edit":
            text = path.read_text(encoding="utf-8")
            assert text.count(given["oldText"]) == 1
            path.write_text(text.replace(given["oldText"], given["newText"]), encoding="utf-8")
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def note(self) -> str:
        return (self.root / "memory" / f"{self.memory.today()}.md").read_text(encoding="utf-8")
