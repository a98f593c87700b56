"""`homarus config`: read, change and check `openclaw.json` without losing a comment or showing a secret."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import pass_app, with_json
from homarus.config.blocks import build_schema
from homarus.config.blocks import validate as check
from homarus.config.edit import parse_text
from homarus.config.keypath import lookup, parse_path
from homarus.config.load import Config, Problem, inspect_config
from homarus.config.redact import redact
from homarus.config.report import HEADERS, has_errors, table_rows
from homarus.config.report import as_json as plain
from homarus.config.scan import ScanError, parse
from homarus.config.write import FileChange, Operation, Refused, change, read_or_none, write
from homarus.core.errors import ConfigError, HomarusError
from homarus.storage.atomic import write_atomic

CONFIGURATION = 78
_PATCH_BYTES = 8 * 1024 * 1024


@click.group(cls=Group, short_help="Read, change and check openclaw.json.")
def command() -> None:
    """Read, change and check openclaw.json.

    A key path is written like agents.defaults.model, agents.list[0].id or channels["name.with.dots"], in the spelling
    of any era. Changes keep every comment and every other byte, are checked first, and leave a .bak file.

    \b
    Examples:
      homarus config get agents.defaults.model
      homarus config set agents.defaults.heartbeat.every 2h
      homarus config set gateway.auth.token --ref-source env --ref-id GATEWAY_TOKEN
      homarus config unset channels.telegram
      echo '{ session: { reset: { mode: "daily" } } }' | homarus config patch
      homarus config validate
    """


def _writes(function: Callable[..., None]) -> Callable[..., None]:
    dry = click.option("--dry-run", is_flag=True, help="Show the difference and change nothing.")
    return dry(
        click.option("--force", is_flag=True, help="Write it even if the checks find it wrong.")(with_json(function))
    )


@command.command()
@click.argument("path", required=False, default="", shell_complete=complete.keys)
@click.option("--effective", is_flag=True, help="Show the canonical form: newest spelling, OPENCLAW_* applied.")
@click.option("--reveal", is_flag=True, help="Show secrets; only to a terminal, unless --yes is given too.")
@click.option("--yes", is_flag=True, help="With --reveal: yes, also into a pipe or a file.")
@with_json
def get(app: App, path: str, effective: bool, reveal: bool, yes: bool, as_json: bool) -> None:
    """Print the value at PATH, or everything. Secrets are hidden.

    Text, numbers and flags are printed bare, objects and lists as JSON. A key that is not set ends with code 1.
    """
    steps = _path(path)
    if reveal and not yes and not app.out.out.isatty():
        raise click.UsageError("--reveal shows secrets to a terminal only; add --yes to write them elsewhere")
    config = app.inspected()
    if config.unusable is not None:
        raise ConfigError(str(config.unusable))
    for problem in config.problems:
        if problem.severity == "error" or config.fallback:
            app.out.warn(str(problem))
    value = _shown(config, steps, effective=effective, show=(lambda document: document) if reveal else redact)
    if value is _MISSING:
        if as_json:
            app.out.json({"error": f"{path} is not set"})
            raise click.exceptions.Exit(1)
        raise _NotSet(f"{path} is not set", cure="'homarus config get' shows what is")
    if as_json or isinstance(value, dict | list):
        app.out.json(value)
    else:
        # Not by a table: 1 and true are the same key.
        words = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        app.out.line(words)


@command.command("set")
@click.argument("path", shell_complete=complete.keys)
@click.argument("value", required=False)
@click.option("--string", "as_text", is_flag=True, help="Take VALUE as text, whatever it looks like.")
@click.option("--strict-json", is_flag=True, help="VALUE must be JSON5; without this, other text is a string.")
@click.option("--merge", is_flag=True, help="Lay an object over what is there instead of replacing it.")
@click.option(
    "--ref-source", type=click.Choice(["env", "file", "exec"]), help="Write a secret reference of this source."
)
@click.option("--ref-id", metavar="ID", help="What the reference names: a variable, a JSON pointer, a program's id.")
@click.option("--ref-provider", metavar="NAME", default="default", help="Which entry of secrets.providers it uses.")
@_writes
def set_(
    app: App,
    path: str,
    value: str | None,
    as_text: bool,
    strict_json: bool,
    merge: bool,
    ref_source: str | None,
    ref_id: str | None,
    ref_provider: str,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Set the key at PATH to VALUE and show the difference.

    VALUE is JSON5 if it reads as such (true, 5, "text", {a: 1}, [1, 2]) and text otherwise. Missing objects on the way
    are made. A key that lives in an included file is changed there.
    """
    if (ref_source is None) != (ref_id is None) or (ref_source is None) == (value is None):
        raise click.UsageError("give either VALUE, or --ref-source together with --ref-id")
    if ref_source is not None:
        wanted: Any = {"source": ref_source, "provider": ref_provider, "id": ref_id}
    else:
        wanted = str(value) if as_text else parse_value(str(value), strict=strict_json)
    steps = _path(path, whole=False)
    _change(app, [Operation("patch" if merge else "set", steps, wanted)], dry_run=dry_run, force=force, as_json=as_json)


