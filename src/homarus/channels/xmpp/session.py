"""One connection to an XMPP server, from the first attempt to the last task of its library."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import slixmpp
from slixmpp.exceptions import XMPPError

from homarus.channels.support import Block, reason, secret, tls_context
from homarus.core.errors import ChannelError
from homarus.core.text import single_line

CONNECT_SECONDS, ANSWER_SECONDS, PING_SECONDS = 60.0, 60.0, 120
_PLUGINS = ("xep_0030", "xep_0045", "xep_0199", "xep_0280", "xep_0297", "xep_0313", "xep_0363")


class XmppSettings(Block, frozen=True):
    """`channels.xmpp`, as far as this adapter reads it."""

    jid: str
    password: str = ""
    password_file: str = ""
    host: str = ""
    port: int = 5222
    tls: str = "auto"
    nick: str = ""
    rooms: tuple[str, ...] = ()
    resource: str = ""
    ca_file: str = ""
    file_hosts: tuple[str, ...] = ()
    media_max_mb: float = 20.0


class Session:
    """A client of the library with the one thing it does not say by itself: that it is over, and why."""

    def __init__(self, settings: XmppSettings, me: Any) -> None:
        self._settings = settings
        self._me = me
        self._failed: Any = "no connection"
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        resource = me.resource or settings.resource or f"homarus-{os.urandom(4).hex()}"
        password = secret(settings.password, settings.password_file, "password")
        context = tls_context(settings.ca_file)
        client = self.client = slixmpp.ClientXMPP(f"{me.bare}/{resource}", password, ssl_context=context)
        client.enable_direct_tls = settings.tls in {"auto", "direct"}
        client.enable_starttls = settings.tls in {"auto", "starttls"}
        client.enable_plaintext = settings.tls == "none"
        # Who may see us is nobody's decision but the owner's, who has a client of their own for that.
        client.auto_authorize, client.auto_subscribe = None, False
        for name in _PLUGINS:
            client.register_plugin(name)
        client.plugin["xep_0199"].enable_keepalive(PING_SECONDS, int(ANSWER_SECONDS))
        client.add_event_handler("disconnected", self._over)
        client.add_event_handler("connection_failed", self._note)
        # The library would go on trying by itself; when to try again is decided outside.
        client.add_event_handler("reconnect_delay", lambda _: self._over(self._failed))

    def _note(self, why: Any) -> None:
        self._failed = why

    def _over(self, why: Any) -> None:
        _finish(self.ended, reason(why) if isinstance(why, BaseException) else str(why or "closed"))

    async def open(self) -> None:
        """Connect and log in. Raises `ChannelError`, fatal where the server will say no again."""
        ours, client = self._settings, self.client
        started: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        client.add_event_handler("session_start", lambda _: _finish(started, True))
        for refusal in ("failed_all_auth", "no_auth"):
            client.add_event_handler(refusal, lambda _: _finish(started, False))
        client.connect(ours.host or None, ours.port if ours.host else None)
        both: set[asyncio.Future[Any]] = {started, self.ended}
        done, _ = await asyncio.wait(both, timeout=CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        where = ours.host or self._me.domain
        if started in done and not started.result():
            raise ChannelError(
                f"{where} refuses the login of {self._me.bare}", fatal=True, cure="correct jid and password"
            )
        if started not in done:
            what = self.ended.result() if self.ended in done else "no answer in time"
            raise ChannelError(f"cannot reach {where}: {single_line(what)}", cure="check jid, host, port and tls")

    async def close(self) -> None:
        client = self.client
        client.cancel_connection_attempt()
        client.plugin["xep_0199"].disable_keepalive()
        if client.transport:
            try:
                async with asyncio.timeout(3):
                    await client.disconnect(wait=1.0, ignore_send_queue=True)
            except (TimeoutError, XMPPError):
                pass
        client.abort()
        for name in list(client.scheduled_events):
            client.cancel_schedule(name)
        if client._run_out_filters is not None:  # noqa: SLF001 - the library never ends it by itself
            client._run_out_filters.cancel()  # noqa: SLF001


def _finish(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
