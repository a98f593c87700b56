"""The status card that the session tools show, and the agents that a session may start children for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from homarus.core.errors import Denied
from homarus.core.messages import Trust
from homarus.prompt.gather import clock_time
from homarus.runtime.tool_backends.sessions import SessionsBackend
from homarus.tools.services import Json
from homarus.tools.tool import ToolContext
from homarus.workspace.settings import WorkspaceSettings

if TYPE_CHECKING:
    from homarus.runtime.runtime import Runtime


class StatusBackend:
    """The `StatusSource` of a home."""

    def __init__(self, runtime: Runtime, sessions: SessionsBackend) -> None:
        self._runtime = runtime
        self._home = runtime.home
        self._sessions = sessions

    async def status(self, context: ToolContext, session_key: str, model: str) -> str:
        """Return a status card; a model other than nothing is set for the session first, from its next turn on."""
        # What commands say is loaded with the first card that is asked for.
        from homarus.commands.command import CommandContext
        from homarus.commands.groups.info import status
        from homarus.commands.groups.model import model as choose
        from homarus.commands.settings import Caller
        from homarus.runtime.local import LocalClient

        key = self._sessions.find(context, session_key).key if session_key else context.session
        caller = Caller(channel=context.route.channel, trust=context.trust, owner=context.trust is Trust.OWNER)
        ask = CommandContext(
            name="status", args=model.strip(), session=key, caller=caller, client=LocalClient(self._runtime), table={}
        )
        lines = []
        if model.strip():
            if context.restricted:
                raise Denied("only the owner may choose the model of a session", cure="go on with this one")
            lines.append((await choose(ask)).text)
        lines.append((await status(ask)).text)
        now = self._home.clock.now().astimezone(self._home.zone(key.agent_id))
        wanted = self._home.config.agent(key.agent_id).block("", WorkspaceSettings).time_format
        clock = clock_time(now, str(wanted), self._home.env)
        return "\n".join([*lines, f"🕒 {now:%A, %Y-%m-%d} {clock} ({now.tzname()})"])

    async def agents(self, context: ToolContext) -> list[Json]:
        """Return the agents that the caller may start children for."""
        return [
            {"id": agent.id, "name": agent.get("name") or agent.get("identity.name") or agent.id}
            for agent in self._runtime.children.planner.agents(context)
        ]
