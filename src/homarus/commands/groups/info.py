"""Commands that only tell: help, status, context, tools, who you are, what is going on."""

from __future__ import annotations

import json
from pathlib import Path

from homarus import __version__
from homarus.agent.model import stored_override
from homarus.agent.session_state import next_tools, prompt_report
from homarus.commands.command import Command, CommandContext, CommandReply, Need, said
from homarus.commands.groups.model import auth_of, current
from homarus.commands.skills import skill_commands
from homarus.commands.wording import ago, money, share, short_count
from homarus.context.budget import measure
from homarus.core.clock import epoch_ms
from homarus.core.routes import SessionKey
from homarus.core.text import single_line
from homarus.prompt.show import context_mode, detail_lines, help_text, left_out_lines, list_lines, map_lines
from homarus.subagents.book import ChildRecord

_GROUPS = {
    "session": "Session",
    "model": "Model and run",
    "info": "Info",
    "notes": "Notes",
    "skills": "Skills",
    "admin": "Admin",
}
MAP_WIDTH = 24  # a chat may be a phone
_COMMON = ("new", "stop", "status", "model", "think", "compact", "context", "pin", "skill", "commands")


async def help_(ctx: CommandContext) -> CommandReply:
    """Explain the few commands that people use, or one of them."""
    wanted = ctx.args.lower().removeprefix("/")
    command = ctx.table.get(wanted)
    if command is not None:
        also = f" Also: {', '.join('/' + name for name in command.aliases)}." if command.aliases else ""
        return said(f"/{command.name} {command.usage}".rstrip() + f": {command.help}.{also}")
    if wanted:
        return said(f"There is no command /{wanted}. /commands lists them.")
    rows = [ctx.table[name] for name in _COMMON if name in ctx.table]
    return said("\n".join(f"/{row.name} {row.usage}".rstrip() + f": {row.help}" for row in rows))


async def commands(ctx: CommandContext) -> CommandReply:
    """List every command, and the skills that can be called like one."""
    lines: list[str] = []
    rows = {id(command): command for command in ctx.table.values()}.values()
    for group, title in _GROUPS.items():
        mine = [row for row in rows if row.group == group and (row.need is Need.AUTHORISED or ctx.caller.owner)]
        if mine:
            lines += [f"{title}:", *(f"  /{row.name} {row.usage}".rstrip() + f": {row.help}" for row in mine)]
    skills = skill_commands(ctx.home, ctx.session.agent_id)
    if skills:
        lines += ["Skills as commands:", *(f"  /{each.command}: {each.description}" for each in skills)]
    return said("\n".join(lines))


async def status(ctx: CommandContext) -> CommandReply:
    """Return the card: model, key, window, levels, queue, session and what it used."""
    home, entry = ctx.home, ctx.entry
    ref, source = await current(ctx)
    agent, info = home.config.agent(ctx.session.agent_id), home.models.info(ref)
    level = home.models.level(agent, ref, session=entry.thinking_level or "")
    state = ctx.client.queue(ctx.session, ctx.caller.channel)
    used = tokens_in_window(ctx)
    updated = ago((epoch_ms(home.clock.now()) - entry.updated_at) / 1000) if entry.updated_at else "new"
    name = f" “{entry.label}”" if entry.label else ""
    return said(
        "\n".join(
            [
                f"🦞 homarus {__version__} · agent {agent.id}",
                f"🧠 Model: {ref.key} ({source}) · 🔑 {auth_of(ctx, ref)}",
                (
                    f"📚 Context: {short_count(used)}/{short_count(info.window)}{share(used, info.window)}"
                    f" · 🧹 Compactions: {entry.compaction_count}"
                ),
                *usage_lines(ctx),
                (
                    f"⚙️ Thinking: {level} · Fast: {entry.fast_mode or 'auto'} · Verbose: {entry.verbose_level or 'off'}"
                    f" · Reasoning: {entry.reasoning_level or 'off'} · Elevated: {entry.elevated_level or 'off'}"
                ),
                f"🪢 Queue: {state.rules} · {'running' if state.busy else 'idle'}, {state.waiting} waiting",
                f"🧵 Session: {ctx.session}{name} · {updated}",
            ]
        )
    )


def tokens_in_window(ctx: CommandContext) -> int:
    """Return about how many tokens the next request of this session starts with."""
    report = prompt_report(ctx.home, ctx.session, fresh=True)
    with ctx.home.opened(ctx.session) as live:
        boundary = live.writer.view.boundary
        fixed = report.system.tokens + report.tool_schemas.tokens
        return measure(live.writer.history(), fixed=fixed, since=boundary.time if boundary else 0)


def usage_lines(ctx: CommandContext) -> list[str]:
    """Return what the session and the day have used."""
    entry, today = ctx.entry, ctx.home.spending.today(ctx.session.agent_id)
    prompt = entry.input_tokens + entry.cache_read + entry.cache_write
    cost = f" · {money(today.usage.cost.total)}" if today.usage.cost.total else ""
    return [
        (
            f"🧮 Tokens: {short_count(prompt)} in, {short_count(entry.output_tokens)} out"
            f" · cache {100 * entry.cache_read / prompt if prompt else 0:.0f} %"
            f" · today {today.calls} calls, {short_count(today.usage.total)} tokens{cost}"
        )
    ]


