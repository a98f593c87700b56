"""Signing in where a server asks for it (OAuth): by hand with `homarus mcp login`, and never while an agent is at work.

Tokens lie among the credentials, which no tool can read. They are refreshed by themselves; one that cannot be refreshed
any more is a failure that names the command.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from homarus.core.errors import ConfigError, HomarusError
from homarus.plugins.mcp.settings import ServerSettings
from homarus.storage.atomic import ensure_dir, write_atomic

if TYPE_CHECKING:
    from mcp.client.auth.oauth2 import OAuthClientProvider, OAuthContext
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

WAIT_SECONDS = 300.0
_PAGE = b"<!doctype html><meta charset=utf-8><title>homarus</title><p>Done. You can close this page."


class TokenFile:
    """What a server gave us, in a file of its own that only we can read; the SDK's storage contract."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._context: OAuthContext | None = None

    def join(self, context: OAuthContext) -> None:
        """Tell the SDK what it forgets with each process: until when a token holds, and where another one is given."""
        from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

        kept, self._context = self._read(), context
        context.token_expiry_time = kept.get("until")
        if kept.get("server"):
            context.oauth_metadata = OAuthMetadata.model_validate(kept["server"])
        if kept.get("resource"):
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(kept["resource"])

    def _read(self) -> dict[str, Any]:
        try:
            found = msgspec.json.decode(self.path.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, **parts: Any) -> None:
        ensure_dir(self.path.parent)
        write_atomic(self.path, msgspec.json.encode({**self._read(), **parts}))

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        kept = self._read()
        if not kept.get("tokens"):
            return None
        tokens = OAuthToken.model_validate(kept["tokens"])
        if kept.get("until"):  # what is left of its time, not what it had when it was given
            tokens.expires_in = max(0, int(kept["until"] - time.time()))
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        until = time.time() + tokens.expires_in if tokens.expires_in else None
        found = {"tokens": tokens}
        if self._context is not None:
            found |= {"server": self._context.oauth_metadata, "resource": self._context.protected_resource_metadata}
        kept = {key: each.model_dump(mode="json", exclude_none=True) for key, each in found.items() if each is not None}
        self._write(until=until, **kept)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        kept = self._read().get("client")
        return OAuthClientInformationFull.model_validate(kept) if kept else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write(client=client_info.model_dump(mode="json", exclude_none=True))


def token_file(name: str, settings: ServerSettings, state_dir: Path) -> TokenFile:
    """Return where a server's tokens lie: by name and address, so that another server never gets them."""
    mark = hashlib.sha256(f"{name} {settings.url}".encode()).hexdigest()[:16]
    return TokenFile(state_dir / "credentials" / "mcp" / f"{mark}.json")


def signed_in(name: str, settings: ServerSettings, state_dir: Path) -> OAuthClientProvider:
    """Return what signs the requests to a server with the tokens that are there; it never asks anybody."""

    async def refuse(_url: str) -> None:
        raise ConfigError(f"the MCP server '{name}' asks you to sign in", cure=f"homarus mcp login {name}")

    async def nobody() -> AuthorizationCodeResult:
        raise ConfigError(f"the MCP server '{name}' asks you to sign in", cure=f"homarus mcp login {name}")

    return _provider(
        name, settings, state_dir, settings.oauth.redirect_url or "http://127.0.0.1/callback", refuse, nobody
    )


async def login(
    name: str, settings: ServerSettings, state_dir: Path, show: Callable[[str], object]
) -> OAuthClientProvider:
    """Return what signs in by a browser: `show` is given the address to open, and the answer comes to a port of ours."""
    answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    wanted = urlsplit(settings.oauth.redirect_url or "http://127.0.0.1:0/callback")

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await asyncio.wait_for(reader.readline(), 10)).decode("latin-1").split()
            target = line[1] if len(line) > 1 else ""
            if urlsplit(target).path == (wanted.path or "/") and not answered.done():
                answered.set_result(target)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n" + _PAGE)
            await writer.drain()
        except (TimeoutError, OSError, ValueError):
            pass
        finally:
            writer.close()

    if wanted.hostname not in {"127.0.0.1", "localhost", "::1"}:
        raise ConfigError(f"mcp.servers.{name}.oauth.redirectUrl must lead to this machine", cure="remove it")
    server = await asyncio.start_server(hear, wanted.hostname, wanted.port or 0)
    port = server.sockets[0].getsockname()[1]

    async def redirect(url: str) -> None:
        show(url)

    async def callback() -> AuthorizationCodeResult:
        from mcp.shared.auth import AuthorizationCodeResult

        try:
            target = await asyncio.wait_for(answered, WAIT_SECONDS)
        except TimeoutError:
            raise HomarusError("nobody signed in", cure=f"try again: homarus mcp login {name}") from None
        finally:
            server.close()
        given = {key: values[0] for key, values in parse_qs(urlsplit(target).query).items()}
        if "code" not in given:
            why = given.get("error_description") or given.get("error") or "no code came back"
            raise HomarusError(f"the server refused: {why}")
        return AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))

    address = wanted._replace(netloc=f"{wanted.hostname}:{port}").geturl()
    token_file(name, settings, state_dir).path.unlink(missing_ok=True)
    return _provider(name, settings, state_dir, address, redirect, callback)


def _provider(
    name: str,
    settings: ServerSettings,
    state_dir: Path,
    address: str,
    redirect: Callable[[str], Awaitable[None]],
    callback: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
    from mcp.client.auth.oauth2 import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    metadata = OAuthClientMetadata.model_validate(
        {"client_name": "homarus", "redirect_uris": [address], "scope": settings.oauth.scope or None}
    )
    storage = token_file(name, settings, state_dir)
    provider = OAuthClientProvider(
        settings.url,
        metadata,
        storage,
        redirect,
        callback,
        client_metadata_url=settings.oauth.client_metadata_url or None,
    )
    storage.join(provider.context)
    return provider
