"""Every account at work: started side by side, watched, started again after a failure. One account never harms another.

Nothing here decides what a message may do: `take` gets whatever a channel hands in, and returns when it is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from homarus.channels.channel import Change, Channel, Host, Identity, Manifest
from homarus.channels.discovery import load_entry, load_needs, manifests
from homarus.channels.settings import Account, accounts_of, fetched, fits
from homarus.config.view import Config
from homarus.core.clock import Clock, chance, epoch_ms
from homarus.core.errors import ChannelError, ConfigError, DeliveryError, DeliveryFailure, HomarusError
from homarus.core.messages import Inbound, Outbound
from homarus.core.routes import normalize_account_id
from homarus.core.text import single_line
from homarus.delivery.place import Piece, Place
from homarus.storage.atomic import ensure_dir

_log = logging.getLogger(__name__)
FIRST_WAIT, LONGEST_WAIT = 2.0, 300.0
STEADY = 60.0  # an account that was up this long starts over with short pauses
PATIENCE = 10.0  # how long an account may take to end
PROBE_SECONDS = 30.0
MAX_TEXT = 200_000
Take = Callable[[Inbound], Awaitable[None]]
Opener = Callable[[Manifest], Callable[[Host], Channel]]


class Status(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How one account does, as `channels.status` tells it. Moments are milliseconds since 1970."""

    channel: str
    account_id: str
    name: str = ""
    enabled: bool = False
    configured: bool = False
    running: bool = False
    connected: bool = False
    identity: Identity | None = None
    last_start_at: int = 0
    last_inbound_at: int = 0
    last_outbound_at: int = 0
    restarts: int = 0
    last_error: str = ""
    cure: str = ""


