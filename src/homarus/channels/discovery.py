"""Which platforms there are, read as data: nothing of a platform is imported to know its name, its settings and what it lacks."""

from __future__ import annotations

import contextlib
import importlib
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import msgspec

from homarus.channels.channel import Channel, Host, Manifest
from homarus.core.errors import ChannelError, ConfigError, installing
from homarus.core.patterns import late

FILE = "channel.json"
_ID = late(r"[a-z][a-z0-9_]{1,31}")
_ENTRY = late(r"[a-z_][a-z0-9_]*:[a-z_][a-z0-9_]*")
_HERE = Path(__file__).parent
# Names that stand in the configuration's table of channels and are none.
RESERVED = frozenset({"defaults", "modelByChannel", "terminal", "webchat", "last", "none"})


@cache
def manifests() -> dict[str, Manifest]:
    """Return the platforms that come with the program, by id."""
    return read_manifests(_HERE)


def is_free(name: str) -> bool:
    """Say whether a plugin may call a platform of its own so."""
    return bool(_ID.fullmatch(name)) and name not in RESERVED and name not in manifests()


def read_manifests(folder: Path) -> dict[str, Manifest]:
    """Return the platforms of a folder: each `<id>/channel.json` in it. Raises ConfigError for one that cannot be read."""
    found: dict[str, Manifest] = {}
    for path in sorted(folder.glob(f"*/{FILE}")):
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise ConfigError(f"{path} cannot be read: {problem}", cure="install the program again") from None
        if manifest.id != path.parent.name or not _ID.fullmatch(manifest.id) or manifest.id in RESERVED:
            raise ConfigError(f"{path}: '{manifest.id}' cannot be its id", cure="its id is the name of its folder")
        if not _ENTRY.fullmatch(manifest.entry):
            raise ConfigError(
                f"{path}: entry '{manifest.entry}' names no function", cure="write module:function of its folder"
            )
        found[manifest.id] = manifest
    return found


def named(word: str, known: Mapping[str, Manifest] | None = None) -> Manifest | None:
    """Return the platform that a person means by its id, its label or an alias."""
    wanted = word.strip().lower()
    for manifest in (manifests() if known is None else known).values():
        if wanted in {manifest.id, manifest.label.lower(), *map(str.lower, manifest.aliases)}:
            return manifest
    return None


def lacks(manifest: Manifest, which: Callable[[str], str | None] = shutil.which) -> tuple[str, str]:
    """Return what must be installed before an account can start, and how; two empty texts where nothing is missing."""
    missing = [name for name in manifest.needs if not _importable(name)]
    if missing:
        cure = installing(f"homarus[{manifest.extra}]" if manifest.extra else " ".join(missing))
        packages = f"package{'s' if missing[1:] else ''} {' and '.join(missing)}"
        return f"{manifest.label} needs the Python {packages}", cure
    for program, package in manifest.programs.items():
        if which(program) is None:
            return f"{manifest.label} needs the program {program}", f"install {package}"
    return "", ""


def _importable(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # the parent of a dotted name is missing
        return False


def load_needs(manifest: Manifest) -> None:
    """Import what a platform's adapter will import when it runs; what fails here fails there, with a better word for it."""
    for name in manifest.needs:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def load_entry(manifest: Manifest) -> Callable[[Host], Channel]:
    """Import a platform and return what makes an account of it. Raises ChannelError where it cannot be imported."""
    problem, cure = lacks(manifest)
    if problem:
        raise ChannelError(problem, fatal=True, cure=cure)
    module, _, name = manifest.entry.partition(":")
    try:
        entry = getattr(importlib.import_module(f"{__package__}.{manifest.id}.{module}"), name)
    except (ImportError, AttributeError) as error:
        cure = installing(f"homarus[{manifest.extra}]") if manifest.extra else "install the program again"
        raise ChannelError(f"{manifest.label} cannot be loaded: {error}", fatal=True, cure=cure) from error
    return cast("Callable[[Host], Channel]", entry)
