"""The files that hooks add to a prompt, checked: usable ones are taken, private ones never leave their session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.text import single_line
from homarus.workspace import names
from homarus.workspace.audience import Audience
from homarus.workspace.loader import WorkspaceFile, WorkspaceLoader

MAX_ITEMS = 200
_MAX_CHARS = 2 * 1024 * 1024
# A shorter memory may stand in another file by chance.
_MIN_COPY = 40


class HookFiles(Struct, frozen=True):
    """Files for the context, and what must be said about those that were not taken."""

    files: tuple[WorkspaceFile, ...] = ()
    warnings: tuple[str, ...] = ()
    omitted: int = 0

    def without_private(self, audience: Audience, workspace: Path, loader: WorkspaceLoader) -> HookFiles:
        """Leave out long-term memory under any name, link or copy, where it may not be seen."""
        if audience.sees_memory:
            return self
        secret = _Memory(workspace, loader)
        hidden = [secret.is_in(file) for file in self.files]
        if not any(hidden):
            return self
        kept = tuple(file for file, hide in zip(self.files, hidden, strict=True) if not hide)
        dropped = [single_line(file.name) for file, hide in zip(self.files, hidden, strict=True) if hide]
        warnings = tuple(f"{name} is long-term memory and is not shown in this session" for name in dropped)
        return replace(self, files=kept, warnings=(*self.warnings, *warnings))


def files_from_hook(items: Any, known: Sequence[WorkspaceFile], workspace: Path, loader: WorkspaceLoader) -> HookFiles:
    """Turn a hook's list into files. An item without a usable path is skipped with a warning, never guessed."""
    if not isinstance(items, list):
        return HookFiles(tuple(known), ("a hook replaced bootstrapFiles by something that is no list; ignored",))
    before = {(file.name, file.path): file for file in known}
    files: list[WorkspaceFile] = []
    warnings: list[str] = []
    for item in items[:MAX_ITEMS]:
        made = _problem(item) or _file(item, before, workspace, loader)
        if isinstance(made, str):
            warnings.append(made)
        else:
            files.append(made)
    # One more file of a name that is still there, not one in its place: it stands behind the workspace's own.
    kept = {file.name for file in files if (file.name, file.path) in before}
    files = [
        replace(file, last=True) if file.name in kept and (file.name, file.path) not in before else file
        for file in files
    ]
    omitted = max(0, len(items) - MAX_ITEMS)
    if omitted:
        warnings.append(f"hooks offered {len(items):,} files; the first {MAX_ITEMS} are taken")
    return HookFiles(tuple(files), tuple(dict.fromkeys(warnings)), omitted)


def _problem(item: Any) -> str:
    if not isinstance(item, dict):
        return "a hook offered something that is no file; skipped"
    path = item.get("path")
    if not isinstance(path, str) or not path.strip() or "\x00" in path:
        hint = " (it has 'filePath'; the key is 'path')" if "filePath" in item else ""
        return f"a hook offered {single_line(str(item.get('name')), 100)!r} without a usable path; skipped{hint}"
    return ""


def _file(
    item: dict[str, Any], before: dict[tuple[str, str], WorkspaceFile], workspace: Path, loader: WorkspaceLoader
) -> WorkspaceFile | str:
    path = os.path.join(workspace, item["path"])  # noqa: PTH118 - an absolute path stays as it is
    name = item.get("name")
    name = single_line(name, 200) if isinstance(name, str) and name.strip() else os.path.basename(path)
    content = item.get("content")
    same = before.get((name, path))
    if same is not None and same.content == content and same.missing == bool(item.get("missing")):
        return same
    if isinstance(content, str):
        text = content[:_MAX_CHARS].replace("\x00", "\ufffd")
        beyond = len(content) - len(text)
        return WorkspaceFile(name, path, text, raw_chars=len(text.rstrip()), beyond=beyond)
    if item.get("missing"):
        return WorkspaceFile(name, path, missing=True)
    inside = os.path.relpath(path, workspace)
    if inside.startswith(".."):
        return f"a hook offered {single_line(path, 200)}, which lies outside the workspace, without its text; skipped"
    (read,) = loader.read(workspace, (inside,)) or (WorkspaceFile(name, path, missing=True),)
    return replace(read, name=name, path=path)


class _Memory:
    """The workspace's long-term memory as something to recognise: by name, by inode, by its text in another's."""

    def __init__(self, workspace: Path, loader: WorkspaceLoader) -> None:
        self._inodes = set()
        for name in (names.MEMORY, names.MEMORY_LOWER):
            found = _stat(f"{workspace}/{name}")
            if found is not None:
                self._inodes.add((found.st_dev, found.st_ino))
        files = loader.read(workspace, (names.MEMORY, names.MEMORY_LOWER)) if self._inodes else ()
        self._texts = [text for file in files if len(text := (file.content or "").strip()) >= _MIN_COPY]

    def is_in(self, file: WorkspaceFile) -> bool:
        """Say whether a file is that memory, whatever it is called."""
        if names.is_memory(file.name) or names.is_memory(file.path):
            return True
        if not self._inodes or file.missing:
            return False
        found = _stat(file.path)
        if found is not None and (found.st_dev, found.st_ino) in self._inodes:
            return True
        return any(text in (file.content or "") for text in self._texts)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - follows links: that is the point
    except (OSError, ValueError):
        return None
