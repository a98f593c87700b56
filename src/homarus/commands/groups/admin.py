"""Commands that reach beyond their conversation. All are the owner's; all but the approvals are off until switched on."""

from __future__ import annotations

import json
from typing import Any

from homarus.commands.command import Command, CommandContext, CommandReply, Handler, Need, said
from homarus.commands.settings import LOCAL_CHANNELS
from homarus.config.keypath import lookup, parse_path
from homarus.config.redact import redact

DECISIONS = {
    "once": "allow-once",
    "allow-once": "allow-once",
    "y": "allow-once",
    "yes": "allow-once",
    "allow": "allow-once",
    "always": "allow-always",
    "allow-always": "allow-always",
    "a": "allow-always",
    "deny": "deny",
    "n": "deny",
    "no": "deny",
}


async def approve(ctx: CommandContext) -> CommandReply:
    """Answer a question that a running turn waits for."""
    words = ctx.words
    decision = DECISIONS.get(words[1].lower() if len(words) > 1 else "once")
    if not words or decision is None:
        return said("Usage: /approve ID [once|always|deny]")
    return said(await ctx.client.answer(words[0], decision))


async def config(ctx: CommandContext) -> CommandReply:
    """Read or change one key of the configuration; secrets are never shown."""
    words = ctx.args.split(None, 2)
    action = words[0].lower() if words else "show"
    if action in {"show", "get"}:
        document = redact(ctx.home.config.document)
        return said(_shown(lookup(document, parse_path(words[1])) if len(words) > 1 else document))
    if action == "set" and len(words) == 3:
        return said(ctx.configure(words[1], _value(words[2])))
    if action == "unset" and len(words) == 2:
        return said(ctx.configure(words[1], None, remove=True))
    return said("Usage: /config get [key] · /config set KEY VALUE · /config unset KEY")


async def debug(ctx: CommandContext) -> CommandReply:
    """Let a setting hold in this process alone; the file stays as it is."""
    words = ctx.args.split(None, 2)
    action = words[0].lower() if words else "show"
    now = ctx.home.overrides
    if action == "set" and len(words) == 3:
        parse_path(words[1])
        ctx.home.override({**now, words[1]: _value(words[2])})
        return said(f"{words[1]} is set in this process, from the next turn on; the file is unchanged.")
    if action == "unset" and len(words) == 2 and words[1] in now:
        ctx.home.override({path: value for path, value in now.items() if path != words[1]})
        return said(f"{words[1]} is as configured again.")
    if action == "reset":
        ctx.home.override({})
        return said("Everything is as configured again.")
    if action == "show":
        return said(_shown(redact(now)) if now else "Nothing is set in this process. Usage: /debug set KEY VALUE")
    return said("Usage: /debug show · /debug set KEY VALUE · /debug unset KEY · /debug reset")


async def bash(ctx: CommandContext) -> CommandReply:
    """Run a command as the model would: in the same sandbox, behind the same questions."""
    first, _, rest = ctx.args.partition(" ")
    if not first:
        return said("Usage: /bash COMMAND · /bash poll ID · /bash stop ID (or ! COMMAND)")
    if first in {"poll", "stop"} and len(rest.split()) == 1:
        arguments = {"action": "poll" if first == "poll" else "kill", "sessionId": rest.strip()}
        return said((await ctx.client.call_tool(ctx.session, "process", arguments, ctx.caller.acting_trust)).text)
    command = {"command": ctx.args}
    return said((await ctx.client.call_tool(ctx.session, "exec", command, ctx.caller.acting_trust)).text)


async def restart(ctx: CommandContext) -> CommandReply:
    """Start the gateway anew."""
    return said(await ctx.client.restart())


