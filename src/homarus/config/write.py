"""Change a configuration on disk: planned in memory, checked against what was asked, then written with a backup.

A plan holds the new bytes of every file it touches. It is refused where the result would be anything but the change that
was asked for, where it would add an error, and, at the moment of writing, where a file is no longer what it was.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import msgspec

from homarus.config.edit import apply_data, parse_text, same, set_value, unset_value
from homarus.config.include import INCLUDE, Source
from homarus.config.keypath import KeyPath, as_index, format_path, lookup
from homarus.config.load import Config, inspect_config, reader_for, refuse_lost, remember_good
from homarus.config.migrate import canonical
from homarus.config.redact import restore
from homarus.config.report import Notify, Problem
from homarus.config.scan import find
from homarus.core.errors import ConfigError, HomarusError
from homarus.storage.atomic import backup, create_new, ensure_dir, write_atomic
from homarus.storage.locks import alone_in

_NOTHING: Any = object()


class Operation(msgspec.Struct, frozen=True):
    """One wish: set a key, unset it, or lay a merge patch over it."""

    kind: Literal["set", "unset", "patch"]
    path: KeyPath
    value: Any = None


class Refused(ConfigError):
    """The person who asked for the change acts: the configuration would have an error that it has not now."""


class FileChange(msgspec.Struct, frozen=True):
    """The bytes of one file before and after; `before` is None for a file that does not exist yet."""

    path: Path
    before: bytes | None
    after: bytes
    # Where the old content lies, once this is written.
    backup: Path | None = None

    @property
    def diff(self) -> str:
        from homarus.config.diff import unified_diff

        old, new = (data.decode("utf-8", "replace") for data in (self.before or b"", self.after))
        return unified_diff(old, new, str(self.path))


class Planner:
    """Works out changes over the files as they are now; nothing is written."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self.config = config
        self.env = env
        self.overlay: dict[Path, bytes] = {}
        self.before: dict[Path, bytes | None] = {}
        self.document = self._read()[1]

    def changes(self, operations: Sequence[Operation]) -> tuple[FileChange, ...]:
        """Return what to write so that exactly these operations happened, or raise ConfigError."""
        for operation in operations:
            for step in self._simple(operation):
                self._apply(step)
        actual = self._read()[1] if self.overlay else self.document
        if not same(actual, self.document):
            raise ConfigError(
                "this change cannot be made without changing something else, because included files lie over each other",
                cure="edit the files by hand: " + ", ".join(str(path) for path in self.overlay),
            )
        return tuple(
            FileChange(path, self.before[path], data)
            for path, data in self.overlay.items()
            if self.before[path] != data
        )

    def _read(self) -> tuple[Source | None, dict[str, Any]]:
        reader = reader_for(self.config.paths, self.env, self.overlay)
        source, document = reader.main(self.config.paths.config_path)
        broken = next((problem for problem in reader.problems if problem.severity == "error"), None)
        if broken is None and not isinstance(document, dict):
            broken = Problem("error", str(self.config.paths.config_path), 1, "", "holds no object")
        if broken is not None:
            raise ConfigError(
                f"{broken.where}: {broken.message}; nothing was written",
                cure=broken.cure or "correct it with 'homarus config edit' first",
            )
        if source is None:
            refuse_lost(self.config.paths, self.env)
        return source, document

    def _simple(self, operation: Operation) -> Iterator[Operation]:
        path = self._spelled(operation.path)
        old = lookup(self.document, path, _NOTHING)
        if operation.kind != "patch":
            yield Operation(operation.kind, path, operation.value)
        elif operation.value is None and path:
            if old is not _NOTHING:
                yield Operation("unset", path)
        elif isinstance(operation.value, dict) and isinstance(old, dict):
            for key, value in operation.value.items():
                yield from self._simple(Operation("patch", (*path, key), value))
        else:
            yield Operation("set", path, _without_nulls(operation.value))

    def _spelled(self, path: KeyPath) -> KeyPath:
        """Return the path in the spelling of the file, where the key is there under an older or a newer name."""
        if lookup(self.document, path, _NOTHING) is _NOTHING:
            for other in (self.config.written(path), self.config.written(canonical(path))):
                if lookup(self.document, other, _NOTHING) is not _NOTHING and not _inherited(path, other):
                    path = other
                    break
            else:
                path = self._below_known(path)
        return _normal(self.document, path)

    def _below_known(self, path: KeyPath) -> KeyPath:
        # A new key of an agent that stands in `agents.list` goes there, not into a second entry beside it.
        for size in range(len(path) - 1, 0, -1):
            other = self.config.written(path[:size])
            if other != path[:size] and isinstance(lookup(self.document, other), dict) and not _inherited(path, other):
                return (*other, *path[size:])
        return path

    def _apply(self, step: Operation) -> None:
        source, _ = self._read()
        owner, local = choose(source, step.path) if source else (None, step.path)
        path = owner.path if owner else self.config.paths.config_path
        text = owner.text if owner else ""
        parse_text(text, str(path))
        if step.kind == "unset":
            if lookup(self.document, step.path, _NOTHING) is _NOTHING:
                raise HomarusError(f"{format_path(step.path)} is not set", cure="'homarus config get' shows what is")
            changed = unset_value(text, local)
            self.document = apply_data(self.document, step.path)
        else:
            value = restore(step.value, lookup(self.document, step.path), format_path(step.path))
            _refuse_bytes([list(step.path), value])
            _refuse_flattening(owner, local)
            changed = set_value(text, local, value)
            self.document = apply_data(self.document, step.path, value)
        self.before.setdefault(path, owner.data if owner else None)
        self.overlay[path] = changed.encode()


