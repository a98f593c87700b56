"""GGUF files: which ones lie in the models folder, and the few facts in a file's head. Never loads weights."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from homarus.core.errors import ConfigError

MAGIC = b"GGUF"
MAX_PAIRS = 4_096
MAX_STRING = 1 << 20
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


class GgufInfo(Struct, frozen=True):
    name: str = ""
    architecture: str = ""
    context_length: int = 0
    has_template: bool = False


class NotGguf(ValueError):
    """The file is no GGUF, or a damaged one."""


def read_info(path: Path) -> GgufInfo:
    """Read a file's head; raises NotGguf for anything that is not a whole GGUF head."""
    found: dict[str, Any] = {}
    try:
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                raise NotGguf(f"{path.name} is no GGUF file")
            (version,) = struct.unpack("<I", _exactly(file, 4))
            _, pairs = struct.unpack("<QQ", _exactly(file, 16))
            if version < 2 or pairs > MAX_PAIRS:
                raise NotGguf(f"{path.name}: version {version} with {pairs} facts is not readable")
            for _ in range(pairs):
                key = _text(file)
                value = _value(file, struct.unpack("<I", _exactly(file, 4))[0])
                if key.startswith("general.") or key.endswith((".context_length", "chat_template")):
                    found[key] = value
    except (OSError, struct.error) as problem:
        raise NotGguf(f"{path.name} cannot be read: {problem}") from problem
    architecture = str(found.get("general.architecture", ""))
    return GgufInfo(
        name=str(found.get("general.name", "")) or path.stem,
        architecture=architecture,
        context_length=int(found.get(f"{architecture}.context_length") or 0),
        has_template="tokenizer.chat_template" in found,
    )


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise struct.error("the file ends in its head")
    return data


def _text(file: BinaryIO) -> str:
    (size,) = struct.unpack("<Q", _exactly(file, 8))
    if size > MAX_STRING:
        raise NotGguf("a text in the head is too long")
    return _exactly(file, size).decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _text(file)
    if kind == _ARRAY:
        inner, count = struct.unpack("<IQ", _exactly(file, 12))
        if inner in _SCALARS:
            file.seek(struct.calcsize(_SCALARS[inner]) * count, 1)
        else:
            for _ in range(count):
                if inner == _STRING:
                    (size,) = struct.unpack("<Q", _exactly(file, 8))
                    file.seek(size, 1)
                else:
                    _value(file, inner)
        return None
    form = _SCALARS.get(kind)
    if form is None:
        raise NotGguf(f"unknown value type {kind} in the head")
    return struct.unpack(form, _exactly(file, struct.calcsize(form)))[0]


def find_models(folder: Path | None) -> list[Path]:
    """Return the GGUF files in the models folder, the newest first; parts of a split model count as its first part."""
    if folder is None or not folder.is_dir():
        return []
    files = [path for path in folder.glob("*.gguf") if path.is_file() and not _later_part(path.stem)]
    return sorted(files, key=lambda path: (-path.stat().st_mtime, path.name))


def _later_part(stem: str) -> bool:
    head, _, tail = stem.rpartition("-of-")
    return bool(head) and tail.isdigit() and not head.endswith("-00001")


def locate(name: str, folder: Path | None) -> Path:
    """Return the file that a `local/NAME` means: a path, a file name, or a name without its ending."""
    given = Path(name).expanduser()
    options = [given] if given.is_absolute() else []
    if folder is not None and not given.is_absolute() and ".." not in given.parts:
        options += [folder / name, folder / f"{name}.gguf"]
    for option in options:
        if option.is_file():
            return option
    near = [path.stem for path in find_models(folder) if name.lower() in path.stem.lower()]
    hint = f"; there is {', '.join(near[:3])}" if near else ""
    raise ConfigError(f"there is no local model '{name}'{hint}", cure="`homarus models pull NAME` fetches one")
