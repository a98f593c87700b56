"""Commands and directives that set how a session runs: thinking, verbosity, reasoning, elevation, exec, usage."""

from __future__ import annotations

from typing import Any

from homarus.commands.command import Command, CommandContext, CommandReply, said
from homarus.commands.directives import CLEAR, EXEC_KEYS, NAMES, Wishes, choices
from homarus.commands.groups.model import current, keep_model
from homarus.models.levels import sells_speed

FIELDS = {
    "thinking": "thinking_level",
    "fast": "fast_mode",
    "verbose": "verbose_level",
    "trace": "trace_level",
    "reasoning": "reasoning_level",
    "elevated": "elevated_level",
}
_TITLES = {"thinking": "Thinking", "fast": "Fast mode", "trace": "Trace"}
_USAGE = ("off", "tokens", "full")


def refused(ctx: CommandContext, wishes: Wishes) -> str:
    """Return why these wishes may not be granted, or nothing."""
    if wishes.elevated in {"on", "ask", "full"}:
        if not ctx.caller.owner:
            return "Only the owner may use elevated commands."
        if ctx.home.config.get("tools.elevated.enabled") is not True:
            return "Elevated commands are off. tools.elevated.enabled switches them on."
    if wishes.exec and not ctx.caller.owner:
        return "Only the owner may change where commands run."
    return ""


async def persist(ctx: CommandContext, wishes: Wishes) -> list[str]:
    """Keep what a message of directives alone asked for; return one line for each choice."""
    fields: dict[str, Any] = {}
    lines: list[str] = []
    for name, value in wishes.levels.items():
        fields[FIELDS[name]] = None if value == CLEAR else value
        lines.append(f"{_title(name)}: {'as configured' if value == CLEAR else value}.")
    if wishes.exec:
        fields |= {f"exec_{key}": None if value == CLEAR else value for key, value in wishes.exec.items()}
        lines.append("Exec: " + " ".join(f"{key}={value}" for key, value in wishes.exec.items()) + ".")
    if "trace" in wishes.levels:
        lines.append("The trace is kept, and has no effect here: homarus --log-level debug shows what happens.")
    if fields:
        ctx.save(**fields)
    if (asked := wishes.levels.get("thinking", CLEAR)) != CLEAR:
        ref, _ = await current(ctx)
        holds = ctx.home.models.level(ctx.home.config.agent(ctx.session.agent_id), ref, session=asked)
        if holds != asked:
            how = "does not think" if holds == "off" else f"has no such level and thinks at {holds}"
            lines.append(f"{ref.key} {how}; the choice is kept for models that can.")
    if wishes.fast in {"on", "off"}:
        ref, _ = await current(ctx)
        if not sells_speed(ref.provider):
            lines.append(f"{ref.key} has no faster queue, so nothing changes for it.")
    return lines


def persist_model(ctx: CommandContext, wishes: Wishes) -> list[str]:
    """Keep the model: it holds on, wherever in a message it was named."""
    return [keep_model(ctx, wishes.model)] if wishes.model else []


async def show_level(ctx: CommandContext) -> CommandReply:
    """Say what holds now, and what could; a directive with a word that it knows never comes here."""
    name = NAMES[ctx.name]
    wrong = f"'{ctx.args.split()[0]}' is not known here. " if ctx.args else ""
    now = getattr(ctx.entry, FIELDS[name]) or await _default(ctx, name)
    return said(f"{wrong}{_title(name)}: {now}. Choices: {', '.join(choices(name))}; default takes the choice back.")


async def _default(ctx: CommandContext, name: str) -> str:
    if name == "thinking":
        ref, _ = await current(ctx)
        return ctx.home.models.level(ctx.home.config.agent(ctx.session.agent_id), ref)
    return {"fast": "auto"}.get(name, "off")


async def show_exec(ctx: CommandContext) -> CommandReply:
    """Say where commands of this session run."""
    entry = ctx.entry
    now = [f"{key}={value}" for key in EXEC_KEYS if (value := getattr(entry, f"exec_{key}"))]
    return said(f"Exec: {' '.join(now) or 'as configured'}. Usage: /exec host=… security=… ask=… node=…")


async def show_queue(ctx: CommandContext) -> CommandReply:
    """Say what happens to messages that meet a running turn."""
    state = ctx.client.queue(ctx.session, ctx.caller.channel)
    return said(
        f"Queue: {state.rules} · {state.waiting} waiting. Usage: /queue steer|followup|collect|interrupt [debounce:2s] "
        "[cap:20] [drop:old|new|summarize]; /queue default takes it back."
    )


async def steer(ctx: CommandContext) -> CommandReply:
    """Say something to the running turn; without one it is an ordinary message."""
    if not ctx.args:
        return said("Usage: /steer TEXT")
    return CommandReply(prompt=ctx.args, steer=True)


async def usage(ctx: CommandContext) -> CommandReply:
    """Choose whether replies end with what they cost, or say what was used so far."""
    word = ctx.args.lower()
    if word in {"off", "tokens", "full", "default", "reset", "clear"}:
        ctx.save(response_usage=word if word in _USAGE else None)
        return said(f"Usage line: {word if word in _USAGE else 'as configured'}.")
    from homarus.commands.groups.info import usage_lines

    return said("\n".join([*usage_lines(ctx), "/usage off|tokens|full adds it to every reply."]))


def _title(name: str) -> str:
    return _TITLES.get(name, name.capitalize())


def _level(name: str, help_: str, *aliases: str) -> Command:
    kept = NAMES[name]
    return Command(
        name=name,
        run=show_level,
        group="model",
        usage="|".join(choices(kept)),
        help=help_,
        aliases=aliases,
        words=(*choices(kept), CLEAR),
    )


COMMANDS = (
    _level("think", "how hard the model thinks", "thinking", "t"),
    _level("fast", "prefer speed where the provider sells it"),
    _level("verbose", "show what tools do", "v"),
    _level("trace", "show what the runtime does"),
    _level("reasoning", "show the model's reasoning", "reason"),
    _level("elevated", "let commands leave the sandbox", "elev"),
    Command(name="exec", run=show_exec, group="model", usage="host= security= ask= node=", help="where commands run"),
    Command(
        name="queue",
        run=show_queue,
        group="model",
        usage="[mode] [debounce:2s] [cap:20] [drop:old]",
        help="what happens to messages that meet a running turn",
        words=("steer", "followup", "collect", "interrupt", "default"),
    ),
    Command(
        name="steer",
        run=steer,
        group="model",
        usage="text",
        help="say something to the running turn",
        aliases=("tell",),
    ),
    Command(
        name="usage",
        run=usage,
        group="info",
        usage="[off|tokens|full]",
        help="what was used, and a line under replies",
        words=_USAGE,
    ),
)
