"""Keep secrets out of the index: what looks like a key or a password is replaced before a line is stored. Pure.

The note itself is never changed. Only shapes that are hardly anything else are replaced, so that code names, order
numbers and hashes in notes stay findable.
"""

from __future__ import annotations

import re
from functools import cache

MARK = "[redacted]"
_HINT = re.compile(
    r"sk-|gh[pousr]_|github_pat|xox|xapp-|AKIA|ASIA|AIza|eyJ|glpat|npm_|pypi-|hf_|dop_v1|SG\.|-----|earer|assw|ecret|oken|"
    r"pi[_-]?[kK]ey|PWD|PI[_-]KEY|ASSW|ECRET|OKEN|://"
)


@cache
def _secrets() -> re.Pattern[str]:
    shapes = (
        r"\b(?:sk|rk|pk)-(?:ant-|proj-|or-|live-|test-)?[A-Za-z0-9_-]{20,}",
        r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
        r"\bgh[pousr]_[A-Za-z0-9]{30,}",
        r"\bgithub_pat_[A-Za-z0-9_]{30,}",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"\bxapp-[A-Za-z0-9-]{20,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{35}\b",
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"\b(?:glpat|hf|npm|dop_v1)[-_][A-Za-z0-9_-]{20,}",
        r"\bpypi-[A-Za-z0-9_-]{40,}",
        r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
    )
    return re.compile("|".join(shapes))


@cache
def _named() -> re.Pattern[str]:
    """Match the value after a name that says it is secret; the name stays readable."""
    return re.compile(
        r"(?i)(\b[\w-]{0,40}(?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token|private[_-]?key)\b[\"']?\s*[=:]\s*[\"']?|"
        r"\bbearer\s+|\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,64}:)([^\s\"',;@]{6,})"
    )


@cache
def _key_body() -> re.Pattern[str]:
    return re.compile(r"^[A-Za-z0-9+/=]{40,}$")


def redact_line(text: str) -> str:
    """Return the line with secrets replaced by a mark."""
    if not _HINT.search(text):
        return text
    return _named().sub(lambda found: found[1] + MARK, _secrets().sub(MARK, text))


def redact_lines(lines: list[str]) -> list[str]:
    """Return all lines redacted, number for number; the body of a private key goes with its first line."""
    out: list[str] = []
    inside = False
    for line in lines:
        if inside:
            inside = "-----END" not in line and bool(_key_body().match(line.strip()) or not line.strip())
            out.append(MARK if line.strip() else line)
            continue
        inside = "PRIVATE KEY-----" in line and "-----BEGIN" in line and "-----END" not in line
        out.append(redact_line(line))
    return out
