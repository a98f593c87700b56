"""`homarus models`: which models there are, which one is used and why, and how to get another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import json_option, pass_app

if TYPE_CHECKING:
    from homarus.config.view import AgentConfig
    from homarus.models.access import Models

agent_option = click.option("--agent", "agent_id", metavar="ID", help="For this agent instead of the default one.")


def _open(app: App) -> Models:
    from homarus.models.access import Models

    return Models(app.config, app.env, clock=app.clock)


def _agent(app: App, agent_id: str | None) -> AgentConfig:
    return app.config.agent_named(agent_id)


@click.group("models", cls=Group, default="status")
def command() -> None:
    """Choose, fetch and test language models. Without a word: the status."""


@command.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Also models of providers without a key.")
@click.option("--provider", metavar="ID", help="Only models of this provider.")
@click.option("--pullable", is_flag=True, help="Instead: local models that `models pull` knows by name.")
@json_option
@pass_app
def list_models(app: App, everything: bool, provider: str | None, pullable: bool, as_json: bool) -> None:
    """List the models that can be used now."""
    from homarus.cli.models_show import model_rows, pullable_rows, show_models

    if pullable:
        rows = pullable_rows(app.paths.models_dir)
        if as_json:
            app.out.json(rows)
        else:
            app.out.table(
                [(row["name"], row["about"], "here" if row["present"] else "") for row in rows], ["NAME", "ABOUT", ""]
            )
        return
    import asyncio

    rows = asyncio.run(model_rows(_open(app), provider, everything=everything))
    if as_json:
        app.out.json(rows)
    else:
        show_models(app.out, rows, hint=not everything and provider is None)


@command.command()
@agent_option
@json_option
@pass_app
def status(app: App, agent_id: str | None = None, as_json: bool = False) -> None:
    """Show which model answers, why, with which key, and what stands behind it."""
    import asyncio

    from homarus.cli.models_show import show_status, status_report

    report = asyncio.run(status_report(_open(app), _agent(app, agent_id)))
    if as_json:
        app.out.json(report)
    else:
        show_status(app.out, report)


@command.command(name="set")
@click.argument("model")
@click.option("--fallback", "fallbacks", multiple=True, metavar="MODEL", help="Tried when the first fails; may repeat.")
@agent_option
@json_option
@pass_app
def set_model(app: App, model: str, fallbacks: tuple[str, ...], agent_id: str | None, as_json: bool) -> None:
    """Make MODEL (provider/model, or an alias) the one that answers; `auto` lets homarus choose again."""
    from homarus.config.write import Operation, change
    from homarus.models.select import AUTO

    models, agent = _open(app), _agent(app, agent_id)
    names = models.names(agent)
    found = [names.resolve(text) for text in (model, *fallbacks) if text != AUTO]
    refs = [_usable(models, one.ref) for one in found]
    base = ("agents", "entries", agent.id) if agent_id else ("agents", "defaults")
    if model == AUTO:
        operations = [Operation("set", (*base, "model"), {"primary": AUTO})]
    else:
        value: dict[str, Any] = {"primary": refs[0]}
        if fallbacks:
            value["fallbacks"] = refs[1:]
        operations = [Operation("patch", (*base, "model"), value)]
    change(app.config, app.env, operations)
    shown = AUTO if model == AUTO else refs[0]
    for one in found:
        if one.warning:
            app.out.warn(one.warning)
        if not models.client(agent).credentials(one.ref):
            app.out.warn(f"there is no key for {one.ref.provider} yet; {_key_cure(models, one.ref.provider)}")
    if as_json:
        app.out.json({"model": shown, "fallbacks": refs[1:], "agent": agent_id})
    else:
        whose = f"agent '{agent.id}'" if agent_id else "every agent without a model of its own"
        app.out.line(f"{shown} answers for {whose} from the next turn on.")


def _key_cure(models: Models, provider: str) -> str:
    names = models.catalog.provider(provider).env
    return f"set {names[0]}" if names else f"set models.providers.{provider}.apiKey"


def _usable(models: Models, ref: Any) -> str:
    from homarus.core.errors import ConfigError
    from homarus.models.registry import BUILTIN, LOCAL

    known = models.catalog.provider(ref.provider)
    if ref.provider not in models.catalog.providers() and not known.base_url and ref.provider not in {BUILTIN, LOCAL}:
        raise ConfigError(
            f"there is no provider '{ref.provider}'",
            cure=f"add models.providers.{ref.provider} with a baseUrl first, or see `homarus models list --all`",
        )
    return f'{ref.key}@"{ref.profile}"' if ref.profile else str(ref.key)


@command.command()
@click.argument("name")
@click.option("--sha256", default="", metavar="HEX", help="What the file must be, for an address without one.")
@click.option("--unverified", is_flag=True, help="Take a file that nobody vouches for.")
@json_option
@pass_app
def pull(app: App, name: str, sha256: str, unverified: bool, as_json: bool) -> None:
    """Fetch a GGUF model by name, address or hf:owner/repo/file.gguf. A broken transfer is taken up again."""
    from homarus.cli.progress import Bar
    from homarus.core.cancel import Cancel
    from homarus.models.pull import Puller, find_source

    models = _open(app)
    source = find_source(name, sha256)

    async def fetch() -> tuple[Any, str]:
        with Bar(app.out.err, source.name) as bar:
            puller = Puller(
                models.http,
                app.paths.models_dir,
                progress=lambda done, total: bar.update(done >> 20, (total or done) >> 20, "MB"),
            )
            try:
                return await puller.pull(source, cancel=Cancel(), unverified=unverified)
            finally:
                await models.aclose()

    import asyncio

    path, digest = asyncio.run(fetch())
    if as_json:
        app.out.json({"path": str(path), "sha256": digest, "model": f"local/{path.stem}"})
    else:
        app.out.line(f"{path} is there (SHA-256 {digest}). Use it with: homarus models set local/{path.stem}")


@command.group(cls=Group, default="list")
def aliases() -> None:
    """Short names for models. Without a word: the list."""


@aliases.command(name="list")
@json_option
@pass_app
def list_aliases(app: App, as_json: bool) -> None:
    """List the short names and what they stand for."""
    names = _open(app).names(app.config.default_agent)
    found = dict(sorted(names.aliases.items()))
    if as_json:
        app.out.json(found)
    elif found:
        app.out.table(found.items(), ["ALIAS", "MODEL"])
    else:
        app.out.line("No aliases yet. Make one: homarus models aliases add fast openai/gpt-6.1-terra")


@aliases.command(name="add")
@click.argument("alias")
@click.argument("model")
@json_option
@pass_app
def add_alias(app: App, alias: str, model: str, as_json: bool) -> None:
    """Let ALIAS stand for MODEL. A name that is taken moves to the new model."""
    from homarus.config.write import Operation, change

    if not alias.strip() or "/" in alias or "@" in alias:
        raise click.UsageError("an alias has no '/' and no '@'")
    ref = _open(app).names(app.config.default_agent).resolve(model).ref
    operations = [Operation("unset", ("agents", "defaults", "models", key, "alias")) for key in _holders(app, alias)]
    operations.append(Operation("set", ("agents", "defaults", "models", ref.key, "alias"), alias.strip()))
    if not app.config.defaults.get("models") and "modelPolicy" not in app.config.defaults:
        # Without a policy, the list of models with settings is also the list of allowed ones: a first alias would forbid
        # every other model.
        operations.append(Operation("set", ("agents", "defaults", "modelPolicy"), {}))
    change(app.config, app.env, operations)
    if as_json:
        app.out.json({"alias": alias.strip(), "model": ref.key})
    else:
        app.out.line(f"{alias.strip()} now means {ref.key}.")


@aliases.command(name="remove")
@click.argument("alias")
@json_option
@pass_app
def remove_alias(app: App, alias: str, as_json: bool) -> None:
    """Forget ALIAS; the model's other settings stay."""
    from homarus.config.write import Operation, change
    from homarus.core.errors import Unknown

    held = _holders(app, alias)
    if not held:
        raise Unknown(f"there is no alias '{alias}'", cure="`homarus models aliases` lists them")
    change(app.config, app.env, [Operation("unset", ("agents", "defaults", "models", key, "alias")) for key in held])
    if as_json:
        app.out.json({"removed": alias, "models": held})
    else:
        app.out.line(f"{alias} is no alias any more.")


def _holders(app: App, alias: str) -> list[str]:
    models = app.config.get("agents.defaults.models")
    wanted = alias.strip().lower()
    return [
        key
        for key, entry in (models.items() if isinstance(models, dict) else ())
        if isinstance(entry, dict) and str(entry.get("alias", "")).strip().lower() == wanted
    ]


@command.command()
@click.argument("model", required=False)
@click.option("--timeout", "seconds", type=float, default=60.0, show_default=True, help="Give up after this long.")
@agent_option
@json_option
@pass_app
def test(app: App, model: str | None, seconds: float, agent_id: str | None, as_json: bool) -> None:
    """Ask a model for one word and show how it answered. This is a real request and may cost a fraction of a cent."""
    import asyncio

    from homarus.cli.models_show import show_test, try_model
    from homarus.core.errors import HomarusError

    report = asyncio.run(try_model(_open(app), _agent(app, agent_id), model, seconds))
    if as_json:
        app.out.json(report)
    else:
        show_test(app.out, report)
    if not report["ok"]:
        raise click.exceptions.Exit(1) if as_json else HomarusError(report["error"], cure=report["cure"])
