"""`homarus models`: which models there are, which one is used and why, and how to get another."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import Number, filled, with_json
from homarus.cli.output import Bar, Output
from homarus.config.write import Operation, change
from homarus.core.cancel import Cancel
from homarus.core.clock import epoch_ms
from homarus.core.errors import HomarusError, Unknown
from homarus.models.access import Models
from homarus.models.discover import Found, discover
from homarus.models.gguf import find_models
from homarus.models.pull import Puller, find_source, known
from homarus.models.ready import check_choice, missing, unproven
from homarus.models.ref import ModelRef, normalize_provider
from homarus.models.registry import BUILTIN, LOCAL
from homarus.models.select import AUTO

if TYPE_CHECKING:
    from homarus.config.view import AgentConfig
    from homarus.models.info import ModelInfo


MAX_ALIAS = 64

agent_option = click.option(
    "--agent",
    "agent_id",
    metavar="ID",
    help="For this agent instead of the default one.",
    shell_complete=complete.agents,
    callback=filled,
)


def _open(app: App) -> Models:
    return Models(app.config, app.env, clock=app.clock)


def _agent(app: App, agent_id: str | None) -> AgentConfig:
    return app.config.agent_named(agent_id)


@click.group("models", cls=Group, default="status")
def command() -> None:
    """Choose, fetch and test language models. Without a word: the status."""


@command.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Also models of providers without a key.")
@click.option(
    "--provider", metavar="ID", help="Only models of this provider.", shell_complete=complete.providers, callback=filled
)
@click.option("--pullable", is_flag=True, help="Instead: local models that `models pull` knows by name.")
@with_json
def list_models(app: App, everything: bool, provider: str | None, pullable: bool, as_json: bool) -> None:
    """List the models that can be used now."""
    if pullable:
        rows = pullable_rows(app.paths.models_dir)
        if as_json:
            app.out.json(rows)
        else:
            app.out.table(
                [(row["name"], row["about"], "here" if row["present"] else "") for row in rows], ["NAME", "ABOUT", ""]
            )
        return

    if provider:
        _check_provider(app, provider)
    with app.out.waiting("looking for models"):
        rows = asyncio.run(model_rows(_open(app), provider, everything=everything))
    if as_json:
        app.out.json(rows)
    else:
        show_models(app.out, rows, hint=not everything and provider is None)


def _check_provider(app: App, provider: str) -> None:
    from homarus.config.known import near

    known = [*_open(app).catalog.providers(), BUILTIN, LOCAL]
    if normalize_provider(provider) not in known:
        meant = near(provider, known)
        hint = f"did you mean {meant}? " if meant else ""
        raise Unknown(f"there is no provider '{provider}'", cure=f"{hint}`homarus models list --all` shows them")


@command.command()
@agent_option
@with_json
def status(app: App, agent_id: str | None = None, as_json: bool = False) -> None:
    """Show which model answers, why, with which key, and what stands behind it."""
    with app.out.waiting("looking for models"):
        report = asyncio.run(status_report(_open(app), _agent(app, agent_id)))
    if as_json:
        app.out.json(report)
    else:
        show_status(app.out, report)


@command.command(name="set")
@click.argument("model", shell_complete=complete.models, callback=filled)
@click.option(
    "--fallback",
    "fallbacks",
    multiple=True,
    metavar="MODEL",
    help="Tried when the first fails; may repeat.",
    shell_complete=complete.models,
    callback=filled,
)
@agent_option
@with_json
def set_model(app: App, model: str, fallbacks: tuple[str, ...], agent_id: str | None, as_json: bool) -> None:
    """Make MODEL (provider/model, or an alias) the one that answers; `auto` lets homarus choose again."""
    if fallbacks and AUTO in (model, *fallbacks):
        raise click.UsageError(f"'{AUTO}' chooses by itself: it has no fallbacks and is none")
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
    doubts = [[each for each in (one.warning, missing(models, agent, one.ref)) if each] for one in found]
    for each in itertools.chain.from_iterable(doubts):
        app.out.warn(each)
    if as_json:
        app.out.json({"model": shown, "fallbacks": refs[1:], "agent": agent_id})
    else:
        whose = f"agent '{agent.id}'" if agent_id else "every agent without a model of its own"
        unsure = unproven(models, found[0].ref) if model != AUTO and not doubts[0] else ""
        answers = "is to answer" if unsure or (model != AUTO and doubts[0]) else "answers"
        app.out.line(f"{shown} {answers} for {whose} from the next turn on.")
        if unsure:
            app.out.hint(f"{unsure[0].upper()}{unsure[1:]}.")


def _usable(models: Models, ref: ModelRef) -> str:
    check_choice(models, ref)
    return f'{ref.key}@"{ref.profile}"' if ref.profile else ref.key


@command.command()
@click.argument("name")
@click.option("--sha256", default="", metavar="HEX", help="What the file must be, for an address without one.")
@click.option("--unverified", is_flag=True, help="Take a file that nobody vouches for.")
@with_json
def pull(app: App, name: str, sha256: str, unverified: bool, as_json: bool) -> None:
    """Fetch a GGUF model by name, address or hf:owner/repo/file.gguf. A broken transfer is taken up again."""
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

    path, digest = asyncio.run(fetch())
    app.out.answer(
        {"path": str(path), "sha256": digest, "model": f"local/{path.stem}"},
        f"{path} is there (SHA-256 {digest}). Use it with: homarus models set local/{path.stem}",
        as_json=as_json,
    )


@command.group(cls=Group, default="list")
def aliases() -> None:
    """Short names for models. Without a word: the list."""


@aliases.command(name="list")
@with_json
def list_aliases(app: App, as_json: bool) -> None:
    """List the short names and what they stand for."""
    names = _open(app).names(app.config.default_agent)
    found = dict(sorted(names.aliases.items()))
    if as_json:
        app.out.json(found)
    elif found:
        app.out.table(found.items(), ["ALIAS", "MODEL"])
    else:
        app.out.hint("No aliases yet. Make one: homarus models aliases add fast openai/gpt-6.1-terra")


@aliases.command(name="add")
@click.argument("alias")
@click.argument("model", shell_complete=complete.models, callback=filled)
@with_json
def add_alias(app: App, alias: str, model: str, as_json: bool) -> None:
    """Let ALIAS stand for MODEL. A name that is taken moves to the new model."""
    alias = alias.strip()
    if not alias or any(char in "/@" or char.isspace() or not char.isprintable() for char in alias):
        raise click.UsageError("an alias is one word without '/' and '@'")
    if alias.lower() == AUTO or len(alias) > MAX_ALIAS:
        why = f"'{AUTO}' lets homarus choose" if alias.lower() == AUTO else f"'{alias}' is too long"
        raise Unknown(why, cure=f"choose another word of at most {MAX_ALIAS} characters")
    models = _open(app)
    ref = models.names(app.config.default_agent).resolve(model).ref
    check_choice(models, ref)
    entry = (app.config.get("agents.defaults.models") or {}).get(ref.key)
    gone = str(entry.get("alias") or "") if isinstance(entry, dict) else ""
    operations = [Operation("unset", ("agents", "defaults", "models", key, "alias")) for key in _holders(app, alias)]
    operations.append(Operation("set", ("agents", "defaults", "models", ref.key, "alias"), alias))
    if not app.config.defaults.get("models") and "modelPolicy" not in app.config.defaults:
        # Without a policy, the list of models with settings is also the list of allowed ones: a first alias would forbid
        # every other model.
        operations.append(Operation("set", ("agents", "defaults", "modelPolicy"), {}))
    change(app.config, app.env, operations)
    more = f" {gone} is no alias any more: a model has one." if gone and gone.lower() != alias.lower() else ""
    app.out.answer({"alias": alias, "model": ref.key}, f"{alias} now means {ref.key}.{more}", as_json=as_json)


@aliases.command(name="remove")
@click.argument("alias")
@with_json
def remove_alias(app: App, alias: str, as_json: bool) -> None:
    """Forget ALIAS; the model's other settings stay."""
    held = _holders(app, alias)
    if not held:
        raise Unknown(f"there is no alias '{alias}'", cure="`homarus models aliases` lists them")
    change(app.config, app.env, [Operation("unset", ("agents", "defaults", "models", key, "alias")) for key in held])
    app.out.answer({"removed": alias, "models": held}, f"{alias} is no alias any more.", as_json=as_json)