class _Slot:
    """One account, whatever state it is in."""

    def __init__(self, manifest: Manifest, account: Account) -> None:
        self.manifest = manifest
        self.account = account
        self.status = Status(manifest.id, account.id)
        self.task: asyncio.Task[None] | None = None
        self.channel: Channel | None = None
        self.secrets: tuple[str, ...] = ()
        self.serving = False  # has its credentials in use
        self.since = 0.0  # when it connected, or lost its connection
        self.failed_probes = 0
        self.restarted: list[float] = []
        self.told()

    def told(self) -> None:
        """Let the status say what the configuration says."""
        given, configured = self.account.settings, self.account.configured
        self.note(name=given.name, enabled=given.enabled, configured=configured, last_error="", cure="")

    def note(self, **changes: Any) -> None:
        self.status = replace(self.status, **changes)

    def troubled(self, what: str, cure: str = "") -> None:
        text = self.hide(what)
        if text != self.status.last_error:
            _log.warning("%s/%s: %s", self.manifest.id, self.account.id, text)
        self.note(connected=False, last_error=text, cure=self.hide(cure) or self._reach())

    def _reach(self) -> str:
        """Return what helps where the adapter knows no more than that it has no connection."""
        keys = [f"channels.{self.manifest.id}.{key}" for key in self.manifest.address if self.account.own.get(key)]
        look = f"look at {' and '.join(keys)}, and whether" if keys else "look whether"
        return f"it is tried again by itself; {look} this machine reaches the server (a firewall, a proxy)"

    def hide(self, text: str) -> str:
        """Return what a platform's library says, on one line and without this account's secrets."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***") if len(secret) > 3 else text
        return single_line(text, 400)


class _Host:
    """What one account sees of the program."""

    def __init__(self, manager: ChannelManager, slot: _Slot, settings: Mapping[str, Any], folder: Path) -> None:
        self.account = slot.account.id
        self.settings = settings
        self.folder = folder
        self.commands = manager.commands
        self.calls = manager.calls
        self._manager = manager
        self._slot = slot

    async def receive(self, inbound: Inbound) -> None:
        # An account speaks for itself alone.
        own = replace(inbound, channel=self._slot.manifest.id, account=self.account, text=inbound.text[:MAX_TEXT])
        self._slot.note(last_inbound_at=self._manager.now)
        await self._manager.take(own)

    async def changed(self, change: Change) -> None:
        await self._manager.changed(replace(change, channel=self._slot.manifest.id, account=self.account))

    def connected(self, me: Identity) -> None:
        if not self._slot.status.connected:
            self._slot.since = self._manager.clock.monotonic()
            _log.info("%s/%s: connected", self._slot.manifest.id, self.account)
        self._slot.note(connected=True, identity=me, last_error="", cure="")
        self._manager.came_up(self._slot.manifest.id, self.account)

    def troubled(self, what: str, *, cure: str = "") -> None:
        if self._slot.status.connected:
            self._slot.since = self._manager.clock.monotonic()
        self._slot.troubled(what, cure)


class _Noted:
    """A channel whose sends are written down in its status."""

    def __init__(self, channel: Channel, note: Callable[[], None]) -> None:
        self._channel = channel
        self._note = note

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        receipt = await self._channel.send(message, piece, key)
        self._note()
        return receipt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


class ChannelManager:
    """The accounts of one home. `start` returns at once; an account that cannot start says so in `status`."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        folder: Path,
        take: Take,
        changed: Callable[[Change], Awaitable[None]],
        clock: Clock,
        *,
        known: Mapping[str, Manifest] | None = None,
        opener: Opener = load_entry,
        commands: Mapping[str, str] | None = None,
        spread: Callable[[], float] = chance,
    ) -> None:
        self._config = config
        self._env = env
        self._folder = folder
        self.take = take
        self.changed = changed
        self.clock = clock
        self._known = manifests() if known is None else known
        self._opener = opener
        self.commands: Mapping[str, str] = commands or {}
        # Set before the start where no account may have a port of its own: then platforms call us through whoever set it.
        self.calls: dict[str, Any] | None = None
        self._spread = spread
        # Told of every account that connects: what waited for it can go out.
        self.came_up: Callable[[str, str], None] = lambda _channel, _account: None
        self._slots: dict[tuple[str, str], _Slot] = {}
        self._monitor: asyncio.Task[None] | None = None
        self._on = False

    @property
    def now(self) -> int:
        return epoch_ms(self.clock.now())

    # Life

    def know(self) -> None:
        """Read which accounts there are: what waits for one can be brought on its way before it starts."""
        self._slots = {key: _Slot(*found) for key, found in self._wanted().items()}

    async def start(self) -> None:
        """Start every account that is switched on, side by side. It waits for none of them."""
        self._on = True
        self._slots.clear()  # none of those that are known is at work
        await self.apply()
        if self._monitor is None:
            self._monitor = asyncio.create_task(self._watch_over(), name="channel health")

    async def stop(self) -> None:
        """End all accounts and wait for them; what they had taken in is durable already."""
        self._on = False
        if self._monitor is not None:
            self._monitor.cancel()
            await asyncio.gather(self._monitor, return_exceptions=True)
            self._monitor = None
        await asyncio.gather(*(self._end(slot) for slot in self._slots.values()))

    async def apply(self) -> list[str]:
        """Read the configuration again and return which accounts were started, restarted or ended; the others go on."""
        wanted = self._wanted()
        touched: list[str] = []
        for key in [key for key in self._slots if key not in wanted]:
            await self._end(self._slots.pop(key))
            touched.append("/".join(key))
        for key, (manifest, account) in wanted.items():
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = _Slot(manifest, account)
            elif replace(slot.account, default=account.default) == account:
                slot.account = account
                continue
            else:
                await self._end(slot)
                slot.account = account
            slot.told()
            touched.append("/".join(key))
            self._begin(slot)
        return touched

    def _wanted(self) -> dict[tuple[str, str], tuple[Manifest, Account]]:
        return {
            (manifest.id, account.id): (manifest, account)
            for manifest in self._known.values()
            for account in accounts_of(self._config, manifest, self._env).values()
        }

    async def restart(self, channel: str, account: str) -> None:
        """End one account and start it again. Raises ChannelError for one that is not there or is switched off."""
        slot = self._slot(channel, account)
        if not slot.account.settings.enabled:
            cure = f"set channels.{channel}.enabled (or the account's own) to true"
            raise ChannelError(f"{channel}/{account} is switched off", cure=cure)
        await self._end(slot)
        self._begin(slot)

    async def halt(self, channel: str, account: str) -> None:
        """End one account until it is started again by hand or with the program."""
        await self._end(self._slot(channel, account))

    # Questions

    def channel(self, channel: str, account: str) -> Channel:
        """Return an account that is at work. Raises DeliveryError where there is none."""
        slot = self._slots.get((channel, normalize_account_id(account)))
        if slot is None or not slot.account.settings.enabled:
            cure = f"set it up with 'homarus channels add {single_line(channel, 40)}'"
            raise DeliveryError(DeliveryFailure.REFUSED, f"{channel}/{account} is not switched on", cure=cure)
        if slot.channel is None:
            why = slot.status.last_error or "it is starting"
            raise DeliveryError(DeliveryFailure.TRANSIENT, f"{channel}/{account} is not at work: {why}")
        return slot.channel

    def connected(self, channel: str, account: str) -> Channel | None:
        """Return an account that is connected now; None for any other."""
        slot = self._slots.get((channel, normalize_account_id(account)))
        return slot.channel if slot is not None and slot.status.connected else None

    def place(self, channel: str, account: str) -> Place:
        """Return what can be shown there; of an account that nobody knows, the smallest."""
        slot = self._slots.get((channel, normalize_account_id(account)))
        return slot.account.place if slot else Place()

    def account(self, channel: str, account: str) -> Account | None:
        slot = self._slots.get((channel, normalize_account_id(account)))
        return slot.account if slot else None

    def identity(self, channel: str, account: str) -> Identity | None:
        """Return who the agent is there, as its server last said."""
        slot = self._slots.get((channel, normalize_account_id(account)))
        return slot.status.identity if slot else None

    def expects(self, path: str) -> bool:
        """Say whether a platform calls here once an account that is starting is up."""
        return any(
            slot.account.settings.enabled
            and not slot.account.missing
            and (slot.task is None or not slot.task.done())
            and any(slot.account.own.get(key) == want if want else slot.account.own.get(key)
                    for key, want in slot.manifest.called.items())
            and path == (slot.account.own.get("webhookPath") or slot.manifest.settings["webhookPath"].default)
            for slot in self._slots.values()
        )  # fmt: skip

    def status(self) -> tuple[Status, ...]:
        return tuple(slot.status for slot in self._slots.values())

    # One account

    def _slot(self, channel: str, account: str) -> _Slot:
        slot = self._slots.get((channel, normalize_account_id(account)))
        if slot is None:
            raise ChannelError(f"there is no account {channel}/{account}", cure="'homarus channels list' shows them")
        return slot

    def _begin(self, slot: _Slot) -> None:
        if not self._on or not slot.account.settings.enabled:
            return
        if slot.account.missing:
            keys = " and ".join(f"channels.{slot.manifest.id}.{key}" for key in slot.account.missing)
            slot.troubled(f"{keys} is not set", f"'homarus channels add {slot.manifest.id}' asks for it")
            return
        slot.task = asyncio.create_task(self._keep_up(slot), name=f"channel {slot.manifest.id}/{slot.account.id}")

    async def _end(self, slot: _Slot) -> None:
        task, slot.task, slot.channel = slot.task, None, None
        if task is not None and not task.done():
            task.cancel()
            _done, late = await asyncio.wait({task}, timeout=PATIENCE)
            if late:
                _log.error("%s/%s does not end", slot.manifest.id, slot.account.id)
        slot.note(running=False, connected=False)

    async def _keep_up(self, slot: _Slot) -> None:
        """Run an account until it is cancelled or cannot go on; pauses grow while it fails."""
        wait = FIRST_WAIT
        while True:
            began = self.clock.monotonic()
            slot.note(running=True, last_start_at=self.now)
            try:
                await self._serve(slot)
                slot.troubled("the connection ended")
            except ChannelError as problem:
                more = f"docs/channels/{slot.manifest.id}.md says what it may be" if problem.fatal else ""
                slot.troubled(problem.message, problem.cure or more)
                if problem.fatal:
                    break
            except HomarusError as problem:  # a secret that cannot be had, a folder that cannot be made
                slot.troubled(problem.message, problem.cure)
                if isinstance(problem, ConfigError):
                    break
            except Exception as problem:  # noqa: BLE001 - a platform's library may raise anything, and the others go on
                cure = "it is tried again by itself; 'homarus logs' has more"
                slot.troubled(f"it failed: {type(problem).__name__}: {problem}", cure)
            finally:
                slot.channel, slot.serving = None, False
                slot.note(running=False, connected=False)
            wait = FIRST_WAIT if self.clock.monotonic() - began > STEADY else wait
            await self.clock.sleep(wait * (0.75 + self._spread() / 2))
            wait = min(LONGEST_WAIT, wait * 2)
            slot.note(restarts=slot.status.restarts + 1)

    async def _serve(self, slot: _Slot) -> None:
        manifest, account = slot.manifest, slot.account
        wrong = [
            key
            for key, setting in manifest.settings.items()
            if key in account.own and not fits(account.own[key], setting)
        ]
        if wrong:
            raise ConfigError(f"channels.{manifest.id}.{wrong[0]} has the wrong type", cure="'homarus config validate'")
        settings = await asyncio.to_thread(fetched, account, self._config, manifest)
        slot.secrets = tuple(
            str(settings[key]) for key, setting in manifest.settings.items() if setting.secret and settings.get(key)
        )
        self._refuse_twin(slot)
        folder = self._folder / manifest.id / account.id
        await asyncio.to_thread(ensure_dir, folder)
        entry = await asyncio.to_thread(self._opener, manifest)
        # A platform's library may take seconds to load: meanwhile nobody else waits.
        await asyncio.to_thread(load_needs, manifest)
        channel = entry(_Host(self, slot, settings, folder))
        slot.since, slot.failed_probes = self.clock.monotonic(), 0
        slot.channel = cast("Channel", _Noted(channel, lambda: slot.note(last_outbound_at=self.now)))
        await channel.run()

    def _refuse_twin(self, slot: _Slot) -> None:
        """Two accounts with one token take each other's messages away."""
        for other in self._slots.values():
            same = other.manifest is slot.manifest and other.secrets == slot.secrets and slot.secrets
            if other is not slot and same and other.serving:
                raise ChannelError(
                    f"it has the same credentials as the account {other.account.id}",
                    fatal=True,
                    cure="remove one of the two accounts",
                )
        slot.serving = True

    # Health

    async def _watch_over(self) -> None:
        """Now and then look for accounts that are up in name only, and start them again."""
        while True:
            every = _minutes(self._config.get("gateway.channelHealthCheckMinutes"), 5.0)
            await self.clock.sleep(every * 60 if every else 300.0)
            if every:
                await asyncio.gather(*(self._look_after(slot) for slot in list(self._slots.values())))

    async def _look_after(self, slot: _Slot) -> None:
        stale = _minutes(self._config.get("gateway.channelStaleEventThresholdMinutes"), 30.0) * 60
        most = _minutes(self._config.get("gateway.channelMaxRestartsPerHour"), 10.0)
        now = self.clock.monotonic()
        if slot.channel is None or slot.task is None or not await self._is_stale(slot, now, stale):
            return
        slot.restarted = [moment for moment in slot.restarted if now - moment < 3600]
        if len(slot.restarted) >= most:
            return
        slot.restarted.append(now)
        _log.warning("%s/%s does not answer and is started again", slot.manifest.id, slot.account.id)
        await self._end(slot)
        slot.note(restarts=slot.status.restarts + 1, last_error="it did not answer and was started again")
        self._begin(slot)

    async def _is_stale(self, slot: _Slot, now: float, stale: float) -> bool:
        quiet = (self.now - max(slot.status.last_inbound_at, slot.status.last_start_at)) / 1000
        if now - slot.since < stale or quiet < stale or slot.channel is None:
            return False
        if not slot.status.connected:
            return True
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await slot.channel.probe()
            slot.failed_probes = 0
        except (HomarusError, TimeoutError, OSError):
            slot.failed_probes += 1
        return slot.failed_probes >= 2


def _minutes(value: Any, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else otherwise
