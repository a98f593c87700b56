"""The status card that the session tools show, and the agents that a session may start children for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from homarus.config.view import Config
from homarus.core.errors import Denied
from homarus.core.messages import Trust
from homarus.gateway.offers.views import Conversations
from homarus.prompt.gather import clock_time
from homarus.tools.ports import Json
from homarus.tools.tool import ToolContext
from homarus.workspace.settings import WorkspaceSettings

if TYPE_CHECKING:
    from homarus.gateway.app import Runtime


class Cards:
    """The `StatusSource` of a home."""

    def __init__(self, runtime: Runtime, view: Conversations) -> None:
        self._runtime = runtime
        self._view = view

    async def status(self, context: ToolContext, session_key: str, model: str) -> str:
        """Return a status card; a model other than nothing is set for the session first, from its next turn on."""
        # What commands say is loaded with the first card that is asked for.
        from homarus.agent.commands.command import CommandContext
        from homarus.agent.commands.info import status
        from homarus.agent.commands.model import model as choose
        from homarus.agent.commands.settings import Caller
        from homarus.gateway.intake.desk import Desk

        key = self._view.find(context, session_key).key if session_key else context.session
        caller = Caller(channel=context.route.channel, trust=context.trust, owner=context.trust is Trust.OWNER)
        ask = CommandContext(
            name="status", args=model.strip(), session=key, caller=caller, host=Desk(self._runtime), table={}
        )
        lines = []
        if model.strip():
            if context.restricted:
                raise Denied("only the owner may choose the model of a session", cure="go on with this one")
            lines.append((await choose(ask)).text)
        lines.append((await status(ask)).text)
        now = self._runtime.clock.now().astimezone(self._runtime.zone(key.agent_id))
        wanted = self._runtime.config.agent(key.agent_id).block("", WorkspaceSettings).time_format
        clock = clock_time(now, str(wanted), self._runtime.env)
        return "\n".join([*lines, f"🕒 {now:%A, %Y-%m-%d} {clock} ({now.tzname()})"])

    async def agents(self, context: ToolContext) -> list[Json]:
        """Return the agents that the caller may start children for."""
        allowed = allowed_agents(self._runtime.config, context.agent_id)
        known = {agent.id: agent for agent in self._runtime.config.agents}
        return [
            {"id": ident, "name": known[ident].get("name") or known[ident].get("identity.name") or ident}
            for ident in allowed
        ]


def allowed_agents(config: Config, agent_id: str) -> tuple[str, ...]:
    """Return the agents that an agent may start children for: itself, and those that `subagents.allowAgents` names."""
    listed = config.agent(agent_id).get("subagents.allowAgents")
    names = {str(item).strip().lower() for item in listed} if isinstance(listed, list) else set()
    return tuple(
        agent.id for agent in config.agents if agent.id == agent_id or "*" in names or agent.id.lower() in names
    )