def choose(source: Source, path: KeyPath) -> tuple[Source, KeyPath]:
    """Return the file that owns a key, or where a new key belongs: beside the nearest key that exists."""
    found = source.owner(path)
    if found:
        return found
    best, local, depth = source, path, _known_depth(source, path)
    for at, child in source.includes:
        if path[: len(at)] != at:
            continue
        inner, rest = choose(child, path[len(at) :])
        reached = len(path) - len(rest) + _known_depth(inner, rest)
        if reached > depth or (reached == depth and _stands_alone(source, at)):
            best, local, depth = inner, rest, reached
    return best, local


def introduced(config: Config, env: Mapping[str, str], changes: Sequence[FileChange]) -> list[Problem]:
    """Return the errors and warnings that the changed configuration would have and the present one has not."""
    from homarus.config.blocks import validate

    def key(problem: Problem) -> tuple[str, str, str]:
        return problem.severity, problem.key, problem.message

    known = {key(problem) for problem in validate(inspect_config(config.paths, env))}
    overlay = {change.path: change.after for change in changes}
    after = validate(inspect_config(config.paths, env, overlay=overlay))
    return [problem for problem in after if problem.severity != "info" and key(problem) not in known]


def change(
    config: Config,
    env: Mapping[str, str],
    operations: Sequence[Operation],
    *,
    literal: bool = False,
    force: bool = False,
    dry_run: bool = False,
    notify: Notify = lambda _problem: None,
) -> tuple[FileChange, ...]:
    """Plan, check and write as the only writer; what others wrote since `config` was read stays.

    Raises ConfigError, before anything is written, where the result would be wrong (unless `force`), and where the files
    changed and an operation may rest on what they said: it names a place in a list, or gives a whole one. With `literal`
    the operations are what a person wrote, and rest on nothing. `notify` hears of warnings that the change brings.
    """
    if not dry_run:
        ensure_dir(config.paths.config_path.parent)
    with alone_in(config.paths.config_path.parent) if not dry_run else nullcontext():
        fresh = inspect_config(config.paths, env)
        if fresh.hash != config.hash and not literal and any(map(_rests_on_a_list, operations)):
            raise _changed(config.paths.config_path)
        changes = Planner(fresh, env).changes(operations)
        found = introduced(fresh, env, changes) if changes else []
        errors = [problem for problem in found if problem.severity == "error"]
        if errors and not force:
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise Refused(f"nothing was written: {errors[0].key}: {errors[0].message}{more}", cure=errors[0].cure)
        for problem in found:
            notify(problem)
        return changes if dry_run else _written(fresh, env, changes)


