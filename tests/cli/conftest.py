"""A home of its own for every test of a command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty home the one that commands find, whatever the machine's own environment says."""
    for name in os.environ:
        if name.startswith(("OPENCLAW_", "HOMARUS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / ".openclaw").mkdir()
    return tmp_path
