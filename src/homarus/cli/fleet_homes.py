"""`homarus fleet add|invite|import|export|remove|quota`: the homes of a fleet, and how its database is opened."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from homarus.cli.app import App
from homarus.cli.options import with_json
from homarus.cli.output import Bar, clean
from homarus.core.errors import ConfigError, Unknown, installing

if TYPE_CHECKING:
    from homarus.fleet.database import Database
    from homarus.fleet.objects import Store
    from homarus.fleet.settings import Fleet


def settings_of(app: App, *, secret: bool = False) -> Fleet:
    from homarus.fleet.settings import load, ready

    return ready(load(app.env, click.get_current_context().meta.get("fleet.file", "")), secret=secret)


@contextmanager
def opened(app: App, *, check: bool = True, address: str = "") -> Iterator[tuple[Fleet, Database]]:
    from homarus.fleet.settings import Fleet as Settings
    from homarus.fleet.settings import ready

    fleet = ready(Settings(database=address)) if address else settings_of(app)
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
        cure = "its address is postgresql://user@host/name, with :password after the user, who must own that database"
        raise ConfigError(f"Postgres cannot be used: {clean(str(problem), 300)}", cure=cure) from None


@contextmanager
def store_of(app: App, fleet: Fleet) -> Iterator[Store | None]:
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


@click.command("add")
@click.argument("home")
@click.option("--tenant", default="", help="Whose it is; for your own lists.")
@with_json
def add(app: App, home: str, tenant: str, as_json: bool) -> None:
    """Make an empty HOME. Its first start gives it a token of its own."""
    from homarus.fleet.placement import Placement
    from homarus.fleet.settings import refuse_name

    with opened(app) as (_, database):
        if not asyncio.run(Placement(database, "").add(refuse_name(home), tenant)):
            raise Unknown(f"there is a home '{home}' already", cure="choose another name")
    app.out.answer({"home": home, "tenant": tenant}, f"made {home}", as_json=as_json)


@click.command("invite")
@click.argument("home")
@click.option(
    "--url", default="", help="Where clients reach this home; https://HOME.DOMAIN, or as https://edge.example/h/HOME."
)
@click.option("--minutes", type=click.IntRange(1, 1440), default=10, show_default=True, help="How long it works.")
@with_json
def invite(app: App, home: str, url: str, minutes: int, as_json: bool) -> None:
    """Let the first device into HOME: a link for a browser, and a code for the apps, to scan or to paste.

    It works once, and whoever uses it first gets in with all rights of the home's owner; only they should see it. Further
    devices are let in by their owner, on the page under Devices.
    """
    from homarus.fleet.homes import invite as make
    from homarus.fleet.settings import refuse_name
    from homarus.gateway.devices import setup_code_of

    with opened(app) as (fleet, database):
        place = _address_of(refuse_name(home), url, fleet.domain)
        made = make(database, home, seconds=minutes * 60)
    token, socket_url = made.pop("token"), f"ws{place.removeprefix('http')}"
    code = setup_code_of(socket_url, token)
    # The page lives at the top of a name of its own.
    link = f"{place}/#pair={token}" if place.count("/") == 2 else None
    if as_json:
        app.out.json({**made, "setupCode": code, "gatewayUrl": socket_url, "link": link})
    else:
        until = datetime.fromtimestamp(made["expiresAtMs"] / 1000, UTC)
        facts = [("link", link)] if link else []
        app.out.facts([*facts, ("code", code), ("until", f"{until:%Y-%m-%d %H:%M} UTC, once")], 5)
        _picture(app, code)
    if not made["taken"]:
        app.out.warn(f"no worker has taken it in yet: it counts once one holds {home} (see: homarus fleet status)")


def _address_of(home: str, url: str, domain: str) -> str:
    """Return where a home is for its clients, without a slash at its end."""
    if not url and not domain:
        cure = f"--url https://your.edge/h/{home}, or set 'domain'"
        raise ConfigError("the fleet has no domain, so where its edge is must be said", cure=cure)
    place = (url or f"https://{home}.{domain.lower().strip('.')}").rstrip("/")
    scheme, _, rest = place.partition("://")
    scheme = {"ws": "http", "wss": "https"}.get(scheme, scheme)
    if scheme not in {"http", "https"} or not rest.partition("/")[0] or set(rest) & set("?#@ "):
        raise Unknown(f"--url '{clean(url, 80)}' is no address", cure=f"as https://your.edge/h/{home}")
    return f"{scheme}://{rest}"


def _picture(app: App, code: str) -> None:
    """Show a code as phones scan it, where there is somebody to hold one before the screen."""
    if not sys.stdout.isatty():
        return
    with suppress(ImportError):
        import segno

        shown = io.StringIO()
        segno.make(code, error="l").terminal(out=shown, compact=True)
        app.out.pieces([shown.getvalue()])


@click.command("import")
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

    with opened(app) as (fleet, database), store_of(app, fleet) as store, Bar(sys.stderr, "importing") as bar:
        done = bring(database, store, home, folder.absolute(), tenant=tenant, replace=replace, progress=bar.update)
    done["withoutEffect"] = outside(folder.absolute(), fleet.quota)
    for name in done["skipped"]:
        app.out.warn(f"left out: {clean(name)}")
    for key in done["withoutEffect"]:
        app.out.warn(f"{clean(key)} has no effect in a fleet: it leads out of the home or its sandbox")
    app.out.answer(done, f"brought in {home}: {done['files']:,} files, {done['bytes']:,} bytes", as_json=as_json)


@click.command("export")
@click.argument("home")
@click.argument("folder", type=click.Path(path_type=Path))
@with_json
def take_out(app: App, home: str, folder: Path, as_json: bool) -> None:
    """Write HOME into FOLDER, byte for byte as it is in one moment. The home stays in the fleet.

    On a laptop it is served with: HOME=FOLDER homarus chat
    """
    from homarus.fleet.homes import take_out as take

    with opened(app) as (fleet, database), store_of(app, fleet) as store:
        done = take(database, store, home, folder.absolute())
    app.out.answer(
        done, f"wrote {done['files']:,} names, {done['bytes']:,} bytes to {clean(str(folder))}", as_json=as_json
    )


@click.command("remove")
@click.argument("home")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_json
def remove(app: App, home: str, yes: bool, as_json: bool) -> None:
    """Forget HOME and everything that it stored. There is no way back but an export."""
    from homarus.fleet.homes import known
    from homarus.fleet.homes import remove as forget

    with opened(app) as (fleet, database), store_of(app, fleet) as store:
        known(database, home)
        if not yes:
            click.confirm(f"Remove {clean(home, 80)} and all of its files?", abort=True)
        count = forget(database, store, home)
    app.out.answer({"home": home, "objects": count}, f"removed {clean(home, 80)}", as_json=as_json)


@click.command("quota")
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
    with opened(app) as (fleet, database):
        own = bound(database, home, given) if given else known(database, home)["quota"]
        used = usage(database, home)
    found = msgspec.to_builtins(quota_of(fleet.quota, own))
    if as_json:
        app.out.json({"home": home, "quota": found, "used": used})
    else:
        app.out.facts([(name, f"{value:,}") for name, value in found.items()], 18)
        app.out.line(f"used: {used['bytes']:,} bytes in {used['files']:,} files")
