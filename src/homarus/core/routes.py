"""Session keys and routes as values: parsed once at the border, compared as values, never built from strings elsewhere.

The text of a key is what other programs read (`agent:<agentId>:…`); nothing here reads a file or a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.errors import Unknown
from homarus.core.patterns import late
from homarus.core.text import printable

DEFAULT_AGENT = "main"
DEFAULT_ACCOUNT = "default"
MAIN = "main"

_AGENT_ID = late(r"[a-z0-9][a-z0-9_-]{0,63}")
_NOT_ID = late(r"[^a-z0-9_-]+")
_SUFFIX = late(r"(?si)(.+):(thread|topic):(.+)")
_RUN = late(r"(?s)(.+):run:(.+)")
_MARKS = late(r"(?i):(?=(?:thread|topic|run):)")


class SessionKind(StrEnum):
    """What a session belongs to. The value is the word that stands in the key."""

    MAIN = "main"
    DIRECT = "direct"
    GROUP = "group"
    CHANNEL = "channel"
    ROOM = "room"
    CRON = "cron"
    HOOK = "hook"
    SUBAGENT = "subagent"
    BOOT = "boot"
    HEARTBEAT = "heartbeat"
    EXPLICIT = "explicit"
    DASHBOARD = "dashboard"
    GLOBAL = "global"
    OTHER = "other"


class DmScope(StrEnum):
    MAIN = "main"
    PER_PEER = "per-peer"
    PER_CHANNEL_PEER = "per-channel-peer"
    PER_ACCOUNT_CHANNEL_PEER = "per-account-channel-peer"


_CHATS = {"direct": SessionKind.DIRECT, "dm": SessionKind.DIRECT} | {
    kind.value: kind for kind in (SessionKind.GROUP, SessionKind.CHANNEL, SessionKind.ROOM)
}
_NAMED = {
    kind.value: kind
    for kind in map(SessionKind, ("cron", "hook", "subagent", "boot", "heartbeat", "explicit", "dashboard"))
}
_SHARED = frozenset({SessionKind.GROUP, SessionKind.CHANNEL, SessionKind.ROOM})
_PRIVATE = frozenset({SessionKind.MAIN, SessionKind.DIRECT, SessionKind.EXPLICIT, SessionKind.DASHBOARD})


class SessionKey(Struct, frozen=True):
    """Which conversation. `peer` is its other side: a person, a group, a job, a child run or a chosen name.

    `parse(str(key)) == key` holds for every key that `parse` or a builder below returned.
    """

    agent_id: str
    kind: SessionKind
    channel: str = ""
    account: str = ""
    peer: str = ""
    thread: str = ""
    topic: str = ""
    run: str = ""

    @classmethod
    def parse(cls, text: str, *, default_agent: str = DEFAULT_AGENT, main_key: str = MAIN) -> SessionKey:
        """Read a key in any known spelling. A bad `agent:` key is an error, never silently the default agent."""
        text = text.strip()
        if printable(text) != text or "\n" in text:
            raise Unknown(f"session key {text!r} holds control characters", cure="give a key on one line")
        if text.lower() in {"", MAIN, main_key.lower()}:
            return main_session(default_agent, main_key)
        if text.lower() == "global":
            return cls(normalize_agent_id(default_agent), SessionKind.GLOBAL)
        if text.lower() == "agent" or text.lower().startswith("agent:"):
            agent, _, rest = text[6:].partition(":")
        else:
            agent, rest = normalize_agent_id(default_agent), text
        agent = agent.lower()
        if not _AGENT_ID.fullmatch(agent) or not rest or rest != rest.strip(": "):
            cure = "write agent:<agentId>:<rest>, for example agent:main:main"
            raise Unknown(f"'{text}' is not a session key", cure=cure)
        return _parse_rest(agent, rest, main_key)

    def __str__(self) -> str:
        if self.kind is SessionKind.GLOBAL:
            return "global"
        return f"agent:{self.agent_id}:{self._rest}"

    @property
    def _rest(self) -> str:
        if self.kind is SessionKind.MAIN:
            parts = [self.peer or MAIN]
        elif self.kind is SessionKind.OTHER:
            parts = [self.peer]
        else:
            parts = [part for part in (self.channel, self.account, self.kind.value, self.peer) if part]
        for mark, value in (("topic", self.topic), ("thread", self.thread), ("run", self.run)):
            if value:
                parts += [mark, value]
        return ":".join(parts)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return every text under which an older version may have stored this session, the canonical one first."""
        text = str(self)
        if self.kind is SessionKind.DIRECT:
            at = text.index(":direct:")
            return (text, f"{text[:at]}:dm:{text[at + 8 :]}")
        if self.kind is SessionKind.MAIN and self.peer:
            return (text, str(replace(self, peer="")))
        return (text,)

    @property
    def base(self) -> SessionKey:
        """Return the conversation that a thread, a topic or a single run belongs to."""
        return replace(self, thread="", topic="", run="")

    @property
    def chat_type(self) -> str:
        """Return `thread`, `group` or `direct`: the word by which reset rules are chosen."""
        if self.thread or self.topic:
            return "thread"
        return "group" if self.is_shared else "direct"

    @property
    def is_main(self) -> bool:
        return self.kind is SessionKind.MAIN and not self.thread and not self.topic

    @property
    def is_private_main(self) -> bool:
        """Say whether only the owner or one approved person reads along, so that MEMORY.md may be shown."""
        return self.kind in _PRIVATE

    @property
    def is_shared(self) -> bool:
        """Say whether several people read along: MEMORY.md must never be shown."""
        return self.kind in _SHARED

    @property
    def is_subagent(self) -> bool:
        return self.kind is SessionKind.SUBAGENT

    @property
    def is_cron(self) -> bool:
        return self.kind is SessionKind.CRON

    def with_thread(self, thread: str) -> SessionKey:
        """Return this conversation's thread; an empty id gives the conversation itself."""
        return replace(self.base, thread=_cased(self.kind, self.channel, "thread", _opaque(thread)))

    def with_topic(self, topic: str | int) -> SessionKey:
        """Return this conversation's forum topic; an empty one gives the conversation itself."""
        return replace(self.base, topic=_opaque(str(topic)).lower())


