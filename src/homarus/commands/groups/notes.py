"""Commands about standing instructions (pins) and skills."""

from __future__ import annotations

from homarus.commands.command import Command, CommandContext, CommandReply, said
from homarus.commands.skills import skill_commands, use_skill
from homarus.context.pins import MAX_PINS, PIN, UNPIN, clean, pinned


async def pin(ctx: CommandContext) -> CommandReply:
    """Make a standing instruction: it stays in front of the model, word for word, through every compaction."""
    if not ctx.args:
        return await pins(ctx)
    text = clean(ctx.args)
    with ctx.home.opened(ctx.session) as live:
        held = pinned(live.writer.branch)
        if text in held:
            return said("That is pinned already.")
        if len(held) >= MAX_PINS:
            return said(f"There are {MAX_PINS} pins already. /unpin one first.")
        live.writer.append("custom", {"customType": PIN, "data": {"text": text}})
    return said(f"📌 Pinned: {text}")


async def unpin(ctx: CommandContext) -> CommandReply:
    """Take a pin off, by its number in the list or by its text."""
    with ctx.home.opened(ctx.session) as live:
        held = pinned(live.writer.branch)
        wanted = clean(ctx.args)
        number = int(wanted) if wanted.isdecimal() and len(wanted) < 6 else 0
        text = held[number - 1] if 0 < number <= len(held) else next((one for one in held if one == wanted), "")
        if not text:
            return said("Usage: /unpin NUMBER; /pins lists them.")
        live.writer.append("custom", {"customType": UNPIN, "data": {"text": text}})
    return said(f"Unpinned: {text}")


async def pins(ctx: CommandContext) -> CommandReply:
    """List the standing instructions."""
    with ctx.home.opened(ctx.session) as live:
        held = pinned(live.writer.branch)
    return said("\n".join(f"{number}. {text}" for number, text in enumerate(held, 1)) or "Nothing is pinned.")


async def skill(ctx: CommandContext) -> CommandReply:
    """Run a skill by name, or list them."""
    table = skill_commands(ctx.home, ctx.session.agent_id)
    if not ctx.args:
        lines = [f"/{each.command}: {each.description}" for each in table]
        return said("\n".join(lines) or "There are no skills to call.")
    used = await use_skill(ctx.client, ctx.session, f"/skill {ctx.args}", ctx.caller)
    return used or said(f"There is no skill '{ctx.words[0]}'. /skill lists them.")


COMMANDS = (
    Command(name="pin", run=pin, group="notes", usage="text", help="keep an instruction through every compaction"),
    Command(name="unpin", run=unpin, group="notes", usage="number", help="take a pin off"),
    Command(name="pins", run=pins, group="notes", help="list the pins"),
    Command(name="skill", run=skill, group="skills", usage="name [input]", help="run a skill"),
)
