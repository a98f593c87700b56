"""What adapters share: their settings as a type, secrets that lie in files, TLS, and a connection that is made again."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from homarus.channels.channel import Host
from homarus.core.clock import Clock, chance
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, HomarusError
from homarus.core.text import single_line
from homarus.net.errors import HttpError
from homarus.net.trust import Trust

MAX_SECRET = 65536


class Block(msgspec.Struct, frozen=True, rename="camel"):
    """What an adapter reads of its account's block. It holds passwords, so it never shows itself."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


Settings = TypeVar("Settings", bound=Block)


def settings_of(host: Host, channel: str, kind: type[Settings]) -> Settings:
    """Return an account's block as a type; raises a fatal `ChannelError` that names the key and never its value."""
    try:
        # Values of the environment are text, also where a number is meant.
        return msgspec.convert(dict(host.settings), kind, strict=False)
    except msgspec.ValidationError as problem:
        raise ChannelError(
            f"channels.{channel} ({host.account}): {problem}", fatal=True, cure="correct the key in openclaw.json"
        ) from None


def secret(value: str, file: str, key: str) -> str:
    """Return a secret that stands in a setting or, where that is empty, in the file that `<key>File` names."""
    if value or not file:
        return value
    problem = "is no ordinary file"
    try:
        path = Path(file).expanduser()
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return os.read(fd, MAX_SECRET).decode().strip()
        finally:
            os.close(fd)
    except OSError as failure:
        problem = failure.strerror or "cannot be read"
    except UnicodeDecodeError:
        problem = "holds no text"
    raise ChannelError(f"{key}File: {file} {problem}", fatal=True, cure=f"correct {key}File, or set {key}")


def tls_context(ca_file: str = "", cert_file: str = "", key_file: str = "") -> ssl.SSLContext:
    """Return a TLS context of one's own: the system's certificates or those of a file, and a certificate to show."""
    try:
        context = Trust(ca_file, "caFile").fresh_context()
        if cert_file:
            context.load_cert_chain(Path(cert_file).expanduser(), key_file or None)
    except HttpError as problem:
        raise ChannelError(str(problem), fatal=True, cure="correct caFile") from None
    except (OSError, ssl.SSLError) as problem:
        raise ChannelError(
            f"certFile: {cert_file} cannot be used: {reason(problem)}",
            fatal=True,
            cure="name a PEM file with the certificate and its key",
        ) from None
    return context


def reason(problem: BaseException) -> str:
    """Return why a connection failed, in one line that says nothing twice."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {problem.verify_message}"
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, OSError) and problem.strerror:
        return single_line(problem.strerror)
    return single_line(str(problem)) or type(problem).__name__


def refused(what: str, cure: str = "") -> DeliveryError:
    return DeliveryError(DeliveryFailure.REFUSED, what, cure=cure)


def is_named(text: str, nick: str) -> bool:
    """Say whether a text holds a nick as a word of its own; both are folded. Signs that nicks may hold belong to the word."""
    letters = "[]\\`_^{|}-"
    at = text.find(nick)
    while at >= 0:
        around = text[at - 1 : at] + text[at + len(nick) : at + len(nick) + 1]
        if not any(letter.isalnum() or letter in letters for letter in around):
            return True
        at = text.find(nick, at + 1)
    return False


async def keep_connected(
    session: Callable[[], Awaitable[None]],
    host: Host,
    clock: Clock,
    *,
    first: float = 1.0,
    most: float = 300.0,
    steady: float = 60.0,
    spread: Callable[[], float] = chance,
) -> None:
    """Call `session` for ever; one call is one connection. Pauses double, and begin anew after one that held.

    A fatal `ChannelError` ends it; what else fails, a full disk too, is told and tried again.
    """
    pause = first
    while True:
        began = clock.monotonic()
        try:
            await session()
            host.troubled("the server closed the connection")
        except HomarusError as problem:
            if isinstance(problem, ChannelError) and problem.fatal:
                raise
            host.troubled(problem.message, cure=problem.cure)
        except (OSError, EOFError, TimeoutError) as problem:
            host.troubled(reason(problem))
        if clock.monotonic() - began >= steady:
            pause = first
        await clock.sleep(pause * (0.75 + spread() / 2))
        pause = min(most, pause * 2)