# What is said here is heard by whoever listens to the session: no channel brings it anywhere.
AT_HOME = frozenset(
    {"", "terminal", "webchat", "cron", "heartbeat", "hook", "boot", "session", "subagent", "system", "acp", "mcp"}
)


class Route(Struct, frozen=True):
    """Where a message came from and where its answer goes. The model never chooses it."""

    agent_id: str
    session_key: SessionKey
    channel: str = ""
    account: str = DEFAULT_ACCOUNT
    to: str = ""
    thread: str = ""
    # The Discord guild or Slack team, and the chat above a thread that is a chat of its own: rules for tools go by them.
    space: str = ""
    parent: str = ""

    @property
    def place(self) -> tuple[str, str, str, str] | None:
        """Return the chat that the answer must be sent to; None where those who listen to the session have it."""
        if self.channel in AT_HOME or not self.to:
            return None
        return self.channel, self.account, self.to, self.thread


def _parse_rest(agent: str, rest: str, main_key: str) -> SessionKey:
    text, suffix = rest, {}
    if match := _SUFFIX.fullmatch(text):
        text, suffix = match[1], {match[2].lower(): match[3]}
    words = text.lower().split(":")
    if text.lower() in {MAIN, main_key.lower()}:
        name = "" if text.lower() == MAIN else text.lower()
        return SessionKey(agent, SessionKind.MAIN, peer=name, **_lower(suffix))
    kind = _NAMED.get(words[0])
    if kind and len(words) > 1:
        peer = rest.lower().partition(":")[2]
        if kind is SessionKind.CRON and (match := _RUN.fullmatch(peer)):
            return SessionKey(agent, kind, peer=match[1], run=match[2])
        return SessionKey(agent, kind, peer=peer)
    for place in range(min(3, len(words) - 1)):
        chat = _CHATS.get(words[place])
        if chat and all(words[:place]) and (peer := text.split(":", place + 1)[-1]).strip(": ") == peer:
            channel, account = [*words[:place], "", ""][:2]
            for mark, value in suffix.items():
                suffix[mark] = _cased(chat, channel, mark, value)
            return SessionKey(agent, chat, channel, account, _cased(chat, channel, "peer", peer), **suffix)
    return SessionKey(agent, SessionKind.OTHER, peer=rest.lower())


def _lower(suffix: dict[str, str]) -> dict[str, str]:
    return {mark: value.lower() for mark, value in suffix.items()}


def _cased(kind: SessionKind, channel: str, field: str, text: str) -> str:
    # Two platforms have ids in which case matters: a Signal group is base64, a Matrix room or event id is opaque.
    shared = kind in _SHARED
    if shared and channel == "matrix" and field in {"peer", "thread"}:
        return text
    if kind is SessionKind.GROUP and channel == "signal" and field == "peer":
        return text
    return text.lower()


