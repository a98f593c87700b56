"""`homarus pairing`: people who asked to talk with the agent."""

from __future__ import annotations

import click
import msgspec

from homarus.channels.discovery import manifests
from homarus.cli.app import App
from homarus.cli.chat_home import asked, manifest_of, owner_added, pairing_store
from homarus.cli.group import Group
from homarus.cli.options import with_json
from homarus.cli.output import clean
from homarus.config.write import change
from homarus.core.errors import Unknown
from homarus.core.routes import DEFAULT_ACCOUNT


@click.group("pairing", cls=Group, default="list")
def command() -> None:
    """People who asked to talk with the agent: let them in or not. Without a word: who waits.

    A code counts for an hour. What is decided here counts at once, also in a running gateway.
    """


@command.command("list")
@click.argument("channel", required=False, default="")
@with_json
def list_pairing(app: App, channel: str = "", as_json: bool = False) -> None:
    """List who waits, on CHANNEL or on all."""
    names = [manifest_of(channel).id] if channel else list(manifests())
    store = pairing_store(app)
    rows = [{"channel": name, **msgspec.to_builtins(each)} for name in names for each in store.pending(name)]
    if as_json:
        app.out.json({"requests": rows})
    elif not rows:
        app.out.line("Nobody waits.")
    else:
        shown = [
            (
                row["channel"],
                row["code"],
                clean(row["id"], 60),
                clean(str(row["meta"].get("name") or ""), 40),
                row["createdAt"],
            )
            for row in rows
        ]
        app.out.table(shown, ("channel", "code", "who", "calls themselves", "since"))
        app.out.hint("'homarus pairing approve CHANNEL CODE' lets somebody in.")


@command.command("approve")
@click.argument("channel")
@click.argument("code")
@click.option("--account", metavar="ID", default="", help="Of which account.")
@click.option("--owner", is_flag=True, help="It is you: give them the rights of the owner there.")
@click.option("--notify", is_flag=True, help="Tell them, through the running gateway.")
@with_json
def approve(app: App, channel: str, code: str, account: str, owner: bool, notify: bool, as_json: bool) -> None:
    """Let somebody in who has this CODE."""
    import uuid

    name = manifest_of(channel).id
    request = pairing_store(app).approve(name, code, account)
    if owner:
        change(app.config, app.env, [owner_added(app, name, request.id)])
    told = {"ok": True, "channel": name, "id": request.id, "accountId": request.account, "owner": owner}
    app.out.answer(told, f"{clean(request.id, 80)} may talk with the agent on {name} now", as_json=as_json)
    if notify:
        words = {"to": request.id, "message": "You may talk with me now.", "idempotencyKey": uuid.uuid4().hex}
        if asked(app, "send", channel=name, accountId=request.account, **words) is None:
            app.out.warn("no gateway runs, so they were not told")


@command.command("reject")
@click.argument("channel")
@click.argument("code")
@click.option("--account", metavar="ID", default="", help="Of which account.")
@with_json
def reject(app: App, channel: str, code: str, account: str, as_json: bool) -> None:
    """Forget the request with this CODE. Whoever made it may ask again."""
    name = manifest_of(channel).id
    request = pairing_store(app).reject(name, code, account)
    told = {"ok": True, "channel": name, "id": request.id, "rejected": True}
    app.out.answer(told, f"forgot the request of {clean(request.id, 80)}", as_json=as_json)


@command.command("revoke")
@click.argument("channel")
@click.argument("who")
@click.option("--account", metavar="ID", default=DEFAULT_ACCOUNT, show_default=True, help="Of which account.")
@with_json
def revoke(app: App, channel: str, who: str, account: str, as_json: bool) -> None:
    """Take back that somebody was let in, by the platform's id."""
    name = manifest_of(channel).id
    if not pairing_store(app).revoke(name, who, account):
        raise Unknown(f"{clean(who, 80)} was not let in by pairing", cure="see allowFrom in openclaw.json")
    app.out.answer({"ok": True, "channel": name, "id": who}, f"{clean(who, 80)} is a stranger again", as_json=as_json)
