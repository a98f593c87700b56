"""Web hooks at work: an order is kept from when it is accepted until its answer was brought to people, also over a crash."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from homarus.agent.home import Home
from homarus.automation.events import SystemEvents
from homarus.automation.runs import CLAIMED, FINISHED, RunLog
from homarus.automation.webhooks import HookOrder
from homarus.core.clock import epoch_ms
from homarus.core.errors import HomarusError
from homarus.core.messages import Inbound
from homarus.core.routes import SessionKey, SessionKind, main_session, named_session
from homarus.delivery.sanitize import shape

if TYPE_CHECKING:
    from homarus.automation.starter import Ran, Starter

_log = logging.getLogger(__name__)


class HookOrders:
    """The orders of one home that ask an agent, in a file like that of a job's runs."""

    def __init__(
        self,
        folder: Path,
        home: Home,
        starter: Starter,
        events: SystemEvents,
        do: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._log = RunLog(folder, "hook-orders")
        self._home = home
        self._starter = starter
        self._events = events
        self._do = do

    def accept(self, order: HookOrder) -> None:
        """Begin an order. It is durable when this returns, or it raised and nothing is left of it."""
        self._log.note({"action": CLAIMED, "runId": order.ident, "order": msgspec.to_builtins(order)})
        try:
            self._follow(order)
        except BaseException:
            self._end(order)
            raise

    def take_up(self) -> None:
        """Go on with what an earlier process left, or find its answer."""
        for order in self.open():
            try:
                self._follow(order)
            except HomarusError as problem:
                _log.warning("the web hook %s is not answered: %s", order.name, problem)
                self._end(order)

    def open(self) -> list[HookOrder]:
        """Return the orders that are not answered. One that a later version wrote stays for that version."""
        found = []
        for row in self._log.open_runs():
            with suppress(msgspec.ValidationError):
                found.append(msgspec.convert(row.get("order"), HookOrder))
        return found

    def _end(self, order: HookOrder) -> None:
        self._log.note({"action": FINISHED, "runId": order.ident})

    def _follow(self, order: HookOrder) -> None:
        agent = self._home.config.agent_named(order.agent_id)
        key = self._home.store(agent.id).key(
            order.session or str(named_session(agent.id, SessionKind.HOOK, order.ident))
        )
        inbound = Inbound(
            id=order.ident,
            channel="hook",
            text=order.text,
            sender=order.name,
            trust=order.trust,
            timestamp=epoch_ms(self._home.clock.now()),
            facts={"why": "schedule", "taint": list(order.taint), **order.facts},
        )
        self._do(self._answered(key, order, self._starter.start(key, inbound)))

    async def _answered(self, key: SessionKey, order: HookOrder, turn: Awaitable[Ran]) -> None:
        """Bring the answer where the order says; what goes wrong is told to the main session."""
        ran = await turn
        text = shape(ran.text).text
        main = main_session(key.agent_id, self._home.store(key.agent_id).main_key)
        told, ident = "", f"hook:{order.ident}"
        if not ran.ok and not self._starter.delivered(ident):
            told = f"The web hook {order.name} failed: {ran.error or ran.status}"
        elif order.target and text and not ran.sent:
            problem = await self._starter.deliver(main, order.target, text, ident)
            told = f"The answer to web hook {order.name} was not delivered: {problem}" if problem else ""
        if told:
            self._events.add(main, told, ident=f"{ident}:end")
        self._end(order)
