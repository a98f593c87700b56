"""Group chats: which entry of the settings holds for one, and whether the agent is spoken to there. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, TypeVar

from msgspec import Struct

from homarus.channels.settings import Account, ChannelDefaults, Chat, Entries, ImplicitMentions
from homarus.core.messages import Inbound

T = TypeVar("T")
ANY_CHAT = "*"
MAX_READ = 4000  # characters in which a name is looked for
_UNBOUNDED = 100


class ChatRules(Struct, frozen=True):
    """The rules of one group chat: the entries that name it, the widest first."""

    # None where no map names groups at all; empty where one does and this group is not in it.
    entries: tuple[Chat, ...] | None
    # In `guilds` and `channels` an entry without people means everybody there; in `groups` it means the account's list.
    everybody: bool = False

    def last(self, read: Callable[[Chat], T | None]) -> T | None:
        """Return what the narrowest entry says that says something."""
        found = [read(entry) for entry in self.entries or ()]
        return next((value for value in reversed(found) if value not in (None, "")), None)

    @property
    def off(self) -> bool:
        return any(not (entry.enabled and entry.allow) for entry in self.entries or ())

    @property
    def people(self) -> Entries | None:
        """Return whom the narrowest entry names that names anybody."""
        for entry in reversed(self.entries or ()):
            if entry.allow_from is not None or entry.users is not None:
                return (*(entry.allow_from or ()), *(entry.users or ()))
        return None

    @property
    def roles(self) -> Entries | None:
        return next((entry.roles for entry in reversed(self.entries or ()) if entry.roles is not None), None)


def rules_of(inbound: Inbound, account: Account) -> ChatRules:
    """Return the entries that hold for a group chat: of its space, of itself or its parent, and of its topic."""
    settings = account.settings
    maps = [settings.groups] + ([settings.channels] if isinstance(settings.channels, Mapping) else [])
    if settings.guilds is None and all(table is None for table in maps):
        return ChatRules(None)
    if settings.guilds is not None and inbound.space:
        space = _entry(settings.guilds, inbound.space)
        if space is None:
            return ChatRules(())
        return ChatRules(tuple(_inside(space, inbound)), everybody=True)
    for table in filter(None, maps):
        found = next((entry for name in _names(inbound) if (entry := _exact(table, name))), None)
        found = found or table.get(ANY_CHAT)
        if found is not None:
            topic = _entry(found.topics or {}, inbound.thread) if inbound.thread else None
            return ChatRules(tuple(filter(None, (found, topic))), everybody=table is settings.channels)
    return ChatRules(())


def _inside(space: Chat, inbound: Inbound) -> Iterator[Chat]:
    yield space
    if space.channels is None:
        return
    found = next((entry for name in _names(inbound) if (entry := _exact(space.channels, name))), None)
    # A map of rooms is a list of those that are served.
    yield found or space.channels.get(ANY_CHAT) or Chat.disabled()


def _names(inbound: Inbound) -> tuple[str, ...]:
    """Return the ids by which settings may name a chat, its own first; a thread inherits from the chat above it."""
    return tuple(filter(None, (inbound.peer, inbound.parent)))


def _exact(table: Mapping[str, Chat], name: str) -> Chat | None:
    if name in table:
        return table[name]
    wanted = name.casefold().lstrip("#")
    return next((entry for key, entry in table.items() if key.strip().casefold().lstrip("#") == wanted), None)


def _entry(table: Mapping[str, Chat], name: str) -> Chat | None:
    return _exact(table, name) or table.get(ANY_CHAT)


class Spoken(Struct, frozen=True):
    """Whether a message speaks to the agent, and how one can tell."""

    to_agent: bool
    why: str


class Names(Struct, frozen=True):
    """By what the agent is called: patterns of the settings, else its name."""

    patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, agent_patterns: Any, all_patterns: Any, name: str, handle: str) -> Names:
        for given in (agent_patterns, all_patterns):
            if isinstance(given, list | tuple):
                return cls(tuple(str(item) for item in given if isinstance(item, str) and item))
        words = [re.escape(word.strip()) for word in (name, handle) if word.strip()]
        return cls(tuple(rf"(?<!\w)@?{word}(?!\w)" for word in words))


def spoken_to(
    inbound: Inbound, account: Account, defaults: ChannelDefaults, names: Names, *, took_part: bool = False
) -> Spoken:
    """Say whether a group message speaks to the agent: by a mention, an answer to it, its name, or a thread it is part of."""
    if inbound.mentioned:
        return Spoken(True, "it mentions the agent")
    ours = inbound.quote is not None and inbound.quote.ours
    if ours and _implicit(account, defaults, lambda flags: flags.reply_to_bot, lambda flags: flags.quoted_bot):
        return Spoken(True, "it answers the agent")
    if _patterns_count(inbound, account) and any(_found(pattern, inbound.text) for pattern in names.patterns):
        return Spoken(True, "it calls the agent by name")
    if took_part and inbound.thread and _implicit(account, defaults, lambda flags: flags.thread_participation):
        return Spoken(True, "the agent is part of this thread")
    return Spoken(False, "it does not speak to the agent")


def _implicit(account: Account, defaults: ChannelDefaults, *flags: Callable[[ImplicitMentions], bool | None]) -> bool:
    """Say whether all these flags are on: the account's word, else the common one, else they are."""
    blocks = (account.settings.implicit_mentions, defaults.implicit_mentions)
    return all(next((said for block in blocks if (said := flag(block)) is not None), True) for flag in flags)


