"""Globs and .gitignore rules as regular expressions. Only the standard library: the search program runs on its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_MAX_CHARS, _MAX_CHOICES = 4_000, 100
Rule = tuple[bool, bool, "re.Pattern[str]"]  # takes back, folders only, what it matches below its folder


@lru_cache(maxsize=256)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """Return what a glob matches among relative paths; one without a slash matches the last part at any depth."""
    pattern = pattern.removeprefix("./")
    whole = "/" in pattern.strip("/")
    body = translate(pattern.lstrip("/"))
    return re.compile(body if whole or pattern.startswith("/") else f"(?s:.*/)?{body}")


def translate(pattern: str) -> str:
    """Return the body of a regular expression for a glob: `*`, `?`, `[…]`, `{a,b}` within a part, `**` across parts.

    Whoever writes the glob chooses how the names are matched, so no glob may make that slow. The first place where the
    text between two stars fits is as good as any later one, hence a star never gives back what it took.
    """
    if len(pattern) > _MAX_CHARS:
        raise re.error(f"longer than {_MAX_CHARS:,} characters")
    choices = [_deep(choice) for choice in _choices(_words(pattern))]
    return choices[0] if len(choices) == 1 else f"(?:{'|'.join(choices)})"


def _words(pattern: str) -> list[str]:
    """Return the pieces of a glob as expressions for one character each, and `/`, `*`, `**`, `{`, `,`, `}` as themselves."""
    out: list[str] = []
    at, depth = 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            run = len(pattern) - at - len(pattern[at:].lstrip("*"))
            at += run
            apart = (at == run or pattern[at - run - 1] in "/{,") and pattern[at : at + 1] in ("", "/", "}", ",")
            out.append("**" if run == 2 and apart else "*")
            continue
        if char == "\\" and at + 1 < len(pattern):
            out.append(re.escape(pattern[at + 1]))
            at += 2
            continue
        if char == "[" and (end := pattern.find("]", at + 2)) > 0:
            inner = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[").replace("&", "\\&")
            inner = inner.replace("~", "\\~").replace("|", "\\|").replace("--", "-\\-")
            out.append(f"(?!/)[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            at = end + 1
            continue
        if char == "{" and "}" in pattern[at:]:
            depth += 1
        elif char == "}" and depth:
            depth -= 1
        elif char != "/" and not (char == "," and depth):
            char = "[^/]" if char == "?" else re.escape(char)
        out.append(char)
        at += 1
    return out + ["}"] * depth


def _choices(words: list[str]) -> list[list[str]]:
    """Return all globs that one with braces stands for."""
    # From the outside in: what was there before each open brace, what was chosen in it, and what is being read.
    above: list[tuple[list[list[str]], list[list[str]]]] = []
    found: list[list[str]] = [[]]
    for word in words:
        if word == "{":
            above.append((found, []))
            found = [[]]
        elif word in {",", "}"} and above:
            above[-1][1].extend(found)
            found = [[]]
            if word == "}":
                before, chosen = above.pop()
                if len(before) * len(chosen) > _MAX_CHOICES:
                    raise re.error(f"more than {_MAX_CHOICES} choices in braces")
                found = [[*one, *other] for one in before for other in chosen]
        else:
            for one in found:
                one.append(word)
    return found


def _deep(words: list[str]) -> str:
    """Return the expression of a glob without braces: runs of parts, with `**` between them."""
    runs: list[list[list[str]]] = [[]]
    part: list[str] = []
    for word in [*words, "/"]:
        if word != "/":
            part.append(word)
        elif part == ["**"]:
            runs.append([])
        elif part or runs[-1] or len(runs) > 1:
            runs[-1].append(part)
        if word == "/":
            part = []
    first, *rest = runs
    if not rest:
        return "/".join(map(_part, first))
    out = "".join(f"{_part(part)}/" for part in first)
    rest = [*(run for run in rest[:-1] if run), rest[-1]]
    for run in rest[:-1]:
        out += f"(?>(?:[^/]+/)*?{''.join(f'{_part(part)}/' for part in run)})"
    last = "/".join(map(_part, rest[-1]))
    return f"{out}(?:[^/]+/)*{last}" if rest[-1] else f"{out}(?s:.+)"


def _part(words: list[str]) -> str:
    """Return the expression of one part: runs of characters, with stars between them."""
    runs: list[str] = [""]
    for word in words:
        if word in {"*", "**"}:
            runs.append("")
        else:
            runs[-1] += word
    first, *rest = runs
    rest = [*(run for run in rest[:-1] if run), *rest[-1:]]
    return first + "".join(f"(?>[^/]*?{run})" for run in rest[:-1]) + "".join(f"[^/]*{run}" for run in rest[-1:])


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
            rules.append((back, folder, re.compile(body if anchored else f"(?s:.*/)?{body}")))
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
