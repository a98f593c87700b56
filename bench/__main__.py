"""`python -m bench [names] [--json] [--list] [--runs N] [--strict]`: run bench_*.py and print what they found."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import Ctx, Row
from bench.report import document, table

HERE = Path(__file__).parent


def names() -> dict[str, str]:
    """Return every measurement with the first line of its docstring, without running anything."""
    found = {}
    for path in sorted(HERE.glob("bench_*.py")):
        first = path.read_text(encoding="utf-8").split('"""')[1].splitlines()[0]
        found[path.stem.removeprefix("bench_")] = first
    return found


def main() -> int:
    """Run what was asked for; 1 if a target was missed and --strict was given."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure homarus beside a floor or a peer.")
    parser.add_argument("names", nargs="*", help="which measurements (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--list", action="store_true", help="list the measurements and stop")
    parser.add_argument("--runs", type=int, default=15, help="rounds per measurement (median is shown)")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    options = parser.parse_args()
    known = names()
    if options.list:
        print("\n".join(f"{name:12} {first}" for name, first in known.items()))
        return 0
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no such measurement: {', '.join(unknown)} (there are: {', '.join(known)})")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the folder goes then, too
    started = datetime.now(UTC).isoformat(timespec="seconds")
    rows: list[Row] = []
    for name in options.names or known:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="homarus-bench-") as work:
            rows += importlib.import_module(f"bench.bench_{name}").run(Ctx(Path(work), dict(os.environ), options.runs))
    saved = document(rows, started)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / f"{started.replace(':', '-')}.json").write_bytes(saved)
    print(saved.decode() if options.json else table(rows))
    return 1 if options.strict and any(row.missed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
