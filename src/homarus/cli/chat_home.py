"""What the commands for chats share: the running gateway does it, and where there is none this process does it once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from homarus.channels.channel import Manifest
from homarus.channels.discovery import manifests, named
from homarus.channels.pairing import PairingStore, owner_entry
from homarus.channels.settings import accounts_of, channel_block, default_account
from homarus.channels.support import SCAN, Note
from homarus.cli.app import App
from homarus.config.write import Operation
from homarus.core.errors import ConfigError, HomarusError, Unknown
from homarus.core.messages import Inbound
from homarus.core.routes import normalize_account_id
from homarus.core.text import single_line

if TYPE_CHECKING:
    from homarus.cli.output import Output
    from homarus.runtime.switchboard import Switchboard

T = TypeVar("T")
CONNECT_SECONDS = 30.0
SCAN_SECONDS = 300.0  # for somebody who looks for their phone


def manifest_of(word: str) -> Manifest:
    """Return the platform that a person names. Raises Unknown, with those that there are."""
    found = named(word)
    if found is None:
        known = ", ".join(manifests()) or "none"
        raise Unknown(f"'{single_line(word, 40)}' is no channel", cure=f"there are: {known}")
    return found


def account_id(app: App, channel: str, account: str) -> str:
    """Return the id of the account that a person names, or of the usual one. Raises Unknown for what can be none."""
    if not account:
        return default_account(app.config, channel)
    found = normalize_account_id(account)
    own = (channel_block(app.config, channel) or {}).get("accounts")
    # An id is part of a path, and a name that only resembles one means another account.
    if found != account.strip().lower().replace(" ", "-") and account not in (own if isinstance(own, dict) else {}):
        cure = "use at most 64 letters (a to z), digits, '-' and '_'"
        raise Unknown(f"'{single_line(account, 40)}' is no name for an account", cure=cure)
    return found


def known_account(app: App, channel: str, account: str) -> str:
    """Return the id of an account that this home has. Raises Unknown, with those that there are."""
    found, there = account_id(app, channel, account), accounts_of(app.config, manifests()[channel], app.env)
    if account and found not in there:
        cure = f"there are: {', '.join(there)}" if there else f"'homarus channels add {channel}' makes one"
        raise Unknown(f"there is no account {channel}/{found}", cure=cure)
    return found


async def _refuse(_inbound: Inbound) -> None:
    raise HomarusError("nobody listens here", cure="'homarus gateway run' does")


async def _connected(board: Switchboard, channel: str, account: str, out: Output, drawn: Callable[[], str]) -> None:
    """Wait until an account is up, and say what it says meanwhile; `drawn` is a code to scan. Raises where it cannot be."""
    told, shown, waited = "", "", 0.0
    while board.manager.connected(channel, account) is None:
        now = next((each for each in board.status() if (each.channel, each.account_id) == (channel, account)), None)
        if now is None:
            raise ConfigError(f"there is no account {channel}/{account}", cure=f"homarus channels add {channel}")
        if not now.enabled:
            raise ConfigError(f"{channel}/{account} is switched off", cure=f"set channels.{channel}.enabled to true")
        words = " ".join(part for part in (now.last_error, now.cure) if part)
        if words and words != told:
            out.warn(told := words)
        if (code := drawn()) and code != shown:
            print(shown := code, file=out.err, flush=True)
        if (words and not now.running) or waited > (SCAN_SECONDS if shown else CONNECT_SECONDS):
            raise HomarusError(now.last_error or f"{channel}/{account} did not connect", cure=now.cure)
        await asyncio.sleep(0.1)
        waited += 0.1


def once(app: App, channel: str, account: str, work: Callable[[Switchboard], Awaitable[T]]) -> T:
    """Connect one account in this process, do something with it, and leave. No gateway may serve the home meanwhile."""
    from homarus.agent.home import Home
    from homarus.core.clock import SystemIds
    from homarus.runtime.local import LocalClient
    from homarus.runtime.runtime import Runtime
    from homarus.runtime.switchboard import Switchboard
    from homarus.storage.atomic import ensure_dir
    from homarus.storage.locks import OwnerLock

    async def main() -> T:
        runtime = Runtime(Home(app.config, app.env, clock=app.clock, ids=SystemIds()))
        board = Switchboard(LocalClient(runtime), known={channel: manifests()[channel]})
        board.manager.take = _refuse  # what is written meanwhile is not acknowledged, and waits for the gateway
        try:
            await board.manager.start()
            note = Note(app.paths.own_dir / "channels" / channel / account, SCAN)
            await _connected(board, channel, account, app.out, lambda: str(note.read().get("terminal") or ""))
            return await work(board)
        finally:
            await board.drain(5.0)
            await board.aclose()
            await runtime.aclose()

    ensure_dir(app.paths.own_dir)
    lock = OwnerLock.acquire(app.paths.own_dir / "gateway.lock", purpose="gateway", now=app.clock.now())
    try:
        return asyncio.run(main())
    finally:
        lock.release()


def asked(app: App, method: str, **params: Any) -> Any:
    """Ask the running gateway; None where there is none."""
    return app.ask_gateway(method, **{key: value for key, value in params.items() if value not in (None, "")})


def pairing_store(app: App) -> PairingStore:
    return PairingStore(app.paths.state_dir / "credentials", app.clock)


def owner_added(app: App, channel: str, sender: str) -> Operation:
    """Return the change that makes somebody an owner there as well."""
    there = app.config.get("commands.ownerAllowFrom")
    names = [entry for entry in there if isinstance(entry, str | int)] if isinstance(there, list) else []
    entry = owner_entry(channel, sender)
    return Operation("set", ("commands", "ownerAllowFrom"), [*names, *([] if entry in names else [entry])])
