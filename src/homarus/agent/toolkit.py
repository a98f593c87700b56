"""The tools of a home: built once, narrowed by policy for each turn, and held by one gate.

Here is also what tools share: the people who may answer the gate's questions, and the commands that a killed process left.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec.structs import replace

from homarus.agent.sandbox_for import skill_folders
from homarus.agent.vision import Vision
from homarus.config.keypath import merge
from homarus.config.view import Config
from homarus.core.clock import Clock, Ids, SystemClock, SystemIds
from homarus.core.errors import ConfigError, HomarusError
from homarus.core.events import ApprovalAsked, RunEvent
from homarus.core.routes import SessionKey
from homarus.core.tools import Risk, ToolSpec
from homarus.models.access import Models
from homarus.prompt.gather import docs_path
from homarus.prompt.section import is_small
from homarus.prompt.sections.tooling import in_order
from homarus.sandbox.claims import Claims
from homarus.sessions.row import SessionEntry
from homarus.storage.atomic import ensure_dir
from homarus.storage.cache import BoundedCache
from homarus.tools.exec import Granted
from homarus.tools.exec_settings import ElevatedSettings, ExecRequest, ExecSettings, granted
from homarus.tools.execute import BeforeCall, Toolbox
from homarus.tools.paths import FsSettings, Reach
from homarus.tools.policy import Layer, PatchSwitch, PolicySettings, Rules, Who, allowed_tools, layers_for
from homarus.tools.processes import ProcessManager, ProcessSettings
from homarus.tools.registry import ToolSettings, build_tools
from homarus.tools.services import ToolServices, ToolSource
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said
from homarus.tools.web import WebSettings

if TYPE_CHECKING:
    from homarus.agent.turn import Turn
    from homarus.tools.approval import Approvals, Decision, Request
    from homarus.tools.gate import PolicyGate

_log = logging.getLogger(__name__)
_DECISIONS: dict[str, Decision] = {
    "once": "allow-once",
    "allow-once": "allow-once",
    "always": "allow-always",
    "allow-always": "allow-always",
    "deny": "deny",
}


Emit = Callable[[RunEvent], None]
T = TypeVar("T")


class Approvers:
    """Puts the gate's questions to whoever attends to a session. It never answers by itself.

    Nobody attends to a child: its questions go to whoever attends to the session that it works for. Where nobody attends
    to either, every question is answered no, at once.
    """

    def __init__(self) -> None:
        self._here: dict[str, list[Emit]] = {}
        self._roots: dict[str, str] = {}

    def works_for(self, child: str, root: str) -> None:
        """Let a child's questions go to those who attend to the session that it works for."""
        self._roots[child] = root

    def ended(self, child: str) -> None:
        self._roots.pop(child, None)

    def arrive(self, session: SessionKey, emit: Emit) -> Callable[[], None]:
        """Note that a person watches this session and can answer; returns what notes that they left."""
        name = str(session)
        self._here.setdefault(name, []).append(emit)

        def leave() -> None:
            attending = self._here.get(name, [])
            if emit in attending:
                attending.remove(emit)
            if not attending:
                self._here.pop(name, None)

        return leave

    def reachable(self, request: Request) -> bool:
        """Say whether somebody attends to the session that asks, or to the one that it works for."""
        return bool(self._attending(request))

    async def announce(self, request: Request) -> None:
        """Show the question to everybody who attends: any one of them tells all who listen, so one is asked to."""
        own = bool(self._here.get(request.session))
        reason = request.reason if own else f"a sub-agent asks: {request.reason}"
        asked = ApprovalAsked(request.id, request.summary, reason, request.expires_ms, request.lasting)
        for emit in self._attending(request)[:1]:
            emit(asked)

    def _attending(self, request: Request) -> tuple[Emit, ...]:
        return tuple(self._here.get(request.session) or self._here.get(self._roots.get(request.session, "")) or ())


