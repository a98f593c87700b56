"""The life of a served home: what a changed file asks of it, and how it ends without cutting off what runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from homarus.config.keypath import KeyPath, format_path, parse_path
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
# What every turn or request reads anew; a change anywhere else takes a fresh start, which waits until nothing runs.
_LIVE = """
$schema meta wizard session messages gateway.reload gateway.remote gateway.auth gateway.http gateway.tools gateway.controlUi
gateway.trustedProxies tools.allow tools.deny tools.alsoAllow tools.profile tools.byProvider tools.exec tools.elevated
tools.loopDetection agents.defaults.model agents.defaults.timeoutSeconds agents.defaults.thinkingDefault
agents.defaults.budget agents.defaults.compaction agents.defaults.contextPruning channels bindings broadcast accessGroups
commands.allowFrom commands.ownerAllowFrom agents.defaults.typingMode agents.defaults.humanDelay
agents.defaults.blockStreamingDefault agents.defaults.blockStreamingChunk agents.defaults.blockStreamingCoalesce
hooks.enabled hooks.token hooks.mappings hooks.presets hooks.maxBodyBytes hooks.defaultSessionKey
hooks.allowRequestSessionKey hooks.allowedSessionKeyPrefixes hooks.allowedAgentIds
skills.entries skills.allowBundled skills.install
"""


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
                self.changed()

    def changed(self) -> str:
        """Act on the file as it is now; return what that took: none, hot or restart."""
        home = self._gateway.client.home
        try:
            fresh = load_config(home.config.paths, home.env)
            fresh.bound(home.config.floor)
        except HomarusError as problem:
            _log.warning("the changed configuration is not used: %s", problem)
            return "none"
        for found in fresh.problems:
            if found.severity != "info" and found not in home.config.problems + self._said:
                _log.warning("the changed configuration: %s", found)
        self._said = fresh.problems
        kind, names = reload_kind(home.config, fresh)
        mode = self._gateway.live.settings.reload.mode
        if kind == "restart" and mode == "hot":
            _log.warning("gateway.reload.mode is hot, so these wait for the next start: %s", ", ".join(names))
            return "none"
        kind = "restart" if kind == "hot" and mode == "restart" else kind
        if kind == "hot":
            home.config.adopt(fresh)
            home.override(home.overrides)
            _log.info("took over %s", ", ".join(names))
            self._gateway.spawn(self._gateway.switchboard.reload())
        elif kind == "restart":
            _log.info("starting anew for %s", ", ".join(names))
            self.restart(f"changed settings: {', '.join(names)}")
        if kind != "none":
            path, now_ms = str(home.config.paths.config_path), self._gateway.now_ms
            self._gateway.hub.tell("config.changed", {"path": path, "hash": fresh.hash, "ts": now_ms})
        return kind

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
    changes = [change for change in plan_reload(old.document, new.document) if change.reload != "none"]
    names = [format_path(change.path) for change in changes]
    if not changes:
        return "none", []
    prefixes = [*(parse_path(path) for path in _LIVE.split()), *_read_by_nobody()]
    live = all(_agent_lives(change.path, old, new) or _begins(change.path, prefixes) for change in changes)
    return ("hot" if live else "restart"), names


def _begins(path: KeyPath, prefixes: list[KeyPath]) -> bool:
    return any(path[: len(each)] == each for each in prefixes)


def _read_by_nobody() -> list[KeyPath]:
    from homarus.config.known import NO_EFFECT

    return [parse_path(path) for path in NO_EFFECT]


def _agent_lives(path: KeyPath, old: Config, new: Config) -> bool:
    """Say whether a change of one agent counts with its next turn: one that comes or goes, and what is read anew of one that stays."""
    if path[:2] != ("agents", "entries") or len(path) < 3 or path[3:4] == ("heartbeat",):
        return False
    before, after = ({agent.id for agent in config.agents} for config in (old, new))
    if old.default_agent.id != new.default_agent.id:
        return False
    return (path[2] in before) != (path[2] in after) or path[3:4] in [
        ("model",),
        ("identity",),
        ("name",),
        ("default",),
    ]
