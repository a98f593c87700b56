"""From what a model writes as a path to a place it may touch. Every file tool goes through here, and nothing else opens files.

With a sandbox, file tools see what commands see: the workspace, the mounts, and a few folders to read from. Without one,
absolute paths go anywhere unless `tools.fs.workspaceOnly` is set. A place is a root that is held by descriptor and a name
below it, so a link that is swapped between a check and its use leads nowhere.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from homarus.core.errors import Denied, ToolError
from homarus.core.messages import Trust
from homarus.core.patterns import late
from homarus.sandbox.claims import Claim, Claims
from homarus.sandbox.spec import Access
from homarus.storage.beneath import path_of
from homarus.storage.boundary import BoundaryError, Root
from homarus.tools.protected import is_unseen, roots_of
from homarus.tools.tool import ToolContext

_SPACES = {"\u00a0", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009"}
_SPACES |= {"\u200a", "\u202f", "\u205f", "\u3000"}

# Below the state folder.
CLOSED = ("openclaw.json*", ".env*", "credentials", "identity", "devices", "secrets*", "agents/*/agent", "homarus")
_KEYS_OF_PROCESSES = late(r"/proc/[^/]+/(?:task/[^/]+/)?(?:environ|mem|auxv)")


class FsSettings(Struct, frozen=True, rename="camel"):
    workspace_only: bool = False

    @classmethod
    def disabled(cls) -> FsSettings:
        """A block that cannot be read must not open anything."""
        return cls(workspace_only=True)


class Reach(Struct, frozen=True, dict=True):
    """Folders beside the workspace that may be read by everyone: documentation, skills, results that were cut."""

    readable: tuple[Path, ...] = ()
    workspace_only: bool = False
    # Further ones whose links may lead anywhere, because only the owner puts links there.
    linked: tuple[Path, ...] = ()
    # The folder of our own state. What in it holds keys and rules is for no file tool.
    state: Path | None = None

    @cached_property
    def beyond(self) -> tuple[str, ...]:
        """Return how every path begins that lies in one of the linked folders."""
        return tuple([f"{str(folder).rstrip('/')}/" for folder in self.linked])

    @cached_property
    def own(self) -> str:
        return str(self.state or "")


class Spot(Struct, frozen=True):
    root: Path
    name: str
    writable: bool
    # The folder of our own state, where others say what must not change now: see `sandbox/claims`.
    state: Path | None = None

    @property
    def path(self) -> Path:
        return self.root / self.name


def clean(text: str, home: str = "") -> str:
    """Return a path as it was meant: without a leading `@`, with `~` expanded and exotic spaces made plain."""
    text = text.strip()
    if not text.isascii():
        text = "".join(" " if char in _SPACES else char for char in text)
    text = text.removeprefix("@")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ToolError("the path holds half a character (a lone surrogate)", cure="send plain text") from None
    if not text or "\x00" in text:
        raise ToolError("the path is empty or holds a NUL byte", cure="give a path such as notes/today.md")
    if home and (text == "~" or text.startswith("~/")):
        text = home + text[1:]
    return text


def where(arguments: Mapping[str, Any]) -> str:
    """Return the place that a search or a list is about: the working folder where the call names none."""
    return str(arguments.get("path") or ".")


@lru_cache(maxsize=64)
def absolute(text: str, cwd: str, home: str) -> str:
    """Return a path as it was meant, from `/` on. Pure, and kept for a while: the gate asks it and then the tool does."""
    path = os.path.normpath(os.path.join(cwd, clean(text, home)))  # noqa: PTH118 - this runs for every call
    # Two leading slashes mean the same as one everywhere but in a comparison.
    return "/" + path.lstrip("/")


def locate(context: ToolContext, text: str, reach: Reach, *, write: bool = False) -> Spot:
    """Return where a path lies for this turn, or raise: `Denied` when it is out of reach."""
    if context.sandbox.refused:
        raise Denied(context.sandbox.refused)
    wanted = absolute(text, str(context.cwd), context.env.get("HOME", ""))
    if not write and f"{wanted}/".startswith(reach.beyond):
        real = Path(os.path.realpath(wanted))
        return Spot(real.parent, real.name or ".", False)
    for root, writable in _roots(context, reach):
        place = str(root)
        name = _below(wanted, place)
        if name:
            if write and not writable:
                raise Denied(f"{wanted} can only be read", cure=f"write below {context.workspace}")
            if not context.sandbox.enforced:
                _check_open(wanted, place, reach.own)
            return Spot(root, name, writable, reach.state)
    raise Denied(
        f"{wanted} is outside of what this session may {'change' if write else 'read'}",
        cure=f"use a path below {context.workspace}",
    )


def _roots(context: ToolContext, reach: Reach) -> Iterator[tuple[Path, bool]]:
    """Yield the roots from the narrowest to the widest, each with whether it may be written."""
    spec = context.sandbox
    free = not spec.enforced
    writable = free or spec.access is Access.RW
    if free or spec.access is not Access.NONE:
        yield context.workspace, writable
        real = context.workspace.resolve()
        if real != context.workspace:
            yield real, writable
    for mount in spec.mounts:
        yield Path(mount.path), mount.writable
    for folder in (*reach.readable, context.overflow_dir):
        yield folder, False
    # Without a sandbox the whole machine lies open, but only to its owner.
    if free and not reach.workspace_only and context.trust is Trust.OWNER:
        yield Path("/"), True


def _check_open(path: str, root: str, state: str) -> None:
    """Refuse what holds the keys of this program, or the rules by which it is held; a sandbox shows none of it anyway."""
    if root != "/" and not (state and _below(state, root)):
        return
    for place in {path, os.path.realpath(path)}:
        inner = _below(place, state) if state else ""
        if _KEYS_OF_PROCESSES.fullmatch(place) or (inner and closed(inner)):
            cure = "use the gateway tool for the configuration; keys are the owner's business"
            raise Denied(f"{path} holds keys or rules of this program", cure=cure)


def closed(name: str) -> bool:
    """Say whether a name below our state is closed to file tools: the configuration, keys, and what was approved."""
    parts = [part.casefold() for part in name.split("/")]
    return any(_fits(parts, wanted) for wanted in CLOSED) and parts[:2] != ["homarus", "overflow"]


def closed_below(folder: str, state: str) -> tuple[str, ...]:
    """Return what is closed below a folder, as globs relative to it: for searches, which name nothing by itself."""
    folder, state = os.path.realpath(folder), os.path.realpath(state)
    if above := _below(state, folder):
        base = "" if above == "." else "".join(f"\\{char}" if char in "*?[]{}!\\" else char for char in above) + "/"
        return tuple([f"{base}{name}" for name in CLOSED])
    parts = [part.casefold() for part in _below(folder, state).split("/")]
    return tuple(
        "/".join(words[len(parts) :])
        for words in (name.split("/") for name in CLOSED)
        if parts != [""] and len(words) > len(parts) and all(map(fnmatchcase, parts, words))
    )


def _fits(parts: list[str], wanted: str) -> bool:
    words = wanted.split("/")
    return len(parts) >= len(words) and all(map(fnmatchcase, parts, words))


def _below(path: str, root: str) -> str:
    """Return the name of a path below a root, or nothing when it lies elsewhere. Both are plain: no dots, one slash each."""
    if path == root:
        return "."
    inside = root if root == "/" else f"{root}/"
    return path[len(inside) :] if path.startswith(inside) else ""


def opened(spot: Spot) -> Root:
    """Return the root of a spot, to be held by `with` while something is done below it."""
    try:
        return Root(spot.root)
    except OSError as problem:
        raise ToolError(f"cannot open {spot.root}: {problem}", cure="check the path") from None


def open_to_read(context: ToolContext, root: Root, spot: Spot) -> int:
    """Open a regular file for a turn to read. What was opened is judged, not its name: a link may lead to the owner's notes."""
    for name in names_of(spot.name):
        try:
            fd = root.open(name, os.O_RDONLY)
        except BoundaryError as problem:
            if problem.kind == "missing":
                continue
            raise ToolError(problem.message, cure="read needs a regular file; use ls for a folder") from None
        if is_unseen(path_of(fd) or str(spot.path), roots_of(str(context.workspace), context.sandbox), context.trust):
            os.close(fd)
            raise Denied("the owner's notes are not for others to read", cure="do without it")
        return fd
    raise ToolError(f"{spot.path} does not exist", cure="check the path with ls")


