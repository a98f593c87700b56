"""The record in IDENTITY.md: `- Label: value` lines, read and edited in place. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from homarus.core.text import single_line

LABELS = ("Name", "Creature", "Vibe", "Theme", "Emoji", "Avatar")
_ITEM = re.compile(r"(\s*[-*+][ \t]+)(\*\*|__)?([A-Za-z]+)(\*\*|__)?[ \t]*:(\*\*|__)?[ \t]*(.*)")
# What a template leaves to be filled in: _(…)_, [..], <..>, (..), *..*
_PLACEHOLDER = re.compile(r"(?:_.*_|\*[^*].*\*|\[.*\]|\(.*\)|<.*>)")
_MAX_VALUE = 300


def parse_identity(text: str) -> dict[str, str]:
    """Return the values by lower-case label; placeholders and unknown labels are left out, the first value counts."""
    known = {label.lower() for label in LABELS}
    values: dict[str, str] = {}
    for line in text.splitlines():
        found = _ITEM.fullmatch(line)
        if found is None or found[3].lower() not in known:
            continue
        value = single_line(found[6], _MAX_VALUE)
        if value and not _PLACEHOLDER.fullmatch(value):
            values.setdefault(found[3].lower(), value.strip("*` "))
    return values


def edit_identity(text: str, values: Mapping[str, str]) -> str:
    """Return the text with these labels set: in the line that has the label, or in a new one after the last item."""
    ending = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines()
    todo = {label.lower(): single_line(value, _MAX_VALUE) for label, value in values.items()}
    last = -1
    for number, line in enumerate(lines):
        found = _ITEM.fullmatch(line)
        if found is None:
            continue
        last = number
        value = todo.pop(found[3].lower(), None)
        if value is not None:
            lines[number] = f"{line[: found.start(6)].rstrip()} {value}"
    spelled = {label.lower(): label for label in LABELS}
    new = [f"- {spelled.get(label, label.capitalize())}: {value}" for label, value in todo.items()]
    if new and last < 0 and lines and lines[-1].strip():
        new.insert(0, "")
    at = last + 1 if last >= 0 else len(lines)
    return ending.join([*lines[:at], *new, *lines[at:]]) + ending