def _opaque(text: str) -> str:
    # A platform's id comes from outside: it must not be able to forge a marker of the key or a second line.
    text = _single(text)
    return (_MARKS.sub("-", text) if ":" in text else text).strip(": ")


def _single(text: str) -> str:
    return printable(text).replace("\n", " ").strip()


def normalize_agent_id(text: str) -> str:
    """Return a valid agent id: other characters collapse to dashes, and nothing at all means the main agent."""
    return _normal_id(text) or DEFAULT_AGENT


def normalize_account_id(text: str) -> str:
    """Return a valid account id by the rule of agent ids; nothing at all means the default account."""
    return _normal_id(text) or DEFAULT_ACCOUNT


@lru_cache(512)  # the same few ids, many times in every turn
def _normal_id(text: str) -> str:
    return _NOT_ID.sub("-", text.strip().lower()).lstrip("-_")[:64].rstrip("-")


def main_session(agent_id: str, main_key: str = MAIN) -> SessionKey:
    """Return an agent's main session; another name than `main` comes from an old `session.mainKey`."""
    name = _opaque(main_key).lower()
    return SessionKey(normalize_agent_id(agent_id), SessionKind.MAIN, peer="" if name == MAIN else name)


def direct_session(
    agent_id: str,
    channel: str,
    peer: str,
    *,
    account: str = DEFAULT_ACCOUNT,
    scope: DmScope = DmScope.MAIN,
    links: Mapping[str, Sequence[str]] | None = None,
    main_key: str = MAIN,
) -> SessionKey:
    """Return the session of a direct message; a linked identity stands for all its peers when sessions are apart."""
    if scope is DmScope.MAIN:
        return main_session(agent_id, main_key)
    channel = _word(channel)
    peer = _opaque(linked_identity(channel, peer, links or {}) or peer).lower() or "unknown"
    named = scope is not DmScope.PER_PEER
    return SessionKey(
        normalize_agent_id(agent_id),
        SessionKind.DIRECT,
        channel=channel if named else "",
        account=_word(normalize_account_id(account)) if scope is DmScope.PER_ACCOUNT_CHANNEL_PEER else "",
        peer=peer,
    )


def policy_session(key: SessionKey, route: Route, chat_type: str) -> SessionKey:
    """Return the key by which rules for tools and sandboxes are chosen.

    Whoever writes from a chat platform into the main session shares its history, and is not at the machine for that.
    """
    if not key.is_main or route.place is None:
        return key
    if chat_type == SessionKind.DIRECT:
        scope = DmScope.PER_ACCOUNT_CHANNEL_PEER
        return direct_session(key.agent_id, route.channel, route.to, account=route.account, scope=scope)
    kind = SessionKind(chat_type) if chat_type in _SHARED else SessionKind.GROUP
    return chat_session(key.agent_id, route.channel, kind, route.to)


def chat_session(agent_id: str, channel: str, kind: SessionKind, peer: str) -> SessionKey:
    if kind not in _SHARED:
        raise ValueError(f"{kind} is not a shared chat")
    channel = _word(channel)
    return SessionKey(
        normalize_agent_id(agent_id), kind, channel, peer=_cased(kind, channel, "peer", _opaque(peer) or "unknown")
    )


def named_session(agent_id: str, kind: SessionKind, name: str, *, run: str = "") -> SessionKey:
    """Return the session of a job, a hook, a child, a boot or heartbeat run, or one that a person named."""
    if kind.value not in _NAMED:
        raise ValueError(f"{kind} sessions have no name")
    run = _opaque(run).lower() if kind is SessionKind.CRON else ""
    return SessionKey(normalize_agent_id(agent_id), kind, peer=_opaque(name).lower() or "unknown", run=run)


def linked_identity(channel: str, peer: str, links: Mapping[str, Sequence[str]]) -> str:
    """Return the canonical name of a peer that `identityLinks` lists bare or as `channel:peer`, or nothing."""
    wanted = {peer.strip().lower(), f"{channel}:{peer.strip()}".lower()}
    for canonical, peers in links.items():
        if any(str(item).strip().lower() in wanted for item in peers):
            return canonical
    return ""


def _word(text: str) -> str:
    # A channel or account must not read as one of the words that give a key its shape.
    word = _single(text).lower().replace(":", "-").strip()
    return f"{word}-" if word in _CHATS or word in _NAMED or word == MAIN else word or "unknown"
