"""Globs and .gitignore rules as regular expressions. Only the standard library: the search program runs on its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

Rule = tuple[bool, bool, "re.Pattern[str]"]  # takes back, folders only, what it matches below its folder


@lru_cache(maxsize=256)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """Return what a glob matches among relative paths; one without a slash matches the last part at any depth."""
    pattern = pattern.removeprefix("./")
    whole = "/" in pattern.strip("/")
    body = translate(pattern.lstrip("/"))
    return re.compile(body if whole or pattern.startswith("/") else f"(?:.*/)?{body}")


def translate(pattern: str) -> str:
    """Return the body of a regular expression for a glob: `*`, `?`, `[…]`, `{a,b}` within a part, `**` across parts."""
    out: list[str] = []
    at, depth = 0, 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            out.append("(?:[^/]+/)*")
            at += 3
            continue
        if pattern.startswith("**", at):
            out.append(".*")
            at += 2
            continue
        if char == "\\" and at + 1 < len(pattern):
            out.append(re.escape(pattern[at + 1]))
            at += 2
            continue
        if char == "[" and (end := pattern.find("]", at + 2)) > 0:
            inner = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"(?!/)[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            at = end + 1
            continue
        if char == "{" and "}" in pattern[at:]:
            depth += 1
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char))
        at += 1
    return "".join(out) + ")" * depth


def ignore_rules(text: str) -> list[Rule]:
    """Return the rules of one .gitignore, in order; a line that makes no sense is no rule."""
    rules: list[Rule] = []
    for raw in text.splitlines():
        line = raw.rstrip() if not raw.rstrip().endswith("\\") else raw
        if not line or line.startswith("#"):
            continue
        back = line.startswith("!")
        line = line[1:] if back or line.startswith(("\\#", "\\!")) else line
        folder = line.endswith("/")
        line = line.rstrip("/")
        anchored = "/" in line
        try:
            body = translate(line.lstrip("/"))
            rules.append((back, folder, re.compile(body if anchored else f"(?:.*/)?{body}")))
        except re.error:
            continue
    return rules


def ignored(path: str, folder: bool, layers: Sequence[tuple[str, list[Rule]]]) -> bool:
    """Say whether rules hide a path; `layers` go from the outermost folder inwards, each with its own path."""
    for base, rules in reversed(layers):
        inner = path[len(base) :].lstrip("/") if base else path
        for back, folders_only, pattern in reversed(rules):
            if (folder or not folders_only) and pattern.fullmatch(inner):
                return not back
    return False
