"""`homarus mcp`: servers of the Model Context Protocol that agents may use, and this home as such a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import filled, json_option, pass_app

if TYPE_CHECKING:
    from homarus.plugins.mcp.catalog import Listing
    from homarus.plugins.mcp.servers import McpServers
    from homarus.plugins.mcp.settings import ServerSettings


@click.group("mcp", cls=Group, default="list")
def command() -> None:
    """Servers whose tools your agents may use, and this home as a server for others. Without a word: the list."""


@command.command("list")
@json_option
@pass_app
def list_servers(app: App, as_json: bool) -> None:
    """List the servers in mcp.servers and what each offered last. Starts none of them."""
    from homarus.plugins.mcp.catalog import Catalog
    from homarus.plugins.mcp.servers import catalog_folder

    catalog, rows = Catalog(catalog_folder(app.config)), []
    for name, settings in sorted(_servers(app).items()):
        rows.append(_summary(name, settings, catalog.look(name, settings)))
    if as_json:
        app.out.json({"servers": rows})
        return
    if not rows:
        app.out.hint("no servers; add one: homarus mcp add time -- uvx mcp-server-time")
        return
    shown = [
        (row["name"], row["state"], row["kind"], "" if row["tools"] is None else len(row["tools"]), row["target"])
        for row in rows
    ]
    app.out.table(shown, ["name", "state", "by", "tools", "what"])


@command.command("show")
@click.argument("name")
@json_option
@pass_app
def show(app: App, name: str, as_json: bool) -> None:
    """Show one server: how it is reached, and what it offered last."""
    from homarus.plugins.mcp.catalog import Catalog, tool_name
    from homarus.plugins.mcp.servers import catalog_folder, server_named

    settings = server_named(app.config, name)
    found = Catalog(catalog_folder(app.config)).look(name, settings)
    if as_json:
        app.out.json({**_summary(name, settings, found), "offers": _offers(found)})
        return
    row = _summary(name, settings, found)
    for label in ("name", "state", "kind", "target", "runs"):
        app.out.line(f"{label:>8}  {row[label]}")
    for word, names in (("env", sorted(settings.env)), ("headers", sorted(settings.headers))):
        if names:
            app.out.line(f"{word:>8}  {', '.join(names)}")
    if found is None:
        app.out.hint(f"it was never asked what it offers; homarus mcp probe {name}")
    for offer in found.offers if found else ():
        app.out.line(
            f"    tool  {tool_name(name, offer.name)} ({offer.risk.value}): {offer.description.splitlines()[0] if offer.description else ''}"
        )


@command.command("add")
@click.argument("name", callback=filled)
@click.argument("program", nargs=-1)
@click.option("--url", default="", help="address of a server, instead of a program")
@click.option("--transport", type=click.Choice(["streamable-http", "sse"]), help="how an address is spoken to")
@click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="a variable for the program")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="a header for the address")
@click.option("--oauth", is_flag=True, help="the server asks people to sign in")
@click.option("--sandbox", is_flag=True, help="run the program in the sandbox of the agent that calls it")
@json_option
@pass_app
def add(app: App, /, name: str, program: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Add a server: homarus mcp add NAME -- PROGRAM ARGUMENTS, or homarus mcp add NAME --url ADDRESS.

    A value may refer to a variable of yours, so that no key stands in the file: --env 'TOKEN=${GITHUB_TOKEN}'.
    """
    from homarus.config.write import Operation, change
    from homarus.core.errors import HomarusError

    if bool(program) == bool(given["url"]):
        raise HomarusError("a server is a program or an address", cure=f"homarus mcp add {name} -- PROGRAM, or --url")
    entry: dict[str, Any] = {"command": program[0], "args": list(program[1:])} if program else {"url": given["url"]}
    entry |= {"transport": given["transport"]} if given["transport"] else {}
    entry |= {key: _pairs(given[key]) for key in ("env", "headers") if given[key]}
    entry |= {"auth": "oauth"} if given["oauth"] else {}
    entry |= {"sandbox": True} if given["sandbox"] else {}
    changed = change(app.config, app.env, [Operation("set", ("mcp", "servers", name), entry)])
    if as_json:
        app.out.json({"name": name, "changed": bool(changed), "server": entry})
        return
    app.out.hint(f"{name} is in {app.paths.config_path} (mcp.servers.{name}); try it: homarus mcp probe {name}")


@command.command("remove")
@click.argument("name")
@json_option
@pass_app
def remove(app: App, name: str, as_json: bool) -> None:
    """Remove a server from the configuration."""
    from homarus.config.write import Operation, change
    from homarus.plugins.mcp.catalog import Catalog
    from homarus.plugins.mcp.servers import catalog_folder, server_named

    server_named(app.config, name)
    change(app.config, app.env, [Operation("unset", ("mcp", "servers", name))])
    Catalog(catalog_folder(app.config)).forget(name)
    app.out.json({"name": name, "removed": True}) if as_json else app.out.line(f"{name} is removed")