async def context(ctx: CommandContext) -> CommandReply:
    """Show what fills the window."""
    mode = context_mode(ctx.args)
    if mode == "help":
        return said(help_text(ctx.args))
    report = prompt_report(ctx.home, ctx.session)
    if mode == "json":
        return said(json.dumps(report.to_json(), ensure_ascii=False, indent=2))
    lines = [] if mode == "map" else [*(list_lines if mode == "list" else detail_lines)(report), ""]
    return said("\n".join([*lines, *map_lines(report, width=MAP_WIDTH)]))


async def whoami(ctx: CommandContext) -> CommandReply:
    """Say who the program takes the sender for."""
    caller = ctx.caller
    who = "the owner" if caller.owner else f"authorised ({caller.trust})" if caller.authorised else str(caller.trust)
    return said(f"Channel: {caller.channel} · Sender: {caller.sender or 'this terminal'} · You are {who}.")


async def tools(ctx: CommandContext) -> CommandReply:
    """List the tools of the next turn."""
    override = stored_override(ctx.entry, ctx.session)
    tools = next_tools(ctx.home, ctx.session, override.model if override else "")
    lines = [f"{spec.name}: {single_line(spec.description, 100)}" for spec in tools.specs]
    return said("\n".join([*(lines or ["There are no tools here."]), *left_out_lines(tools.left_out, tools.window)]))


async def tasks(ctx: CommandContext) -> CommandReply:
    """Say what is going on in this session, and which sessions of the agent were active lately."""
    state = ctx.client.queue(ctx.session, ctx.caller.channel)
    lines = [f"This session: {'a turn is running' if state.busy else 'idle'}, {state.waiting} waiting."]
    now = epoch_ms(ctx.home.clock.now())
    recent = [info for info in ctx.home.store(ctx.session.agent_id).list() if now - info.entry.updated_at < 3_600_000]
    lines += [
        f"{info.name}: {ago((now - info.entry.updated_at) / 1000)}" for info in recent[:10] if info.key != ctx.session
    ]
    return said("\n".join(lines))


async def subagents(ctx: CommandContext) -> CommandReply:
    """List the sub-agents of this session, show one (what it was, or what it said), or stop one."""
    tree, words = ctx.client.children.books.tree(ctx.session), ctx.words or ["list"]
    if words[0] == "list":
        rows = [
            f"#{number} {'  ' * (kept.run.depth - 1)}{kept.run.name} · {kept.status}"
            for number, kept in enumerate(tree, 1)
        ]
        return said("\n".join(rows) or "This session has no sub-agents.")
    if words[0] not in {"info", "log", "stop"} or len(words) < 2:
        return said("Usage: /subagents list · /subagents info N · /subagents log N · /subagents stop N")
    number = words[1].lstrip("#")
    names = ({str(at), kept.run.run_id, kept.run.child, kept.run.label} for at, kept in enumerate(tree, 1))
    chosen = next((kept for kept, known in zip(tree, names, strict=True) if number in known), None)
    if chosen is None:
        return said(f"There is no sub-agent {words[1]}. /subagents list shows them.")
    if words[0] == "stop":
        stopped = ctx.client.children.cancel(chosen.run.run_id, "stopped by the user", quiet=False)
        return said(f"{chosen.run.name}: {'stopped' if stopped else f'not at work ({chosen.status})'}.")
    key = SessionKey.parse(chosen.run.child)
    info = ctx.home.store(key.agent_id).find(key)
    if words[0] == "log":
        return said(_log(info.place) if info else "Its session was put away.")
    return said(_about(chosen, info.place.path if info else None))


def _about(kept: ChildRecord, transcript: Path | None) -> str:
    run, end = kept.run, kept.end
    lines = [f"{run.name} · {kept.status}", run.child, f"task: {single_line(run.task, 300)}"]
    if end is not None:
        tokens = f"{short_count(end.usage.prompt)} tokens in, {short_count(end.usage.output)} out"
        lines.append(f"{max(0, end.ended_ms - run.started_ms) / 1000:.1f} s · {tokens}")
        lines += [f"problem: {single_line(end.error, 300)}"] if end.error else []
        lines += [f"result: {single_line(end.text, 500)}"] if end.text else []
    return "\n".join([*lines, *([f"transcript: {transcript}"] if transcript else [])])


def _log(place: object) -> str:
    from homarus.sessions.export import blocks
    from homarus.sessions.log import load_tail
    from homarus.sessions.places import Place, visit

    assert isinstance(place, Place)
    with visit(place) as source:
        found = [block for block in blocks(load_tail(source).entries) if block.kind in {"user", "assistant", "call"}]
    return "\n".join(f"{block.kind}: {single_line(block.text, 200)}" for block in found[-20:]) or "It said nothing yet."


COMMANDS = (
    Command(name="help", run=help_, group="info", usage="[command]", help="the commands you will want"),
    Command(name="commands", run=commands, group="info", help="all commands"),
    Command(name="status", run=status, group="info", help="model, window, levels, queue, usage"),
    Command(
        name="context",
        run=context,
        group="info",
        usage="[list|detail|map|json]",
        help="what fills the window",
        words=("list", "detail", "map", "json"),
    ),
    Command(name="whoami", run=whoami, group="info", help="who you are here", aliases=("id",)),
    Command(name="tools", run=tools, group="info", help="the tools of the next turn"),
    Command(name="tasks", run=tasks, group="info", help="what is going on"),
    Command(
        name="subagents",
        run=subagents,
        group="info",
        usage="list | info N | log N | stop N",
        help="the helpers of this session",
        words=("list", "info", "log", "stop"),
    ),
)
