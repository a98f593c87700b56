"""Who may talk to the agent: one decision for every platform. Pure: what is remembered between messages is the gatekeeper's.

A channel says what a message is; this says what it may do. Each gate is named in the decision with its reason, so that
`homarus channels explain` can show why somebody was heard or not. Where something is missing, nobody is let in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from homarus.channels.channel import Identity
from homarus.channels.groups import ChatRules, Names, needs_mention, rules_of, spoken_to
from homarus.channels.senders import ANYBODY, Person, listed, person_of
from homarus.channels.settings import AccessGroup, Account, Bots, ChannelDefaults
from homarus.core.messages import APART, Inbound, Trust

SHARED = frozenset({"group", "channel", "room"})
MAX_ID = 1000  # characters; they become keys and names of files
Outcome = Literal["heard", "kept", "refused", "asked"]


class Gate(Struct, frozen=True):
    """One question that a message had to pass."""

    name: str
    passed: bool
    why: str


class Decision(Struct, frozen=True):
    """What becomes of a message.

    `heard` goes to the agent, `kept` waits as context until somebody speaks to it, `asked` is a stranger who gets a
    code, `refused` is dropped. `inbound` is the message with its trust, and without what its sender may not do.
    """

    outcome: Outcome
    inbound: Inbound
    gates: tuple[Gate, ...] = ()
    # What is said back to the sender, once.
    told: str = ""
    # The chat's own words for the agent, of the settings.
    instructions: str = ""
    # Whether an answer of the agent elsewhere may follow this sender from now on (`lastRoute`).
    moves_route: bool = True

    @property
    def admitted(self) -> bool:
        return self.outcome == "heard"

    @property
    def trust(self) -> Trust:
        return self.inbound.trust

    @property
    def reason(self) -> str:
        """Return the gate that decided, in a sentence."""
        last = next((gate for gate in reversed(self.gates) if not gate.passed), self.gates[-1] if self.gates else None)
        return f"{last.name}: {last.why}" if last else ""


class Rules(Struct, frozen=True):
    """What the configuration says besides the account itself."""

    defaults: ChannelDefaults = ChannelDefaults()
    access_groups: Mapping[str, AccessGroup] = {}
    owners: Any = None  # `commands.ownerAllowFrom`
    commanders: Any = None  # `commands.allowFrom`
    names: Names = Names()
    # What `/activation` set for this chat, and whether the agent has spoken in its thread.
    activation: str = ""
    took_part: bool = False


NO_RULES = Rules()


class _Way:
    """The gates that a message passes, one after another."""

    def __init__(self, inbound: Inbound) -> None:
        self.inbound = inbound
        self.gates: list[Gate] = []

    def passes(self, name: str, passed: bool, why: str) -> bool:
        self.gates.append(Gate(name, passed, why))
        return passed

    def ends(self, outcome: Outcome, **more: Any) -> Decision:
        return Decision(outcome, self.inbound, tuple(self.gates), **more)


def admit(
    inbound: Inbound, account: Account, approved: frozenset[str], identity: Identity | None, rules: Rules = NO_RULES
) -> Decision:
    """Decide about one message. `approved` are the ids that the pairing store holds for this account."""
    # Whatever the adapter claims of trust is not its to claim, and facts decide about models, tools and folders.
    way = _Way(replace(inbound, trust=Trust.EXTERNAL, facts=None))
    settings = account.settings
    ours = inbound.from_self or (identity is not None and bool(inbound.sender) and inbound.sender == identity.id)
    if not way.passes("self", not ours, "the agent's own message" if ours else "written by somebody else"):
        return way.ends("refused")
    if not way.passes("account", settings.enabled, "on" if settings.enabled else "this account is switched off"):
        return way.ends("refused")
    if not way.passes("sender", *_named(inbound)):
        return way.ends("refused")
    person = person_of(
        inbound,
        aliases=account.aliases,
        groups=rules.access_groups,
        by_name=settings.dangerously_allow_name_matching,
    )
    if inbound.chat_type in SHARED:
        return _in_group(way, account, person, rules)
    # A chat of a kind that nobody knows is taken for the most private one only if it is called so.
    if not way.passes("chat", inbound.chat_type == "direct", inbound.chat_type):
        return way.ends("refused")
    return _direct(way, account, person, approved, rules)


def _named(inbound: Inbound) -> tuple[bool, str]:
    if not inbound.sender:
        return False, "nobody says who wrote it"
    if max(map(len, (inbound.sender, inbound.peer, inbound.thread, inbound.id))) > MAX_ID:
        return False, "its ids are longer than any platform's"
    return True, inbound.sender


def _direct(way: _Way, account: Account, person: Person, approved: frozenset[str], rules: Rules) -> Decision:
    settings, policy = account.settings, account.settings.dm_policy
    if not way.passes("dmPolicy", policy != "disabled" and settings.dm.enabled, policy):
        return way.ends("refused")
    if not _bots(way, settings.allow_bots, mentioned=way.inbound.mentioned):
        return way.ends("refused")
    entry = listed(person, settings.allow_from)
    paired = policy != "open" and bool(listed(person.by_id, tuple(approved)))
    trust = _trust(person, rules, Trust.PAIRED if (entry and entry != ANYBODY) or paired else Trust.EXTERNAL)
    known = (entry and entry != ANYBODY) or paired or (entry == ANYBODY and policy == "open")
    why = f"allowFrom names {entry}" if entry else "approved by pairing" if paired else "not in allowFrom"
    if entry == ANYBODY and policy != "open":
        known, why = paired, '"*" counts with dmPolicy "open" alone' if not paired else "approved by pairing"
    if not way.passes("allowFrom", bool(known), why):
        return way.ends("asked" if policy == "pairing" and not way.inbound.from_bot else "refused")
    if trust is not Trust.OWNER and not _only_person(person, account, approved, rules):
        way.inbound = replace(way.inbound, facts={APART: True})
    own = account.settings.direct.get(way.inbound.sender) or account.settings.direct.get(ANYBODY)
    if own is not None and not way.passes("direct", own.enabled and own.allow, "the settings of this chat"):
        return way.ends("refused")
    return _heard(way, trust, account, person, rules, instructions=own.system_prompt if own else "")


def _only_person(person: Person, account: Account, approved: frozenset[str], rules: Rules) -> bool:
    """Say whether nobody is known here but this one person, and nobody is called the owner."""
    entries = {str(entry) for entry in account.settings.allow_from or ()} | approved
    return not rules.owners and len(entries) == 1 and ANYBODY not in entries and bool(listed(person.by_id, [*entries]))


def _in_group(way: _Way, account: Account, person: Person, rules: Rules) -> Decision:
    settings, place = account.settings, rules_of(way.inbound, account)
    policy = (
        place.last(lambda chat: chat.group_policy)
        or settings.group_policy
        or rules.defaults.group_policy
        or "allowlist"
    )
    if settings.group_policy == "disabled":
        policy = "disabled"
    if not way.passes("groupPolicy", policy != "disabled", policy):
        return way.ends("refused")
    if not way.passes("group", place.entries is None or bool(place.entries), _group_why(place)):
        return way.ends("refused")
    if not way.passes("group", not place.off, "switched off" if place.off else "switched on"):
        return way.ends("refused")
    named, why = _group_sender(way.inbound, account, place, person, policy)
    if not way.passes("groupAllowFrom", named is not None, why):
        return way.ends("refused")
    trust = _trust(person, rules, Trust.GROUP if named else Trust.EXTERNAL)
    said = spoken_to(way.inbound, account, rules.defaults, rules.names, took_part=rules.took_part)
    allow_bots: Bots | None = place.last(lambda chat: chat.allow_bots)
    if not _bots(way, settings.allow_bots if allow_bots is None else allow_bots, mentioned=said.to_agent):
        return way.ends("refused")
    way.inbound = replace(way.inbound, mentioned=said.to_agent)
    needed, who = needs_mention(place, account, rules.activation)
    command = _is_command(way.inbound) and _commands(person, trust, rules)
    open_to = said.to_agent or not needed or command
    why = said.why if said.to_agent else "a command of somebody who may give one" if command and needed else who
    if not way.passes("mention", open_to, why):
        way.inbound = replace(way.inbound, trust=trust)
        return way.ends("kept")
    return _heard(way, trust, account, person, rules, instructions=place.last(lambda chat: chat.system_prompt) or "")


def _group_why(place: ChatRules) -> str:
    if place.entries is None:
        return "no map names the groups"
    return "the map of groups has it" if place.entries else "the map of groups does not have it"


def _group_sender(
    inbound: Inbound, account: Account, place: ChatRules, person: Person, policy: str
) -> tuple[bool | None, str]:
    """Return whether a list names the sender (None: they are not let in), and why."""
    people, roles = place.people, place.roles
    if people is not None or roles is not None:
        if entry := listed(person, people):
            return entry != ANYBODY, f"the group names {entry}"
        if held := set(map(str, roles or ())) & set(inbound.roles):
            return True, f"the group names the role {min(held)}"
        return None, "not among the people of the group"
    settings = account.settings
    entries = settings.group_allow_from
    if entries is None and not place.everybody:
        # Whoever opens direct messages to everybody has not said that of groups.
        entries = tuple(entry for entry in settings.allow_from or () if entry != ANYBODY)
    entry = listed(person, entries)
    if entry:
        return entry != ANYBODY, f"groupAllowFrom names {entry}"
    if policy == "open":
        return False, 'groupPolicy "open" lets everybody in'
    if place.everybody and entries is None:
        return False, "everybody in this place is let in"
    return None, "not in groupAllowFrom"


def _heard(
    way: _Way, trust: Trust, account: Account, person: Person, rules: Rules, *, instructions: str = ""
) -> Decision:
    """Return the decision for a message that the agent hears, without what its sender may not do."""
    inbound = replace(way.inbound, trust=trust)
    if inbound.forwarded:
        # Others' words, in the hands of somebody who may have been talked into passing them on.
        way.gates.append(Gate("command", False, "a forwarded message is never a command"))
        inbound = replace(inbound, command="")
    elif _is_command(inbound):
        may = _commands(person, trust, rules)
        way.gates.append(Gate("command", may, "may give commands" if may else "may not give commands"))
        inbound = inbound if may else replace(inbound, command="")
    if inbound.quote is not None and not _quote_visible(inbound, account, person, rules):
        way.gates.append(Gate("contextVisibility", False, "the quoted message is left out"))
        inbound = replace(inbound, quote=None)
    way.inbound = inbound
    return way.ends("heard", instructions=instructions, moves_route=_moves_route(inbound, account, person))


def _trust(person: Person, rules: Rules, otherwise: Trust) -> Trust:
    entry = listed(person.by_id, rules.owners)
    return Trust.OWNER if entry and entry != ANYBODY else otherwise


def _bots(way: _Way, allowed: Bots, *, mentioned: bool) -> bool:
    if not way.inbound.from_bot:
        return True
    passes = allowed is True or (allowed == "mentions" and mentioned)
    return way.passes("allowBots", passes, "bots are heard" if passes else "written by a bot")


def _is_command(inbound: Inbound) -> bool:
    return not inbound.forwarded and bool(inbound.command or inbound.text.lstrip().startswith("/"))


def _commands(person: Person, trust: Trust, rules: Rules) -> bool:
    if rules.commanders is not None:
        return bool(listed(person.by_id, rules.commanders))
    return trust is not Trust.EXTERNAL


def _quote_visible(inbound: Inbound, account: Account, person: Person, rules: Rules) -> bool:
    mode = account.settings.context_visibility or rules.defaults.context_visibility or "all"
    if mode != "allowlist" or inbound.quote is None or inbound.quote.ours:
        return True
    return visible_from(inbound.quote.sender, account, person, rules)


def visible_from(sender: str, account: Account, reader: Person, rules: Rules) -> bool:
    """Say whether the words of a sender may be shown where only those of people on a list are."""
    other = replace(reader, id=sender, names=())
    settings = account.settings
    lists = (settings.allow_from, settings.group_allow_from, rules.owners)
    return bool(sender) and any(listed(other, entries) for entries in lists)


def _moves_route(inbound: Inbound, account: Account, person: Person) -> bool:
    """Say whether answers may follow this sender: where one person alone is named, they follow nobody else."""
    named = [entry for entry in account.settings.allow_from or () if entry != ANYBODY]
    if inbound.chat_type in SHARED or len(named) != 1 or str(named[0]).lower().startswith("accessgroup:"):
        return True
    return listed(person, named) != ""
