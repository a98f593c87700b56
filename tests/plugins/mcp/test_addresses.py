"""Servers at an address: the official server over both transports, and one that wants people to sign in."""

import asyncio
import json
import logging
import secrets
import socket
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House
from tests.scenarios.script import Line

from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock
from homarus.core.errors import HomarusError
from homarus.core.messages import ToolResult
from homarus.plugins.mcp.login import login, token_file
from homarus.plugins.mcp.servers import McpServers, server_named

pytest.importorskip("mcp", reason="needs the package mcp")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def place() -> tuple[socket.socket, str]:
    """Return a socket that listens already, and its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    return listening, f"http://127.0.0.1:{listening.getsockname()[1]}"


@asynccontextmanager
async def served(app: Any, listening: socket.socket) -> AsyncIterator[None]:
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        await task


def official(**more: Any) -> Any:
    from mcp.server.mcpserver import Context, MCPServer

    server = MCPServer("official", **more)

    @server.tool()
    async def header(ctx: Context) -> str:
        """Which key came with the request."""
        request = ctx.request_context.request
        return request.headers.get("x-key", "none") if request else "no request"

    @server.resource("note://one")
    def note() -> str:
        """A note."""
        return "the boiler was serviced"

    return server


def house(folder: Path, *lines: Line | str, **server: Any) -> House:
    config = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}, "mcp": {"servers": {"far": server}}}
    return House(folder, *lines, config=config)


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_the_official_server_over_both_transports(tmp_path: Path, transport: str) -> None:
    server = official()
    app, path = (server.sse_app(), "/sse") if transport == "sse" else (server.streamable_http_app(), "/mcp")
    calls = Line(calls=(("far__header", {}), ("far__resources_read", {"uri": "note://one"})))
    listening, base = place()
    async with served(app, listening):
        home = house(tmp_path, calls, "done", url=base + path, transport=transport, headers={"x-key": "k"})
        async with home.agent(clock=SystemClock()) as agent:
            assert (await agent.ask("hello")).text == "done"
    first, second = (message for message in home.model.requests[-1].messages if isinstance(message, ToolResult))
    assert "\nk\n" in first.text, first.text
    assert "the boiler was serviced" in second.text
    assert "Source: MCP server far" in second.text


class Provider:
    """The least that a server which signs people in must do: everybody who asks is let in."""

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.codes: dict[str, Any] = {}
        self.tokens: dict[str, Any] = {}

    async def get_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    async def register_client(self, client_info: Any) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: Any, params: Any) -> str:
        from mcp.server.auth.provider import AuthorizationCode, construct_redirect_uri

        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code, client_id=client.client_id, scopes=params.scopes or [], expires_at=time.time() + 60,
            code_challenge=params.code_challenge, redirect_uri=params.redirect_uri, resource=params.resource,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )  # fmt: skip
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, _client: Any, code: str) -> Any:
        return self.codes.get(code)

    async def exchange_authorization_code(self, client: Any, code: Any) -> Any:
        from mcp.server.auth.provider import AccessToken
        from mcp.shared.auth import OAuthToken

        token = secrets.token_hex(16)
        self.tokens[token] = AccessToken(token=token, client_id=client.client_id, scopes=code.scopes)
        return OAuthToken(access_token=token, token_type="Bearer", expires_in=3600, refresh_token="again")

    async def load_access_token(self, token: str) -> Any:
        return self.tokens.get(token)

    async def load_refresh_token(self, client: Any, token: str) -> Any:
        from mcp.server.auth.provider import RefreshToken

        return RefreshToken(token=token, client_id=client.client_id, scopes=[]) if token == "again" else None

    async def exchange_refresh_token(self, client: Any, token: Any, _scopes: Any) -> Any:
        return await self.exchange_authorization_code(client, token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)


async def test_a_server_that_wants_a_sign_in_gets_one_by_hand_and_never_in_a_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions

    (listening, base), provider = place(), Provider()
    rules = {"issuer_url": base, "resource_server_url": f"{base}/mcp", "validate_token_resource": False}
    auth = AuthSettings(**rules, client_registration_options=ClientRegistrationOptions(enabled=True))
    app = official(auth=auth, auth_server_provider=provider).streamable_http_app()
    home = house(tmp_path, "without", Line(calls=(("far__header", {}),)), "with", url=f"{base}/mcp")
    async with served(app, listening):
        async with home.agent(clock=SystemClock()) as agent:
            assert (await agent.ask("hello")).text == "without"
        assert "homarus mcp login far" in caplog.text
        config = load_config(resolve_paths(home.env), home.env)
        servers = McpServers(config, home.env, clock=SystemClock(), workspace=lambda: tmp_path)
        settings = server_named(config, "far")

        def browser(url: str) -> None:
            asyncio.get_running_loop().run_in_executor(None, lambda: urllib.request.urlopen(url, timeout=10).read())

        servers.signing_in["far"] = await login("far", settings, config.paths.state_dir, browser)
        try:
            assert (await servers.ask("far")).offers
        finally:
            await servers.aclose()
        kept = token_file("far", settings, config.paths.state_dir).path
        assert kept.stat().st_mode & 0o077 == 0
        async with home.agent(clock=SystemClock()) as agent:
            await agent.ask("hello")
        assert "none" in home.model.requests[-1].messages[-1].text
        provider.tokens.clear()  # its time is over, and another process goes on with what was given for that
        kept.write_text(json.dumps({**json.loads(kept.read_text()), "until": 1.0}))
        later = McpServers(config, home.env, clock=SystemClock(), workspace=lambda: tmp_path)
        try:
            assert (await later.ask("far")).offers
        finally:
            await later.aclose()
        assert json.loads(kept.read_text())["until"] > time.time()
        provider.tokens.clear()  # taken back: the next turn says what to do, and asks nobody
        kept.unlink()
        fresh = McpServers(config, home.env, clock=SystemClock(), workspace=lambda: tmp_path)
        try:
            with pytest.raises(HomarusError, match="homarus mcp login far"):
                await fresh.ask("far")
        finally:
            await fresh.aclose()


logging.getLogger("mcp").setLevel(logging.CRITICAL)
