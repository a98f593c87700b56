"""Secret references: fetched from the environment, a file or a program when they are used, and never at load.

The three sources fail closed, and no message ever holds what a source answered.
"""

from __future__ import annotations

import os
import re
import select
import signal
import stat
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from homarus.config.convert import reason
from homarus.config.keypath import lookup
from homarus.config.paths import Paths, expand
from homarus.config.settings import SecretProvider
from homarus.core.errors import ConfigError, StorageError
from homarus.core.patterns import late
from homarus.storage.boundary import Root

_ALIAS = late(r"[a-z][a-z0-9_-]{0,63}")
_VARIABLE = late(r"[A-Z][A-Z0-9_]{0,127}")
_SHORTHAND = late(r"\$(?:\{([A-Z_][A-Z0-9_]{0,127})\}|([A-Z][A-Z0-9_]{0,127}))")
_EXEC_ID = late(r"[A-Za-z0-9][A-Za-z0-9._:/#-]{0,255}")
_DEFAULT_FILE = "secrets.json"


class SecretRef(msgspec.Struct, frozen=True):
    """Where a secret lies. `provider` names an entry of `secrets.providers`."""

    source: Literal["env", "file", "exec"]
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
    if not _EXEC_ID.fullmatch(ref.id) or any(part in (".", "..") for part in ref.id.split("/")):
        raise ConfigError(f"secret {ref}: the id is not allowed", cure="use letters, digits and . _ : / # -")
    return _from_program(_alias(ref, settings or {}), ref.id, provider, env)


def _alias(ref: SecretRef, settings: Mapping[str, Any]) -> str:
    named = lookup(dict(settings), ("defaults", ref.source))
    return ref.provider or (named if isinstance(named, str) else "default")


def _provider(ref: SecretRef, settings: Mapping[str, Any]) -> SecretProvider:
    """Return the entry that a reference means; one that does not fit its class is refused, not used in part."""
    alias = _alias(ref, settings)
    found = lookup(dict(settings), ("providers", alias))
    if isinstance(found, Mapping) and found.get("source") == ref.source:
        try:
            return msgspec.convert(found, SecretProvider)
        except msgspec.ValidationError as problem:
            key = str(problem).partition(" - at `$.")[2].rstrip("`") or "source"
            why, cure = reason(problem, SecretProvider), f"correct secrets.providers.{alias}"
            raise ConfigError(f"secret {ref}: {key} of its provider {why}", cure=cure) from None
    if ref.source == "exec" or (ref.provider not in ("", "default") and ref.provider == alias):
        raise ConfigError(
            f"secret {ref}: no provider '{alias}' of source '{ref.source}' is configured",
            cure=f"add secrets.providers.{alias} with source '{ref.source}'",
        )
    return SecretProvider(ref.source)


def _from_env(ref: SecretRef, provider: SecretProvider, env: Mapping[str, str]) -> str:
    if provider.allowlist is not None and ref.id not in provider.allowlist:
        raise ConfigError(f"secret {ref}: the provider's allowlist does not name it", cure="add it to the allowlist")
    found = env.get(ref.id, "") if re.fullmatch(r"[A-Z_][A-Z0-9_]*", ref.id) else ""
    if not found:
        raise ConfigError(
            f"secret {ref}: the variable {ref.id} is not set",
            cure=f"export {ref.id}, or put it into .env of the state folder",
        )
    return found


def _from_file(ref: SecretRef, provider: SecretProvider, paths: Paths) -> str:
    path = expand(provider.path, paths.home) if provider.path else paths.state_dir / _DEFAULT_FILE
    data = _read_private(path, allow_shared=provider.allow_insecure_path, max_bytes=provider.max_bytes)
    if provider.mode == "singleValue":
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


def _read_private(path: Path, *, allow_shared: bool, max_bytes: int) -> bytes:
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


def _from_program(alias: str, name: str, provider: SecretProvider, env: Mapping[str, str]) -> str:
    what = f"secret exec:{alias}:{name}"
    command = _command(what, alias, provider)
    request = msgspec.json.encode({"protocolVersion": 1, "provider": alias, "ids": [name]})
    passed = {variable: env[variable] for variable in provider.pass_env if variable in env}
    output = _run(what, command, request, passed | provider.env, provider)
    return _answer(what, name, output, json_only=provider.json_only)


def _command(what: str, alias: str, provider: SecretProvider) -> list[str]:
    named = provider.command
    if not Path(named).is_absolute():
        raise ConfigError(
            f"{what}: the command must be an absolute path", cure=f"set secrets.providers.{alias}.command"
        )
    path = os.path.realpath(named) if provider.allow_symlink_command else named
    try:
        facts = os.lstat(path)
    except OSError as problem:
        raise ConfigError(f"{what}: cannot find {named}: {problem.strerror}", cure="check the command's path") from None
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigError(f"{what}: {named} is no regular file", cure="name the program itself, not a link to it")
    if not provider.allow_insecure_path and facts.st_mode & 0o022:
        raise ConfigError(f"{what}: others may change {named}", cure=f"chmod go-w {named}")
    if provider.trusted_dirs is not None and not any(map(Path(path).is_relative_to, provider.trusted_dirs)):
        raise ConfigError(f"{what}: {named} lies outside trustedDirs", cure="add its folder, or move it")
    return [path, *provider.args]


def _run(what: str, command: list[str], request: bytes, env: dict[str, str], provider: SecretProvider) -> bytes:
    timeout = provider.timeout_ms / 1000
    silence = (provider.no_output_timeout_ms or provider.timeout_ms) / 1000
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd="/",
            start_new_session=True,
        )
    except OSError as problem:
        raise ConfigError(
            f"{what}: cannot run {command[0]}: {problem.strerror}", cure="check that it is executable"
        ) from None
    try:
        output = _collect(child, request, timeout, silence, provider.max_output_bytes)
    finally:
        _end(child)
    if output is None:
        raise ConfigError(
            f"{what}: {command[0]} took too long or said too much", cure="raise timeoutMs or maxOutputBytes"
        )
    if child.returncode != 0:
        raise ConfigError(f"{what}: {command[0]} ended with code {child.returncode}", cure="run it by hand to see why")
    return output


def _collect(
    child: subprocess.Popen[bytes], request: bytes, timeout: float, silence: float, limit: int
) -> bytes | None:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(request)
        child.stdin.close()
    except BrokenPipeError:
        pass  # the program does not care for the request
    deadline = time.monotonic() + timeout
    output = b""
    ready = select.poll()  # a gateway with many clients has more open files than `select` can name
    ready.register(child.stdout, select.POLLIN)
    while len(output) <= limit:
        left = min(deadline - time.monotonic(), silence)
        if left <= 0 or not ready.poll(left * 1000):
            return None
        block = os.read(child.stdout.fileno(), 65536)
        if not block:
            try:
                child.wait(max(0.05, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                return None
            return output
        output += block
    return None


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                pass


def _answer(what: str, name: str, output: bytes, *, json_only: bool) -> str:
    try:
        found = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if json_only:
            raise ConfigError(
                f"{what}: the program did not answer JSON", cure="set jsonOnly: false for plain text"
            ) from None
        found = output.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    if isinstance(found, dict) and isinstance(found.get("values"), dict):
        found = found["values"].get(name)
    elif json_only:
        found = None
    elif not isinstance(found, str):
        found = output.decode("utf-8", "replace").strip()
    if not isinstance(found, str) or not found:
        raise ConfigError(f"{what}: the program has no such secret", cure="check the id")
    return found
