"""The tools of one turn: built once for the process, narrowed for the turn, and held by one gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from homarus.config.view import Config
from homarus.core.errors import Denied
from homarus.core.messages import Trust
from homarus.core.tools import Risk, ToolSpec
from homarus.memory.memory import Memory
from homarus.prompt.gather import docs_path
from homarus.tools.execute import Toolbox
from homarus.tools.files import file_tools
from homarus.tools.memory import memory_tools
from homarus.tools.paths import FsSettings, Reach
from homarus.tools.tool import Tool, ToolContext


class Toolkit:
    """All tools of a home."""

    def __init__(self, config: Config, memory_of: Callable[[str], Memory]) -> None:
        fs = config.block("tools.fs", FsSettings)
        docs = docs_path()
        readable = (*([Path(docs)] if docs else []), config.paths.skills_dir, Path(__file__).parent.parent / "skills")
        reach = Reach(readable=readable, workspace_only=fs.workspace_only)
        citations = config.get("memory.citations", "auto")
        tools = [
            *file_tools(reach),
            *memory_tools(memory_of, citations if citations in {"on", "off"} else "auto"),
        ]
        self._tools = {tool.name: tool for tool in tools}

    def box(self) -> Toolbox:
        """Return the tools for one turn."""
        return Toolbox(dict(self._tools), _gate)


def tool_specs(config: Config, agent_id: str) -> tuple[ToolSpec, ...]:
    """Return what an agent's model is told about its tools, without opening anything that they use."""

    def closed(_agent_id: str) -> Memory:
        raise Denied("only the descriptions of the tools were asked for")

    del agent_id
    return tuple(tool.spec for tool in Toolkit(config, closed).box().tools.values())


async def _gate(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> None:
    del arguments
    if context.trust is not Trust.OWNER and tool.risk is not Risk.READ:
        raise Denied(f"{tool.name} is for the owner of this agent")
