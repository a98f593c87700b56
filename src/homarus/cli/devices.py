"""`homarus devices`: who may come in from where, and who waits to be let in."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from msgspec import to_builtins

from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import with_json
from homarus.cli.output import clean
from homarus.core.clock import SystemIds
from homarus.core.errors import Denied
from homarus.gateway.devices import Book, Device, Devices, shown
from homarus.gateway.scopes import ALL, Principal

# Whoever can write the file of devices may decide about them.
OWNER = Principal(ALL, "local")


@click.group("devices", cls=Group, default="list")
def command() -> None:
    """Approve, rename and remove the devices that connect to the gateway. Without a word: the list.

    A running gateway takes every change up at once.
    """


@command.command("list")
@with_json
def list_devices(app: App, as_json: bool = False) -> None:
    """List who waits and who is paired."""
    book = _devices(app).read()
    if as_json:
        pending = [to_builtins(wish) for wish in book.pending.values()]
        app.out.json({"pending": pending, "paired": [shown(device) for device in _all(book)]})
        return
    if not book.pending and not _all(book):
        app.out.line("No device is paired, and none waits.")
    if book.pending:
        waiting = [
            (
                wish.request_id,
                _name(wish.display_name, wish.client_id),
                wish.remote_ip,
                wish.reason,
                _short(wish.scopes),
            )
            for wish in book.pending.values()
        ]
        app.out.table(waiting, ["request", "who", "from", "why", "wants"])
        app.out.hint("'homarus devices approve REQUEST' lets one in.")
    if _all(book):
        paired = [
            (
                each.device_id[:12],
                _name(each.display_name, each.client_id),
                _day(each.last_seen_at_ms),
                "a node" if each.role == "node" else _short(each.scopes),
            )
            for each in _all(book)
        ]
        app.out.table(paired, ["device", "who", "seen", "may"])


@command.command("approve")
@click.argument("request", required=False, default="")
@with_json
def approve(app: App, request: str, as_json: bool) -> None:
    """Let in a device that waits; without REQUEST the only one there is."""
    waiting = list(_devices(app).read().pending)
    if not waiting:
        raise Denied("no device waits to be let in", cure="connect with it first; 'homarus devices' then shows it")
    if not request and len(waiting) != 1:
        raise Denied(f"{len(waiting)} devices wait", cure="name the request: homarus devices list")
    found = [ident for ident in waiting if ident.startswith(request)]
    if len(found) != 1:
        raise Denied(f"no single request begins with '{clean(request, 80)}'", cure="see: homarus devices list")
    _said(app, shown(_devices(app).approve(found[0], OWNER)), "approved", as_json=as_json)


@command.command("reject")
@click.argument("request")
@with_json
def reject(app: App, request: str, as_json: bool) -> None:
    """Turn a device away that waits."""
    _said(app, to_builtins(_devices(app).reject(request)), "rejected", as_json=as_json)


@command.command("remove")
@click.argument("device")
@with_json
def remove(app: App, device: str, as_json: bool) -> None:
    """Forget a device; it is out at once."""
    _said(app, shown(_devices(app).remove(_whole(app, device), OWNER)), "removed", as_json=as_json)


@command.command("rename")
@click.argument("device")
@click.argument("name")
@with_json
def rename(app: App, device: str, name: str, as_json: bool) -> None:
    """Give a device a name that you know it by."""
    _said(app, shown(_devices(app).rename(_whole(app, device), name, OWNER)), "renamed", as_json=as_json)


@command.command("revoke")
@click.argument("device")
@with_json
def revoke(app: App, device: str, as_json: bool) -> None:
    """Take a device's token back; with the gateway's secret it can come in again."""
    _said(app, shown(_devices(app).revoke(_whole(app, device), OWNER)), "revoked", as_json=as_json)


def _devices(app: App) -> Devices:
    return Devices(app.paths.own_dir / "devices.json", app.clock, SystemIds())


def _all(book: Book) -> list[Device]:
    return [*book.paired.values(), *book.nodes.values()]


def _whole(app: App, start: str) -> str:
    found = [
        ident for ident in {each.device_id for each in _all(_devices(app).read())} if start and ident.startswith(start)
    ]
    if len(found) != 1:
        raise Denied(f"no single device begins with '{clean(start, 80)}'", cure="see: homarus devices list")
    return found[0]


def _said(app: App, facts: dict[str, object], done: str, *, as_json: bool) -> None:
    if as_json:
        app.out.json({**facts, "done": done})
    else:
        app.out.line(f"{done} {_name(str(facts.get('displayName', '')), str(facts.get('clientId', '')))}")


def _name(display: str, client: str) -> str:
    return clean(display or client or "a device", 80)


def _short(scopes: tuple[str, ...]) -> str:
    return ", ".join(scope.removeprefix("operator.") for scope in scopes)


def _day(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d %H:%M}"
