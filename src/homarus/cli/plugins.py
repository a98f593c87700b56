"""`homarus plugins`: other people's code, and the switch for it. Looking at a plugin runs nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import json_option, pass_app

if TYPE_CHECKING:
    from homarus.plugins.manifest import Plugin


@click.group("plugins", cls=Group, default="list")
def command() -> None:
    """List, install, enable and write plugins. Without a word: the list."""


@command.command("list")
@json_option
@pass_app
def list_plugins(app: App, as_json: bool) -> None:
    """List the plugins that lie here, and whether they run."""
    from homarus.plugins.manifest import found_plugins, of_openclaw

    rows = [_summary(app, plugin) for plugin in found_plugins(app.config)]
    others = [{"id": name, "instead": instead} for name, instead in of_openclaw(app.config)]
    if as_json:
        app.out.json({"plugins": rows, "ofOpenClaw": others})
        return
    if not rows and not others:
        app.out.hint("no plugins; write one: homarus plugins new dice")
        return
    app.out.table(
        [
            (row["state"], row["id"], row["version"], row["runs"], ", ".join(row["tools"]), row["problem"])
            for row in rows
        ],
        ["", "id", "version", "runs", "tools", "problem"],
    )
    for row in others:
        app.out.line(f"{row['id']} belongs to OpenClaw and does not run here; instead: {row['instead']}")


@command.command("info")
@click.argument("plugin_id")
@json_option
@pass_app
def info(app: App, plugin_id: str, as_json: bool) -> None:
    """Show one plugin: what it adds, what it wishes, and its fingerprint."""
    row = _summary(app, _named(app, plugin_id))
    if as_json:
        app.out.json(row)
        return
    for key, value in row.items():
        if value not in ("", [], None):
            app.out.line(f"{key:>12}  {', '.join(value) if isinstance(value, list) else value}")


@command.command("install")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@json_option
@pass_app
def install(app: App, folder: Path, as_json: bool) -> None:
    """Copy a plugin's folder into this home. It stays switched off."""
    import shutil

    from homarus.core.errors import HomarusError
    from homarus.plugins.installs import ask_leave
    from homarus.plugins.manifest import fingerprint, read_plugin
    from homarus.storage.atomic import ensure_dir

    plugin = read_plugin(folder.absolute())
    if plugin.problem:
        raise HomarusError(plugin.problem, cure="see docs/plugins.md")
    facts = {"kind": "plugin", "name": plugin.id, "source": str(folder.absolute()), "folder": str(folder.absolute())}
    ask_leave(app.config, app.env, {**facts, "sha256": fingerprint(folder), "findings": []})
    target = app.paths.state_dir / "plugins" / plugin.id
    fresh = target.with_name(f".{plugin.id}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    ensure_dir(target.parent)
    shutil.copytree(folder, fresh, ignore=shutil.ignore_patterns("__pycache__", ".git"))
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    row = _summary(app, read_plugin(target))
    if as_json:
        app.out.json(row)
        return
    app.out.line(f"{plugin.id} lies in {target} and is off; it adds: {_adds(row)}; it wishes: {_wishes(row)}")
    app.out.hint(f"look at it, then: homarus plugins enable {plugin.id}")


@command.command("enable")
@click.argument("plugin_id")
@click.option("--in-process", is_flag=True, help="let it run inside the program, with all rights of the program")
@click.option("--network", is_flag=True, help="give it the network that it wishes for")
@json_option
@pass_app
def enable(app: App, plugin_id: str, in_process: bool, network: bool, as_json: bool) -> None:
    """Switch a plugin on, as its files are now. When they change, it stops running until it is switched on again."""
    from homarus.config.write import Operation, change
    from homarus.core.errors import HomarusError
    from homarus.plugins.health import HealthBook
    from homarus.plugins.manifest import Lock, fingerprint

    plugin = _named(app, plugin_id)
    if plugin.problem or plugin.manifest is None:
        raise HomarusError(f"{plugin_id} cannot be used: {plugin.problem}", cure="mend that first")
    if plugin.manifest.inside and not in_process:
        raise HomarusError(f"{plugin_id} must run inside the program", cure="if you trust it, add --in-process")
    keys = {"enabled": True, "inProcess": in_process, "network": network}
    change(
        app.config, app.env, [Operation("set", ("plugins", "entries", plugin_id, key), on) for key, on in keys.items()]
    )
    Lock(app.paths).write(plugin_id, fingerprint(plugin.folder))
    HealthBook(app.paths.own_dir).note(plugin_id, None)
    where = "inside the program" if in_process else "in a process of its own"
    app.out.json({"id": plugin_id, **keys}) if as_json else app.out.line(f"{plugin_id} is on and runs {where}")


@command.command("disable")
@click.argument("plugin_id")
@json_option
@pass_app
def disable(app: App, plugin_id: str, as_json: bool) -> None:
    """Switch a plugin off."""
    from homarus.config.write import Operation, change
    from homarus.plugins.health import HealthBook
    from homarus.plugins.manifest import Lock

    change(app.config, app.env, [Operation("set", ("plugins", "entries", plugin_id, "enabled"), False)])
    Lock(app.paths).write(plugin_id, None)
    HealthBook(app.paths.own_dir).note(plugin_id, None)
    app.out.json({"id": plugin_id, "enabled": False}) if as_json else app.out.line(f"{plugin_id} is off")


@command.command("remove")
@click.argument("plugin_id")
@json_option
@pass_app
def remove(app: App, plugin_id: str, as_json: bool) -> None:
    """Take a plugin out of this home: its folder, and what switched it on."""
    import shutil

    from homarus.config.write import Operation, change
    from homarus.core.errors import HomarusError
    from homarus.plugins.health import HealthBook
    from homarus.plugins.manifest import Lock

    plugin, own = _named(app, plugin_id), app.paths.state_dir / "plugins"
    if plugin.folder.parent != own:
        cure = f"it stays where you put it; switch it off: homarus plugins disable {plugin_id}"
        raise HomarusError(f"{plugin_id} lies in {plugin.folder}, which is not of this home", cure=cure)
    if plugin_id in (app.config.get("plugins.entries") or {}):
        change(app.config, app.env, [Operation("unset", ("plugins", "entries", plugin_id))])
    Lock(app.paths).write(plugin_id, None)
    HealthBook(app.paths.own_dir).note(plugin_id, None)
    shutil.rmtree(plugin.folder)
    app.out.json({"id": plugin_id, "removed": True}) if as_json else app.out.line(f"{plugin_id} is removed")


@command.command("doctor")
@json_option
@pass_app
def doctor(app: App, as_json: bool) -> int:
    """Look for plugins that cannot run or have failed. Exit code 1 when there are any."""
    from homarus.admin.doctor.finding import Home, Severity
    from homarus.admin.doctor.home import check_plugins

    found = check_plugins(Home(app.config, app.env, app.clock))
    if as_json:
        app.out.json({"findings": [finding.as_json() for finding in found]})
    elif not found:
        app.out.line("nothing is wrong with the plugins")
    for finding in () if as_json else found:
        app.out.hint(f"{finding.severity.value:<8} {finding.message}" + (f" ({finding.cure})" if finding.cure else ""))
    return int(any(finding.severity in {Severity.WARNING, Severity.ERROR} for finding in found))


@command.command("new")
@click.argument("plugin_id")
@click.option(
    "--to", "target", type=click.Path(path_type=Path), help="folder to write; a new one of that name otherwise"
)
@json_option
@pass_app
def new(app: App, plugin_id: str, target: Path | None, as_json: bool) -> None:
    """Write a small plugin that works, to begin with."""
    import json

    from homarus.core.errors import HomarusError
    from homarus.plugins.manifest import FILE, read_plugin
    from homarus.storage.atomic import create_new, ensure_dir

    folder = (target or Path(plugin_id)).absolute()
    manifest = json.dumps(_MANIFEST | {"id": plugin_id}, indent=2) + "\n"
    ensure_dir(folder, mode=0o755)
    if not create_new(folder / FILE, manifest.encode()) or not create_new(folder / "plugin.py", _CODE.encode()):
        raise HomarusError(f"{folder} holds a plugin already", cure="choose another folder with --to")
    if problem := read_plugin(folder).problem:
        (folder / FILE).unlink()
        (folder / "plugin.py").unlink()
        raise HomarusError(problem)
    words = f"wrote {folder}; then: homarus plugins install {folder} and homarus plugins enable {plugin_id}"
    app.out.json({"id": plugin_id, "folder": str(folder)}) if as_json else app.out.hint(words)


_MANIFEST: dict[str, Any] = {
    "id": "",
    "version": "0.1.0",
    "description": "Rolls dice.",
    "api": 1,
    "entry": "plugin.py:register",
    "tools": [
        {
            "name": "roll_dice",
            "description": "Roll a die and return what it shows.",
            "parameters": {"type": "object", "properties": {"sides": {"type": "integer"}}},
            "risk": "read",
        }
    ],
}
_CODE = '''"""A plugin for homarus: each tool of the manifest has a function here."""

import random


def roll(arguments):
    return str(random.randint(1, arguments.get("sides", 6)))


def register(api):
    api.tool("roll_dice", roll)
'''


def _named(app: App, plugin_id: str) -> Plugin:
    from homarus.core.errors import HomarusError
    from homarus.plugins.manifest import find_plugin

    plugin = find_plugin(app.config, plugin_id)
    if plugin is None:
        raise HomarusError(f"there is no plugin '{plugin_id}'", cure="see 'homarus plugins list'")
    return plugin


def _summary(app: App, plugin: Plugin) -> dict[str, Any]:
    from homarus.core.errors import HomarusError
    from homarus.plugins.health import HealthBook
    from homarus.plugins.manifest import Entry, Lock, PluginSettings, fingerprint, usable

    health = HealthBook(app.paths.own_dir).of(plugin.id)
    settings, made = app.config.block("plugins", PluginSettings), plugin.manifest
    entry, problem, mark = settings.entries.get(plugin.id, Entry()), plugin.problem, ""
    try:
        mark = fingerprint(plugin.folder)
        if settings.wants(plugin.id):
            usable(app.config, plugin.id, entry, Lock(app.paths).read())
    except HomarusError as fault:
        problem = problem or fault.message
    state = "off" if not settings.wants(plugin.id) else "cannot run" if problem else "on"
    return {
        "id": plugin.id,
        "state": state,
        "version": made.version if made else "",
        "description": made.description if made else "",
        "folder": str(plugin.folder),
        "runs": "inside" if entry.in_process and not health.blocked else "apart",
        "tools": [tool.name for tool in made.tools] if made else [],
        "providers": list(made.providers) if made else [],
        "contextEngines": list(made.context_engines) if made else [],
        "memory": list(made.memory) if made else [],
        "channels": [channel.id for channel in made.channels] if made else [],
        "hooks": list(made.hooks) if made else [],
        "wishes": ["network"] if made and made.wishes.network else [],
        "sha256": mark,
        "failures": health.failures,
        "problem": problem or health.last,
    }


def _adds(row: dict[str, Any]) -> str:
    edges = [*row["tools"], *row["providers"], *row["contextEngines"], *row["memory"], *row["channels"]]
    return ", ".join([*edges, *(f"a hook at {name}" for name in row["hooks"])]) or "nothing"


def _wishes(row: dict[str, Any]) -> str:
    return ", ".join(row["wishes"]) or "nothing beyond its own folder"
