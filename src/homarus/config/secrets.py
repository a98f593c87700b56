"""Secret references: fetched from the environment, a file or a program when they are used, and never at load.

The three sources fail closed, and no message ever holds what a source answered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from homarus.config.keypath import lookup
from homarus.config.paths import Paths, expand
from homarus.core.errors import ConfigError, StorageError
from homarus.core.patterns import late
from homarus.storage.boundary import Root

_ALIAS = late(r"[a-z][a-z0-9_-]{0,63}")
_VARIABLE = late(r"[A-Z][A-Z0-9_]{0,127}")
_SHORTHAND = late(r"\$(?:\{([A-Z_][A-Z0-9_]{0,127})\}|([A-Z][A-Z0-9_]{0,127}))")
_EXEC_ID = late(r"[A-Za-z0-9][A-Za-z0-9._:/#-]{0,255}")
_DEFAULT_FILE = "secrets.json"
MAX_BYTES = 1024 * 1024


class SecretRef(msgspec.Struct, frozen=True):
    """Where a secret lies. `provider` names an entry of `secrets.providers`."""

    source: str
    id: str
    provider: str = ""

    def __str__(self) -> str:
        return f"{self.source}:{self.provider or 'default'}:{self.id}"


def parse_ref(value: Any) -> SecretRef | None:
    """Return the reference that a value is, or None where it is plain text. Raises ConfigError for a broken one."""
    if isinstance(value, str):
        match = _SHORTHAND.fullmatch(value.strip()) if "$" in value else None
        return SecretRef("env", match[1] or match[2]) if match else None
    if not isinstance(value, Mapping):
        raise ConfigError("a secret must be text or a reference", cure='write { source: "env", id: "NAME" }')
    source, name, provider = value.get("source"), value.get("id"), value.get("provider") or ""
    if source not in ("env", "file", "exec"):
        cure = "use source env, file or exec"
        if source == "store":
            cure = "OpenClaw's own store is not read; " + cure
        raise ConfigError(f"a secret reference has the unknown source {source!r}", cure=cure)
    if (
        not isinstance(name, str)
        or not name
        or not isinstance(provider, str)
        or (provider and not _ALIAS.fullmatch(provider))
    ):
        raise ConfigError(
            f"a secret reference of source '{source}' is incomplete", cure="give it an id, and a provider in lower case"
        )
    return SecretRef(source, name, provider)


def resolve_secret(
    value: Any,
    env: Mapping[str, str],
    paths: Paths,
    *,
    settings: Mapping[str, Any] | None = None,
) -> str:
    """Return the secret itself. `settings` is the `secrets` block, with the providers that references name."""
    ref = parse_ref(value)
    if ref is None:
        return str(value)
    provider = _provider(ref, settings or {})
    if ref.source == "env":
        return _from_env(ref, provider, env)
    if ref.source == "file":
        return _from_file(ref, provider, paths)
    from homarus.config.secret_exec import from_program

    if not _EXEC_ID.fullmatch(ref.id) or any(part in (".", "..") for part in ref.id.split("/")):
        raise ConfigError(f"secret {ref}: the id is not allowed", cure="use letters, digits and . _ : / # -")
    return from_program(ref.provider or _alias(ref, settings or {}), ref.id, provider, env)


def _alias(ref: SecretRef, settings: Mapping[str, Any]) -> str:
    named = lookup(dict(settings), ("defaults", ref.source))
    return ref.provider or (named if isinstance(named, str) else "default")


def _provider(ref: SecretRef, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    alias = _alias(ref, settings)
    found = lookup(dict(settings), ("providers", alias))
    if isinstance(found, Mapping) and found.get("source") == ref.source:
        return found
    if ref.source == "exec" or (ref.provider not in ("", "default") and ref.provider == alias):
        raise ConfigError(
            f"secret {ref}: no provider '{alias}' of source '{ref.source}' is configured",
            cure=f"add secrets.providers.{alias} with source '{ref.source}'",
        )
    return {}


def _from_env(ref: SecretRef, provider: Mapping[str, Any], env: Mapping[str, str]) -> str:
    allowed = provider.get("allowlist")
    if isinstance(allowed, list) and ref.id not in allowed:
        raise ConfigError(f"secret {ref}: the provider's allowlist does not name it", cure="add it to the allowlist")
    found = env.get(ref.id, "") if re.fullmatch(r"[A-Z_][A-Z0-9_]*", ref.id) else ""
    if not found:
        raise ConfigError(
            f"secret {ref}: the variable {ref.id} is not set",
            cure=f"export {ref.id}, or put it into .env of the state folder",
        )
    return found


def _from_file(ref: SecretRef, provider: Mapping[str, Any], paths: Paths) -> str:
    named = provider.get("path")
    path = expand(named, paths.home) if isinstance(named, str) and named else paths.state_dir / _DEFAULT_FILE
    data = read_private(path, allow_shared=provider.get("allowInsecurePath") is True, max_bytes=_limit(provider))
    if provider.get("mode") == "singleValue":
        if ref.id != "value":
            raise ConfigError(f"secret {ref}: {path} holds one value", cure='use the id "value"')
        text = data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    else:
        text = _pointer(data, ref, path)
    if not text:
        raise ConfigError(f"secret {ref}: {path} holds nothing there", cure="fill it in")
    return text


def _pointer(data: bytes, ref: SecretRef, path: Path) -> str:
    try:
        here: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigError(
            f"secret {ref}: {path} is no JSON", cure="correct it, or set the provider's mode to singleValue"
        ) from None
    for part in ref.id.removeprefix("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(here):
            here = here[int(name[:9])]
        else:
            here = here.get(name) if isinstance(here, dict) else None
    if not isinstance(here, str):
        raise ConfigError(
            f"secret {ref}: {path} has no text at {ref.id}", cure="use a JSON pointer such as /providers/name/apiKey"
        )
    return here


def read_private(path: Path, *, allow_shared: bool = False, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a file that only its owner may read; refuse one that others could have read or replaced."""
    try:
        with Root(path.parent) as root:
            descriptor = root.open(path.name, os.O_RDONLY)
    except StorageError as problem:
        raise ConfigError(
            f"cannot read the secrets in {path}: {problem.message}", cure="check the path and its permissions"
        ) from None
    try:
        facts = os.fstat(descriptor)
        if not allow_shared and (facts.st_mode & 0o077 or facts.st_uid not in (os.geteuid(), 0)):
            raise ConfigError(f"{path} holds secrets and others may read it", cure=f"chmod 600 {path}, and own it")
        with os.fdopen(os.dup(descriptor), "rb") as handle:
            data = handle.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise ConfigError(f"{path} is too large for secrets", cure="raise maxBytes of the provider, or split it")
    return data


def _limit(provider: Mapping[str, Any]) -> int:
    asked = provider.get("maxBytes")
    return asked if isinstance(asked, int) and 0 < asked <= 64 * MAX_BYTES else MAX_BYTES
