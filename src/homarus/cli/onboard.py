"""`homarus onboard` and `homarus configure`: the questions that make a home answer, and the same ones later, one by one."""

from __future__ import annotations

import asyncio
import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from msgspec import Struct

from homarus.admin.choices import (
    Choice,
    entry_for,
    how_to_run_one,
    is_address,
    model_choices,
    price_class,
    served_at,
)
from homarus.admin.places import refuse
from homarus.admin.setup import set_up
from homarus.channels.channel import Manifest
from homarus.channels.discovery import manifests, named
from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.failures import say
from homarus.cli.home import as_data
from homarus.cli.options import filled, pass_app, with_json
from homarus.config.known import near
from homarus.config.load import load_config
from homarus.core.errors import ConfigError, HomarusError, Unknown
from homarus.models.access import Models
from homarus.models.ready import check_choice, lacks_key, missing
from homarus.models.ref import ModelRef, normalize_provider, split_profile, split_ref
from homarus.models.registry import LOCAL
from homarus.models.select import AUTO
from homarus.net.client import sendable

if TYPE_CHECKING:
    from homarus.config.view import AgentConfig

T = TypeVar("T")
TEST_SECONDS = 30.0
MODEL = "agents.defaults.model.primary"
SANDBOX = "agents.defaults.sandbox.mode"

# What is known to be wrong with the keys that somebody keeps all the same, by provider.
Doubts = dict[str, str]
SECTIONS = ("workspace", "model", "keys", "channels", "sandbox")


