"""The gateway as a service of this user: a unit for systemd, a property list for launchd. Making the text is pure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from msgspec import Struct

from homarus.config.paths import Paths
from homarus.core.errors import HomarusError
from homarus.storage.atomic import ensure_dir, write_atomic

# Variables that choose the home; a service starts without those of the shell.
_PASSED = ("HOME", "PATH", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "OPENCLAW_PROFILE", "OPENCLAW_HOME")
Run = Callable[[Sequence[str]], int]
_Commands = tuple[tuple[str, ...], ...]


class Service(Struct, frozen=True):
    """One service: its name, the file that describes it, and the commands that turn it on and off."""

    name: str
    path: Path
    text: str
    on: _Commands
    off: _Commands
    state: tuple[str, ...]


def service_for(paths: Paths, env: Mapping[str, str], platform: str = sys.platform) -> Service:
    """Return the service of a home. Each profile has its own."""
    suffix = f"-{paths.profile}" if paths.profile else ""
    command = [sys.executable, "-m", "homarus", *(["--profile", paths.profile] if paths.profile else [])]
    command += ["gateway", "run"]
    passed = {name: env[name] for name in _PASSED if env.get(name)}
    if platform == "darwin":
        name = f"org.homarus.gateway{suffix}"
        path = paths.home / "Library" / "LaunchAgents" / f"{name}.plist"
        domain = f"gui/{os.getuid()}"
        on: _Commands = (("launchctl", "bootstrap", domain, str(path)), ("launchctl", "kickstart", f"{domain}/{name}"))
        off: _Commands = (("launchctl", "bootout", f"{domain}/{name}"),)
        text = _plist(name, command, passed, paths.logs_dir / "service.log")
        return Service(name, path, text, on, off, ("launchctl", "print", f"{domain}/{name}"))
    name = f"homarus-gateway{suffix}.service"
    folder = Path(env.get("XDG_CONFIG_HOME") or paths.home / ".config") / "systemd" / "user"
    control = ("systemctl", "--user")
    on = ((*control, "daemon-reload"), (*control, "enable", "--now", name))
    off = ((*control, "disable", "--now", name),)
    return Service(name, folder / name, _unit(command, passed), on, off, (*control, "is-active", name))


def _unit(command: Sequence[str], env: Mapping[str, str]) -> str:
    variables = "\n".join(f"Environment={_quoted(f'{name}={value}')}" for name, value in env.items())
    return f"""[Unit]
Description=homarus gateway

[Service]
ExecStart={" ".join(_quoted(word).replace("$", "$$") for word in command)}
{variables}
# After a crash; what 'homarus gateway stop' ended stays so.
Restart=on-failure
RestartSec=3
# It serves already, or its configuration is broken: starting it again would not help.
RestartPreventExitStatus=78
# Running turns are finished first.
TimeoutStopSec=330
KillMode=mixed
UMask=0077

[Install]
WantedBy=default.target
"""


def _quoted(word: str) -> str:
    """Write a word for systemd, which reads % and quotes in a way of its own, and $ only in the line of the command."""
    if any(ord(char) < 32 for char in word):
        raise HomarusError(f"{word!r} cannot be written into a unit", cure="take control characters out of the path")
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def _plist(name: str, command: Sequence[str], env: Mapping[str, str], log: Path) -> str:
    words = "".join(f"<string>{escape(word)}</string>" for word in command)
    variables = "".join(f"<key>{escape(key)}</key><string>{escape(value)}</string>" for key, value in env.items())
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>Label</key><string>{escape(name)}</string>
<key>ProgramArguments</key><array>{words}</array>
<key>EnvironmentVariables</key><dict>{variables}</dict>
<key>RunAtLoad</key><true/>
<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
<key>ExitTimeOut</key><integer>330</integer>
<key>Umask</key><integer>63</integer>
<key>StandardErrorPath</key><string>{escape(str(log))}</string>
</dict></plist>
"""


def run_command(words: Sequence[str]) -> int:
    if shutil.which(words[0]) is None:
        raise HomarusError(
            f"{words[0]} is not on this machine", cure="start 'homarus gateway run' with a supervisor of your own"
        )
    return subprocess.run(list(words), check=False).returncode


def install(service: Service, *, start: bool = True, run: Run = run_command) -> bool:
    """Write the service's file and turn it on; say whether the supervisor took it. The file stays in any case."""
    ensure_dir(service.path.parent)
    write_atomic(service.path, service.text.encode(), mode=0o600)
    return not start or all(run(words) == 0 for words in service.on)


def uninstall(service: Service, *, run: Run = run_command) -> bool:
    """Turn the service off and take its file away; False when there was none."""
    if not service.path.exists():
        return False
    for words in service.off:
        run(words)
    service.path.unlink()
    return True
