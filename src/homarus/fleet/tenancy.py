"""What a tenant's own settings cannot do on a machine that others share: leave the sandbox, reach outside of the home, bring programs.

Pure: it takes rights away from a configuration and never adds one. On their own machine the same file means what it says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from homarus.fleet.settings import Quota

# Keys that name a place on the disk; what they name must lie inside the home.
_PLACE = re.compile(r"(?i)(?:.*(?:dir|dirs|path|paths|file|root|roots|workspace|cwd)|store|binds)")
# Keys whose value looks like one and is the path of an address.
_NO_PLACE = re.compile(r"hooks\.(?:path|mappings\.\d+\.match\.path)|.*\.(?:webhookPath|basePath|apiRoot)")
# Keys that name a program, which would run as the worker.
_PROGRAM = frozenset({"command", "args", "cliPath", "binary", "allowSymlinkCommand", "trustedDirs"})
_BACKENDS = frozenset({"auto", "bwrap", "landlock"})


def confine(document: dict[str, Any], folder: Path, quota: Quota) -> list[str]:
    """Change a canonical configuration so that it stays in its home and below its quota; return the keys that lost something."""
    lost = [path for path, owner, key in _reaching(document, folder, "") if _drop(owner, key)]
    lost += _forced(document, quota)
    return sorted(set(lost))


def _reaching(node: Any, folder: Path, at: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield every value that names a program or a place elsewhere, with what holds it."""
    pairs = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in reversed(pairs):
        path = f"{at}.{key}".lstrip(".")
        name = str(key) if isinstance(node, dict) else at.rpartition(".")[2]
        if isinstance(node, dict) and name in _PROGRAM:
            yield path, node, key
        elif isinstance(value, str):
            place = _PLACE.fullmatch(name) and not _NO_PLACE.fullmatch(path)
            if place and not _inside(value, folder, relative=".extraPaths" in path):
                if found := _brought_along(value, folder):
                    node[key] = found
                else:
                    yield path, node, key
        else:
            yield from _reaching(value, folder, path)


def _inside(text: str, folder: Path, *, relative: bool) -> bool:
    """Say whether a place lies in the home, also after every link on the way was followed. A variable may lead anywhere.

    Nearly everything that is written without a beginning is read from where the worker was started.
    """
    clean = text.replace("\x00", "").strip().partition(":")[0]
    if text.startswith(("http://", "https://")):
        return True
    if "$" in clean or (clean.startswith("~") and clean != "~" and not clean.startswith("~/")):
        return False
    if not clean.startswith(("/", "~")):
        return relative and ".." not in Path(clean).parts
    root, place = os.path.realpath(folder), os.path.realpath(folder / clean[2:] if clean.startswith("~") else clean)
    return f"{place}/".startswith(f"{root}/")


def _brought_along(text: str, folder: Path) -> str:
    """Return where a folder of the machine that a home came from lies now: `/home/ada/ws` is `ws` of the home, if that is there."""
    parts = Path(text).parts
    if not text.startswith("/") or ".." in parts or "$" in text or ":" in text or "\x00" in text:
        return ""
    for start in range(1, len(parts)):
        found = folder.joinpath(*parts[start:])
        if found.is_dir() and _inside(str(found), folder, relative=False):
            return str(found)
    return ""


def _drop(owner: Any, key: Any) -> bool:
    del owner[key]
    return True


def _forced(document: dict[str, Any], quota: Quota) -> list[str]:
    lost = []
    agents = _table(document, "agents")
    entries = _table(agents, "entries")
    owners = [("agents.defaults", _table(agents, "defaults"))]
    owners += [(f"agents.entries.{name}", entries[name]) for name in entries if isinstance(entries[name], dict)]
    listed = agents.get("list")
    rows = enumerate(listed) if isinstance(listed, list) else ()
    owners += [(f"agents.list.{number}", each) for number, each in rows if isinstance(each, dict)]
    for at, owner in owners:
        if at == "agents.defaults" or "sandbox" in owner:
            lost += [f"{at}.sandbox.{key}" for key in _box(_table(owner, "sandbox"), quota)]
        if "tools" in owner:
            lost += [f"{at}.tools.{key}" for key in _tools(_table(owner, "tools"))]
    lost += [f"tools.{key}" for key in _tools(_table(document, "tools"))]
    lost += _set(_table(document, "plugins"), {"enabled": False}, "plugins")
    internal = _table(_table(document, "hooks"), "internal")
    lost += _set(internal, {"enabled": False}, "hooks.internal")
    providers = _table(document, "secrets").get("providers")
    providers = providers if isinstance(providers, dict) else {}
    for name, each in list(providers.items()):
        if not isinstance(each, dict) or each.get("source", "env") != "env":
            del providers[name]
            lost.append(f"secrets.providers.{name}")
    return lost


def _box(box: dict[str, Any], quota: Quota) -> list[str]:
    lost = _set(box, {"mode": "all", "network": False, "binds": [], "env": []}, "")
    if box.get("backend", "auto") not in _BACKENDS:
        lost += _set(box, {"backend": "auto"}, "")
    for key, most in (("processes", quota.processes), ("memoryMb", quota.memory_mb), ("cpuSeconds", quota.cpu_seconds),
                      ("diskMb", max(1, quota.stored_bytes >> 20))):  # fmt: skip
        given = box.get(key)
        # Nothing or less than one means no limit at all.
        if not isinstance(given, int) or isinstance(given, bool) or not 0 < given <= most:
            box[key] = most
            lost += [key] if given is not None else []
    return lost


def _tools(tools: dict[str, Any]) -> list[str]:
    return _set(_table(tools, "elevated"), {"enabled": False}, "elevated")


def _table(owner: dict[str, Any], key: str) -> dict[str, Any]:
    if not isinstance(owner.get(key), dict):
        owner[key] = {}
    found: dict[str, Any] = owner[key]
    return found


def _set(table: dict[str, Any], values: dict[str, Any], at: str) -> list[str]:
    """Set these, and return those keys under which the tenant had written something else."""
    lost = [f"{at}.{key}".lstrip(".") for key, value in values.items() if key in table and table[key] != value]
    table.update(values)
    return lost


def outside(folder: Path, quota: Quota) -> list[str]:
    """Return what the settings of a home that is brought in would lose here, so that its owner hears of it before it surprises them."""
    from homarus.config.load import inspect_config
    from homarus.config.paths import resolve_paths

    state = folder / ".openclaw" if (folder / ".openclaw").is_dir() else folder
    env = {"HOME": str(folder), "OPENCLAW_STATE_DIR": str(state)}
    return confine(inspect_config(resolve_paths(env), env).document, folder, quota)
