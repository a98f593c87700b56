"""`homarus gateway|health|logs`: put this home on the network, and look after what serves it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import pass_app, with_json
from homarus.core.errors import ConfigError, HomarusError, Locked
from homarus.gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway

SHORT = 24
SERVED_ALREADY = 78  # what tells a supervisor that starting again is of no use
STOP_SECONDS, POLL_SECONDS = 330.0, 0.2
_PORT_BEFORE = "HOMARUS_PORT_BEFORE"  # from a gateway to itself when it starts anew


@click.group("gateway", cls=Group)
def command() -> None:
    """Serve this home on a port and on a socket of its own.

    Nothing listens without a secret: the first start makes a token and keeps it in openclaw.json.
    """


@command.command("run")
@click.option("--port", type=click.IntRange(0, 65535), help="Where to listen; gateway.port, or 18789. 0 is any.")
@click.option("--bind", type=click.Choice(["loopback", "lan", "tailnet", "auto", "custom"]), help="On which addresses.")
@click.option("--token", metavar="SECRET", help="Take this secret instead of the one in openclaw.json.")
@pass_app
def run(app: App, port: int | None, bind: str | None, token: str | None) -> int:
    """Serve this home here, until Ctrl-C.

    Clients of OpenClaw connect with the token: openclaw tui, its page in a browser, openclaw agent. A changed
    openclaw.json is taken over by itself. The first Ctrl-C waits for running turns, a second one ends them.
    """
    from homarus.agent.home import Home
    from homarus.core.clock import SystemIds
    from homarus.gateway.live import Given
    from homarus.gateway.server import serve
    from homarus.runtime.runtime import Runtime

    if app.config.get("gateway.mode") == "remote":
        raise ConfigError(
            "gateway.mode is 'remote': this home talks to another machine's gateway", cure="set it to 'local'"
        )
    if not token and (made := _make_token(app)):
        app.out.line(made)
    _warn(app, token)
    before = os.environ.pop(_PORT_BEFORE, "")

    def ready(gateway: Gateway) -> None:
        nonlocal before
        settings, before = gateway.live.settings, str(gateway.port)
        app.out.line(f"serving {app.paths.state_dir} on port {gateway.port} ({settings.bind})")
        if settings.control_ui.enabled and not settings.control_ui.root:
            app.out.line(f"{app.program} dashboard opens it in your browser")
        app.out.out.flush()

    async def main() -> bool:
        runtime = Runtime(Home(app.config, app.env, clock=app.clock, ids=SystemIds()))
        given = Given(port=port, bind=bind, token=token, before=int(before) if before.isdecimal() else 0)
        return await serve(runtime, given, ready=ready, tell=app.out.warn)

    try:
        again = asyncio.run(main())
    except Locked as held:
        app.out.problem(str(held))
        return SERVED_ALREADY if os.environ.get("INVOCATION_ID") else 1
    if again:
        # The same process goes on as a fresh program: a supervisor sees no end, and nothing that was read stays.
        sys.stdout.flush()
        os.environ[_PORT_BEFORE] = before  # --port 0 is any port, and then the same one
        os.execv(sys.executable, [sys.executable, "-m", "homarus", *sys.argv[1:]])  # noqa: S606 - ourselves
    return 0


def _warn(app: App, token: str | None) -> None:
    """Say what of the settings is not taken at its word, or is not good enough."""
    auth = app.config.block("gateway", GatewaySettings).auth
    if auth.mode == "none":
        app.out.warn("gateway.auth.mode 'none' is read as 'token': nothing listens here without a secret")
    secret = token or (auth.password if auth.mode == "password" else auth.token)
    if isinstance(secret, str) and "$" not in secret and len(secret) < SHORT:
        app.out.warn(f"the gateway's secret has fewer than {SHORT} characters; a longer one is harder to guess")


def _make_token(app: App) -> str:
    """Write a token into the configuration where there is no secret, and say so; nobody has to think of one."""
    import secrets

    from homarus.config.write import Operation, change

    auth = app.config.block("gateway", GatewaySettings).auth
    if auth.mode == "trusted-proxy" or (auth.password if auth.mode == "password" else auth.token) not in (None, ""):
        return ""
    name = "password" if auth.mode == "password" else "token"
    change(app.config, app.env, [Operation("set", ("gateway", "auth", name), secrets.token_urlsafe(32))])
    del app.config
    return f"made a {name} and wrote it to {app.paths.config_path} (gateway.auth.{name})"


def _holder(app: App) -> dict[str, Any]:
    """Return who serves this home: pid, port, since when; empty where nobody does."""
    from homarus.storage.locks import holder

    return holder(app.paths.own_dir / "gateway.lock") or {}


def asked(app: App, method: str, params: dict[str, Any]) -> Any:
    """Ask the running gateway. Raises HomarusError where none serves this home."""
    found = app.ask_gateway(method, **params)
    if found is None and not _holder(app):
        raise HomarusError("no gateway serves this home", cure="start it: homarus gateway run")
    return found


@click.command("dashboard")
@click.option("--no-open", is_flag=True, help="Only print the link.")
@with_json
def dashboard(app: App, no_open: bool, as_json: bool) -> None:
    """Open the page of this home in your browser.

    The link works once, in one browser, for ten minutes; the browser is then known as a device with your rights
    ('homarus devices' shows it). Whoever opens the link first gets in, so do not pass it on.
    """
    made = asked(app, "page.link", {})
    link = f"{made['url']}#pair={made['code']}"
    app.out.answer({"url": link}, link, as_json=as_json)
    if not (no_open or as_json):
        import webbrowser

        if not webbrowser.open(link):
            app.out.warn("no browser could be started; open the link by hand")


@command.command("status")
@with_json
def status(app: App, as_json: bool) -> int:
    """Say whether this home is served, where, and by what. Exit code 1 when it is not."""
    from homarus.admin.service import service_for

    held, service = _holder(app), service_for(app.paths, app.env)
    facts: dict[str, Any] = {"running": bool(held), "pid": held.get("pid"), "port": held.get("port")}
    facts |= {"since": held.get("startedAt"), "installed": service.path.exists(), "service": str(service.path)}
    if held:
        try:
            found = asked(app, "status", {})
            facts |= {"version": found["runtimeVersion"], "sessions": found["sessions"]["count"], "answers": True}
        except HomarusError as problem:
            facts |= {"answers": False, "problem": problem.message}
    if as_json:
        app.out.json(facts)
    elif not held:
        app.out.hint("no gateway serves this home; homarus gateway run starts one")
    else:
        app.out.line(f"pid {facts['pid']} serves {app.paths.state_dir} on port {facts['port']} since {facts['since']}")
        app.out.line(
            f"version {facts['version']}, {facts['sessions']} session{'' if facts['sessions'] == 1 else 's'}"
            if facts["answers"]
            else facts["problem"]
        )
    return 0 if held else 1


def _signal(app: App, number: signal.Signals) -> int:
    pid = _holder(app).get("pid")
    if not isinstance(pid, int) or pid <= 1:
        raise HomarusError("no gateway serves this home", cure="see 'homarus gateway status'")
    os.kill(pid, number)
    return pid


def _wait(app: App, done: Callable[[], bool], pid: int, what: str, *, as_json: bool) -> int:
    """Wait until something holds; running turns are finished first, so this says that it waits."""
    began, told = time.monotonic(), False
    while not done():
        if time.monotonic() - began > STOP_SECONDS:
            app.out.problem(f"it did not come to that within {STOP_SECONDS:.0f} seconds")
            return 1
        if not told and time.monotonic() - began > 2:
            told = True
            app.out.warn("waiting for running turns; Ctrl-C leaves them to it")
        time.sleep(POLL_SECONDS)
    app.out.answer({"pid": pid, "done": what}, f"pid {pid} {what}", as_json=as_json)
    return 0


@command.command("stop")
@with_json
def stop(app: App, as_json: bool) -> int:
    """End the gateway that serves this home; running turns are finished first."""
    pid = _signal(app, signal.SIGTERM)
    return _wait(app, lambda: _holder(app).get("pid") != pid, pid, "has ended", as_json=as_json)


@command.command("restart")
@with_json
def restart(app: App, as_json: bool) -> int:
    """Start the gateway anew that serves this home, when nothing runs."""
    before = _holder(app).get("startedAt")
    pid = _signal(app, signal.SIGHUP)

    def fresh() -> bool:
        return _holder(app).get("startedAt") not in (None, before)

    return _wait(app, fresh, pid, "started anew", as_json=as_json)


@command.command("call")
@click.argument("method")
@click.argument("params", default="{}")
@pass_app
def call(app: App, method: str, params: str) -> None:
    """Call a METHOD of the running gateway with PARAMS (JSON), and print what it answers."""
    try:
        given = json.loads(params)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise click.UsageError("PARAMS must be a JSON object")
    app.out.json(asked(app, method, given))


@command.command("install")
@click.option("--no-start", is_flag=True, help="Write the file and start nothing.")
@with_json
def install(app: App, no_start: bool, as_json: bool) -> int:
    """Let systemd or launchd start the gateway with this user's session, and keep it running."""
    from homarus.admin import service

    made = _make_token(app)
    found = service.service_for(app.paths, app.env)
    if (pid := _holder(app).get("pid")) and not found.path.exists():
        app.out.warn(f"pid {pid} serves this home now: the service starts after 'homarus gateway stop'")
    taken = service.install(found, start=not no_start)
    app.out.answer({"path": str(found.path), "taken": taken}, f"{made}\nwrote {found.path}".strip(), as_json=as_json)
    if not taken:
        app.out.problem(f"the supervisor did not take it: {' '.join(found.state)} says more")
    elif found.state[0] == "systemctl" and not as_json:
        app.out.line("it ends when you log out; 'loginctl enable-linger' lets it run on")
    return 0 if taken else 1


