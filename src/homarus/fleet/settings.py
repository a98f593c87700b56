"""What the processes of a fleet are told: where the database and the objects are, the secret they share, and what a home may use.

One small file for all of them (JSON5), or variables alone; nothing of it stands in a home. Variables win.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from homarus.core.errors import ConfigError
from homarus.core.text import single_line

FILE_VARIABLE, DEFAULT_FILE = "HOMARUS_FLEET_FILE", "/etc/homarus/fleet.json"
_VARIABLES = {
    "database": "HOMARUS_FLEET_DATABASE",
    "secret": "HOMARUS_FLEET_SECRET",
    "objects": "HOMARUS_FLEET_OBJECTS",
    "root": "HOMARUS_FLEET_ROOT",
    "domain": "HOMARUS_FLEET_DOMAIN",
}
SHORTEST_SECRET = 24
_HOME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


class Quota(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What one home may use before it is held back. The row of a home names only what differs from the fleet's."""

    messages_per_second: float = 20.0
    upload_bytes: int = 25 << 20
    connections: int = 64
    stored_bytes: int = 5 << 30
    files: int = 100_000
    processes: int = 128
    memory_mb: int = 1024
    cpu_seconds: int = 300


class Fleet(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    # postgresql://user:password@host:port/name; several hosts where a standby may take over.
    database: str = ""
    # What edge and workers show each other. Whoever has it speaks for every home.
    secret: str = ""
    # s3://bucket/prefix, or a folder that all machines of the fleet see.
    objects: str = ""
    # Where a worker keeps the copies of its homes.
    root: str = "/var/lib/homarus/homes"
    # Names below it are homes (ada.agents.example); without it only paths (/h/ada/) are.
    domain: str = ""
    # Addresses and networks of proxies before the edges: for whom these say that they speak is who comes. Nobody else is believed.
    trusted_proxies: tuple[str, ...] = ()
    # What begins so is a web hook: it is kept for the home while nobody holds it.
    # Not Slack's: what it sends is too old to be believed after five minutes, and it calls again by itself.
    webhooks: tuple[str, ...] = ("/hooks/", "/telegram-webhook", "/whatsapp-webhook")
    quota: Quota = Quota()


def load(env: Mapping[str, str], file: str = "") -> Fleet:
    """Return the settings. Raises ConfigError where they cannot be read; a named file must be there."""
    named = file or env.get(FILE_VARIABLE, "")
    found = _read(Path(named or DEFAULT_FILE), must=bool(named))
    found |= {field: env[name] for field, name in _VARIABLES.items() if env.get(name)}
    try:
        return msgspec.convert(found, Fleet)
    except msgspec.ValidationError as problem:
        raise ConfigError(f"{named or DEFAULT_FILE}: {problem}", cure="docs/fleet.md lists the settings") from None


def _read(path: Path, *, must: bool) -> dict[str, Any]:
    import pyjson5

    try:
        data, facts = path.read_bytes(), path.stat()
        found = pyjson5.decode_utf8(data)
    except FileNotFoundError:
        if must:
            raise ConfigError(f"there is no {path}", cure="run: homarus fleet init --database postgresql://…") from None
        return {}
    except OSError as problem:
        cure = "name the file with --file, and let the user that runs this read it"
        raise ConfigError(f"cannot read {path}: {problem.strerror}", cure=cure) from None
    except (pyjson5.Json5Exception, UnicodeError) as problem:
        said = problem.args[0] if problem.args else problem
        raise ConfigError(f"{path} is no JSON5: {single_line(str(said), 200)}", cure="mend the file by hand") from None
    if facts.st_mode & stat.S_IRWXO:
        raise ConfigError(f"{path} holds secrets and can be read by everybody", cure=f"chmod o-rwx {path}")
    if not isinstance(found, dict):
        raise ConfigError(f"{path} holds no object", cure="wrap everything in { }")
    return found


def ready(fleet: Fleet, *, secret: bool = False) -> Fleet:
    """Return settings that name a database, and a secret where one is needed. Raises ConfigError with its cure."""
    if not fleet.database:
        raise ConfigError("no database is named", cure=f"set {_VARIABLES['database']}, or 'database' in {DEFAULT_FILE}")
    if not fleet.database.startswith(("postgresql://", "postgres://")):
        name = single_line(fleet.database.partition("://")[0], 40)
        raise ConfigError(
            f"the database's address begins with '{name}'",
            cure="write postgresql://user@host/name, with :password after the user",
        )
    for host in fleet.database.partition("://")[2].partition("/")[0].rpartition("@")[2].split(","):
        port = host.rpartition("]")[2].partition(":")
        if port[1] and not (port[2].isdecimal() and 0 < int(port[2]) < 1 << 16):
            # What stands there may be the end of a password, and is not shown.
            cure = "write a number, as host:5432, and what is special in a password as %2F and the like"
            raise ConfigError("the port in the database's address is no number", cure=cure)
    for each in fleet.trusted_proxies:
        try:
            ipaddress.ip_network(each, strict=False)
        except ValueError:
            raise ConfigError(
                f"trustedProxies: '{single_line(each, 80)}' is no address", cure="write 127.0.0.1 or 10.0.0.0/8"
            ) from None
    if secret and len(fleet.secret) < SHORTEST_SECRET:
        raise ConfigError(
            f"the fleet's secret is shorter than {SHORTEST_SECRET} characters"
            if fleet.secret
            else "the fleet has no secret",
            cure="'homarus fleet init' makes one; edge and workers share it",
        )
    return fleet


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def is_home(name: str) -> bool:
    """Say whether this can name a home: it is the first label of a host, and a folder."""
    return _HOME.fullmatch(name) is not None


def refuse_name(name: str) -> str:
    if not is_home(name):
        raise ConfigError(
            f"'{single_line(name, 80)}' cannot name a home", cure="use small letters, digits and '-', at most 63"
        )
    return name


def quota_of(fleet: Quota, row: Mapping[str, Any] | str | None) -> Quota:
    """Return a home's quota: the fleet's, with what its row says. What cannot be read there gives nothing more."""
    given = msgspec.json.decode(row) if isinstance(row, str) else dict(row or {})
    merged = {**msgspec.to_builtins(fleet), **given} if isinstance(given, dict) else msgspec.to_builtins(fleet)
    try:
        return msgspec.convert(merged, Quota)
    except msgspec.ValidationError:
        return fleet


def parse_quota(words: tuple[str, ...]) -> dict[str, Any]:
    """Return `messagesPerSecond=5` and the like as a row of a home has it; an empty value takes it back to the fleet's."""
    names, found = {field.encode_name: field.type for field in msgspec.structs.fields(Quota)}, dict[str, Any]()
    for word in words:
        name, is_given, text = word.partition("=")
        kind: Any = names.get(name)
        if kind is None:
            raise ConfigError(f"there is no quota '{single_line(name, 40)}'", cure=f"there are: {', '.join(names)}")
        cure = f"as {name}=100; '{name}=' gives it the fleet's again"
        if not is_given:
            raise ConfigError(f"how much of {name} is not said", cure=cure)
        try:
            found[name] = kind(text) if text else None
        except ValueError:
            raise ConfigError(f"{name} must be a number, not '{single_line(text, 40)}'", cure=cure) from None
        if found[name] is not None and not 0 < found[name] < 1 << 60:
            raise ConfigError(f"{name} must be more than nothing, and not without end", cure=cure)
    return found