def put(root: Root, spot: Spot, data: bytes, mode: int = 0o644) -> list[str]:
    """Write a file and make its folders; returns those that were made. What fails leaves nothing behind.

    No link is written through: what the gate judged by its name is what changes.
    """
    parent = os.path.dirname(spot.name)
    made: list[str] = []
    held = _claim(root, spot)
    try:
        if parent:
            made = root.make_dirs(parent, mode=0o755)
        root.write(spot.name, data, mode=mode)
    except BoundaryError as problem:
        root.remove_dirs(made)
        raise ToolError(problem.message, cure=problem.cure or "check the path") from None
    finally:
        held.release()
    return made


def remove(root: Root, spot: Spot) -> None:
    held = _claim(root, spot)
    try:
        root.remove(spot.name)
    finally:
        held.release()


def _claim(root: Root, spot: Spot) -> Claim:
    return Claims.of(spot.state).take("shared", [f"{root.realpath.rstrip('/')}/{spot.name}"], f"writing {spot.name}")


def spelled(name: str) -> str:
    """Return a name as it is shown in a list of names: one with a line break in it must not look like two."""
    name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return name if name.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


def names_of(name: str) -> Iterator[str]:
    """Yield a name, and then others under which the file may be stored: as a Mac writes screenshots, and in decomposed form."""
    yield name
    found = [
        name.replace(" AM.", "\u202fAM.").replace(" PM.", "\u202fPM."),
        unicodedata.normalize("NFD", name),
        unicodedata.normalize("NFC", name),
        name.replace("'", "\u2019"),
    ]
    yield from [other for other in dict.fromkeys(found) if other != name]
