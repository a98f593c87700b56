"""One login at a homeserver: who we are there, what was read already, and the sync that goes on from there."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
import nio

from homarus.channels.channel import Host
from homarus.channels.support import Block, Note, proxy_for, reason, tls_context
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, installing
from homarus.core.text import single_line
from homarus.storage.atomic import ensure_dir, write_atomic

POLL_MS, REQUEST_SECONDS = 30_000, 60.0
PEOPLE = 1000
# These say no until somebody acts; everything else may be different next time.
FINAL = frozenset(("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_FORBIDDEN", "M_INVALID_USERNAME"))
FILTER = {
    "presence": {"types": []},
    "room": {"timeline": {"limit": 50}, "state": {"lazy_load_members": True}, "ephemeral": {"types": []}},
}


class MatrixSettings(Block, frozen=True):
    """`channels.matrix`, as far as this adapter reads it."""

    homeserver: str
    access_token: str = ""
    user_id: str = ""
    password: str = ""
    device_id: str = ""
    device_name: str = "homarus"
    encryption: bool = False
    auto_join: str = "off"
    auto_join_allowlist: tuple[str, ...] = ()
    ca_file: str = ""
    proxy: str = ""


class Login(Block, frozen=True):
    """`login.json`: what a login with a password brought."""

    homeserver: str
    user_id: str
    device_id: str
    access_token: str


class Seen(msgspec.Struct):
    """`state.json`: up to where the account has read, and in which room it talks to whom."""

    since: str = ""
    rooms_of: dict[str, str] = {}
    direct: list[str] = []

    def is_direct(self, room: str) -> None:
        if room not in self.direct:
            self.direct = [*self.direct[-PEOPLE + 1 :], room]

    def talks_with(self, person: str, room: str) -> None:
        self.rooms_of.pop(person, None)
        self.rooms_of[person] = room
        while len(self.rooms_of) > PEOPLE:
            del self.rooms_of[next(iter(self.rooms_of))]


async def opened(settings: MatrixSettings, host: Host) -> Any:
    """Return a client that is logged in. Raises `ChannelError`, fatal where the server will say no again."""
    if urlsplit(settings.homeserver).scheme not in {"http", "https"}:
        raise ChannelError(
            "channels.matrix.homeserver is no address", fatal=True, cure="write https://matrix.example.org"
        )
    client = _client(settings, host)
    try:
        if settings.access_token:
            client.access_token = settings.access_token
            me = _checked(await client.whoami(), "correct channels.matrix.accessToken")
            client.access_token = ""
            device = me.device_id or settings.device_id or "homarus"
            client.restore_login(me.user_id, device, settings.access_token)
        else:
            await _log_in(client, settings, host)
    except (aiohttp.ClientError, OSError, TimeoutError) as problem:
        await client.close()
        raise ChannelError(
            f"cannot reach {settings.homeserver}: {reason(problem)}", cure="check homeserver"
        ) from problem
    except BaseException:
        await client.close()
        raise
    return client


def _client(settings: MatrixSettings, host: Host) -> Any:
    from nio.crypto import ENCRYPTION_ENABLED

    if settings.encryption and not ENCRYPTION_ENABLED:
        raise ChannelError("encryption needs a library", fatal=True, cure=installing("homarus[matrix-e2e]"))
    folder = host.folder / "keys"
    if settings.encryption:
        ensure_dir(folder)
    # Sending again is decided outside: the library itself gives up at once.
    config = nio.AsyncClientConfig(
        max_limit_exceeded=0,
        max_timeouts=0,
        request_timeout=REQUEST_SECONDS,
        encryption_enabled=settings.encryption,
        pickle_key=_pickle_key(folder) if settings.encryption else "",
    )
    return nio.AsyncClient(
        settings.homeserver.rstrip("/"),
        settings.user_id,
        device_id=settings.device_id or None,
        store_path=str(folder) if settings.encryption else "",
        config=config,
        ssl=tls_context(settings.ca_file) if settings.homeserver.startswith("https:") else None,
        proxy=proxy_for(settings.homeserver, host.settings),
    )


def _pickle_key(folder: Path) -> str:
    """Return what the keys of conversations are locked with on the disk."""
    file = folder / "pickle.key"
    if not file.exists():
        write_atomic(file, os.urandom(32).hex().encode())
    return file.read_text().strip()


async def _log_in(client: Any, settings: MatrixSettings, host: Host) -> None:
    if not settings.user_id or not settings.password:
        raise ChannelError(
            "channels.matrix has neither accessToken nor userId and password", fatal=True, cure="set one of them"
        )
    note = Note(host.folder, "login.json")
    kept = note.load(Login)
    if kept and kept.homeserver == settings.homeserver and kept.user_id == settings.user_id:
        client.restore_login(kept.user_id, kept.device_id, kept.access_token)
        told = await client.whoami()
        if not isinstance(told, nio.ErrorResponse):
            return
        if told.status_code not in {"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"}:
            raise trouble(told)
        # Somebody ended this login; the device stays, so that its keys and its ids of messages do.
        client.access_token, client.device_id = "", kept.device_id
    _checked(await client.login(settings.password, device_name=settings.device_name), "correct userId and password")
    login = Login(settings.homeserver, client.user_id, client.device_id, client.access_token)
    await asyncio.to_thread(note.write, login)


def _checked(reply: Any, cure: str) -> Any:
    if isinstance(reply, nio.ErrorResponse):
        raise trouble(reply, cure)
    return reply


def status_of(reply: Any) -> int:
    return int(getattr(reply.transport_response, "status", 0) or 0)


def trouble(reply: Any, cure: str = "log in again: look at accessToken, or userId and password") -> ChannelError:
    """Return why an account is not served, from an answer of the homeserver."""
    code = reply.status_code if isinstance(reply.status_code, str) else ""
    final = code in FINAL and status_of(reply) in {400, 401, 403}
    what = f"the homeserver says: {single_line(str(reply.message), 200)} ({code or status_of(reply) or 'no reason'})"
    return ChannelError(what, fatal=final, cure=cure if final else "")


def failure(reply: Any) -> DeliveryError:
    """Return why a message was not taken. What may have arrived is sent again, since a transaction shows once."""
    code, status = reply.status_code, status_of(reply)
    what = f"Matrix: {single_line(str(reply.message), 200)} ({code or status})"
    if code == "M_LIMIT_EXCEEDED" or status == 429:
        wait = reply.retry_after_ms
        headers = getattr(reply.transport_response, "headers", {})
        given = float(wait) / 1000 if wait else float(headers.get("Retry-After", 0) or 0)
        return DeliveryError(DeliveryFailure.RATE_LIMIT, what, retry_after=given or None)
    if status >= 500 or status in {0, 408, 425}:
        return DeliveryError(DeliveryFailure.TRANSIENT, what)
    return DeliveryError(DeliveryFailure.REFUSED, what)