@command.command()
@click.argument("path", shell_complete=complete.keys)
@_writes
def unset(app: App, path: str, dry_run: bool, force: bool, as_json: bool) -> None:
    """Remove the key at PATH with its comma; comments around it stay."""
    _change(app, [Operation("unset", _path(path, whole=False))], dry_run=dry_run, force=force, as_json=as_json)


@command.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--file", "named", type=click.Path(path_type=Path, dir_okay=False), help="The same as FILE.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read standard input, as without FILE.")
@_writes
def patch(
    app: App, file: Path | None, named: Path | None, from_stdin: bool, dry_run: bool, force: bool, as_json: bool
) -> None:
    """Lay a JSON5 patch from FILE or standard input over the configuration.

    Objects merge, null removes a key, everything else replaces. The marker of a hidden secret keeps the old value, so
    that what `config get` printed can be changed and sent back.
    """
    source = named or file
    if source is not None and str(source) != "-" and not from_stdin:
        try:
            with source.open("rb") as handle:
                data = handle.read(_PATCH_BYTES + 1)
        except OSError as problem:
            raise click.UsageError(f"cannot read {source}: {problem.strerror}") from None
    else:
        data = sys.stdin.buffer.read(_PATCH_BYTES + 1)
    if len(data) > _PATCH_BYTES:
        raise click.UsageError("the patch is larger than 8 MB")
    try:
        wanted = parse_text(data.decode("utf-8", "replace"), str(source or "standard input"))
    except ConfigError as problem:
        raise click.UsageError(f"the patch is no JSON5: {problem.message}") from None
    if not isinstance(wanted, dict):
        raise click.UsageError("a patch must be an object, such as { session: { scope: 'main' } }")
    _change(app, [Operation("patch", (), wanted)], dry_run=dry_run, force=force, as_json=as_json)


@command.command()
@with_json
def validate(app: App, as_json: bool) -> None:
    """Check everything the program will read at start; ends with code 78 if something is wrong.

    Every key without effect is listed: mistyped, unknown, or known to OpenClaw and not used here. All of them are kept.
    """
    config = app.inspected()
    problems = check(config)
    bad = has_errors(problems)
    if as_json:
        stands_in = str(config.fallback) if config.fallback else None
        app.out.json(
            {
                "ok": not bad,
                "file": str(app.paths.config_path),
                "exists": app.paths.config_path.exists(),
                "standsIn": stands_in,
                "problems": plain(problems),
            }
        )
    elif problems:
        app.out.table(table_rows(problems, home=str(app.paths.home)), HEADERS)
    if not as_json and not bad:
        app.out.line(_found_right(app, config))
    if bad:
        raise click.exceptions.Exit(CONFIGURATION)


def _found_right(app: App, config: Config) -> str:
    path, ok = app.paths.config_path, app.out.style("ok", "green")
    if config.fallback is not None:
        return f"{path} is missing; what stands in for it, {config.fallback}: {ok}"
    return f"{path}: {ok}" if config.source else f"{path} does not exist; the defaults hold"


@command.command()
@with_json
def file(app: App, as_json: bool) -> None:
    """Print where the configuration lies; with --json also what it includes and what stands in for it."""
    config = app.inspected()
    if not as_json:
        app.out.line(str(app.paths.config_path))
        return
    included = [str(source.path) for source in config.source.all()[1:]] if config.source else []
    app.out.json(
        {
            "path": str(app.paths.config_path),
            "exists": app.paths.config_path.exists(),
            "includes": included,
            "standsIn": str(config.fallback) if config.fallback else None,
            "hash": config.hash,
        }
    )


