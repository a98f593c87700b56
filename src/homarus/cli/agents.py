"""`homarus agents`: who lives here, where each one's home is, and who answers on which channel."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from homarus.admin.agents import Roster
from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import filled, with_json
from homarus.cli.output import hushed
from homarus.config.known import NO_EFFECT
from homarus.config.write import Operation
from homarus.core.errors import Unknown
from homarus.core.routes import normalize_agent_id
from homarus.workspace.agents import describe, resolve_workspace
from homarus.workspace.identity import write_identity
from homarus.workspace.roster import bind as bound
from homarus.workspace.roster import describe_match
from homarus.workspace.roster import set_identity as identified
from homarus.workspace.roster import unbind as unbound

_PEERS = ("direct", "group", "channel", "room")


@click.group(cls=Group, default="list", short_help="Who lives here, where, and who answers on which channel.")
def command() -> None:
    """Manage agents: each has a workspace, a character and sessions of its own.

    Changes of openclaw.json keep your comments and leave a .bak file. Nothing here deletes a file of yours.

    \b
    Examples:
      homarus agents add work --name Otto --emoji 🦉
      homarus agents bind work telegram --account office
      homarus agents bind work discord --peer channel:99887766
      homarus agents set-identity work --vibe "dry, exact"
      homarus agents delete work
    """


@command.command("list")
@with_json
def list_(app: App, as_json: bool) -> None:
    """List the agents with their workspaces, models and bindings."""
    config = app.config
    views = [describe(config, agent, app.env) for agent in config.agents]
    if as_json:
        app.out.json(msgspec.to_builtins(views))
        return
    app.out.table(
        [
            (
                f"{view.id} *" if view.default else view.id,
                " ".join(part for part in (view.emoji, view.name) if part) or None,
                view.workspace if view.exists else f"{view.workspace} (not there yet)",
                view.model or None,
                ", ".join(describe_match(match) for match in view.bindings) or None,
            )
            for view in views
        ],
        ("agent", "name", "workspace", "model", "answers on"),
    )
    app.out.line(app.out.style("* answers what is bound to nobody", "dim"))


@command.command()
@click.argument("agent", shell_complete=complete.agents, callback=filled)
@click.option("--workspace", metavar="DIR", help="Its home, instead of <state>/workspace-AGENT.", callback=filled)
@click.option(
    "--model",
    metavar="REF",
    help="Its model, instead of the common one.",
    shell_complete=complete.models,
    callback=filled,
)
@click.option("--name", help="Its name, written into its IDENTITY.md.")
@click.option("--emoji", help="Its emoji, written into its IDENTITY.md.")
@with_json
def add(
    app: App,
    agent: str,
    workspace: str | None,
    model: str | None,
    name: str | None,
    emoji: str | None,
    as_json: bool,
) -> None:
    """Add an AGENT to the roster and lay out its workspace."""
    plain = agent.strip().lower().replace(" ", "-")
    if plain and normalize_agent_id(plain) != plain:
        raise Unknown(f"'{agent}' is no usable name", cure="use at most 64 letters (a to z), digits, '-' and '_'")
    if model:
        _check_model(app, model)
    roster = Roster(app.config, app.env, app.clock)
    made = roster.add(agent, {"workspace": workspace, "model": model}, {"name": name or "", "emoji": emoji or ""})
    agent_id, home, seeded = made.agent_id, made.workspace, made.seeded
    for other in made.sharers:
        app.out.warn(f"'{agent_id}' shares its workspace with '{other}': they will mix their memories")
    if as_json:
        app.out.json({"id": agent_id, "workspace": str(home), "created": list(seeded.created), "git": seeded.git})
        return
    app.out.line(f"added {app.out.style(agent_id, 'bold')}")
    app.out.line(f"workspace: {home}" + (f" (wrote {', '.join(seeded.created)})" if seeded.created else ""))
    app.out.hint(f"next: homarus agents bind {agent_id} CHANNEL")


def _check_model(app: App, model: str) -> None:
    """Refuse a model that nobody has, as `homarus models set` does."""
    from homarus.models.access import Models
    from homarus.models.ready import check_choice
    from homarus.models.select import AUTO

    if model != AUTO:
        models = Models(app.config, app.env, clock=app.clock)
        check_choice(models, models.names(app.config.default_agent).resolve(model).ref)


@command.command()
@click.argument("agent", shell_complete=complete.agents, callback=filled)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--purge", is_flag=True, help="Also move its workspace and sessions to <state>/trash.")
@with_json
def delete(app: App, agent: str, yes: bool, purge: bool, as_json: bool) -> None:
    """Take an AGENT and its bindings out of the configuration; its files stay unless you say --purge."""
    roster = Roster(app.config, app.env, app.clock)
    plan = roster.plan_removal(agent, purge=purge)
    home = plan.workspace
    if not yes:
        _ask(app, f"Delete agent '{plan.agent.id}'" + (" and move its folders to the trash" if purge else ""), as_json)
    gone = roster.remove(plan)
    moved = gone.moved
    if as_json:
        kept = [] if purge else [str(home)]
        trash = [str(path) for path in moved]
        app.out.json({"deleted": gone.agent_id, "kept": kept, "trash": trash, "default": gone.heir or None})
        return
    app.out.line(f"deleted {gone.agent_id}" + (f"; '{gone.heir}' is the default agent now" if gone.heir else ""))
    for path in moved:
        app.out.line(f"moved to {path}")
    if not purge and home.exists():
        app.out.line(f"its files are still at {home}")


@command.command()
@click.argument("agent", shell_complete=complete.agents, callback=filled)
@click.argument("channel", callback=filled)
@click.option("--account", metavar="ID", help="Only this account of the channel.", callback=filled)
@click.option(
    "--peer", metavar="KIND:ID", help=f"Only this conversation; KIND is {', '.join(_PEERS)}.", callback=filled
)
@with_json
def bind(app: App, agent: str, channel: str, account: str | None, peer: str | None, as_json: bool) -> None:
    """Let AGENT answer on CHANNEL: on all of it, on one account, or in one conversation."""
    config = app.config
    known, match = config.agent_named(agent), _match(channel, account, peer)
    operations = bound(config.authored, known.id, match)
    if operations:
        Roster(config, app.env, app.clock).write(operations)
    why = NO_EFFECT.get(f"channels.{channel}") or NO_EFFECT.get("channels", "")
    if not why and channel not in (config.authored.get("channels") or {}):
        why = _not_set_up(channel)
    verb = "is to answer" if why else "answers" if operations else "answered already"
    said = f"{known.id} {verb} on {describe_match(match)}" + (f"; it is written down, but {why}" if why else "")
    facts = {"agentId": known.id, "match": match, "changed": bool(operations), "inEffect": not why}
    app.out.answer(facts, said, as_json=as_json)


def _not_set_up(channel: str) -> str:
    import difflib

    from homarus.channels.discovery import manifests

    known = list(manifests())
    if channel in known:
        return f"{channel} is not set up yet (homarus channels add {channel})"
    near = difflib.get_close_matches(channel, known, n=1)
    return f"there is no channel {channel} here ({f'did you mean {near[0]}?' if near else 'there are: ' + ', '.join(known)})"


@command.command()
@click.argument("agent", shell_complete=complete.agents, callback=filled)
@click.argument("channel", required=False, callback=filled)
@click.option("--account", metavar="ID", help="Only this account of the channel.", callback=filled)
@click.option("--peer", metavar="KIND:ID", help="Only this conversation.", callback=filled)
@click.option("--all", "everything", is_flag=True, help="Every binding of the agent.")
@with_json
def unbind(
    app: App,
    agent: str,
    channel: str | None,
    account: str | None,
    peer: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Remove AGENT's bindings on CHANNEL, or all of them."""
    if everything == bool(channel):
        raise click.UsageError("name a CHANNEL, or say --all")
    config = app.config
    known = config.agent_named(agent)
    operations = unbound(config.authored, known.id, _match(channel, account, peer) if channel else None)
    Roster(config, app.env, app.clock).write(operations)
    app.out.answer(
        {"agentId": known.id, "removed": len(operations)},
        f"removed {len(operations)} binding{'s' if len(operations) > 1 else ''} of {known.id}",
        as_json=as_json,
    )


