"""Commands about the conversation itself: start over, compact, stop, name, export."""

from __future__ import annotations

import re

from homarus.commands.command import Command, CommandContext, CommandReply, said
from homarus.commands.groups.model import named_model
from homarus.context.compact import undo
from homarus.core.cancel import STOPPED
from homarus.core.errors import ConfigError, Unknown
from homarus.core.text import human_bytes, slug
from homarus.sessions.export import Format, render
from homarus.sessions.lifecycle import model_hint, soft_row
from homarus.sessions.log import load_branch
from homarus.sessions.places import visit
from homarus.sessions.settings import seconds
from homarus.storage.atomic import ensure_dir, write_atomic


async def new(ctx: CommandContext) -> CommandReply:
    """Start over: a name in quotes first, then a model if the next word names one; further words are the first message."""
    agent = ctx.home.config.agent(ctx.session.agent_id)
    label, args = _label(ctx.args)
    model, prompt = model_hint(args, lambda word: named_model(ctx.home.models, agent, word))
    notes = await ctx.client.start_over(ctx.session, "command:new", ctx.caller)
    if model:
        provider, _, name = model.partition("/")
        ctx.save(provider_override=provider, model_override=name, model_override_source="user")
    called = f" “{label}”" if label else ""
    lead = f"A new session{called} begins, with {model}." if model else f"A new session{called} begins."
    if label:
        with ctx.home.opened(ctx.session) as live:
            try:
                live.store.rename(ctx.session, label)
            except Unknown as problem:
                lead = f"A new session begins, without a name: {problem}."
    return CommandReply(text="\n".join([lead, *notes]), prompt=prompt)


def _label(args: str) -> tuple[str, str]:
    """Return the name at the start of what follows /new, in quotes of any kind, and the rest."""
    found = re.match(r"""\s*["“„'‘]([^"”“'’\n]{1,80})["”“'’](?=\s|$)\s*""", args)
    return (found[1].strip(), args[found.end() :]) if found else ("", args)


async def reset(ctx: CommandContext) -> CommandReply:
    """Start over; `soft` keeps the transcript and only makes the next turn read everything anew."""
    first, rest = (*ctx.args.split(None, 1), "", "")[:2]
    if first.lower() != "soft":
        notes = await ctx.client.start_over(ctx.session, "command:reset", ctx.caller)
        return CommandReply(text="\n".join(["The session starts over.", *notes]), prompt=ctx.args)
    with ctx.home.opened(ctx.session) as live:
        now = ctx.home.clock.now()
        live.store.index.replace(ctx.session, lambda row: soft_row(row or {}, round(now.timestamp() * 1000)))
        live.store.update(ctx.session, skills_snapshot=None)
    notes = await ctx.client.tell_hooks("command:reset", ctx.session, ctx.caller)
    return CommandReply(
        text="\n".join(["The transcript stays; the next turn reads skills and files anew.", *notes]),
        prompt=rest.strip(),
    )


async def stop(ctx: CommandContext) -> CommandReply:
    """End the running turn and forget what waits."""
    stopped = await ctx.client.stop(ctx.session, STOPPED)
    notes = await ctx.client.tell_hooks("command:stop", ctx.session, ctx.caller)
    return said("\n".join(["Stopped." if stopped else "Nothing was running.", *notes]))


async def compact(ctx: CommandContext) -> CommandReply:
    """Summarise the older part now; `undo` takes the last summary back."""
    if ctx.args.lower() == "undo":
        return await undo_compact(ctx)
    if ctx.client.queue(ctx.session, ctx.caller.channel).busy:
        return said("A turn is running. /stop it first, or compact when it is done.")
    done = await ctx.client.compact(ctx.session, ctx.args)
    lead = f"🧹 Compacted: ~{done.tokens_before:,} → ~{done.tokens_after:,} tokens. /compact undo takes it back."
    if not done.ok:
        lead = f"Nothing was compacted: {done.reason}.".replace("..", ".")
    return said("\n".join([lead, *done.said]))


