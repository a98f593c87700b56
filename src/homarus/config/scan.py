"""Where everything stands in a JSON5 text: the spans of keys, values, commas and comments. Pure and total.

Reading a configuration takes `pyjson5`. This scanner runs when a position is wanted: for the line of a problem, and for
edits that must leave every other byte alone. It accepts what `pyjson5` accepts, with the same values: it asks it for
every scalar that is not plain, so that the two can only differ in structure (and a property test holds that).
Offsets count characters of the text that was given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from homarus.config.keypath import KeyPath
from homarus.core.patterns import late

MAX_DEPTH = 100

_SPACE = "\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_SKIP = late(rf"(?:[{_SPACE}]+|//[^\n\r\u2028\u2029]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_COMMENT = late(r"//[^\n\r\u2028\u2029]*|/\*[\s\S]*?\*/")
_STRING = late(r""""(?:[^"\\\n\r]|\\(?:\r\n|[\s\S]))*"|'(?:[^'\\\n\r]|\\(?:\r\n|[\s\S]))*'""")
_NO_STRUCTURE = late(
    r""""(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'|//[^\n\r\u2028\u2029]*|/\*(?:[^*]|\*(?!/))*\*/"""
)
_WORD = late(rf"[^{_SPACE},:{{}}\[\]\"'/]+")
_PLAIN_KEY = late(r"[A-Za-z_$][A-Za-z0-9_$]*")
_PLAIN_INT = late(r"-?(?:0|[1-9][0-9]*)")
_QUOTES = ('"', "'")
_AT_ONCE = frozenset("{}[],:\"'")  # where these stand there is nothing to skip
_LITERALS = {"true": True, "false": False, "null": None}


