"""What a shell's Tab key offers besides commands: sessions, agents, models and keys of this very home.

A question of a shell changes nothing, says nothing and never fails: what cannot be read offers nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from homarus.cli.app import App

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from homarus.config.known import Node
    from homarus.config.view import Config
    from homarus.models.access import Models
    from homarus.sessions.home import SessionHome

    Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]
    Offers = Iterable[tuple[str, str]]

MOST = 200


def _offering(find: Callable[[App, Config, str], Offers]) -> Completer:
    """Make a completer of a function that yields values with their descriptions."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        from homarus.config.load import inspect_config

        given = ctx.find_root().params
        app = App(env=dict(os.environ), profile=given.get("profile"), config_path=given.get("config_path"))
        try:
            found = list(find(app, inspect_config(app.paths, app.env), incomplete))
        except Exception:  # noqa: BLE001 - a shell that asks must not be shown a failure
            return []
        # Words that begin otherwise have no beginning in common, and some shells would put that into the line.
        wanted = [each for each in found if each[0].startswith(incomplete)]
        wanted = wanted or [each for each in found if each[0].lower().startswith(incomplete.lower())]
        return [CompletionItem(value, help=about) for value, about in dict(wanted[:MOST]).items()]

    return complete


def _home(app: App, config: Config) -> SessionHome:
    from homarus.core.clock import SystemIds
    from homarus.sessions.home import SessionHome

    return SessionHome.of(config, clock=app.clock, ids=SystemIds())


def _sessions(app: App, config: Config, incomplete: str) -> Offers:
    from homarus.core.routes import SessionKind
    from homarus.sessions.store import SHORT_ID, short_id

    home = _home(app, config)
    for info in home.list(orphans=True):
        about, ident = info.title or info.name, info.entry.session_id
        if incomplete:  # whoever typed nothing yet is offered each session once
            if info.title:
                yield info.title, info.name
            yield short_id(ident) if len(incomplete) <= SHORT_ID else ident, about
        if len(incomplete) > 1 and info.name.startswith(incomplete):
            yield info.name, about
        elif info.key.is_main and info.agent_id == home.default_agent:
            yield "main", about
        else:
            named = info.key.kind in {SessionKind.EXPLICIT, SessionKind.OTHER} and ":" not in info.key.peer
            yield info.key.peer if named else short_id(info.entry.session_id), about


def _conversations(app: App, config: Config, incomplete: str) -> Offers:
    """Offer what can be looked at and gone on with: the sessions, then what was put away."""
    from homarus.sessions.store import short_id

    yield from _sessions(app, config, incomplete)
    home = _home(app, config)
    for place in home.archives():
        title = home.title(place)
        if incomplete and title:
            yield title, "put away"
        yield short_id(place.session_id), f"{title} (put away)" if title else "put away"


def _agents(_app: App, config: Config, _incomplete: str) -> Offers:
    return ((agent.id, str(agent.get("name") or "")) for agent in config.agents)


def _models(app: App, config: Config, incomplete: str) -> Offers:
    from homarus.models.access import Models
    from homarus.models.gguf import find_models

    models = Models(config, app.env, clock=app.clock)
    names = models.names(config.default_agent)
    yield from sorted(names.aliases.items())
    yield from ((key, "configured") for key in names.configured)
    yield from ((f"local/{path.stem}", "a model file") for path in find_models(config.paths.models_dir))
    begun = incomplete.partition("/")[0]
    if begun and any(
        name.startswith(begun) for name in models.catalog.providers() if models.catalog.provider(name).local
    ):
        yield from _served(models)  # asked only by whoever began to write its name
    if "/" in (primary := str(config.default_agent.get("model.primary") or "")):
        yield primary, "set now"
    yield from ((key, "") for key in names.known)


def _served(models: Models) -> Offers:
    import asyncio

    from homarus.models.discover import Found, discover

    async def look() -> list[Found]:
        try:
            return await discover(models.http, models.catalog, seconds=models.server_seconds)
        finally:
            await models.aclose()

    return [
        (f"{server.provider}/{model.id}", server.base_url) for server in asyncio.run(look()) for model in server.models
    ]


def _providers(app: App, config: Config, _incomplete: str) -> Offers:
    from homarus.models.access import Models

    catalog = Models(config, app.env, clock=app.clock).catalog
    return ((name, catalog.provider(name).name) for name in catalog.providers())


def _levels(_app: App, _config: Config, _incomplete: str) -> Offers:
    from homarus.models.levels import LEVELS

    return ((level, "") for level in LEVELS)


def _keys(_app: App, config: Config, incomplete: str) -> Offers:
    from homarus.config.known import known_tree

    *above, last = incomplete.split(".")
    node: Node | None = known_tree()
    value: object = config.raw
    for step in above:
        node = node.child(step) if node else None
        value = value.get(step) if isinstance(value, dict) else None
    yield from _below(node, value, above, last)


def _below(node: Node | None, value: object, above: list[str], last: str) -> Offers:
    children = {name for name in node.names if name != "*"} if node else set()
    names = sorted(name for name in children | set(value if isinstance(value, dict) else ()) if name.startswith(last))
    for name in names:
        yield ".".join([*above, name]), ""
    if len(names) == 1 and node:
        # One name fits: what is below it keeps the shell from ending the word here.
        inner = value.get(names[0]) if isinstance(value, dict) else None
        yield from _below(node.child(names[0]), inner, [*above, names[0]], "") if node.child(names[0]) else ()


sessions, conversations, agents = _offering(_sessions), _offering(_conversations), _offering(_agents)
models, keys, levels = _offering(_models), _offering(_keys), _offering(_levels)
providers = _offering(_providers)
