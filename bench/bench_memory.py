"""Memory: indexing, searching (with words, with vectors) and the cold command, at 10,000 sections; with BENCH_MEMORY_LINES at many lines.

Targets are absolute figures, written as the ratio of the value to its limit; the peer's figure stands in the label.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path

from bench.measure import Ctx, Row
from bench.memory.year import PEOPLE, year
from bench.memory_notes import WHAT, WHO, questions, sentence
from homarus.memory import Memory
from homarus.memory.bank.reflect import reflect
from homarus.memory.evaluate import Notebook, write

SECTIONS = 10_000


def run(ctx: Ctx) -> list[Row]:
    """Measure with words alone, what every installation has; and with the vectors of the extra `memory`."""
    rnd = random.Random(7)
    folder = ctx.folder("notes")
    asked = _notes(folder, SECTIONS, rnd) + questions(rnd, 40)
    rows = _bank(ctx) + _sections(ctx, folder, asked) + _with_vectors(folder, asked)
    lines = int(ctx.env.get("BENCH_MEMORY_LINES", "0"))
    return rows + (_many_lines(ctx, lines) if lines else [])


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
                text += sentence(rnd) + " "
            if number % (sections // 20) == 0:
                word = "".join(rnd.choice("bdfglmnprstvz") + rnd.choice("aeiou") for _ in range(4))
                text += f"The code word that {WHO[number % 19]} gave me for the {WHAT[number % 14]} is {word}."
                questions.append(f"{WHAT[number % 14]} code word {WHO[number % 19]} {word}")
            parts.append(f"\n## Section {number}\n\n{text}\n")
        (folder / "memory" / f"{day.isoformat()}.md").write_text("".join(parts), encoding="utf-8")
        day -= timedelta(days=1)
    return questions


def _bank(ctx: Ctx) -> list[Row]:
    """Measure the bank: a year of 3,000 facts at once, a day's facts after that, and nothing new."""
    folder = ctx.folder("year")
    write(
        Notebook("year", {path: [_retained(line) for line in lines] for path, lines in year()[0].items()}, []), folder
    )
    with Memory.open(folder, provider="none") as memory:
        memory.sync()
        whole = _cpu(lambda: reflect(memory))
        new = "".join(f"- O @{name}: Prefers tea.\n" for name in PEOPLE[:8])
        (folder / "memory" / "2025-12-31.md").write_text(f"## Retain\n{new}")
        day = _cpu(lambda: reflect(memory, since="2025-12-31"))
        again = _cpu(lambda: reflect(memory))
    return [
        _row("reflect on 3,000 facts (CPU)", whole, 5.0, ""),
        _row("reflect on a day's facts after that (CPU)", day, 0.3, ""),
        _row("reflect again, nothing changed (CPU)", again, None, ""),
    ]


def _retained(line: str) -> str:
    """Return a line of the year as a fact that somebody wrote down: all 3,000 count then."""
    who = next((name for name in PEOPLE if name in line), "")
    return "## Retain" if line.startswith("#") else f"- W @{who}: {line[2:]}" if who else line


def _sections(ctx: Ctx, folder: Path, asked: list[str]) -> list[Row]:
    with Memory.open(folder, provider="none") as memory:
        built = _cpu(memory.sync)
        memory.sync()
        again = statistics.median(_cpu(memory.sync) for _ in range(5))
        reflect(memory)  # the bank is there from here on
        warm, recall = _warm(memory, asked)
    command = [*ctx.homarus(), "memory", "search", "--workspace", str(folder), "--provider", "none", asked[0]]
    cold = ctx.programs({"search": command})["search"]
    return [
        _row("index 10,000 sections (CPU)", built, 3.0, "peer 37 s"),
        _row("index again, nothing changed (CPU)", again, 0.1, "peer 6.6 s"),
        _row("warm search, median (CPU)", warm, 0.005, "peer 80 ms"),
        _row("warm recall of 1,000 tokens, median (CPU)", recall, 0.01, ""),
        _row("cold `homarus memory search` (CPU)", cold.cpu, 0.15, "peer 5.2 s"),
    ]


def _with_vectors(folder: Path, asked: list[str]) -> list[Row]:
    """Measure searches with vectors; CPU time counts what other threads do for them, too."""
    name = "warm search with vectors (wordllama), median (CPU)"
    with Memory.open(folder, provider="wordllama") as memory:
        built = _cpu(memory.sync)
        if memory.identity[0] != "wordllama":
            return [Row(name, float("nan"), "(skipped: pip install 'homarus[memory]')")]
        warm, recall = _warm(memory, asked)
    return [
        _row("vectors of 10,000 sections (CPU)", built, None, ""),
        _row(name, warm, 0.005, ""),
        _row("warm recall of 1,000 tokens with vectors, median (CPU)", recall, 0.01, ""),
    ]


def _warm(memory: Memory, asked: list[str]) -> tuple[float, float]:
    """Return what a search and a recall take in a process that was asked before."""
    for question in asked:
        memory.search(question)
    searched = statistics.median(_cpu(lambda q=q: memory.search(q)) for q in asked)
    return searched, statistics.median(_cpu(lambda q=q: memory.recall(q)) for q in asked)


def _many_lines(ctx: Ctx, lines: int) -> list[Row]:
    command = [sys.executable, "-m", "bench.memory_lines", str(ctx.folder("lines")), str(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
    found = json.loads(done.stdout)
    parts, name = found["parts"], f"{found['lines']:,} lines"
    speed = found["lines"] / sum(parts)
    # The first part also creates the tables; the last three against the three after it show whether growth is linear.
    growth = sum(parts[-3:]) / sum(parts[1:4])
    print(
        f"  seconds of CPU per {lines // len(parts):,} lines:",
        " ".join(f"{part:.1f}" for part in parts),
        file=sys.stderr,
    )
    return [
        Row(f"index {name}: lines a second (CPU)", speed, "/s", "floor 2,000", 2_000 / speed, 1.0),
        Row(f"index {name}: last 30 % against the first", growth, "x", "linear", growth, 1.5),
        _row(f"warm search in {name}, median (CPU)", found["warm"][0], 0.06, ""),
        _row(f"warm search in {name}, 95th of 100 (CPU)", found["warm"][1], 0.06, ""),
        _row(f"search in {name}, words not asked for before (CPU)", found["first"][0], 0.06, ""),
        _row(f"search in {name}, the same, 95th of 100 (CPU)", found["first"][1], None, ""),
        Row(f"memory of indexing and searching {name}", found["mib"], "MiB", "limit 256", found["mib"] / 256, 1.0),
        Row(f"index of {name} on disk", found["disk_mib"], "MiB"),
    ]


def _cpu(work) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _row(item: str, seconds: float, limit: float | None, label: str) -> Row:
    unit, scale = ("s", 1.0) if seconds >= 1 else ("ms", 1e3)
    return Row(item, seconds * scale, unit, label, seconds / limit if limit else None, 1.0 if limit else None)
