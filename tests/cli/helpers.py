"""Small things that the tests of commands share."""

from __future__ import annotations

from pathlib import Path


def configure(home: Path, text: str) -> None:
    """Write the configuration of a home."""
    (home / ".openclaw" / "openclaw.json").write_text(text)
