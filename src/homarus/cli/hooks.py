"""`homarus hooks`: which code runs on events, and the switch for it. Looking runs no hook."""

from __future__ import annotations

import sys
from typing import Any

import click

from homarus.agent.hook_events import hooks_of
from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import with_json
from homarus.cli.output import clean
from homarus.config.write import Operation, change
from homarus.core.errors import HomarusError
from homarus.hooks.discover import Hook, HookSet
from homarus.hooks.load import HookSettings, HookStatus, judge
from homarus.hooks.manifest import Facts, on_path
from homarus.storage.atomic import create_new
from homarus.workspace.agents import resolve_workspace
from homarus.workspace.names import BOOT
from homarus.workspace.templates import template


@click.group("hooks", cls=Group, default="list")
def command() -> None:
    """List, enable and check hooks. Without a word: the list."""


@command.command("list")
@with_json
def list_hooks(app: App, as_json: bool = False) -> None:
    """List all hooks: what each hears, and whether it runs."""
    found, statuses = _load(app)
    if as_json:
        app.out.json({"hooks": [_summary(status) for status in statuses], "problems": list(found.problems)})
        return
    rows = [
        (
            _mark(app, status),
            clean(status.hook.name),
            status.hook.source.value,
            clean(", ".join(status.hook.events)),
            clean(status.reason),
        )
        for status in statuses
    ]
    app.out.table(rows, ["", "name", "source", "hears", "why"])
    for problem in found.problems:
        app.out.warn(clean(problem))


@command.command("info")
@click.argument("name")
@with_json
def info(app: App, name: str, as_json: bool) -> None:
    """Show one hook: its folder, its events, its gates one by one."""
    _, statuses = _load(app)
    status = _pick(statuses, name)
    if as_json:
        app.out.json(_detail(status))
        return
    out, hook = app.out, status.hook
    out.line(
        f"{out.style(clean(hook.name), 'bold')} {hook.emoji}".rstrip()
        + f"  {_mark(app, status)}: {clean(status.reason)}"
    )
    out.line(clean(hook.description) or "(no description)")
    out.line()
    key = hook.key if hook.key != hook.name else ""
    facts = [("folder", str(hook.folder)), ("source", hook.source.value), ("key", key)]
    facts += [("hears", ", ".join(hook.events)), ("handler", hook.handler and f"{hook.handler}: {hook.function}")]
    facts += [("time limit", f"{hook.timeout:g} s" if hook.timeout else ""), ("homepage", hook.homepage)]
    out.facts(facts, 10)
    for step in status.steps:
        mark = out.style("open", "green") if step.ok else out.style("shut", "red")
        out.line(f"{'gate':>10}  {mark}  {step.gate:<8} {clean(step.detail)}")
    for problem in hook.problems:
        out.line(f"{'problem':>10}  {clean(problem)}")


@command.command("enable")
@click.argument("name")
@with_json
def enable(app: App, name: str, as_json: bool) -> None:
    """Let a hook run from the next start of the gateway on."""
    status = _pick(_load(app)[1], name)
    if not status.able:
        reason = next(
            (f"{step.gate}: {step.detail}" for step in status.steps if not step.ok), "; ".join(status.hook.problems)
        )
        raise HomarusError(f"the hook '{status.hook.name}' cannot run here: {reason}", cure="mend that first")
    _switch(app, status.hook, on=True, as_json=as_json)
    for problem in status.hook.problems:
        app.out.warn(clean(problem))
    page = _boot_page(app) if status.hook.name == "boot-md" and status.hook.source == "bundled" else ""
    if page and not as_json:
        app.out.line(f"wrote {clean(page)}: what should happen when the gateway starts, yours to edit")


@command.command("disable")
@click.argument("name")
@with_json
def disable(app: App, name: str, as_json: bool) -> None:
    """Keep a hook from running."""
    _switch(app, _pick(_load(app)[1], name).hook, on=False, as_json=as_json)


