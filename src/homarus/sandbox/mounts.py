"""Which extra folders a sandbox may show. Some would hand over the machine, and no setting opens those."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from homarus.core.errors import ConfigError
from homarus.sandbox.spec import Mount

# Whole trees that give away the system, its devices, or a daemon that runs as root.
_SYSTEM = ("/etc", "/proc", "/sys", "/dev", "/boot", "/root", "/run", "/var/run", "/var/lib/docker")
_SECRETS = (".ssh", ".gnupg", ".aws", ".kube", ".docker", ".config/gcloud", ".netrc", ".password-store", ".openclaw")


def parse_binds(binds: list[str], *, home: Path, state_dir: Path) -> tuple[Mount, ...]:
    """Return the mounts that `sandbox.binds` asks for: `/path` or `/path:rw`; a dangerous one is an error that says why.

    Links are resolved first, so that a link into a refused folder is refused too.
    """
    mounts = []
    for text in binds:
        path, _, option = text.partition(":")
        if option not in {"", "ro", "rw"}:
            raise ConfigError(f"sandbox.binds: '{text}' is not understood", cure="write '/path' or '/path:rw'")
        source = Path(path).expanduser() if not path.startswith("~") else home / path[2:]
        if not source.is_absolute():
            raise ConfigError(f"sandbox.binds: '{text}' is not absolute", cure="write the whole path")
        real = source.resolve()
        if reason := refusal(real, home=home.resolve(), state_dir=state_dir.resolve()):
            raise ConfigError(f"sandbox.binds: '{text}' {reason}", cure="name the one folder inside it that is needed")
        if not real.exists():
            raise ConfigError(f"sandbox.binds: '{text}' does not exist", cure="create it or remove the entry")
        mounts.append(Mount(str(real), option == "rw"))
    return tuple(mounts)


def refusal(path: Path, *, home: Path, state_dir: Path) -> str:
    """Return why a real path may not be shown in a sandbox, or nothing."""
    homes = {home, account_home()}
    guarded = [*map(Path, _SYSTEM), state_dir, *(each / name for each in homes for name in _SECRETS)]
    for place in guarded:
        if path.is_relative_to(place):
            return f"lies in {place}, which holds secrets or controls the machine"
        if place.is_relative_to(path):
            return f"contains {place}, which holds secrets or controls the machine"
    return ""


@cache
def account_home() -> Path:
    """Return the home of the user who we are, whatever a variable says: the keys lie there."""
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()
    except KeyError:
        return Path("/root")


def controls(workspace: Path, home: Path) -> bool:
    """Say whether a real path lies where work has no place: among what controls the machine, or among a user's keys.

    The home of root is not meant, nor OpenClaw's folder: workspaces lie there.
    """
    guarded = [Path(place) for place in _SYSTEM if place != "/root"]
    guarded += [each / name for each in (home, account_home()) for name in _SECRETS if name != ".openclaw"]
    return any(workspace.is_relative_to(place) for place in guarded)
