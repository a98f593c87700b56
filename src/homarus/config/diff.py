"""What a change looks like, without the secrets: a unified diff of two texts in which each is hidden, and marked if new. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from homarus.config.keypath import KeyPath, lookup
from homarus.config.redact import MARKER, is_reference, is_secret_key, redact, redact_text
from homarus.config.scan import Node, ScanError, comments, scan
from homarus.config.style import render_text
from homarus.core.patterns import late

_NEW = f"{MARKER} (new)"
_WORD = late(r"[^\s\"',;(){}\[\]]+")
_COMMENTED_OUT = late(r"""([\w-]+)(["']?\s*[:=]\s*)("[^"\r\n]*"|'[^'\r\n]*'|[^\s,}\]]+)""")


def unified_diff(before: str, after: str, name: str) -> str:
    """Return the difference as `diff -u` shows it; empty where there is none."""
    try:
        old = scan(before).data() if before.strip() else {}
        lines = (shown_text(before, {}).splitlines(), shown_text(after, old, mark_new=True).splitlines())
    except ScanError:
        return f"--- {name}\n+++ {name}\n(the old text is no JSON5, so it is not shown)\n" if before != after else ""
    found = difflib.unified_diff(*lines, fromfile=name, tofile=name, lineterm="")
    return "".join(f"{line}\n" for line in found)


def shown_text(text: str, old: Any, *, mark_new: bool = False) -> str:
    """Return the text of a file with every secret hidden. With `mark_new` those that differ from `old` say so."""
    if not text.strip():
        return ""
    root = scan(text)
    cuts = [(start, end, _comment(text[start:end])) for start, end in comments(text)]
    for node, path in _secrets(root, "", (), hidden=False):
        changed = mark_new and lookup(old, path) != node.value
        shown = redact_text(node.value) if isinstance(node.value, str) else MARKER
        cuts.append((node.start, node.end, render_text(_NEW if changed else shown if MARKER in shown else MARKER)))
    parts, at = [], 0
    for start, end, written in sorted(cuts):
        parts += [text[at:start], written]
        at = end
    return "".join([*parts, text[at:]])


def _secrets(node: Node, key: str, path: KeyPath, *, hidden: bool) -> Iterator[tuple[Node, KeyPath]]:
    items = redact([member.node.value for member in node.members], key) if node.kind == "array" else []
    for index, member in enumerate(node.members):
        name, inner = str(member.key) if node.kind == "object" else "", member.node
        where = (*path, member.key)
        if inner.kind != "scalar":
            data = inner.data()
            if not is_reference(data):
                yield from _secrets(inner, name or key, where, hidden=hidden or is_secret_key(name))
        elif hidden and not is_reference(inner.value) and inner.value not in (None, "", True, False):
            yield inner, where
        else:
            shown = items[index] if items else redact({name: inner.value}, key)[name]
            if isinstance(shown, str) and shown != inner.value:
                yield inner, where


def _comment(text: str) -> str:
    def hide(match: re.Match[str]) -> str:
        secret = is_secret_key(match[1]) and not is_reference(match[3].strip("\"'"))
        return f"{match[1]}{match[2]}{MARKER}" if secret else match[0]

    return _WORD.sub(lambda match: redact_text(match[0]), _COMMENTED_OUT.sub(hide, text))
