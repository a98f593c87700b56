"""Speaking to another session: its inbox takes the message durably, and what it answers comes back.

An answer that nobody waits for is sent back as a message, and the two may go on like that for a few turns. A message
carries the trust and the taint of the turn that sent it, so nothing is laundered by passing it on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from homarus.core.clock import epoch_ms
from homarus.core.errors import Denied, HomarusError, Locked, ToolError
from homarus.core.events import RunEnded
from homarus.core.messages import Inbound, Trust
from homarus.core.routes import SessionKey, main_session, normalize_agent_id
from homarus.core.text import single_line
from homarus.delivery.sanitize import shape
from homarus.runtime.events import EventFeed, Following
from homarus.runtime.tool_backends.sessions import SessionsBackend
from homarus.storage.cache import BoundedCache
from homarus.tools.services import Json
from homarus.tools.tool import ToolContext

if TYPE_CHECKING:
    from homarus.runtime.runtime import Runtime

_log = logging.getLogger(__name__)
# The channel of messages that sessions send each other; `to` of such a route is the session to answer.
PEER = "session"
SKIP_REPLY, SKIP_ANNOUNCE = "REPLY_SKIP", "ANNOUNCE_SKIP"
MAX_TURNS, MAX_SECONDS, MAX_CHARS = 5, 600.0, 100_000
# How long an answer that nobody waits for any more may take and still be sent back.
PATIENCE_SECONDS = 3_600.0
_LOCAL = frozenset({"", "terminal", PEER})


class Answer(Struct, frozen=True):
    """What a session answered, and what it had read by then that nobody trusted wrote."""

    text: str
    status: str
    error: str = ""
    taint: tuple[str, ...] = ()

    def told(self) -> Json:
        """Return it as the tool's result."""
        told = {"status": self.status, "reply": self.text}
        return {**told, "error": self.error or self.status} if self.status != "ok" else told


class Words(Struct, frozen=True):
    """What is passed on, and with what standing."""

    text: str
    trust: Trust
    taint: tuple[str, ...]


class Sent:
    """One message on its way, and the end of the turn that answers it."""

    def __init__(self, runtime: Runtime, key: SessionKey, inbound: Inbound, is_tainted: Callable[[], bool]) -> None:
        self.session = key
        self._is_tainted = is_tainted
        self._events = EventFeed(partial(runtime.answering, key))
        self._unlisten = runtime.listen(key, self._events.put)
        try:
            item = runtime.submit(key, inbound)
            if item is None:
                raise ToolError(f"{key} takes no message now", cure="try again later")
        except BaseException:
            self._unlisten()
            raise
        self._lane, self._key = runtime.lane(key), item.key
        self._owed = partial(runtime.owed, key)

    async def answer(self) -> Answer:
        """Wait for the end."""
        ended = RunEnded("", "aborted")
        try:
            async for event in Following(self._lane, self._key, self._events, self._owed, everyone=False):
                if isinstance(event, RunEnded):
                    ended = event
        finally:
            self._unlisten()
        taint = (f"session:{self.session}",) if self._is_tainted() else ()
        return Answer(shape(ended.text).text, ended.status, ended.error, taint)


