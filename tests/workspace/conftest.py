"""A workspace full of files, and a place where warnings land."""

from __future__ import annotations

from pathlib import Path

import pytest

from homarus.workspace import names


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a workspace with every standard file, each holding its own name."""
    root = tmp_path / "workspace"
    root.mkdir()
    for name in (*names.LOADED, names.BOOT, names.DREAMS):
        if name != names.MEMORY_LOWER:
            (root / name).write_text(f"# {name}\n\nText of {name}.\n", encoding="utf-8")
    return root


@pytest.fixture
def warnings() -> list[str]:
    return []