class Orphans:
    """Finds and ends commands that outlived a process that was killed.

    A process that starts commands leaves a file while it lives. Where a file of a dead process lies, and only then, the
    machine is searched for what that process left; looking through all processes at every start would cost too much.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark: Path | None = None
        self._swept = False

    def mark(self) -> None:
        """Note that this process starts commands. The note need not survive the machine, only the process."""
        if self._mark is None:
            from homarus.sandbox.ownership import start_of

            ensure_dir(self._folder)
            self._mark = self._folder / f"{os.getpid()}.{start_of(os.getpid())}"
            self._mark.touch(mode=0o600)

    def sweep(self) -> list[int]:
        """End what dead processes left behind, once, and return the ids of what was ended."""
        if self._swept or not self._folder.is_dir():
            return []
        self._swept = True
        dead = [path for path in self._folder.iterdir() if _is_dead(path.name)]
        ended: list[int] = []
        if dead:
            from homarus.sandbox.process import end_orphans

            ended = end_orphans()
        for path in dead:
            path.unlink(missing_ok=True)
        return ended

    def clear(self) -> None:
        """Take the mark away: everything that this process started has ended."""
        if self._mark is not None:
            self._mark.unlink(missing_ok=True)
            self._mark = None


def _is_dead(name: str) -> bool:
    from homarus.sandbox.ownership import start_of

    pid, _, started = name.partition(".")
    return pid.isdigit() and start_of(int(pid)) != started


class Toolkit:
    """All tools of one process, and what they share: running commands, approvals, the people who answer."""

    def __init__(self, config: Config, env: Mapping[str, str], *, clock: Clock, ids: Ids) -> None:
        self._config, self._env = config, env
        self._clock, self._ids = clock, ids
        self.approvers = Approvers()
        self.orphans = Orphans(config.paths.own_dir / "commands")
        self._settings, self._read_from = tool_settings(config), config.document
        self._claims = Claims.of(config.paths.state_dir)
        self._granted = Granted()
        self.processes = ProcessManager(
            clock,
            ids,
            settings=lambda agent_id: self.exec_rules(agent_id, ProcessSettings),
            before=self.orphans.mark,
            claims=self._claims,
        )
        self._backends: Callable[[], ToolServices] = ToolServices
        # Our own tools, and what they were made of.
        self._own: tuple[dict[str, Tool], object] = ({}, None)
        self._added: dict[str, Tool] = {}
        self._sources: dict[ToolSource, Sequence[Tool]] = {}
        self._before: tuple[BeforeCall, ...] = ()
        # What policy left, by agent, whose turn it is and what a parent had; as long as the configuration is the same.
        self._left: BoundedCache[tuple[object, ...], dict[str, Tool]] = BoundedCache(64)
        self._left_by: object = None
        # What each agent's commands may do, and the document that said so.
        self._commands: dict[tuple[str, type], tuple[object, object]] = {}

    def connect(self, backends: Callable[[], ToolServices]) -> None:
        """Give the tools what the running home offers, as its configuration is now. Called once, before the first turn."""
        self._backends = backends

    @property
    def _tools(self) -> dict[str, Tool]:
        """Return our own tools; they are made anew where the configuration makes others of them."""
        if self._read_from is not self._config.document:
            self._read_from = self._config.document
            try:
                self._settings = tool_settings(self._config)
            except ConfigError as problem:
                _log.warning("tools.web: %s", problem)
        services = replace(self._backends(), processes=self.processes, grants=self._granted, env=self._env)
        if self._own[1] != (self._settings, services):
            tools = {tool.name: tool for tool in build_tools(services, self._settings)}
            self._own = (tools, (self._settings, services))
        return self._own[0]

    @cached_property
    def approvals(self) -> Approvals:
        from homarus.tools.approval import Approvals, approvals_path

        return Approvals(approvals_path(self._config.paths.state_dir), self._clock, self._ids)

    @cached_property
    def _gate(self) -> PolicyGate:
        from homarus.tools.gate import PolicyGate

        return PolicyGate(
            self.approvals,
            self._granted,
            self._env,
            approver=self.approvers,
            settings=lambda agent_id: self.exec_rules(agent_id, ExecSettings),
            running=self.processes.plan_of,
            claims=self._claims,
        )

    async def _judge(self, tool: Tool, arguments: dict[str, Any], context: ToolContext) -> None:
        await self._gate(tool, arguments, context)

    def add(self, *tools: Tool) -> None:
        """Add tools from outside the program; policy and the gate hold for them as for all others."""
        self._added.update({tool.name: tool for tool in tools})
        self._left.clear()

    def join(self, source: ToolSource) -> None:
        """Add a source of tools that come and go; it is closed with this."""
        self._sources[source] = ()

    async def refresh(self) -> None:
        """Ask the sources what they offer now. Called before each turn's tools are chosen."""
        for source, before in self._sources.items():
            now = await source.tools()
            if now is not before:
                self._sources[source] = now
                self._left.clear()

    def before_call(self, check: BeforeCall) -> None:
        """Let a program see every call before the gate does: it may change the arguments, or refuse the call."""
        self._before += (check,)

    def box(
        self,
        agent_id: str = "",
        who: Who | None = None,
        within: Sequence[str] | None = None,
        more: tuple[Layer, ...] = (),
    ) -> Toolbox:
        """Return what is left of the tools for one turn; what policy takes away does not exist for the model.

        `within` is what a child's parent had: whatever the child's own rules say, it gets nothing beyond. `more` are the
        layers of the channel, the chat and the sender.
        """
        agent = agent_id or self._config.default_agent.id
        if self._left_by is not self._config.document:
            self._left.clear()
            self._left_by = self._config.document
        key = (agent, who or Who(), None if within is None else tuple(within), more)
        left = self._left.get(key)
        if left is None:
            outside = {tool.name: tool for tools in self._sources.values() for tool in tools}
            known = {**outside, **self._tools, **self._added}  # nothing from outside takes the name of a tool of ours
            # The rules are read with all that there is in view: a name of a tool that a parent had not is no slip.
            allowed = _allowed(self._config, agent, key[1], known, more)
            order = in_order(tool.spec for tool in allowed.values())
            left = {spec.name: allowed[spec.name] for spec in order if within is None or spec.name in within}
            self._left.put(key, left)
        return Toolbox(left, self._judge, self._before)

    async def answer(self, approval_id: str, decision: str) -> str:
        """Take a person's answer to a question and say what was decided."""
        if decision not in _DECISIONS:
            raise HomarusError(f"'{decision}' is no answer", cure="say once, always or deny")
        request = self.approvals.decide(approval_id, _DECISIONS[decision], "owner")
        return f"{_DECISIONS[decision]}: {request.summary}"

    async def end_commands(self, session: SessionKey) -> bool:
        """End the commands that a session left running; False when there were none."""
        running = self.processes.busy(str(session))
        await self.processes.close_session(str(session))
        return running

    async def aclose(self) -> None:
        await self.processes.aclose()
        for source in self._sources:
            await source.aclose()
        self.orphans.clear()

    def exec_rules(self, agent_id: str, kind: type[T]) -> T:
        """Return one reading of `tools.exec`, as it holds for an agent."""
        found, of = self._commands.get((agent_id, kind), (None, None))
        if found is None or of is not self._config.document:
            # Key by key: an agent that sets another timeout has not lifted the mode that holds for everyone.
            everyone, own = self._config.get("tools.exec"), self._config.agent(agent_id).get("tools.exec")
            given = own if everyone is None else everyone
            if isinstance(everyone, dict) and own is not None:
                given = merge(everyone, own)
            path = ("agents", "entries", agent_id, "tools", "exec")
            found = self._config.convert_block(given, kind, path)
            self._commands[agent_id, kind] = (found, self._config.document)
        return cast("T", found)


