"""The life of a served home: what a changed file asks of it, and how it ends without cutting off what runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from homarus.config.blocks import validate
from homarus.config.keypath import format_path, parse_path
from homarus.config.load import load_config
from homarus.config.reload import plan_reload
from homarus.config.report import Problem
from homarus.config.view import Config
from homarus.core.clock import Clock
from homarus.core.errors import HomarusError
from homarus.core.routes import main_session

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway

_log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
DRAIN_SECONDS = 300.0
RESTART_MS = 3_000  # how long a fresh start usually takes, for clients that wait
SEND_SECONDS = 10.0  # for what was said and is not sent yet; it is durable in any case


class Life:
    """Watches the file of the configuration and the wish to end. One for each gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._clock: Clock = gateway.clock
        self._ending = asyncio.Event()
        self._hurry = asyncio.Event()
        self.restarts = False
        self._why = ""
        self._said: list[Problem] = []  # what was wrong with the file when it changed last

    # The file.

    async def watch(self) -> None:
        """Take changed settings over as long as the gateway lives. A file that cannot be used changes nothing."""
        live, before = self._gateway.live, self._gateway.live.stamp()
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            now = live.stamp()
            if now == before or self._gateway.live.settings.reload.mode == "off":
                before = now
                continue
            await self._clock.sleep(LOOK_SECONDS / 2)  # whoever writes it may not be done
            if live.stamp() == now:
                before = now
                try:
                    self.changed()
                except (HomarusError, OSError) as problem:
                    _log.error("the changed configuration: %s", problem)

    def changed(self) -> str:
        """Act on the file as it is now; return what that took: none, hot or restart."""
        home = self._gateway.client.home
        try:
            fresh = load_config(home.config.paths, home.env)
            fresh.bound(home.config.floor)
        except HomarusError as problem:
            _log.warning("the changed configuration is not used: %s", problem)
            return "none"
        known = {(found.key, found.message) for found in validate(home.config)}
        fresh_ones = [found for found in validate(fresh) if (found.key, found.message) not in known]
        wrong = [found for found in fresh_ones if found.severity == "error"]
        for found in wrong or fresh_ones:
            if found.severity != "info" and found not in self._said:
                _log.warning("the changed configuration%s: %s", " is not used" if wrong else "", found)
        self._said = fresh_ones
        if wrong:  # it would start, on less than what is meant; what works goes on
            return "none"
        kind, names = reload_kind(home.config, fresh)
        mode = self._gateway.live.settings.reload.mode
        if kind == "restart" and mode == "hot":
            _log.warning("gateway.reload.mode is hot, so these wait for the next start: %s", ", ".join(names))
            return "none"
        kind = "restart" if kind == "hot" and mode == "restart" else kind
        if kind == "hot":
            self._take_over(fresh)
            _log.info("took over %s", ", ".join(names))
        elif kind == "restart":
            _log.info("starting anew for %s", ", ".join(names))
            self.restart(f"changed settings: {', '.join(names)}")
        if kind != "none":
            path, now_ms = str(home.config.paths.config_path), self._gateway.now_ms
            self._gateway.hub.tell("config.changed", {"path": path, "hash": fresh.hash, "ts": now_ms})
        return kind

    def _take_over(self, fresh: Config) -> None:
        """Let everything from now on read a new configuration; what runs keeps what it began with."""
        gateway, home = self._gateway, self._gateway.client.home
        home.config.adopt(fresh)
        home.override(home.overrides)
        if gateway.log is not None:
            try:
                gateway.log.follow(home.config)
            except (HomarusError, OSError) as problem:
                _log.warning("logging.file: %s; the log goes on where it is", problem)
        gateway.runtime.automation.look_again()
        gateway.spawn(gateway.switchboard.reload())

    # The end.

    def stop(self) -> None:
        """End when what runs has ended; asked a second time, at once."""
        if self._ending.is_set():
            self._hurry.set()
        self._ending.set()

    def restart(self, why: str = "asked for") -> str:
        """End as `stop` does, and begin again."""
        self.restarts, self._why = True, why
        self._ending.set()
        return "The gateway starts anew as soon as nothing runs."

    async def ended(self, tell: Callable[[str], None] | None = None) -> None:
        """Wait until it is time to end, and then until nothing runs, at most five minutes."""
        await self._ending.wait()
        if self.restarts:
            home, facts = self._gateway.client.home, {"reason": self._why, "restartExpectedMs": RESTART_MS}
            await home.tell("gateway:pre-restart", main_session(home.config.default_agent.id), facts)
        running = self._gateway.runtime.lanes.busy
        _log.info("ending%s; %d turns run", f" to start anew: {self._why}" if self.restarts else "", len(running))
        if running and tell is not None:
            tell(f"finishing {len(running)} running turns; once more ends them now")
        self._gateway.stopping = "the gateway is about to end"
        waited, step = 0.0, 0.1
        while self._gateway.runtime.lanes.busy and waited < DRAIN_SECONDS and not self._hurry.is_set():
            await self._clock.sleep(step)
            waited += step
        if not self._hurry.is_set():
            await self._gateway.switchboard.drain(SEND_SECONDS)


def reload_kind(old: Config, new: Config) -> tuple[str, list[str]]:
    """Return what taking over a new configuration takes, and the keys that changed."""
    from homarus.config.known import NO_EFFECT

    nobody = [parse_path(path) for path in NO_EFFECT]
    changes = [change for change in plan_reload(old.document, new.document) if change.reload != "none"]
    asked = {change.reload for change in changes if not any(change.path[: len(each)] == each for each in nobody)}
    if old.default_agent.id != new.default_agent.id and new.get("hooks.internal"):
        asked.add("restart")  # hooks of the default agent's workspace are loaded at the start
    kind = "restart" if "restart" in asked else "hot" if changes else "none"
    return kind, [format_path(change.path) for change in changes]
