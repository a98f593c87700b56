"""Index and search many lines in a process of its own, so that its peak memory is theirs alone; prints one JSON line.

    python -m bench.memory_lines FOLDER LINES

Notes of 200 lines arrive in ten parts, each indexed when it has arrived: were the index not linear, the last parts
would take longer than the first.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import sys
import time
from datetime import date, timedelta
from pathlib import Path

from bench.memory_notes import questions, sentence
from homarus.memory import Memory

PARTS, PER_NOTE = 10, 200


def main(folder: Path, lines: int) -> dict[str, object]:
    """Measure one size."""
    rnd = random.Random(11)
    day = date(2026, 10, 1)
    parts: list[float] = []
    (folder / "memory").mkdir(parents=True)
    with Memory.open(folder, provider="none") as memory:
        for _ in range(PARTS):
            for _ in range(lines // PARTS // PER_NOTE):
                _note(folder, day, rnd, lines)
                day -= timedelta(days=1)
            begin = time.process_time()
            memory.sync()
            parts.append(time.process_time() - begin)
        first = _searches(memory, questions(rnd, 40))
        warm = _searches(memory, questions(random.Random(12), 40), twice=True)
        held = memory.status()
    return {
        "lines": held.lines,
        "parts": parts,
        "first": first,
        "warm": warm,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "disk_mib": held.bytes / (1 << 20),
    }


def _note(folder: Path, day: date, rnd: random.Random, lines: int) -> None:
    text = "".join(f"- {sentence(rnd)} (item {rnd.randrange(lines)})\n" for _ in range(PER_NOTE))
    (folder / "memory" / f"{day.isoformat()}.md").write_text(f"# {day.isoformat()}\n{text}", encoding="utf-8")


def _searches(memory: Memory, asked: list[str], *, twice: bool = False) -> list[float]:
    """Return the CPU seconds of searches at the 50th and the 95th percentile; `twice` asks each before it counts."""
    taken = []
    for question in asked:
        if twice:
            memory.search(question)
        begin = time.process_time()
        memory.search(question)
        taken.append(time.process_time() - begin)
    return [statistics.median(taken), statistics.quantiles(taken, n=20)[-1]]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
