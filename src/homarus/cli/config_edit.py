"""`homarus config edit`: a session in the user's editor that writes nothing unchecked and throws nothing away."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from homarus.core.errors import ConfigError

if TYPE_CHECKING:
    from homarus.cli.app import App
    from homarus.config.report import Problem

_NEW_FILE = b"{\n}\n"


def edit_session(app: App) -> None:
    """Let the user edit a private copy until it passes or is given up; then write it, or keep it beside the file."""
    from homarus.config.write import read_or_none

    path = app.paths.config_path
    before = read_or_none(path)
    start = _NEW_FILE if before is None else before
    descriptor, name = tempfile.mkstemp(prefix="openclaw-", suffix=".json5")
    copy = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(start)
        after = _until_settled(app, copy, start)
    finally:
        copy.unlink(missing_ok=True)
    if after == start:
        app.out.line("nothing to change")
    else:
        _save(app, path, before, after)


def _until_settled(app: App, copy: Path, start: bytes) -> bytes:
    """Return the text to save; one that is given up is kept as a .rej file and ends in an error."""
    while True:
        _run_editor(app, copy)
        after = copy.read_bytes()
        errors = [] if after == start else _errors(app, after)
        if not errors:
            return after
        for problem in errors:
            app.out.warn(str(problem))
        answer = _ask() if sys.stdin.isatty() else "quit"
        if answer == "save":
            return after
        if answer == "quit":
            kept = _keep(app.paths.config_path, after)
            raise ConfigError(f"nothing was changed; your text is in {kept}", cure="correct it and copy it back")


def _save(app: App, path: Path, before: bytes | None, after: bytes) -> None:
    from homarus.cli.config import report
    from homarus.config.load import inspect_config
    from homarus.config.write import FileChange, write

    change = FileChange(path, before, after)
    try:
        done = write(inspect_config(app.paths, app.env), app.env, [change])
    except ConfigError as problem:
        raise ConfigError(f"{problem.message}; your text is in {_keep(path, after)}", cure=problem.cure) from None
    report(app, done, dry_run=False, as_json=False)


def _errors(app: App, after: bytes) -> list[Problem]:
    from homarus.config.blocks import validate
    from homarus.config.load import inspect_config

    config = inspect_config(app.paths, app.env, overlay={app.paths.config_path: after})
    return [problem for problem in validate(config) if problem.severity == "error"]


def _ask() -> str:
    choices = click.Choice(["edit", "save", "quit"])
    return str(click.prompt("Edit again, save it as it is, or quit and keep it aside?", type=choices, default="edit"))


def _keep(path: Path, data: bytes) -> Path:
    from homarus.storage.atomic import write_atomic

    kept = path.with_name(path.name + ".rej")
    write_atomic(kept, data)
    return kept


def _run_editor(app: App, copy: Path) -> None:
    named = app.env.get("VISUAL") or app.env.get("EDITOR") or ""
    # An editor of our own choice needs somebody in front of it; one that was named may be a script.
    usual = ("nano", "vim", "vi") if sys.stdin.isatty() and sys.stdout.isatty() else ()
    try:
        words = shlex.split(named)
    except ValueError as problem:
        raise click.UsageError(f"EDITOR cannot be understood: {problem}") from None
    argv = words or [next((name for name in usual if shutil.which(name)), "")]
    if not argv[0]:
        raise click.UsageError("no editor: set EDITOR, for example EDITOR=nano, or use 'homarus config set'")
    try:
        code = subprocess.call([*argv, str(copy)])
    except OSError as problem:
        raise click.UsageError(f"cannot start the editor {argv[0]}: {problem.strerror}") from None
    if code != 0:
        raise ConfigError(f"the editor ended with code {code}; nothing was changed", cure="try again")