def _patterns_count(inbound: Inbound, account: Account) -> bool:
    rules = account.settings.mention_patterns
    here = {inbound.peer, f"{inbound.peer}:topic:{inbound.thread}", f"{inbound.peer}:thread:{inbound.thread}"}
    if here & set(map(str, rules.deny_in)):
        return False
    return rules.mode == "allow" or bool(here & set(map(str, rules.allow_in)))


def _found(pattern: str, text: str) -> bool:
    compiled = safe_pattern(pattern)
    return compiled is not None and compiled.search(text[:MAX_READ]) is not None


@lru_cache(256)
def safe_pattern(text: str) -> re.Pattern[str] | None:
    """Return a compiled pattern, or None for one that is wrong, or that a stranger's text could keep busy for hours."""
    from re import _parser as parser  # type: ignore[attr-defined]

    try:
        if len(text) > 500 or _repeats_within(parser.parse(text)):
            return None
        return re.compile(text, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError):
        return None


def _repeats_within(items: Iterable[Any], *, repeated: bool = False) -> bool:
    """Say whether something that repeats without an end stands inside, or right after, another such."""
    loops = 0
    for op, arg in items:
        name = str(op)
        if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            _low, high, inner = arg
            endless = int(high) > _UNBOUNDED
            loops += endless
            if (endless and (repeated or loops > 2)) or _repeats_within(inner, repeated=repeated or endless):
                return True
        elif name == "BRANCH":
            if repeated or any(_repeats_within(branch, repeated=repeated) for branch in arg[1]):
                return True
        elif name in {"SUBPATTERN", "ATOMIC_GROUP", "ASSERT", "ASSERT_NOT"}:
            inner = arg if name == "ATOMIC_GROUP" else arg[-1]
            if _repeats_within(inner, repeated=repeated):
                return True
        elif name in {"GROUPREF", "GROUPREF_EXISTS"}:
            return True
    return False


Activation = Literal["", "mention", "always"]


def needs_mention(place: ChatRules, account: Account, activation: str) -> tuple[bool, str]:
    """Say whether the agent must be spoken to in this chat, and who decided that."""
    if activation in ("mention", "always"):
        return activation == "mention", f"/activation {activation}"
    own = place.last(lambda chat: chat.require_mention)
    if own is not None:
        return bool(own), "requireMention of the group"
    if account.settings.require_mention is not None:
        return account.settings.require_mention, "requireMention of the channel"
    return True, "groups need a mention unless told otherwise"
