"""Whether a text that cannot be read wants a rule that an older one did not have. Pure; in doubt it does.

Both texts are cut into words and brackets, without quotes, commas and colons: those are what a slip loses. Whatever
differs is judged by where the older text, which can be read, has it, and by the words that are new.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from homarus.config.include import INCLUDE
from homarus.config.keypath import KeyPath, format_path
from homarus.config.known import TOP, near
from homarus.config.migrate import canonical
from homarus.config.restrict import RULE_WORDS, may_restrict
from homarus.config.scan import Node, ScanError, scan
from homarus.core.patterns import late

_WORD = late(r"[{}\[\]]|[^\s\"'`{}\[\],:]+")
_BRACKETS = frozenset("{}[]")
# Comparing takes the square of this; a longer text is not compared.
MAX_WORDS = 20_000
_RULES = {word.lower(): word for word in sorted((*RULE_WORDS, INCLUDE))}
_UNCLEAR = "more than one place"


class _Hunk(NamedTuple):
    """A place where the texts differ: its span in the older one, and the words on both sides."""

    start: int
    end: int
    old: list[str]
    new: list[str]


def as_text(data: bytes) -> str:
    """Return bytes as text in which words can be found, whatever they were meant to be."""
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace").replace("\0", "").removeprefix("\ufeff")


def wanted_rule(older: str, text: str) -> str:
    """Return where a text that cannot be read may have a rule that an older, readable one lacks or has otherwise; else nothing.

    What is returned can be shown: no word of the text is in it, because it may be a secret.
    """
    before, now = list(_WORD.finditer(older)), list(_WORD.finditer(text))
    old, new = [word[0] for word in before], [word[0] for word in now]
    if _is_cut_off(old, new):
        return ""
    if len(old) + len(new) > MAX_WORDS:
        return _UNCLEAR
    try:
        tree = scan(older) if old else Node("object", 0)
    except ScanError:
        return _UNCLEAR
    slips = 0
    for hunk in _hunks(before, old, new):
        if _BRACKETS.issuperset(hunk.old + hunk.new):
            # One bracket more, less or another one is a slip. Of more nobody knows what they hold together.
            slips += max(len(hunk.old), len(hunk.new))
            found = _UNCLEAR if slips > 1 else ""
        else:
            found = _rule_in(tree, hunk, torn=bool(hunk.new) and hunk.new[-1] is new[-1])
        if found:
            return found
    return ""


def _is_cut_off(old: Sequence[str], new: Sequence[str]) -> bool:
    """Say whether a text is the beginning of an older one: a disk that was full, and no hand, wrote that."""
    if not new:
        return True
    return old[: len(new) - 1] == new[:-1] and len(old) >= len(new) and old[len(new) - 1].startswith(new[-1])


def _hunks(before: Sequence[re.Match[str]], old: list[str], new: list[str]) -> Iterator[_Hunk]:
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            # Between two words where none is gone: what is new there may belong to the value on either side.
            start = before[i].start() if i < j else before[i - 1].end() if i else 0
            end = before[j - 1].end() if i < j else before[i].start() if i < len(old) else start
            yield _Hunk(start, end, old[i:j], new[k:m])


def _rule_in(tree: Node, hunk: _Hunk, *, torn: bool) -> str:
    words = [word for word in (*hunk.old, *hunk.new) if word not in _BRACKETS]
    if rule := next(filter(None, map(_rule_of, words)), ""):
        return rule
    if torn and (rule := next((rule for plain, rule in _RULES.items() if plain.startswith(words[-1].lower())), "")):
        return rule
    new = [word for word in hunk.new if word not in _BRACKETS]
    for path, changed in _touched(tree, hunk, ()):
        if changed and (INCLUDE in path or may_restrict(canonical(path))):
            return format_path(path)
        # A new word may stand in each of what is around it: where a bracket that looks like others belongs is a guess.
        if not changed and (word := next((word for word in new if may_restrict(canonical((*path, word)))), "")):
            return word if word in TOP else format_path(path) or "the top"
    return ""


def _rule_of(word: str) -> str:
    """Return the rule that a word means, as it is, as a part of the word, or mistyped; with an escape it may mean any."""
    plain = word.lower()
    if word in TOP:
        return _RULES.get(plain, "")
    within = (rule for key, rule in _RULES.items() if len(key) > 3 and key in plain)
    return _RULES.get(plain, "") or next(within, "") or near(word, RULE_WORDS) or ("an escape" if "\\" in word else "")


def _touched(node: Node, hunk: _Hunk, path: KeyPath, *, whole: bool = False) -> Iterator[tuple[KeyPath, bool]]:
    """Yield every path that a hunk changes, and that of everything around it."""
    if not whole:
        yield path, False
    for member in node.members:
        inner, where = member.node, (*path, member.key)
        # With its key a member changes its place, and with it all that it holds.
        gone = whole or (bool(hunk.old) and hunk.start < member.key_end and member.key_start < hunk.end)
        if gone:
            yield where, True
            yield from _touched(inner, hunk, where, whole=True)
        elif inner.kind == "scalar" and inner.start <= hunk.end and hunk.start <= inner.end:
            yield where, True
        elif inner.start < hunk.end and hunk.start < inner.end and inner.kind != "scalar":
            yield from _touched(inner, hunk, where)
