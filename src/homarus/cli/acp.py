"""`homarus acp`: an editor drives an agent."""

from __future__ import annotations

import click

from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.options import filled, pass_app


@click.command("acp")
@click.option(
    "--agent",
    "agent_id",
    default="",
    help="which agent; the default one",
    shell_complete=complete.agents,
    callback=filled,
)
@click.option(
    "--session",
    default="",
    help="one session for everything, by key or name; otherwise a new one each time",
    shell_complete=complete.sessions,
    callback=filled,
)
@pass_app
def command(app: App, agent_id: str, session: str) -> None:
    """Let an editor drive your agent over the Agent Client Protocol, on standard input and output.

    The editor starts this command itself. In Zed: "agent_servers": { "homarus": { "command": "homarus", "args": ["acp"] } }
    """
    import asyncio
    import os
    import stat
    import sys

    from homarus.cli.agent import open_agent
    from homarus.core.errors import HomarusError
    from homarus.plugins.mcp.servers import require

    kind = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        raise HomarusError("this command talks to an editor", cure="name it in your editor's settings; see --help")
    require("acp", "acp")

    async def serving() -> None:
        from homarus.bridges.acp import serve

        agent = await open_agent(app, agent_id, session or "main")
        try:
            await serve(agent.client, agent_id, session)
        finally:
            await agent.aclose()

    asyncio.run(serving())
