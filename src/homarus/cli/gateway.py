"""`homarus gateway`: put this home on the network, for the clients of OpenClaw and our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import pass_app
from homarus.gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway

SHORT = 24


@click.group("gateway", cls=Group)
def command() -> None:
    """Serve this home on a port and on a socket of its own.

    Nothing listens without a secret: the first start makes a token and keeps it in openclaw.json.
    """


@command.command("run")
@click.option("--port", type=click.IntRange(0, 65535), help="Where to listen; gateway.port, or 18789.")
@click.option("--bind", type=click.Choice(["loopback", "lan", "tailnet", "auto", "custom"]), help="On which addresses.")
@click.option("--token", metavar="SECRET", help="Take this secret instead of the one in openclaw.json.")
@pass_app
def run(app: App, port: int | None, bind: str | None, token: str | None) -> int:
    """Serve this home here, until Ctrl-C.

    Clients of OpenClaw connect with the token: openclaw tui, its page in a browser, openclaw agent.
    """
    import asyncio

    from homarus.agent.home import Home
    from homarus.core.clock import SystemIds
    from homarus.gateway.live import Given
    from homarus.gateway.server import serve
    from homarus.runtime.runtime import Runtime

    if not token:
        _make_token(app)
    _warn(app, token)

    def ready(gateway: Gateway) -> None:
        settings = gateway.live.settings
        app.out.line(f"serving {app.paths.state_dir} on port {gateway.port} ({settings.bind})")
        app.out.out.flush()

    async def main() -> None:
        runtime = Runtime(Home(app.config, app.env, clock=app.clock, ids=SystemIds()))
        await serve(runtime, Given(port=port, bind=bind, token=token), ready=ready)

    asyncio.run(main())
    return 0


def _warn(app: App, token: str | None) -> None:
    """Say what of the settings is not taken at its word, or is not good enough."""
    auth = app.config.block("gateway", GatewaySettings).auth
    if auth.mode == "none":
        app.out.warn("gateway.auth.mode 'none' is read as 'token': nothing listens here without a secret")
    secret = token or (auth.password if auth.mode == "password" else auth.token)
    if isinstance(secret, str) and "$" not in secret and len(secret) < SHORT:
        app.out.warn(f"the gateway's secret has fewer than {SHORT} characters; a longer one is harder to guess")


def _make_token(app: App) -> None:
    """Write a token into the configuration where there is no secret; nobody has to think of one."""
    import secrets

    from homarus.config.write import Operation, change

    auth = app.config.block("gateway", GatewaySettings).auth
    if auth.mode == "trusted-proxy" or (auth.password if auth.mode == "password" else auth.token) not in (None, ""):
        return
    name = "password" if auth.mode == "password" else "token"
    change(app.config, app.env, [Operation("set", ("gateway", "auth", name), secrets.token_urlsafe(32))])
    del app.config
    app.out.line(f"made a {name} and wrote it to {app.paths.config_path} (gateway.auth.{name})")
