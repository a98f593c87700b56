"""`homarus onboard` and `homarus configure`: the questions that make a home answer, and the same ones later, one by one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from homarus.admin.setup import set_up
from homarus.channels.channel import Manifest
from homarus.channels.discovery import manifests, named
from homarus.cli import choose_model as choice
from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.choose_model import Picked, Tries, opened
from homarus.cli.home import as_data
from homarus.cli.options import filled, pass_app, with_json
from homarus.cli.questions import ask, ask_folder, ask_until
from homarus.config.known import near
from homarus.config.load import load_config
from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError, HomarusError, Unknown
from homarus.models.access import Models
from homarus.models.ready import missing, unproven
from homarus.models.ref import normalize_provider, split_ref
from homarus.models.select import AUTO

if TYPE_CHECKING:
    from homarus.config.view import AgentConfig

MODEL = "agents.defaults.model.primary"
SANDBOX = "agents.defaults.sandbox.mode"
SECTIONS = ("workspace", "model", "keys", "channels", "sandbox")


class Standing(Struct, frozen=True):
    """The model that is to answer, what is wrong with it, and whether it does: it was called just now, or needs no call."""

    model: str
    problem: str = ""
    sure: bool = False
    # What is known of it where nothing is wrong, and it was not called now.
    last: str = ""


@click.command("onboard")
@click.option("--workspace", type=click.Path(path_type=Path), metavar="DIR", help="Keep the agent's files here.")
@click.option(
    "--model",
    metavar="REF",
    help="Use this model, for example anthropic/claude-sonnet-4-5, or auto.",
    shell_complete=complete.models,
    callback=filled,
)
@click.option("--non-interactive", is_flag=True, help="Ask nothing: take the options and the defaults.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text, and ask nothing.")
@pass_app
def onboard(app: App, workspace: Path | None, model: str | None, non_interactive: bool, as_json: bool) -> None:
    """Set up a home in a minute: where the files live, which model answers, and its key.

    It finds keys in the environment, model servers and model files on this machine. A key that you type is not shown, and is
    kept in a file that only you can read. What you choose is tried with one short request. What exists is kept; running
    it again offers what is set now.
    """
    out, config = app.out, app.config
    asks = not non_interactive and not as_json and _is_terminal(app)
    current = str(config.agent(config.default_agent.id).get("model.primary") or "")
    picked, tries = Picked(""), Tries()
    if asks:
        out.line(f"{out.style('Welcome to homarus.', 'bold')} A few questions; Enter takes what is shown.\n")
        if workspace is None and not app.paths.config_path.exists():
            workspace = ask_folder(app, "Where should your agent's files live?", str(app.paths.default_workspace))
        picked = (model and choice.proved(app, Picked(choice.named(app, model)), tries, current)) or choice.choose(
            app, tries, current
        )
    elif model:
        picked = Picked(choice.named(app, model))
    settings = picked.settings | ({MODEL: picked.model} if picked.model and picked.model != current else {})
    report = set_up(app.paths, app.env, app.clock, workspace=_whole(workspace), settings=settings)
    choice.keep_key(app, picked)
    standing = _standing(app, tries)
    if as_json:
        out.json(as_data(app, report) | {"model": picked.model or current or AUTO} | _data(standing))
        return
    out.line()
    out.line(f"{'Created' if report.config_created else 'Kept'} {app.paths.config_path}.")
    for name in report.config_changed:
        out.line(f"Set {name}.")
    for item in report.workspaces:
        out.line(f"Your agent lives in {item.workspace}.")
    _say(app, standing)
    if not standing.problem:
        out.line(f"\nSay hello: {out.style(f'{app.program} chat', 'bold', 'cyan')}")


@click.command("configure")
@click.argument("section", required=False, type=click.Choice(SECTIONS))
@click.option("--workspace", type=click.Path(path_type=Path), metavar="DIR", help="Keep the agent's files here.")
@click.option("--model", metavar="REF", help="Use this model.", shell_complete=complete.models, callback=filled)
@click.option(
    "--provider",
    metavar="NAME",
    help="Whose key 'configure keys' takes; from a pipe it reads the key itself.",
    shell_complete=complete.providers,
)
@click.option("--sandbox", type=click.Choice(["all", "non-main", "off"]), help="Where commands run.")
@click.option("--non-interactive", is_flag=True, help="Ask nothing: take the options.")
@with_json
def configure(
    app: App,
    section: str | None,
    workspace: Path | None,
    model: str | None,
    provider: str | None,
    sandbox: str | None,
    non_interactive: bool,
    as_json: bool,
) -> None:
    """Change the workspace, the model, the keys, the channels or the sandbox of a home that exists.

    Without a SECTION and without options each of them is asked for in turn; Enter keeps what is set.

    \b
    Examples:
      homarus configure keys
      homarus configure --model opus
      echo "$KEY" | homarus configure keys --provider openai
    """
    asks = not non_interactive and not as_json and _is_terminal(app)
    settings: dict[str, object] = {MODEL: choice.named(app, model)} if model else {}
    if sandbox:
        settings[SANDBOX] = sandbox
    tries = Tries()
    if section == "keys" and not asks:
        _key_from_pipe(app, provider, tries)
    options = bool(settings or workspace)
    report = set_up(app.paths, app.env, app.clock, workspace=_whole(workspace), settings=settings)
    for name in report.config_changed if not as_json else ():
        app.out.line(f"Set {name}.")
    if asks and not options:
        for each in [section] if section else SECTIONS:
            _SECTIONS[each](app, tries)
    standing = _standing(app, tries)
    for other, wrong in tries.items() if not asks else ():
        if wrong and other != standing.model:
            app.out.warn(wrong)
    if as_json:
        app.out.json(as_data(app, report) | _data(standing))
    else:
        _say(app, standing)


def _workspace(app: App, _tries: Tries) -> None:
    config = load_config(app.paths, app.env)
    now = str(config.get("agents.defaults.workspace") or app.paths.default_workspace)
    folder = ask_folder(app, "Where should your agent's files live? (files that are there stay there)", now)
    if folder is not None:
        set_up(app.paths, app.env, app.clock, workspace=folder)
        app.out.line(f"Your agent lives in {folder} from the next turn on.")


def _model(app: App, tries: Tries) -> None:
    current = str(load_config(app.paths, app.env).default_agent.get("model.primary") or "")
    picked = choice.choose(app, tries, current)
    if picked.model != current or picked.settings:
        set_up(app.paths, app.env, app.clock, settings=picked.settings | {MODEL: picked.model})
    choice.keep_key(app, picked)


def _keys(app: App, tries: Tries) -> None:
    models, agent = opened(app)
    there = [
        name for name in models.catalog.providers() if models.bare_keys(name) or models.store(agent).credentials(name)
    ]
    app.out.line(f"Keys are there for: {', '.join(there) or 'nobody yet'}.")
    question = "Whose key do you want to add or replace? (Enter: none)"
    model = ask_until(app, question, lambda answer: _model_of(models, agent, answer))
    if model:
        choice.keep_key(app, Picked(model, key=choice.ask_key(app, Picked(model), tries)))


def _model_of(models: Models, agent: AgentConfig, answer: str) -> str:
    """Return the model with which a key of a provider is tried; without a name where none is known of it."""
    name = normalize_provider(answer)
    known = [each for each in models.catalog.providers() if models.registry.is_remote(each)]
    if name not in known:
        meant = near(name, known)
        takers = ", ".join(each for each in known if models.registry.needs_key(each))
        cure = f"did you mean {meant}?" if meant else f"one of {takers}, or one of your own in models.providers"
        raise Unknown(f"there is no provider '{name}' to take a key for", cure=cure)
    used = choice.used_model(agent)
    if used is not None and used.provider == name:
        return used.key
    listed = next(models.catalog.models(name), None)
    return f"{name}/{models.catalog.provider(name).default or (listed.id if listed else '')}"


def _channels(app: App, _tries: Tries) -> None:
    from homarus.cli.channels import add

    there = load_config(app.paths, app.env).get("channels")
    names = ", ".join(there) if isinstance(there, dict) and there else "none is configured"
    app.out.line(f"Channels: {names}.")
    known = manifests()

    def platform(answer: str) -> Manifest:
        if (manifest := named(answer)) is None:
            raise Unknown(f"there is no platform '{answer}'", cure=f"one of {', '.join(known)}")
        return manifest

    manifest = ask_until(app, f"Which platform do you want to add? {', '.join(known)} (Enter: none)", platform)
    if manifest is None:
        return
    secret = next((key for key, each in manifest.settings.items() if each.secret), "")
    # What is required is asked for there, and first: a secret that may be left out says nothing without a server.
    asked = bool(secret) and not any(each.required for each in manifest.settings.values())
    token = ask(f"{manifest.label}: {secret} (not shown; Enter: later)", hidden=True) if asked else ""
    click.get_current_context().invoke(add, channel=manifest.id, token=token or None)


def _sandbox(app: App, _tries: Tries) -> None:
    now = str(load_config(app.paths, app.env).get(SANDBOX) or "all")

    def mode(answer: str) -> str:
        if answer not in {"all", "non-main", "off"}:
            raise Unknown(f"'{answer}' is no sandbox mode", cure="all, non-main or off")
        return answer

    question = "Where should commands run? all: in a sandbox; off: on this machine, with all your rights"
    answer = ask_until(app, question, mode, now)
    if answer != now:
        set_up(app.paths, app.env, app.clock, settings={SANDBOX: answer})
        app.out.line(f"Set {SANDBOX}.")


_SECTIONS: dict[str, Callable[[App, Tries], None]] = {
    "workspace": _workspace,
    "model": _model,
    "keys": _keys,
    "channels": _channels,
    "sandbox": _sandbox,
}


def _opened(app: App) -> tuple[Models, AgentConfig]:
    config = load_config(app.paths, app.env)
    return Models(config, app.env, clock=app.clock), config.default_agent


def _standing(app: App, tries: Tries) -> Standing:
    """Write down how the calls of this command ended, and return what is to answer now."""

    async def look() -> Standing:
        models, agent = opened(app)
        for model, failure in tries.items():
            if split_ref(model):
                models.calls.write(model, failure, epoch_ms(app.clock.now()))
        try:
            ref = (await models.chain(agent)).primary
        except HomarusError as wrong:
            return Standing("nobody", str(wrong))
        finally:
            await models.aclose()
        sure = not models.is_called(ref) or tries.get(ref.key) == ""
        problem, call = missing(models, agent, ref) or tries.get(ref.key, ""), models.calls.of(ref.key)
        if call is not None and call.failure and not sure:
            problem = problem or str(call)
        return Standing(ref.key, problem, sure and not problem, "" if sure else str(call or unproven(models, ref)))

    with app.out.waiting("looking for what can answer"):
        return asyncio.run(look())


def _say(app: App, standing: Standing) -> None:
    told = " answers now." if standing.sure else " is to answer."
    app.out.line(app.out.style(standing.model, "cyan") + told)
    if standing.problem:
        app.out.warn(standing.problem)
    elif standing.last:
        app.out.hint(f"It {standing.last.removeprefix('it ')}.")


def _data(standing: Standing) -> dict[str, object]:
    return {"answers": standing.model, "problem": standing.problem, "tried": standing.sure}


def _key_from_pipe(app: App, provider: str | None, tries: Tries) -> None:
    key = "" if sys.stdin.isatty() else sys.stdin.readline().strip()
    if not provider or not key:
        raise click.UsageError("without a terminal, say --provider NAME and give the key on standard input")
    picked = Picked(_model_of(*opened(app), provider), key=key)
    wrong, is_key = choice.tried(app, picked)
    if is_key:
        raise ConfigError(wrong, cure="nothing was stored; check the key")
    tries[picked.model] = wrong  # offline, say: the key may well be right
    set_up(app.paths, app.env, app.clock)
    choice.keep_key(app, picked)


def _is_terminal(app: App) -> bool:
    return sys.stdin.isatty() and app.out.out.isatty()


def _whole(folder: Path | None) -> Path | None:
    return folder.expanduser().absolute() if folder else None