def _holders(app: App, alias: str) -> list[str]:
    models = app.config.get("agents.defaults.models")
    wanted = alias.strip().lower()
    return [
        key
        for key, entry in (models.items() if isinstance(models, dict) else ())
        if isinstance(entry, dict) and str(entry.get("alias", "")).strip().lower() == wanted
    ]


@command.command()
@click.argument("model", required=False, shell_complete=complete.models, callback=filled)
@click.option(
    "--timeout",
    "seconds",
    type=Number(0, min_open=True),
    default=60.0,
    show_default=True,
    help="Give up after this long.",
)
@agent_option
@with_json
def test(app: App, model: str | None, seconds: float, agent_id: str | None, as_json: bool) -> None:
    """Ask a model for one word and show how it answered. This is a real request and may cost a fraction of a cent."""
    from homarus.cli.try_model import show_test, try_model

    with app.out.waiting("asking the model"):
        report = asyncio.run(try_model(_open(app), _agent(app, agent_id), model, seconds))
    if as_json:
        app.out.json(report)
    else:
        show_test(app.out, report)
    if not report["ok"]:
        raise click.exceptions.Exit(1) if as_json else HomarusError(report["error"], cure=report["cure"])


async def model_rows(models: Models, provider: str | None, *, everything: bool) -> list[dict[str, Any]]:
    """Return the models that can be used, or all that are known."""
    servers = await discover(models.http, models.catalog)
    await models.aclose()
    wanted = normalize_provider(provider) if provider else None
    rows = []
    for name in models.catalog.providers():
        if wanted not in {None, name}:
            continue
        usable = _has_key(models, name)
        if usable or everything or wanted:
            rows += [_row(info, usable=usable) for info in models.catalog.models(name)]
    for server in servers:
        for served in server.models:
            models.catalog.learn(ModelRef(server.provider, served.id), served.window)
            if wanted in {None, server.provider}:
                rows.append(_row(models.info(ModelRef(server.provider, served.id)), usable=True))
    for path in find_models(models.config.paths.models_dir) if wanted in {None, "local"} else ():
        rows.append(_row(models.info(ModelRef("local", path.stem)), usable=True))
    return list({row["model"]: row for row in rows}.values())


