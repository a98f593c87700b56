"""Run every question of a notebook through the real ranking and keep the signals of each candidate line."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec
import numpy as np

from homarus.memory import Memory
from homarus.memory.candidates import read_files, read_texts
from homarus.memory.embed.base import Embedders
from homarus.memory.engine import Engine, Request
from homarus.memory.evaluate import Notebook, write
from homarus.memory.pack import cost
from homarus.memory.settings import MemorySettings
from homarus.storage.sqlite import open_readonly

TODAY = date(2026, 11, 15)  # relative phrases in questions count from here
DEPTH = 120


class Asked(msgspec.Struct):
    """One question: a row of signals per candidate, which of them are evidence, and what each costs."""

    source: str  # the data set that the question is from
    group: str
    names: list[str]
    signals: np.ndarray
    evidence: np.ndarray
    total: int  # evidence lines, found among the candidates or not
    costs: np.ndarray


def collect(book: Notebook, folder: Path, provider: str, models: Path | None) -> list[Asked]:
    """Index a notebook in a folder (kept, so that vectors are made once) and ask all of its questions."""
    write(book, folder)
    settings = MemorySettings(provider=provider)
    with Memory.open(folder, settings=settings, models=models) as memory:
        memory.sync()
    engine = Engine(settings, Embedders(settings, models))
    conn = open_readonly(folder / ".memory" / "index.sqlite")
    found = []
    for question in book.questions:
        ranked = engine.rank(conn, Request(text=question.text, today=TODAY, limit=DEPTH, budget=1000))
        kept = [at for at, row in enumerate(ranked.rows) if row.kind not in {"heading", "path"}]
        rows = [ranked.rows[at] for at in kept]
        files = read_files(conn, {row.file for row in rows})
        texts = read_texts(conn, [row.id for row in rows])
        names = sorted(ranked.columns)
        found.append(
            Asked(
                source=folder.parent.name,
                group=question.group,
                names=names,
                signals=np.array([ranked.columns[name] for name in names], dtype=np.float32).T[kept],
                evidence=np.array([(files[row.file].path, row.line) in question.evidence for row in rows], dtype=bool),
                total=len(question.evidence),
                costs=np.array([cost(texts[row.id]) for row in rows], dtype=np.int64),
            )
        )
    conn.close()
    return found