@command.command("set-identity")
@click.argument("agent", required=False, shell_complete=complete.agents, callback=filled)
@click.option("--name", help="What it is called.")
@click.option("--creature", help="What kind of being it is.")
@click.option("--vibe", help="How it comes across.")
@click.option("--theme", help="What it is about, in a few words.")
@click.option("--emoji", help="The sign that stands for it.")
@click.option("--avatar", help="A path in the workspace, or a URL.")
@click.option(
    "--where",
    type=click.Choice(["auto", "file", "config", "both"]),
    default="auto",
    help="auto: IDENTITY.md, and openclaw.json where it names the same value.",
)
@with_json
def set_identity(app: App, /, agent: str | None, where: str, as_json: bool, **labels: str | None) -> None:
    """Change who AGENT is: one line of its IDENTITY.md each, nothing else."""
    values = {label: value.strip() for label, value in labels.items() if value and value.strip()}
    if not values:
        raise click.UsageError("say what to change, for example --name Otto")
    config = app.config
    known = config.agent_named(agent)
    home = resolve_workspace(config, known.id, app.env)
    operations: list[Operation] = []
    if where != "file":
        operations = identified(config.authored, known.id, values, force=where in ("config", "both"))
    touched = [str(write_identity(home, values))] if where != "config" else []
    if operations:
        Roster(config, app.env, app.clock).write(operations)
        touched.append(str(app.paths.config_path))
    app.out.answer(
        {"agentId": known.id, "identity": values, "changed": touched},
        f"{known.id}: set {', '.join(values)} in {' and '.join(touched)}",
        as_json=as_json,
    )


def _match(channel: str, account: str | None, peer: str | None) -> dict[str, Any]:
    match: dict[str, Any] = {"channel": channel.strip().lower()}
    if account:
        match["accountId"] = account.strip()
    if peer:
        kind, _, ident = peer.partition(":")
        if kind not in _PEERS or not ident.strip():
            raise click.UsageError(f"--peer is KIND:ID with KIND one of {', '.join(_PEERS)}, not '{peer}'")
        match["peer"] = {"kind": kind, "id": ident.strip()}
    return match


def _ask(app: App, question: str, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here; add --yes")
    with hushed():
        if not click.confirm(f"{question}?", default=False):
            raise click.Abort
