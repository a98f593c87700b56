"""Commands for which "always" is never an answer: programs that run whatever their arguments say."""

from __future__ import annotations

import os
from pathlib import PurePath

from homarus.core.patterns import late
from homarus.tools.command import SYSTEM, Plan

_SHELLS = "sh bash dash zsh ksh mksh fish csh tcsh ash busybox toybox rbash pwsh nu"
_INTERPRETERS = (
    "python pypy perl ruby node nodejs deno bun php lua luajit tclsh wish guile awk gawk mawk nawk sed ed ex vi vim nvim "
    "emacs emacsclient nano m4 bc dc gdb lldb java jshell groovy scala kotlin R Rscript julia ghci osascript expect "
    "view rview rvim vimdiff pico rnano sensible-editor editor select-editor pdb pydoc scriptlive jrunscript "
    "sqlite3 psql mysql mariadb ipython jupyter octave bpftrace stap erl elixir iex racket sbcl clisp"
)
# They start what their arguments name, or what a file beside them says.
_CARRIERS = (
    "env xargs find fd parallel sudo su doas pkexec runuser setpriv sg newgrp nohup nice ionice time timeout stdbuf setsid "
    "script watch unshare nsenter chroot bwrap firejail strace ltrace perf valgrind gdbserver ssh scp sftp rsync tar zip "
    "cpio git hg svn less more man crontab at batch tmux screen docker podman kubectl helm systemctl systemd-run busctl "
    "dbus-send dbus-launch ld.so chrt taskset flock prlimit choom numactl setarch linux32 linux64 capsh runcon aa-exec "
    "start-stop-daemon run-parts fakeroot proot faketime unbuffer rlwrap ssh-agent ssh-keygen ip tcpdump nmap openssl gpg "
    "pandoc mail mailx mutt sendmail xdg-open sysctl modprobe insmod mount update-alternatives ansible ansible-playbook "
    "terraform vagrant direnv pre-commit gh make gmake cmake ninja meson bazel scons ant mvn gradle just rake invoke tox nox "
    "ldd catchsegv run-mailcap see compose pager zless zmore xzless xzmore bzless bzmore lesspipe perldoc prove sensible-pager "
    "sensible-browser www-browser x-www-browser service invoke-rc.d init telinit logrotate cron anacron visudo vipw vigr chsh "
    "i386 x86_64 uname26 switch_root pivot_root debugfs ftp telnet rlogin rsh nbd-client qemu-system-x86_64 gpgv homarus openclaw "
    "pytest mypy eslint tsc jest vite webpack curl wget nc ncat socat dd tee entr gcc g++ cc c++ clang ld as"
)
_PACKAGES = (
    "apt apt-get aptitude dpkg yum dnf rpm pacman apk zypper brew snap flatpak nix pip pipx uv uvx poetry pdm hatch conda "
    "mamba npm npx yarn pnpm gem bundle cargo go composer luarocks cpan cpanm easy_install rustup stack cabal corepack"
)
NEVER = frozenset(f"{_SHELLS} {_INTERPRETERS} {_CARRIERS} {_PACKAGES}".split())
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
    # One program may have several names, such as editor, vim and vim.basic.
    places = {os.path.normpath(program), os.path.realpath(program)}
    if not all(place.startswith(SYSTEM) and not _starts_others(PurePath(place).name) for place in places):
        return False
    return not any(word.startswith(_RUNS) for word in rest)


def _starts_others(name: str) -> bool:
    stem = _VERSION.sub("", name)
    names = {name, stem, name.partition(".")[0], stem.rpartition("-")[2]}
    return bool(names & NEVER) or name.startswith(("ld-linux", "ld.so", "dpkg-", "apt-", "git-", "x86_64-", "python"))
