"""Bound what a tool returns, when it is written: head and tail stay, the whole goes to a file that the model can read."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from homarus.core.errors import StorageError
from homarus.core.messages import Image, Part, Text, ToolResult
from homarus.core.text import human_bytes
from homarus.storage.atomic import create_new, ensure_dir

MAX_IMAGES = 8
# In the details of a result that was cut: the file with all of it.
WHOLE = "fullOutputPath"
MIN_CHARS = 1_000
MAX_COPIES = 1_000
MAX_DETAIL_BYTES = 32_000
MIN_SECRET, HIDDEN = 6, "[hidden]"


class StepRoom:
    """How much the results of one step may hold together: several middling ones fill a window as one huge one does.

    What a result may take depends on the results before it and on how many follow, so it is the same on every run.
    """

    def __init__(self, window_tokens: int, calls: int) -> None:
        self._room = max(calls * MIN_CHARS, window_tokens)  # a quarter of the window, in characters
        self._calls = calls

    def fit(self, result: ToolResult, folder: Path) -> ToolResult:
        """Return the next result within its share: at most twice an even one, and something is left for all that follow."""
        left, self._calls = max(1, self._calls), self._calls - 1
        length = _length(result.parts)
        if length <= MIN_CHARS and len(result.parts) <= MAX_IMAGES:
            self._room -= length
            return result  # no share is less than that
        share = max(MIN_CHARS, min(2 * self._room // left, self._room - (left - 1) * MIN_CHARS))
        parts, whole = bound(result.parts, share, folder, result.call_id, _kept_in(result))
        self._room -= _length(parts)
        if parts is result.parts:
            return result
        details = {**(result.details or {}), "truncated": True}
        return replace(result, parts=parts, details={**details, WHOLE: str(whole)} if whole else details)


def _kept_in(result: ToolResult) -> Path | None:
    """Return the file that holds the whole text of a result that was cut before."""
    name = (result.details or {}).get(WHOLE)
    return Path(name) if isinstance(name, str) and name else None


def file_name(call_id: str) -> str:
    """Return the name of the file for the whole text of a call's result."""
    safe = "".join(char if char.isalnum() or char in "-_" else "-" for char in call_id)[:80]
    return f"{safe or 'call'}.txt"


@lru_cache(maxsize=16)
def limit_for(window_tokens: int) -> int:
    """Return how many characters one result may have in a window: more room, longer results, never 30 % of it."""
    steps = 16_000 if window_tokens < 100_000 else 32_000 if window_tokens < 200_000 else 64_000
    return max(1_000, min(steps, int(window_tokens * 0.3) * 4))


def conceal(parts: tuple[Part, ...], secrets: tuple[str, ...]) -> tuple[Part, ...]:
    """Return the parts without the secrets that a command was given and printed; short ones are too common to be found."""
    if not secrets:
        return parts
    # The longest first: one secret may be the beginning of another.
    for secret in sorted((each for each in secrets if len(each) >= MIN_SECRET), key=len, reverse=True):
        parts = tuple(
            Text(part.text.replace(secret, HIDDEN)) if isinstance(part, Text) and secret in part.text else part
            for part in parts
        )
    return parts


def bound(
    parts: tuple[Part, ...], limit: int, folder: Path, call_id: str, whole: Path | None = None
) -> tuple[tuple[Part, ...], Path | None]:
    """Return the parts within `limit` characters (the same ones if they are), and the file with all of a cut text.

    That file is made only then, in `folder` and named after the call, unless an earlier cut made it: `whole`.
    """
    total = _length(parts)
    images = [part for part in parts if type(part) is Image] if len(parts) > 1 else []
    if total <= limit and len(images) <= MAX_IMAGES:
        return parts, None
    images = images[:MAX_IMAGES]
    text = "".join(part.text for part in parts if isinstance(part, Text))
    if total <= limit:
        return (Text(text), *images), None
    path = whole or _keep(text, folder / file_name(call_id))
    return (Text(cut(text, limit, _note(path))), *images), path


def _length(parts: tuple[Part, ...]) -> int:
    length = 0
    for part in parts:
        if type(part) is Text:
            length += len(part.text)
    return length


def cut(text: str, limit: int, note: str) -> str:
    """Return head and tail of a text with a notice between them, at most `limit` characters in all."""
    notice = f"\n\n[… {len(text):,} characters, cut here; {note} …]\n\n"
    room = max(0, limit - len(notice))
    tail = room // 4
    head = room - tail
    start = text[:head]
    # A whole line reads better than half of one, when that costs little.
    edge = start.rfind("\n")
    if edge > head * 0.8:
        start = start[:edge]
    end = text[len(text) - tail :] if tail else ""
    edge = end.find("\n")
    if 0 <= edge < tail * 0.2:
        end = end[edge + 1 :]
    return (start + notice + end)[:limit] if limit >= len(notice) else text[:limit]


def _note(path: Path | None) -> str:
    try:
        size = human_bytes(path.stat().st_size) if path else ""
    except OSError:
        size = ""
    return f"the whole ({size}) is in {path}: read it with offset and limit" if size else "the rest could not be kept"


def _keep(text: str, path: Path) -> Path | None:
    """Put a text into a file of its own. Some providers count their ids anew each turn, so a name may be taken."""
    data = text.encode("utf-8", "replace")
    try:
        ensure_dir(path.parent)
        for copy in range(1, MAX_COPIES):
            target = path if copy == 1 else path.with_name(f"{path.stem}-{copy}{path.suffix}")
            if create_new(target, data) or target.read_bytes() == data:
                return target
    except (StorageError, OSError):
        pass
    return None