@command.command("probe")
@click.argument("names", nargs=-1)
@json_option
@pass_app
def probe(app: App, names: tuple[str, ...], as_json: bool) -> int:
    """Start servers, ask what they offer, and end them again. Exit code 1 when one of them fails."""
    import asyncio

    from homarus.core.errors import HomarusError
    from homarus.plugins.mcp.servers import server_named

    wanted = names or tuple(name for name, each in sorted(_servers(app).items()) if each.enabled)
    for name in names:
        server_named(app.config, name)

    async def ask() -> list[tuple[str, Listing | None, str]]:
        servers = _opened(app)
        found: list[tuple[str, Listing | None, str]] = []
        try:
            for name in wanted:
                try:
                    found.append((name, await servers.ask(name), ""))
                except HomarusError as problem:
                    found.append((name, None, str(problem)))
        finally:
            await servers.aclose()
        return found

    rows = asyncio.run(ask())
    if as_json:
        app.out.json(
            {
                "servers": [
                    {"name": name, "ok": not why, "problem": why, "offers": _offers(it)} for name, it, why in rows
                ]
            }
        )
    else:
        if not rows:
            app.out.hint("no server is configured; 'homarus mcp add' names one")
        for name, listing, why in rows:
            mark = app.out.style("fails", "red") if why else app.out.style("works", "green")
            app.out.line(f"{mark}  {name}  {why or f'{len(listing.offers) if listing else 0} tools'}")
    return 1 if any(why for _, _, why in rows) else 0


@command.command("login")
@click.argument("name")
@json_option
@pass_app
def login(app: App, name: str, as_json: bool) -> None:
    """Sign in to a server that asks for it (OAuth): opens your browser and waits for the answer."""
    import asyncio

    from homarus.plugins.mcp.servers import server_named

    settings = server_named(app.config, name)
    if not settings.url:
        from homarus.core.errors import ConfigError

        raise ConfigError(
            f"'{name}' is a program; signing in is for servers at an address", cure="give it its keys as env"
        )

    def show_address(url: str) -> None:
        import webbrowser

        app.out.warn(f"open this address to sign in: {url}")
        if app.out.err.isatty():
            webbrowser.open(url)

    async def sign_in() -> int:
        from homarus.plugins.mcp.login import login as begin

        servers = _opened(app)
        servers.signing_in[name] = await begin(name, settings, app.paths.state_dir, show_address)
        try:
            return len((await servers.ask(name)).offers)
        finally:
            await servers.aclose()

    count = asyncio.run(sign_in())
    app.out.json({"name": name, "tools": count}) if as_json else app.out.line(f"signed in to {name}: {count} tools")


@command.command("logout")
@click.argument("name")
@json_option
@pass_app
def logout(app: App, name: str, as_json: bool) -> None:
    """Forget how this home signed in to a server."""
    from homarus.plugins.mcp.login import token_file
    from homarus.plugins.mcp.servers import server_named

    path = token_file(name, server_named(app.config, name), app.paths.state_dir).path
    there = path.exists()
    path.unlink(missing_ok=True)
    words = f"signed out of {name}" if there else f"this home was not signed in to {name}"
    app.out.json({"name": name, "removed": there}) if as_json else app.out.line(words)


@command.command("serve")
@click.option(
    "--agent",
    "agent_id",
    default="",
    help="whose conversations and notes; the default agent",
    shell_complete=complete.agents,
    callback=filled,
)
@click.option(
    "--owner", is_flag=True, help="what this program says counts as yours, and it may answer questions for you"
)
@pass_app
def serve_home(app: App, agent_id: str, owner: bool) -> None:
    """Serve this home's conversations and notes to a program that speaks MCP, on standard input and output.

    The program starts this command itself: name `homarus` with the arguments `mcp serve` in its list of servers.
    """
    import asyncio

    from homarus.cli.agent import open_agent
    from homarus.plugins.mcp.servers import require

    require("mcp")

    async def serving() -> None:
        from homarus.bridges.mcp import serve

        agent = await open_agent(app, agent_id, "main", local=True)
        try:
            await serve(agent.client, agent_id, owner=owner)  # type: ignore[arg-type] # a local one
        finally:
            await agent.aclose()

    asyncio.run(serving())


def _servers(app: App) -> dict[str, ServerSettings]:
    from homarus.plugins.mcp.settings import McpSettings

    return app.config.block("mcp", McpSettings).servers


def _opened(app: App) -> McpServers:
    from homarus.plugins.mcp.servers import McpServers
    from homarus.workspace.agents import resolve_workspace

    workspace = resolve_workspace(app.config, app.config.default_agent.id, app.env)
    return McpServers(app.config, app.env, clock=app.clock, workspace=lambda: workspace)


def _summary(name: str, settings: ServerSettings, found: Listing | None) -> dict[str, Any]:
    from homarus.plugins.mcp.catalog import tool_name

    state = "off" if not settings.enabled else "incomplete" if not settings.kind else "known" if found else "not asked"
    if found is not None and found.changed:
        state += f", changed {found.changed} times"
    return {
        "name": name,
        "state": state,
        "kind": settings.kind,
        "target": settings.url or " ".join((settings.command, *settings.args)),
        "runs": "in the sandbox" if settings.sandbox else "elsewhere" if settings.url else "on this machine, as you",
        "tools": None if found is None else [tool_name(name, offer.name) for offer in found.offers],
    }


def _offers(found: Listing | None) -> list[dict[str, Any]]:
    return [
        {"name": offer.name, "risk": offer.risk.value, "description": offer.description, "schema": offer.schema}
        for offer in (found.offers if found else ())
    ]


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    from homarus.core.errors import HomarusError

    for pair in given:
        if "=" not in pair.strip("="):
            raise HomarusError(f"'{pair}' is no NAME=VALUE", cure="write NAME=VALUE")
    return dict(pair.split("=", 1) for pair in given)
