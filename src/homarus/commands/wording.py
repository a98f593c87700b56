"""How commands put numbers and moments into words. Pure."""

from __future__ import annotations


def short_count(number: int) -> str:
    """Return a count as people say it: 950, 12.3k, 200k, 1.0M."""
    if number < 1000:
        return str(number)
    if number < 1_000_000:
        thousands = number / 1000
        return f"{thousands:.1f}k" if thousands < 100 and round(thousands, 1) % 1 else f"{thousands:.0f}k"
    return f"{number / 1_000_000:.1f}M"


def money(dollars: float) -> str:
    """Return dollars; small sums keep the digits that matter."""
    return f"${dollars:.2f}" if dollars >= 1 or not dollars else f"${dollars:.4f}"


def ago(seconds: float) -> str:
    """Return how long ago something was."""
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{max(0, round(seconds / size))} {unit} ago"
    return f"{round(seconds / 86_400)} days ago"


def share(part: int, whole: int) -> str:
    """Return a percentage, nothing where the whole is not known."""
    return f" ({100 * part / whole:.0f} %)" if whole else ""
