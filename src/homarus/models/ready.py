"""What keeps a model from answering, in words with the cure. Nothing is sent: a server on this machine is only looked for."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import SplitResult

from homarus.config.view import AgentConfig
from homarus.core.errors import ConfigError, Unknown, installing
from homarus.models.access import Models, can_run_files
from homarus.models.named import nearly
from homarus.models.ref import ModelRef
from homarus.models.registry import LOCAL
from homarus.models.select import Override, chain
from homarus.net.client import http_target
from homarus.net.errors import Refused
from homarus.net.proxy import is_here

BUSY_SECONDS = 0.2  # a closed port on this machine says so at once; who takes longer is there


def missing(models: Models, agent: AgentConfig, ref: ModelRef) -> str:
    """Say what a model lacks: its provider, its file, what runs that, a key, or a server; nothing when it can be asked."""
    try:
        models.registry.check(ref)
        problem = ""
    except ConfigError as wrong:
        problem = str(wrong)
    if ref.provider == LOCAL and not can_run_files():
        extra = f"a model file needs the extra 'local': {installing('homarus[local]')}"
        return f"{problem}; {extra}" if problem else extra
    if problem or not models.registry.is_remote(ref.provider):
        return problem
    if lacks_key(models, agent, ref):
        return f"no key for {ref.provider}: {_key_cure(models, ref.provider)}"
    return _unreachable(models, ref.provider)


def unproven(models: Models, ref: ModelRef) -> str:
    """Say why nobody may claim that a model answers: its last call failed, or nobody called it yet; nothing where it answered."""
    if not models.is_called(ref):
        return ""
    call = models.calls.of(ref.key)
    if call is None:
        return f"it has not been asked yet; 'homarus models test {ref.key}' does"
    return str(call) if call.failure else ""


def _key_cure(models: Models, provider: str) -> str:
    names = models.catalog.provider(provider).env
    return "run 'homarus configure keys'" + (f", or set {names[0]}" if names else "")


def lacks_key(models: Models, agent: AgentConfig, ref: ModelRef) -> bool:
    """Say whether a model waits for a key: its provider wants one, or the file names one that is not there."""
    found = models.client(agent).credentials(ref)
    own: Any = models.config.authored
    for step in ("models", "providers", ref.provider):
        own = own.get(step) if isinstance(own, dict) else None
    named = isinstance(own, dict) and bool(own.get("apiKey"))
    return not found or (named and found[0].kind == "none")


def check_asked(models: Models, agent: AgentConfig, text: str, *, keys: bool = True) -> None:
    """Refuse a model that a message names and that surely cannot answer it, so that nothing of the message is kept.

    Nobody is asked, so one whose server is down passes. Without `keys` another process has them, and knows which.
    """
    ref = chain(agent.raw, models.names(agent), override=Override(text)).primary
    check_choice(models, ref)
    try:
        models.registry.check(ref)
    except ConfigError as wrong:
        raise Unknown(wrong.message, cure=wrong.cure) from wrong
    if keys and not models.client(agent).credentials(ref):
        profile = f" in the profile '{ref.profile}'" if ref.profile else ""
        raise Unknown(f"no key for {ref.provider}{profile}", cure=_key_cure(models, ref.provider))


def check_choice(models: Models, ref: ModelRef) -> None:
    """Refuse a model that somebody chose where no provider has it, or where it looks like another one with a slip in it.

    One that is only newer than the list is taken, and so is a file that is still to be fetched.
    """
    if models.registry.is_remote(ref.provider):
        try:
            models.registry.check(ref)
        except ConfigError as wrong:
            raise Unknown(wrong.message, cure=wrong.cure) from wrong
    meant = nearly(models.catalog, ref)
    if meant:
        raise Unknown(f"{ref.provider} has no model '{ref.model}'", cure=f"did you mean {ref.provider}/{meant}?")


def _unreachable(models: Models, provider: str) -> str:
    address = models.catalog.provider(provider).base_url
    if not address:
        return ""  # a library knows where it is
    try:
        target = http_target(address)
    except Refused as wrong:
        return f"{wrong}: correct models.providers.{provider}.baseUrl"
    if not is_here(target.hostname or "") or _listens(target):
        return ""
    return f"nothing listens on {target.netloc.rpartition('@')[2]}: start the server of {provider}, or correct models.providers.{provider}.baseUrl"


def _listens(target: SplitResult) -> bool:
    place = (target.hostname, target.port or (443 if target.scheme == "https" else 80))
    try:
        with socket.create_connection(place, BUSY_SECONDS):
            return True
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
