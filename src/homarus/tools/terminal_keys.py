"""Names of keys as the bytes that a terminal sends for them."""

from __future__ import annotations

from collections.abc import Sequence

from homarus.core.errors import ToolError

_KEYS = {
    "enter": b"\r",
    "return": b"\r",
    "tab": b"\t",
    "escape": b"\x1b",
    "esc": b"\x1b",
    "space": b" ",
    "backspace": b"\x7f",
    "bspace": b"\x7f",
    "delete": b"\x1b[3~",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    **{f"f{number}": f"\x1bO{'PQRS'[number - 1]}".encode() for number in range(1, 5)},
}


def encode_keys(keys: Sequence[str]) -> bytes:
    """Return what a terminal sends for keys such as Enter, Up, C-c, M-x, or any single character."""
    return b"".join(map(_key, keys))


def _key(name: str) -> bytes:
    lower = name.lower()
    if lower in _KEYS:
        return _KEYS[lower]
    if len(name) == 3 and lower.startswith(("c-", "^-")) and (lower[2].isalpha() or lower[2] in "[\\]^_@"):
        return bytes([ord(name[2].upper()) & 0x1F])
    if lower.startswith("m-") and len(name) > 2:
        return b"\x1b" + _key(name[2:])
    if len(name) == 1:
        return name.encode("utf-8", "replace")
    raise ToolError(f"'{name[:40]}' is no key", cure="use names such as Enter, Up, C-c or M-x; send text with write")


def paste(text: str) -> bytes:
    """Return a text as a terminal marks what was pasted; the text cannot end the mark itself."""
    return b"\x1b[200~" + text.replace("\x1b", "").encode("utf-8", "replace") + b"\x1b[201~"
