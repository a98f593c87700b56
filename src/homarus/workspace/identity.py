"""The record in IDENTITY.md: `- Label: value` lines, read and edited in place; whatever else stands there stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from homarus.core.errors import StorageError
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.boundary import Root
from homarus.workspace.names import IDENTITY
from homarus.workspace.templates import template

LABELS = ("Name", "Creature", "Vibe", "Theme", "Emoji", "Avatar")
_ITEM = late(r"(\s*[-*+][ \t]+)(\*\*|__)?([A-Za-z]+)(\*\*|__)?[ \t]*:(\*\*|__)?[ \t]*(.*)")
# What a template leaves to be filled in: _(…)_, [..], <..>, (..), *..*
_PLACEHOLDER = late(r"(?:_.*_|\*[^*].*\*|\[.*\]|\(.*\)|<.*>)")
_MAX_VALUE = 300
_MAX_BYTES = 1024 * 1024


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
    closed = not text or text.endswith(("\n", "\r"))
    return ending.join([*lines[:at], *new, *lines[at:]]) + (ending if closed else "")


def write_identity(workspace: Path, values: Mapping[str, str]) -> Path:
    """Set these labels in a workspace's IDENTITY.md, which is made from the template where it is missing."""
    ensure_dir(workspace)
    path = workspace / IDENTITY
    with Root(workspace) as root:
        got = root.read(IDENTITY, max_bytes=_MAX_BYTES)
    if got.kind in ("validation", "io") or got.truncated:
        reason = "it is too large" if got.truncated else got.reason
        raise StorageError(f"{path} is not edited: {reason}", cure="make it an ordinary file inside the workspace")
    try:
        text = got.data.decode() if got.kind == "ok" else template(IDENTITY)
    except UnicodeDecodeError:
        raise StorageError(f"{path} is not edited: it is not UTF-8", cure="save it as UTF-8 first") from None
    changed = edit_identity(text, values)
    if changed != text or got.kind != "ok":
        write_atomic(path, changed.encode())
    return path
