"""`homarus fleet`: many homes on many machines, on Postgres. One machine needs none of this."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from homarus.cli.app import App
from homarus.cli.fleet_homes import add, bring_in, invite, opened, quota, remove, settings_of, store_of, take_out
from homarus.cli.group import Group
from homarus.cli.options import pass_app, with_json
from homarus.cli.output import clean
from homarus.core.errors import ConfigError, Unknown

if TYPE_CHECKING:
    from homarus.fleet.database import Database
    from homarus.fleet.objects import Store

_FINE, _BAD = 0, 1


@click.group("fleet", cls=Group)
@click.option(
    "--file",
    "file",
    metavar="FILE",
    default="",
    help="The fleet's settings; HOMARUS_FLEET_FILE, or /etc/homarus/fleet.json.",
)
@click.pass_context
def command(ctx: click.Context, file: str) -> None:
    """Serve the homes of many people with several machines and one Postgres.

    Each home is held by one worker at a time. When a worker dies, others go on with its homes within seconds.

    \b
    Examples:
      homarus fleet init --database postgresql://homarus@db/fleet
      homarus fleet worker --listen 10.0.0.5:18800
      homarus fleet edge --listen 0.0.0.0:8080
      homarus fleet import ada ~/homes/ada
    """  # fmt: skip
    ctx.meta["fleet.file"] = file


for _each in (add, invite, bring_in, take_out, remove, quota):
    command.add_command(_each)


@command.command("init")
@click.option("--database", metavar="DSN", default="", help="Where Postgres is: postgresql://user:password@host/name.")
@click.option("--objects", metavar="PLACE", default="", help="s3://bucket/prefix, or a folder that all machines see.")
@click.option("--domain", metavar="NAME", default="", help="Names below it are homes: ada.agents.example.")
@with_json
def init(app: App, database: str, objects: str, domain: str, as_json: bool) -> None:
    """Make the tables, or bring them up to this program; write the settings where there are none yet.

    Run it once before the first worker, and before each upgrade: workers of the older version go on meanwhile.
    """
    import json
    import os

    from homarus.fleet.settings import DEFAULT_FILE, FILE_VARIABLE, new_secret
    from homarus.storage.atomic import create_new, ensure_dir

    ctx = click.get_current_context()
    place = Path(ctx.meta.get("fleet.file") or app.env.get(FILE_VARIABLE) or DEFAULT_FILE)
    fresh, written = not os.path.lexists(place), False
    if (database or objects or domain) and not fresh:
        raise Unknown(f"{place} is there already", cure="change the file itself, then: homarus fleet init")
    if not database and fresh and not app.env.get("HOMARUS_FLEET_DATABASE"):
        raise ConfigError(
            "no database is named", cure="--database postgresql://user@host/name, with :password after the user"
        )
    # The file comes last: an address that was mistyped is not kept.
    with opened(app, check=False, address=database) as (_, there):
        steps = there.migrate()
        there.check()
    if database:
        given = {"database": database, "secret": new_secret(), "objects": objects, "domain": domain}
        text = json.dumps({key: value for key, value in given.items() if value}, indent=2) + "\n"
        ensure_dir(place.parent)
        written = create_new(place, text.encode())
    said = f"made step {', '.join(map(str, steps))} of the tables" if steps else "the tables are up to date"
    said += f"; wrote {clean(str(place))}: edge and workers need the same file" if written else ""
    app.out.answer({"steps": steps, "file": str(place) if written else None}, said, as_json=as_json)


@command.command("status")
@click.option("--metrics", is_flag=True, help="As Prometheus reads it.")
@with_json
def status(app: App, metrics: bool, as_json: bool) -> None:
    """Show a fleet at a glance: homes, workers, and what waits."""
    from homarus.fleet import status as state

    with opened(app) as (_, database):
        found = state.status(database)
    if metrics:
        app.out.pieces([state.metrics(found)])
    elif as_json:
        app.out.json(found)
    else:
        alive = sum(each["alive"] for each in found["workers"])
        late = f", the oldest for {found['mail']['oldestSeconds']:.0f} s" if found["mail"]["waiting"] else ""
        free = f", {found['free']:,} held by nobody" if found["free"] else ""
        app.out.facts(
            [
                ("homes", f"{found['homes']:,}{free}"), ("workers", f"{alive} of {len(found['workers'])} alive"),
                ("web hooks", f"{found['mail']['waiting']:,} wait{late}"), ("timers", f"{found['timers']['late']:,} late"),
                ("tables", f"step {found['schema']}"),
            ],
            9,
        )  # fmt: skip
        _workers(app, found["workers"])


def _workers(app: App, rows: list[dict[str, Any]]) -> None:
    shown = [
        (clean(each["worker"], 40), clean(each["address"], 60), _state(each), each["homes"], f"{each['silentSeconds']:.1f} s")
        for each in rows
    ]  # fmt: skip
    if shown:
        app.out.table(shown, ["worker", "address", "state", "homes", "silent for"])
    else:
        app.out.hint("No worker has joined yet: homarus fleet worker")


def _state(row: dict[str, Any]) -> str:
    return "dead" if not row["alive"] else "draining" if row["draining"] else "alive"


@command.command("workers")
@with_json
def workers(app: App, as_json: bool) -> None:
    """List the workers: where they are, whether they live, how many homes each holds."""
    from homarus.fleet import status as state

    with opened(app) as (_, database):
        found = state.workers(database)
    if as_json:
        app.out.json({"workers": found})
    else:
        _workers(app, found)


@command.command("homes")
@click.argument("begins", required=False, default="")
@click.option("--tenant", default="", help="Only those of this tenant.")
@click.option("--worker", default="", help="Only those that this worker holds.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="At most this many.")
@with_json
def homes(app: App, begins: str, tenant: str, worker: str, limit: int, as_json: bool) -> None:
    """List homes and who holds them; those whose names begin with BEGINS."""
    from homarus.fleet import status as state

    with opened(app) as (_, database):
        found = state.homes(database, tenant=tenant, worker=worker, begins=begins, limit=limit)
    if as_json:
        app.out.json({"homes": found})
        return
    rows = [
        (each["home"], clean(each["tenant"], 40) or None, clean(each["worker"] or "nobody", 40), each["epoch"],
         "half brought in" if each["unfinished"] else f"to {clean(each['moving'], 40)}" if each["moving"] else None)
        for each in found
    ]  # fmt: skip
    if rows:
        app.out.table(rows, ["home", "tenant", "worker", "epoch", "note"])
    else:
        app.out.hint("No such home: 'homarus fleet import' brings one in, 'homarus fleet add' makes an empty one.")


@command.command("move")
@click.argument("home")
@click.argument("worker")
@with_json
def move(app: App, home: str, worker: str, as_json: bool) -> None:
    """Let HOME go to WORKER, when the turn that runs has ended."""
    from homarus.fleet import status as state

    with opened(app) as (_, database):
        state.move(database, home, worker)
    app.out.answer({"home": home, "to": worker}, f"{clean(home, 80)} goes to {clean(worker, 80)}", as_json=as_json)


@command.command("drain")
@click.argument("worker")
@click.option("--off", is_flag=True, help="Let it take homes again.")
@with_json
def drain(app: App, worker: str, off: bool, as_json: bool) -> None:
    """Let WORKER give all its homes away, each at the end of a turn. Then it can be stopped without anybody noticing."""
    from homarus.fleet import status as state

    with opened(app) as (_, database):
        state.drain(database, worker, on=not off)
    said = f"{clean(worker, 80)} takes homes again" if off else f"{clean(worker, 80)} gives its homes away"
    app.out.answer({"worker": worker, "draining": not off}, said, as_json=as_json)


@command.command("doctor")
@click.option("--deep", is_flag=True, help="Read every object, too.")
@click.option("--sweep", is_flag=True, help="Remove objects that belong to no file any more; takes a minute.")
@with_json
def doctor(app: App, deep: bool, sweep: bool, as_json: bool) -> int:
    """Look for what is wrong, or could go wrong: settings, server, workers, rows and objects. 1 if something is bad."""
    from homarus.fleet import status as state

    with opened(app, check=False) as (fleet, database), store_of(app, fleet) as store:
        found = list(state.examine(fleet, database, store, deep=deep))
        if sweep and store is not None:
            found.append(state.Check("ok", f"removed {state.sweep(database, store):,} objects"))
    if as_json:
        app.out.json({"checks": [{"state": c.state, "what": c.what, "cure": c.cure} for c in found]})
    else:
        colours = {"ok": "green", "note": "blue", "warn": "yellow", "bad": "red"}
        for each in found:
            cure = f" ({each.cure})" if each.cure else ""
            app.out.hint(f"{app.out.style(f'{each.state:>4}', colours[each.state])}  {clean(each.what + cure, 1000)}")
    return _BAD if any(each.state == "bad" for each in found) else _FINE


@command.command("worker")
@click.option("--name", default="", help="What the fleet calls it; this machine's name and the port.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where edges reach it. A private network: it speaks without TLS.",
)
@click.option("--address", default="", metavar="URL", help="What edges are told instead, as http://10.0.0.5:18800.")
@pass_app
def worker(app: App, name: str, listen: str, address: str) -> None:
    """Hold homes and answer for them, until SIGTERM: then each is given away at the end of its turn, for a minute at most."""
    from homarus.fleet.database import Database
    from homarus.fleet.worker import Worker, serve

    if address and not address.startswith(("http://", "https://")):
        raise Unknown(f"--address '{clean(address, 80)}' is no address", cure="as http://10.0.0.5:18800")
    fleet = settings_of(app, secret=True)
    door = _listening(listen)
    host, port = door.getsockname()[:2]
    called = name or f"{socket.gethostname()}-{port}"

    async def work(database: Database, store: Store | None) -> None:
        made = Worker(
            database, called, Path(fleet.root), secret=fleet.secret, env=app.env, objects=store, quota=fleet.quota
        )
        await serve(
            made, door, address or f"http://{host}:{port}", ready=lambda _: _up(f"worker {called} on {host}:{port}")
        )

    name_there = f"homarus {called}"
    with (
        door,
        opened(app),
        Database(fleet.database, name=name_there, busy=True) as database,
        store_of(app, fleet) as store,
    ):
        _run(work(database, store))


@command.command("edge")
@click.option(
    "--listen",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where clients come in. TLS is the business of what stands before it.",
)
@pass_app
def edge(app: App, listen: str) -> None:
    """Pass clients on to whoever holds their home, until SIGTERM. Any number of edges may run; they keep nothing."""
    from homarus.fleet.database import Database
    from homarus.fleet.directory import Directory
    from homarus.fleet.edge import Edge, serve
    from homarus.net.client import HttpClient

    fleet = settings_of(app, secret=True)
    door = _listening(listen)

    async def work(database: Database) -> None:
        http = HttpClient(most=10_000)
        where = ":".join(map(str, door.getsockname()[:2]))
        try:
            await serve(Edge(fleet, Directory(database, fleet), http), door, ready=lambda: _up(f"edge on {where}"))
        finally:
            await http.aclose()

    with door, opened(app), Database(fleet.database, name="homarus edge", busy=True) as database:
        _run(work(database))


def _run(work: Coroutine[Any, Any, None]) -> None:
    from homarus.fleet.database import quick_loop

    with asyncio.Runner(loop_factory=quick_loop) as runner:
        runner.run(work)


def _listening(text: str) -> socket.socket:
    host, _, port = text.rpartition(":")
    if not (port.isdecimal() and int(port) < 1 << 16) or not host:
        raise Unknown(f"--listen '{clean(text, 80)}' is no address with a port", cure="as 10.0.0.5:18800")
    from homarus.gateway.wire import listening

    try:
        return listening(host.strip("[]"), int(port))
    except ConfigError as problem:
        cure = "another program has it, or the address is not this machine's: choose another with --listen"
        raise ConfigError(problem.message, cure=cure) from None


def _up(text: str) -> None:
    print(f"{text} is up", flush=True)
