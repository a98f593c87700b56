"""Whose words a line of a note holds: a mark at its end, `<!-- origin: web_fetch -->`, that names where they came from.

Text that was written down after strangers' words were read may be theirs. With the mark, who reads it later knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from homarus.core.patterns import late

_ORIGIN = late(r"\s*<!--\s*origin:\s*(?P<sources>.*?)\s*-->")
_NOT_A_SOURCE = late(r"[^\w.:/@+]+")
_MAX_SOURCES = 10
# Lines that have no mark of their own: nothing to read, the border of a code block or of front matter.
_NO_WORDS = late(r"\s*(?:(?:`{3}|~{3}).*|\W*)")


def mark_origin(line: str, sources: Sequence[str]) -> str:
    """Return a line that says whose words it holds; who reads it later reads theirs. Without sources it stays as it is."""
    clean = (_NOT_A_SOURCE.sub("-", source).strip("-")[:80] for source in sources)
    named = list(dict.fromkeys(filter(None, clean)))[:_MAX_SOURCES]
    return f"{line} <!-- origin: {', '.join(named)} -->" if named else line


def take_origin(text: str) -> tuple[str, tuple[str, ...]]:
    """Return text without its marks of origin, and the sources that these name. A mark that names none counts as well."""
    if "<!--" not in text or not (found := _ORIGIN.findall(text)):
        return text, ()
    sources = [part.strip() for names in found for part in names.split(",")]
    return _ORIGIN.sub("", text), tuple(dict.fromkeys(filter(None, sources))) or ("unknown",)


def mark_new_lines(before: str, after: str, sources: Sequence[str]) -> str:
    """Return `after` with a mark on every line that is not in `before` as it stands."""
    old = set(before.splitlines())
    lines = after.splitlines(keepends=True)
    return "".join(_marked(line, old, sources) for line in lines)


def _marked(line: str, old: set[str], sources: Sequence[str]) -> str:
    words = line.splitlines()[0]
    if words in old or _NO_WORDS.fullmatch(words) or take_origin(words)[1]:
        return line
    return mark_origin(words, sources) + line[len(words) :]
