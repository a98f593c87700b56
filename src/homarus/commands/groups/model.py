"""Commands about the model of a session: which one, which there are, and how it is reached."""

from __future__ import annotations

from homarus.agent.model import stored_override
from homarus.commands.command import Command, CommandContext, CommandReply, said
from homarus.commands.directives import CLEAR
from homarus.commands.wording import short_count
from homarus.config.view import AgentConfig
from homarus.core.errors import ConfigError
from homarus.models.access import Models
from homarus.models.ref import ModelRef
from homarus.models.select import Override, choice

MAX_LISTED = 60
_CLEARS = frozenset({"default", "inherit", "clear", "reset", "unpin"})
_SCOPES = {"-s": "session", "-a": "agent", "-g": "global"}


def named_model(models: Models, agent: AgentConfig, word: str) -> str | None:
    """Return the model that a word surely names; a guess is not enough to take a word out of a sentence."""
    names = models.names(agent)
    try:
        found = names.resolve(word)
    except ConfigError:
        return None
    sure = found.how in {"alias", "unique"} or found.ref.key in names.configured
    if not sure and found.how == "ref":
        sure = found.ref.provider in models.catalog.providers() or found.ref.provider in {"builtin", "local"}
    profile = f"@{found.ref.profile}" if found.ref.profile else ""
    return f"{found.ref.key}{profile}" if sure else None


async def current(ctx: CommandContext) -> tuple[ModelRef, str]:
    """Return the model of the session's next turn, and where that choice comes from."""
    override = stored_override(ctx.entry, ctx.session)
    found = await ctx.home.models.chain(ctx.home.config.agent(ctx.session.agent_id), override=override)
    return found.primary, found.source


def keep_model(ctx: CommandContext, wanted: str) -> str:
    """Make a model the session's own, or with `CLEAR` go back to the configured one; return that in words."""
    if wanted == CLEAR:
        ctx.save(
            provider_override=None,
            model_override=None,
            model_override_source=None,
            auth_profile_override=None,
            auth_profile_override_source=None,
        )
        return "Model: as configured."
    agent = ctx.home.config.agent(ctx.session.agent_id)
    allowed(ctx, agent, ctx.home.models.names(agent).resolve(wanted).ref)
    ref, doubt = _chosen(ctx, agent, wanted)
    ctx.save(
        provider_override=ref.provider,
        model_override=ref.model,
        model_override_source="user",
        auth_profile_override=ref.profile or None,
        auth_profile_override_source="user" if ref.profile else None,
    )
    return f"Model: {ref.key}" + (f" with profile {ref.profile}." if ref.profile else ".") + doubt


def _chosen(ctx: CommandContext, agent: AgentConfig, wanted: str) -> tuple[ModelRef, str]:
    """Return the model that a person means, and what speaks against its answering. Raises ConfigError for a slip."""
    from homarus.models.ready import check_choice, missing

    models = ctx.home.models
    found = models.names(agent).resolve(wanted)
    check_choice(models, found.ref)
    doubts = filter(None, (found.warning, missing(models, agent, found.ref)))
    return found.ref, "".join(f"\n⚠️ {each}" for each in doubts)


def allowed(ctx: CommandContext, agent: AgentConfig, ref: ModelRef) -> None:
    """Refuse a model that the allowlist leaves out; the configured one is always allowed."""
    from homarus.models.select import chain

    chain(agent.raw, ctx.home.models.names(agent), override=Override(ref.key))


async def model(ctx: CommandContext) -> CommandReply:
    """Show or choose the session's model; -a and -g choose it for the agent or for all of them."""
    words = [word for word in ctx.words if word not in _SCOPES]
    scope = next((_SCOPES[word] for word in ctx.words if word in _SCOPES), "session")
    if not words:
        ref, source = await current(ctx)
        return said(f"Model: {ref.key} ({source}). /model NAME changes it, /model list shows the others.")
    if words[0].lower() == "list":
        return await models(ctx)
    if words[0].lower() == "status":
        return await status(ctx)
    wanted = CLEAR if words[0].lower() in _CLEARS else words[0]
    if scope == "session":
        return said(keep_model(ctx, wanted))
    return _configured(ctx, wanted, scope)