async def allowlist(ctx: CommandContext) -> CommandReply:
    """Show or change who may write to the agent on a channel."""
    words = ctx.words
    action = words.pop(0).lower() if words and words[0].lower() in {"list", "add", "remove"} else "list"
    scope = words.pop(0).lower() if words and words[0].lower() in {"dm", "group"} else "dm"
    channel = next((word.partition("=")[2] for word in words if word.startswith("channel=")), "")
    entries = [word for word in words if not word.startswith("channel=")]
    channel = channel or ("" if ctx.caller.channel in LOCAL_CHANNELS else ctx.caller.channel)
    if action == "list":
        return said(_lists(ctx, channel or (entries[0] if entries else "")))
    if not channel or len(entries) != 1:
        return said(f"Usage: /allowlist {action} [dm|group] channel=NAME SENDER")
    path = f"channels.{channel}.{'allowFrom' if scope == 'dm' else 'groupAllowFrom'}"
    found = ctx.home.config.get(path)
    before = [str(item) for item in found] if isinstance(found, list) else []
    after = [item for item in before if item != entries[0]] + ([entries[0]] if action == "add" else [])
    return said("Nothing changed." if after == before else ctx.configure(path, after))


def _lists(ctx: CommandContext, channel: str) -> str:
    channels = ctx.home.config.get("channels")
    lines: list[str] = []
    for name, settings in channels.items() if isinstance(channels, dict) else ():
        for scope, key in (("dm", "allowFrom"), ("group", "groupAllowFrom")):
            listed = settings.get(key) if isinstance(settings, dict) else None
            if channel in {"", name} and isinstance(listed, list):
                lines.append(f"{name} {scope}: {', '.join(map(str, listed)) or 'nobody'}")
    return "\n".join(lines) or f"No sender is listed{f' for {channel}' if channel else ' on any channel'}."


async def send(ctx: CommandContext) -> CommandReply:
    """Choose whether this session may send messages out."""
    word = {"on": "allow", "off": "deny", "allow": "allow", "deny": "deny"}.get(ctx.args.lower())
    if word is None and ctx.args.lower() not in {"inherit", "default", "reset"}:
        return said(f"Sending: {ctx.entry.send_policy or 'as configured'}. Usage: /send on|off|inherit")
    ctx.save(send_policy=word)
    return said(
        f"Sending: {word or 'as configured'}. It is kept, and has no effect here yet: nothing is sent to channels."
    )


async def activation(ctx: CommandContext) -> CommandReply:
    """Choose whether a group is answered always or only when it says the agent's name."""
    word = ctx.args.lower()
    if not ctx.session.is_shared:
        return said("This is no group.")
    if word not in {"mention", "always"}:
        return said(f"Activation: {ctx.entry.group_activation or 'mention'}. Usage: /activation mention|always")
    ctx.save(group_activation=word)
    return said(f"Activation: {word}. It is kept, and has no effect here yet: no group is listened to.")


async def btw(ctx: CommandContext) -> CommandReply:
    """Ask something on the side: answered from the conversation, and not part of it."""
    return said(await ctx.client.aside(ctx.session, ctx.args) if ctx.args else "Usage: /btw QUESTION")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _owners(name: str, run: Handler, usage: str, help_: str, *, switch: str = "") -> Command:
    return Command(name=name, run=run, group="admin", usage=usage, help=help_, need=Need.OWNER, switch=switch)


COMMANDS = (
    _owners("approve", approve, "id [once|always|deny]", "answer a question of the running turn"),
    _owners("config", config, "get|set|unset key [value]", "read or change the configuration", switch="config"),
    _owners("debug", debug, "show|set|unset|reset", "settings of this process alone", switch="debug"),
    _owners("bash", bash, "command", "run a command (also: ! command)", switch="bash"),
    _owners("restart", restart, "", "start the gateway anew", switch="restart"),
    _owners(
        "allowlist", allowlist, "list|add|remove [dm|group] channel=… sender", "who may write here", switch="config"
    ),
    _owners("send", send, "on|off|inherit", "may this session send", switch="send"),
    _owners("activation", activation, "mention|always", "when a group is answered", switch="activation"),
    _owners("btw", btw, "question", "ask on the side, outside the history", switch="btw"),
)
