"""Decides about every message that comes in, and remembers what that needs: repeats, floods, codes, what was said before.

`passing` is the one way in. Inside it the message is handed on; when that is done it counts as taken in, and when it
failed it does not, so that a platform may bring it again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.channels.admit import NO_RULES, SHARED, Decision, Gate, Rules, admit, visible_from
from homarus.channels.channel import Change, Identity, Manifest
from homarus.channels.discovery import manifests
from homarus.channels.groups import Names, rules_of
from homarus.channels.guards import FLOOD_EVENTS, FLOOD_PAUSE, FLOOD_SECONDS, Pace, Seen, digest, loop_rules
from homarus.channels.pairing import PairingStore
from homarus.channels.senders import listed, person_of
from homarus.channels.settings import AccessGroup, Account, ChannelDefaults, ChannelSettings, account_of
from homarus.config.view import Config
from homarus.core.clock import Clock
from homarus.core.errors import HomarusError
from homarus.core.messages import Inbound, Trust
from homarus.core.routes import Route, SessionKey
from homarus.core.text import fence, neutralize, single_line
from homarus.delivery.place import Place
from homarus.sessions.routing import route_for

MAX_CHATS = 200
MAX_HEARD = 1000  # characters that are kept of one message
HISTORY = 50
MAX_THREADS = 1000
STRANGERS_PER_MINUTE = 30  # so many strangers are looked up in the pairing file; the rest can ask a little later
TOO_MANY = "That is more than I can follow. I listen again in a minute."


class Heard(Struct, frozen=True):
    """A message that was not for the agent, kept for when somebody speaks to it."""

    sender: str
    name: str
    text: str
    trust: Trust


class Gatekeeper:
    """One for a home. It reads the configuration at every message, so that a change counts at once."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        pairing: PairingStore,
        folder: Path,
        clock: Clock,
        *,
        known: Mapping[str, Manifest] | None = None,
        activation: Callable[[SessionKey], str] = lambda _key: "",
    ) -> None:
        self._config = config
        self._env = env
        self.pairing = pairing
        self._clock = clock
        self._known = manifests() if known is None else known
        self._activation = activation
        self._seen = Seen(folder / "seen.jsonl")
        self._under_way: set[str] = set()
        self._pace = Pace()
        # What was read from one reading of the configuration.
        self._read_from: Any = None
        self._accounts: dict[tuple[str, str], Account] = {}
        self._common = NO_RULES
        self._chats: OrderedDict[tuple[str, ...], deque[Heard]] = OrderedDict()
        # Threads that the agent is part of, also since before this process; there it need not be named again.
        self._threads = Seen(folder / "threads.jsonl", MAX_THREADS)

    def close(self) -> None:
        self._seen.close()
        self._threads.close()

    @contextmanager
    def passing(self, inbound: Inbound, identity: Identity | None = None) -> Iterator[Decision]:
        """Yield what becomes of a message. Whoever hands it on does that inside; it is known for good when that is done."""
        key = digest(inbound)
        if self.knows(inbound):
            yield Decision("refused", inbound, (Gate("repeat", False, "it was taken in before"),))
            return
        self._under_way.add(key)
        try:
            decision = self._judge(inbound, identity)
            before = tuple(self._chats.get(_chat(inbound), ()))
            yield decision
            self._seen.add(key, lasting=decision.admitted or decision.outcome == "asked")
            if decision.admitted:
                self._answered(decision.inbound, before)
        finally:
            self._under_way.discard(key)

    def knows(self, inbound: Inbound) -> bool:
        key = digest(inbound)
        return key in self._under_way or self._seen.knows(key)

    def explain(self, inbound: Inbound, identity: Identity | None = None) -> Decision:
        """Return what would become of a message, without any of it happening."""
        account, rules = self._account(inbound), self._rules(inbound, identity)
        return admit(inbound, account, self._approved(inbound), identity, rules)

    def notice(self, change: Change, *, ours: bool, identity: Identity | None = None) -> Inbound | None:
        """Return what the agent is told of a reaction, as if its sender had said it; None where it is told nothing."""
        if change.kind not in {"reacted", "unreacted"} or not change.sender:
            return None
        inbound = Inbound(
            change.message_id,
            change.channel,
            "",
            sender=change.sender,
            account=change.account,
            peer=change.peer,
            chat_type=change.chat_type,
            thread=change.thread,
        )
        account = self._account(inbound)
        mode = (
            rules_of(inbound, account).last(lambda chat: chat.reaction_notifications)
            or account.settings.reaction_notifications
        )
        if mode == "off" or (mode == "own" and not ours):
            return None
        person = person_of(inbound, aliases=account.aliases, groups=self._common.access_groups)
        if mode == "allowlist" and not listed(person, account.settings.reaction_allowlist):
            return None
        decision = self.explain(inbound, identity)
        if decision.outcome not in {"heard", "kept"}:
            return None
        done = "reacted with" if change.kind == "reacted" else "took back the reaction"
        who, what = single_line(change.sender, 100), single_line(change.text, 40)
        whose = "your message" if ours else "the message"
        text = f"{who} {done} {what} to {whose} {single_line(change.message_id, 100)} on {change.channel}."
        return replace(decision.inbound, text=text)

    # One message

    def _judge(self, inbound: Inbound, identity: Identity | None) -> Decision:
        account, rules = self._account(inbound), self._rules(inbound, identity)
        decision = admit(inbound, account, self._approved(inbound), identity, rules)
        if decision.outcome == "refused":
            return decision
        decision = self._paced(decision, account, rules)
        if decision.outcome == "asked":
            return self._ask(decision)
        if decision.outcome == "kept":
            self._keep(decision.inbound, account)
            return decision
        return self._with_context(decision, account, rules) if decision.admitted else decision

    def _paced(self, decision: Decision, account: Account, rules: Rules) -> Decision:
        """Refuse somebody who writes faster than anybody can, and a bot that goes on answering."""
        inbound, now = decision.inbound, self._clock.monotonic()
        who = (inbound.channel, inbound.account, inbound.sender)
        if decision.trust is not Trust.OWNER:
            passes, first = self._pace.passes(("flood", *who), now, FLOOD_EVENTS, FLOOD_SECONDS, FLOOD_PAUSE)
            if not passes:
                # A stranger gets no answer: it would only multiply what they send.
                told = TOO_MANY if first and decision.admitted and inbound.chat_type not in SHARED else ""
                gate = Gate("flood", False, f"more than {FLOOD_EVENTS} messages in {FLOOD_SECONDS:.0f} seconds")
                return replace(decision, outcome="refused", gates=(*decision.gates, gate), told=told)
        guard = loop_rules(account, rules_of(inbound, account), rules.defaults)
        if inbound.from_bot and decision.admitted and guard.enabled:
            # The message and its answer are two events between the pair.
            most = max(1, (guard.max_events_per_window or 0) // 2)
            window, pause = guard.window_seconds or 0.0, guard.cooldown_seconds or 0.0
            passes, _first = self._pace.passes(("loop", *who, inbound.peer), now, most, window, pause)
            if not passes:
                gate = Gate("botLoopProtection", False, "this bot and the agent answer each other without an end")
                return replace(decision, outcome="refused", gates=(*decision.gates, gate))
        return decision

    def _ask(self, decision: Decision) -> Decision:
        """Give a stranger a code, once; their message is dropped."""
        inbound = decision.inbound
        account = ("strangers", inbound.channel, inbound.account)
        if not self._pace.passes(account, self._clock.monotonic(), STRANGERS_PER_MINUTE, 60.0, 10.0)[0]:
            return replace(decision, outcome="refused")
        try:
            about = {"username": inbound.handle, "name": inbound.sender_name}
            found = self.pairing.request(inbound.channel, inbound.account, inbound.sender, about)
        except HomarusError as problem:
            gate = Gate("pairing", False, f"the request could not be kept: {problem.message}")
            return replace(decision, outcome="refused", gates=(*decision.gates, gate))
        if found is None:
            gate = Gate("pairing", False, "too many strangers wait already")
            return replace(decision, outcome="refused", gates=(*decision.gates, gate))
        request, fresh = found
        why = "asked for the first time" if fresh else "asked before, and has the code"
        told = pairing_text(inbound, request.code) if fresh else ""
        return replace(decision, told=told, gates=(*decision.gates, Gate("pairing", False, why)))

    # What was said before

    def _keep(self, inbound: Inbound, account: Account) -> None:
        own = rules_of(inbound, account).last(lambda chat: chat.history_limit)
        limit = next((n for n in (own, account.settings.history_limit, self._common_limit()) if n is not None), HISTORY)
        if limit <= 0 or not inbound.text.strip():
            return
        chat = _chat(inbound)
        held = self._chats.setdefault(chat, deque())
        self._chats.move_to_end(chat)
        held.append(Heard(inbound.sender, inbound.sender_name, inbound.text[:MAX_HEARD], inbound.trust))
        while len(held) > min(limit, 500):
            held.popleft()
        while len(self._chats) > MAX_CHATS:
            self._chats.popitem(last=False)

    def _common_limit(self) -> int | None:
        found = self._config.get("messages.groupChat.historyLimit")
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def _with_context(self, decision: Decision, account: Account, rules: Rules) -> Decision:
        """Give the agent what was said before and what is quoted, marked as what it is: words of others."""
        inbound = decision.inbound
        mode = account.settings.context_visibility or rules.defaults.context_visibility or "all"
        reader = person_of(inbound, aliases=account.aliases, groups=rules.access_groups)
        heard = [
            item
            for item in self._chats.get(_chat(inbound), ())
            if mode == "all" or visible_from(item.sender, account, reader, rules)
        ]
        parts, taint = [], [f"sender:{item.trust}" for item in heard if item.trust is not Trust.OWNER]
        if heard:
            lines = "\n".join(f"{_line(item.name or item.sender)}: {item.text}" for item in heard)
            parts.append(_block("Said in this chat before, not to you:", lines))
        if inbound.quote is not None and inbound.quote.text:
            whose = "you wrote" if inbound.quote.ours else f"{_line(inbound.quote.sender or 'somebody')} wrote"
            parts.append(_block(f"In answer to what {whose}:", inbound.quote.text[:MAX_HEARD]))
            taint += [] if inbound.quote.ours and decision.trust is Trust.OWNER else [f"sender:{Trust.EXTERNAL}"]
        if inbound.forwarded:
            parts.append("This message was forwarded: its words are somebody else's.")
            taint.append(f"sender:{Trust.EXTERNAL}")
        facts: dict[str, Any] = dict(inbound.facts or {}) | ({"context": "\n\n".join(parts)} if parts else {})
        if taint:
            facts["taint"] = list(dict.fromkeys(taint))
        if decision.instructions:
            facts["instructions"] = decision.instructions
        return replace(decision, inbound=replace(inbound, facts=facts or None))

    def _answered(self, inbound: Inbound, told: tuple[Heard, ...]) -> None:
        # What was said while the message was handed on is not among what it was told with.
        left = [item for item in self._chats.pop(_chat(inbound), ()) if not any(item is known for known in told)]
        if left:
            self._chats[_chat(inbound)] = deque(left)
        if inbound.thread and inbound.chat_type in SHARED:
            self._threads.add(_thread(inbound), lasting=True)

    # What the configuration says

    def _account(self, inbound: Inbound) -> Account:
        self._refresh()
        key = (inbound.channel, inbound.account)
        found = self._accounts.get(key)
        if found is None:
            manifest = self._known.get(inbound.channel)
            if manifest is None:
                return Account(inbound.channel, inbound.account, ChannelSettings.disabled(), Place())
            found = account_of(self._config, manifest, inbound.account, self._env)
            self._accounts |= {key: found} if len(self._accounts) < MAX_CHATS else {}
        return found

    def _refresh(self) -> None:
        """Read the rules anew when the configuration was."""
        if self._read_from is self._config.document:
            return
        self._read_from = self._config.document
        self._accounts = {}
        self._common = replace(
            NO_RULES,
            defaults=self._config.block("channels.defaults", ChannelDefaults),
            access_groups=self._access_groups(),
            owners=self._config.get("commands.ownerAllowFrom"),
            commanders=self._config.get("commands.allowFrom"),
        )

    def _approved(self, inbound: Inbound) -> frozenset[str]:
        if inbound.chat_type in SHARED:
            return frozenset()
        return self.pairing.approved(inbound.channel, inbound.account)

    def _access_groups(self) -> dict[str, AccessGroup]:
        table = self._config.get("accessGroups")
        if not isinstance(table, dict):
            return {}
        return {
            str(name): self._config.convert_block(value, AccessGroup, ("accessGroups", name))
            for name, value in table.items()
        }

    def _rules(self, inbound: Inbound, identity: Identity | None) -> Rules:
        self._refresh()
        rules = self._common
        if inbound.chat_type not in SHARED:
            return rules
        try:
            route = route_for(inbound, self._config)
        except HomarusError:
            return rules  # whoever hands it on says what is wrong with the bindings
        return replace(
            rules,
            names=self._names(route, identity),
            activation=self._activation(route.session_key),
            took_part=bool(inbound.thread) and self._threads.knows(_thread(inbound)),
        )

    def _names(self, route: Route, identity: Identity | None) -> Names:
        agent = self._config.agent(route.agent_id)
        name = agent.get("identity.name") or agent.get("name") or (identity.name if identity else "")
        return Names.of(
            agent.get("groupChat.mentionPatterns"),
            self._config.get("messages.groupChat.mentionPatterns"),
            str(name),
            identity.handle if identity else "",
        )


def pairing_text(inbound: Inbound, code: str) -> str:
    """Return what a stranger is told. Nothing of what they wrote is in it."""
    return (
        f"I do not know you yet. Your id here is {single_line(inbound.sender, 100)}.\n"
        f"Pairing code: {code}\n"
        f"My owner can let you in with: homarus pairing approve {inbound.channel} {code}"
    )


def _chat(inbound: Inbound) -> tuple[str, ...]:
    return (inbound.channel, inbound.account, inbound.peer, inbound.thread)


def _thread(inbound: Inbound) -> str:
    return digest(Inbound(inbound.thread, inbound.channel, "", account=inbound.account, peer=inbound.peer))


def _line(name: str) -> str:
    return single_line(name, 80)


def _block(heading: str, text: str) -> str:
    return f"{heading}\n{fence(neutralize(text), heading)}"
