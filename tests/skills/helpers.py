"""Small things that the tests of skills share."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homarus.hooks.manifest import Facts
from homarus.skills.discover import Skill, Source
from homarus.skills.gate import Gate
from homarus.skills.header import SkillHeader
from homarus.skills.settings import SkillSettings


def facts(
    *, platform: str = "linux", env: Mapping[str, str] | None = None, bins=(), config: Mapping[str, Any] | None = None
) -> Facts:
    return Facts(platform, env or {}, lambda name: name in bins, (config or {}).get)


def gate(settings: SkillSettings | None = None, allowlist=None, **machine: Any) -> Gate:
    return Gate(settings or SkillSettings(), facts(**machine), None if allowlist is None else frozenset(allowlist))


def skill(
    name: str = "s",
    description: str = "Does things.",
    *,
    source: Source = Source.MANAGED,
    folder: str = "",
    **header: Any,
) -> Skill:
    folder = folder or f"/skills/{name}"
    return Skill(
        name,
        source,
        folder,
        f"{folder}/SKILL.md",
        SkillHeader(name=name, description=description, **header),
        f"{folder}|1:1:1:1:1",
    )


def write_skill(
    root: Path,
    place: str,
    *,
    name: str | None = None,
    description: str = "Does things.",
    header: str = "",
    body: str = "# Body\n",
) -> Path:
    """Write a SKILL.md in `root/place` and return its path."""
    folder = root / place
    folder.mkdir(parents=True, exist_ok=True)
    named = f"name: {name or folder.name}\n" if name != "" else ""
    file = folder / "SKILL.md"
    file.write_text(f"---\n{named}description: {description}\n{header}---\n{body}")
    return file


def read_listing(text: str) -> list[tuple[str, str, str]]:
    """Read a listing in the element form, or in the older form with the location as an attribute."""
    if not text:
        return []
    rows = []
    for element in ET.fromstring(text):
        location = element.get("location") or element.findtext("location") or ""
        name = element.findtext("name") or re.sub(r".*/([^/]+)/SKILL\.md", r"\1", location)
        rows.append((name, element.findtext("description") or "", location))
    return rows
