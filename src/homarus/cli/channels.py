"""`homarus channels`: chat platforms of this home, and why somebody is heard there or not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec

from homarus.channels.channel import Manifest, Setting
from homarus.channels.discovery import lacks, manifests
from homarus.channels.settings import accounts_of, channel_block, fits
from homarus.cli.app import App
from homarus.cli.chat_home import account_id, asked, known_account, manifest_of, once, owner_added, pairing_store
from homarus.cli.group import Group
from homarus.cli.options import filled, with_json
from homarus.cli.output import clean, hushed
from homarus.config.write import Operation, change
from homarus.core.errors import HomarusError, Unknown
from homarus.core.messages import Inbound
from homarus.core.routes import DEFAULT_ACCOUNT, normalize_account_id

Json = dict[str, Any]
LOGIN_SECONDS = 300
TEST_SECONDS = 20.0


@click.group("channels", cls=Group, default="list")
def command() -> None:
    """Chat platforms: add accounts, see how they do, and why somebody is heard or not. Without a word: the list.

    \b
    Examples:
      homarus channels add telegram
      homarus channels add irc --set host=irc.example.net --set nick=crab --allow-from "ann!*@*"
      homarus channels status --probe
      homarus channels explain telegram --from 12345678 --text "hello"
    """


@command.command("list")
@with_json
def list_channels(app: App, as_json: bool = False) -> None:
    """List the platforms that there are, and the accounts of this home."""
    rows: list[Json] = []
    for manifest in manifests().values():
        accounts = accounts_of(app.config, manifest, app.env)
        missing, cure = lacks(manifest)
        found = [
            {
                "accountId": each.id,
                "enabled": each.settings.enabled,
                "configured": each.configured,
                "missing": list(each.missing),
                "dmPolicy": each.settings.dm_policy,
                "default": each.default,
            }
            for each in accounts.values()
        ]
        rows.append({"id": manifest.id, "label": manifest.label, "accounts": found, "lacks": missing, "cure": cure})
    if as_json:
        app.out.json({"channels": rows})
        return
    shown = []
    for row in rows:
        needs = f"{row['lacks']}: {row['cure']}" if row["lacks"] else ""
        if not row["accounts"]:
            shown.append(
                (row["id"], row["label"], "–", needs or app.out.addressed(f"homarus channels add {row['id']}"))
            )
        for each in row["accounts"]:
            state = "off" if not each["enabled"] else "on" if each["configured"] else "incomplete"
            more = f"missing: {', '.join(each['missing'])}" if each["missing"] else needs or f"dm {each['dmPolicy']}"
            shown.append((row["id"], row["label"], f"{each['accountId']} ({state})", more))
    app.out.table(shown, ("channel", "platform", "account", "note"))


@command.command("status")
@click.option("--probe", is_flag=True, help="Ask each platform who the account is.")
@with_json
def status(app: App, probe: bool, as_json: bool) -> int:
    """Show how the accounts do that the running gateway serves. Exit code 1 where one that is on is not connected."""
    with app.out.waiting("asking the gateway"):
        found = asked(app, "channels.status", probe=probe)
    if found is None:
        raise HomarusError("no gateway serves this home, so no channel is connected", cure="homarus gateway run")
    rows = [(name, each) for name in found["channelOrder"] for each in found["channelAccounts"][name]]
    if as_json:
        app.out.json(found)
    elif not rows:
        app.out.hint("No channel is set up. Add one: homarus channels add telegram")
    else:
        app.out.table([_shown(app, name, each) for name, each in rows], ("channel", "account", "state", "as", "note"))
        waiting = found["waiting"]
        if waiting["in"] or waiting["out"]:
            app.out.line(f"{waiting['in']} messages wait to be read, {waiting['out']} to be sent.")
    return 1 if any(each["enabled"] and not each["connected"] for _, each in rows) else 0


def _shown(app: App, name: str, each: Json) -> tuple[str, ...]:
    state, color = ("connected", "green") if each["connected"] else ("running", "yellow")
    if not each["running"]:
        state, color = ("down", "red") if each["enabled"] else ("off", "dim")
    me, probe = each.get("self") or {}, each.get("probe") or {}
    note = each.get("lastError") or ("" if probe.get("ok", True) else f"probe: {probe['error']}")
    note = f"{note} ({each['cure']})" if note and each.get("cure") else note
    # What the platform says of a healthy account, such as a restriction that it puts on it.
    note = note or (probe.get("self") or me).get("note") or ""
    who = me.get("handle") or me.get("name") or me.get("id") or ""
    return name, each["accountId"], app.out.style(state, color), clean(str(who), 40), clean(note, 200)


# Setting up.


@command.command("add")
@click.argument("channel")
@click.option(
    "--account",
    metavar="ID",
    default=DEFAULT_ACCOUNT,
    show_default=True,
    help="A name for it, for a second one.",
    callback=filled,
)
@click.option("--token", metavar="SECRET", help="Its secret, or where it is: $VARIABLE.")
@click.option(
    "--set", "pairs", metavar="KEY=VALUE", multiple=True, help="Another key of the platform; may be repeated."
)
@click.option(
    "--dm-policy", type=click.Choice(["pairing", "allowlist", "open", "disabled"]), help="Who may write alone."
)
@click.option("--allow-from", metavar="ID", multiple=True, help="Somebody who may; may be repeated.", callback=filled)
@click.option("--owner", metavar="ID", help="Your own id there: then the agent knows that it is you.", callback=filled)
@with_json
def add(app: App, channel: str, account: str, as_json: bool, **given: Any) -> None:
    """Add an account of CHANNEL, or change one. What is missing is asked for on a terminal.

    A running gateway connects it at once.
    """
    manifest = manifest_of(channel)
    account = account_id(app, manifest.id, account)
    values = _values(manifest, given["pairs"])
    secrets = [key for key, setting in manifest.settings.items() if setting.secret]
    if given["token"]:
        if not secrets:
            raise click.UsageError(f"{manifest.label} has no token")
        values[secrets[0]] = given["token"]
    known = accounts_of(app.config, manifest, app.env).get(account)
    have, asked_for = {**(known.own if known else {}), **values}, False
    bare: list[str] = []
    for key in _missing(app, manifest, account, have):
        said = None
        if manifest.settings[key].required or (sys.stdin.isatty() and not as_json):
            said, asked_for = _ask(app, manifest, key, manifest.settings[key], as_json=as_json), True
        if said is None:
            bare.append(key)
        else:
            values[key] = said
    if asked_for and not lacks(manifest)[0]:
        _test(app, manifest, account, {**have, **values})
    if given["dm_policy"]:
        values["dmPolicy"] = given["dm_policy"]
    if given["allow_from"]:
        values["allowFrom"] = list(given["allow_from"])
    own = channel_block(app.config, manifest.id)
    base: tuple[Any, ...] = ("channels", manifest.id)
    base += ("accounts", account) if account != DEFAULT_ACCOUNT or (own or {}).get("accounts") else ()
    operations = [Operation("set", (*base, key), value) for key, value in {"enabled": True, **values}.items()]
    if own and account != DEFAULT_ACCOUNT and not own.get("accounts"):
        # With a list of accounts the block's own keys are what they share: the one that they made stays by being listed.
        first = ("channels", manifest.id, "accounts", DEFAULT_ACCOUNT)
        operations.insert(0, Operation("set", (*first, "enabled"), own.get("enabled") is not False))
    if given["owner"]:
        operations.append(owner_added(app, manifest.id, given["owner"]))
    change(app.config, app.env, operations)
    missing, cure = lacks(manifest)
    told = {"ok": True, "channel": manifest.id, "accountId": account, "keys": sorted(values), "lacks": missing}
    app.out.answer(told, f"{manifest.label}: account {account} is in {app.paths.config_path}", as_json=as_json)
    if missing:
        app.out.warn(f"{missing}: {cure}")
    for key in bare:
        app.out.warn(f"{manifest.label} has no {key} yet: homarus channels add {manifest.id} --set {key}=…")
    if not as_json:
        app.out.hint("next: homarus channels status" if _serves(app) else "next: homarus gateway run")


def _missing(app: App, manifest: Manifest, account: str, have: Json) -> list[str]:
    """Return the keys without which the account cannot work: neither they, nor what may stand for them, nor their variable."""
    return [
        key
        for key, setting in manifest.settings.items()
        if (setting.required or setting.unless)
        and all(have.get(name) in (None, "") for name in (key, *setting.unless))
        and not (setting.env and account == DEFAULT_ACCOUNT and app.env.get(setting.env))
    ]


def _serves(app: App) -> bool:
    return (app.paths.own_dir / "gateway.sock").exists()


def _values(manifest: Manifest, pairs: tuple[str, ...]) -> Json:
    values: Json = {}
    for pair in pairs:
        key, mark, text = pair.partition("=")
        setting = manifest.settings.get(key)
        if not mark or setting is None:
            known = ", ".join(manifest.settings) or "none"
            raise click.UsageError(f"'{clean(pair, 60)}' sets no key of {manifest.label}; its keys: {known}")
        values[key] = _typed(key, setting, text)
    return values


def _typed(key: str, setting: Setting, text: str) -> Any:
    value: Any = text
    if setting.type == "strings":
        value = [part.strip() for part in text.split(",") if part.strip()]
    elif setting.type != "string":
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            value = text
    if not fits(value, setting):
        raise click.UsageError(f"{key} must be a {setting.type}")
    return value


def _ask(app: App, manifest: Manifest, key: str, setting: Setting, *, as_json: bool) -> Any:
    """Return what somebody typed for a key; None for one that may come later, because something else may stand for it."""
    if as_json or not sys.stdin.isatty():
        raise click.UsageError(
            f"{manifest.label} needs {key}: --set {key}=… {f'({setting.help})' if setting.help else ''}"
        )
    if about := " ".join(filter(None, (setting.help, "" if setting.required else "(Enter: later)"))):
        app.out.line(app.out.style(about, "dim"))
    while True:
        with hushed():
            said = click.prompt(key, default="", show_default=False, hide_input=setting.secret, err=True).strip()
        if said:
            return _typed(key, setting, said)
        if not setting.required:
            return None
        app.out.warn(f"{manifest.label} needs {key}; Ctrl-C leaves, and nothing is changed")


def _test(app: App, manifest: Manifest, account: str, values: Json) -> None:
    """Ask the platform who the new account is, before anything is kept; a person may keep what does not work yet."""
    import asyncio
    import tempfile
    from pathlib import Path
    from types import SimpleNamespace

    from homarus.channels.discovery import load_entry

    given = {key: setting.default for key, setting in manifest.settings.items()} | values
    for key, setting in manifest.settings.items():
        if setting.secret and given.get(key):
            given[key] = app.config.resolve(given[key])

    async def ask(folder: str) -> Any:
        host: Any = SimpleNamespace(account=account, settings=given, folder=Path(folder), commands={})
        async with asyncio.timeout(TEST_SECONDS):
            return await load_entry(manifest)(host).probe()

    try:
        with app.out.waiting(f"asking {manifest.label}"), tempfile.TemporaryDirectory() as folder:
            me = asyncio.run(ask(folder))
        note = f" ({me.note})" if me.note else ""
        app.out.line(clean(f"{manifest.label} knows it as {me.handle or me.name or me.id}{note}", 300))
    except (HomarusError, OSError, TimeoutError) as problem:
        why = str(problem) or "no answer in time"
        app.out.warn(f"{manifest.label} does not take it: {clean(why, 300)}")
        with hushed():
            keep = click.confirm("Keep it anyway?", default=False, err=True)
        if not keep:
            raise HomarusError("nothing was changed", cure=f"homarus channels add {manifest.id}") from None


@command.command("remove")
@click.argument("channel")
@click.option("--account", metavar="ID", default="", help="Which account.", callback=filled)
@click.option("--delete", is_flag=True, help="Take its keys out of openclaw.json instead of switching it off.")
@with_json
def remove(app: App, channel: str, account: str, delete: bool, as_json: bool) -> None:
    """Switch an account of CHANNEL off. The gateway disconnects it at once; with --delete its keys go, too."""
    manifest = manifest_of(channel)
    block = channel_block(app.config, manifest.id)
    if block is None:
        raise Unknown(f"this home has no account on {manifest.label}", cure="'homarus channels list' shows them")
    account = account_id(app, manifest.id, account)
    names = {normalize_account_id(str(name)): name for name in block.get("accounts") or {}}
    if account not in (names or {DEFAULT_ACCOUNT: ""}):
        raise Unknown(
            f"there is no account {manifest.id}/{clean(account, 40)}", cure="'homarus channels list' shows them"
        )
    path: tuple[Any, ...] = ("channels", manifest.id, *(("accounts", names[account]) if names else ()))
    change(app.config, app.env, [Operation("unset", path) if delete else Operation("set", (*path, "enabled"), False)])
    told = {"ok": True, "channel": manifest.id, "accountId": account, "deleted": delete}
    app.out.answer(told, f"{manifest.id}/{account} is {'gone' if delete else 'switched off'}", as_json=as_json)


@command.command("login")
@click.argument("channel")
@click.option("--account", metavar="ID", default="", help="Which account.", callback=filled)
@with_json
def login(app: App, channel: str, account: str, as_json: bool) -> int:
    """Connect an account of CHANNEL and show what has to be done for that, such as a code to scan."""
    manifest = manifest_of(channel)
    name = manifest.id
    account = known_account(app, name, account)
    tell: Callable[[str], None] = app.out.warn if as_json else app.out.line
    found = asked(app, "web.login.start", channel=name, accountId=account)
    if found is None:
        missing, cure = lacks(manifest)
        if missing:
            raise HomarusError(missing, cure=cure)

        async def who(board: Any) -> Json:
            me = await board.manager.channel(name, account).probe()
            return {"connected": True, "message": f"{name}/{account} is connected as {me.handle or me.name or me.id}"}

        found = once(app, name, account, who)
    told, waited = "", 0
    while not found["connected"] and waited < LOGIN_SECONDS:
        words = f"{found['message']}\n{found.get('terminal') or ''}".rstrip()
        if words != told:
            tell(told := words)
        found = asked(app, "web.login.wait", channel=name, accountId=account, timeoutMs=2000)
        waited += 2
    app.out.answer({"channel": name, "accountId": account, **found}, clean(found["message"], 500), as_json=as_json)
    return 0 if found["connected"] else 1


@command.command("logout")
@click.argument("channel")
@click.option("--account", metavar="ID", default="", help="Which account.", callback=filled)
@with_json
def logout(app: App, channel: str, account: str, as_json: bool) -> None:
    """Disconnect an account of CHANNEL and forget its login. Keys in openclaw.json stay; 'remove' takes them."""
    import shutil

    name = manifest_of(channel).id
    folder = app.paths.own_dir / "channels" / name / account_id(app, name, account)
    # What an account left that was taken out of the file can still be forgotten.
    account = folder.name if folder.is_dir() else known_account(app, name, account)
    told = asked(app, "channels.logout", channel=name, accountId=account)
    if told is None:
        told = {"channel": name, "accountId": account, "cleared": folder.is_dir(), "loggedOut": True}
        shutil.rmtree(folder, ignore_errors=True)
    words = "its login is forgotten" if told["cleared"] else "there was no login to forget"
    app.out.answer(told, f"{name}/{account}: {words}", as_json=as_json)


@command.command("explain")
@click.argument("channel")
@click.option(
    "--from", "sender", required=True, metavar="ID", help="Who writes, by the platform's id.", callback=filled
)
@click.option("--text", default="hello", show_default=True, help="What they write.")
@click.option("--group", metavar="ID", default="", help="In which group or room; without it, alone with the agent.")
@click.option("--thread", metavar="ID", default="", help="In which thread.")
@click.option("--mentioned", is_flag=True, help="The agent is mentioned.")
@click.option("--bot", is_flag=True, help="A bot writes it.")
@click.option("--account", metavar="ID", default="", help="To which account.", callback=filled)
@with_json
def explain(app: App, channel: str, sender: str, as_json: bool, **given: Any) -> int:
    """Say what would become of a message, gate by gate, without sending anything. Exit code 1 where it is not heard."""
    from homarus.channels.gatekeeper import Gatekeeper
    from homarus.sessions.routing import route_for

    name = manifest_of(channel).id
    account = known_account(app, name, given["account"])
    inbound = Inbound(
        "explain",
        name,
        given["text"],
        sender=sender,
        account=account,
        peer=given["group"] or sender,
        chat_type="group" if given["group"] else "direct",
        thread=given["thread"],
        mentioned=given["mentioned"],
        from_bot=given["bot"],
    )
    keeper = Gatekeeper(app.config, app.env, pairing_store(app), app.paths.own_dir / "channels", app.clock)
    decision = keeper.explain(inbound)
    facts: Json = {"outcome": decision.outcome, "trust": decision.trust, "reason": decision.reason}
    facts["gates"] = [msgspec.to_builtins(gate) for gate in decision.gates]
    if decision.admitted:
        facts["session"] = str(route_for(decision.inbound, app.config).session_key)
    if as_json:
        app.out.json(facts)
        return 0 if decision.admitted else 1
    for gate in decision.gates:
        mark = app.out.style("✓", "green") if gate.passed else app.out.style("✗", "red")
        app.out.line(f"{mark} {app.out.style(gate.name, 'bold')}: {clean(gate.why, 200)}")
    words = {
        "heard": f"heard as {decision.trust.value}, in session {facts.get('session', '')}",
        "kept": "kept as context until somebody speaks to the agent",
        "asked": "a stranger: they get a pairing code, once",
        "refused": "not heard",
    }
    app.out.line(app.out.style(words[decision.outcome], "green" if decision.admitted else "yellow"))
    return 0 if decision.admitted else 1
