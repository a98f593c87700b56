"""Files that shape the agent, and files that only its owner reads. Which calls touch which files is told by the calls."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from homarus.core.errors import HomarusError
from homarus.tools.names import FILES, FOLDERS, HOOK_FILES, HOOKS, PRIVATE_FILES, PRIVATE_FOLDERS
from homarus.tools.patchtext import parse
from homarus.tools.paths import absolute
from homarus.tools.target import is_url
from homarus.tools.tool import ToolContext


def is_protected(path: str, workspace: str) -> bool:
    """Say whether a path shapes the agent: one of its files at the top of a workspace, or anything in its folders."""
    return _matches(path, workspace, FILES, FOLDERS)


def is_private(path: str, workspace: str) -> bool:
    """Say whether a path holds what only the owner reads."""
    return _matches(path, workspace, PRIVATE_FILES, PRIVATE_FOLDERS)


def is_run(path: str, workspace: str) -> bool:
    """Say whether a path holds what is run outside of every sandbox: by git, or by us as a hook."""
    return any(
        ".git" in parts or (parts[0] == HOOKS and parts[-1] in HOOK_FILES)
        for parts in _places(path, workspace)
        if parts
    )


def _matches(path: str, workspace: str, files: frozenset[str], folders: frozenset[str]) -> bool:
    # Both words count at any depth: a nested AGENTS.md is read when work happens beside it.
    return any(
        parts[-1] in files or parts[0] in folders or any(part in folders for part in parts[:-1])
        for parts in _places(path, workspace)
        if parts
    )


def _places(path: str, workspace: str) -> Iterator[list[str]]:
    """Yield the parts of a path below the workspace, by its name and by where it leads, without regard to case."""
    for place in {path, os.path.realpath(path)}:
        for root in {workspace, os.path.realpath(workspace)}:
            if PurePath(place).is_relative_to(root):
                yield [part.casefold() for part in PurePath(place).relative_to(root).parts]


def touched(tool: str, arguments: Mapping[str, Any], context: ToolContext) -> tuple[str, ...]:
    """Return the paths that a call names, made absolute. A path that makes no sense is left to the tool to refuse."""
    names: list[str] = []
    for word in ("path", "image", "media"):
        if isinstance(arguments.get(word), str) and not (word == "image" and is_url(arguments[word])):
            names.append(arguments[word])
    if tool in {"grep", "find", "ls"} and not names:
        names.append(".")
    if tool == "apply_patch":
        try:
            for operation in parse(arguments.get("input", "")):
                names += [name for name in (operation.path, operation.move_to) if name]
        except HomarusError:
            names = []
    found = []
    for name in names:
        try:
            found.append(absolute(name, str(context.cwd), context.env.get("HOME", "")))
        except HomarusError:
            continue
    return tuple(found)