@command.command("check")
@with_json
def check(app: App, as_json: bool) -> int:
    """Look for hooks that should run and cannot, and for damaged ones. Exit code 1 when there are any."""
    found, statuses = _load(app)
    blocked = [status for status in statuses if status.wanted and not status.able]
    unknown = _unknown_entries(app, found)
    # What came with the program and is off is nobody's worry.
    concern = [status for status in statuses if status.wanted or status.hook.source != "bundled"]
    remarks = [f"{status.hook.name}: {problem}" for status in concern for problem in status.hook.problems]
    running = sum(status.on for status in statuses)
    broken = [
        *found.problems,
        *(f"{status.hook.name} is enabled and cannot run: {status.reason}" for status in blocked),
    ]
    broken += [f"hooks.internal.entries.{name}: there is no such hook" for name in unknown]
    if as_json:
        app.out.json({"total": len(statuses), "running": running, "broken": broken, "remarks": remarks})
        return 1 if broken else 0
    app.out.line(f"{len(statuses)} hooks, {running} run")
    app.out.section("Broken", "red", map(clean, broken))
    app.out.section("Remarks", "dim", map(clean, remarks))
    return 1 if broken else 0


def _load(app: App) -> tuple[HookSet, tuple[HookStatus, ...]]:
    config = app.config
    settings = config.block("hooks.internal", HookSettings)
    found = hooks_of(config, resolve_workspace(config, config.default_agent.id, app.env))
    facts = Facts(sys.platform, config.variables(app.env), on_path(app.env.get("PATH", "")), config.get)
    return found, tuple(judge(hook, settings, facts) for hook in found.hooks)


def _switch(app: App, hook: Hook, *, on: bool, as_json: bool) -> None:
    config = app.config
    key = next((key for key in (hook.key, hook.name) if config.lookup(("hooks", "internal", "entries", key))), hook.key)
    wishes = [Operation("set", ("hooks", "internal", "entries", key, "enabled"), on)]
    if on and config.get("hooks.internal.enabled") is False:
        wishes.append(Operation("set", ("hooks", "internal", "enabled"), True))
    changes = change(config, app.env, wishes)
    if as_json:
        app.out.json({"name": hook.name, "enabled": on, "changed": bool(changes)})
        return
    word = "enabled" if on else "disabled"
    already = "" if changes else "already "
    app.out.line(
        f"{clean(hook.name)} is {already}{word} (hooks.internal.entries.{clean(key)} in {config.paths.config_path})"
    )
    if changes:
        app.out.line("a running gateway takes this up when it starts again")


def _boot_page(app: App) -> str:
    """Write a first BOOT.md where there is none, and return where; one that is there stays as it is."""
    path = resolve_workspace(app.config, app.config.default_agent.id, app.env) / BOOT
    return str(path) if path.parent.is_dir() and create_new(path, template(BOOT).encode()) else ""


def _pick(statuses: tuple[HookStatus, ...], name: str) -> HookStatus:
    for status in statuses:
        if name in {status.hook.name, status.hook.key}:
            return status
    known = ", ".join(status.hook.name for status in statuses)
    raise HomarusError(f"there is no hook '{name}'", cure=f"hooks are: {known}")


def _unknown_entries(app: App, found: HookSet) -> list[str]:
    entries = app.config.block("hooks.internal", HookSettings).entries
    return [name for name, entry in entries.items() if entry.get("enabled") is not False and found.get(name) is None]


def _mark(app: App, status: HookStatus) -> str:
    if status.on:
        return app.out.style("on", "green")
    return app.out.style("cannot run", "red") if status.wanted else app.out.style("off", "dim")


def _summary(status: HookStatus) -> dict[str, Any]:
    hook = status.hook
    return {
        "name": hook.name,
        "key": hook.key,
        "description": hook.description,
        "source": hook.source.value,
        "folder": str(hook.folder),
        "events": list(hook.events),
        "loadable": bool(hook.handler),
        "enabled": status.wanted,
        "eligible": status.able,
        "on": status.on,
        "reason": status.reason,
        "problems": list(hook.problems),
    }


def _detail(status: HookStatus) -> dict[str, Any]:
    hook = status.hook
    return {
        **_summary(status),
        "handler": hook.handler,
        "function": hook.function,
        "timeout": hook.timeout,
        "homepage": hook.homepage,
        "gates": [{"gate": step.gate, "ok": step.ok, "detail": step.detail} for step in status.steps],
    }
