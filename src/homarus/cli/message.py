"""`homarus message` and `homarus directory`: write to people on chat platforms, and find them there."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from homarus.cli.app import App
from homarus.cli.chat_home import asked, known_account, manifest_of, once
from homarus.cli.group import Group
from homarus.cli.options import with_json
from homarus.cli.output import clean

if TYPE_CHECKING:
    from homarus.runtime.switchboard import Switchboard

Json = dict[str, Any]


@click.group("message", cls=Group)
def command() -> None:
    """Send and change messages on chat platforms, as the agent.

    The running gateway does it; without one this command connects for a moment.

    \b
    Examples:
      homarus message send --channel telegram --target 12345678 --message "tea is ready"
      homarus message send --target irc:#home --message "hello" --media ~/plan.pdf
      homarus message react --channel discord --target 99887766 --message-id 42 --emoji ✅
      homarus message poll --channel signal --target +4312345 --question "When?" --option 8 --option 9
    """


def _where(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option(
            "--channel", metavar="NAME", default="", help="On which platform; a target may name it: irc:#home."
        ),
        click.option("--target", "-t", required=True, metavar="WHO", help="A person, a group or a room, by its id."),
        click.option("--account", metavar="ID", default="", help="From which account, where there are several."),
        click.option("--thread-id", metavar="ID", default="", help="In which thread or topic."),
    ]
    for option in reversed(options):
        function = option(function)
    return with_json(function)


def _act(app: App, action: str, where: Json, given: Json, as_json: bool) -> None:
    """Do it and say what the platform said."""
    channel, target = where["channel"], where["target"]
    if not channel and ":" in target:
        channel, target = target.split(":", 1)
    if not channel:
        raise click.UsageError("say on which platform: --channel NAME, or --target NAME:WHO")
    channel = manifest_of(channel).id
    params = {"target": target, "threadId": where["thread_id"], **given}
    params = {key: value for key, value in params.items() if value not in (None, "", (), [])}
    ident, account = uuid.uuid4().hex, where["account"]
    call: Json = {"channel": channel, "action": action, "params": params, "idempotencyKey": ident}
    told = asked(app, "message.action", accountId=account, **call)
    if told is None:
        account = known_account(app, channel, account)
        told = once(app, channel, account, lambda board: _here(board, account, call))
    shown = f"{action}: {told['channel']}:{clean(str(told['to']), 80)}"
    shown += f"  id {clean(str(told['messageId']), 80)}" if told.get("messageId") else ""
    app.out.answer(told, shown, as_json=as_json)


async def _here(board: Switchboard, account: str, call: Json) -> Json:
    from homarus.runtime.chat_actions import act_on

    given = call["params"]
    where = board.target(call["channel"], given["target"], account, str(given.get("threadId") or ""))
    return await act_on(board, where, call["action"], given, f"send.{call['idempotencyKey']}")


@command.command("send")
@click.option("--message", "-m", metavar="TEXT", default="", help="What is said; Markdown.")
@click.option("--media", metavar="PATH", multiple=True, help="A file to send along; may be repeated.")
@click.option("--reply-to", metavar="ID", default="", help="The message that it answers.")
@click.option("--silent", is_flag=True, help="Without a sound, where the platform can do that.")
@click.option("--dry-run", is_flag=True, help="Say where it would go, and send nothing.")
@_where
def send(app: App, as_json: bool, **given: Any) -> None:
    """Send a message, and wait until the platform has it."""
    if not given["message"] and not given["media"]:
        raise click.UsageError("there is nothing to send: give --message or --media")
    if given["dry_run"]:
        told = {"dryRun": True, "channel": given["channel"], "to": given["target"], "message": given["message"]}
        app.out.answer(
            told, f"would send to {clean(given['target'], 80)}: {clean(given['message'], 200)}", as_json=as_json
        )
        return
    from pathlib import Path

    media = [str(Path(path).expanduser().absolute()) for path in given["media"]]
    words = {"message": given["message"], "mediaUrls": media, "replyTo": given["reply_to"]}
    _act(app, "send", given, {**words, "silent": given["silent"] or None}, as_json)


@command.command("react")
@click.option("--message-id", required=True, metavar="ID", help="To which message.")
@click.option("--emoji", required=True, help="With what.")
@click.option("--remove", is_flag=True, help="Take it back.")
@_where
def react(app: App, as_json: bool, **given: Any) -> None:
    """React to a message with an emoji."""
    words = {"messageId": given["message_id"], "emoji": given["emoji"], "remove": given["remove"] or None}
    _act(app, "react", given, words, as_json)


@command.command("edit")
@click.option("--message-id", required=True, metavar="ID", help="Which message; only the agent's own.")
@click.option("--message", "-m", required=True, metavar="TEXT", help="What it says from now on.")
@_where
def edit(app: App, as_json: bool, **given: Any) -> None:
    """Change a message of the agent's."""
    _act(app, "edit", given, {"messageId": given["message_id"], "message": given["message"]}, as_json)


@command.command("delete")
@click.option("--message-id", required=True, metavar="ID", help="Which message; only the agent's own.")
@_where
def delete(app: App, as_json: bool, **given: Any) -> None:
    """Take a message of the agent's away."""
    _act(app, "delete", given, {"messageId": given["message_id"]}, as_json)


@command.command("poll")
@click.option("--question", required=True, metavar="TEXT", help="What is asked.")
@click.option("--option", "options", multiple=True, metavar="TEXT", help="An answer; give two to twelve.")
@_where
def poll(app: App, as_json: bool, **given: Any) -> None:
    """Ask a room; everybody answers with a number."""
    _act(app, "poll", given, {"pollQuestion": given["question"], "pollOption": list(given["options"])}, as_json)


@click.command("directory")
@click.argument("channel")
@click.argument("query", required=False, default="")
@click.option("--account", metavar="ID", default="", help="Of which account.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="At most this many.")
@with_json
def directory(app: App, channel: str, query: str, account: str, limit: int, as_json: bool) -> None:
    """List people and groups that CHANNEL knows, as far as the platform says; QUERY narrows it."""
    channel = manifest_of(channel).id
    found = asked(app, "directory.list", channel=channel, accountId=account, query=query, limit=limit)
    if found is None:
        account = known_account(app, channel, account)

        async def look(board: Switchboard) -> Json:
            async with asyncio.timeout(30):
                people = await board.manager.channel(channel, account).directory(query)
            rows = [{"id": each.id, "name": each.name, "handle": each.handle} for each in people[:limit]]
            return {"channel": channel, "accountId": account, "entries": rows}

        found = once(app, channel, account, look)
    if as_json:
        app.out.json(found)
        return
    rows = [
        (clean(row["id"], 80), clean(row.get("name", ""), 60), clean(row.get("handle", ""), 60))
        for row in found["entries"]
    ]
    if not rows:
        app.out.hint("The platform names nobody. Ids stand in the chat itself, or in 'homarus pairing list'.")
        return
    app.out.table(rows, ("id", "name", "handle"))
