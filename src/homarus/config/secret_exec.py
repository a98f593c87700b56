"""Secrets from a program: an absolute path, arguments without a shell, a clean environment, a deadline, a size limit.

The program reads one JSON request on standard input and answers one JSON object, or plain text with `jsonOnly: false`.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from homarus.core.errors import ConfigError

DEFAULT_TIMEOUT_MS = 5000
MAX_TIMEOUT_MS = 120_000
MAX_OUTPUT = 1024 * 1024


def from_program(alias: str, name: str, provider: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Return the secret that the provider's program gives for this id."""
    what = f"secret exec:{alias}:{name}"
    command = _command(what, alias, provider)
    request = msgspec.json.encode({"protocolVersion": 1, "provider": alias, "ids": [name]})
    output = _run(what, command, request, _environment(provider, env), provider)
    return _answer(what, name, output, json_only=provider.get("jsonOnly") is not False)


def _command(what: str, alias: str, provider: Mapping[str, Any]) -> list[str]:
    named, args = provider.get("command"), provider.get("args", [])
    if not isinstance(named, str) or not Path(named).is_absolute():
        raise ConfigError(
            f"{what}: the command must be an absolute path", cure=f"set secrets.providers.{alias}.command"
        )
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        raise ConfigError(f"{what}: args must be a list of texts", cure=f"correct secrets.providers.{alias}.args")
    path = os.path.realpath(named) if provider.get("allowSymlinkCommand") is True else named
    try:
        facts = os.lstat(path)
    except OSError as problem:
        raise ConfigError(f"{what}: cannot find {named}: {problem.strerror}", cure="check the command's path") from None
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigError(f"{what}: {named} is no regular file", cure="name the program itself, not a link to it")
    if provider.get("allowInsecurePath") is not True and facts.st_mode & 0o022:
        raise ConfigError(f"{what}: others may change {named}", cure=f"chmod go-w {named}")
    trusted = provider.get("trustedDirs")
    if isinstance(trusted, list) and not any(isinstance(d, str) and Path(path).is_relative_to(d) for d in trusted):
        raise ConfigError(f"{what}: {named} lies outside trustedDirs", cure="add its folder, or move it")
    return [path, *args]


def _environment(provider: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
    passed, fixed = provider.get("passEnv"), provider.get("env")
    clean = {name: env[name] for name in passed if name in env} if isinstance(passed, list) else {}
    if isinstance(fixed, Mapping):
        clean |= {name: value for name, value in fixed.items() if isinstance(value, str)}
    return clean


def _bound(provider: Mapping[str, Any], key: str, default: int, largest: int) -> int:
    asked = provider.get(key)
    return min(asked, largest) if isinstance(asked, int) and not isinstance(asked, bool) and asked > 0 else default


def _run(what: str, command: list[str], request: bytes, env: dict[str, str], provider: Mapping[str, Any]) -> bytes:
    timeout = _bound(provider, "timeoutMs", DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS) / 1000
    silence = _bound(provider, "noOutputTimeoutMs", round(timeout * 1000), MAX_TIMEOUT_MS) / 1000
    limit = _bound(provider, "maxOutputBytes", MAX_OUTPUT, 64 * MAX_OUTPUT)
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
        output = _collect(child, request, timeout, silence, limit)
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
    while len(output) <= limit:
        left = min(deadline - time.monotonic(), silence)
        if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
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