def _has_key(models: Models, provider: str) -> bool:
    known = models.catalog.provider(provider)
    if provider == "builtin":
        return True
    if known.local or provider == "local":
        return False
    agent = models.config.default_agent
    own = models.catalog.own_settings(provider)
    return bool(models.bare_keys(provider) or models.store(agent).credentials(provider) or own.base_url)


def _row(info: ModelInfo, *, usable: bool) -> dict[str, Any]:
    price = info.price
    return {
        "model": f"{info.provider}/{info.id}",
        "name": info.name,
        "contextWindow": info.context_window,
        "contextTokens": info.window,
        "maxOutput": info.max_output,
        "input": list(info.input),
        "thinking": list(info.levels),
        "price": {"input": price.input, "output": price.output, "cacheRead": price.cache_read, "cacheWrite": price.cache_write}
        if price
        else None,
        "usable": usable,
    }  # fmt: skip


def show_models(out: Output, rows: list[dict[str, Any]], *, hint: bool) -> None:
    """Print models as a table."""
    shown = []
    for row in rows:
        price = row["price"]
        money = f"{price['input']:g} / {price['output']:g}" if price else ""
        kinds = "text, image" if "image" in row["input"] else "text"
        levels = f"{row['thinking'][0]}…{row['thinking'][-1]}" if len(row["thinking"]) > 1 else "".join(row["thinking"])
        shown.append(
            (row["model"], _tokens(row["contextTokens"]), kinds, levels, money, "" if row["usable"] else "no key")
        )
    out.table(shown, ["MODEL", "CONTEXT", "TAKES", "THINKING", "$ / M IN / OUT", ""])
    if hint:
        out.line(out.style("`--all` shows every known model, `--pullable` what can be fetched to this machine.", "dim"))


