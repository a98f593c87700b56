"""What a half-typed line can become: commands, their arguments, models, skills and files. Pure but for listing a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

MAX_FILES = 60
MAX_SCANNED = 2_000


class Suggestion(Struct, frozen=True):
    """One completion: `text` replaces the last `length` characters; `note` says what it is."""

    text: str
    length: int
    note: str = ""


class Words(Struct, frozen=True):
    """What is known by name in one home. `arguments` are the words that may follow a command."""

    commands: Mapping[str, str] = {}
    arguments: Mapping[str, Sequence[str]] = {}
    skills: Mapping[str, str] = {}
    folder: str = "."
    home: str = ""


def suggest(before: str, words: Words) -> list[Suggestion]:
    """Return the completions for the text before the cursor, best first."""
    if before.startswith("/") and " " not in before and "\n" not in before:
        return _named(before, {f"/{name}": note for name, note in words.commands.items()})
    word = before.rpartition(" ")[2].rpartition("\n")[2]
    command = before[1:].partition(" ")[0] if before.startswith("/") else ""
    if command in words.arguments and before.count(" ") == 1:
        return _named(word, dict.fromkeys(words.arguments[command], ""))
    if word.startswith("$"):
        return _named(word, {f"${name}": note for name, note in words.skills.items()})
    if word.startswith("@"):
        return [Suggestion(found, len(word) - 1) for found in _files(word[1:], words)]
    if word.startswith(("./", "../", "~/")) or (word.startswith("/") and len(before) > len(word)):
        return [Suggestion(found, len(word)) for found in _files(word, words)]
    return []


def _named(word: str, names: Mapping[str, str]) -> list[Suggestion]:
    folded = word.lower()
    starts = [name for name in names if name.lower().startswith(folded)]
    holds = [name for name in names if folded[1:] and folded[1:] in name.lower() and name not in starts]
    return [Suggestion(name, len(word), names[name]) for name in [*starts, *holds]]


def _files(typed: str, words: Words) -> Iterator[str]:
    """Yield paths that begin as typed, folders first; hidden ones only when asked for."""
    folder, slash, name = typed.rpartition("/")
    spelled = f"{folder}{slash}"
    place = Path(spelled.replace("~", words.home, 1) if spelled.startswith("~/") else spelled or ".")
    base = place if place.is_absolute() else Path(words.folder) / place
    try:
        with os.scandir(base) as entries:
            found = [(not entry.is_dir(), entry.name) for entry, _ in zip(entries, range(MAX_SCANNED), strict=False)]
    except OSError:
        return
    fitting = [
        (plain, each)
        for plain, each in sorted(found)
        if each.lower().startswith(name.lower()) and (name.startswith(".") or not each.startswith("."))
    ]
    for plain, each in fitting[:MAX_FILES]:
        yield f"{spelled}{each}{'' if plain else '/'}"
