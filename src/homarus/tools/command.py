"""From a call of exec to the one object that is judged, approved and run. There is no other way from a text to a command."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.errors import Denied, ToolError
from homarus.core.patterns import late
from homarus.sandbox.resolve import clean_environment, is_owners_variable
from homarus.sandbox.spec import Backend, SandboxSpec
from homarus.storage.beneath import real_path
from homarus.tools import git
from homarus.tools.protected import LOCKED, LOCKED_FOLDERS, NOTES
from homarus.tools.shell import Parsed, parse, quoted
from homarus.tools.tool import ToolContext

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")
# What stands between the words of a shell command, whatever they mean in it.
# Programs that start no other, whatever their arguments say, and read no file that tells them to: for them "always" is an answer.
_NAMES = (
    "ls cat head tail wc stat du df date uptime uname whoami id hostname pwd echo printf true false basename "
    "dirname realpath readlink cut tr uniq comm diff cmp grep md5sum sha1sum sha256sum sha512sum b2sum cksum nproc "
    "free ps lsblk lscpu tree mkdir rmdir touch rm"
)
_PLAIN = frozenset(_NAMES.split())
_MULTI = frozenset({"coreutils"})  # one file that is many of these, by the name it is called by
_MAX_WORDS, _MAX_WORD = 32, 256
_SIGNS = late(r"""[\s'"`<>|;&(){}$]+""")
_KERNEL = ("/proc/", "/sys/", "/dev/")
_MAX_FILES, _MAX_FILE_BYTES = 256, 16 << 20


class Plan(Struct, frozen=True):
    """Exactly what would run. Two plans with one digest do the same thing."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    spec: SandboxSpec
    # What the model wrote, for people to read.
    command: str
    # The programs, taken apart; empty when only a shell can read the command.
    pipeline: tuple[tuple[str, ...], ...] = ()
    # Why a shell is needed, in words.
    shell: str = ""
    # Files that the command names and somebody may have written, by content.
    files: tuple[tuple[str, str], ...] = ()
    # Whether nothing else may write in the same folders while it runs.
    apart: bool = False

    @property
    def on_host(self) -> bool:
        return not self.spec.enforced

    def uses(self, sandbox: SandboxSpec) -> list[str]:
        """Return where what it runs may lie: its folder, what it names, and all that the turn's own commands can write."""
        return [self.cwd, *(path for path, _ in self.files), sandbox.workspace, *(each.path for each in sandbox.mounts)]

    @property
    def digest(self) -> str:
        """Return the hash of everything that decides what runs."""
        facts = (self.argv, self.cwd, sorted(self.env.items()), self.spec, self.files)
        return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def make_plan(context: ToolContext, arguments: Mapping[str, Any], outer: Mapping[str, str]) -> Plan:
    """Return the plan of a call. The same call in the same world gives the same plan; it runs nothing."""
    command = arguments["command"]
    if not command.strip() or "\x00" in command:
        raise ToolError("the command is empty or holds a NUL byte", cure="give a command such as ls -l")
    outside = "host" if context.wish.outside and context.sandbox.enforced else ""
    spec = _spec(context.sandbox, arguments.get("host", outside))
    if context.restricted:
        # Into notes only the file tools write then: they say in each line whose words it may hold.
        spec = replace(spec, locked=tuple(sorted({*spec.locked, *LOCKED, *LOCKED_FOLDERS, *NOTES})))
    cwd = _folder(context, arguments.get("workdir", ""), spec)
    extra = arguments.get("env") or {}
    for name, value in extra.items():
        if is_owners_variable(name) or (name.upper() == "HOME" and not spec.enforced):
            raise ToolError(f"the variable '{name}' cannot be set", cure="write it into the command itself if you must")
        if not isinstance(value, str) or "\x00" in value:
            raise ToolError(f"the variable '{name}' needs a text", cure='give env as {"NAME": "value"}')
    # The home of the user is for paths with a tilde; a sandbox has one of its own.
    given = {name: value for name, value in context.env.items() if name != "HOME"}
    env = clean_environment(spec, outer, {**given, **extra})
    if spec.enforced:
        if not context.restricted and (own := git.alone(command, cwd, env, spec)):
            return Plan(("/bin/sh", "-c", own.script), cwd, own.env, own.spec, command, apart=own.writes)
        return Plan(("/bin/sh", "-c", command), cwd, env, spec, command)
    return _on_host(Plan((), cwd, env, spec, command), parse(command))


def may_last(plan: Plan) -> bool:
    """Say whether "always" may be answered for a command: one plain program of the system, with few and short arguments."""
    if len(plan.pipeline) != 1 or plan.shell or plan.spec.enforced:
        return False
    program, *rest = plan.pipeline[0]
    named, real = os.path.normpath(program), os.path.realpath(program)
    return (
        named.startswith(SYSTEM)
        and real.startswith(SYSTEM)
        and os.path.basename(named) in _PLAIN
        and os.path.basename(real) in _PLAIN | _MULTI
        and len(rest) <= _MAX_WORDS
        and all(len(word) <= _MAX_WORD for word in rest)
    )


def _on_host(plan: Plan, parsed: Parsed) -> Plan:
    pipeline = tuple((_program(argv[0], plan.cwd), *argv[1:]) for argv in parsed.pipeline)
    if len(pipeline) == 1:
        argv = pipeline[0]
    elif pipeline:
        # Joined by a shell that finds nothing to expand: every word is quoted, every program named by its place.
        argv = ("/bin/sh", "-c", quoted(pipeline))
    else:
        argv = ("/bin/sh", "-c", plan.command)
    words = [word for part in pipeline for word in part] if pipeline else _SIGNS.split(plan.command)
    return replace(plan, argv=argv, pipeline=pipeline, shell=parsed.reason, files=_files(words, plan.cwd))


def _spec(spec: SandboxSpec, host: str) -> SandboxSpec:
    if host == "sandbox" and not spec.enforced:
        raise Denied("this session has no sandbox, so nothing can run in it", cure="leave host out")
    return replace(spec, backend=Backend.OFF, refused="") if host == "host" else spec


def _folder(context: ToolContext, wanted: str, spec: SandboxSpec) -> str:
    path = os.path.normpath(context.cwd / os.path.expanduser(wanted)) if wanted else str(context.cwd)  # noqa: PTH111
    if spec.enforced:
        if wanted and not spec.can_read(path):
            raise ToolError(f"{path} is not in the sandbox", cure=f"use a folder below {context.workspace}")
        return path
    if not os.path.isdir(path):  # noqa: PTH112 - a plan is made twice for every command
        raise ToolError(f"there is no folder {path}", cure="check it with ls")
    return real_path(path)  # a link on the way could lead elsewhere by the time of a yes


def _program(name: str, cwd: str) -> str:
    """Return where a program lies: by the fixed path, or by its own path from the folder of the command."""
    if "/" in name:
        found = os.path.normpath(os.path.join(cwd, name))  # noqa: PTH118
        return found if os.access(found, os.X_OK) else name
    for folder in PATH.split(":"):
        found = f"{folder}/{name}"
        if os.access(found, os.X_OK) and not os.path.isdir(found):  # noqa: PTH112
            return found
    raise ToolError(
        f"there is no program '{name}'", cure="check the name; programs are looked for in the system's folders"
    )


def _files(words: list[str], cwd: str) -> tuple[tuple[str, str], ...]:
    """Return what the words name outside of the system's folders: files by their content, links by where they lead."""
    found: dict[str, str] = {}
    for word in words:
        # An option may carry a path behind its sign: --file=x, -fx, @x.
        for text in {word, word.partition("=")[2], word.lstrip("@"), word[2:] if word.startswith("-") else ""}:
            if not text or len(text) > 4096 or "\x00" in text:
                continue
            path = os.path.normpath(os.path.join(cwd, text))  # noqa: PTH118
            if "/" in text and not os.path.lexists(path):
                path = os.path.dirname(path)
            if path in found or not os.path.lexists(path):
                continue
            if len(found) >= _MAX_FILES:
                raise ToolError(f"the command names more than {_MAX_FILES} files", cure="do it in smaller steps")
            real = real_path(path)
            if real != path:
                found[path] = f"leads to {real}"
            if not real.startswith(SYSTEM):
                found[real] = _content(real)
    return tuple(sorted(found.items()))


def _content(path: str) -> str:
    """Return what a file holds, or which folder or device it is. Nothing is waited for: a pipe has no content."""
    try:
        facts = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(facts.st_mode) or path.startswith(_KERNEL):
            return f"{facts.st_dev}:{facts.st_ino}"
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(fd, "rb") as file:  # noqa: PTH123
            more = f"+{facts.st_size}:{facts.st_mtime_ns}" if facts.st_size > _MAX_FILE_BYTES else ""
            return hashlib.sha256(file.read(_MAX_FILE_BYTES) or b"").hexdigest() + more
    except OSError:
        return "unreadable"
