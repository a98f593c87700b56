"""Names in a workspace that matter for safety: what shapes the agent, what only its owner reads, what is run outside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePath

from homarus.core.messages import Trust
from homarus.core.origin import mark_new_lines
from homarus.sandbox.spec import SandboxSpec
from homarus.tools.tool import ToolContext

# As they are spelled on a disk, for a sandbox that shows them read-only: what the next prompt is made of, what runs by itself.
LOCKED = tuple(
    f"{name}.md" for name in ["SOUL", "AGENTS", "IDENTITY", "USER", "MEMORY", "HEARTBEAT", "TOOLS", "BOOTSTRAP", "BOOT"]
)
LOCKED_FOLDERS = ("hooks", "skills", ".git", ".agents", ".openclaw", "plugins")
NOTES = ("memory", "bank")
# Compared without regard to case: some disks do not know it.
_FILES, _FOLDERS = frozenset(map(str.casefold, LOCKED)), frozenset(LOCKED_FOLDERS)
_PRIVATE_FILES, _PRIVATE_FOLDERS = frozenset({"memory.md", "user.md"}), frozenset(NOTES)
# What makes a hook of ours in the folder of that name.
_HOOKS, _HOOK_FILES = "hooks", frozenset({"hook.md", "handler.py"})


Roots = tuple[str, ...]


def roots_of(workspace: str, sandbox: SandboxSpec) -> Roots:
    """Return the folders in which these names count: the workspace, and all else that a turn sees."""
    return (workspace, *(mount.path for mount in sandbox.mounts))


def is_protected(path: str, roots: Roots) -> bool:
    """Say whether a path shapes the agent: one of its files at any depth, or anything in its folders."""
    return _matches(path, roots, _FILES, _FOLDERS)


def is_private(path: str, roots: Roots) -> bool:
    return _matches(path, roots, _PRIVATE_FILES, _PRIVATE_FOLDERS)


def is_unseen(path: str, roots: Roots, trust: Trust) -> bool:
    """Say whether a path must not be shown to a sender, neither read nor found: the one rule for the gate, for what was
    opened, and for every result of a search.
    """
    return trust in {Trust.GROUP, Trust.EXTERNAL} and is_private(path, roots)


def with_origin(context: ToolContext, path: str, before: bytes, after: bytes) -> bytes:
    """Return what a turn writes into a note: after words of strangers were read, its new lines say so to whoever reads them."""
    noted = path.casefold().endswith(".md") and is_private(path, roots_of(str(context.workspace), context.sandbox))
    if not (context.taint and noted):
        return after
    old, new = (data.decode("utf-8", "surrogateescape") for data in (before, after))
    return mark_new_lines(old, new, context.taint.sources).encode("utf-8", "surrogateescape")


def is_run(path: str, roots: Roots) -> bool:
    """Say whether a path holds what is run outside of every sandbox: by git, or by us as a hook."""
    return any(
        ".git" in parts or (parts[0] == _HOOKS and parts[-1] in _HOOK_FILES) for parts in _places(path, roots) if parts
    )


def _matches(path: str, roots: Roots, files: frozenset[str], folders: frozenset[str]) -> bool:
    # Both words count at any depth: a nested AGENTS.md is read when work happens beside it.
    return any(
        parts[-1] in files or parts[0] in folders or any(part in folders for part in parts[:-1])
        for parts in _places(path, roots)
        if parts
    )


def _places(path: str, roots: Roots) -> Iterator[list[str]]:
    """Yield the parts of a path below these folders, by its name and by where it leads, without regard to case."""
    for place in {path, os.path.realpath(path)}:
        for root in {*roots, *map(os.path.realpath, roots)}:
            if PurePath(place).is_relative_to(root):
                yield [part.casefold() for part in PurePath(place).relative_to(root).parts]
