"""What may be shown of a configuration: secrets become a marker, and the marker written back keeps the old value. Pure.

What a key's name says about its value is decided here; secrets in free text are found by `core.redact`.

When in doubt it hides: a hidden name costs a look into the file, a shown key costs the key.
"""

from __future__ import annotations

import re
from typing import Any

from homarus.core.errors import ConfigError
from homarus.core.patterns import late

MARKER = "__OPENCLAW_REDACTED__"

_SECRET_KEY = late(
    r"token$|pass(?:word|wd|phrase|code)|secret|api_?-?keys?$|access_?-?key|priv(?:ate)?_?-?key|_key$|^keys?$"
    r"|(?:encrypt|encryption|signing|auth|bot|license|shared)_?-?key$|credential|service_?account|authorization|bearer"
    r"|cookie|auth_?tag|^auth_?data$|identity_?data|certificate_?data|webhook_?url|^pin$|^otp|^jwt$|^psk$",
    re.IGNORECASE,
)
# Names that only sound like secrets: they say where one lies, or how it is used.
_PLAIN_KEY = late(
    r"^secrets$|^(?:main|default|provider|row|primary|sort|cache|hot|idempotency|session)_keys?$"
    r"|(?:provider|source|mode|file|path|ref|name|env|env_?var|type|ttl|prefix(?:es)?|scopes)$",
    re.IGNORECASE,
)
# Objects whose every text may be one: request headers and variables.
_SECRET_TABLE = late(r"^(?:headers|env|vars|environment)$", re.IGNORECASE)
# Arguments of programs: `--token VALUE` in two items of a list, and `--token=VALUE` in one.
_FLAG = late(r"--?([\w-]+)")
_FLAG_VALUE = late(r"(--?([\w-]+)=)\S.*", re.DOTALL)
_BEARER = late(r"bearer\s+\S{8,}", re.IGNORECASE)
_REFERENCE = late(r"\$(?:\{[A-Z_][A-Z0-9_]*\}|[A-Z][A-Z0-9_]{0,127})")


def is_reference(value: Any) -> bool:
    """Say whether a value only names a secret: such a value is shown as it is."""
    if isinstance(value, str):
        return _REFERENCE.fullmatch(value) is not None
    return isinstance(value, dict) and value.get("source") in ("env", "file", "exec", "store") and "id" in value


def is_secret_key(name: str) -> bool:
    """Say whether a key by its name holds a secret."""
    return _SECRET_KEY.search(name) is not None and _PLAIN_KEY.search(name) is None


def redact(value: Any, key: str = "") -> Any:
    """Return the value as it may be shown. Lengths, beginnings and ends of secrets are not shown either."""
    if is_reference(value):
        return value
    if is_secret_key(key):
        return _hide(value)
    if isinstance(value, dict):
        hide_all = bool(_SECRET_TABLE.search(key))
        return {
            name: _hide(inner) if hide_all and isinstance(inner, str) else redact(inner, name)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        before = [None, *value]
        return [_hide(inner) if _announces(before[at], inner) else redact(inner) for at, inner in enumerate(value)]
    if isinstance(value, str):
        return redact_text(value)
    return value


def _announces(flag: Any, value: Any) -> bool:
    found = _FLAG.fullmatch(flag) if isinstance(flag, str) and isinstance(value, str) else None
    return found is not None and is_secret_key(found[1]) and not value.startswith("-")


def redact_text(text: str) -> str:
    """Return free text without what looks like a secret wherever it stands."""
    from homarus.core.redact import redacted

    flag = _FLAG_VALUE.fullmatch(text)
    if flag is not None and is_secret_key(flag[2]) and not is_reference(text[len(flag[1]) :]):
        return f"{flag[1]}{MARKER}"
    return MARKER if _BEARER.fullmatch(text) else redacted(text, MARKER)


def restore(value: Any, old: Any, where: str) -> Any:
    """Return a value that is about to be written, with the old value wherever it holds the marker."""
    if isinstance(value, str) and MARKER in value:
        if value == redact(old, where.rpartition(".")[2]) or (value == MARKER and isinstance(old, str | int | float)):
            return old
        raise ConfigError(
            f"{where}: the marker {MARKER} stands for an old value, and there is none here",
            cure="write the real value, or a reference such as ${NAME}",
        )
    if isinstance(value, dict):
        inner = old if isinstance(old, dict) else {}
        return {key: restore(item, inner.get(key), f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        # In a list that grew or shrank nobody knows which old value a marker means.
        items = old if isinstance(old, list) and len(old) == len(value) else [None] * len(value)
        return [restore(item, items[index], f"{where}[{index}]") for index, item in enumerate(value)]
    return value


def _hide(value: Any) -> Any:
    if is_reference(value) or value is None or isinstance(value, bool) or value == "":
        return value
    if isinstance(value, dict):
        return {name: _hide(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_hide(inner) for inner in value]
    return MARKER
