"""From a message and the settings to the agent and the session it belongs to. Pure: who may talk at all was decided before."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.config.keypath import KeyPath
from homarus.config.view import Config
from homarus.core.errors import ConfigError
from homarus.core.messages import APART, Inbound
from homarus.core.routes import (
    DEFAULT_ACCOUNT,
    DmScope,
    Route,
    SessionKey,
    SessionKind,
    chat_session,
    direct_session,
    main_session,
    normalize_account_id,
    normalize_agent_id,
)
from homarus.sessions.settings import SessionSettings

_KINDS = {"group": SessionKind.GROUP, "channel": SessionKind.CHANNEL, "room": SessionKind.ROOM}
# Platforms whose groups have numbered topics; a thread anywhere else is a thread.
_TOPICS = frozenset({"telegram"})
_ANY = "*"


class Peer(Struct, frozen=True, rename="camel"):
    kind: Literal["direct", "dm", "group", "channel", "room"]
    id: str | int


class Match(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a message must be: every field that is set must fit. Without an account it means the default one, `*` any.

    A field that nobody knows is an error: a binding that lost one of its conditions would fit more than was meant.
    """

    channel: str
    account_id: str = ""
    peer: Peer | None = None
    guild_id: str | int = ""
    team_id: str | int = ""
    roles: tuple[str | int, ...] = ()


class Scopes(Struct, frozen=True, rename="camel"):
    dm_scope: DmScope | None = None
    group_scope: Literal["per-group", "main"] | None = None


class Binding(Struct, frozen=True, rename="camel"):
    """One entry of `bindings`: which agent answers what."""

    agent_id: str
    match: Match
    type: Literal["route", "acp"] = "route"
    session: Scopes = Scopes()


def session_for(inbound: Inbound, agent_id: str, settings: SessionSettings) -> SessionKey:
    """Return the key of the conversation that a message is part of."""
    if settings.scope == "global":
        return SessionKey.parse("global", default_agent=agent_id)
    kind = _KINDS.get(inbound.chat_type)
    if kind is None:
        base = direct_session(
            agent_id,
            inbound.channel,
            inbound.sender or inbound.peer,
            account=inbound.account,
            scope=settings.dm_scope,
            links=settings.identity_links,
            main_key=settings.main_key,
        )
        return base.with_thread(inbound.thread) if inbound.thread else base
    if settings.group_scope == "main":
        return main_session(agent_id, settings.main_key)
    base = chat_session(agent_id, inbound.channel, kind, inbound.peer)
    if not inbound.thread:
        return base
    if kind is SessionKind.GROUP and inbound.channel.lower() in _TOPICS:
        return base.with_topic(inbound.thread)
    return base.with_thread(inbound.thread)


def route_for(inbound: Inbound, config: Config) -> Route:
    """Return who answers a message and in which session; its answer goes back to where it came from, always.

    Raises ConfigError where a binding cannot be read or names an agent that is not there: nobody else answers instead.
    """
    binding = bound_to(inbound, config)
    agent_id = _agent(config, binding.agent_id, "bindings") if binding else config.default_agent.id
    return _route(inbound, agent_id, config, binding)


def routes_for(inbound: Inbound, config: Config) -> tuple[tuple[Route, ...], bool]:
    """Return the routes of all agents that answer a message, and whether each waits for the one before it.

    Most chats have one agent. `broadcast` names several for a chat; each has a session of its own.
    """
    table = config.get("broadcast")
    named = table.get(inbound.peer or inbound.sender) if isinstance(table, dict) else None
    if named is None or not isinstance(table, dict):
        return (route_for(inbound, config),), False
    if not isinstance(named, list) or not named or not all(isinstance(name, str) for name in named):
        raise ConfigError(
            f"broadcast[{inbound.peer!r}] names no agents", cure="write a list of agent ids, or remove the key"
        )
    agents = dict.fromkeys(_agent(config, name, "broadcast") for name in named)
    return tuple(_route(inbound, agent, config, None) for agent in agents), table.get("strategy") == "sequential"


def _route(inbound: Inbound, agent_id: str, config: Config, binding: Binding | None) -> Route:
    settings = config.block("session", SessionSettings)
    scopes = binding.session if binding else Scopes()
    dm_scope = settings.dm_scope
    if config.get("session.dmScope") is None and (inbound.facts or {}).get(APART):
        # Who shares the main session can have its words repeated to them. Unless told otherwise, that is the owner alone.
        dm_scope = DmScope.PER_CHANNEL_PEER
    settings = replace(
        settings,
        dm_scope=scopes.dm_scope or dm_scope,
        group_scope=scopes.group_scope or settings.group_scope,
    )
    key = session_for(inbound, agent_id, settings)
    to = inbound.peer or inbound.sender
    where = (inbound.channel, inbound.account, to, inbound.thread, inbound.space, inbound.parent)
    return Route(key.agent_id, key, *where)


