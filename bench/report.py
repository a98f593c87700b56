"""The results as a table for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence

import msgspec

from bench.measure import Row

_HEAD = ("item", "value", "against", "ratio", "target")


def table(rows: Sequence[Row]) -> str:
    """Return the rows as an aligned table; a missed target is marked."""
    cells = [_HEAD] + [
        (
            row.item,
            f"{row.value:.3g} {row.unit}",
            row.against,
            "" if row.ratio is None else f"{row.ratio:.2f}×",
            "" if row.target is None else f"≤ {row.target:g}×" + ("  MISSED" if row.missed else ""),
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    right = (1, 3)
    lines = [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]])


def document(rows: Sequence[Row], started: str) -> bytes:
    """Return the rows with what one must know about the machine to compare them."""
    machine = {"system": platform.platform(), "python": platform.python_version(), "cores": os.cpu_count()}
    return msgspec.json.format(
        msgspec.json.encode({"started": started, "machine": machine, "rows": list(rows)}), indent=1
    )
