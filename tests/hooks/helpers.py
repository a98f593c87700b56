"""Small things that the tests of hooks share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from homarus.hooks.manifest import Facts

NOW = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)


def facts(
    *, platform: str = "linux", env: Mapping[str, str] | None = None, bins=(), config: Mapping[str, Any] | None = None
) -> Facts:
    return Facts(platform, env or {}, lambda name: name in bins, (config or {}).get)


def write_hook(
    root: Path,
    name: str,
    *,
    metadata: str = 'openclaw: {"events": ["command:new"]}',
    code: str | None = "",
    extra: str = "",
) -> Path:
    """Write a hook folder; `code` None leaves the handler out."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "HOOK.md").write_text(
        f"---\nname: {name}\ndescription: Does {name}.\n{extra}metadata:\n  {metadata}\n---\n# {name}\n"
    )
    if code is not None:
        (folder / "handler.py").write_text(code or "async def handle(event):\n    event.messages.append(__name__)\n")
    return folder
