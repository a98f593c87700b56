"""`homarus nodes`: other machines that do what this home tells them, and what each may be told."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import click

from homarus.cli.app import App
from homarus.cli.gateway import asked
from homarus.cli.group import Group
from homarus.cli.options import Number, with_json
from homarus.cli.output import clean
from homarus.core.errors import Denied


@click.group("nodes", cls=Group, default="list")
def command() -> None:
    """Approve, call and remove nodes: machines that offer commands to a running gateway. Without a word: the list.

    A node is let in like any device ('homarus devices approve'). Then it asks for what it offers, and is told nothing
    before that is approved here.

    \b
    Examples:
      homarus nodes approve
      homarus nodes invoke cellar system.which '{"bins": ["git"]}'
    """


@command.command("list")
@with_json
def list_nodes(app: App, as_json: bool = False) -> None:
    """List the nodes, and what they ask for. Without a running gateway: those that are known, and none is here."""
    found = app.ask_gateway("node.pair.list") or _kept(app)
    if as_json:
        app.out.json(found)
        return
    for wish in found["pending"]:
        app.out.line(
            f"{wish['requestId'][:8]}  {_name(wish)} wants to offer: {clean(', '.join(wish['commands']), 500)}"
        )
    if found["pending"]:
        app.out.hint("'homarus nodes approve REQUEST' lets it.")
    rows = [
        (
            row["nodeId"][:12],
            _name(row),
            clean(row["platform"], 20),
            "yes" if row["connected"] else "no",
            clean(", ".join(row["commands"]), 200),
        )
        for row in found["paired"]
    ]
    if rows:
        app.out.table(rows, ["node", "name", "platform", "here", "may be told"])
    elif not found["pending"]:
        app.out.line("No node is paired.")


@command.command("describe")
@click.argument("node")
@with_json
def describe(app: App, node: str, as_json: bool) -> None:
    """Show everything about one NODE, by its name or the beginning of its id."""
    found = asked(app, "node.describe", {"nodeId": node})
    if as_json:
        app.out.json(found)
    else:
        app.out.facts([(key, clean(str(value), 500)) for key, value in found.items()], 16)


@command.command("approve")
@click.argument("request", required=False, default="")
@with_json
def approve(app: App, request: str, as_json: bool) -> None:
    """Let a node offer what it asks for; without REQUEST the only one there is."""
    found = asked(app, "node.pair.approve", {"requestId": _waiting(app, request)})
    text = f"{_name(found['node'])} may be told: {', '.join(found['node']['commands']) or 'nothing yet'}"
    app.out.answer(found, clean(text, 1000), as_json=as_json)


@command.command("reject")
@click.argument("request", required=False, default="")
@with_json
def reject(app: App, request: str, as_json: bool) -> None:
    """Refuse what a node asks for; it keeps what it had."""
    found = asked(app, "node.pair.reject", {"requestId": _waiting(app, request)})
    app.out.answer(found, "rejected", as_json=as_json)


@command.command("remove")
@click.argument("node")
@with_json
def remove(app: App, node: str, as_json: bool) -> None:
    """Forget a NODE; it is out at once."""
    app.out.answer(asked(app, "node.pair.remove", {"nodeId": node}), f"removed {clean(node, 80)}", as_json=as_json)


@command.command("rename")
@click.argument("node")
@click.argument("name")
@with_json
def rename(app: App, node: str, name: str, as_json: bool) -> None:
    """Give a NODE a name that you know it by."""
    found = asked(app, "node.rename", {"nodeId": node, "displayName": name})
    app.out.answer(found, f"renamed to {clean(found['displayName'], 80)}", as_json=as_json)


@command.command("invoke")
@click.argument("node")
@click.argument("name", metavar="COMMAND")
@click.argument("params", default="{}")
@click.option("--timeout", type=Number(0.1, 600), default=30, show_default=True, help="Seconds to wait.")
@with_json
def invoke(app: App, node: str, name: str, params: str, timeout: float, as_json: bool) -> None:
    """Tell a NODE to do a COMMAND with PARAMS (JSON), and print its answer."""
    try:
        given: Any = json.loads(params)
    except ValueError:
        raise click.UsageError("PARAMS must be JSON") from None
    order = {"nodeId": node, "command": name, "params": given, "timeoutMs": int(timeout * 1000)}
    found = asked(app, "node.invoke", {**order, "idempotencyKey": uuid4().hex})
    app.out.json(found if as_json else found["payload"])


def _kept(app: App) -> dict[str, Any]:
    from homarus.core.clock import SystemIds
    from homarus.gateway.devices import Devices
    from homarus.gateway.nodes import kept_row, surface_row

    book = Devices(app.paths.own_dir / "devices.json", app.clock, SystemIds()).read()
    paired = [kept_row(device) for device in book.nodes.values()]
    return {"pending": [surface_row(wish) for wish in book.surfaces.values()], "paired": paired}


def _waiting(app: App, start: str) -> str:
    idents = [wish["requestId"] for wish in asked(app, "node.pair.list", {})["pending"]]
    found = [ident for ident in idents if ident.startswith(start)]
    if len(found) != 1:
        words = f"{len(found)} requests of nodes begin with '{clean(start, 80)}'" if start else f"{len(found)} wait"
        raise Denied(words, cure="see: homarus nodes list")
    return str(found[0])


def _name(row: dict[str, Any]) -> str:
    return clean(row.get("displayName") or row["nodeId"][:12], 80)
