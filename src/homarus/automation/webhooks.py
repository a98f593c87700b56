"""Web hooks without the web: who may call, what a call asks for, and what of it the model is shown. Pure.

A call is authenticated by its token, and still nobody trusts its words: they are wrapped, and the turn that reads them has
the rights of a stranger. The routes themselves are the gateway's.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from homarus.config.convert import one_of
from homarus.core.errors import HomarusError
from homarus.core.messages import Trust
from homarus.core.patterns import late
from homarus.core.text import printable, single_line
from homarus.tools.untrusted import wrapped

Json = dict[str, Any]
MAX_BODY = 262_144
MAX_TEXT = 50_000
MAX_VALUE = 20_000
SHORTEST_TOKEN = 24
_EXPRESSION = late(r"\{\{\s*([^{}]{1,200}?)\s*\}\}")
_STEP = late(r"[^.\[\]]+|\[\d{1,6}\]")
# What no template reaches, however a body names it.
_HIDDEN_HEADERS = frozenset({"authorization", "cookie", "x-openclaw-token", "proxy-authorization"})
_SAFE_SEGMENT = late(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Refused(HomarusError):
    """The caller acts. `status` is what the route answers."""

    def __init__(self, status: int, message: str, *, cure: str = "") -> None:
        super().__init__(message, cure=cure)
        self.status = status


class Match(Struct, frozen=True, rename="camel"):
    path: str = ""
    source: str = ""


class Signature(Struct, frozen=True, rename="camel"):
    """How a sender signs its bodies, beside the token or instead of it: an HMAC of the bytes in a header."""

    secret: Any = None
    header: str = "x-hub-signature-256"
    prefix: str = "sha256="
    algorithm: Literal["sha256", "sha1", "sha512"] = "sha256"
    encoding: Literal["hex", "base64"] = "hex"


class Mapping_(Struct, frozen=True, rename="camel"):  # noqa: N801 - the plain name is taken by the standard library
    """One entry of `hooks.mappings`."""

    id: str = ""
    match: Match = Match()
    action: Literal["agent", "wake"] = "agent"
    wake_mode: Literal["now", "next-heartbeat"] = "now"
    name: str = ""
    agent_id: str = ""
    session_key: str = ""
    message_template: str = ""
    text_template: str = ""
    deliver: bool = True
    channel: str = ""
    to: str = ""
    model: str = ""
    thinking: str = ""
    timeout_seconds: float | None = None
    allow_unsafe_external_content: bool = False
    signature: Signature | None = None
    transform: Any = None


class HookSettings(Struct, frozen=True, rename="camel"):
    """`hooks`, but for `hooks.internal`: web addresses at which other programs wake the agent or give it work."""

    enabled: bool = False
    token: Any = None
    path: str = "/hooks"
    max_body_bytes: int = MAX_BODY
    default_session_key: str = ""
    allow_request_session_key: bool = False
    allowed_session_key_prefixes: list[str] | None = None
    allowed_agent_ids: list[str] | None = None
    presets: list[Annotated[str, one_of(("gmail",))]] = []
    mappings: list[Mapping_] = []


class HookOrder(Struct, frozen=True, kw_only=True):
    """What a call asks for, checked. Its text is ready for the model."""

    action: Literal["agent", "wake"]
    ident: str
    text: str
    name: str = "hook"
    now: bool = True
    agent_id: str = ""
    session: str = ""
    trust: Trust = Trust.EXTERNAL
    taint: tuple[str, ...] = ()
    # Where the answer goes; empty for nowhere.
    target: Json = {}
    facts: Json = {}


class Call(Struct, frozen=True, kw_only=True):
    """One request, as the route hands it on. Header names are lower case."""

    path: str  # below `hooks.path`
    body: bytes
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    now: str = ""


GMAIL = Mapping_(
    id="gmail",
    match=Match(path="gmail"),
    name="Gmail",
    session_key="hook:gmail:{{messages[0].id}}",
    message_template=(
        "New mail from {{messages[0].from}}\nSubject: {{messages[0].subject}}\n{{messages[0].snippet}}\n{{messages[0].body}}"
    ),
)
PRESETS = {"gmail": GMAIL}


def authorize(call: Call, token: str, gateway_token: str = "") -> None:
    """Let the holder of the token in. Raises `Refused`; a token in the address is refused even if it is right."""
    if "token" in call.query or "access_token" in call.query:
        raise Refused(400, "the token belongs into a header", cure="send Authorization: Bearer …")
    if len(token) < SHORTEST_TOKEN:
        raise Refused(503, "web hooks have no safe token", cure=f"set hooks.token, {SHORTEST_TOKEN} characters or more")
    if gateway_token and hmac.compare_digest(token.encode(), gateway_token.encode()):
        raise Refused(503, "hooks.token is the gateway's own token", cure="give web hooks a token of their own")
    scheme, _, bearer = call.headers.get("authorization", "").partition(" ")
    given = bearer.strip() if scheme.lower() == "bearer" else call.headers.get("x-openclaw-token", "")
    if not given or not hmac.compare_digest(given.encode(), token.encode()):
        raise Refused(401, "unauthorized")


def is_signed(body: bytes, headers: Mapping[str, str], rule: Signature, secret: str) -> bool:
    """Say whether a body carries the signature that its sender's secret gives it."""
    if not secret:
        return False
    made = hmac.new(secret.encode(), body, getattr(hashlib, rule.algorithm))
    if rule.encoding == "base64":
        import base64

        want = base64.b64encode(made.digest()).decode()
    else:
        want = made.hexdigest()
    given = headers.get(rule.header.lower(), "")
    return hmac.compare_digest(given.encode(), f"{rule.prefix}{want}".encode())


