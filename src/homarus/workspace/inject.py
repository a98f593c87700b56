"""From workspace files to what a prompt shows of them: ordered, stripped, made inert, and within the limits. Pure.

The text of a `ContextFile` was made inert once, here, by `core.text.neutralize` or more. Whoever prints it puts it under the file's
path and between the lines of `core.text.fence`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec import Struct

from homarus.core.frontmatter import without_header
from homarus.core.patterns import late
from homarus.core.text import neutralize, printable, single_line
from homarus.workspace import names
from homarus.workspace.loader import WorkspaceFile
from homarus.workspace.settings import FileLimits
from homarus.workspace.truncate import truncate

# With less than this left of the total, no further file is begun.
MIN_REMAINING = 64
NEAR = 0.85
_TRAILING = late(r"[ \t]+(?=\n)")
_BLANKS = late(r"\n{3,}")
_TOOLS_HEADING = late(r"^##[ \t]+tools\b", re.IGNORECASE | re.MULTILINE)
_NOTHING = late(r"#{1,6}(?:[ \t].*)?|[-*+](?:[ \t]+\[[ xX]?\])?|\d+[.)]|(?:```|~~~).*")
_COMMENT = late(r"<!--.*?-->", re.DOTALL)

Inert = Callable[[str], str]


class ContextFile(Struct, frozen=True):
    """One file as the prompt shows it. `raw_chars` is what the file holds, `injected_chars` what is shown."""

    name: str
    path: str
    text: str
    raw_chars: int = 0
    injected_chars: int = 0
    truncated: bool = False
    missing: bool = False
    unreadable: bool = False


class BootstrapContext(Struct, frozen=True):
    """What a turn carries of its workspace. `dynamic` may change between turns and never enters the system message.

    `told` are files that ride on a user turn, once for as long as the history holds them and they stay the same.
    `truncated` says that the prompt must tell the model to read some files itself. `warnings` are for the log,
    `near_limit` for whoever looks at sizes.
    """

    files: tuple[ContextFile, ...] = ()
    told: tuple[ContextFile, ...] = ()
    dynamic: tuple[ContextFile, ...] = ()
    truncated: bool = False
    warnings: tuple[str, ...] = ()
    near_limit: tuple[str, ...] = ()
    omitted: int = 0
    ritual: str = "none"
    # False where the configuration says that a prompt never carries files.
    carried: bool = False

    @property
    def injected_chars(self) -> int:
        """Return what all files together take of their budget, headings not counted."""
        return sum(file.injected_chars for file in (*self.files, *self.told))


def build_context(files: Iterable[WorkspaceFile], *, limits: FileLimits, inert: Inert = neutralize) -> BootstrapContext:
    """Return what is shown of these files, in the prompt's order; who may see them was decided before.

    `inert` makes a text harmless: before the cut, because that adds characters, and the limits hold for what is shown.
    """
    given = _unique(files)
    retired = any(
        file.name == names.AGENTS and not file.last and has_tools_heading(file.content or "") for file in given
    )
    ordered = sorted(
        (file for file in given if not (retired and file.missing and file.name == names.TOOLS)),
        key=lambda file: (file.last, names.order_key(file.name, file.path)),
    )
    budget = _Budget(limits, inert)
    shown = [context for file in ordered if not _is_dynamic(file) and (context := budget.take(file)) is not None]
    # What rides on the user's turn has a budget of its own: a long MEMORY.md must not silence the heartbeat.
    extra = _Budget(limits, inert)
    dynamic = [context for file in ordered if _is_dynamic(file) and (context := extra.take(file)) is not None]
    return BootstrapContext(
        files=tuple(shown),
        dynamic=tuple(dynamic),
        truncated=budget.omitted > 0 or any(file.truncated for file in [*shown, *dynamic]),
        warnings=budget.warnings(),
        near_limit=tuple(budget.near) + budget.near_total(),
        omitted=budget.omitted,
    )


def has_tools_heading(text: str) -> bool:
    """Say whether AGENTS.md has a section for what stood in TOOLS.md: newer homes have no such file."""
    return _TOOLS_HEADING.search(text) is not None


def effectively_empty(text: str) -> bool:
    """Say whether a heartbeat list holds no task: only blank lines, headings, empty items, comments and fences."""
    lines = _COMMENT.sub("", without_header(text)).splitlines()
    return all(not line.strip() or _NOTHING.fullmatch(line.strip()) for line in lines)


def missing_marker(path: str) -> str:
    return f"[MISSING] Expected at: {single_line(path, 1000)}"


def unreadable_marker(reason: str) -> str:
    return f"[UNREADABLE: {single_line(reason, 300)}]"


def prompt_text(content: str, inert: Inert = neutralize) -> str:
    """Return a file's text as a prompt shows it before any cut: no front matter, plain line ends, inert."""
    # First the characters that nobody sees: taken out later, they would leave what they kept apart.
    text = without_header(printable(content)).rstrip()
    if " \n" in text or "\t\n" in text:
        text = _TRAILING.sub("", text)
    return inert(_BLANKS.sub("\n\n", text) if "\n\n\n" in text else text)


