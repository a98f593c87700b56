"""The memory tools: thin wrappings of what the memory package offers, with the gate's words for risk and taint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from homarus.core.messages import Trust
from homarus.core.patterns import late
from homarus.core.tools import Risk, ToolSpec
from homarus.memory import toolset
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

if TYPE_CHECKING:
    from homarus.memory.memory import Memory

_SESSION = late(r"(?:.*/)?sessions/([^/#]+?)\.jsonl(?:#|$)")
Open = Callable[[str], "Memory"]


def sessions_in(rows: Iterable[Any]) -> list[str]:
    """Return the ids of the conversations that rows are taken from, as they name their places."""
    places = [str(row.get(name) or "") for row in rows if isinstance(row, dict) for name in ("path", "source")]
    found = [_SESSION.match(place) for place in places]
    return list(dict.fromkeys(match[1] for match in found if match))


def origins_in(rows: Iterable[Any]) -> list[str]:
    """Return whose words rows hold, where these are not the owner's or the agent's own."""
    return list(dict.fromkeys(str(source) for row in rows if isinstance(row, dict) for source in row.get("origin", ())))


def memory_tools(
    memory_of: Open,
    citations: toolset.Citations = "auto",
    is_tainted: Callable[[str, str], bool] = lambda _agent_id, _session_id: False,
) -> list[Tool]:
    """Return the four memory tools; `memory_of` opens an agent's memory when it is first needed.

    `is_tainted` says of a conversation whether strangers' words may be in it: who finds them there reads them.
    """

    def tool(spec: ToolSpec, risk: Risk, work: Callable[[ToolContext, dict[str, Any]], dict[str, Any]]) -> Tool:
        def look(context: ToolContext, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
            result = work(context, arguments)
            rows = [*result.get("results", ()), *result.get("items", ())]
            found = sessions_in([arguments, *rows])
            strange = [ident for ident in found if ident != context.session_id and is_tainted(context.agent_id, ident)]
            return result, [f"session:{ident}" for ident in strange] + origins_in([result, *rows])

        async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
            # The index is SQLite and files: quick, but not to be waited for in the event loop.
            result, strange = await asyncio.to_thread(look, context, arguments)
            for source in strange:
                context.taint.add(source)
            failed = bool(result.get("error"))
            return said(msgspec.json.encode(result).decode(), is_error=failed, status="error" if failed else "ok")

        return Tool(spec=spec, risk=risk, run=run, group="memory", sequential=risk is not Risk.READ)

    def direct(context: ToolContext) -> bool:
        return not context.shared

    return [
        tool(
            toolset.SEARCH,
            Risk.READ,
            lambda context, arguments: toolset.search(
                memory_of(context.agent_id),
                arguments,
                citations=citations,
                direct=direct(context),
                counts=context.trust is Trust.OWNER and direct(context),
            ),
        ),
        tool(toolset.GET, Risk.READ, lambda context, arguments: toolset.get(memory_of(context.agent_id), arguments)),
        tool(
            toolset.RECALL,
            Risk.READ,
            lambda context, arguments: toolset.recall(memory_of(context.agent_id), arguments, direct=direct(context)),
        ),
        tool(
            toolset.RETAIN,
            Risk.WRITE,
            lambda context, arguments: toolset.retain_fact(
                memory_of(context.agent_id), arguments, origin=tuple(context.taint.sources)
            ),
        ),
    ]
