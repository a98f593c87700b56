"""Read a command line into what would be executed, without a shell. What is not understood is said to be so.

A rule that looks at a text while a shell looks at it differently is no rule. So only what has one reading is taken apart:
words, quotes without expansion, and `|`. Everything else is "a shell command" and is judged as such.
"""

from __future__ import annotations

import shlex

from msgspec import Struct

from homarus.core.patterns import late

MAX_CHARS = 100_000
_ASSIGNMENT = late(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_OPERATORS = {
    ";": "a list of commands",
    "&": "a list of commands or a background command",
    "<": "a redirection or here-document",
    ">": "a redirection",
    "(": "a subshell",
    ")": "a subshell",
    "$": "an expansion",
    "`": "a command substitution",
    "\n": "several lines",
    "\r": "several lines",
}
# These have a meaning of their own in some place of an unquoted word.
_MAGIC = {"*": "a glob", "?": "a glob", "[": "a glob", "{": "a brace expansion", "~": "a home folder", "#": "a comment"}
_OWN_WORDS = (
    "if then else elif fi do done case esac while until for in function select time coproc ! [[ ]] { } eval exec source . export "
    "alias unalias set trap cd builtin command ulimit umask unset shopt hash enable declare typeset local readonly bind"
)
_RESERVED = frozenset(_OWN_WORDS.split())


class Parsed(Struct, frozen=True):
    """Programs with their arguments, the output of each going into the next; or why a shell would be needed."""

    pipeline: tuple[tuple[str, ...], ...] = ()
    reason: str = ""

    @property
    def plain(self) -> bool:
        return bool(self.pipeline)


def parse(text: str) -> Parsed:
    """Take a command line apart; total: whatever comes in, the answer is a pipeline or a reason."""
    if not text.strip():
        return Parsed(reason="nothing")
    if len(text) > MAX_CHARS:
        return Parsed(reason="a very long text")
    try:
        return Parsed(pipeline=_pipeline(text.strip(" \t")))
    except _ShellError as problem:
        return Parsed(reason=str(problem))


def parse_list(text: str) -> list[tuple[str, ...]]:
    """Take plain commands apart that are joined by `&&`; nothing where only a shell knows what a part means."""
    commands: list[list[str]] = [[]]
    text, at = text.strip(" \t\n"), 0
    try:
        while at < min(len(text), MAX_CHARS):
            if text[at] in " \t":
                at += 1
            elif text.startswith("&&", at):
                commands.append([])
                at += 2
            else:
                word, end, _ = _word(text, at)
                if end == at:
                    return []  # a pipe
                commands[-1].append(word)
                at = end
    except _ShellError:
        return []
    return [tuple(words) for words in commands] if at == len(text) and all(commands) else []


def quoted(pipeline: tuple[tuple[str, ...], ...]) -> str:
    """Return a pipeline as a line in which a shell can find nothing to expand."""
    return " | ".join(shlex.join(argv) for argv in pipeline)


class _ShellError(Exception):
    """Only a shell knows what this means."""


def _pipeline(text: str) -> tuple[tuple[str, ...], ...]:
    commands: list[list[str]] = [[]]
    at = 0
    while at < len(text):
        char = text[at]
        if char in " \t":
            at += 1
        elif char == "|":
            if text[at + 1 : at + 2] in ("|", "&") or not commands[-1]:
                raise _ShellError("a list of commands")
            commands.append([])
            at += 1
        else:
            word, at, bare = _word(text, at)
            if not commands[-1]:
                if _ASSIGNMENT.match(word) and bare:
                    raise _ShellError("a variable before a command")
                if word in _RESERVED or not word:
                    raise _ShellError("a word of the shell itself")
            commands[-1].append(word)
    if not commands[-1]:
        raise _ShellError("an unfinished pipeline")
    return tuple(map(tuple, commands))


def _word(text: str, at: int) -> tuple[str, int, bool]:
    """Return the next word, where it ends, and whether it began without quotes."""
    out: list[str] = []
    bare = text[at] not in "'\"\\"
    while at < len(text) and text[at] not in " \t|":
        char = text[at]
        if char in _OPERATORS or char in _MAGIC:
            raise _ShellError(_OPERATORS.get(char) or _MAGIC[char])
        if not char.isprintable():
            raise _ShellError("a control character")
        if char == "'":
            end = text.find("'", at + 1)
            if end < 0:
                raise _ShellError("an open quote")
            out.append(_printable(text[at + 1 : end]))
            at = end + 1
        elif char == '"':
            inner, at = _double(text, at + 1)
            out.append(inner)
        elif char == "\\":
            if at + 1 >= len(text) or text[at + 1] in "\n\r":
                raise _ShellError("a continued line")
            out.append(_printable(text[at + 1]))
            at += 2
        else:
            out.append(char)
            at += 1
    return "".join(out), at, bare


def _double(text: str, at: int) -> tuple[str, int]:
    out = []
    while at < len(text) and text[at] != '"':
        char = text[at]
        if char in "$`!":
            raise _ShellError("an expansion")
        if char == "\\" and text[at + 1 : at + 2] in ('"', "\\"):
            at += 1
            char = text[at]
        elif char == "\\" and text[at + 1 : at + 2] in ("$", "`", "\n", ""):
            raise _ShellError("an expansion")
        out.append(_printable(char))
        at += 1
    if at >= len(text):
        raise _ShellError("an open quote")
    return "".join(out), at + 1


def _printable(text: str) -> str:
    # A line break inside quotes is plain text to a shell; other control characters confuse whoever reads it.
    if any(not char.isprintable() and char not in "\n\t" for char in text):
        raise _ShellError("a control character")
    return text
