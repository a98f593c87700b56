"""Channels and what is sent there: how each account does, start and stop, messages that a client sends."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from homarus.channels.channel import Identity
from homarus.channels.manager import Status
from homarus.channels.settings import default_account
from homarus.channels.support import SCAN, Note
from homarus.core.errors import HomarusError
from homarus.core.routes import normalize_account_id
from homarus.core.text import single_line
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.protocol import Code, Refused
from homarus.gateway.scopes import ADMIN, READ, WRITE
from homarus.runtime.chat_actions import Queued, act_on
from homarus.runtime.switchboard import Switchboard, Target

Json = dict[str, Any]
PROBE_SECONDS, LONGEST_WAIT, LOOK_SECONDS = 10.0, 300.0, 0.5
MOST_FOUND = 500


class StatusParams(Params, frozen=True):
    probe: bool = False
    timeout_ms: int = int(PROBE_SECONDS * 1000)
    channel: str = ""


class AccountParams(Params, frozen=True, kw_only=True):
    channel: str
    account_id: str = ""


class SendParams(Params, frozen=True, kw_only=True):
    to: str
    idempotency_key: str
    message: str = ""
    media_url: str = ""
    media_urls: tuple[str, ...] = ()
    channel: str = ""
    account_id: str = ""
    thread_id: str | int = ""
    reply_to_id: str = ""
    as_voice: bool = False
    silent: bool = False
    PASSED = passed(
        "sessionKey agentId gifPlayback forceDocument asDocument mirror bestEffort buffer filename contentType"
    )


class PollParams(Params, frozen=True, kw_only=True):
    to: str
    question: str
    options: tuple[str, ...]
    idempotency_key: str
    channel: str = ""
    account_id: str = ""
    thread_id: str | int = ""
    PASSED = passed("maxSelections durationSeconds durationHours silent isAnonymous")


class ActionParams(Params, frozen=True, kw_only=True):
    channel: str
    action: str
    idempotency_key: str
    params: Json = msgspec.field(default_factory=dict)
    account_id: str = ""
    # Who asks, and from where, is what the connection says, not what the parameters claim.
    PASSED = passed(
        "requesterSenderId requesterAccountId sessionKey sessionId agentId toolContext senderIsOwner inboundTurnKind "
        "conversationReadOrigin reply"
    )


class DirectoryParams(Params, frozen=True, kw_only=True):
    channel: str
    account_id: str = ""
    query: str = ""
    limit: int = 50


class LoginParams(Params, frozen=True):
    channel: str = "whatsapp"
    account_id: str = ""
    timeout_ms: int = 30_000
    force: bool = False
    PASSED = passed("verbose currentQrDataUrl sessionKey")


def _board(call: Call) -> Switchboard:
    return call.gateway.switchboard


@contextmanager
def _said() -> Iterator[None]:
    """What is wrong is told to whoever asked; a message that waits is no failure of theirs."""
    try:
        yield
    except Queued as waits:
        raise Refused(str(waits), Code.UNAVAILABLE, details={"code": "OUTBOUND_DELIVERY_QUEUED"}) from None
    except HomarusError as problem:
        raise Refused(str(problem)) from None


def row(status: Status, probe: Json | None = None) -> Json:
    """Return an account as clients know it."""
    facts: Json = {
        "accountId": status.account_id,
        "name": status.name,
        "enabled": status.enabled,
        "configured": status.configured,
        "running": status.running,
        "connected": status.connected,
        "restartPending": status.enabled and status.configured and not status.running,
        "reconnectAttempts": status.restarts,
        "lastStartAt": status.last_start_at,
        "lastInboundAt": status.last_inbound_at,
        "lastOutboundAt": status.last_outbound_at,
        "lastError": status.last_error,
        "cure": status.cure,
        "self": _identity(status.identity) if status.identity else None,
        "probe": probe,
    }
    flags = {"enabled", "configured", "running", "connected"}
    return {key: value for key, value in facts.items() if value or key in flags}


def _identity(identity: Identity) -> Json:
    facts = {"id": identity.id, "name": identity.name, "handle": identity.handle, "note": identity.note}
    return {key: value for key, value in facts.items() if value}


async def _probed(board: Switchboard, status: Status, seconds: float) -> Json:
    try:
        async with asyncio.timeout(seconds):
            found = await board.manager.channel(status.channel, status.account_id).probe()
    except TimeoutError:
        return {"ok": False, "error": f"no answer within {seconds:g} s"}
    except Exception as problem:  # noqa: BLE001 - a platform's library may raise anything
        return {"ok": False, "error": single_line(str(problem), 300)}
    return {"ok": True, "self": _identity(found)}


async def status_of(board: Switchboard, *, probe: bool = False, channel: str = "", seconds: float = 10.0) -> Json:
    """Return how all accounts do, in the shape that clients know."""
    rows = [each for each in board.status() if channel in ("", each.channel)]
    probes: list[Json | None] = [None] * len(rows)
    if probe:
        probes = list(await asyncio.gather(*(_probed(board, each, seconds) for each in rows)))
    order = list(dict.fromkeys(each.channel for each in rows))
    accounts: dict[str, list[Json]] = {name: [] for name in order}
    for each, found in zip(rows, probes, strict=True):
        accounts[each.channel].append(row(each, found))
    labels = {name: board.known[name].label for name in order}
    issues = [
        {"channel": each.channel, "accountId": each.account_id, "kind": "runtime", "message": each.last_error}
        | ({"fix": each.cure} if each.cure else {})
        for each in rows
        if each.last_error
    ]
    return {
        "channelOrder": order,
        "channelLabels": labels,
        "channelMeta": [{"id": name, "label": label, "detailLabel": label} for name, label in labels.items()],
        "channels": {
            name: {flag: any(each[flag] for each in found) for flag in ("configured", "running", "connected")}
            for name, found in accounts.items()
        },
        "channelAccounts": accounts,
        "channelDefaultAccountId": {name: default_account(board.config, name) for name in order},
        "statusIssues": issues,
        "waiting": {"in": board.intake.waiting, "out": len(board.outbox.pending())},
    }


async def status(call: Call, params: StatusParams) -> Json:
    seconds = min(max(params.timeout_ms, 100), 60_000) / 1000
    found = await status_of(_board(call), probe=params.probe, channel=params.channel, seconds=seconds)
    return {"ts": call.gateway.now_ms, **found}


def _account(board: Switchboard, params: AccountParams | DirectoryParams | LoginParams) -> tuple[str, str]:
    found = normalize_account_id(params.account_id or default_account(board.config, params.channel))
    if board.manager.account(params.channel, found) is None:
        raise Refused(f"there is no account {single_line(params.channel, 40)}/{single_line(found, 40)}")
    return params.channel, found


async def start(call: Call, params: AccountParams) -> Json:
    channel, account = _account(_board(call), params)
    with _said():
        await _board(call).manager.restart(channel, account)
    return {"channel": channel, "accountId": account, "started": True}


async def stop(call: Call, params: AccountParams) -> Json:
    channel, account = _account(_board(call), params)
    with _said():
        await _board(call).manager.halt(channel, account)
    return {"channel": channel, "accountId": account, "stopped": True}


async def logout(call: Call, params: AccountParams) -> Json:
    """End an account and forget its login; what stands in the configuration stays there."""
    channel, account = _account(_board(call), params)
    with _said():
        await _board(call).manager.halt(channel, account)
    folder = call.client.home.config.paths.own_dir / "channels" / channel / account
    cleared = folder.is_dir()
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return {"channel": channel, "accountId": account, "cleared": cleared, "loggedOut": True}


def _target(board: Switchboard, to: str, channel: str, account: str, thread: str | int) -> Target:
    with _said():
        return board.target(channel, to, account, str(thread))


async def send(call: Call, params: SendParams) -> Json:
    board = _board(call)
    where = _target(board, params.to, params.channel, params.account_id, params.thread_id)
    given = {
        "message": params.message,
        "media": params.media_url,
        "mediaUrls": params.media_urls,
        "replyTo": params.reply_to_id,
        "asVoice": params.as_voice,
        "silent": params.silent,
    }
    with _said():
        told = await act_on(board, where, "send", given, f"send.{params.idempotency_key}")
    return {"runId": params.idempotency_key, **told}


async def poll(call: Call, params: PollParams) -> Json:
    board = _board(call)
    where = _target(board, params.to, params.channel, params.account_id, params.thread_id)
    given = {"pollQuestion": params.question, "pollOption": params.options}
    with _said():
        told = await act_on(board, where, "poll", given, f"send.{params.idempotency_key}")
    return {"runId": params.idempotency_key, **told}


async def action(call: Call, params: ActionParams) -> Json:
    """Do what `homarus message …` asks."""
    board, given = _board(call), params.params
    to, account = (
        str(given.get("target") or given.get("to") or ""),
        params.account_id or str(given.get("accountId") or ""),
    )
    where = _target(board, to, params.channel, account, str(given.get("threadId") or ""))
    with _said():
        return await act_on(board, where, params.action, given, f"send.{params.idempotency_key}")


async def directory(call: Call, params: DirectoryParams) -> Json:
    """Return people and groups that an account can write to."""
    board = _board(call)
    channel, account = _account(board, params)
    with _said():
        async with asyncio.timeout(PROBE_SECONDS * 3):
            found = await board.manager.channel(channel, account).directory(params.query)
    entries = [_identity(each) for each in found[: min(max(1, params.limit), MOST_FOUND)]]
    return {"channel": channel, "accountId": account, "entries": entries}


async def login_start(call: Call, params: LoginParams) -> Json:
    """Start an account that is logged in with another device, and say what has to be done there."""
    board = _board(call)
    channel, account = _account(board, params)
    now = _status(board, channel, account)
    if now.connected and not params.force:
        return {"message": f"{channel}/{account} is connected already", "connected": True}
    with _said():
        await board.manager.restart(channel, account)
    until = call.gateway.clock.monotonic() + min(max(params.timeout_ms, 1000), 120_000) / 1000
    while call.gateway.clock.monotonic() < until:
        now = _status(board, channel, account)
        if now.connected or now.last_error:
            break
        await call.gateway.clock.sleep(LOOK_SECONDS)
    return _login(call, now, channel, account)


async def login_wait(call: Call, params: LoginParams) -> Json:
    """Wait until an account is connected."""
    board = _board(call)
    channel, account = _account(board, params)
    until = call.gateway.clock.monotonic() + min(max(params.timeout_ms, 0), int(LONGEST_WAIT * 1000)) / 1000
    while not (now := _status(board, channel, account)).connected and call.gateway.clock.monotonic() < until:
        await call.gateway.clock.sleep(LOOK_SECONDS)
    return _login(call, now, channel, account)


def _status(board: Switchboard, channel: str, account: str) -> Status:
    return next(each for each in board.status() if (each.channel, each.account_id) == (channel, account))


def _login(call: Call, now: Status, channel: str, account: str) -> Json:
    if now.connected:
        return {"connected": True, "message": f"{channel}/{account} is connected"}
    words = " ".join(part for part in (now.last_error, now.cure) if part)
    # A code to scan, where the platform wants one: as text, as a picture for a page and as characters for a terminal.
    code = Note(call.client.home.config.paths.own_dir / "channels" / channel / account, SCAN).read()
    shown = {key: code[key] for key in ("qr", "qrDataUrl", "terminal") if isinstance(code.get(key), str)}
    return {"connected": False, "message": words or f"{channel}/{account} is starting", **shown}


METHODS = {
    "channels.status": Method(READ, status, StatusParams),
    "channels.start": Method(ADMIN, start, AccountParams, write=True),
    "channels.stop": Method(ADMIN, stop, AccountParams, write=True),
    "channels.logout": Method(ADMIN, logout, AccountParams, write=True),
    "send": Method(WRITE, send, SendParams),
    "poll": Method(WRITE, poll, PollParams),
    "message.action": Method(WRITE, action, ActionParams),
    "directory.list": Method(READ, directory, DirectoryParams),
    "web.login.start": Method(ADMIN, login_start, LoginParams, write=True),
    "web.login.wait": Method(ADMIN, login_wait, LoginParams),
}
