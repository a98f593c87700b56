"""Commands that are git and nothing else. They alone may write into a repository: see `sandbox/folders`.

Whoever can write into a repository decides what runs when its owner uses git. So such a command is read before it runs: some
subcommands of git, joined by `&&`, without an expansion. It runs in the sandbox like every other, with one repository that
may change, and with nothing in between that a model wrote: no hooks, no monitor, no editor, no repository inside this one.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from homarus.sandbox.folders import GIT, roots
from homarus.sandbox.spec import SandboxSpec
from homarus.tools.shell import parse_list

_NEW = frozenset({"add", "commit", "stash"})  # they make what was not in the repository before
_OLD = frozenset({"branch", "checkout", "gc", "merge", "reset", "restore", "rm", "status", "switch", "tag"})
# They write files beside the repository. A command that runs meanwhile could lead them into it by a link.
WRITERS = frozenset({"checkout", "merge", "reset", "restore", "rm", "stash", "switch"})
_STASH = frozenset({"push", "save", "pop", "apply", "drop", "clear"})
_AUTHOR = ("GIT_AUTHOR_", "GIT_COMMITTER_")
_WHO = ("user.name=", "user.email=")
# `--output` writes any file; the other one runs git in a repository inside this one.
_REFUSED = ("--ou", "--rec", "--no-rec")
# A repository inside this one would be looked into with the settings that it brings along, here and at its owner's next
# `git status`. What a step has brought in is taken out again, and the line ends.
_SCRIPT = r"""
git() {
    command git --no-pager -c core.hooksPath=/dev/null -c core.fsmonitor=false -c diff.ignoreSubmodules=all \
        -c submodule.recurse=false -c gc.autoDetach=false "$@"
}
links() { git ls-files -s | grep '^160000 '; }
index=$GIT_DIR/index
note() { was=$(links); head=$(git rev-parse -q --verify HEAD); rm -f "$TMPDIR/index"; test ! -e "$index" || cp "$index" "$TMPDIR/index"; }
check() {
    test "$(links)" != "$was" || return 0
    if test "$head"; then git reset -q --soft "$head"; else git update-ref -d HEAD; fi
    rm -f "$index"; test ! -e "$TMPDIR/index" || cp "$TMPDIR/index" "$index"
    echo 'git: a repository inside this one cannot be added; name the files to add, or list it in .gitignore' >&2
    exit 1
}
note
"""


class Alone(Struct, frozen=True):
    script: str
    env: dict[str, str]
    spec: SandboxSpec
    # Whether it writes beside the repository, and so must be the only command there.
    writes: bool


def alone(command: str, cwd: str, env: Mapping[str, str], spec: SandboxSpec) -> Alone | None:
    """Return how a command runs that is git alone; None for any other."""
    cwd, steps = os.path.realpath(cwd), parse_list(command)
    if steps and len(steps[0]) == 2 and steps[0][0] == "cd":
        cwd, steps = os.path.realpath(os.path.join(cwd, steps[0][1])), steps[1:]  # noqa: PTH118
    names = [_subcommand(step) for step in steps]
    if not names or not all(names) or not any(name != "status" for name in names):
        return None
    top = _worktree(cwd, spec)
    if not top:
        return None
    lines = [
        f"{shlex.join(step)} && check || exit" if name in _NEW else f"{shlex.join(step)} && note || exit"
        for step, name in zip(steps, names, strict=True)
    ]
    given = {name: value for name, value in env.items() if not name.startswith("GIT_") or name.startswith(_AUTHOR)}
    given |= {"GIT_DIR": f"{top}/{GIT}", "GIT_WORK_TREE": top, "GIT_EDITOR": "true", "TMPDIR": "/tmp", "HOME": "/tmp"}  # noqa: S108
    script = "\n".join([f"cd {shlex.quote(cwd)} || exit", _SCRIPT.strip(), *lines])
    return Alone(script, given, replace(spec, commits=f"{top}/{GIT}"), not WRITERS.isdisjoint(names))


def _subcommand(step: tuple[str, ...]) -> str:
    """Return which subcommand of git a step is, nothing if it is none of ours or is told too much."""
    words = list(step)
    if words[:1] != ["git"] or any(word.startswith(_REFUSED) and word != "--ours" for word in words):
        return ""
    words = words[1:]
    while words[:1] == ["-c"] and len(words) > 1 and words[1].startswith(_WHO):
        words = words[2:]
    name = words[0] if words else ""
    if name == "stash" and words[1:] and words[1] not in _STASH:
        return ""
    return name if name in _NEW | _OLD else ""


def _worktree(cwd: str, spec: SandboxSpec) -> str:
    """Return the folder whose repository a command in `cwd` would use, if it lies in one that can be written; no link counts."""
    inside = [root for root, writable in roots(spec) if writable and f"{cwd}/".startswith(f"{root}/")]
    folder = cwd
    while any(f"{folder}/".startswith(f"{root}/") for root in inside):
        found = f"{folder}/{GIT}"
        if os.path.lexists(found):
            plain = os.path.isdir(found) and os.path.realpath(found) == found  # noqa: PTH112
            return folder if plain else ""
        folder = os.path.dirname(folder)
    return ""
