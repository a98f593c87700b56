"""Our starter files for a new workspace; their front matter is for readers of this folder and is never written."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from homarus.core.frontmatter import without_header

_HERE = Path(__file__).resolve().parent


@cache
def template(name: str) -> str:
    """Return the text of a starter file as it is written into a workspace: without front matter."""
    return without_header((_HERE / name).read_text(encoding="utf-8"))