async def undo_compact(ctx: CommandContext) -> CommandReply:
    """Go back to the history before the last compaction; what was said since stays."""
    if ctx.client.queue(ctx.session, ctx.caller.channel).busy:
        return said("A turn is running. /stop it first, or try again when it is done.")
    with ctx.home.opened(ctx.session) as live:
        done = undo(live.writer)
    if done:
        ctx.save(total_tokens=0)  # how large it is now, the next turn says
    return said("The last compaction is undone." if done else "There is no compaction to undo.")


async def name(ctx: CommandContext) -> CommandReply:
    """Give the session a name, or say which one it has."""
    if not ctx.args:
        label = ctx.entry.label
        return said(
            f"This session is called “{label}”." if label else "This session has no name. /name TEXT gives one."
        )
    if ctx.args.lower() in {"clear", "reset", "default"}:
        ctx.save(label=None)
        return said("The session has no name any more.")
    with ctx.home.opened(ctx.session) as live:  # a session that begins with its name is made here
        try:
            named = live.store.rename(ctx.session, ctx.args)
        except Unknown as problem:
            return said(f"{problem}.")
    return said(f"This session is now called “{named.title}”.")


async def export(ctx: CommandContext) -> CommandReply:
    """Write the whole conversation to a file in the workspace, as Markdown, HTML or JSON."""
    form = (ctx.words or ["md"])[0].lower().removeprefix("markdown") or "md"
    if form not in {"md", "html", "json"}:
        return said("Usage: /export-session [md|html|json]")
    info = ctx.home.store(ctx.session.agent_id).find(ctx.session)
    if info is None or not info.place.path.exists():
        return said("Nothing was said here yet.")
    title = info.title or str(ctx.session)
    kind: Format = "html" if form == "html" else "json" if form == "json" else "md"
    folder = ctx.home.workspace(ctx.session.agent_id) / "exports"
    ensure_dir(folder)
    moment = ctx.home.clock.now()
    path = folder / f"{moment:%Y-%m-%d-%H%M%S}-{slug(title, 40) or 'session'}.{form}"
    with visit(info.place) as source:
        pieces = render(source.header, load_branch(source), kind, title=title)
        write_atomic(path, (piece.encode("utf-8", "replace") for piece in pieces))
    return said(f"Written to {path} ({human_bytes(path.stat().st_size)}).")


async def session(ctx: CommandContext) -> CommandReply:
    """Say or set when this home's sessions start over by themselves."""
    words = ctx.words
    if not words:
        policy = ctx.home.config.get("session.reset")
        return said(f"session.reset: {policy or 'never starts over by itself'}")
    if words[0] not in {"idle", "max-age"} or len(words) != 2:
        return said("Usage: /session idle 2h · /session max-age daily|off")
    if not ctx.caller.owner:
        return said("Only the owner may change that.")
    if words[1] == "off":
        return said(ctx.configure("session.reset", {"mode": "none"}))
    if words[0] == "max-age":
        if words[1] != "daily":
            return said("Usage: /session max-age daily|off")
        return said(ctx.configure("session.reset", {"mode": "daily"}))
    length = seconds(words[1], unit="m")
    if not length:
        raise ConfigError(f"'{words[1]}' is no length of time", cure="write 30m, 2h or 1d")
    return said(ctx.configure("session.reset", {"mode": "idle", "idleMinutes": round(length / 60)}))


COMMANDS = (
    Command(name="new", run=new, usage="[model] [text]", help="start a new session"),
    Command(
        name="reset", run=reset, usage="[soft] [text]", help="start over; soft keeps the transcript", words=("soft",)
    ),
    Command(
        name="compact",
        run=compact,
        usage="[focus | undo]",
        help="summarise the older part now, or undo it",
        words=("undo",),
    ),
    Command(name="undo-compact", run=undo_compact, help="take the last compaction back"),
    Command(name="stop", run=stop, help="end the running turn and forget what waits"),
    Command(name="name", run=name, usage="[text]", help="name this session", aliases=("rename",)),
    Command(
        name="export-session",
        run=export,
        usage="[md|html|json]",
        help="write the conversation to a file",
        aliases=("export",),
        words=("md", "html", "json"),
    ),
    Command(
        name="session",
        run=session,
        usage="[idle 2h | max-age daily]",
        help="when sessions start over by themselves",
        words=("idle", "max-age"),
    ),
)
