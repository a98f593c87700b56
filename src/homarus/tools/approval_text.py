"""What a person reads before saying yes. It is what would happen, and looks like it: nothing hidden, nothing in disguise. Pure."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from homarus.core.errors import Denied
from homarus.core.patterns import late

if TYPE_CHECKING:
    from homarus.tools.command import Plan


# What fits a question; a longer text is cut in its middle, says so, and can be read whole with `approvals show`.
MAX_SHOWN = 2_000
# What nobody reads before saying yes.
MAX_ASKED = 20_000
_BLANKS = late(r"[ \t]+")
# Printable by name and blank to the eye.
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
# Alphabets whose letters pass for Latin ones.
_ALIKE = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")


def visible(text: str) -> str:
    """Return text on one line in which every line break, invisible character and letter in disguise can be seen."""
    text = _BLANKS.sub(" ", text.replace("\r\n", "\n"))
    if text.isascii() and text.isprintable():
        return text.strip()
    return " ".join(_word(word) for word in text.replace("\n", " ⏎ ").split(" ")).strip()


def whole(text: str) -> str:
    """Return text as `visible` does, or raise `Denied` where it is longer than a person can answer for."""
    if len(text) > MAX_ASKED:
        raise Denied(
            f"{len(text):,} characters are more than anybody reads before saying yes", cure="do it in smaller steps"
        )
    return visible(text)


def shortened(text: str) -> str:
    """Return the two ends of a long text with the number of characters between them; the end is where surprises are."""
    if len(text) <= MAX_SHOWN:
        return text
    half = MAX_SHOWN // 2
    return f"{text[:half]} [… {len(text) - 2 * half:,} more characters: homarus approvals show …] {text[-half:]}"


def of_command(plan: Plan, arguments: Mapping[str, Any], workspace: str) -> str:
    """Return a command with everything of the call that decides what it does: variables, folder, and what is typed into it."""
    text = plan.command
    if "sessionId" in arguments:
        keys = arguments.get("keys") or ()
        typed = " ".join([*([arguments["data"]] if arguments.get("data") else []), *map(str, keys)])
        text = f"{text} ← {typed}" if typed else text
    given = arguments.get("env")
    if isinstance(given, dict) and given:
        text = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in given.items()) + f" {text}"
    if plan.cwd != workspace and "sessionId" not in arguments:
        text = f"in {plan.cwd}: {text}"
    return whole(text)


def of_call(tool: str, arguments: Mapping[str, Any]) -> str:
    return whole(f"{tool} {msgspec.json.encode(arguments).decode()}")


def _word(word: str) -> str:
    if word.isascii() and word.isprintable():
        return word
    latin = any(char.isascii() and char.isalpha() for char in word)
    return "".join(_named(char) if _is_disguised(char, latin=latin) else char for char in word)


def _is_disguised(char: str, *, latin: bool) -> bool:
    if char.isascii():
        return not char.isprintable()
    if not char.isprintable() or char in _BLANK or unicodedata.category(char) in {"Mn", "Me"}:
        return True
    # Full-width and mathematical letters are others in disguise; those of another alphabet among Latin ones may be.
    plain = unicodedata.normalize("NFKC", char)
    return (plain != char and plain.isascii()) or (latin and unicodedata.name(char, "").startswith(_ALIKE))


def _named(char: str) -> str:
    return f"<U+{ord(char):04X}>"
