"""Add workspace files that match the owner's patterns to the bootstrap files. What a session may see is decided later."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from homarus.hooks.events import HookEvent
from homarus.hooks.manifest import words

NAMES = frozenset(
    {
        "AGENTS.md",
        "SOUL.md",
        "IDENTITY.md",
        "USER.md",
        "TOOLS.md",
        "HEARTBEAT.md",
        "BOOTSTRAP.md",
        "MEMORY.md",
        "memory.md",
    }
)
MAX_FILES = 40
_MAX_FOLDERS = 5_000
_SKIPPED = frozenset({"node_modules", "__pycache__"})

log = logging.getLogger("homarus.hooks.bootstrap-extra-files")


def handle(event: HookEvent) -> None:
    """Expect `workspaceDir` and `bootstrapFiles` in the context and `paths`, `patterns` or `files` in the options.

    The files are offered without their text: the workspace's own reader has it in its cache, and guards the reading.
    """
    options = event.options
    patterns = words(options.get("paths")) or words(options.get("patterns")) or words(options.get("files"))
    workspace = Path(event.context["workspaceDir"])
    files = event.context["bootstrapFiles"]
    known = {str(item.get("path")) for item in files if isinstance(item, dict)}
    names = [name for name in _matching(workspace, patterns) if str(workspace / name) not in known]
    if len(names) > MAX_FILES:
        log.warning("%d files match; only the first %d are added", len(names), MAX_FILES)
    for name in names[:MAX_FILES]:
        files.append({"name": Path(name).name, "path": str(workspace / name), "missing": False})


def _matching(workspace: Path, patterns: tuple[str, ...]) -> list[str]:
    """Return the names below the workspace that match, sorted; a pattern for other names or places matches nothing."""
    search = Search(workspace)
    found: set[str] = set()
    for pattern in patterns:
        parts = [part for part in pattern.replace("\\", "/").split("/") if part != "."]
        if not parts[0] or ".." in parts:
            log.warning("the pattern %r leads out of the workspace", pattern)
        else:
            found.update(search.expand("", tuple(parts)))
    return sorted(found)


class Search:
    """Follows patterns part by part: only folders that can hold a match are opened, and no more than a fixed number."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.opened: dict[str, tuple[list[str], list[str]]] = {}

    def expand(self, folder: str, parts: tuple[str, ...]) -> Iterator[str]:
        """Yield what matches below a folder, whose name ends with a slash unless it is the workspace itself."""
        part, rest = parts[0], parts[1:]
        folders, names = self._listed(folder)
        if not rest:
            wanted = "*" if part == "**" else part
            yield from (f"{folder}{name}" for name in names if _compiled(wanted).fullmatch(name))
            if part != "**":
                return
        elif part == "**":
            yield from self.expand(folder, rest)
        for name in folders:
            if part == "**":
                yield from self.expand(f"{folder}{name}/", parts)
            elif _compiled(part).fullmatch(name):
                yield from self.expand(f"{folder}{name}/", rest)

    def _listed(self, folder: str) -> tuple[list[str], list[str]]:
        """Return the folders and the standard files in a folder; links to folders are not followed."""
        if folder in self.opened:
            return self.opened[folder]
        if len(self.opened) == _MAX_FOLDERS:
            log.warning("only the first %d folders of %s are searched", _MAX_FOLDERS, self._workspace)
        folders: list[str] = []
        names: list[str] = []
        if len(self.opened) < _MAX_FOLDERS:
            try:
                with os.scandir(self._workspace / folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.name)
                        elif entry.name in NAMES:
                            names.append(entry.name)
            except OSError:
                pass
        folders = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        self.opened[folder] = folders, names
        return self.opened[folder]


@cache
def _compiled(part: str) -> re.Pattern[str]:
    """Return one part of a pattern as an expression: `*` is anything, `?` one character, all else is itself."""
    # Repeated stars mean nothing more, and would make the expression slow.
    pieces = re.split(r"(\*+|\?)", part)
    return re.compile("".join(".*" if "*" in each else "." if each == "?" else re.escape(each) for each in pieces))