def _tokens(count: int) -> str:
    return f"{count / 1_000_000:g}M" if count >= 1_000_000 else f"{count // 1000}k"


def pullable_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the models that can be fetched by name, and whether they are here."""
    return [
        {"name": name, "about": source.about, "url": source.url, "sha256": source.sha256, "present": (folder / source.name).is_file()}
        for name, source in known().items()
    ]  # fmt: skip


async def status_report(models: Models, agent: AgentConfig) -> dict[str, Any]:
    """Return which model answers for an agent, why, and with what."""
    chain = await models.chain(agent)
    why = (await models.auto(agent)).why if chain.source == AUTO else "it is configured"
    servers = await discover(models.http, models.catalog)
    await models.aclose()
    now = epoch_ms(models.registry.clock.now())
    client = models.client(agent)
    rows = []
    for ref in chain.models:
        info = models.info(ref)
        keys = []
        for credential in client.credentials(ref):
            stats = models.store(agent).stats(credential.id)
            until = stats.resting_until(ref.model, now)
            keys.append({
                "id": credential.id,
                "kind": credential.kind,
                "key": mask(credential.secret),
                "restsSeconds": max(0, (until - now) // 1000) if until else 0,
                "reason": (stats.disabled_reason or stats.cooldown_reason) if until else "",
            })  # fmt: skip
        needs = models.registry.needs_key(ref.provider)
        more = {"contextTokens": models.window(agent, ref), "problem": missing(models, agent, ref)}
        more["unproven"] = unproven(models, ref)
        rows.append(
            {**_row(info, usable=bool(keys)), **more, "known": info.known, "credentials": keys, "needsKey": needs}
        )
    return {
        "agent": agent.id,
        "model": chain.primary.key,
        "source": chain.source,
        "why": why,
        "thinking": models.level(agent, chain.primary),
        "chain": rows,
        "strict": chain.strict,
        "warnings": list(chain.warnings),
        "servers": [_server(found) for found in servers],
        "files": [str(path) for path in find_models(models.config.paths.models_dir)],
        "catalog": models.catalog.updated,
    }


def _server(found: Found) -> dict[str, Any]:
    return {"provider": found.provider, "url": found.base_url, "models": [model.id for model in found.models]}


def mask(secret: str) -> str:
    """Return enough of a key to recognise it, and never enough to use it."""
    return f"{secret[:3]}…{secret[-4:]}" if len(secret) > 16 else "…" if secret else ""


def show_status(out: Output, report: dict[str, Any]) -> None:
    """Print the status for people."""
    first = report["chain"][0]
    answers = "is to answer" if first["problem"] or first["unproven"] else "answers"
    out.line(f"{out.style(report['model'], 'bold')} {answers} for agent '{report['agent']}': {report['why']}.")
    out.line(f"  window {_tokens(first['contextTokens'])} tokens, thinking {report['thinking']}")
    for row in report["chain"]:
        if row is not first:
            out.line(f"  then {row['model']}")
        for key in row["credentials"]:
            rest = f", rests for {key['restsSeconds']} s ({key['reason']})" if key["restsSeconds"] else ""
            if key["kind"] != "none":
                out.line(f"    key {key['id']} {key['key']}{rest}")
        if doubt := row["problem"] or row["unproven"]:
            out.hint("    " + out.style(doubt, "yellow"))
    for warning in report["warnings"]:
        out.warn(warning)
    for server in report["servers"]:
        out.line(f"  server {server['url']} offers {', '.join(server['models'][:5])}")
    for path in report["files"]:
        out.line(f"  file {path}")
    if report["model"] == "builtin/notebook":
        out.line()
        out.line("This is the built-in notebook. For a real model: put a key into the environment (ANTHROPIC_API_KEY,")
        out.hint("OPENAI_API_KEY …), start Ollama or LM Studio, or fetch one: homarus models list --pullable")
