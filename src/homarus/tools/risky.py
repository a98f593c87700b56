"""Commands for which "always" is never an answer: programs that run whatever their arguments say."""

from __future__ import annotations

from pathlib import PurePath

from homarus.core.patterns import late
from homarus.tools.command import SYSTEM, Plan

_SHELLS = {
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "mksh",
    "fish",
    "csh",
    "tcsh",
    "ash",
    "busybox",
    "toybox",
    "rbash",
    "pwsh",
    "nu",
}
_INTERPRETERS = {
    "python",
    "pypy",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "wish",
    "guile",
}
_INTERPRETERS |= {
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "sed",
    "ed",
    "ex",
    "vi",
    "vim",
    "nvim",
    "emacs",
    "m4",
    "bc",
    "dc",
    "gdb",
    "lldb",
}
_INTERPRETERS |= {
    "java",
    "jshell",
    "groovy",
    "scala",
    "kotlin",
    "R",
    "Rscript",
    "julia",
    "ghci",
    "osascript",
    "expect",
    "sqlite3",
}
_CARRIERS = {
    "env",
    "xargs",
    "find",
    "fd",
    "parallel",
    "sudo",
    "su",
    "doas",
    "runuser",
    "setpriv",
    "nohup",
    "nice",
    "ionice",
    "time",
}
_CARRIERS |= {
    "timeout",
    "stdbuf",
    "setsid",
    "script",
    "watch",
    "unshare",
    "nsenter",
    "chroot",
    "bwrap",
    "firejail",
    "strace",
    "ltrace",
}
_CARRIERS |= {
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "tar",
    "zip",
    "git",
    "hg",
    "svn",
    "less",
    "more",
    "man",
    "crontab",
    "at",
    "batch",
    "tmux",
}
_CARRIERS |= {
    "screen",
    "docker",
    "podman",
    "kubectl",
    "systemctl",
    "systemd-run",
    "dbus-send",
    "ld.so",
    "chrt",
    "taskset",
    "flock",
}
_CARRIERS |= {
    "make",
    "cmake",
    "ninja",
    "ant",
    "mvn",
    "gradle",
    "just",
    "curl",
    "wget",
    "nc",
    "ncat",
    "socat",
    "dd",
    "tee",
    "entr",
}
_PACKAGES = {
    "apt",
    "apt-get",
    "aptitude",
    "dpkg",
    "yum",
    "dnf",
    "rpm",
    "pacman",
    "apk",
    "zypper",
    "brew",
    "snap",
    "flatpak",
    "nix",
}
_PACKAGES |= {
    "pip",
    "pipx",
    "uv",
    "uvx",
    "poetry",
    "conda",
    "mamba",
    "npm",
    "npx",
    "yarn",
    "pnpm",
    "gem",
    "bundle",
    "cargo",
    "go",
}
_PACKAGES |= {"composer", "luarocks", "cpan", "cpanm", "easy_install", "rustup", "stack", "cabal", "corepack"}
NEVER = frozenset(_SHELLS | _INTERPRETERS | _CARRIERS | _PACKAGES)
_VERSION = late(r"[-.]?\d[\d.]*$")
_RUNS = (
    "-exec",
    "-ok",
    "--exec",
    "-e=",
    "--eval",
    "--command",
    "--to-command",
    "--checkpoint-action",
    "--rsh",
    "--pre",
    "--compress-program",
    "--filter",
    "--use-",
)


def may_last(plan: Plan) -> bool:
    """Say whether "always" may be answered for a command: one plain program of the system that runs nothing else."""
    if len(plan.pipeline) != 1 or plan.shell or plan.spec.enforced:
        return False
    program, *rest = plan.pipeline[0]
    if not program.startswith(SYSTEM):
        return False
    name = PurePath(program).name
    stem = _VERSION.sub("", name)
    if name in NEVER or stem in NEVER or name.startswith("ld-linux"):
        return False
    return not any(word.startswith(_RUNS) for word in rest)