def tool_settings(config: Config) -> ToolSettings:
    """Return what the configuration says about tools; the key of a search engine is resolved here and nowhere else."""
    docs = docs_path()
    skills = skill_folders(config)
    readable = (*([Path(docs)] if docs else []), *skills.inside)
    web = config.block("tools.web", WebSettings)
    key = web.search.api_key
    return ToolSettings(
        reach=Reach(
            readable, config.block("tools.fs", FsSettings).workspace_only, skills.linked, state=config.paths.state_dir
        ),
        web=web,
        search_key=config.resolve(key) if key else "",
        citations=str(config.get("memory.citations") or "auto"),
    )


def window_layers(config: Config, agent_id: str, window: int, named: Sequence[str] = ()) -> tuple[Layer, ...]:
    """Return what a small window takes away: all of the program's own tools but a few, and those that somebody named.

    `named` are the tools that a turn was given by name. Whoever allows a tool by its name or group wants it more than the room.
    """
    if not is_small(window):
        return ()
    settings = (config.block("tools", PolicySettings), config.agent(agent_id).block("tools", PolicySettings))
    words = [word for each in settings for word in (*each.allow, *each.also_allow) if "*" not in word]
    return (Layer("small window", Rules(profile="lean", also_allow=(*words, *named))),)


def tool_specs(
    config: Config, agent_id: str, *, depth: int = 0, more: tuple[Tool, ...] = (), layers: tuple[Layer, ...] = ()
) -> tuple[ToolSpec, ...]:
    """Return what an agent's model is told about its tools, without opening anything that they use."""

    def closed(_agent_id: str) -> Any:
        raise HomarusError("only the descriptions of the tools were asked for")

    nothing: Any = object()
    services = ToolServices(
        memory_of=closed,
        sessions=nothing,
        sessions_send=nothing,
        spawner=nothing,
        status=nothing,
        sender=nothing if config.get("channels") else None,
        scheduler=nothing,
        gateway=nothing,
        vision=Vision(config, Models(config, {}, clock=SystemClock())),
        processes=ProcessManager(SystemClock(), SystemIds()),
        grants=Granted(),
        more=more,
    )
    tools = {tool.name: tool for tool in build_tools(services, tool_settings(config))}
    return tuple(tool.spec for tool in _allowed(config, agent_id, Who(depth=depth), tools, layers).values())


