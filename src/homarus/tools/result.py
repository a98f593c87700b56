"""Bound what a tool returns, when it is written: head and tail stay, the whole goes to a file that the model can read."""

from __future__ import annotations

from pathlib import Path

from homarus.core.errors import StorageError
from homarus.core.messages import Image, Part, Text
from homarus.core.text import human_bytes
from homarus.storage.atomic import create_new, ensure_dir

MAX_IMAGES = 8
MAX_DETAIL_BYTES = 32_000
MIN_SECRET, HIDDEN = 6, "[hidden]"


def limit_for(window_tokens: int) -> int:
    """Return how many characters one result may have in a window: more room, longer results, never 30 % of it."""
    steps = 16_000 if window_tokens < 100_000 else 32_000 if window_tokens < 200_000 else 64_000
    return max(1_000, min(steps, int(window_tokens * 0.3) * 4))


def conceal(parts: tuple[Part, ...], secrets: tuple[str, ...]) -> tuple[Part, ...]:
    """Return the parts without the secrets that a command was given and printed; short ones are too common to be found."""
    # The longest first: one secret may be the beginning of another.
    for secret in sorted((each for each in secrets if len(each) >= MIN_SECRET), key=len, reverse=True):
        parts = tuple(
            Text(part.text.replace(secret, HIDDEN)) if isinstance(part, Text) and secret in part.text else part
            for part in parts
        )
    return parts


def bound(parts: tuple[Part, ...], limit: int, overflow: Path) -> tuple[tuple[Part, ...], bool]:
    """Return the parts within `limit` characters, and whether something was cut. The file is made only then."""
    total = sum(len(part.text) for part in parts if isinstance(part, Text))
    images = [part for part in parts if isinstance(part, Image)][:MAX_IMAGES]
    if total <= limit and len(images) == sum(isinstance(part, Image) for part in parts):
        return parts, False
    text = "".join(part.text for part in parts if isinstance(part, Text))
    if total <= limit:
        return (Text(text), *images), True
    return (Text(cut(text, limit, _keep(text, overflow))), *images), True


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


def _keep(text: str, path: Path) -> str:
    try:
        ensure_dir(path.parent)
        create_new(path, text.encode("utf-8", "replace"))
    except StorageError:
        return "the rest could not be kept"
    return (
        f"the whole ({human_bytes(len(text.encode('utf-8', 'replace')))}) is in {path}: read it with offset and limit"
    )
