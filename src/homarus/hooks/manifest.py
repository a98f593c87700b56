"""What a HOOK.md or a SKILL.md says about itself to the machine: its `metadata.openclaw` block, and what it needs to run.

Pure: the machine is described by `Facts`, which the caller fills. Only `on_path` looks at the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from homarus.core.errors import HomarusError
from homarus.core.frontmatter import json5

# The product's names over time; the first one that is there counts.
MANIFESTS = ("openclaw", "clawdbot", "moltbot")
_SYSTEMS = {"macos": "darwin", "mac": "darwin", "osx": "darwin", "windows": "win32", "win": "win32"}
# Switches that count as on until somebody turns them off.
_ON_BY_DEFAULT = frozenset({"browser.enabled"})
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


class Requires(Struct, frozen=True, gc=False):
    """What must be there. `always` waives everything but the operating system."""

    always: bool = False
    os: tuple[str, ...] = ()
    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()


class Facts(Struct, frozen=True, eq=False):
    """What the machine offers: `which` knows executables by name, `config` gives a setting by its dotted path."""

    platform: str
    env: Mapping[str, str]
    which: Callable[[str], bool]
    config: Callable[[str], Any]


class Step(Struct, frozen=True):
    """The outcome of one gate, for people: which gate, passed or not, and why."""

    gate: str
    ok: bool
    detail: str = ""


def manifest(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine's block of a header, from a mapping or from JSON5 text; empty where there is none."""
    metadata = _mapping(values.get("metadata"))
    for name in MANIFESTS:
        if block := _mapping(metadata.get(name)):
            return block
    return {}


def requirements(block: Mapping[str, Any]) -> Requires:
    """Return what a manifest block asks for; what has a wrong shape asks for nothing."""
    needs = _mapping(block.get("requires"))
    return Requires(
        always=flag(block.get("always"), default=False),
        os=tuple(_SYSTEMS.get(name.lower(), name.lower()) for name in words(block.get("os"))),
        bins=words(needs.get("bins")),
        any_bins=words(needs.get("anyBins")),
        env=words(needs.get("env")),
        config=words(needs.get("config")),
    )


def check(needs: Requires, facts: Facts, granted: frozenset[str] = frozenset()) -> Iterator[Step]:
    """Give the outcome of each gate in order; `granted` are variables that the run will get from the configuration."""
    if needs.os:
        yield Step("os", facts.platform in needs.os, f"needs {' or '.join(needs.os)}, this is {facts.platform}")
    if needs.always:
        yield Step("always", True, "always on; nothing else is asked")
        return
    for name in needs.bins:
        yield Step("bins", facts.which(name), f"needs {name} on PATH")
    if needs.any_bins:
        yield Step(
            "anyBins", any(map(facts.which, needs.any_bins)), f"needs one of {', '.join(needs.any_bins)} on PATH"
        )
    for name in needs.env:
        yield Step("env", bool(facts.env.get(name)) or name in granted, f"needs {name} set")
    for path in needs.config:
        yield Step("config", _is_set(path, facts), f"needs {path} on in the configuration")


def words(value: Any) -> tuple[str, ...]:
    """Return a list of names from a list, or from one string; other values name nothing."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple):
        return ()
    return tuple(text for item in value if isinstance(item, str) and (text := item.strip()))


def flag(value: Any, *, default: bool) -> bool:
    """Return a switch that may have been written as a word; anything unclear is the default."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in _TRUE else False if word in _FALSE else default


def text_of(value: Any) -> str:
    """Return a scalar as text; a missing or nested value is empty."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def on_path(path: str) -> Callable[[str], bool]:
    """Return a lookup of executables in a PATH; each name is looked up once, so a new one is seen by a new lookup."""
    folders = [folder for folder in path.split(os.pathsep) if folder]

    @cache
    def which(name: str) -> bool:
        if not name or "/" in name or "\0" in name:
            return False
        candidates = (f"{folder}/{name}" for folder in folders)
        return any(os.access(file, os.X_OK) and os.path.isfile(file) for file in candidates)  # noqa: PTH113

    return which


def _is_set(path: str, facts: Facts) -> bool:
    try:
        value = facts.config(path)
    except HomarusError:
        # A stranger wrote the path; one that is no path names nothing.
        return False
    return path in _ON_BY_DEFAULT if value is None else bool(value)


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = json5(value)
    return value if isinstance(value, dict) else {}
