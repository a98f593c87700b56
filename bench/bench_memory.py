"""Memory: indexing, searching and the cold command, at 10,000 sections and (with BENCH_MEMORY_LINES) at many lines.

Targets are absolute figures, written as the ratio of the value to its limit; the peer's figure stands in the label.
"""

from __future__ import annotations

import random
import statistics
import time
from datetime import date, timedelta
from pathlib import Path

from bench.measure import Ctx, Row
from homarus.memory import Memory

WHO = [
    "Anna",
    "Boris",
    "Carla",
    "Dmitri",
    "Elena",
    "Farid",
    "Greta",
    "Hiro",
    "Ines",
    "Jonas",
    "Katya",
    "Liam",
    "Mara",
    "Nils",
    "Olga",
    "Pavel",
    "Rosa",
    "Sven",
    "Tara",
]
WHAT = [
    "invoice",
    "passport",
    "bicycle",
    "router",
    "boiler",
    "printer",
    "ticket",
    "contract",
    "backpack",
    "camera",
    "battery",
    "recipe",
    "lease",
    "filter",
]
WHERE = [
    "clinic",
    "garage",
    "garden",
    "library",
    "market",
    "office",
    "station",
    "school",
    "workshop",
    "harbour",
    "bakery",
    "gym",
]
HOW = ["broken", "new", "missing", "late", "cheap", "heavy", "green", "urgent", "old", "shared", "spare", "borrowed"]
SENTENCES = (
    "{who} asked me about the {how} {what} near the {where} and wants an answer soon.",
    "Picked up the {how} {what} from the {where}; it cost {n} euros and the receipt is in the drawer.",
    "Moved the meeting with {who} because the {what} has not arrived at the {where} yet.",
    "Spent {n} minutes on the {what}, then {who} called and we agreed to try the {where} again.",
    "The {what} at the {where} is {how}; ask {who} for the warranty number {n}.",
    "Remember: {who} prefers the {how} {what} and does not want to go to the {where}.",
)
SECTIONS = 10_000


def run(ctx: Ctx) -> list[Row]:
    """Measure with words alone: what every installation has."""
    rows = _sections(ctx)
    lines = int(ctx.env.get("BENCH_MEMORY_LINES", "0"))
    return rows + (_many_lines(ctx, lines) if lines else [])


def _sentence(rnd: random.Random) -> str:
    return rnd.choice(SENTENCES).format(
        who=rnd.choice(WHO), what=rnd.choice(WHAT), where=rnd.choice(WHERE), how=rnd.choice(HOW), n=rnd.randint(3, 240)
    )


def _notes(folder: Path, sections: int, rnd: random.Random) -> list[str]:
    """Write daily notes of eight sections of about 1,200 characters; return questions about planted facts."""
    questions = []
    day = date(2026, 10, 1)
    (folder / "memory").mkdir(parents=True)
    for start in range(0, sections, 8):
        parts = [f"# {day.isoformat()}\n"]
        for number in range(start, min(start + 8, sections)):
            text = ""
            while len(text) < 1200:
                text += _sentence(rnd) + " "
            if number % (sections // 20) == 0:
                word = "".join(rnd.choice("bdfglmnprstvz") + rnd.choice("aeiou") for _ in range(4))
                text += f"The code word that {WHO[number % 19]} gave me for the {WHAT[number % 14]} is {word}."
                questions.append(f"{WHAT[number % 14]} code word {WHO[number % 19]} {word}")
            parts.append(f"\n## Section {number}\n\n{text}\n")
        (folder / "memory" / f"{day.isoformat()}.md").write_text("".join(parts), encoding="utf-8")
        day -= timedelta(days=1)
    return questions


def _questions(rnd: random.Random) -> list[str]:
    asked = [f"What did {rnd.choice(WHO)} say about the {rnd.choice(WHAT)}?" for _ in range(20)]
    return asked + [
        f"when was the {rnd.choice(WHAT)} {rnd.choice(HOW)} near the {rnd.choice(WHERE)}" for _ in range(20)
    ]


def _sections(ctx: Ctx) -> list[Row]:
    rnd = random.Random(7)
    folder = ctx.folder("notes")
    questions = _notes(folder, SECTIONS, rnd) + _questions(rnd)
    with Memory.open(folder, provider="none") as memory:
        built = _cpu(memory.sync)
        memory.sync()
        again = statistics.median(_cpu(memory.sync) for _ in range(5))
        for question in questions:
            memory.search(question)
        warm = _median(memory, questions)
        recall = statistics.median(_cpu(lambda q=q: memory.recall(q)) for q in questions)
    command = [*ctx.homarus(), "memory", "search", "--workspace", str(folder), "--provider", "none", questions[0]]
    cold = ctx.programs({"search": command})["search"]
    return [
        _row("index 10,000 sections (CPU)", built, 3.0, "peer 37 s"),
        _row("index again, nothing changed (CPU)", again, 0.1, "peer 6.6 s"),
        _row("warm search, median (CPU)", warm, 0.005, "peer 80 ms"),
        _row("warm recall of 1,000 tokens, median (CPU)", recall, None, ""),
        _row("cold `homarus memory search` (CPU)", cold.cpu, 0.15, "peer 5.2 s"),
    ]


def _many_lines(ctx: Ctx, lines: int) -> list[Row]:
    rnd = random.Random(11)
    folder = ctx.folder("lines")
    (folder / "memory").mkdir()
    day = date(2026, 10, 1)
    for _ in range(lines // 200):
        text = "".join(f"- {_sentence(rnd)} (item {rnd.randrange(lines)})\n" for _ in range(200))
        (folder / "memory" / f"{day.isoformat()}.md").write_text(f"# {day.isoformat()}\n{text}", encoding="utf-8")
        day -= timedelta(days=1)
        if day.year < 1900:
            day = date(2199, 12, 31)
    with Memory.open(folder, provider="none") as memory:
        built = _cpu(memory.sync)
        questions = _questions(rnd)
        for question in questions:
            memory.search(question)
        warm = _median(memory, questions)
    return [
        Row(
            f"index {lines:,} lines: lines a second (CPU)",
            lines / built,
            "/s",
            "floor 2,000",
            2_000 / (lines / built),
            1.0,
        ),
        _row(f"warm search in {lines:,} lines, median (CPU)", warm, 0.06, ""),
    ]


def _cpu(work) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _median(memory: Memory, questions: list[str]) -> float:
    taken = []
    for question in questions:
        begin = time.process_time()
        memory.search(question)
        taken.append(time.process_time() - begin)
    return statistics.median(taken)


def _row(item: str, seconds: float, limit: float | None, label: str) -> Row:
    unit, scale = ("s", 1.0) if seconds >= 1 else ("ms", 1e3)
    return Row(item, seconds * scale, unit, label, seconds / limit if limit else None, 1.0 if limit else None)
