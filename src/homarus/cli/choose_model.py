"""Choosing a model with a person: what could answer is offered, and what is chosen is called once before it is written down."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from homarus.admin.choices import Choice, entry_for, how_to_run_one, is_address, model_choices, price_class, served_at
from homarus.cli.app import App
from homarus.cli.failures import say
from homarus.cli.questions import ask, columns
from homarus.config.keypath import parse_path
from homarus.config.load import load_config
from homarus.core.errors import HomarusError, Unknown
from homarus.models.access import Models
from homarus.models.discover import Found
from homarus.models.ready import check_choice, lacks_key
from homarus.models.ref import ModelRef, split_profile, split_ref
from homarus.models.registry import LOCAL
from homarus.models.select import AUTO, Override
from homarus.net.client import sendable

if TYPE_CHECKING:
    from homarus.config.view import AgentConfig

TEST_SECONDS = 10.0
# How a call of each model ended in this command: what was wrong, nothing where it answered.
Tries = dict[str, str]
_YES = {"y", "yes"}


class Picked(Struct, frozen=True):
    """A model that somebody chose, and what has to be written for it to be there: settings, and a key."""

    model: str
    settings: dict[str, object] = {}
    key: str = ""
    # The model that is called for it: `auto` means one.
    called: str = ""


def opened(app: App, settings: Mapping[str, object] | None = None) -> tuple[Models, AgentConfig]:
    """Return the models of the home as it is now, with settings that are not written yet."""
    config = load_config(app.paths, app.env)
    if settings:
        config.overlay({parse_path(key): value for key, value in settings.items()})
    return Models(config, app.env, clock=app.clock), config.default_agent


def named(app: App, text: str) -> str:
    """Return the model that a text means, said when it is a guess; a slip is refused."""
    if text == AUTO:
        return text
    models, agent = opened(app)
    found = models.names(agent).resolve(text)
    check_choice(models, found.ref)
    if found.warning:
        app.out.warn(found.warning)
    return found.ref.key


def choose(app: App, tries: Tries, current: str) -> Picked:
    """Ask which model should answer until one is chosen that does, or that is wanted all the same."""
    app.out.line("Looking for keys, model servers and model files ...")
    choices = asyncio.run(model_choices(load_config(app.paths, app.env), app.env, app.clock, current))
    _show(app, choices)
    while True:
        try:
            picked = proved(app, _picked(app, choices, ask("", "1")), tries, current)
        except HomarusError as problem:
            app.out.line(f"{problem}.")
            continue
        if picked is not None:
            return picked
        app.out.line("Which one, then?")


def _show(app: App, choices: list[Choice]) -> None:
    out = app.out
    out.line("Which model should answer?\n")
    for number, choice in enumerate(choices, 1):
        lead = f"  {number}  {choice.ref}  "
        first, *more = textwrap.wrap(lead + choice.why, columns(), subsequent_indent=" " * 5, break_on_hyphens=False)
        out.line(f"  {number}  {out.style(choice.ref, 'cyan')}{out.style(first[len(lead) - 2 :], 'dim')}")
        for line in more:
            out.line(out.style(line, "dim"))
    for text in (how_to_run_one(opened(app)[0], choices), "or write another one by its name or as provider/model"):
        for number, line in enumerate(textwrap.wrap(text, columns() - 2)):
            out.line(("\n" if not number else "") + out.style(f"  {line}", "dim"))


def _picked(app: App, choices: list[Choice], answer: str) -> Picked:
    number = int(answer) if answer.isdigit() else 0
    chosen = choices[number - 1].ref if 1 <= number <= len(choices) else answer
    if is_address(chosen):
        return _of_server(app, chosen)
    model = named(app, chosen)
    if model.startswith(f"{LOCAL}/"):
        opened(app)[0].registry.check(ModelRef(*model.split("/", 1)))
    return Picked(model)


def _of_server(app: App, address: str) -> Picked:
    """Return a model of the server at an address, the entry that names it, and the key that it wants."""
    server, key = _server(app, address)
    ids = [model.id for model in server.chat_models]
    model = ids[0]
    if len(ids) > 1:
        app.out.line(f"It offers {', '.join(ids)}.")
        while (model := ask("Which of them?", ids[0])) not in ids:
            app.out.line(f"It does not offer '{model}'.")
    return Picked(f"{server.provider}/{model}", {f"models.providers.{server.provider}": entry_for(server)}, key)


def _server(app: App, address: str) -> tuple[Found, str]:
    """Return a server that told its models, and the key for which it did."""

    def look(key: str) -> Found:
        with app.out.waiting(f"asking {address} for its models"):
            return asyncio.run(served_at(opened(app)[0], address, key))

    if not (server := look("")).wants_key:
        return server, ""
    models, agent = opened(app)
    for kept in models.store(agent).credentials(server.provider):  # it was set up here before
        if not (known := look(kept.secret)).wants_key:
            return known, kept.secret
    app.out.line(f"{address} wants a key.")
    while key := ask("Its key (not shown; Enter: none, and another model)", hidden=True):
        if not sendable(key):
            app.out.warn("this is no key: it holds characters that no request can carry")
        elif (server := look(key)).wants_key:
            app.out.warn(f"{address} does not accept this key")
        else:
            return server, key
    raise Unknown(f"{address} tells nobody without a key which models it has", cure="choose another one")


def proved(app: App, picked: Picked, tries: Tries, current: str = "") -> Picked | None:
    """Return a choice whose model was called and answered, or is wanted all the same; None where another one is.

    One that answers inside this program is not called, and neither is the one that is set already and answered last time.
    """
    models, agent = opened(app, picked.settings)
    ref = _called(app, models, agent, picked.model)
    picked = replace(picked, called=ref.key)
    if not models.registry.is_remote(ref.provider):
        return picked
    last = models.calls.of(ref.key)
    if not picked.key and lacks_key(models, agent, ref):
        return replace(picked, key=ask_key(app, picked, tries))
    if picked.model == current and last is not None and not last.failure:
        return picked
    app.out.line(f"Trying {ref} with one short request ...")
    wrong, is_key = tried(app, picked)
    if not wrong:
        app.out.line("It answers.")
        tries[ref.key] = ""
        return picked
    app.out.warn(wrong)
    if is_key and (key := ask_key(app, picked, tries)):
        return replace(picked, key=key)
    if ask("Use it all the same? yes, or Enter to choose another", "no").lower() in _YES:
        tries[ref.key] = wrong
        return picked
    return None


def _called(app: App, models: Models, agent: AgentConfig, model: str) -> ModelRef:
    async def look() -> ModelRef:
        try:
            if model == AUTO:
                return (await models.auto(agent)).ref
            return (await models.chain(agent, override=Override(model))).primary
        finally:
            await models.aclose()

    with app.out.waiting("looking for what can answer"):
        return asyncio.run(look())


def ask_key(app: App, picked: Picked, tries: Tries) -> str:
    """Return a key that somebody typed and that was tried; nothing where none is wanted now."""
    model = picked.called or picked.model
    provider = model.partition("/")[0]
    if cost := price_class(opened(app)[0], model):
        app.out.line(f"{model} is {cost}.")
    while key := ask(f"Your key for {provider} (not shown; Enter: later)", hidden=True):
        app.out.line(f"Trying it with one short request to {model} ...")
        wrong, _ = tried(app, replace(picked, key=key))
        if not wrong:
            app.out.line("It works.")
            tries[model] = ""
            return key
        app.out.warn(wrong)
        if not sendable(key):
            continue
        if ask("Keep this key all the same? yes, or Enter to type another", "no").lower() in _YES:
            tries[model] = wrong
            return key
    return ""


def tried(app: App, picked: Picked) -> tuple[str, bool]:
    """Call a model once; return what is wrong, and whether it is the key. Nothing is stored."""
    from homarus.cli.try_model import try_model

    model = picked.called or picked.model
    provider, _, name = model.partition("/")
    if picked.key and not sendable(picked.key):
        return f"this is no key for {provider}: it holds characters that no request can carry", True
    if not name:
        return f"the key for {provider} was not tried, because no model of {provider} is known here", False
    models, agent = opened(app, picked.settings)
    with app.out.waiting(f"waiting for {provider}"):
        report = asyncio.run(try_model(models, agent, model, TEST_SECONDS, key=picked.key))
    if report["ok"]:
        return "", False
    if report["kind"] in {"auth", "auth_permanent"}:
        # The provider's own words repeat the key and tell how its programs are told one.
        used = picked.key or models.client(agent).credentials(ModelRef(provider, name))[0].secret
        return f"{provider} does not accept this key" if used else f"{provider} wants a key", True
    cure = "a model that is only now being loaded takes longer" if report["kind"] == "aborted" else report["cure"]
    return report["error"] + (f" ({cure})" if cure else ""), False


def used_model(agent: AgentConfig) -> ModelRef | None:
    """Return the model that an agent is set to, if it is set to one."""
    return split_ref(split_profile(str(agent.get("model.primary") or ""))[0])


def keep_key(app: App, picked: Picked) -> None:
    """Store the key of a choice, if it has one."""
    if not picked.key:
        return
    models, agent = opened(app)
    provider, store = (picked.called or picked.model).partition("/")[0], models.store(agent)
    store.put(f"{provider}:default", {"type": "api_key", "provider": provider, "key": picked.key})
    say(f"the key for {provider} is kept in {store.path}, which only you can read")
