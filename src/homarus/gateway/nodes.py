"""Nodes: other machines that do what they are told. The owner lets each in, and then approves what it offers; the rest is not asked for.

What a node declares is a claim. It is cut down to what its platform may offer, and of that only what was approved is
ever called. A changed approval ends what is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.text import single_line
from homarus.gateway.devices import Device, Surface
from homarus.gateway.protocol import Close, Code, Refused
from homarus.gateway.scopes import ADMIN, PAIRING, WRITE, Principal, require
from homarus.gateway.settings import NodeCommands

if TYPE_CHECKING:
    from homarus.gateway.connection import Connection
    from homarus.gateway.server import Gateway

MAX_SURFACES, MAX_COMMANDS, MAX_CALLS = 50, 200, 200
CALL_MS, LONGEST_CALL_MS = 30_000, 600_000
_PHONE = "device.info device.status system.notify"
_PERSONAL = "camera.list location.get contacts.search calendar.events reminders.list photos.latest motion.activity motion.pedometer"
# What runs programs or reads files of the node: offered by computers alone, and approved by administrators alone.
HOST = frozenset(
    [
        "system.run",
        "system.run.prepare",
        "system.which",
        "browser.proxy",
        "browser.proxy.upload.v1",
        "fs.listDir",
        "system.execApprovals.get",
        "system.execApprovals.set",
    ]
)
_COMPUTER = HOST | frozenset({"mcp.tools.call.v1", "screen.snapshot", "system.notify", "computer.act"})
_PLATFORMS: dict[str, frozenset[str]] = {
    "watchos": frozenset(_PHONE.split()),
    "ios": frozenset(f"{_PHONE} {_PERSONAL}".split()),
    "android": frozenset(
        f"{_PHONE} {_PERSONAL} notifications.list notifications.actions device.permissions device.health device.apps "
        "callLog.search mobile.ui.observe mobile.ui.act".split()
    ),
    "macos": _COMPUTER
    | frozenset(
        f"{_PHONE} {_PERSONAL} camera.ptz.status device.apps canvas.present canvas.hide canvas.navigate".split()
    ),
    "windows": _COMPUTER | frozenset(f"{_PHONE} camera.list location.get".split()),
    "linux": _COMPUTER,
}
_NAMES = {"darwin": "macos", "mac": "macos", "win": "windows", "ipados": "ios"}
_TALK = frozenset({"talk.ptt.start", "talk.ptt.stop", "talk.ptt.cancel", "talk.ptt.once"})


def offered(platform: str, caps: Iterable[str], declared: Iterable[str], rules: NodeCommands) -> tuple[str, ...]:
    """Return what of its claims a node may offer at all. A platform that nobody knows offers nothing by itself."""
    word = platform.strip().lower()
    known = {**{name: name for name in _PLATFORMS}, **_NAMES}
    family = next((known[name] for name in sorted(known, key=len, reverse=True) if word.startswith(name)), "")
    allowed = _PLATFORMS.get(family, frozenset()) | frozenset(rules.allow)
    if "talk" in caps:
        allowed |= _TALK
    return tuple(sorted(allowed.intersection(declared) - frozenset(rules.deny))[:MAX_COMMANDS])


def needed_scopes(commands: Iterable[str]) -> tuple[str, ...]:
    """Return what somebody must hold to approve these commands."""
    named = frozenset(commands)
    return (PAIRING, ADMIN) if named & HOST else (PAIRING, WRITE) if named else (PAIRING,)


class Calling(Struct):
    """A command that a node was given and has not answered."""

    node_id: str
    connection: str
    answer: asyncio.Future[dict[str, Any]]


class Nodes:
    """The nodes that are connected, and what they are doing."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._here: dict[str, Connection] = {}
        self._calls: dict[str, Calling] = {}
        # Calls by the key that their caller chose: asked twice, a node is told once.
        self._keys: dict[tuple[str, str], asyncio.Future[dict[str, Any]]] = {}

    # Who is here.

    def join(self, connection: Connection) -> Callable[[], None]:
        """Note a node that came; one connection each, the newest. Returns what notes that it left."""
        node_id = connection.principal.device_id
        if old := self._here.get(node_id):
            old.close(Close.POLICY, "the node connected anew")
        self._here[node_id] = connection
        self._check_surface(connection)
        self._tell_presence(node_id, "connect")

        def leave() -> None:
            if self._here.get(node_id) is connection:
                del self._here[node_id]
                self._tell_presence(node_id, "disconnect")
            self._end_calls(lambda call: call.connection == connection.id, "NODE_DISCONNECTED", "the node went away")

        return leave

    def _tell_presence(self, node_id: str, reason: str) -> None:
        told = {"nodeId": node_id, "connected": node_id in self._here, "reason": reason, "ts": self._gateway.now_ms}
        self._gateway.hub.tell("node.presence", told)

    def _claims(self, connection: Connection) -> tuple[str, ...]:
        rules = self._gateway.live.settings.nodes.commands
        return offered(connection.client.platform, connection.caps, connection.commands, rules)

    def _check_surface(self, connection: Connection) -> None:
        """Ask the owner where a node offers more than was approved."""
        devices, node_id = self._gateway.devices, connection.principal.device_id
        device, commands = devices.get(node_id, "node"), self._claims(connection)
        caps = tuple(sorted(single_line(cap, 40) for cap in connection.caps))[:MAX_COMMANDS]
        if device is None:
            return
        fresh = not device.surface_at_ms
        if not fresh and set(commands) <= set(device.commands) and set(caps) <= set(device.caps):
            return
        with devices.changing() as book:
            old = next((each for each in book.surfaces.values() if each.node_id == node_id), None)
            if old is not None and (set(old.commands), set(old.caps)) == (set(commands), set(caps)):
                return
            book.surfaces = {key: each for key, each in book.surfaces.items() if each.node_id != node_id}
            while len(book.surfaces) >= MAX_SURFACES:
                del book.surfaces[min(book.surfaces.values(), key=lambda each: each.ts).request_id]
            wish = Surface(
                self._gateway.ids.uuid(), node_id, caps, commands, devices.now, device.display_name, device.platform
            )
            book.surfaces[wish.request_id] = wish
            devices.write(book)
        self._gateway.hub.tell("node.pair.requested", surface_row(wish))

    # What the owner decides.

    def approve(self, request_id: str, by: Principal) -> Device:
        """Let a node offer what it asked for; what is approved is exactly that, and nobody approves what they may not do."""
        devices = self._gateway.devices
        with devices.changing() as book:
            wish = book.surfaces.get(request_id)
            device = book.nodes.get(wish.node_id) if wish else None
            if wish is None or device is None:
                raise Refused(f"no request {single_line(request_id, 80)} of a node waits")
            for scope in needed_scopes(wish.commands):
                require(by, scope)
            del book.surfaces[request_id]
            given = replace(device, caps=wish.caps, commands=wish.commands, surface_at_ms=devices.now)
            devices.keep(book, given)
        self._decided(wish, "approved")
        return given

    def reject(self, request_id: str) -> Surface:
        devices = self._gateway.devices
        with devices.changing() as book:
            wish = book.surfaces.pop(request_id, None)
            if wish is None:
                raise Refused(f"no request {single_line(request_id, 80)} of a node waits")
            devices.write(book)
        self._decided(wish, "rejected")
        return wish

    def _decided(self, wish: Surface, decision: str) -> None:
        told = {"requestId": wish.request_id, "nodeId": wish.node_id, "decision": decision, "ts": self._gateway.now_ms}
        self._gateway.hub.tell("node.pair.resolved", told)
        if connection := self._here.get(wish.node_id):
            connection.tell_apart("node.pair.resolved", told)
        self._changed(wish.node_id)

    def remove(self, node_id: str, by: Principal) -> Device:
        device = self._gateway.devices.remove(node_id, by, "node")
        self._changed(node_id)
        if connection := self._here.get(node_id):
            connection.close(Close.POLICY, "the node was removed")
        return device

    def _changed(self, node_id: str) -> None:
        self._end_calls(lambda call: call.node_id == node_id, "PAIRING_CHANGED", "what the node may do was changed")

    # What they are told to do.

    def find(self, word: str) -> Device:
        """Return the node that an id, the beginning of one, or a name means. Raises Refused."""
        known = self._gateway.devices.read().nodes
        exact = [each for each in known.values() if word in {each.device_id, each.display_name}]
        found = exact or [each for each in known.values() if len(word) >= 6 and each.device_id.startswith(word)]
        if len(found) != 1:
            raise Refused(f"{'no' if not found else 'more than one'} node is called '{single_line(word, 80)}'")
        return found[0]

    def commands_of(self, device: Device) -> tuple[str, ...]:
        """Return what a node can be told now: what it offers, and of that what was approved."""
        connection = self._here.get(device.device_id)
        claims = self._claims(connection) if connection else device.commands
        return tuple(name for name in claims if name in device.commands)

    async def invoke(self, node: str, command: str, params: Any, *, ms: int | None = None, key: str = "") -> Any:
        """Tell a node to do something and return its answer. Raises Refused."""
        device = self.find(node)
        connection = self._here.get(device.device_id)
        if connection is None:
            raise _unavailable("the node is not connected", "NODE_NOT_CONNECTED", retry=True)
        if command not in self.commands_of(device):
            raise _unavailable(f"the node may not be told {single_line(command, 80)}", "COMMAND_NOT_ALLOWED")
        known = self._keys.get((device.device_id, key)) if key else None
        if known is not None:
            return await asyncio.shield(known)
        if len(self._calls) >= MAX_CALLS:
            raise _unavailable("too many commands are under way", "BUSY", retry=True)
        ident, limit = self._gateway.ids.uuid(), max(1, min(ms or CALL_MS, LONGEST_CALL_MS))
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody need be left to hear it
        self._calls[ident] = Calling(device.device_id, connection.id, answer)
        self._remember((device.device_id, key), answer)
        about = {"id": ident, "nodeId": device.device_id}
        request = {"command": command, "paramsJSON": _text(params), "timeoutMs": limit, "idempotencyKey": key or ident}
        connection.tell_apart("node.invoke.request", about | request)
        try:
            async with asyncio.timeout(limit / 1000):
                return await asyncio.shield(answer)
        except TimeoutError:
            connection.tell_apart("node.invoke.cancel", about)
            refused = _unavailable(f"the node did not answer within {limit} ms", "TIMEOUT", retry=True)
            if not answer.done():
                answer.set_exception(refused)
            raise refused from None
        except asyncio.CancelledError:
            connection.tell_apart("node.invoke.cancel", about)
            raise
        finally:
            self._calls.pop(ident, None)

    def _remember(self, key: tuple[str, str], answer: asyncio.Future[dict[str, Any]]) -> None:
        if key[1]:
            while len(self._keys) >= MAX_CALLS:
                del self._keys[next(iter(self._keys))]
            self._keys[key] = answer

    def answered(self, connection: Connection, ident: str, result: dict[str, Any], error: Any) -> bool:
        """Take a node's answer; only the connection that was asked can give it. False where nobody waits."""
        call = self._calls.get(ident)
        if call is None or call.connection != connection.id or call.answer.done():
            return False
        if error is None:
            call.answer.set_result(result)
        else:
            words = error.get("message") if isinstance(error, dict) else error
            details = {"code": "NODE_ERROR", "nodeError": error}
            told = single_line(str(words or "the node could not do it"), 300)
            call.answer.set_exception(Refused(told, Code.UNAVAILABLE, details=details))
        return True

    def _end_calls(self, which: Callable[[Calling], bool], code: str, why: str) -> None:
        for call in list(self._calls.values()):
            if which(call) and not call.answer.done():
                call.answer.set_exception(_unavailable(why, code, retry=True))

    def alive(self, node_id: str, reason: str) -> None:
        """Note that a node was awake, also where it does not stay connected."""
        devices = self._gateway.devices
        if device := devices.get(node_id, "node"):
            devices.seen(device)
            self._tell_presence(node_id, reason)

    def rows(self) -> list[dict[str, Any]]:
        book = self._gateway.devices.read()
        waiting = {each.node_id: each for each in book.surfaces.values()}
        return [self._row(device, waiting.get(device.device_id)) for device in book.nodes.values()]

    def row(self, device: Device) -> dict[str, Any]:
        return next(row for row in self.rows() if row["nodeId"] == device.device_id)

    def _row(self, device: Device, wish: Surface | None) -> dict[str, Any]:
        connection = self._here.get(device.device_id)
        row = kept_row(device) | {"commands": list(self.commands_of(device))}
        if wish is not None:
            state = "pending-reapproval" if device.surface_at_ms else "pending-approval"
            row |= {"approvalState": state, "pendingRequestId": wish.request_id}
        if connection is not None:
            facts = {"version": connection.client.version, "deviceFamily": connection.client.device_family}
            row |= {key: single_line(value, 80) for key, value in facts.items() if value}
            here = {"connected": True, "connectedAtMs": connection.since, "lastSeenAtMs": connection.since}
            row |= here | {"remoteIp": connection.peer.address} | connection.offers
        return row


def kept_row(device: Device) -> dict[str, Any]:
    """Return what is known of a node that is not here."""
    return {
        "nodeId": device.device_id,
        "displayName": device.display_name or device.client_id,
        "platform": device.platform,
        "clientId": device.client_id,
        "clientMode": device.client_mode,
        "caps": list(device.caps),
        "commands": list(device.commands),
        "paired": True,
        "connected": False,
        "approvalState": "approved" if device.surface_at_ms else "pending-approval",
        "approvedAtMs": device.surface_at_ms or device.created_at_ms,
        "lastSeenAtMs": device.last_seen_at_ms,
        "lastSeenReason": "connect",
    }


def surface_row(wish: Surface) -> dict[str, Any]:
    """Return a request of a node as people see it."""
    return {**msgspec.to_builtins(wish), "requiredApproveScopes": list(needed_scopes(wish.commands))}


def _unavailable(message: str, code: str, *, retry: bool = False) -> Refused:
    return Refused(message, Code.UNAVAILABLE, details={"code": code}, retry_ms=1_000 if retry else None)


def _text(params: Any) -> str | None:
    return None if params is None else msgspec.json.encode(params).decode()
