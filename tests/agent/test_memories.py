from __future__ import annotations

from types import SimpleNamespace

import pytest

from homarus.agent.memories import recall_before
from homarus.core.errors import StorageError
from homarus.memory.settings import MemorySettings, PreReply


class BrokenMemory:
    settings = MemorySettings(pre_reply=PreReply(enabled=True))

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def recall(self, *_: object, **__: object) -> object:
        raise self.problem


@pytest.mark.parametrize("problem", [StorageError("no disk"), ValueError("Range(…) is not in list"), RuntimeError()])
async def test_a_recall_that_fails_never_fails_the_turn(problem, caplog):
    turn = SimpleNamespace(text="What is the boat called?")
    assert await recall_before(BrokenMemory(problem), turn, "s1") == ()  # type: ignore[arg-type]
    assert "memory could not be asked" in caplog.text
