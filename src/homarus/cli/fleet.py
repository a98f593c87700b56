"""`homarus fleet`: many homes on many machines, on Postgres. One machine needs none of this."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import pass_app, with_json
from homarus.cli.output import Bar, clean
from homarus.core.errors import ConfigError, installing

if TYPE_CHECKING:
    from homarus.fleet.database import Database
    from homarus.fleet.objects import Store
    from homarus.fleet.settings import Fleet

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


def _settings(app: App, *, secret: bool = False) -> Fleet:
    from homarus.fleet.settings import load, ready

    return ready(load(app.env, click.get_current_context().meta.get("fleet.file", "")), secret=secret)


@contextmanager
def _opened(app: App, *, check: bool = True, address: str = "") -> Iterator[tuple[Fleet, Database]]:
    from homarus.fleet.settings import Fleet as Settings
    from homarus.fleet.settings import ready

    fleet = ready(Settings(database=address)) if address else _settings(app)
    try:
        import asyncpg
    except ImportError:
        raise ConfigError("a fleet needs asyncpg", cure=installing("homarus[fleet]")) from None
    from homarus.fleet.database import Database

    refused = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
    try:
        with Database(fleet.database, name="homarus fleet", size=2, patience=5) as database:
            if check:
                database.check()
            yield fleet, database
    except (*refused, asyncpg.InsufficientPrivilegeError, asyncpg.InterfaceError) as problem:
        cure = "its address is postgresql://user:password@host/name; that user must own that database"
        raise ConfigError(f"Postgres cannot be used: {clean(str(problem), 300)}", cure=cure) from None


@contextmanager
def _store(app: App, fleet: Fleet) -> Iterator[Store | None]:
    if not fleet.objects:
        yield None
        return
    from homarus.fleet.objects import Store, objects_at
    from homarus.net.client import HttpClient
    from homarus.net.proxy import proxies_from
    from homarus.net.trust import trust_from

    http = HttpClient(proxies=proxies_from(app.env), trust=trust_from(app.env))
    store = Store(objects_at(fleet.objects, app.env, http))
    try:
        yield store
    finally:
        store.close()


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
        raise ConfigError(f"{place} is there already", cure="change the file itself, then: homarus fleet init")
    if not database and fresh and not app.env.get("HOMARUS_FLEET_DATABASE"):
        raise ConfigError("no database is named", cure="--database postgresql://user:password@host/name")
    # The file comes last: an address that was mistyped is not kept.
    with _opened(app, check=False, address=database) as (_, opened):
        steps = opened.migrate()
        opened.check()
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

    with _opened(app) as (_, database):
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
        app.out.line("No worker has joined yet: homarus fleet worker")


def _state(row: dict[str, Any]) -> str:
    return "dead" if not row["alive"] else "draining" if row["draining"] else "alive"


@command.command("workers")
@with_json
def workers(app: App, as_json: bool) -> None:
    """List the workers: where they are, whether they live, how many homes each holds."""
    from homarus.fleet import status as state

    with _opened(app) as (_, database):
        found = state.workers(database)
    if as_json:
        app.out.json({"workers": found})
    else:
        _workers(app, found)


@command.command("homes")
@click.argument("begins", required=False, default="")
@click.option("--tenant", default="", help="Only those of this tenant.")
@click.option("--worker", default="", help="Only those that this worker holds.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True)
@with_json
def homes(app: App, begins: str, tenant: str, worker: str, limit: int, as_json: bool) -> None:
    """List homes and who holds them; those whose names begin with BEGINS."""
    from homarus.fleet import status as state

    with _opened(app) as (_, database):
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
        app.out.line("No such home: 'homarus fleet import' brings one in, 'homarus fleet add' makes an empty one.")


@command.command("add")
@click.argument("home")
@click.option("--tenant", default="", help="Whose it is; for your own lists.")
@with_json
def add(app: App, home: str, tenant: str, as_json: bool) -> None:
    """Make an empty HOME. Its first start gives it a token of its own."""
    from homarus.fleet.placement import Placement
    from homarus.fleet.settings import refuse_name

    with _opened(app) as (_, database):
        if not asyncio.run(Placement(database, "").add(refuse_name(home), tenant)):
            raise ConfigError(f"there is a home '{home}' already", cure="choose another name")
    app.out.answer({"home": home, "tenant": tenant}, f"made {home}", as_json=as_json)


@command.command("import")
@click.argument("home")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--tenant", default="", help="Whose it is; for your own lists.")
@click.option("--replace", is_flag=True, help="Take the place of a home that is there. Its owner loses it at once.")
@with_json
def bring_in(app: App, home: str, folder: Path, tenant: str, replace: bool, as_json: bool) -> None:
    """Bring FOLDER into the fleet as HOME: a folder with .openclaw in it, or a state folder alone.

    Every byte is kept; indexes that are made from the files are left out and made anew. The folder stays as it is.
    """
    from homarus.fleet.homes import bring_in as bring
    from homarus.fleet.tenancy import outside

    with _opened(app) as (fleet, database), _store(app, fleet) as store, Bar(sys.stderr, "importing") as bar:
        done = bring(database, store, home, folder.absolute(), tenant=tenant, replace=replace, progress=bar.update)
    done["withoutEffect"] = outside(folder.absolute(), fleet.quota)
    for name in done["skipped"]:
        app.out.warn(f"left out: {clean(name)}")
    for key in done["withoutEffect"]:
        app.out.warn(f"{clean(key)} has no effect in a fleet: it leads out of the home or its sandbox")
    app.out.answer(done, f"brought in {home}: {done['files']:,} files, {done['bytes']:,} bytes", as_json=as_json)


@command.command("export")
@click.argument("home")
@click.argument("folder", type=click.Path(path_type=Path))
@with_json
def take_out(app: App, home: str, folder: Path, as_json: bool) -> None:
    """Write HOME into FOLDER, byte for byte as it is in one moment. The home stays in the fleet.

    On a laptop it is served with: HOME=FOLDER homarus chat
    """
    from homarus.fleet.homes import take_out as take

    with _opened(app) as (fleet, database), _store(app, fleet) as store:
        done = take(database, store, home, folder.absolute())
    app.out.answer(
        done, f"wrote {done['files']:,} names, {done['bytes']:,} bytes to {clean(str(folder))}", as_json=as_json
    )


@command.command("remove")
@click.argument("home")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_json
def remove(app: App, home: str, yes: bool, as_json: bool) -> None:
    """Forget HOME and everything that it stored. There is no way back but an export."""
    from homarus.fleet.homes import known
    from homarus.fleet.homes import remove as forget

    with _opened(app) as (fleet, database), _store(app, fleet) as store:
        known(database, home)
        if not yes:
            click.confirm(f"Remove {clean(home, 80)} and all of its files?", abort=True)
        count = forget(database, store, home)
    app.out.answer({"home": home, "objects": count}, f"removed {clean(home, 80)}", as_json=as_json)


@command.command("quota")
@click.argument("home")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@with_json
def quota(app: App, home: str, values: tuple[str, ...], as_json: bool) -> None:
    """Show what HOME may use, or change it: messagesPerSecond=5 storedBytes=1000000000. 'name=' gives it the fleet's again."""
    import msgspec

    from homarus.fleet.homes import bound, known
    from homarus.fleet.settings import parse_quota, quota_of
    from homarus.fleet.status import usage

    given = parse_quota(values)
    with _opened(app) as (fleet, database):
        own = bound(database, home, given) if given else known(database, home)["quota"]
        used = usage(database, home)
    found = msgspec.to_builtins(quota_of(fleet.quota, own))
    if as_json:
        app.out.json({"home": home, "quota": found, "used": used})
    else:
        app.out.facts([(name, f"{value:,}") for name, value in found.items()], 18)
        app.out.line(f"used: {used['bytes']:,} bytes in {used['files']:,} files")


