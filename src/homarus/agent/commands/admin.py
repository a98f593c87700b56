"""Commands that reach beyond their conversation. All are the owner's; all but the approvals are off until switched on."""

from __future__ import annotations

import json

from homarus.agent.commands.command import Command, CommandContext, CommandReply, Need, said
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
    return said(await ctx.host.approve(words[0], decision))


async def config(ctx: CommandContext) -> CommandReply:
    """Read or change one key of the configuration; secrets are never shown."""
    words = ctx.args.split(None, 2)
    action = words[0].lower() if words else "show"
    if action in {"show", "get"}:
        path = words[1] if len(words) > 1 else ""
        document = redact(ctx.host.config.document)
        value = document
        for step in path.split(".") if path else ():
            value = value.get(step) if isinstance(value, dict) else None
        return said(json.dumps(value, ensure_ascii=False, indent=2, default=str))
    if action == "set" and len(words) == 3:
        try:
            given = json.loads(words[2])
        except ValueError:
            given = words[2]
        return said(ctx.host.configure(words[1], given))
    if action == "unset" and len(words) == 2:
        return said(ctx.host.configure(words[1], None, remove=True))
    return said("Usage: /config get [key] · /config set KEY VALUE · /config unset KEY")


async def send(ctx: CommandContext) -> CommandReply:
    """Choose whether this session may send messages out."""
    word = {"on": "allow", "off": "deny", "allow": "allow", "deny": "deny"}.get(ctx.args.lower())
    if word is None and ctx.args.lower() not in {"inherit", "default", "reset"}:
        return said(f"Sending: {ctx.entry.send_policy or 'as configured'}. Usage: /send on|off|inherit")
    ctx.save(send_policy=word)
    return said(f"Sending: {word or 'as configured'}.")


async def activation(ctx: CommandContext) -> CommandReply:
    """Choose whether a group is answered always or only when it says the agent's name."""
    word = ctx.args.lower()
    if not ctx.session.is_shared:
        return said("This is no group.")
    if word not in {"mention", "always"}:
        return said(f"Activation: {ctx.entry.group_activation or 'mention'}. Usage: /activation mention|always")
    ctx.save(group_activation=word)
    return said(f"Activation: {word}.")


async def btw(ctx: CommandContext) -> CommandReply:
    """Ask something on the side: answered from the conversation, and not part of it."""
    return said(await ctx.host.aside(ctx.session, ctx.args) if ctx.args else "Usage: /btw QUESTION")


COMMANDS = (
    Command(
        name="approve",
        run=approve,
        group="admin",
        usage="id [once|always|deny]",
        help="answer a question of the running turn",
        need=Need.OWNER,
    ),
    Command(
        name="config",
        run=config,
        group="admin",
        usage="get|set|unset key [value]",
        help="read or change the configuration",
        need=Need.OWNER,
        switch="config",
    ),
    Command(
        name="send",
        run=send,
        group="admin",
        usage="on|off|inherit",
        help="may this session send",
        need=Need.OWNER,
        switch="send",
    ),
    Command(
        name="activation",
        run=activation,
        group="admin",
        usage="mention|always",
        help="when a group is answered",
        need=Need.OWNER,
        switch="activation",
    ),
    Command(
        name="btw",
        run=btw,
        group="admin",
        usage="question",
        help="ask on the side, outside the history",
        need=Need.OWNER,
        switch="btw",
    ),
)