@command.command("uninstall")
@with_json
def uninstall(app: App, as_json: bool) -> int:
    """Take the service away; the home stays as it is."""
    from homarus.admin import service

    found = service.service_for(app.paths, app.env)
    gone = service.uninstall(found)
    text = f"removed {found.path}" if gone else "no service is installed"
    app.out.answer({"path": str(found.path), "removed": gone}, text, as_json=as_json)
    return 0


@click.command("health")
@with_json
def health(app: App, as_json: bool) -> int:
    """Ask the running gateway how it is. Exit code 1 when nobody answers."""
    found = asked(app, "health", {})
    if as_json:
        app.out.json(found)
    else:
        app.out.line(f"well, answered in {found['durationMs']} ms")
        app.out.table(
            [(each["agentId"], each["sessions"]["count"]) for each in found["agents"]], headers=("agent", "sessions")
        )
    return 0 if found["ok"] else 1


@click.command("logs")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on, until Ctrl-C.")
@click.option("-n", "--limit", type=click.IntRange(1, 100_000), default=200, show_default=True, help="How many lines.")
@click.option("--audit", is_flag=True, help="Show who did what instead: connections, calls, runs, tools.")
@with_json
def logs(app: App, follow: bool, limit: int, audit: bool, as_json: bool) -> None:
    """Show the gateway's log. It needs no running gateway."""
    from homarus.gateway.logs import LEDGER, Tail, log_path, read_ledger, read_log

    folder, path = app.paths.own_dir / LEDGER, log_path(app.config)
    # Followed from before the ledger is read, so that nothing falls between the two.
    newest = Tail(lambda: max(folder.glob("*.jsonl"), default=folder / "none")) if audit else None
    rows, place = (read_ledger(folder, limit), 0) if audit else read_log(path, limit)
    with contextlib.closing(newest or Tail(lambda: path, place)) as tail:
        if as_json and not follow:
            app.out.json(rows)
            return
        if not rows and not follow:
            app.out.line(f"nothing was written yet: {folder if audit else path}")
        _show(app, rows, as_json=as_json)
        while follow:
            app.out.out.flush()
            time.sleep(1.0)
            _show(app, tail.more(), as_json=as_json)


def _show(app: App, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        app.out.json_lines(rows)
        return
    for row in rows:
        try:
            moment = f"{datetime.fromisoformat(str(row.get('time'))).astimezone():%m-%d %H:%M:%S}"
        except ValueError:
            moment = ""
        if "what" in row:
            rest = " ".join(f"{key}={value}" for key, value in row.items() if key not in {"time", "what"})
            app.out.line(f"{moment} {app.out.style(str(row['what']), 'cyan')} {rest}")
        else:
            color = {"error": "red", "warning": "yellow"}.get(str(row.get("level")), "dim")
            app.out.line(f"{moment} {app.out.style(str(row.get('level', '')), color)} {row.get('message', '')}")