class SessionMessenger:
    """The `SessionsSend` of a home."""

    def __init__(self, runtime: Runtime, view: SessionsBackend) -> None:
        self._runtime = runtime
        self._home = runtime.home
        self._view = view
        self._tasks: set[asyncio.Task[None]] = set()
        # Who waits for whose answer, and how many messages stand behind the newest message to a session.
        self._waits: set[tuple[SessionKey, SessionKey]] = set()
        self._hops: BoundedCache[SessionKey, int] = BoundedCache(512)

    async def send(self, context: ToolContext, target: Json, message: str, timeout_seconds: float) -> Json:
        """Deliver a message; with a timeout, wait for the reply."""
        key = self._target(context, target)
        self._check(context, key, message)
        hops = 1 + (self._hops.get(context.session, 0) if context.route.channel == PEER else 0)
        if hops > max(1, self._turns):
            cure = "answer with what you know"
            raise Denied(f"{hops - 1} messages have gone from session to session already", cure=cure)
        words = Words(message, context.trust, context.taint.sources)
        try:
            sent = self._deliver(key, context.session, words)
        except Locked as held:
            raise ToolError(f"{key} is open in another program: {held.message}", cure="try again later") from None
        self._hops.put(key, hops)
        pending = asyncio.ensure_future(sent.answer())
        seconds = min(timeout_seconds, MAX_SECONDS)
        if seconds > 0 and await self._waited(context, key, pending, seconds):
            answer = pending.result()
            for source in answer.taint:
                context.taint.add(source)
            self._later(lambda: self._announce(key, context.session, words))
            return {"sessionKey": str(key), **answer.told()}
        self._later(lambda: self._go_on(pending, context.session, key, words))
        status = "timeout" if seconds > 0 else "accepted"
        return {"sessionKey": str(key), "status": status, "note": "a reply will arrive as a message"}

    async def aclose(self) -> None:
        """Stop waiting for answers. What was sent stays sent."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _waited(
        self, context: ToolContext, key: SessionKey, pending: asyncio.Future[Answer], seconds: float
    ) -> bool:
        """Wait for an answer; a turn that is stopped meanwhile stops waiting, and the other session goes on."""
        self._waits.add((context.session, key))
        try:
            with context.cancel.interrupting():
                await asyncio.wait({pending}, timeout=seconds)
        except BaseException:
            pending.cancel()
            raise
        finally:
            self._waits.discard((context.session, key))
        return pending.done()

    @property
    def _turns(self) -> int:
        wanted = self._home.config.get("session.agentToAgent.maxPingPongTurns")
        return max(0, min(wanted, MAX_TURNS)) if isinstance(wanted, int) else MAX_TURNS

    def _target(self, context: ToolContext, target: Json) -> SessionKey:
        if target.get("sessionKey") or target.get("label"):
            return self._view.find(context, str(target.get("sessionKey") or target["label"])).key
        agent = normalize_agent_id(str(target["agentId"]))
        sight = self._view.sight(context)
        key = main_session(agent, self._home.store(agent).main_key)
        if agent not in {each.id for each in self._home.config.agents} or not sight.sees(key, {}):
            raise Denied(
                f"there is no agent '{single_line(agent, 80)}' that this session may speak to",
                cure="the owner allows it with tools.agentToAgent and tools.sessions.visibility",
            )
        return key

    def _check(self, context: ToolContext, key: SessionKey, message: str) -> None:
        if not message.strip() or len(message) > MAX_CHARS:
            raise ToolError(f"the message is empty or longer than {MAX_CHARS:,} characters", cure="say it in short")
        if key == context.session:
            raise ToolError("that is this session itself", cure="just answer")
        if key.thread or key.topic:
            raise ToolError(f"{key} is a thread", cure="send to the session that the thread belongs to")
        joined = self._view.sight(context).peers.joins(context.agent_id, key.agent_id)
        if not joined:
            raise Denied(f"{key} belongs to another agent", cure="the owner allows it with tools.agentToAgent")
        if (key, context.session) in self._waits or (context.route.channel == PEER and context.route.to == str(key)):
            raise ToolError(f"{key} is waiting for what you say now", cure="just answer: your reply goes back to it")
        if context.sandbox.enforced and not self._home.sandbox(key.agent_id, key).enforced:
            raise Denied(f"{key} runs without a sandbox, and this session has one", cure="ask the owner to do it")

    def _deliver(self, key: SessionKey, sender: SessionKey, words: Words, note: str = "") -> Sent:
        text = f"[Message from session {sender}]\n{words.text}" + (f"\n({note})" if note else "")
        inbound = Inbound(
            id=self._home.ids.uuid(),
            channel=PEER,
            text=text,
            sender=str(sender),
            trust=words.trust,
            timestamp=epoch_ms(self._home.clock.now()),
            facts={"taint": list(words.taint)},
        )
        return self._sent(key, inbound)

    def _sent(self, key: SessionKey, inbound: Inbound) -> Sent:
        def is_tainted() -> bool:
            info = self._home.store(key.agent_id).find(key)
            return info is None or self._view.is_tainted(info)

        return Sent(self._runtime, key, inbound, is_tainted)

    async def _go_on(self, pending: asyncio.Future[Answer], asker: SessionKey, key: SessionKey, words: Words) -> None:
        """Send an answer back that nobody waited for, and the answer to that, until one of the two has said enough."""
        speaker, hearer, turns = key, asker, self._turns
        for turn in range(1, turns + 1):
            async with asyncio.timeout(PATIENCE_SECONDS):
                answer = await pending
            if not answer.text or SKIP_REPLY in answer.text:
                break
            words = Words(answer.text, words.trust, tuple(dict.fromkeys((*words.taint, *answer.taint))))
            self._hops.put(hearer, turn + 1)
            sent = self._deliver(hearer, speaker, words, f"turn {turn} of {turns}; {SKIP_REPLY} leaves it at that")
            pending = asyncio.ensure_future(sent.answer())
            speaker, hearer = hearer, speaker
        await self._announce(key, asker, words)

    async def _announce(self, key: SessionKey, asker: SessionKey, words: Words) -> None:
        """Let the session that was asked tell its own chat about it, where it has one."""
        info = self._home.store(key.agent_id).find(key)
        if info is None or (info.entry.last_channel or "") in _LOCAL or not info.entry.last_to:
            return
        text = (
            f"[Message from session {asker}] The exchange is over. Write what the people in this chat should know of it, "
            f"or {SKIP_ANNOUNCE} if nothing."
        )
        inbound = Inbound(
            id=self._home.ids.uuid(),
            channel=info.entry.last_channel or "",
            text=text,
            account=info.entry.last_account_id or "default",
            peer=info.entry.last_to,
            trust=words.trust,
            timestamp=epoch_ms(self._home.clock.now()),
            facts={"taint": list(words.taint)},
        )
        await self._sent(key, inbound).answer()

    def _later(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def quietly() -> None:
            try:
                await work()
            except (HomarusError, TimeoutError) as problem:
                _log.warning("an exchange between sessions ended early: %s", problem)

        task = asyncio.get_running_loop().create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