def _agent(config: Config, name: str, key: str | int) -> str:
    wanted = normalize_agent_id(name)
    if wanted not in {agent.id for agent in config.agents}:
        cure = "correct the name, or add the agent with 'homarus agents add'"
        raise ConfigError(f"{key} names the agent '{name}', and there is none", cure=cure)
    return wanted


def bound_to(inbound: Inbound, config: Config) -> Binding | None:
    """Return the binding that fits a message best: the most exact one, of several the first."""
    rows = config.get("bindings")
    if not rows:
        return None
    found = [
        (rank, index, binding)
        for index, binding in enumerate(bindings_of(config))
        if (rank := _rank(binding.match, inbound, _default(config, inbound.channel))) is not None
    ]
    return min(found, default=(0, 0, None), key=lambda item: item[:2])[2]


def bindings_of(config: Config) -> list[Binding]:
    """Return the bindings that route messages. Raises ConfigError for one that cannot be read."""
    rows: Any = config.get("bindings")
    found: list[Binding] = []
    for index, row in enumerate(rows if isinstance(rows, list) else []):
        try:
            found.append(msgspec.convert(row, Binding))
        except msgspec.ValidationError as problem:
            cure = "correct the binding or remove it; nobody is answered until then"
            raise ConfigError(f"bindings[{index}]: {problem}", cure=cure) from None
    return [binding for binding in found if binding.type == "route"]


def _default(config: Config, channel: str) -> str:
    block = config.get(f'channels["{channel}"]')
    named = block.get("defaultAccount") if isinstance(block, dict) else None
    return normalize_account_id(named) if isinstance(named, str) else DEFAULT_ACCOUNT


def _rank(match: Match, inbound: Inbound, default: str) -> int | None:
    """Return how exactly a binding fits, 0 for best; None where one of its fields does not."""
    account = normalize_account_id(match.account_id) if match.account_id else default
    if match.channel.strip().lower() != inbound.channel.lower():
        return None
    if match.account_id != _ANY and account != normalize_account_id(inbound.account):
        return None
    peer = _peer_rank(match.peer, inbound) if match.peer else -1
    space = str(match.guild_id or match.team_id)
    if peer is None or (space and space != inbound.space):
        return None
    if match.roles and not set(map(str, match.roles)) & set(inbound.roles):
        return None
    if match.peer:
        return peer
    if match.guild_id:
        return 3 if match.roles else 4
    if match.roles:
        return None  # a role means nothing without the place it belongs to
    if match.team_id:
        return 5
    return 7 if match.account_id == _ANY else 6


def _peer_rank(peer: Peer, inbound: Inbound) -> int | None:
    kind = {"dm": "direct", "room": "channel"}.get(peer.kind, peer.kind)
    if kind != {"room": "channel"}.get(inbound.chat_type, inbound.chat_type):
        return None
    wanted = str(peer.id).strip().lower()
    here = {inbound.peer or inbound.sender}
    here |= {inbound.sender} if kind == "direct" else {f"{inbound.peer}:topic:{inbound.thread}"}
    if wanted in {name.lower() for name in here if name}:
        return 0
    if inbound.parent and wanted == inbound.parent.lower():
        return 1
    return 2 if wanted == _ANY else None


def check(config: Config) -> None:
    """Report bindings that cannot be read, and agents that are named and not there."""
    try:
        for index, binding in enumerate(bindings_of(config)):
            _checked(config, binding.agent_id, ("bindings", index, "agentId"))
    except ConfigError as problem:
        config.report("error", ("bindings",), problem.message, problem.cure)
    table = config.get("broadcast")
    for chat, named in table.items() if isinstance(table, dict) else ():
        if chat == "strategy":
            if named not in ("parallel", "sequential"):
                config.report("warning", ("broadcast", chat), "is neither parallel nor sequential", "parallel is used")
        elif not isinstance(named, list):
            config.report(
                "error", ("broadcast", chat), "must be a list of agents", "nobody is answered there until then"
            )
        else:
            for index, name in enumerate(named):
                _checked(config, str(name), ("broadcast", chat, index))


def _checked(config: Config, name: str, path: KeyPath) -> None:
    try:
        _agent(config, name, path[0])
    except ConfigError as problem:
        config.report("error", path, f"there is no agent '{name}'", f"{problem.cure}; nobody is answered until then")