def read_body(call: Call, settings: HookSettings) -> Json:
    if len(call.body) > settings.max_body_bytes:
        raise Refused(413, f"the body is longer than {settings.max_body_bytes:,} bytes")
    try:
        found = msgspec.json.decode(call.body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(400, "the body is no JSON object") from None
    if not isinstance(found, dict):
        raise Refused(400, "the body is no JSON object")
    return found


def order_for(call: Call, settings: HookSettings, ident: str) -> HookOrder:
    """Return what an authorised call asks for: `wake`, `agent`, or what a mapping makes of it. Raises `Refused`."""
    path = call.path.strip("/")
    if path == "wake":
        return _wake(read_body(call, settings), ident)
    if path == "agent":
        return _agent(read_body(call, settings), settings, ident)
    body = read_body(call, settings)
    rule = find_mapping(settings, path, body)
    if rule is None:
        raise Refused(404, "no such hook")
    return _mapped(rule, call, body, settings, ident)


def find_mapping(settings: HookSettings, path: str, body: Json) -> Mapping_ | None:
    """Return the first mapping that a call matches; the owner's own come before the presets."""
    rules = [*settings.mappings, *(PRESETS[name] for name in settings.presets if name in PRESETS)]
    for rule in rules:
        if rule.match.path and rule.match.path.strip("/") != path.strip("/"):
            continue
        if rule.match.source and rule.match.source != body.get("source"):
            continue
        if rule.match.path or rule.match.source:
            return rule
    return None


def _wake(body: Json, ident: str) -> HookOrder:
    text = _text(body, "text")
    mode = body.get("mode", "now")
    if mode not in {"now", "next-heartbeat"}:
        raise Refused(400, "mode must be now or next-heartbeat")
    return HookOrder(
        action="wake",
        ident=ident,
        text=text,
        now=mode == "now",
        agent_id=_word(body, "agentId"),
        taint=("hook:wake",),
    )


def _agent(body: Json, settings: HookSettings, ident: str) -> HookOrder:
    name = single_line(printable(_word(body, "name")), 60) or "hook"
    ident = _word(body, "idempotencyKey")[:128] or ident
    facts = {key: _word(body, key) for key in ("model", "thinking") if body.get(key)}
    return HookOrder(
        action="agent",
        ident=ident,
        name=name,
        text=wrapped(_text(body, "message"), f"web hook {name}", ident[:8]),
        agent_id=_allowed_agent(_word(body, "agentId"), settings),
        session=session_for(_word(body, "sessionKey"), settings, requested=True),
        taint=(f"hook:{name}",),
        target=_target(body.get("deliver", True) is not False, _word(body, "channel"), _word(body, "to")),
        facts={**facts, **_seconds(body.get("timeoutSeconds"))},
    )


def _mapped(rule: Mapping_, call: Call, body: Json, settings: HookSettings, ident: str) -> HookOrder:
    if rule.transform is not None:
        raise Refused(501, "this mapping has a transform, and programs in a mapping are not run here")
    values = {
        "payload": body,
        "headers": {name: value for name, value in call.headers.items() if name not in _HIDDEN_HEADERS},
        "query": dict(call.query),
        "path": call.path.strip("/"),
        "now": call.now,
    }
    name = single_line(rule.name or rule.id or rule.match.path or "hook", 60)
    template = rule.text_template if rule.action == "wake" else rule.message_template
    text = render(template or rule.message_template or rule.text_template, values)[:MAX_TEXT].strip()
    if not text:
        raise Refused(400, "the mapping makes no text of this body")
    if not rule.allow_unsafe_external_content and rule.action == "agent":
        text = wrapped(text, f"web hook {name}", ident[:8])
    session = render(rule.session_key, values) if rule.session_key else ""
    facts = {key: value for key, value in (("model", rule.model), ("thinking", rule.thinking)) if value}
    return HookOrder(
        action=rule.action,
        ident=ident,
        name=name,
        text=text,
        now=rule.wake_mode == "now",
        agent_id=_allowed_agent(rule.agent_id, settings),
        session=session_for(session, settings, requested="{{" in rule.session_key),
        taint=(f"hook:{name}",),
        target=_target(rule.deliver, rule.channel, rule.to),
        facts={**facts, **_seconds(rule.timeout_seconds)},
    )


def render(template: str, values: Mapping[str, Any]) -> str:
    """Fill `{{payload.a.b[0]}}`, `{{headers.x}}`, `{{query.x}}`, `{{path}}` and `{{now}}` in; a bare name is the payload's.

    What is filled in is text: it is not looked through for further expressions.
    """

    def fill(found: Any) -> str:
        value = _look_up(found[1], values)
        if value is None:
            return ""
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return printable(text)[:MAX_VALUE]

    return _EXPRESSION.sub(fill, template)


def _look_up(path: str, values: Mapping[str, Any]) -> Any:
    steps = _STEP.findall(path)
    here: Any = values if steps and steps[0] in values else values.get("payload")
    for step in steps:
        if step.startswith("["):
            place = int(step[1:-1])
            here = here[place] if isinstance(here, list) and place < len(here) else None
        else:
            here = here.get(step) if isinstance(here, Mapping) else None
    return here


def session_for(wanted: str, settings: HookSettings, *, requested: bool) -> str:
    """Return the session in which a call's turn runs. One that the caller names must be allowed, and be a hook's own.

    No caller reaches a person's conversation: without prefixes that allow it, only `hook:` sessions can be named.
    """
    if not wanted:
        return settings.default_session_key
    if not requested:
        return wanted  # as the owner wrote it
    prefixes = settings.allowed_session_key_prefixes
    if not settings.allow_request_session_key and not wanted.startswith("hook:"):
        raise Refused(400, "sessionKey is not taken from callers", cure="set hooks.allowRequestSessionKey")
    if not settings.allow_request_session_key and prefixes is None:
        # A mapping of the owner's with a part of the body in it: that part stays one harmless word.
        if not all(_SAFE_SEGMENT.fullmatch(part) for part in wanted.split(":")):
            raise Refused(400, "the body does not give a usable session key")
        return wanted
    if not any(wanted.startswith(prefix) for prefix in (prefixes if prefixes is not None else ["hook:"])):
        raise Refused(400, "sessionKey does not begin as hooks.allowedSessionKeyPrefixes says")
    return wanted


def _allowed_agent(agent_id: str, settings: HookSettings) -> str:
    allowed = settings.allowed_agent_ids
    if agent_id and allowed is not None and "*" not in allowed and agent_id not in allowed:
        raise Refused(403, "this agent is not among hooks.allowedAgentIds")
    return agent_id


def _target(deliver: bool, channel: str, to: str) -> Json:
    """Return where an answer goes. A caller names both channel and person; nothing is inherited from a conversation."""
    return {"channel": channel, "to": to} if deliver and channel and channel != "last" and to else {}


def _text(body: Json, key: str) -> str:
    found = body.get(key)
    if not isinstance(found, str) or not found.strip():
        raise Refused(400, f"{key} is missing")
    if len(found) > MAX_TEXT:
        raise Refused(413, f"{key} is longer than {MAX_TEXT:,} characters")
    return found


def _word(body: Json, key: str) -> str:
    found = body.get(key, "")
    if not isinstance(found, str) or len(found) > 1_000:
        raise Refused(400, f"{key} must be a short text")
    return found.strip()


def _seconds(value: Any) -> Json:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 86_400
    return {"seconds": float(value)} if usable else {}
