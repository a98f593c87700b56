"""Requests to the Bot API through aiogram, and what each way of failing means.

A request that Telegram surely did not take (no connection, "too many requests", "not now") may be sent again. One that went
out and was never answered is in doubt: a message is then never repeated, while an edit or a reaction, which can be, is.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from homarus.channels.channel import Host
from homarus.channels.support import proxy_for
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.text import single_line

ROOT = "https://api.telegram.org"
ANSWER_SECONDS = 60
CONNECT_SECONDS = 15
_MARKUP = re.compile(r"can't parse|parse entities|unsupported start tag|can't find end", re.IGNORECASE)


class Conflict(DeliveryError):
    """Somebody else asks for this bot's updates. It may stop, so it is no reason to give up."""

    def __init__(self, what: str) -> None:
        cure = "stop the other program that uses this botToken, or give this one a bot of its own"
        super().__init__(DeliveryFailure.TRANSIENT, what, cure=cure)


class Wire:
    """One bot's connection. `moved` is told of a group that has another id now."""

    def __init__(self, host: Host, poll_seconds: int, moved: Callable[[str, str], None]) -> None:
        self._host = host
        self._settings = host.settings
        self._token = ""
        self._poll_seconds = poll_seconds
        self._moved = moved
        self._bot: Any = None

    @property
    def is_open(self) -> bool:
        return self._bot is not None

    async def close(self) -> None:
        bot, self._bot = self._bot, None
        if bot is not None:
            await bot.session.close()

    async def ask(self, call: Callable[[Any], Awaitable[Any]], *, once: bool = False) -> Any:
        """Call the Bot API. `once`: it must not happen twice, so an unanswered request stays in doubt."""
        with self._explained(once=once):
            return await call(self._opened())

    async def file(self, path: str) -> AsyncIterator[bytes]:
        session = self._opened().session
        with self._explained(once=False):
            url = session.api.file_url(self._token, path)
            async for chunk in session.stream_content(url, timeout=self._patience()):
                yield chunk

    def _opened(self) -> Any:
        if self._bot is None:
            from aiogram import Bot
            from aiogram.client.session.aiohttp import AiohttpSession
            from aiogram.client.telegram import TelegramAPIServer
            from aiogram.utils.token import TokenValidationError

            self._token = _token(self._host)
            root = str(self._settings.get("apiRoot") or ROOT).rstrip("/").removesuffix(f"/bot{self._token}")
            proxy = proxy_for(root, self._settings)
            session = AiohttpSession(api=TelegramAPIServer.from_base(root), proxy=proxy, timeout=self._patience())
            try:
                self._bot = Bot(self._token, session=session)
            except TokenValidationError:
                cure = "it looks like 123456:ABC…; @BotFather tells it"
                raise ChannelError("telegram: botToken is not a token", fatal=True, cure=cure) from None
        return self._bot

    def _patience(self) -> Any:
        """Say how long a request may take; a connection that never came about has a time of its own."""
        from aiohttp import ClientTimeout

        return ClientTimeout(total=ANSWER_SECONDS + self._poll_seconds, sock_connect=CONNECT_SECONDS)

    @contextlib.contextmanager
    def _explained(self, *, once: bool) -> Iterator[None]:
        from aiogram.exceptions import AiogramError
        from aiohttp import ClientError

        try:
            yield
        except (AiogramError, ClientError, TimeoutError) as problem:
            raise self._explain(problem, once=once) from None  # its text and its cause may hold the token

    def _explain(self, problem: Exception, *, once: bool) -> DeliveryError:
        from aiogram import exceptions as known
        from aiohttp import ClientResponseError

        what = getattr(problem, "message", "") or type(problem).__name__
        what = single_line(f"telegram: {what}".replace(self._token or "\0", "…"))
        match problem:
            case known.TelegramMigrateToChat():
                self._moved(str(getattr(problem.method, "chat_id", "")), str(problem.migrate_to_chat_id))
                return DeliveryError(DeliveryFailure.TRANSIENT, "telegram: the group has another id now")
            case known.TelegramRetryAfter():
                return DeliveryError(DeliveryFailure.RATE_LIMIT, what, retry_after=float(problem.retry_after))
            case known.TelegramConflictError():
                return Conflict(what)
            case known.TelegramServerError():
                return DeliveryError(DeliveryFailure.TRANSIENT, what)
            case known.TelegramEntityTooLarge():
                return _refused(what, "the file is larger than Telegram takes from a bot")
            case known.TelegramNetworkError() | TimeoutError():
                return _unanswered(what, problem, once=once)
            case known.ClientDecodeError():  # a page of a proxy in Telegram's place
                doubt = DeliveryFailure.UNKNOWN if once else DeliveryFailure.TRANSIENT
                return DeliveryError(
                    doubt, "telegram: the answer is none of Telegram's", cure="check apiRoot and proxy"
                )
            case ClientResponseError():  # of a file's address, which holds the token
                return _refused(f"telegram: the file cannot be had (HTTP {problem.status})", "")
            case known.TelegramUnauthorizedError() | known.TelegramNotFound():
                return _refused(what, "Telegram does not know this botToken: @BotFather tells it")
            case known.TelegramForbiddenError():
                return _refused(what, "the bot was blocked or removed there")
            case known.TelegramBadRequest() if _MARKUP.search(what):
                return DeliveryError(DeliveryFailure.MARKUP, what)
            case known.TelegramAPIError():
                return _refused(what, _cure(what))
        return _unanswered(what, problem, once=once)


def _refused(what: str, cure: str) -> DeliveryError:
    return DeliveryError(DeliveryFailure.REFUSED, what, cure=cure)


def _unanswered(what: str, problem: Exception, *, once: bool) -> DeliveryError:
    """Tell a connection that never came about from a request that went out and was not answered."""
    from aiohttp import ClientConnectorError, ConnectionTimeoutError

    cause = problem.__cause__ or problem
    if not once or isinstance(cause, ClientConnectorError | ConnectionTimeoutError):
        return DeliveryError(DeliveryFailure.TRANSIENT, what)
    return DeliveryError(DeliveryFailure.UNKNOWN, f"{what} (it went out and was not answered)")


def _cure(what: str) -> str:
    if "chat not found" in what:
        return "the person must write to the bot first, and a group must have it as a member"
    return "a bot can fetch files of at most 20 MB, unless apiRoot is a server of your own" if "too big" in what else ""


def _token(host: Host) -> str:
    named = str(host.settings.get("tokenFile") or "")
    if not named:
        if token := str(host.settings.get("botToken") or "").strip():
            return token
        cure = "set channels.telegram.botToken, or TELEGRAM_BOT_TOKEN for the default account"
        raise ChannelError(f"telegram: account '{host.account}' has no botToken", fatal=True, cure=cure)
    try:
        file = os.open(os.path.expanduser(named), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # noqa: PTH111
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError("not a regular file")
            return os.read(file, 4096).decode().strip()
        finally:
            os.close(file)
    except (OSError, UnicodeDecodeError) as problem:
        cure = "it must be a regular file with the token in it, no link"
        raise ChannelError(f"telegram: tokenFile {named} cannot be read: {problem}", fatal=True, cure=cure) from None
