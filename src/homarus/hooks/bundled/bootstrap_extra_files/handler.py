"""Add workspace files that match the owner's patterns to the bootstrap files. What a session may see is decided later."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

from homarus.hooks.events import HookEvent
from homarus.hooks.manifest import words
from homarus.storage.boundary import Root

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
_MAX_BYTES = 2_097_152
_MAX_FOLDERS = 5_000
_SKIPPED = frozenset({"node_modules", "__pycache__"})

log = logging.getLogger("homarus.hooks.bootstrap-extra-files")


def handle(event: HookEvent) -> None:
    """Expect `workspaceDir` and `bootstrapFiles` in the context and `paths`, `patterns` or `files` in the options."""
    options = event.options
    patterns = words(options.get("paths")) or words(options.get("patterns")) or words(options.get("files"))
    workspace = Path(event.context["workspaceDir"])
    files = event.context["bootstrapFiles"]
    known = {str(item.get("path")) for item in files if isinstance(item, dict)}
    with Root(workspace) as root:
        names = [name for name in _matching(workspace, patterns) if str(workspace / name) not in known]
        if len(names) > MAX_FILES:
            log.warning("%d files match; only the first %d are added", len(names), MAX_FILES)
        for name in names[:MAX_FILES]:
            found = root.read(name, max_bytes=_MAX_BYTES)
            if found.kind == "ok":
                text = found.data.decode("utf-8", "replace").removeprefix("\ufeff")
                files.append(
                    {"name": Path(name).name, "path": str(workspace / name), "content": text, "missing": False}
                )
            else:
                log.warning("%s is not added: %s", workspace / name, found.reason or "missing")


def _matching(workspace: Path, patterns: tuple[str, ...]) -> list[str]:
    """Return the names below the workspace that match, sorted; a pattern for other names or places matches nothing."""
    wanted = []
    for pattern in patterns:
        clean = pattern.replace("\\", "/").removeprefix("./")
        if clean.startswith("/") or ".." in clean.split("/"):
            log.warning("the pattern %r leads out of the workspace", pattern)
        else:
            wanted.append(_compile(clean))
    if not wanted:
        return []
    return sorted(name for name in _walk(workspace) if any(each.fullmatch(name) for each in wanted))


def _walk(workspace: Path) -> Iterator[str]:
    """Yield the standard files' names, relative, without following links to folders; bounded, whatever lies there."""
    for count, (folder, folders, files) in enumerate(os.walk(workspace)):
        if count >= _MAX_FOLDERS:
            log.warning("only the first %d folders of %s are searched", _MAX_FOLDERS, workspace)
            return
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        prefix = os.path.relpath(folder, workspace).replace(os.sep, "/")
        for name in NAMES.intersection(files):
            yield name if prefix == "." else f"{prefix}/{name}"


def _compile(pattern: str) -> re.Pattern[str]:
    """Return a glob as an expression: `*` and `?` stay within a name, `**/` is any number of folders."""
    # Repeated stars mean nothing more, and would make the expression slow.
    once = re.sub(r"\*{2,}", "**", re.sub(r"(?:\*\*/)+", "**/", pattern))
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", once)
    meanings = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meanings.get(piece, re.escape(piece)) for piece in pieces))
