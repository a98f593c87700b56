"""Who else can read or change what a home keeps on the disk. The fix closes it to everybody but its owner."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from homarus.admin.doctor.finding import Finding, Home, Severity
from homarus.config.include import Source
from homarus.config.paths import expand

CRITICAL, WARN = Severity.ERROR, Severity.WARNING


def check_files(home: Home) -> list[Finding]:
    """Look at the folder of the home and at whatever in it holds secrets or conversations."""
    found = []
    for check, path in _private(home):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if finding := _judge(check, path, mode):
            found.append(finding)
    return found


def _private(home: Home) -> Iterator[tuple[str, Path]]:
    paths = home.config.paths
    state = paths.state_dir
    yield "fs.state_dir", state
    yield "fs.config", paths.config_path
    if home.config.source is not None:
        yield from (("fs.config_include", file) for file in _included(home.config.source))
    for pattern in ("agents/*/agent/auth-profiles.json", "agents/*/agent/auth.json", ".env", "credentials/oauth.json"):
        yield from (("fs.auth_profiles", path) for path in state.glob(pattern))
    yield "fs.credentials_dir", state / "credentials"
    yield from (("fs.sessions_store", path) for path in state.glob("agents/*/sessions"))
    named = home.config.get("logging.file")
    yield "fs.log_file", expand(str(named), paths.home) if named else paths.logs_dir / "gateway.log"
    yield from (("fs.gateway_state", paths.own_dir / name) for name in ("devices.json", "approvals.json", "device-key"))


def _included(source: Source) -> Iterator[Path]:
    for _, inner in source.includes:
        yield inner.path
        yield from _included(inner)


def _judge(check: str, path: Path, mode: int) -> Finding | None:
    """Return the worst thing about a file's mode; one fix closes all of it."""
    world, group = mode & 0o007, (mode & 0o070) >> 3
    if check == "fs.state_dir" and world & 2:
        kind, severity, message = "perms_world_writable", CRITICAL, "every user of this machine can change it"
    elif check == "fs.state_dir" and group & 2:
        kind, severity, message = "perms_group_writable", WARN, "other users of its group can change it"
    elif (world | group) & 2:
        kind, severity, message = "perms_writable", CRITICAL, "other users of this machine can change it"
    elif check in {"fs.config", "fs.config_include"} and world & 4:
        kind, severity, message = "perms_world_readable", CRITICAL, "every user of this machine can read it"
    elif check in {"fs.config", "fs.config_include"} and group & 4:
        kind, severity, message = "perms_group_readable", WARN, "other users of its group can read it"
    elif (world | group) & 4:
        kind, severity, message = "perms_readable", WARN, "other users of this machine can read it"
    else:
        return None
    wanted = 0o700 if stat.S_ISDIR(mode) else 0o600

    def close() -> str:
        path.chmod(wanted)
        return f"made {path} private"

    return Finding(f"{check}.{kind}", severity, message, str(path), f"chmod {wanted:o} {path}", close)
