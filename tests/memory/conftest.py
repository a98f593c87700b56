from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from homarus.core.clock import ManualClock
from homarus.memory import Memory


class Notes:
    """A workspace under construction and the memory over it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock(datetime(2026, 6, 15, 12, tzinfo=UTC))
        self.opened: list[Memory] = []

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="")
        return target

    def open(self, **options: object) -> Memory:
        options.setdefault("provider", "none")
        memory = Memory.open(self.root, clock=self.clock, tz=UTC, **options)  # type: ignore[arg-type]
        self.opened.append(memory)
        return memory


@pytest.fixture
def notes(tmp_path: Path):
    made = Notes(tmp_path / "workspace")
    made.root.mkdir()
    yield made
    for memory in made.opened:
        memory.close()
