"""Who comes in, and with what rights. The only place where a credential becomes a principal, and where a principal is asked.

No address gives rights by itself: every way in has a credential, also on this machine. A request can only narrow what
the server's own records grant.
"""

from __future__ import annotations

import secrets
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.clock import Clock, Ids
from homarus.core.text import single_line
from homarus.gateway.devices import Devices, Pending, Proof, digest, verify
from homarus.gateway.limits import Failures
from homarus.gateway.live import Live
from homarus.gateway.peer import Peer
from homarus.gateway.protocol import Code, Refused
from homarus.gateway.scopes import ALL, Principal, implied, narrowed
from homarus.gateway.settings import GatewaySettings

# Of clients without a device, those that keep their scopes; all others are connected and may do nothing.
_WITHOUT_DEVICE = frozenset({("cli", "cli"), ("gateway-client", "backend")})
_PAGES = frozenset({"openclaw-control-ui", "webchat-ui", "webchat", "homarus-web"})
# The kinds of credentials by which failures are counted apart.
SECRET, DEVICE, CODE = "secret", "device", "code"


INVITED = "bootstrap"
ROLES = ("operator", "node")


class ClientInfo(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    id: str
    version: str = ""
    mode: str = ""
    platform: str = ""
    display_name: str = ""
    build_id: str = ""
    device_family: str = ""
    model_identifier: str = ""
    time_zone: str = ""
    instance_id: str = ""


class Offer(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The credentials that a client gives."""

    token: str = ""
    password: str = ""
    device_token: str = ""
    bootstrap_token: str = ""
    approval_runtime_token: str = ""
    agent_runtime_identity_token: str = ""


class Hello(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a client says of itself when it connects."""

    min_protocol: int
    max_protocol: int
    client: ClientInfo
    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    permissions: dict[str, Any] = {}
    path_env: str = ""
    role: str = "operator"
    scopes: tuple[str, ...] = ()
    model_catalog: dict[str, Any] = {}
    device: Proof | None = None
    auth: Offer = Offer()
    locale: str = ""
    user_agent: str = ""
    computer_use: Any = None
    worker_runs: Any = None


class Challenge(Struct, frozen=True):
    nonce: str
    ts: int


class Issued(Struct, frozen=True, rename="camel"):
    device_token: str
    role: str
    scopes: tuple[str, ...]
    issued_at_ms: int


class Admission(Struct, frozen=True):
    principal: Principal
    # A token that the device just got; shown once.
    device_token: str = ""
    # Somebody now waits for the owner's approval.
    asked: Pending | None = None
    # Tokens for other roles of the same device.
    tokens: tuple[Issued, ...] = ()


class _Credential(Struct, frozen=True):
    method: str
    proof: str
    allowed: frozenset[str]
    user: str = ""


class Door:
    """Lets connections and requests in, or says why not."""

    def __init__(self, live: Live, devices: Devices, clock: Clock, ids: Ids) -> None:
        self.live = live
        self.devices = devices
        self.failures = Failures(clock.monotonic)
        self._ids = ids

    async def admit(self, peer: Peer, hello: Hello, challenge: Challenge) -> Admission:
        """Return who a socket belongs to. Raises Refused."""
        settings = self.live.settings
        _check_way(peer)
        if hello.role not in ROLES:
            raise Refused("invalid role")
        if (hello.client.id in _PAGES and not peer.origin and not peer.local) or (peer.origin and not peer.same_origin):
            raise Refused("origin not allowed", details={"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED"})
        if hello.role == "node" and (hello.device is None or peer.origin):
            details = {"code": "DEVICE_IDENTITY_REQUIRED"}
            raise Refused("a node needs a device identity, and is no page", Code.NOT_PAIRED, details=details)
        if peer.local and hello.role == "operator":
            return Admission(Principal(implied(hello.scopes) if hello.scopes else ALL, "local"))
        if hello.device is not None:
            _check_device(hello, hello.device, challenge)
        credential = await self._credential(peer, hello.auth, hello.device, settings, hello.role)
        if hello.role == "node" and hello.device is not None:
            return self._node(peer, hello, hello.device, credential)
        if hello.device is None:
            return self._without_device(peer, hello, credential)
        return self._with_device(peer, hello, hello.device, credential)

    async def bearer(self, peer: Peer, authorization: str) -> Principal:
        """Return who an HTTP request belongs to. Raises Refused."""
        _check_way(peer)
        if peer.origin and not peer.same_origin and not peer.local:
            raise Refused("origin not allowed", details={"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED"})
        if peer.local:
            return Principal(ALL, "local")
        word, _, token = authorization.partition(" ")
        offer = Offer(token=token.strip() if word.lower() == "bearer" else "")
        found = await self._credential(peer, offer, None, self.live.settings, "operator")
        capped = peer.headers.get("x-openclaw-scopes") if found.user else None
        allowed = found.allowed if capped is None else narrowed(capped.replace(",", " ").split(), found.allowed)
        return Principal(allowed, found.method, user=found.user, proof=found.proof)

    async def still_holds(self, principal: Principal) -> bool:
        """Say whether what proved a principal is still the secret, the token or the name that it was."""
        if principal.method == "local":
            return True
        if principal.method == "device-token":
            device = self.devices.get(principal.device_id, principal.role)
            return device is not None and device.token is not None and device.token.digest == principal.proof
        if principal.role == "node" and self.devices.get(principal.device_id, "node") is None:
            return False
        if principal.method == "trusted-proxy":
            return self.live.settings.auth.mode == "trusted-proxy"
        secret = await self.live.secret()
        return bool(secret) and secrets.compare_digest(digest(secret), principal.proof)

    async def _credential(
        self, peer: Peer, offer: Offer, device: Proof | None, settings: GatewaySettings, role: str
    ) -> _Credential:
        """Check everything that was offered. The limit stands around all of it, whatever else is offered beside."""
        auth, rules = settings.auth, settings.auth.rate_limit
        spared = peer.direct and rules.exempt_loopback
        if not spared:
            for kind in (SECRET, DEVICE, CODE):
                self.failures.check(peer.name, kind)
        if auth.mode == "trusted-proxy" and peer.proxied:
            return _named_by_proxy(peer, settings)
        secret, shared = await self.live.secret(), [text for text in (offer.token, offer.password) if text]
        matches = [secrets.compare_digest(digest(text), digest(secret)) for text in shared] if secret else []
        if any(matches):
            self.failures.forgive(peer.name, SECRET)
            method = "token" if auth.mode in {"token", "none"} else "password"
            return _Credential(method, digest(secret), implied(auth.secret_scopes))
        tokens = [text for text in (offer.device_token, offer.token) if text] if device is not None else []
        for token in tokens:
            found = self.devices.by_token(device.id, token, role) if device is not None else None
            if found is not None and found.token is not None:
                self.failures.forgive(peer.name, DEVICE)
                return _Credential("device-token", found.token.digest, narrowed(found.token.scopes, found.scopes))
        invited = self.devices.redeem(offer.bootstrap_token) if offer.bootstrap_token and device is not None else None
        if invited is not None:
            return _Credential(INVITED, "", invited)
        if not spared:
            for kind, tried in ((SECRET, shared), (DEVICE, tokens), (CODE, offer.bootstrap_token)):
                if tried:
                    self.failures.failed(peer.name, kind, rules)
        raise _wrong(offer, auth.mode, device is not None, configured=bool(secret))

    def _without_device(self, peer: Peer, hello: Hello, credential: _Credential) -> Admission:
        page = peer.same_origin and peer.loopback
        if not (peer.direct or page or credential.method == "trusted-proxy"):
            details = {"code": "DEVICE_IDENTITY_REQUIRED"}
            raise Refused("a device identity is required from other machines", Code.NOT_PAIRED, details=details)
        keeps = page or credential.user or (hello.client.id, hello.client.mode) in _WITHOUT_DEVICE
        scopes = narrowed(hello.scopes, credential.allowed) if keeps else frozenset[str]()
        return Admission(Principal(scopes, credential.method, user=credential.user, proof=credential.proof))

    def _with_device(self, peer: Peer, hello: Hello, proof: Proof, credential: _Credential) -> Admission:
        device, token = self.devices.get(proof.id), ""
        if credential.method == INVITED:
            return self._invited(peer, hello, proof, credential)
        wish = _wish(peer, hello, proof, "scope-upgrade" if device else "not-paired")
        if device is None and peer.direct:
            device, token = self.devices.pair(wish, narrowed(hello.scopes, credential.allowed), "silent")
        local = peer.direct or (peer.loopback and peer.same_origin) or credential.method == "trusted-proxy"
        if device is None and not local:
            raise _not_paired(self.devices.ask(wish))
        # Both are grants of the server's own: what the secret gives, and what the owner approved for this device.
        allowed = credential.allowed
        if device is not None and credential.method != "device-token":
            allowed |= implied(device.scopes)
        granted = narrowed(hello.scopes, allowed)
        asked = self.devices.ask(wish) if implied(hello.scopes) - granted else None
        if device is not None:
            self.devices.seen(device)
            if device.token is None and credential.method != "device-token":
                device, token = self.devices.rotate(
                    device.device_id, None, Principal(implied(device.scopes), "", proof.id)
                )
        principal = Principal(granted, credential.method, proof.id, credential.user, credential.proof)
        return Admission(principal, token, asked)

    def _node(self, peer: Peer, hello: Hello, proof: Proof, credential: _Credential) -> Admission:
        """Let a node in that the owner approved as one; no secret and no address does that by itself.

        It has no scopes: what it may offer, and when it is asked for it, is decided in `nodes`.
        """
        device, token = self.devices.get(proof.id, "node"), ""
        more: tuple[Issued, ...] = ()
        if device is None and credential.method == INVITED:
            device, token = self.devices.pair(_wish(peer, hello, proof, "setup-code"), frozenset(), "setup-code")
            # An invited phone is also its owner's client; a device that is one already stays what it is.
            if self.devices.get(proof.id) is None:
                client = replace(_wish(peer, hello, proof, "setup-code"), role="operator")
                made, own = self.devices.pair(client, credential.allowed, "setup-code")
                more = (Issued(own, "operator", made.scopes, made.created_at_ms),)
        if device is None:
            known = self.devices.get(proof.id) is not None
            raise _not_paired(self.devices.ask(_wish(peer, hello, proof, "role-upgrade" if known else "not-paired")))
        self.devices.seen(device)
        if device.token is None:
            device, token = self.devices.rotate(proof.id, None, Principal(ALL, "", proof.id), "node")
        assert device.token is not None
        invited = credential.method == INVITED
        method, held = ("device-token", device.token.digest) if invited else (credential.method, credential.proof)
        return Admission(Principal(frozenset(), method, proof.id, proof=held, role="node"), token, tokens=more)

    def _invited(self, peer: Peer, hello: Hello, proof: Proof, credential: _Credential) -> Admission:
        """Pair a device that brought an invitation; from then on it is known by its own token."""
        wish = _wish(peer, hello, proof, "setup-code")
        granted = narrowed(hello.scopes or credential.allowed, credential.allowed)
        device, token = self.devices.pair(wish, granted, "setup-code")
        assert device.token is not None
        return Admission(Principal(granted, "device-token", proof.id, proof=device.token.digest), token)


def _check_way(peer: Peer) -> None:
    if peer.unattributed:
        details = {"code": "AUTH_UNAUTHORIZED", "authReason": "proxy_attribution_required"}
        raise Refused("proxy_attribution_required: the proxy before this client is not listed", details=details)


def _check_device(hello: Hello, proof: Proof, challenge: Challenge) -> None:
    if not proof.nonce:
        raise Refused("device nonce is missing", details={"code": "DEVICE_AUTH_NONCE_REQUIRED"})
    if proof.nonce != challenge.nonce:
        raise Refused("device nonce is not this connection's", details={"code": "DEVICE_AUTH_NONCE_MISMATCH"})
    if proof.signed_at != challenge.ts:
        raise Refused("device signature has another time", details={"code": "DEVICE_AUTH_SIGNATURE_EXPIRED"})
    client, scopes = hello.client, ",".join(hello.scopes)
    said = (proof.id, client.id, client.mode, hello.role, scopes, str(proof.signed_at))
    tokens = dict.fromkeys((hello.auth.token, hello.auth.device_token, hello.auth.bootstrap_token))
    problem: Refused | None = None
    for token in tokens:
        try:
            verify(proof, (*said, token, proof.nonce), client.platform, client.device_family)
        except Refused as refused:
            problem = refused
        else:
            return
    if problem is not None:
        raise problem


def _named_by_proxy(peer: Peer, settings: GatewaySettings) -> _Credential:
    rules = settings.auth.trusted_proxy
    user = single_line(peer.headers.get(rules.user_header.lower(), ""), 200) if rules.user_header else ""
    missing = [name for name in rules.required_headers if not peer.headers.get(name.lower(), "").strip()]
    if not user or missing or (rules.allow_users and user not in rules.allow_users):
        raise Refused("the proxy names nobody who may come in", details={"code": "AUTH_UNAUTHORIZED"})
    return _Credential("trusted-proxy", "", implied(settings.auth.identity_scopes.get(user, ())), user)


def _wish(peer: Peer, hello: Hello, proof: Proof, reason: str) -> Pending:
    client = hello.client
    return Pending(
        request_id="",
        device_id=proof.id,
        public_key=proof.public_key,
        scopes=tuple(sorted(ALL.intersection(hello.scopes))),
        reason=reason,
        ts=0,
        display_name=single_line(client.display_name, 80),
        platform=single_line(client.platform, 40),
        client_id=single_line(client.id, 40),
        client_mode=single_line(client.mode, 20),
        remote_ip=peer.address,
        role=hello.role,
    )


def _not_paired(wish: Pending) -> Refused:
    details = {
        "code": "PAIRING_REQUIRED",
        "reason": wish.reason,
        "requestId": wish.request_id,
        "deviceId": wish.device_id,
        "requestedScopes": list(wish.scopes),
        "requestedRole": wish.role,
        "remediationHint": f"on the gateway's machine: homarus devices approve {wish.request_id}",
    }
    return Refused("pairing required: the owner must approve this device", Code.NOT_PAIRED, details=details)


def _wrong(offer: Offer, mode: str, device: bool, *, configured: bool) -> Refused:
    """Return what is wrong with the credentials, in the words that clients know."""
    if not (offer.token or offer.password or offer.device_token or offer.bootstrap_token):
        if not device:
            missing = {"code": "DEVICE_IDENTITY_REQUIRED"}
            return Refused("a credential is required", Code.NOT_PAIRED, details=missing)
        return Refused("a credential is required", details={"code": "AUTH_REQUIRED"})
    word = "PASSWORD" if mode in {"password", "trusted-proxy"} else "TOKEN"
    if offer.bootstrap_token and not (offer.token or offer.password or offer.device_token):
        code = "AUTH_BOOTSTRAP_TOKEN_INVALID"
    elif offer.device_token and not (offer.token or offer.password):
        code = "AUTH_DEVICE_TOKEN_MISMATCH"
    else:
        code = f"AUTH_{word}_MISMATCH" if configured else f"AUTH_{word}_NOT_CONFIGURED"
    details: dict[str, Any] = {
        "code": code,
        "authReason": code.removeprefix("AUTH_").lower(),
        "canRetryWithDeviceToken": device,
        "recommendedNextStep": "update_auth_credentials",
    }
    return Refused("unauthorized: the credential is not the gateway's", details=details)
