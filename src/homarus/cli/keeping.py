"""`homarus backup` and `homarus security`: keep a home, and keep it closed."""

from __future__ import annotations

from pathlib import Path

import click

from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import with_json
from homarus.core.text import human_bytes


@click.group("backup", cls=Group)
def backup() -> None:
    """Put a whole home into one file, check such a file, and put it back.

    The file holds the configuration, conversations, notes and keys: keep it as you keep a password.
    """


@backup.command("create")
@click.argument("target", required=False, type=click.Path(path_type=Path))
@with_json
def create(app: App, target: Path | None, as_json: bool) -> None:
    """Write an archive to TARGET, or to homarus-backup-<moment>.tar.gz here. It works while a gateway serves the home.

    Left out are weights of models, temporary files, and links that lead out of the home.
    """
    from homarus.admin import backup as work
    from homarus.cli.output import Bar

    now = app.clock.now()
    path = target or Path(f"homarus-backup-{now:%Y-%m-%d-%H%M%S}.tar.gz")
    with Bar(app.out.err, "saving") as bar:
        made = work.create(work.roots_of(app.config, app.env), path, now, bar.update)
    size = path.stat().st_size
    facts = {"path": str(path.absolute()), "files": len(made.files), "bytes": size, "skipped": list(made.skipped)}
    text = f"wrote {path}: {len(made.files)} files, {human_bytes(size)}"
    app.out.answer(facts, f"{text}; {len(made.skipped)} left out" if made.skipped else text, as_json=as_json)


@backup.command("verify")
@click.argument("archive", type=click.Path(path_type=Path))
@with_json
def verify(app: App, archive: Path, as_json: bool) -> int:
    """Read a whole ARCHIVE and compare it with its manifest. Exit code 1 when anything is wrong."""
    from homarus.admin import backup as work

    manifest, problems = work.verify(archive)
    facts = {"made": manifest.made, "files": len(manifest.files), "roots": manifest.roots, "problems": problems}
    words = "\n".join(problems) or f"whole: {len(manifest.files)} files of {manifest.made}"
    app.out.answer(facts, words, as_json=as_json)
    return 1 if problems else 0


@backup.command("restore")
@click.argument("archive", type=click.Path(path_type=Path))
@click.option("--to", "folder", type=click.Path(path_type=Path), help="Unpack into this folder instead.")
@click.option(
    "--elsewhere", is_flag=True, help="Put workspaces outside of the home back where the archive says they were."
)
@click.option("--replace", is_flag=True, help="Move what is in the way aside; it is kept under another name.")
@with_json
def restore(app: App, archive: Path, folder: Path | None, elsewhere: bool, replace: bool, as_json: bool) -> None:
    """Put the home of an ARCHIVE back. It is checked first, and nothing that exists is overwritten.

    A workspace that lay outside of the home is unpacked beside the home: an archive does not choose where it writes.
    """
    from homarus.admin import backup as work

    manifest, _ = work.verify(archive)
    home = app.paths.state_dir
    places = {name: home.with_name(f"{home.name}-{name}") for name in manifest.roots}
    if elsewhere:
        places = {name: Path(path) for name, path in manifest.roots.items()}
    places[work.STATE] = home
    if folder is not None:
        places = {name: folder.absolute() / name for name in manifest.roots}
    done = work.restore(archive, places, app.clock.now(), replace=replace)
    app.out.answer({"done": done}, "\n".join(done), as_json=as_json)


@click.group("security", cls=Group)
def security() -> None:
    """See what in this home is open to others, and close it."""


_NAMES = {"error": ("critical", "red"), "warning": ("warn", "yellow"), "info": ("info", "cyan")}


@security.command("audit")
@click.option(
    "--fix", is_flag=True, help="Close what can be closed without asking: file modes and settings that are too wide."
)
@with_json
def audit(app: App, fix: bool, as_json: bool) -> int:
    """Look through settings, files and skills for what gives strangers a way in. Exit code 1 when something critical is left.

    Looking changes nothing and asks nobody. A fix only ever takes rights away.
    """
    from homarus.admin.audit import audit as look
    from homarus.admin.doctor.finding import Home

    def subject() -> Home:
        return Home(app.inspected(), app.env, app.clock)

    findings, done = look(subject()), list[str]()
    while fix and (mending := next((each for each in findings if each.fix is not None), None)) and len(done) < 100:
        assert mending.fix is not None
        done.append(mending.fix())  # one by one: each may change the file that the next one reads
        findings = look(subject())
    rows = [{**each.as_json(), "severity": _NAMES[each.severity][0]} for each in findings]
    if as_json:
        app.out.json({"findings": rows, "fixed": done})
    else:
        for each in findings:
            name, color = _NAMES[each.severity]
            app.out.line(f"{app.out.style(f'{name:<8}', color)} {app.out.style(each.check, 'bold')} {each.path}")
            app.out.hint(f"         {each.message}{f'; {each.cure}' if each.cure else ''}")
        for line in done:
            app.out.line(f"{app.out.style('fixed', 'green')}: {line}")
        counts = [sum(row["severity"] == name for row in rows) for name in ("critical", "warn", "info")]
        left = sum(each.fix is not None for each in findings)
        more = f"; 'homarus security audit --fix' closes {left}" if left and not fix else ""
        app.out.hint(f"{counts[0]} critical, {counts[1]} warnings, {counts[2]} notes{more}")
    return 1 if any(row["severity"] == "critical" for row in rows) else 0