def _configured(ctx: CommandContext, wanted: str, scope: str) -> CommandReply:
    if not ctx.caller.owner:
        return said("Only the owner may change the configuration.")
    agent = ctx.home.config.agent(ctx.session.agent_id)
    base = "agents.defaults.model" if scope == "global" else f"agents.entries.{agent.id}.model"
    if wanted == CLEAR:
        return said(ctx.configure(base, None, remove=True))
    ref, doubt = _chosen(ctx, agent, wanted)
    return said(ctx.configure(f"{base}.primary", ref.key) + doubt)


async def status(ctx: CommandContext) -> CommandReply:
    """Say where the session's model is reached and with which credential; secrets are never shown."""
    ref, source = await current(ctx)
    home, agent = ctx.home, ctx.home.config.agent(ctx.session.agent_id)
    provider, info = home.models.catalog.provider(ref.provider), home.models.info(ref)
    fallbacks = choice(agent.get("model")).fallbacks or ()
    return said(
        "\n".join(
            [
                f"Model: {ref.key} ({source})",
                f"Endpoint: {provider.base_url or 'in this process'}" + (f" · {provider.api}" if provider.api else ""),
                f"Auth: {auth_of(ctx, ref)}",
                f"Window: {info.window:,} tokens" + ("" if info.known else " (assumed)"),
                f"Thinking: {', '.join(info.levels) or 'no levels'}",
                f"Fallbacks: {', '.join(fallbacks) or 'none'}",
            ]
        )
    )


def auth_of(ctx: CommandContext, ref: ModelRef) -> str:
    """Return which credential a model would be called with, by name."""
    found = ctx.home.models.client(ctx.home.config.agent(ctx.session.agent_id)).credentials(ref)
    if not found:
        return f"no key for {ref.provider}"
    return "none needed" if found[0].id == "none" else f"{found[0].id} ({found[0].kind})"


async def models(ctx: CommandContext) -> CommandReply:
    """List the models that can be chosen: aliases, configured ones, and those of a provider that has a key."""
    home, agent = ctx.home, ctx.home.config.agent(ctx.session.agent_id)
    names = home.models.names(agent)
    alias = {target: short for short, target in names.aliases.items()}
    wanted = ctx.words[0].lower() if ctx.words and ctx.words[0].lower() != "list" else ""
    listed = dict.fromkeys(names.configured)
    for provider in home.models.catalog.providers():
        if provider == wanted or home.models.bare_keys(provider) or home.models.store(agent).credentials(provider):
            listed.update(dict.fromkeys(f"{provider}/{info.id}" for info in home.models.catalog.models(provider)))
    listed["builtin/notebook"] = None
    rows = [key for key in listed if not wanted or key.startswith(f"{wanted}/")]
    now, _ = await current(ctx)
    lines = [_line(ctx, key, alias.get(key, ""), now.key) for key in rows[:MAX_LISTED]]
    more = (
        [f"… and {len(rows) - MAX_LISTED} more; /models PROVIDER shows one provider's"]
        if len(rows) > MAX_LISTED
        else []
    )
    return said("\n".join([*lines, *more]) or f"No models of '{wanted}' are known.")


def _line(ctx: CommandContext, key: str, alias: str, now: str) -> str:
    provider, _, name = key.partition("/")
    info = ctx.home.models.info(ModelRef(provider, name))
    return f"{'●' if key == now else '·'} {key}" + (f" ({alias})" if alias else "") + f" · {short_count(info.window)}"


COMMANDS = (
    Command(
        name="model",
        run=model,
        group="model",
        usage="[name | list | status | default] [-s|-a|-g]",
        help="show or choose the model",
        words=("list", "status", "default"),
    ),
    Command(name="models", run=models, group="model", usage="[provider]", help="list the models that can be chosen"),
)
