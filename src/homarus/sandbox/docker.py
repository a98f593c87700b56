"""Docker, when asked for. The options are ours and fixed: nothing in a configuration can add a dangerous one."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from homarus.core.errors import ToolError
from homarus.sandbox.folders import layers
from homarus.sandbox.ownership import is_orphan, owned
from homarus.sandbox.spawn import memory_file
from homarus.sandbox.spec import SandboxSpec

_LABEL = "homarus.owner"


def command(
    spec: SandboxSpec,
    argv: Sequence[str],
    *,
    cwd: str,
    variables: Sequence[str] = (),
    name: str = "",
    tty: bool = False,
) -> list[str]:
    """Return the command line that runs `argv` in a container of the spec's image."""
    line = [
        *(spec.binary or "docker", "run", "--rm", "--interactive", "--init", "--read-only", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--network", "bridge" if spec.network else "none"),
        *("--tmpfs", "/tmp:rw,nosuid,nodev", "--tmpfs", "/run:rw,nosuid,nodev", "--hostname", "sandbox"),  # noqa: S108
        *("--user", spec.user or "1000:1000", "--label", f"{_LABEL}={_owner()}"),
    ]
    line += ["--name", name] if name else []
    line += ["--tty"] if tty else []
    limits = spec.limits
    line += ["--memory", str(limits.memory_bytes)] if limits.memory_bytes else []
    line += ["--pids-limit", str(limits.processes)] if limits.processes else []
    line += ["--ulimit", f"cpu={limits.cpu_seconds}"] if limits.cpu_seconds else []
    for path, writable in layers(spec):
        if any(char in path for char in ',"\n'):
            # The option is a list with commas; what stands behind one would be an option of its own.
            raise ToolError(f"{path} cannot be shown in a container", cure="use a folder without commas and quotes")
        line += ["--mount", f"type=bind,source={path},target={path}{'' if writable else ',readonly'}"]
    return [*line, *variables, "--workdir", cwd if spec.can_read(cwd) else "/tmp", "--", spec.image, *argv]  # noqa: S108


def variables(env: Mapping[str, str], held: list[int]) -> list[str]:
    """Return the options that give a container its variables, from a file that only we can open.

    On a command line every user of the machine would see them, and in the client's own environment names such as
    DOCKER_HOST would mean something to it. `held` takes the file's descriptor.
    """
    # The file holds a variable a line; a value of several lines can only stand on the command line.
    whole = {name: value for name, value in env.items() if "\n" in value or "\r" in value}
    text = "".join(f"{name}={value}\n" for name, value in sorted(env.items()) if name not in whole)
    file = memory_file(os.fsencode(text), held)
    return [f"--env-file=/dev/fd/{file}", *(f"--env={name}={value}" for name, value in sorted(whole.items()))]


def stop_command(spec: SandboxSpec, *names: str) -> list[str]:
    """Return what ends containers: killing the client alone would leave them running, or made and never started."""
    return [spec.binary or "docker", "rm", "--force", "--", *names]


def list_command(spec: SandboxSpec) -> list[str]:
    """Return what lists our containers, each with its owner: see `left`."""
    shown = f'{{{{.ID}}}} {{{{.Label "{_LABEL}"}}}}'
    return [spec.binary or "docker", "ps", "--all", "--filter", f"label={_LABEL}", "--format", shown]


def left(listed: str) -> list[str]:
    """Return the containers in a list whose owner, on this machine, is gone: it was killed before it could end them."""
    here = _here()
    pairs = [line.split() for line in listed.splitlines() if len(line.split()) == 2]
    return [name for name, owner in pairs if owner.rpartition(".")[2] == here and is_orphan(owner)]


def _owner() -> str:
    return owned(_here())


@cache
def _here() -> str:
    """Return a word for where a number means a process: an engine may serve several machines, and containers in one."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return "nowhere"


@cache
def available(binary: str = "docker") -> bool:
    import shutil

    if shutil.which(binary) is None:
        return False
    try:
        return subprocess.run([binary, "info"], capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


_swept: set[tuple[int, str]] = set()


async def end_orphans(spec: SandboxSpec) -> None:
    """Remove containers that killed processes left behind, once in a process. For the first that is made."""
    if (os.getpid(), spec.binary) not in _swept:
        _swept.add((os.getpid(), spec.binary))
        listed = await called(list_command(spec))
        if names := left(listed.decode("utf-8", "replace")):
            await called(stop_command(spec, *names))


async def called(line: list[str]) -> bytes:
    """Run a program of ours and return what it prints; nothing when it cannot be run."""
    try:
        process = await asyncio.create_subprocess_exec(
            *line, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, stdin=asyncio.subprocess.DEVNULL
        )
    except OSError:
        return b""
    return (await process.communicate())[0]