class Picked(Struct, frozen=True):
    """A model that somebody chose, and what has to be written for it to be there."""

    model: str
    settings: dict[str, object] = {}


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

    It finds keys in the environment, model servers and model files on this machine. A key that you type is not shown, is
    tried with one short request, and is kept in a file that only you can read. What exists is kept; running it again
    offers what is set now.
    """
    out, config = app.out, app.config
    ask = not non_interactive and not as_json and _is_terminal(app)
    current = str(config.agent(config.default_agent.id).get("model.primary") or "")
    key, doubts, more = "", Doubts(), dict[str, object]()
    if ask:
        out.line(f"{out.style('Welcome to homarus.', 'bold')} A few questions; Enter takes what is shown.\n")
        if workspace is None and not app.paths.config_path.exists():
            workspace = _ask_folder(app, "Where should your agent's files live?", str(app.paths.default_workspace))
    if ask and model is None:
        out.line("Looking for keys, model servers and model files ...")
        picked = _pick(app, asyncio.run(model_choices(config, app.env, app.clock, current)))
        model, more = picked.model, picked.settings
    elif model:
        model = _named(app, model)
    if ask and model and model != AUTO and not more:  # one that named its models wants no key
        key = _ask_key(app, model, doubts)
    settings = more | ({MODEL: model} if model and model != current else {})
    report = set_up(app.paths, app.env, app.clock, workspace=_whole(workspace), settings=settings)
    if key and model:
        _keep_key(app, model.partition("/")[0], key)
    answers, problem = _answers(app, doubts)
    if as_json:
        out.json(as_data(app, report) | {"model": model or current or AUTO, "answers": answers, "problem": problem})
        return
    out.line()
    out.line(f"{'Created' if report.config_created else 'Kept'} {app.paths.config_path}.")
    for name in report.config_changed:
        out.line(f"Set {name}.")
    for item in report.workspaces:
        out.line(f"Your agent lives in {item.workspace}.")
    out.line(f"{out.style(answers, 'cyan')} {'is to answer' if problem else 'answers now'}.")
    if problem:
        out.warn(problem)
    else:
        out.line(f"\nSay hello: {out.style(f'{app.program} chat', 'bold', 'cyan')}")


@click.command("configure")
@click.argument("section", required=False, type=click.Choice(SECTIONS))
@click.option("--workspace", type=click.Path(path_type=Path), metavar="DIR", help="Keep the agent's files here.")
@click.option("--model", metavar="REF", help="Use this model.", shell_complete=complete.models, callback=filled)
@click.option(
    "--provider", metavar="NAME", help="Whose key 'configure keys' takes; from a pipe it reads the key itself."
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
    ask = not non_interactive and not as_json and _is_terminal(app)
    settings: dict[str, object] = {MODEL: _named(app, model)} if model else {}
    if sandbox:
        settings[SANDBOX] = sandbox
    doubts = Doubts()
    if section == "keys" and not ask:
        _key_from_pipe(app, provider, doubts)
    options = bool(settings or workspace)
    report = set_up(app.paths, app.env, app.clock, workspace=_whole(workspace), settings=settings)
    for name in report.config_changed if not as_json else ():
        app.out.line(f"Set {name}.")
    if ask and not options:
        for each in [section] if section else SECTIONS:
            _SECTIONS[each](app, doubts)
    answers, problem = _answers(app, doubts)
    if as_json:
        app.out.json(as_data(app, report) | {"answers": answers, "problem": problem})
        return
    app.out.line(f"{app.out.style(answers, 'cyan')} {'is to answer' if problem else 'answers now'}.")
    if problem:
        app.out.warn(problem)


def _workspace(app: App, _doubts: Doubts) -> None:
    config = load_config(app.paths, app.env)
    now = str(config.get("agents.defaults.workspace") or app.paths.default_workspace)
    folder = _ask_folder(app, "Where should your agent's files live? (files that are there stay there)", now)
    if folder is not None:
        set_up(app.paths, app.env, app.clock, workspace=folder)
        app.out.line(f"Your agent lives in {folder} from the next turn on.")


def _model(app: App, doubts: Doubts) -> None:
    config = load_config(app.paths, app.env)
    current = str(config.default_agent.get("model.primary") or "")
    app.out.line("Looking for keys, model servers and model files ...")
    picked = _pick(app, asyncio.run(model_choices(config, app.env, app.clock, current)))
    model, more = picked.model, picked.settings
    key = "" if model == AUTO or more else _ask_key(app, model, doubts)
    if model != current or more:
        set_up(app.paths, app.env, app.clock, settings=more | {MODEL: model})
    if key:
        _keep_key(app, model.partition("/")[0], key)


def _keys(app: App, doubts: Doubts) -> None:
    models, agent = _opened(app)
    there = [
        name for name in models.catalog.providers() if models.bare_keys(name) or models.store(agent).credentials(name)
    ]
    app.out.line(f"Keys are there for: {', '.join(there) or 'nobody yet'}.")
    question = "Whose key do you want to add or replace? (Enter: none)"
    model = _ask_until(app, question, lambda answer: _model_of(models, agent, answer))
    if model and (key := _ask_key(app, model, doubts, replace=True)):
        _keep_key(app, model.partition("/")[0], key)


def _model_of(models: Models, agent: AgentConfig, answer: str) -> str:
    """Return the model with which a key of a provider is tried; without a name where none is known of it."""
    name = normalize_provider(answer)
    known = [each for each in models.catalog.providers() if models.registry.is_remote(each)]
    if name not in known:
        meant = near(name, known)
        takers = ", ".join(each for each in known if models.registry.needs_key(each))
        cure = f"did you mean {meant}?" if meant else f"one of {takers}, or one of your own in models.providers"
        raise Unknown(f"there is no provider '{name}' to take a key for", cure=cure)
    listed = next(models.catalog.models(name), None)
    used = split_ref(split_profile(str(agent.get("model.primary") or ""))[0])
    model = models.catalog.provider(name).default or (listed.id if listed else "")
    return f"{name}/{model or (used.model if used and used.provider == name else '')}"


def _channels(app: App, _doubts: Doubts) -> None:
    from homarus.cli.channels import add

    there = load_config(app.paths, app.env).get("channels")
    names = ", ".join(there) if isinstance(there, dict) and there else "none is configured"
    app.out.line(f"Channels: {names}.")
    known = manifests()

    def platform(answer: str) -> Manifest:
        if (manifest := named(answer)) is None:
            raise Unknown(f"there is no platform '{answer}'", cure=f"one of {', '.join(known)}")
        return manifest

    manifest = _ask_until(app, f"Which platform do you want to add? {', '.join(known)} (Enter: none)", platform)
    if manifest is None:
        return
    secret = next((key for key, each in manifest.settings.items() if each.secret), "")
    # What is required is asked for there, and first: a secret that may be left out says nothing without a server.
    asked = bool(secret) and not any(each.required for each in manifest.settings.values())
    token = _ask(f"{manifest.label}: {secret} (not shown; Enter: later)", hidden=True) if asked else ""
    click.get_current_context().invoke(add, channel=manifest.id, token=token or None)


def _sandbox(app: App, _doubts: Doubts) -> None:
    now = str(load_config(app.paths, app.env).get(SANDBOX) or "all")

    def mode(answer: str) -> str:
        if answer not in {"all", "non-main", "off"}:
            raise Unknown(f"'{answer}' is no sandbox mode", cure="all, non-main or off")
        return answer

    question = "Where should commands run? all: in a sandbox; off: on this machine, with all your rights"
    answer = _ask_until(app, question, mode, now)
    if answer != now:
        set_up(app.paths, app.env, app.clock, settings={SANDBOX: answer})
        app.out.line(f"Set {SANDBOX}.")


_SECTIONS: dict[str, Callable[[App, Doubts], None]] = {
    "workspace": _workspace,
    "model": _model,
    "keys": _keys,
    "channels": _channels,
    "sandbox": _sandbox,
}


def _opened(app: App) -> tuple[Models, AgentConfig]:
    config = load_config(app.paths, app.env)
    return Models(config, app.env, clock=app.clock), config.default_agent


def _named(app: App, text: str) -> str:
    """Return the model that a text means, said when it is a guess; a slip is refused."""
    if text == AUTO:
        return text
    models, agent = _opened(app)
    found = models.names(agent).resolve(text)
    check_choice(models, found.ref)
    if found.warning:
        app.out.warn(found.warning)
    return found.ref.key


def _answers(app: App, doubts: Doubts) -> tuple[str, str]:
    """Return what answers now and what is wrong with it."""

    async def look() -> tuple[str, str]:
        models, agent = _opened(app)
        try:
            chain = await models.chain(agent)
            ref = chain.primary
            return ref.key, missing(models, agent, ref) or doubts.get(ref.provider, "")
        except HomarusError as problem:
            return "nobody", str(problem)
        finally:
            await models.aclose()

    with app.out.waiting("looking for what can answer"):
        return asyncio.run(look())


def _ask_key(app: App, model: str, doubts: Doubts, *, replace: bool = False) -> str:
    """Return a key that somebody typed and that was tried; nothing where none is needed or wanted."""
    models, agent = _opened(app)
    provider, _, name = model.partition("/")
    if not replace and not lacks_key(models, agent, ModelRef(provider, name)):
        return ""
    if cost := price_class(models, model):
        app.out.line(f"{model} is {cost}.")
    while True:
        key = _ask(f"Your key for {provider} (not shown; Enter: later)", hidden=True)
        if not key:
            return ""
        app.out.line(f"Trying it with one short request to {model} ...")
        wrong, _ = _tried(app, model, key)
        if not wrong:
            app.out.line("It works.")
            return key
        app.out.warn(wrong)
        if not sendable(key):
            continue
        if _ask("Keep this key all the same? yes, or Enter to type another", "no").lower() in {"y", "yes"}:
            doubts[provider] = wrong
            return key


def _tried(app: App, model: str, key: str) -> tuple[str, bool]:
    """Try a key with one short request; return what is wrong, and whether it is the key. Nothing is stored."""
    from homarus.cli.models import try_model

    provider, _, name = model.partition("/")
    if not sendable(key):
        return f"this is no key for {provider}: it holds characters that no request can carry", True
    if not name:
        return f"the key for {provider} was not tried, because no model of {provider} is known here", False
    models, agent = _opened(app)
    with app.out.waiting(f"waiting for {provider}"):
        report = asyncio.run(try_model(models, agent, model, TEST_SECONDS, key=key))
    if report["ok"]:
        return "", False
    if report["kind"] in {"auth", "auth_permanent"}:
        # The provider's own words repeat the key and tell how its programs are told one.
        return f"{provider} does not accept this key", True
    return f"that did not work: {report['error']}" + (f" ({report['cure']})" if report["cure"] else ""), False


def _keep_key(app: App, provider: str, key: str) -> None:
    models, agent = _opened(app)
    store = models.store(agent)
    store.put(f"{provider}:default", {"type": "api_key", "provider": provider, "key": key})
    say(f"the key for {provider} is kept in {store.path}, which only you can read")


def _key_from_pipe(app: App, provider: str | None, doubts: Doubts) -> None:
    key = "" if sys.stdin.isatty() else sys.stdin.readline().strip()
    if not provider or not key:
        raise click.UsageError("without a terminal, say --provider NAME and give the key on standard input")
    model = _model_of(*_opened(app), provider)
    name = model.partition("/")[0]
    wrong, is_key = _tried(app, model, key)
    if is_key:
        raise ConfigError(wrong, cure="nothing was stored; check the key")
    if wrong:  # offline, say: the key may well be right
        doubts[name] = wrong
    set_up(app.paths, app.env, app.clock)
    _keep_key(app, name, key)


def _is_terminal(app: App) -> bool:
    return sys.stdin.isatty() and app.out.out.isatty()


def _ask_folder(app: App, question: str, default: str) -> Path | None:
    """Ask until it is a folder in which an agent can live; nothing where the one that is shown is kept."""
    from prompt_toolkit import prompt
    from prompt_toolkit.completion import PathCompleter

    completer = PathCompleter(only_directories=True, expanduser=True)
    while (answer := prompt(_asked(question), default=default, completer=completer).strip() or default) != default:
        folder = Path(answer).expanduser().absolute()
        try:
            refuse(folder, app.paths)
            return folder
        except HomarusError as problem:
            app.out.line(f"{problem}.")
            question = ""
    return None


def _whole(folder: Path | None) -> Path | None:
    return folder.expanduser().absolute() if folder else None


def _ask(question: str, default: str = "", *, hidden: bool = False) -> str:
    from prompt_toolkit import prompt
    from prompt_toolkit.formatted_text import FormattedText

    # Shown, not filled in: whoever types 2 means 2, and not 12.
    shown = FormattedText([("ansibrightblack", default)])
    return prompt(_asked(question), placeholder=shown, is_password=hidden).strip() or default


def _asked(question: str) -> str:
    # What stands before the line is cut where the terminal ends, and not wrapped.
    return "\n".join([*textwrap.wrap(question, _columns()), "> "])


def _columns() -> int:
    return max(40, shutil.get_terminal_size().columns - 1)


def _ask_until(app: App, question: str, check: Callable[[str], T], default: str = "") -> T | None:
    """Ask until the answer will do; nothing where somebody answered nothing. A slip must not cost the questions after it."""
    while answer := _ask(question, default):
        try:
            return check(answer)
        except HomarusError as problem:
            app.out.line(f"{problem}.")
            question = ""
    return None


def _pick(app: App, choices: list[Choice]) -> Picked:
    out = app.out
    out.line("Which model should answer?\n")
    for number, choice in enumerate(choices, 1):
        lead = f"  {number}  {choice.ref}  "
        first, *more = textwrap.wrap(lead + choice.why, _columns(), subsequent_indent=" " * 5, break_on_hyphens=False)
        out.line(f"  {number}  {out.style(choice.ref, 'cyan')}{out.style(first[len(lead) - 2 :], 'dim')}")
        for line in more:
            out.line(out.style(line, "dim"))
    for text in (how_to_run_one(_opened(app)[0], choices), "or write another one by its name or as provider/model"):
        for number, line in enumerate(textwrap.wrap(text, _columns() - 2)):
            out.line(("\n" if not number else "") + out.style(f"  {line}", "dim"))
    while True:
        answer = _ask("", "1")
        number = int(answer) if answer.isdigit() else 0
        try:
            if is_address(answer):
                return _pick_served(app, answer)
            model = _named(app, choices[number - 1].ref if 1 <= number <= len(choices) else answer)
            if model.startswith(f"{LOCAL}/"):
                _opened(app)[0].registry.check(ModelRef(*model.split("/", 1)))
            return Picked(model)
        except HomarusError as problem:
            out.line(f"{problem}.")


def _pick_served(app: App, address: str) -> Picked:
    """Return a model of the server at an address, and the entry that names it."""
    with app.out.waiting(f"asking {address} for its models"):
        server = asyncio.run(served_at(_opened(app)[0], address))
    ids = [model.id for model in server.chat_models]
    model = ids[0]
    if len(ids) > 1:
        app.out.line(f"It offers {', '.join(ids)}.")
        while (model := _ask("Which of them?", ids[0])) not in ids:
            app.out.line(f"It does not offer '{model}'.")
    return Picked(f"{server.provider}/{model}", {f"models.providers.{server.provider}": entry_for(server)})
