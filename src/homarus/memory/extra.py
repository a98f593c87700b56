"""Extra paths of the settings: where each lies, which of its files count, and what may be read through it. Rules only."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from msgspec import Struct

from homarus.memory.settings import ExtraPath

_WILD = re.compile(r"[*?\[]")


class Extra(Struct, frozen=True):
    """One extra path: a file or folder `name` below `root`. From `root` on no link is followed, so what the owner named
    cannot be swapped for something else; one inside the workspace is held by the workspace itself."""

    given: str
    root: Path
    name: str  # empty for the workspace itself
    inside: bool
    pattern: re.Pattern[str] | None = None
    by_name: bool = False  # a pattern without a folder looks at the last name alone

    @property
    def place(self) -> Path:
        """Return the absolute path."""
        return self.root / self.name

    def cited(self, below: str) -> str:
        """Return how a file is cited, by its path below `root`."""
        return below if self.inside else f"{self.root.as_posix().rstrip('/')}/{below}"

    def matches(self, inner: str) -> bool:
        """Say whether a file counts, by its path below the extra path."""
        return self.pattern is None or bool(
            self.pattern.fullmatch(PurePosixPath(inner).name if self.by_name else inner)
        )

    def is_linked(self) -> bool:
        """Say whether a link lies on the way from `root`."""
        at = os.fspath(self.root)
        for part in PurePosixPath(self.name).parts:
            at = f"{at}/{part}"
            if os.path.islink(at):  # noqa: PTH114 - no Path object per component of every sweep
                return True
        return False

    def locate(self, absolute: Path) -> tuple[Path, str] | None:
        """Return (root, name) for an absolute path that this extra path covers. Hidden names below it never count."""
        place = self.place
        if absolute == place:
            return (self.root, self.name) if self.name and self.matches(place.name) else None
        if not absolute.is_relative_to(place):
            return None
        inner = absolute.relative_to(place)
        if any(part.startswith(".") for part in inner.parts) or not self.matches(inner.as_posix()):
            return None
        return self.root, (PurePosixPath(self.name) / inner.as_posix()).as_posix()


def resolve(item: str | ExtraPath, workspace: Path, home: Path | None) -> Extra | None:
    """Return where an entry of `extraPaths` lies; `~` is the given home. None for one that names nothing."""
    entry = item if isinstance(item, ExtraPath) else ExtraPath(item)
    text, wild = _split(entry.path.strip())
    if not text or "\0" in text:
        return None
    glob = entry.pattern or wild
    if text == "~" or text.startswith("~/"):
        text = os.fspath((home or Path.home()) / text[2:])
    place = Path(os.path.normpath(workspace / text))
    inside = place.is_relative_to(workspace)
    root = workspace if inside else place.parent
    name = place.relative_to(root).as_posix()
    return Extra(entry.path, root, "" if name == "." else name, inside, _compiled(glob), "/" not in glob)


def _split(path: str) -> tuple[str, str]:
    """Split a path with wildcards into the folder before the first of them and the pattern below it."""
    parts = path.split("/")
    at = next((at for at, part in enumerate(parts) if _WILD.search(part)), len(parts))
    if at == len(parts):
        return path, ""
    # A pattern of its own level only: `docs/*.md` does not reach below docs.
    rest = "/".join(parts[at:])
    return "/".join(parts[:at]) or ("/" if path.startswith("/") else "."), rest if "/" in rest else f"./{rest}"


def _compiled(glob: str) -> re.Pattern[str] | None:
    """Return a glob as an expression: `*` and `?` stay within a name, `**` crosses folders."""
    glob = glob.removeprefix("./")
    if not glob:
        return None
    out, at = "", 0
    while at < len(glob):
        if glob.startswith("**/", at):
            out, at = out + "(?:.*/)?", at + 3
        elif glob.startswith("**", at):
            out, at = out + ".*", at + 2
        elif glob[at] == "*":
            out, at = out + "[^/]*", at + 1
        elif glob[at] == "?":
            out, at = out + "[^/]", at + 1
        elif glob[at] == "[" and (end := glob.find("]", at + 2)) > 0:
            inner = glob[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out, at = out + f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]", end + 1
        else:
            out, at = out + re.escape(glob[at]), at + 1
    try:
        return re.compile(out, re.DOTALL)
    except re.error:
        return re.compile(re.escape(glob))