class ScanError(Exception):
    """The text is no JSON5. Carries where it stops being one."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class Node:
    """One value. `members` holds what an object or an array contains; a scalar has its `value`."""

    __slots__ = ("end", "kind", "members", "start", "value")

    def __init__(self, kind: str, start: int) -> None:
        self.kind = kind
        self.start = start
        self.end = start
        self.members: list[Member] = []
        self.value: Any = None

    def child(self, step: str | int) -> Member | None:
        """Return the member that counts: of a key written twice that is the last one."""
        if self.kind == "array":
            in_range = isinstance(step, int) and -len(self.members) <= step < len(self.members)
            return self.members[step] if in_range and isinstance(step, int) else None
        if self.kind == "object" and isinstance(step, str):
            return next((member for member in reversed(self.members) if member.key == step), None)
        return None

    def data(self) -> Any:
        """Return the value as plain data, as the reader would give it."""
        if self.kind == "object":
            return {member.key: member.node.data() for member in self.members}
        return [member.node.data() for member in self.members] if self.kind == "array" else self.value


class Member:
    """One entry of an object or an array: its key, its value, and the comma after it (-1 where there is none)."""

    __slots__ = ("comma", "key", "key_end", "key_start", "node")

    def __init__(self, key: str | int, key_start: int, key_end: int) -> None:
        self.key = key
        self.key_start = key_start
        self.key_end = key_end
        self.comma = -1
        self.node: Node = Node("scalar", key_start)


def parse(text: str) -> Any:
    """Return the document as plain data, or raise ScanError that says where it stops being JSON5."""
    try:
        return _plain(text)
    except (ValueError, RecursionError):
        pass  # comments, quotes, commas: what JSON5 is for
    try:
        return _decode(text)
    except _unreadable() as problem:
        scan(text)
        raise ScanError(str(problem.args[0] if problem.args else problem)[:200], 0) from None


def _plain(text: str) -> Any:
    """Read what is JSON in the narrow sense, as programs write it, without loading the reader of JSON5."""
    if "\\u" in text or "-0" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        raise ValueError("left to the other reader, whose limits and halves of characters are its own")
    return msgspec.json.decode(text)


def _decode(text: str) -> Any:
    import pyjson5

    return pyjson5.decode(text, MAX_DEPTH)


def _unreadable() -> tuple[type[Exception], ...]:
    import pyjson5

    # A number of more than 4300 digits is a ValueError of Python's own.
    return (pyjson5.Json5DecoderException, ValueError, OverflowError, RecursionError)


def repeats(text: str, document: Any) -> bool:
    """Say whether a text that was read as this document has a key twice in one object, without scanning it.

    Each member has one colon, and of two with one name the document has one.
    """
    kept = _members(document)
    return text.count(":") != kept and _NO_STRUCTURE.sub("", text).count(":") != kept


def _members(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_members, value.values()))
    return sum(map(_members, value)) if isinstance(value, list) else 0


def is_blank(text: str) -> bool:
    """Say whether a text holds nothing but white space and comments: a file in which nothing is set yet."""
    try:
        return _skip(text, 0) == len(text)
    except ScanError:
        return False


def scan(text: str) -> Node:
    scanner = _Scanner(text)
    root, at = scanner.value(_skip(text, 0), 0)
    at = _skip(text, at)
    if at < len(text):
        scanner.stop("nothing may follow the end of the document", at)
    return root


def find(root: Node, path: KeyPath) -> Member | Node | None:
    """Return what stands at a path: the root node itself, a member, or None."""
    here: Member | Node | None = root
    for step in path:
        node = here.node if isinstance(here, Member) else here
        here = node.child(step) if node else None
        if here is None:
            return None
    return here


def comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield the span of every comment of a text that `scan` accepts."""
    at = 0
    while at < len(text):
        char = text[at]
        if char in "\"'":
            match = _STRING.match(text, at)
            at = match.end() if match else len(text)
        elif char == "/":
            found = _COMMENT.match(text, at)
            if found:
                yield found.span()
            at = found.end() if found else at + 1
        else:
            at += 1


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return the line and the column of an offset, both counted from one, as editors do."""
    before = text[:offset]
    line = before.count("\n") + 1
    if line == 1 and "\r" in before:
        line += before.count("\r")
        return line, offset - before.rfind("\r")
    return line, offset - before.rfind("\n")


def _skip(text: str, at: int) -> int:
    if text[at : at + 1] in _AT_ONCE:
        return at
    match = _SKIP.match(text, at)
    end = match.end() if match else at
    if text.startswith("/*", end):
        raise ScanError("a comment is not closed", end)
    return end


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text

    def stop(self, message: str, at: int) -> NoReturn:
        found = f"{self.text[at]!r} stands here" if at < len(self.text) else "the file ends"
        raise ScanError(f"{message}, but {found}", at)

    def value(self, at: int, depth: int) -> tuple[Node, int]:
        char = self.text[at : at + 1]
        if char == "{":
            return self.object(at, depth + 1)
        if char == "[":
            return self.array(at, depth + 1)
        node = Node("scalar", at)
        match = (_STRING if char in _QUOTES else _WORD).match(self.text, at)
        if match is None:
            self.stop("a string is not closed on its line" if char in _QUOTES else "a value is needed", at)
        node.end = match.end()
        node.value = self.scalar(match.group(), at)
        return node, node.end

    def scalar(self, word: str, at: int) -> Any:
        if word[0] in "\"'":
            if "\\" not in word:
                return word[1:-1]
        elif word in _LITERALS:
            return _LITERALS[word]
        elif _PLAIN_INT.fullmatch(word) and len(word) < 16:
            return int(word)
        try:
            return _decode(word)
        except _unreadable():
            # The word itself stays out of the message: it may be a secret whose quotes are missing.
            what = (
                "this text has an escape that JSON5 does not know" if word[0] in _QUOTES else "text needs quotes here"
            )
            raise ScanError(what, at) from None

    def key(self, at: int) -> tuple[str, int]:
        char = self.text[at : at + 1]
        match = (_STRING if char in _QUOTES else _WORD).match(self.text, at)
        if match is None:
            self.stop("a key is needed", at)
        word = match.group()
        if _PLAIN_KEY.fullmatch(word):
            return word, match.end()
        if word[0] in "\"'":
            return str(self.scalar(word, at)), match.end()
        try:
            name = next(iter(_decode(f"{{{word}:0}}")))
        except _unreadable():
            raise ScanError("this key needs quotes", at) from None
        return str(name), match.end()

    def object(self, at: int, depth: int) -> tuple[Node, int]:
        text, node = self.text, Node("object", at)
        self.deep(depth, at)
        at = _skip(text, at + 1)
        while not text.startswith("}", at):
            name, end = self.key(at)
            member = Member(name, at, end)
            at = _skip(text, end)
            if not text.startswith(":", at):
                self.stop(f"a colon must follow the key '{name[:40]}'", at)
            member.node, at = self.value(_skip(text, at + 1), depth)
            at = self.after(node, member, at, "}")
        node.end = at + 1
        return node, node.end

    def array(self, at: int, depth: int) -> tuple[Node, int]:
        text, node = self.text, Node("array", at)
        self.deep(depth, at)
        at = _skip(text, at + 1)
        while not text.startswith("]", at):
            member = Member(len(node.members), at, at)
            member.node, at = self.value(at, depth)
            at = self.after(node, member, at, "]")
        node.end = at + 1
        return node, node.end

    def after(self, node: Node, member: Member, at: int, closer: str) -> int:
        node.members.append(member)
        at = _skip(self.text, at)
        if self.text.startswith(",", at):
            member.comma = at
            return _skip(self.text, at + 1)
        if not self.text.startswith(closer, at):
            self.stop(f"a comma or '{closer}' is needed", at)
        return at

    def deep(self, depth: int, at: int) -> None:
        if depth > MAX_DEPTH:
            raise ScanError(f"more than {MAX_DEPTH} levels of nesting", at)
