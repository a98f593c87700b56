"""The tools of a home: built once, narrowed by policy for each turn, and held by one gate."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from homarus.agent.turn import Turn
from homarus.config.view import Config
from homarus.core.clock import Clock, Ids
from homarus.core.errors import HomarusError
from homarus.core.later import later, made_later
from homarus.core.routes import SessionKey
from homarus.core.tools import ToolSpec
from homarus.gateway.orphans import Orphans
from homarus.gateway.people import People
from homarus.gateway.skillfolders import skill_folders
from homarus.prompt.gather import docs_path
from homarus.prompt.sections.tooling import in_order
from homarus.sandbox.claims import Claims
from homarus.sessions.row import SessionEntry
from homarus.storage.cache import BoundedCache
from homarus.tools.exec_settings import ElevatedSettings, ExecRequest, ExecSettings, granted
from homarus.tools.execute import BeforeCall, Toolbox
from homarus.tools.paths import FsSettings, Reach
from homarus.tools.policy import Layer, PolicySettings, Who, allowed_tools, layers_for
from homarus.tools.processes import ProcessManager, ProcessSettings
from homarus.tools.registry import ToolServices, ToolSettings, build_tools
from homarus.tools.settings import WebSettings
from homarus.tools.tool import Tool, ToolContext

if TYPE_CHECKING:
    from homarus.tools import approval, gate
else:
    approval = later("homarus.tools.approval")
    gate = later("homarus.tools.gate")


_log = logging.getLogger(__name__)
_DECISIONS: dict[str, approval.Decision] = {
    "once": "allow-once",
    "allow-once": "allow-once",
    "always": "allow-always",
    "allow-always": "allow-always",
    "deny": "deny",
}


class Toolkit:
    """All tools of one process, and what they share: running commands, approvals, the people who answer."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        *,
        clock: Clock,
        ids: Ids,
        offers: ToolServices | None = None,
        root_of: Callable[[str], str] = lambda session: session,
    ) -> None:
        self._config = config
        self.people = People(root_of)
        # What a turn without calls has no use for is made with the first call.
        self.approvals = made_later(
            lambda: approval.Approvals(approval.approvals_path(config.paths.state_dir), clock, ids)
        )
        settings = tool_settings(config)
        self.orphans = Orphans(config.paths.own_dir / "commands")
        self._claims = Claims.of(config.paths.state_dir)
        self.processes = ProcessManager(
            clock, ids, settings=settings.processes, before=self.orphans.mark, claims=self._claims
        )
        self._granted, self._env = made_later(_grants), env
        self._offers = offers or ToolServices()
        services = replace(self._offers, processes=self.processes, grants=self._granted, env=env)
        self._tools = {tool.name: tool for tool in build_tools(services, settings)}
        self._before: tuple[BeforeCall, ...] = ()
        # What policy left, by agent, whose turn it is and what a parent had; as long as the configuration is the same.
        self._left: BoundedCache[tuple[object, ...], dict[str, Tool]] = BoundedCache(64)
        self._left_by: object = None
        # What each agent's commands may do, and the document that said so.
        self._commands: dict[str, tuple[ExecSettings, object]] = {}

    @cached_property
    def _gate(self) -> gate.PolicyGate:
        return gate.PolicyGate(
            self.approvals,
            self._granted,
            self._env,
            approver=self.people,
            settings=self._exec,
            running=self.processes.plan_of,
            claims=self._claims,
        )

    def _admit(self, tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Awaitable[None]:
        return self._gate(tool, arguments, context)

    def add(self, *tools: Tool) -> None:
        """Add tools from outside the program; policy and the gate hold for them as for all others."""
        self._tools.update({tool.name: tool for tool in tools})
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
            tools = {name: tool for name, tool in self._tools.items() if within is None or name in within}
            allowed = _allowed(self._config, agent, key[1], tools, self._offers, more)
            left = {spec.name: allowed[spec.name] for spec in in_order(tool.spec for tool in allowed.values())}
            self._left.put(key, left)
        return Toolbox(left, self._admit, self._before)

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
        """End every command that still runs."""
        await self.processes.aclose()
        self.orphans.clear()

    def _exec(self, agent_id: str) -> ExecSettings:
        found, of = self._commands.get(agent_id, (None, None))
        if found is None or of is not self._config.document:
            agent = self._config.agent(agent_id)
            of = agent if agent.get("tools.exec") is not None else self._config
            found = of.block("tools.exec", ExecSettings)
            self._commands[agent_id] = (found, self._config.document)
        return found


def _grants() -> gate.Granted:
    return gate.Granted()


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
        patch_workspace_only=config.get("tools.exec.applyPatch.workspaceOnly") is not False,
        processes=config.block("tools.exec", ProcessSettings),
        web=web,
        search_key=config.resolve(key) if key else "",
        citations=str(config.get("memory.citations") or "auto"),
    )


def tool_specs(config: Config, agent_id: str, *, depth: int = 0) -> tuple[ToolSpec, ...]:
    """Return what an agent's model is told about its tools, without opening anything that they use."""
    from homarus.core.clock import SystemClock, SystemIds
    from homarus.gateway.offers.fill import closed_offers

    offers = closed_offers(config)
    processes = ProcessManager(SystemClock(), SystemIds())
    services = replace(offers, processes=processes, grants=made_later(_grants))
    tools = {tool.name: tool for tool in build_tools(services, tool_settings(config))}
    return tuple(tool.spec for tool in _allowed(config, agent_id, Who(depth=depth), tools, offers).values())


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
    return granted(wish, gates, turn.trust, channel=turn.route.channel, sender=turn.route.to)


def _may_patch(config: Config, who: Who) -> bool:
    """Say whether a model has apply_patch: `tools.exec.applyPatch`, on unless it is switched off or made for others."""
    found = config.get("tools.exec.applyPatch")
    settings = found if isinstance(found, dict) else {}
    models = settings.get("allowModels")
    named = {str(name).strip().lower() for name in models} if isinstance(models, list) else set()
    known = {who.model.lower(), f"{who.provider}/{who.model}".lower()}
    return settings.get("enabled") is not False and (not named or bool(named & known))


def _allowed(
    config: Config,
    agent_id: str,
    who: Who,
    tools: Mapping[str, Tool],
    offers: ToolServices,
    more: tuple[Layer, ...] = (),
) -> dict[str, Tool]:
    everyone = config.block("tools", PolicySettings)
    own = config.agent(agent_id).block("tools", PolicySettings)
    left = allowed_tools(tools, layers_for(everyone, own, who, more))
    for warning in left.warnings:
        _log.warning("%s", warning)
    names = left.names
    if not _may_patch(config, who):
        names = tuple(name for name in names if name != "apply_patch")
    blind = offers.looker is not None and not offers.looker.can_look(agent_id)
    forgets = config.agent(agent_id).get("memorySearch.enabled") is False
    return {
        name: tools[name]
        for name in names
        if not (blind and name == "image") and not (forgets and tools[name].group == "memory")
    }
