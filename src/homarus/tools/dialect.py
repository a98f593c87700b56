"""Regular expressions in ripgrep's words. A pattern means what it means in Python, whichever program does the search.

The two dialects share most of their words, differ in a few (`{` alone, `\\/`, sets inside of sets) and each have some of
their own. Only what is certain to mean the same is given to ripgrep; the rest is searched by our own program. Pure.
"""

from __future__ import annotations

from homarus.core.patterns import late

_REPEAT = late(r"\{(\d*)(?:(,)(\d*))?\}")
_HEX = late(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}")
_GROUP = late(r"\?(?::|P<[A-Za-z_][A-Za-z0-9_]*>|[is]+\)|[is]+:)")
_POSIX = late(r"(?<=[\[^\w\s:\]-])\[:([a-z]+):\]")
_SETS = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9a-fA-F",
    "space": r"\s",
    "blank": r" \t",
    "word": r"\w",
    "punct": r"!-/:-@\[-`{-~",
}
# What a backslash makes special in both, and what Rust wants to have escaped.
_SAME, _META = frozenset("dDwWsSbBtfv"), frozenset("\\.+*?()|[]{}^$#&-~")


def for_ripgrep(pattern: str) -> str | None:
    """Return a pattern that finds in ripgrep what this one finds in Python, or None where none is known."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        piece, end = None, at + 1
        if char == "\\":
            piece, end = _escaped(pattern, at + 1, inside=False)
        elif char == "[":
            piece, end = _set(pattern, at)
        elif char == "(":
            group = _GROUP.match(pattern, at + 1)
            if group is not None or not pattern.startswith("?", at + 1):
                piece, end = (f"({group[0]}", group.end()) if group else ("(", at + 1)
        elif char == "{":
            piece, end = _repeat(pattern, at)
        elif char == "}":
            piece = "\\}"
        elif char in "*+?":
            # A second plus would hold on to what was taken in Python, and mean "again" in Rust.
            piece = None if pattern.startswith("+", at + 1) else char
        elif char not in "\r\n\0":
            piece = char
        if piece is None:
            return None
        out.append(piece)
        at = end
    return "".join(out)


def _escaped(pattern: str, at: int, *, inside: bool) -> tuple[str | None, int]:
    char = pattern[at : at + 1]
    if char in _SAME and not (inside and char in "bB"):
        return f"\\{char}", at + 1
    if char and char in "AZ" and not inside:
        return ("^" if char == "A" else "$"), at + 1  # each line is searched for itself
    found = _HEX.match(pattern, at)
    if found is not None:
        point = int(found[0][1:], 16)
        return (
            (f"\\x{{{point:x}}}", found.end())
            if point not in (0, 10, 13) and not 0xD800 <= point < 0xE000
            else (None, at)
        )
    if not char or char.isalnum() or char in "\r\n\0":
        return None, at  # a reference to a group, a line break, or a word of one dialect
    return (f"\\{char}" if char in _META else char), at + 1


def _repeat(pattern: str, at: int) -> tuple[str | None, int]:
    found = _REPEAT.match(pattern, at)
    if found is None or not (found[1] or found[2]):
        return "\\{", at + 1
    if found.end() < len(pattern) and pattern[found.end()] == "+":
        return None, at
    comma = found[2] or ""
    return f"{{{found[1] or '0'}{comma}{found[3] or ''}}}", found.end()


def _set(pattern: str, at: int) -> tuple[str | None, int]:
    out = ["["]
    at += 1
    if pattern.startswith("^", at):
        out.append("^")
        at += 1
    first = True
    while at < len(pattern) and (first or pattern[at] != "]"):
        char, first = pattern[at], False
        if char == "\\":
            piece, at = _escaped(pattern, at + 1, inside=True)
            if piece is None:
                return None, at
            out.append(piece)
            continue
        if pattern.startswith(("--", "[:", "[=", "[."), at) or char in "\r\n\0":
            return None, at
        out.append(f"\\{char}" if char in "[]&~^" else char)
        at += 1
    return "".join([*out, "]"]), at + 1


def without_posix(pattern: str) -> str:
    """Return a pattern in which sets such as `[[:space:]]`, which Python does not know, are written out."""
    return _POSIX.sub(lambda found: _SETS.get(found[1], found[0]), pattern) if "[:" in pattern else pattern


def is_plain(pattern: str) -> bool:
    """Say whether a pattern finds exactly its own text."""
    return not set(pattern) & set("\\.+*?()|[]{}^$")
