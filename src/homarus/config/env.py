"""The environment of a configuration: `.env` of the home, `env.vars`, `${NAME}` in values, and OPENCLAW_* overrides. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from homarus.config.keypath import KeyPath, lookup
from homarus.core.patterns import late

_VARIABLE = late(r"\$(\$?)\{([A-Z_][A-Z0-9_]*)\}")
_DOTENV = late(
    r"""^[ \t]*(?:export[ \t]+)?([\w.-]+)(?:[ \t]*=[ \t]*|:[ \t]+)
        (?:"((?:\\"|[^"])*)"|'((?:\\'|[^'])*)'|`((?:\\`|[^`])*)`|([^\#\r\n]*))[ \t]*(?:\#[^\r\n]*)?\r?$""",
    re.VERBOSE | re.MULTILINE,
)
_UNSET = object()

Missing = Callable[[KeyPath, str], None]


def parse_dotenv(text: str) -> dict[str, str]:
    """Return the variables of a `.env` file, by the rules of the npm package `dotenv`, for which such files were written.

    Three kinds of quotes; `\\n` and `\\r` count in double ones alone; `#` ends a value without quotes, a blank before it or
    not. Lines that are no variable are skipped, the last of a name wins.
    """
    found = {}
    for name, double, single, back, bare in _DOTENV.findall(text):
        found[name] = double.replace("\\n", "\n").replace("\\r", "\r") or single or back or bare.strip()
    return found


def inline_variables(document: Mapping[str, Any]) -> dict[str, str]:
    """Return `env.vars`, and the older form with the names directly under `env`."""
    block = document.get("env")
    if not isinstance(block, dict):
        return {}
    named = block.get("vars")
    every = {**block, **(named if isinstance(named, dict) else {})}
    return {name: value for name, value in every.items() if isinstance(value, str) and name != "vars"}


def layered(process: Mapping[str, str], *lower: Mapping[str, str]) -> dict[str, str]:
    """Return one environment in which the process wins and each lower layer only fills what is missing or empty."""
    merged: dict[str, str] = {}
    for layer in (process, *lower):
        for name, value in layer.items():
            if not merged.get(name):
                merged[name] = value
    return merged


def substitute(value: Any, env: Mapping[str, str], missing: Missing, path: KeyPath = ()) -> Any:
    """Return the value with every `${NAME}` filled in. A value with a missing variable is unset, and `missing` hears of it.

    A rule about tools stays as it is written: it then names nothing that exists, where unset it would restrict nothing.

    Only text changes, never a key. `$${NAME}` is the way to write `${NAME}` itself.
    """
    found = _filled(value, env, missing, path)
    return None if found is _UNSET else found


def _filled(value: Any, env: Mapping[str, str], missing: Missing, path: KeyPath) -> Any:
    if isinstance(value, str):
        return _text(value, env, missing, path) if "${" in value else value
    if isinstance(value, dict):
        pairs = [(key, _filled(inner, env, missing, (*path, key))) for key, inner in value.items()]
        return {key: inner for key, inner in pairs if inner is not _UNSET}
    if isinstance(value, list):
        items = [_filled(inner, env, missing, (*path, index)) for index, inner in enumerate(value)]
        return [inner for inner in items if inner is not _UNSET]
    return value


def _text(text: str, env: Mapping[str, str], missing: Missing, path: KeyPath) -> Any:
    absent = []

    def fill(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        found = env.get(match[2], "")
        if not found:
            absent.append(match[2])
        # Bytes of the environment that are no text would make the value impossible to print or to send.
        return found.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    filled = _VARIABLE.sub(fill, text)
    for name in dict.fromkeys(absent):
        missing(path, name)
    if absent and not {"tools", "toolsBySender"}.isdisjoint(path) and "web" not in path:
        return text
    return _UNSET if absent else filled


# variable -> (key, how it is read, whether it wins over the file)
_OVERRIDES: dict[str, tuple[KeyPath, str, bool]] = {
    "OPENCLAW_GATEWAY_PORT": (("gateway", "port"), "port", True),
    "OPENCLAW_GATEWAY_URL": (("gateway", "remote", "url"), "text", True),
    "OPENCLAW_GATEWAY_TOKEN": (("gateway", "auth", "token"), "secret", False),
    "OPENCLAW_GATEWAY_PASSWORD": (("gateway", "auth", "password"), "secret", False),
    "OPENCLAW_HANDSHAKE_TIMEOUT_MS": (("gateway", "handshakeTimeoutMs"), "count", True),
    "OPENCLAW_LOG_LEVEL": (("logging", "level"), "text", True),
}


def apply_overrides(document: dict[str, Any], env: Mapping[str, str], bad: Callable[[str, str], None]) -> None:
    """Write the OPENCLAW_* settings into the canonical document; `bad` hears of a value that is none.

    A secret of the environment only fills a gap, and goes in as a reference: the document never holds its text.
    """
    for name, (path, kind, wins) in _OVERRIDES.items():
        text = env.get(name, "").strip()
        if not text or (not wins and lookup(document, path) not in (None, "")):
            continue
        value: Any = text
        if kind == "secret":
            value = {"source": "env", "provider": "default", "id": name}
        elif kind in ("port", "count"):
            if not (text.isascii() and text.isdigit() and 0 < int(text[:10]) <= (65535 if kind == "port" else 10**9)):
                bad(name, f"'{text[:40]}' is no {'port' if kind == 'port' else 'number of milliseconds'}")
                continue
            value = int(text)
        here = document
        for step in path[:-1]:
            inner = here.get(str(step))
            if not isinstance(inner, dict):
                inner = here[str(step)] = {}
            here = inner
        here[str(path[-1])] = value
