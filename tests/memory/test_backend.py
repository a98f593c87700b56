"""Another index in place of ours: it names lines, and only what stands in the notes is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from homarus.memory.backend import Chosen, Lines, register_memory_backend
from homarus.memory.memory import Memory

NOTES = "# Garden\n\nThe roses were planted in 2021.\nThe pond is two metres deep.\n- [[origin:mail]] not this\n"


class Canned:
    def __init__(self, *places: Lines) -> None:
        self.places, self.asked, self.closed = places, list[tuple[str, int]](), False

    def find(self, query: str, limit: int) -> Sequence[Lines]:
        self.asked.append((query, limit))
        return self.places

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "memory/garden.md").write_text(NOTES)
    (folder / "secret.md").write_text("outside of the notes")
    return folder


def opened(workspace: Path, backend: Canned, name: str) -> Memory:
    register_memory_backend(name, lambda notes, folder: backend)
    chosen = Chosen(name, workspace, workspace.parent / "own")
    return Memory(workspace, workspace.parent / "index.sqlite", backend=chosen)


def test_what_it_names_is_read_from_the_notes(workspace: Path) -> None:
    backend = Canned(Lines("memory/garden.md", 4, 4, 0.9), Lines("memory/garden.md", 3, 3, 0.4))
    with opened(workspace, backend, "canned") as memory:
        answer = memory.search("how deep?", 5)
        assert [(hit.citation, hit.text) for hit in answer] == [
            ("memory/garden.md#L4", "The pond is two metres deep."),
            ("memory/garden.md#L3", "The roses were planted in 2021."),
        ]
        assert (answer.mode, answer.provider, answer.degraded) == ("backend", "canned", "")
        assert [hit.citation for hit in memory.search("how deep?", 5, 0.5)] == ["memory/garden.md#L4"]
        assert len(memory.recall("how deep?", 5, 1)) == 1  # the budget holds, and the best is told in any case
    assert backend.closed


@pytest.mark.parametrize(
    "place",
    [
        Lines("secret.md", 1, 1, 1.0),
        Lines("../secret.md", 1, 1, 1.0),
        Lines("memory/missing.md", 1, 1, 1.0),
        Lines("memory/garden.md", 400, 500, 1.0),
        Lines("memory/garden.md", 2, 2, 1.0),
    ],
)
def test_what_is_not_there_is_not_told(workspace: Path, place: Lines) -> None:
    with opened(workspace, Canned(place), "wrong") as memory:
        assert list(memory.search("anything")) == []


@pytest.mark.parametrize("trouble", ["raises", "junk", "absent"])
def test_our_own_index_answers_where_it_fails(workspace: Path, trouble: str) -> None:
    class Broken(Canned):
        def find(self, query: str, limit: int) -> Sequence[Lines]:
            if trouble == "raises":
                raise RuntimeError("no \x1b[31mserver")
            return ["junk"]  # type: ignore[list-item]  # that is the point

    register_memory_backend("broken-raises", lambda notes, folder: Broken())
    register_memory_backend("broken-junk", lambda notes, folder: Broken())
    chosen = Chosen(f"broken-{trouble}", workspace, workspace.parent / "own")
    with Memory(workspace, workspace.parent / "index.sqlite", backend=chosen) as memory:
        answer = memory.search("how deep is the pond?")
        assert "two metres" in answer[0].text
        assert f"'broken-{trouble}' failed" in answer.degraded
        assert "\x1b" not in answer.degraded


def test_a_question_that_only_our_index_can_narrow_is_ours(workspace: Path) -> None:
    backend = Canned()
    with opened(workspace, backend, "narrow") as memory:
        memory.recall("the pond", since="30d")
        memory.recall("the pond", kinds=("world",))
        memory.search("the pond", sources=("sessions",))
        assert backend.asked == []
        memory.search("the pond", sources=("memory",))
        assert len(backend.asked) == 1