HANDED_OVER = "Handed to the program that asked. Its result comes with the next message."


def with_caller(turn: Turn, box: Toolbox) -> Toolbox:
    """Add the functions of whoever sent the message; one of ours with the same name steps aside."""
    if not turn.caller_tools or turn.tool_choice == "none":
        return box

    async def hand_over(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        return said(HANDED_OVER)

    theirs = {
        spec.name: Tool(
            spec=spec,
            risk=Risk.READ,
            run=hand_over,
            group="caller",
            ends_turn=True,
            schema={"additionalProperties": True},
        )
        for spec in turn.caller_tools
    }
    return replace(box, tools=theirs if turn.tool_choice else {**box.tools, **theirs})


def wish_of(config: Config, turn: Turn, entry: SessionEntry) -> ExecRequest:
    """Return what a session asks for its commands, as far as the settings of everyone and of the agent grant it."""
    wish = ExecRequest(
        elevated=turn.levels.get("elevated") or entry.elevated_level or "off",
        host=turn.levels.get("exec_host") or entry.exec_host or "",
        security=turn.levels.get("exec_security") or entry.exec_security or "",
        ask=turn.levels.get("exec_ask") or entry.exec_ask or "",
    )
    if wish == ExecRequest():
        return wish
    agent = config.agent(turn.agent_id)
    gates = [config.block("tools.elevated", ElevatedSettings)]
    if agent.get("tools.elevated") is not None:
        gates.append(agent.block("tools.elevated", ElevatedSettings))
    # Of several who speak at once nobody is the one whom a list names; a chat is nobody either.
    who = turn.senders[0] if len(turn.senders) == 1 else "" if turn.senders else turn.route.to
    return granted(wish, gates, turn.trust, channel=turn.route.channel, sender=who)


def _allowed(
    config: Config, agent_id: str, who: Who, tools: Mapping[str, Tool], more: tuple[Layer, ...] = ()
) -> dict[str, Tool]:
    everyone = config.block("tools", PolicySettings)
    own = config.agent(agent_id).block("tools", PolicySettings)
    # What is wrong with the rules of commands is said with the turn, and not first where a command asks for them.
    for scope in (config, config.agent(agent_id)):
        if scope.get("tools.exec") is not None:
            scope.block("tools.exec", ExecSettings)
        if scope.get("tools.elevated") is not None:
            scope.block("tools.elevated", ElevatedSettings)
    left = allowed_tools(tools.values(), layers_for(everyone, own, who, more), who)
    for warning in left.warnings:
        _log.warning("%s", warning)
    names = left.names
    switches = [scope.block("tools.exec", PatchSwitch) for scope in (config, config.agent(agent_id))]
    if not all(switch.admits(who.provider, who.model) for switch in switches):
        names = tuple(name for name in names if name != "apply_patch")
    forgets = config.agent(agent_id).get("memorySearch.enabled") is False
    return {
        name: tools[name]
        for name in names
        if tools[name].exists_for(agent_id) and not (forgets and tools[name].group == "memory")
    }