def write(config: Config, env: Mapping[str, str], changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """Write changes that were planned before, if the files still are what they were. All or nothing is checked first."""
    ensure_dir(config.paths.config_path.parent)
    with alone_in(config.paths.config_path.parent):
        for planned in changes:
            if read_or_none(planned.path) != planned.before:
                raise _changed(planned.path)
        return _written(config, env, changes)


def _written(config: Config, env: Mapping[str, str], changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """Write each file atomically, with a backup, readable for nobody else: keys stand in them."""
    done = []
    for planned in changes:
        kept = None
        if planned.before is None:
            if not create_new(planned.path, planned.after):
                raise _changed(planned.path)
        else:
            _make_private(planned.path)
            kept = backup(planned.path)
            write_atomic(planned.path, planned.after)
        done.append(msgspec.structs.replace(planned, backup=kept))
    if done:
        remember_good(inspect_config(config.paths, env), explicit=True)
    return tuple(done)


def _make_private(path: Path) -> None:
    for file in (path, *path.parent.glob(f"{glob.escape(path.name)}.bak*")):
        try:
            if file.stat().st_mode & 0o077:
                file.chmod(file.stat().st_mode & 0o700)
        except OSError:
            continue  # somebody else's: then we cannot replace it either, and writing says so


def _rests_on_a_list(operation: Operation) -> bool:
    return isinstance(operation.value, list) or any(isinstance(step, int) for step in operation.path)


def _changed(path: Path) -> ConfigError:
    return ConfigError(f"{path} changed since it was read; nothing was written", cure="run the command again")


def read_or_none(path: Path) -> bytes | None:
    """Return the bytes of a file that is about to be changed, or None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise ConfigError(f"cannot read {path}: {problem.strerror}", cure="check its permissions") from None


def _inherited(asked: KeyPath, found: KeyPath) -> bool:
    # Setting a key of one agent must never change the defaults of all.
    return asked[:2] == ("agents", "entries") and found[:2] == ("agents", "defaults")


def _normal(document: Any, path: KeyPath) -> KeyPath:
    steps: list[str | int] = []
    for step in path:
        here = lookup(document, tuple(steps))
        index = as_index(step) if isinstance(here, list) else None
        if isinstance(here, list) and index is not None and index < 0:
            index += len(here)
        named = isinstance(here, dict) and str(step) in here
        steps.append(index if index is not None else str(step) if named else step)
    return tuple(steps)


def _known_depth(source: Source, path: KeyPath) -> int:
    depth = len(path)
    while depth and (source.tree is None or find(source.tree, path[:depth]) is None):
        depth -= 1
    return depth


def _stands_alone(source: Source, at: KeyPath) -> bool:
    here = lookup(source.document, at)
    return isinstance(here, dict) and list(here) == [INCLUDE] and isinstance(here[INCLUDE], str)


def _refuse_bytes(value: Any) -> None:
    if isinstance(value, str):
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise ConfigError("the value holds bytes that are no text", cure="write it as UTF-8")
    elif isinstance(value, dict | list):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            _refuse_bytes(inner)


def _refuse_flattening(owner: Source | None, local: KeyPath) -> None:
    here = lookup(owner.document, local) if owner else None
    if _has_include(here):
        raise ConfigError(
            f"{format_path(local) or 'the document'} comes from an included file",
            cure="set a key below it, which goes into that file, or edit the file",
        )


def _has_include(value: Any) -> bool:
    if isinstance(value, dict):
        return INCLUDE in value or any(map(_has_include, value.values()))
    return isinstance(value, list) and any(map(_has_include, value))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value