def _is_dynamic(file: WorkspaceFile) -> bool:
    return names.base_of(file.name) == names.HEARTBEAT.lower()


def _unique(files: Iterable[WorkspaceFile]) -> list[WorkspaceFile]:
    """Keep the first of several names for one file; what is missing is told apart by its path."""
    seen: dict[str, WorkspaceFile] = {}
    for file in files:
        seen.setdefault(file.path if file.missing else file.realpath, file)
    return list(seen.values())


class _Budget:
    """What is left of the total while the files are taken in the prompt's order."""

    def __init__(self, limits: FileLimits, inert: Inert) -> None:
        self._limits = limits
        self._inert = inert
        self.remaining = limits.total
        self.omitted = 0
        self.near: list[str] = []

    def take(self, file: WorkspaceFile) -> ContextFile | None:
        """Return what is shown of a file, or None: nothing to show, or no room."""
        if file.missing and file.name not in names.EXPECTED:
            return None
        if file.missing or file.unreadable:
            return self._marker(file)
        if _is_dynamic(file) and effectively_empty(file.content or ""):
            return None
        text = prompt_text(file.content or "", self._inert)
        if not text.strip():
            return None
        if self.remaining < MIN_REMAINING:
            self.omitted += 1
            return None
        limit = self._limit(file, text)
        digest = self._limits.digest and names.base_of(file.name) == names.AGENTS.lower()
        cut = truncate(text, min(limit, self.remaining), file.name, digest=digest, beyond=file.beyond)
        # A file that was cut to what was left of the total is the last one; no crumbs of others follow it.
        self.remaining -= self.remaining if cut.truncated and limit > self.remaining else len(cut.text)
        return ContextFile(file.name, file.path, cut.text, file.raw_chars, len(cut.text), truncated=cut.truncated)

    def _marker(self, file: WorkspaceFile) -> ContextFile | None:
        text = missing_marker(file.path) if file.missing else unreadable_marker(file.unreadable)
        if self.remaining < MIN_REMAINING:
            self.omitted += 1
            return None
        text = text[: self.remaining]
        self.remaining -= len(text)
        return ContextFile(
            file.name, file.path, text, injected_chars=len(text), missing=file.missing, unreadable=not file.missing
        )

    def _limit(self, file: WorkspaceFile, text: str) -> int:
        limit = self._limits.file
        if names.base_of(file.name) == names.USER.lower() and self._limits.user_file is not None:
            limit = min(limit, self._limits.user_file)
        if len(text) >= NEAR * limit:
            self.near.append(f"{single_line(file.name)}: {len(text):,} of {limit:,} characters")
        return limit

    def near_total(self) -> tuple[str, ...]:
        used = self._limits.total - self.remaining
        return (
            (f"all files: {used:,} of {self._limits.total:,} characters",) if used >= NEAR * self._limits.total else ()
        )

    def warnings(self) -> tuple[str, ...]:
        if not self.omitted:
            return ()
        return (
            f"{self.omitted} workspace file(s) left out: the total of {self._limits.total:,} characters is used up",
        )