@command.command("move")
@click.argument("home")
@click.argument("worker")
@with_json
def move(app: App, home: str, worker: str, as_json: bool) -> None:
    """Let HOME go to WORKER, when the turn that runs has ended."""
    from homarus.fleet import status as state

    with _opened(app) as (_, database):
        state.move(database, home, worker)
    app.out.answer({"home": home, "to": worker}, f"{clean(home, 80)} goes to {clean(worker, 80)}", as_json=as_json)


@command.command("drain")
@click.argument("worker")
@click.option("--off", is_flag=True, help="Let it take homes again.")
@with_json
def drain(app: App, worker: str, off: bool, as_json: bool) -> None:
    """Let WORKER give all its homes away, each at the end of a turn. Then it can be stopped without anybody noticing."""
    from homarus.fleet import status as state

    with _opened(app) as (_, database):
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

    with _opened(app, check=False) as (fleet, database), _store(app, fleet) as store:
        found = list(state.examine(fleet, database, store, deep=deep))
        if sweep and store is not None:
            found.append(state.Check("ok", f"removed {state.sweep(database, store):,} objects"))
    if as_json:
        app.out.json({"checks": [{"state": c.state, "what": c.what, "cure": c.cure} for c in found]})
    else:
        colours = {"ok": "green", "note": "blue", "warn": "yellow", "bad": "red"}
        for each in found:
            cure = f" ({each.cure})" if each.cure else ""
            app.out.line(f"{app.out.style(f'{each.state:>4}', colours[each.state])}  {clean(each.what + cure, 1000)}")
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

    fleet = _settings(app, secret=True)
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
    with door, _opened(app), Database(fleet.database, name=name_there) as database, _store(app, fleet) as store:
        asyncio.run(work(database, store))


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

    fleet = _settings(app, secret=True)
    door = _listening(listen)

    async def work(database: Database) -> None:
        http = HttpClient(most=10_000)
        where = ":".join(map(str, door.getsockname()[:2]))
        try:
            await serve(Edge(fleet, Directory(database, fleet), http), door, ready=lambda: _up(f"edge on {where}"))
        finally:
            await http.aclose()

    with door, _opened(app), Database(fleet.database, name="homarus edge") as database:
        asyncio.run(work(database))


def _listening(text: str) -> socket.socket:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not host:
        raise ConfigError(f"--listen '{clean(text, 80)}' is no address with a port", cure="as 10.0.0.5:18800")
    from homarus.gateway.wire import listening

    try:
        return listening(host.strip("[]"), int(port))
    except ConfigError as problem:
        cure = "another program has it, or the address is not this machine's: choose another with --listen"
        raise ConfigError(problem.message, cure=cure) from None


def _up(text: str) -> None:
    print(f"{text} is up", flush=True)
