"""The notebook: told what people tell it and asked in other words, how much is right, wrong, or about things never told.

With word vectors where they are installed, with MiniLM where BENCH_MODELS names a folder with minilm/minilm-int8.onnx.
BENCH_SETS names a folder with other sets (*.txt, in the form of tests/models/notebook/first.txt).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from bench.measure import Ctx, Row
from homarus.core.clock import ManualClock
from homarus.core.messages import Assistant, Message, Text, ToolResult, User
from homarus.memory import Memory, toolset
from homarus.models.notebook.minilm import reader_in
from homarus.models.notebook.turn import next_step
from homarus.models.notebook.words import SAID

SETS = Path(__file__).parent.parent / "tests" / "models" / "notebook"
PEOPLE = Path(__file__).parent / "notebook_people"  # from whom the readers learn: each question stands under its answer
RUN = {
    "memory_retain": toolset.retain_fact,
    "memory_recall": toolset.recall,
    "memory_search": toolset.search,
    "memory_get": toolset.get,
}
NEAREST = tuple(text.partition("{")[0] for text in SAID["nearest"])
A_DAY_AFTER = 8  # so many messages


class Person(Struct):
    name: str
    told: list[str] = []
    asked: list[tuple[str, list[str]]] = []  # a question, and the words of which the answer must hold one
    never: list[str] = []


class Score(Struct):
    """Counts over a set. `first` are right answers whose first quote is the right one; `near` are questions that were not
    answered and whose nearest line, shown as that, has the answer."""

    asked: int = 0
    right: int = 0
    first: int = 0
    wrong: int = 0
    never: int = 0
    false: int = 0
    near: int = 0
    misses: list[tuple[str, str, str]] = []

    @property
    def shares(self) -> tuple[float, float, float]:
        """Return right and wrong of what was asked, and false of what was never told."""
        return self.right / self.asked, self.wrong / self.asked, self.false / max(1, self.never)

    def __str__(self) -> str:
        right, wrong, false = self.shares
        first, near = self.first / self.asked, self.near / self.asked
        return f"right {right:.1%} (first quote {first:.1%}), nearest {near:.1%}, wrong {wrong:.1%}, false {false:.1%}"


def people(path: Path) -> list[Person]:
    """Read a set: who (=), told (>), asked (? … => …), never told (-). A question without => is answered by the line above it."""
    found: list[Person] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        mark, text = line[:2], line[2:].replace("\\n", "\n")
        if mark == "= ":
            found.append(Person(text))
        elif mark == "> ":
            found[-1].told.append(text)
        elif mark == "? ":
            question, given, wanted = text.rpartition(" => ")
            parts = [part.strip().lower() for part in wanted.split(" | ")] if given else [found[-1].told[-1].lower()]
            found[-1].asked.append((question or text, parts))
        elif mark == "- ":
            found[-1].never.append(text)
    return found


class Notebook:
    """The notebook with the real memory tools over a real folder."""

    def __init__(self, root: Path, provider: str = "none", models: Path | None = None) -> None:
        self.root = root
        self.clock = ManualClock(datetime(2026, 11, 1, 8, tzinfo=UTC))
        self.memory = Memory.open(root, clock=self.clock, tz=UTC, provider=provider, models=models)
        self.messages: list[Message] = []
        self.reader = reader_in(models if provider == "minilm" else None)

    def say(self, text: str) -> str:
        self.messages.append(User((Text(text),)))
        while True:
            step = next_step(self.messages, toolset.SPECS, "", self.clock.now(), self.reader)
            self.messages.append(Assistant((*([Text(step.text)] if step.text else []), *step.calls)))
            if not step.calls:
                return step.text
            for call in step.calls:
                result = json.dumps(RUN[call.name](self.memory, call.arguments), ensure_ascii=False)
                self.messages.append(ToolResult(call.id, call.name, (Text(result),)))


@contextmanager
def told(person: Person, provider: str = "none", models: Path | None = None) -> Iterator[Notebook]:
    """A notebook that heard all that the person has to tell, over several days."""
    with TemporaryDirectory() as folder:
        book = Notebook(Path(folder), provider, models)
        for at, text in enumerate(person.told):
            if at % A_DAY_AFTER == A_DAY_AFTER - 1:
                book.clock.advance(86_400)
            book.say(text)
        book.memory.sync()
        book.messages.clear()
        yield book
        book.memory.close()


def measure(path: Path, provider: str = "none", models: Path | None = None) -> Score:
    score = Score()
    for person in people(path):
        with told(person, provider, models) as book:
            _ask(book, person, score)
    return score


def _ask(book: Notebook, person: Person, score: Score) -> None:
    for question, wanted in [*person.asked, *((question, []) for question in person.never)]:
        book.messages.clear()
        said = book.say(question)
        nearest = said.startswith(NEAREST)
        unknown = nearest or said in SAID["unknown"] or said.endswith(SAID["if_question"])
        score.asked += bool(wanted)
        score.never += not wanted
        if not wanted:
            score.false += not unknown
        elif nearest:
            score.near += any(word in _quoted(said).lower() for word in wanted)
        elif any(word in _quoted(said).lower() for word in wanted):
            score.right += 1
            score.first += any(word in _quoted(said, 1).lower() for word in wanted)
        else:
            score.wrong += not unknown
        if unknown == bool(wanted) or (wanted and not any(word in said.lower() for word in wanted)):
            score.misses.append((person.name, question, said))


def _quoted(said: str, most: int | None = None) -> str:
    """Return what is quoted as true now; what was true before does not count."""
    lines: Sequence[str] = [line for line in said.splitlines() if not line.startswith(("Before:", "Früher:"))]
    quotes = [line for line in lines if "“" in line or "„" in line]
    return "\n".join(quotes[:most])


def run(ctx: Ctx) -> list[Row]:
    """Return the shares in per cent, by set and by what ranks; a target is the most that may be wrong or made up."""
    models = Path(ctx.env["BENCH_MODELS"]) if ctx.env.get("BENCH_MODELS") else None
    providers = ["none", *(["wordllama"] if find_spec("wordllama") else []), *(["minilm"] if models else [])]
    rows: list[Row] = []
    for path in sorted(Path(ctx.env.get("BENCH_SETS", SETS)).glob("*.txt")):
        for provider in providers:
            score = measure(path, provider, models)
            right, wrong, false = (100 * share for share in score.shares)
            name = f"{path.stem} set, {provider}"
            rows += [
                Row(f"{name}: right", right, "%"),
                Row(f"{name}: not sure, and the nearest line has it", 100 * score.near / score.asked, "%"),
                Row(f"{name}: wrong", wrong, "%", "of 100", wrong, 4.0),
                Row(f"{name}: never told, answered", false, "%", "of 100", false, 5.0),
            ]
    return rows
