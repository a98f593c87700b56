"""Keep secrets out of the index: what looks like a key or a password is replaced before a line is stored. Pure.

The note itself is never changed. Only shapes that are hardly anything else are replaced, so that code names, order
numbers and hashes in notes stay findable.
"""

from __future__ import annotations

import re
from functools import cache

MARK = "[redacted]"
# A line without any of these cannot hold a secret of the shapes below; looking for them costs a microsecond.
_HINTS = (
    *("sk-", "rk-", "pk-", "sk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "xox", "xapp-", "akia"),
    *(
        "asia",
        "aiza",
        "eyj",
        "glpat",
        "npm_",
        "npm-",
        "pypi-",
        "hf_",
        "hf-",
        "dop_v1",
        "sg.",
        "-----begin",
        "://",
        "bearer",
    ),
    *("passw", "secret", "token", "apikey", "api_key", "api-key", "private_key", "private-key", "privatekey"),
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
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"\b(?:glpat|hf|npm|dop_v1)[-_][A-Za-z0-9_-]{20,}",
        r"\bpypi-[A-Za-z0-9_-]{40,}",
        r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
    )
    return re.compile("|".join(shapes))


@cache
def _named() -> re.Pattern[str]:
    """Match the value after a name that says it is secret; the name stays readable."""
    name = r"(?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token|private[_-]?key)"
    mixed = r"(?=[^\s\"',;]*[\d!#$%&*+/=?^_~-])"
    return re.compile(
        rf"(?i)({name}[\"']?\s?=\s?[\"']?|{name}[\"']?\s?:\s{{0,2}}[\"']?{mixed}|\bbearer\s{mixed}|://[^\s/:@]{{1,64}}:(?=[^\s@/]+@))"
        r"([^\s\"',;@]{6,})"
    )


@cache
def _key_body() -> re.Pattern[str]:
    return re.compile(r"^[A-Za-z0-9+/=]{40,}$")


def redact_line(text: str) -> str:
    """Return the line with secrets replaced by a mark."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    return _named().sub(lambda found: found[1] + MARK, _secrets().sub(MARK, text))


def redact_lines(lines: list[str]) -> list[str]:
    """Return all lines redacted, number for number; the body of a private key goes with its first line."""
    lowered = "\n".join(lines).lower()
    if not any(hint in lowered for hint in _HINTS):
        return lines
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
