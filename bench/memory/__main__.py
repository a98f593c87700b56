"""`python -m bench.memory --provider wordllama [--data FILE]`: recall as shipped, and with weights fitted on the other notebooks.

`--data` (or BENCH_MEMORY_DATA) are files in LoCoMo's format or ours; without them only the notes that `bench.memory.notes` writes are
asked about, which no weight was ever fitted on.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bench.memory.collect import Asked, collect
from bench.memory.fit import climb, fit, left_out, measure
from bench.memory.notes import notebooks
from homarus.memory.evaluate import Notebook, load
from homarus.memory.rank import FITTED, PRICE, table

COLUMNS = ("500 tok", "1000 tok", "2000 tok", "first 10", "MRR")


def main() -> None:
    """Print one table per set of notes."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description="Measure and fit memory's ranking.")
    parser.add_argument("--provider", default="none", help="none, wordllama or minilm")
    parser.add_argument(
        "--data",
        nargs="*",
        default=os.environ.get("BENCH_MEMORY_DATA", "").split(),
        help="files in LoCoMo's format, or ours",
    )
    parser.add_argument(
        "--climb", action="store_true", help="fit recall within the budget itself, from the shipped weights on"
    )
    parser.add_argument("--models", type=Path, help="folder that holds minilm/minilm-int8.onnx")
    parser.add_argument("--keep", type=Path, help="folder in which indexes and vectors stay for the next run")
    parser.add_argument("--without", nargs="*", default=[], help="signals to leave out, to see what each is worth")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the folder goes then, too
    with tempfile.TemporaryDirectory(prefix="homarus-bench-") as scratch:
        folder = (options.keep or Path(scratch)) / options.provider
        books: dict[str, list[Asked]] = {}
        for path in map(Path, options.data):
            books |= _ask(load(path), folder / path.stem, options.provider, options.models)
        if books:
            _conversations(books, options.without, climbing=options.climb)
        _own(_ask(notebooks(), folder / "notes", options.provider, options.models))


def _ask(books: Sequence[Notebook], folder: Path, provider: str, models: Path | None) -> dict[str, list[Asked]]:
    return {book.name: collect(book, folder / book.name, provider, models) for book in books}


def _conversations(books: dict[str, list[Asked]], without: Sequence[str], *, climbing: bool) -> None:
    """Print the shipped weights, and weights that never saw the conversation they are measured on."""
    weights = {name: weight for name, weight in table(_kind(books)).items() if name not in without}
    names = [name for name in FITTED if name in weights]
    shipped = {name: [measure(asked, weights, PRICE) for asked in found] for name, found in books.items()}
    print(f"{'':32} {'  '.join(COLUMNS)}")
    _row("shipped weights", shipped)
    if len(books) > 1:
        fit_on = partial(climb, names=names, start=weights, price=PRICE) if climbing else partial(fit, names=names)
        fitted, means = left_out(books, fit_on, PRICE)
        _row("each fitted on the others", fitted)
        for name, rows in fitted.items():
            _row(f"  {name}, fitted on the others", {name: rows})
        print("fitted: " + "  ".join(f"{name} {means[name]:.2f} ({weights[name]:.2f})" for name in names))


def _own(books: dict[str, list[Asked]]) -> None:
    """Print how the shipped weights do on notes of other kinds."""
    weights = table(_kind(books))
    print(f"\n{'':32} {'  '.join(COLUMNS)}")
    for name, found in books.items():
        _row(f"{name} ({len(found)} questions)", {name: [measure(asked, weights, PRICE) for asked in found]})


def _kind(books: dict[str, list[Asked]]):
    """Return which table of weights the signals belong to."""
    names = next(found[0].names for found in books.values() if found)
    if "sentence" in names:
        return "model"
    return "static" if "soft" in names else "lines" if "vector" in names else "words"


def _row(label: str, results: dict[str, list[list[float]]]) -> None:
    means = np.mean([row for rows in results.values() for row in rows], axis=0)
    print(f"{label:32} {'  '.join(f'{mean:{len(title)}.3f}' for mean, title in zip(means, COLUMNS, strict=True))}")


if __name__ == "__main__":
    main()
