"""Find hooks: folders with a HOOK.md and a handler. Reads headers only; no handler runs, or is even read, from here."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from homarus.core.errors import StorageError
from homarus.core.frontmatter import parse, split
from homarus.core.text import single_line
from homarus.hooks.events import unheard
from homarus.hooks.manifest import Requires, manifest, requirements, text_of, words
from homarus.storage.boundary import Root

FILE = "HOOK.md"
HANDLER = "handler.py"
# What OpenClaw's own hooks are written in; shown, never run.
_FOREIGN = ("handler.ts", "handler.js", "handler.mjs", "handler.cjs", "index.ts", "index.js", "index.mjs")
_MAX_BYTES = 256_000
_MAX_PER_ROOT = 200
_BUNDLED = Path(__file__).parent / "bundled"


class Source(StrEnum):
    """Where a hook was found, from weakest to strongest; the workspace is outside of the ranking and only adds names."""

    BUNDLED = "bundled"
    PLUGIN = "plugin"
    EXTRA = "extra"
    MANAGED = "managed"
    WORKSPACE = "workspace"


class HookRoot(Struct, frozen=True):
    source: Source
    path: Path


class Hook(Struct, frozen=True):
    """One hook as its HOOK.md describes it. `handler` is empty when there is none that we can run; `problems` say why."""

    name: str
    key: str
    source: Source
    folder: Path
    description: str = ""
    events: tuple[str, ...] = ()
    requires: Requires = Requires()
    handler: str = ""
    function: str = "handle"
    homepage: str = ""
    emoji: str = ""
    timeout: float | None = None
    problems: tuple[str, ...] = ()


class HookSet(Struct, frozen=True):
    """All hooks by name, and what was wrong while looking."""

    hooks: tuple[Hook, ...] = ()
    problems: tuple[str, ...] = ()

    def get(self, name: str) -> Hook | None:
        return next((hook for hook in self.hooks if name in {hook.name, hook.key}), None)


def standard_roots(
    *,
    managed: Path | None = None,
    workspace: Path | None = None,
    extra: Iterable[Path] = (),
    plugins: Iterable[Path] = (),
) -> tuple[HookRoot, ...]:
    """Return the folders to look in, weakest first: bundled, plugins, extra, managed, and the workspace."""
    roots = [HookRoot(Source.BUNDLED, _BUNDLED)]
    roots += [HookRoot(Source.PLUGIN, path) for path in plugins]
    roots += [HookRoot(Source.EXTRA, path) for path in extra]
    if managed is not None:
        roots.append(HookRoot(Source.MANAGED, managed))
    if workspace is not None:
        roots.append(HookRoot(Source.WORKSPACE, workspace / "hooks"))
    return tuple(roots)


def find_hooks(roots: Iterable[HookRoot]) -> HookSet:
    """Return the hooks of all roots, a later root replacing an earlier one's hook of the same name."""
    found: dict[str, Hook] = {}
    problems: list[str] = []
    for root in roots:
        for hook in _in_root(root, problems):
            other = found.get(hook.name)
            if other is not None and other.folder.parent == root.path:
                problems.append(f"{hook.folder}: '{hook.name}' is already the name of {other.folder}")
            elif other is not None and root.source is Source.WORKSPACE:
                problems.append(f"{hook.folder}: a workspace hook cannot replace the {other.source} hook '{hook.name}'")
            else:
                found[hook.name] = hook
    return HookSet(tuple(found[name] for name in sorted(found)), tuple(problems))


def _in_root(root: HookRoot, problems: list[str]) -> list[Hook]:
    if not root.path.is_dir():
        return []
    hooks = []
    try:
        with Root(root.path) as folder:
            # A folder that was named by hand may be a hook itself.
            names = [".", *(name for name in folder.listdir() if not name.startswith((".", "__")))]
            if len(names) > _MAX_PER_ROOT:
                problems.append(f"{root.path}: only the first {_MAX_PER_ROOT} names are looked at")
            for name in names[:_MAX_PER_ROOT]:
                guarded = folder.read(f"{name}/{FILE}", max_bytes=_MAX_BYTES)
                if guarded.kind == "ok":
                    text = guarded.data.decode("utf-8", "replace")
                    hooks.append(_read(root, root.path / name, text, _files(folder, name)))
                elif guarded.kind != "missing":
                    problems.append(f"{root.path / name / FILE}: {guarded.reason}")
    except StorageError as problem:
        problems.append(single_line(str(problem)))
    return hooks


def _files(root: Root, name: str) -> frozenset[str]:
    return frozenset(file for file in (HANDLER, *_FOREIGN) if root.exists(f"{name}/{file}"))


def _read(root: HookRoot, folder: Path, text: str, files: frozenset[str]) -> Hook:
    header, _ = split(text)
    values, problem = parse(header or "")
    block = manifest(values)
    name = single_line(text_of(values.get("name")), 64) or folder.resolve().name
    events = words(block.get("events"))
    problems = [problem] if problem else []
    problems += [problem for event in events if (problem := unheard(single_line(event, 40)))]
    if not events:
        problems.append("it names no events")
    foreign = sorted(files - {HANDLER})
    if HANDLER not in files:
        problems.append(f"{foreign[0]} is JavaScript: not loadable here" if foreign else f"it has no {HANDLER}")
    function = text_of(block.get("export"))
    return Hook(
        name=name,
        key=text_of(block.get("hookKey")) or name,
        source=root.source,
        folder=folder,
        description=single_line(text_of(values.get("description")), 300),
        events=events,
        requires=requirements(block),
        handler=HANDLER if HANDLER in files else "",
        # JavaScript's usual export has no name in Python.
        function="handle" if function in {"", "default"} else function,
        homepage=single_line(text_of(values.get("homepage") or block.get("homepage"))),
        emoji=single_line(text_of(block.get("emoji")), 8),
        timeout=_seconds(block.get("timeout")),
        problems=tuple(problems),
    )


def _seconds(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return float(value) if usable else None