@command.command()
@click.argument("path", required=False, default="", shell_complete=complete.keys)
@with_json
def schema(app: App, path: str, as_json: bool) -> None:
    """Print the JSON Schema of what homarus reads, or of the part at PATH. It is JSON with and without --json.

    \b
    For your editor:
      homarus config schema > openclaw.schema.json
    """
    del as_json
    app.out.json(build_schema(path))


@command.command()
@pass_app
def edit(app: App) -> None:
    """Open the configuration in $VISUAL or $EDITOR, check it, and write it with a backup.

    What does not pass the checks can be edited again; what is given up is kept as openclaw.json.rej.
    """
    edit_session(app)


class _NotSet(HomarusError):
    """Asked for, but not there: a failure (code 1), not a broken configuration."""


_MISSING: Any = object()


def _path(text: str, *, whole: bool = True) -> tuple[str | int, ...]:
    try:
        steps = parse_path(text)
    except ConfigError as problem:
        raise click.UsageError(str(problem)) from None
    if not steps and not whole:
        raise click.UsageError("PATH is empty; name a key")
    return steps


def _shown(
    config: Config, steps: tuple[str | int, ...], *, effective: bool, show: Callable[[dict[str, Any]], Any]
) -> Any:
    """Look a path up in the whole shown document: what stands around a value decides whether it is a secret."""
    if not effective:
        authored = show(config.authored)
        for path in (steps, config.written(steps)):
            found = lookup(authored, path, _MISSING)
            if found is not _MISSING:
                return found
    return lookup(show(config.document), config.canonical(steps), _MISSING)


def parse_value(text: str, *, strict: bool = False) -> Any:
    """Return what a value on the command line means. `+49170…` is text, though JSON5 would call it a number."""
    number = re.fullmatch(r"-?(?:(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+|0[xX][0-9a-fA-F]+)", text.strip())
    looks = number or text.strip() in ("true", "false", "null") or text.strip()[:1] in ("{", "[", '"', "'")
    if not looks and not strict:
        return text
    try:
        return parse(text)
    except ScanError as problem:
        raise click.UsageError(f"the value is no JSON5: {problem.message} (--string takes it as text)") from None


def _change(app: App, operations: Sequence[Operation], *, dry_run: bool, force: bool, as_json: bool) -> None:
    def warn(problem: Problem) -> None:
        app.out.warn(str(problem))

    try:
        done = change(app.inspected(), app.env, operations, literal=True, force=force, dry_run=dry_run, notify=warn)
    except Refused as problem:
        raise ConfigError(problem.message, cure=f"{problem.cure}; --force writes it all the same") from None
    report(app, done, dry_run=dry_run, as_json=as_json)


def report(app: App, changes: Sequence[FileChange], *, dry_run: bool, as_json: bool) -> None:
    """Print what changed, as a diff without secrets."""
    if as_json:
        app.out.json(
            {
                "ok": True,
                "dryRun": dry_run,
                "files": [str(each.path) for each in changes],
                "backups": [str(each.backup) for each in changes if each.backup],
                "diff": "".join(each.diff for each in changes),
            }
        )
        return
    for each in changes:
        for line in each.diff.splitlines():
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
            app.out.line(app.out.style(line, colour) if colour else line)
    if not changes:
        app.out.line("nothing to change")
    elif dry_run:
        app.out.line("dry run: nothing was written")


_NEW_FILE = b"{\n}\n"


def edit_session(app: App) -> None:
    """Let the user edit a private copy until it passes or is given up; then write it, or keep it beside the file."""
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
    change = FileChange(path, before, after)
    try:
        done = write(app.inspected(), app.env, [change])
    except ConfigError as problem:
        raise ConfigError(f"{problem.message}; your text is in {_keep(path, after)}", cure=problem.cure) from None
    report(app, done, dry_run=False, as_json=False)


def _errors(app: App, after: bytes) -> list[Problem]:
    from homarus.config.blocks import validate

    config = inspect_config(app.paths, app.env, overlay={app.paths.config_path: after})
    return [problem for problem in validate(config) if problem.severity == "error"]


def _ask() -> str:
    choices = click.Choice(["edit", "save", "quit"])
    return str(click.prompt("Edit again, save it as it is, or quit and keep it aside?", type=choices, default="edit"))


def _keep(path: Path, data: bytes) -> Path:
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
        raise HomarusError(f"the editor ended with code {code}; nothing was changed", cure="try again")
