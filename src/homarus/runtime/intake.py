"""Messages of chats on their way in: admitted, durable before the platform is told so, in order, once.

A plain message goes straight into its session's inbox. What has to wait (for the rest of what its sender types, for a
file, for a command before it) waits in a journal of its own, from which the next start goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from homarus.agent.hook_events import Handled
from homarus.commands.router import IntakeResult
from homarus.commands.words import ATTACHED, is_stop
from homarus.core.behind import durable
from homarus.core.errors import ConfigError, HomarusError
from homarus.core.events import RunEnded
from homarus.core.messages import Inbound, Outbound
from homarus.core.routes import Route, SessionKey
from homarus.delivery.sanitize import shape
from homarus.queue.collect import Queued, message_key
from homarus.queue.debounce import InboundDebounce
from homarus.queue.inbox import Inbox
from homarus.queue.settings import InboundSettings
from homarus.sessions.routing import routes_for

if TYPE_CHECKING:
    from homarus.channels.admit import Decision
    from homarus.runtime.local import LocalClient

_log = logging.getLogger(__name__)
MAX_WAITING = 1000
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
FULL = "⚠️ Too much is waiting here already, so this message was not taken. Please send it again later."
# Among the facts of a message, while it is in here: what nobody asked for does not follow its sender.
_STAYS = "staysHere"
_LETTER = "#letter"  # what another program answers, whose answer is brought from here
_JOINED = "#joined"  # several messages that became one; also the name of its fact that says which
_VOICE = "#voice"  # a voice of a group, to be heard before it is decided whether it speaks to the agent
MAX_VOICES = 20
CLAIM = "message:claim"


_URGENT = [["/stop"], ["/approve"], ["/status"], ["/steer"], ["/tell"], ["/btw"]]
Chat = tuple[str, ...]


class Order:
    """One after another, in the order in which they asked for their place."""

    def __init__(self) -> None:
        self._last: asyncio.Future[None] | None = None

    @property
    def taken(self) -> bool:
        return self._last is not None and not self._last.done()

    def place(self) -> AbstractAsyncContextManager[None]:
        """Take the place behind everybody who is there now."""
        before, own = self._last, asyncio.get_running_loop().create_future()
        self._last = own
        return self._at(before, own)

    @asynccontextmanager
    async def _at(self, before: asyncio.Future[None] | None, own: asyncio.Future[None]) -> AsyncIterator[None]:
        try:
            if before is not None:
                await asyncio.wait({before})
            yield
        finally:
            own.set_result(None)


class Desk(Protocol):
    """What the intake needs of the rest: who is let in, what is said back, and what came with a message."""

    def passing(self, inbound: Inbound) -> AbstractContextManager[Decision]:
        """Decide about a message; inside, it is handed on, and what was handed on is known for good."""
        ...

    def post(self, message: Outbound) -> bool: ...

    async def posted(self) -> None:
        """Return when what was posted is durable."""
        ...

    def began(self, inbound: Inbound, route: Route) -> None:
        """A message was taken in: show that somebody reads it."""
        ...

    def unheard(self, inbound: Inbound) -> bool:
        """Say whether a message is a voice in a group that would not count as spoken to the agent, and can be heard first."""
        ...

    async def spoken(self, inbound: Inbound) -> Inbound: ...

    async def with_media(self, inbound: Inbound) -> Inbound:
        """Fetch the files that came with an admitted message; what cannot be fetched is said in its text."""
        ...


class Intake:
    """One process's way in. `take` is what channels call; several may do so at once."""

    def __init__(self, client: LocalClient, desk: Desk, journal: Path) -> None:
        self._client, self._home, self._desk = client, client.home, desk
        self._journal = Inbox(journal)
        self._debounce = InboundDebounce(self._home.config.block("messages.inbound", InboundSettings))
        self._merged: dict[Chat, list[str]] = {}  # the keys of what became part of a held message, by its chat
        self._orders: dict[Chat, Order] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._journal.pending)

    async def take(self, inbound: Inbound) -> None:
        """Take a message in. When this returns it is durable, refused or known. Raises where it could not be kept."""
        voices = sum(item.key.endswith(_VOICE) for item in self._journal.pending)
        if inbound.media and voices < MAX_VOICES and self._desk.unheard(inbound):
            key = message_key(inbound) + _VOICE
            if self._journal.accept(Queued(key, inbound, Route("", SessionKey.parse("main")))):
                self._do(self._listened(inbound, key, self._order(inbound).place()))
        else:
            await self._judged(inbound)
        await durable()

    async def _listened(self, inbound: Inbound, key: str, place: AbstractAsyncContextManager[None]) -> None:
        """Hear a voice message, and only then decide about it; who writes in its chat meanwhile comes after it."""
        async with place:
            heard = await self._desk.spoken(inbound)
        pause = FIRST_PAUSE
        while True:
            try:
                await self._judged(heard)
                self._journal.settle(key)
                return
            except HomarusError as problem:
                _log.error("a voice message from %s waits: %s", inbound.channel, problem)
                await self._home.clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _judged(self, inbound: Inbound) -> None:
        with self._desk.passing(inbound) as decision:
            if decision.told:
                self._desk.post(answer(inbound, f"told.{message_key(inbound)}", decision.told))
            if decision.admitted:
                facts = {**(decision.inbound.facts or {}), **({} if decision.moves_route else {_STAYS: True})}
                await self._admitted(as_read(replace(decision.inbound, facts=facts or None)))

    async def _admitted(self, inbound: Inbound) -> None:
        if self._goes_straight(inbound):
            async with self._order(inbound).place():
                await self._handed_in(inbound)
            return
        if len(self._journal.pending) >= MAX_WAITING:
            raise HomarusError("too many messages wait to be taken in", cure="see 'homarus channels status'")
        if self._journal.accept(Queued(message_key(inbound), inbound, Route("", SessionKey.parse("main")))):
            self._offer(inbound)

    def recover(self) -> int:
        """Go on with what an earlier process took in and did not hand over."""
        pending = self._journal.pending
        parts = {key for item in pending for key in item.facts.get(_JOINED, ())}
        self._journal.settle(*parts)
        for item in pending:
            if item.key in parts:
                continue
            if item.key.endswith(_VOICE):
                self._do(self._listened(item.inbound, item.key, self._order(item.inbound).place()))
            elif item.key.endswith(_LETTER):
                self._do(self._elsewhere(replace(item, key=item.key.removesuffix(_LETTER))))
            else:
                facts = {name: value for name, value in item.facts.items() if name != _JOINED}
                self._begin(replace(item.inbound, facts=facts or None), (item.key,))
        return len(pending) - len(parts)

    async def aclose(self) -> None:
        """Stop; what waits stays in the journal."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._journal.close()

    # What has to wait.

    def _goes_straight(self, inbound: Inbound) -> bool:
        settings = self._home.config.block("messages.inbound", InboundSettings)
        waits = inbound.media or is_order(inbound.text) or settings.delay_ms(inbound.channel) > 0
        if waits or len(self._debounce) or self._order(inbound).taken:
            return False
        try:
            routes_for(inbound, self._home.config)
        except ConfigError:
            return False
        return True

    def _offer(self, inbound: Inbound) -> None:
        """Let a message wait for the rest of what its sender types, and go on with what is ready."""
        now, key = self._home.clock.monotonic(), message_key(inbound)
        settings = self._home.config.block("messages.inbound", InboundSettings)
        self._debounce.settings = settings
        ready = self._debounce.offer(inbound, now, command=is_order(inbound.text))
        chat = _chat(inbound)
        self._merged.setdefault(chat, []).append(key) if not ready else None
        for each in ready:
            keys = (key,) if each is inbound else tuple(self._merged.pop(chat, ()))
            self._begin(each, keys)
        self._wake()

    def _wake(self) -> None:
        due = self._debounce.next_due()
        if self._timer is not None:
            self._timer.cancel()
        if due is not None and not self._closed:
            delay = max(0.0, due - self._home.clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._due)

    def _due(self) -> None:
        for inbound in self._debounce.due(self._home.clock.monotonic()):
            self._begin(inbound, tuple(self._merged.pop(_chat(inbound), ())))
        self._wake()

    def _begin(self, inbound: Inbound, keys: tuple[str, ...]) -> None:
        if len(keys) > 1:  # after a crash none of them is handed over by itself as well
            whole = replace(inbound, facts={**(inbound.facts or {}), _JOINED: list(keys)})
            joined = Queued(keys[-1] + _JOINED, whole, Route("", SessionKey.parse("main")))
            self._journal.accept(joined)
            self._journal.settle(*keys)
            keys = (joined.key,)
        order = Order() if is_urgent(inbound.text) else self._order(inbound)
        self._do(self._later(inbound, keys, order.place()))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _later(self, inbound: Inbound, keys: tuple[str, ...], place: AbstractAsyncContextManager[None]) -> None:
        """Hand over what waited. A command is given at most once: one that ends the program would else end it for ever."""
        async with place:
            pause = FIRST_PAUSE
            while not await self._tried(inbound, keys):
                await self._home.clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _tried(self, inbound: Inbound, keys: tuple[str, ...]) -> bool:
        """Hand a message over; False where it has to be tried again."""
        try:
            if is_order(inbound.text):
                self._journal.settle(*keys)
            inbound = await self._desk.with_media(inbound) if inbound.media else inbound
            await self._handed_in(inbound)
            self._journal.settle(*keys)
        except HomarusError as problem:  # a full disk, a binding that cannot be read: it stays until somebody acts
            _log.error("a message from %s waits: %s", inbound.channel, problem)
        except Exception:  # noqa: BLE001 - one message must not keep others from being heard
            _log.exception("a message from %s waits", inbound.channel)
        return not any(item.key in keys for item in self._journal.pending)

    # Sessions.

    def _order(self, inbound: Inbound) -> Order:
        """Return the order of what is said in a chat: a message after a command waits until that is done."""
        if len(self._orders) > MAX_WAITING:
            self._orders = {chat: order for chat, order in self._orders.items() if order.taken}
        chat = (inbound.channel, inbound.account, inbound.peer or inbound.sender, inbound.thread)
        return self._orders.setdefault(chat, Order())

    async def _handed_in(self, inbound: Inbound) -> None:
        """Give a message to every session that answers its chat; most chats have one."""
        routes, in_turn = routes_for(inbound, self._home.config)
        for route in routes:
            await self._session(route, inbound)
            lane = self._client.runtime.open_lane(route.session_key)
            if in_turn and lane is not None and len(routes) > 1:
                await lane.idle()

    async def _session(self, route: Route, inbound: Inbound) -> None:
        key, facts = route.session_key, dict(inbound.facts or {})
        stays = facts.pop(_STAYS, False)
        inbound = replace(inbound, facts=facts or None)
        # What stops or steers the program stays out of reach of hooks.
        claim = (
            Handled() if is_order(inbound.text) else await self._home.tell.handled(CLAIM, key, inbound, inbound.text)
        )
        replies = tuple(filter(None, [claim.reply]))
        done = IntakeResult(replies) if claim.done else await self._client.take(key, inbound)
        name = f"{message_key(inbound)}.{key.agent_id}"
        for number, reply in enumerate(done.replies):
            self._desk.post(answer(inbound, f"said.{name}.{number}", reply))
        await self._desk.posted()
        if done.item is None:
            lane = self._client.runtime.open_lane(key)
            if done.refused and lane is not None and not lane.knows(message_key(inbound)):
                self._desk.post(answer(inbound, f"full.{name}", FULL))
            return
        if not stays:
            self._note_route(key, route, inbound)
        self._desk.began(inbound, route)
        if self._client.runtime.open_lane(key) is None:
            self._journal.accept(replace(done.item, key=done.item.key + _LETTER))
            self._do(self._elsewhere(done.item))

    def _note_route(self, key: SessionKey, route: Route, inbound: Inbound) -> None:
        """Remember where the session was talked in last: that is where a word that nobody asked for goes."""
        fields: dict[str, Any] = {
            "last_channel": route.channel,
            "last_to": route.to,
            "last_account_id": route.account,
            "last_thread_id": route.thread or None,
        }
        store = self._home.store(key.agent_id)
        info = store.find(key)
        if info is not None and any(getattr(info.entry, name) != value for name, value in fields.items()):
            store.update(key, **fields, channel=route.channel, chat_type=inbound.chat_type)

    async def _elsewhere(self, item: Queued) -> None:
        """Bring back what another program answers that has the session open."""
        events = await self._client.elsewhere.answered(item.route.session_key, item, None)
        ended = events[-1] if events else None  # None: this process has it now, and its own turn speaks
        if isinstance(ended, RunEnded) and (text := shape(ended.text or ended.error).text):
            self._desk.post(answer(item.inbound, f"said.{item.key}", text))
            await self._desk.posted()
        self._journal.settle(item.key + _LETTER)


def _chat(inbound: Inbound) -> Chat:
    return inbound.channel, inbound.account, inbound.peer, inbound.thread, inbound.sender


def answer(inbound: Inbound, ident: str, text: str, **more: Any) -> Outbound:
    """Return a message to the chat that another one came from."""
    to = inbound.peer or inbound.sender
    return Outbound(ident, inbound.channel, to, text, inbound.account, inbound.thread, **more)


def is_order(text: str) -> bool:
    """Say whether a message may be one to the program, which can take long; what is none after all only waits a little."""
    return text.lstrip().startswith(("/", "!")) or is_stop(text)


def is_urgent(text: str) -> bool:
    """Say whether a message is about what runs now, so that it waits for nothing."""
    return is_stop(text) or text.split(maxsplit=1)[:1] in _URGENT


def as_read(inbound: Inbound) -> Inbound:
    """Return a message as the agent reads it: what is no word of its sender's stands apart, and gives no orders."""
    facts: dict[str, Any] = dict(inbound.facts or {})
    text, beside = inbound.command or inbound.text, [str(facts.pop("context", ""))]
    if inbound.forwarded:
        text, beside = "", [*beside, text]
    attached = "\n\n".join(part for part in beside if part)
    facts |= {ATTACHED: attached} if attached else {}
    return replace(inbound, text=text, facts=facts or None)
