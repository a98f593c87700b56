"""Every tool there is. What a tool is about stands in its own file; here is only what each is made of.

The bytes of the specs are part of every prompt's cached prefix, so nothing here varies but what exists: a tool whose
service is missing is left out, and the others stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.tools import ToolSpec
from homarus.net.trust import trust_from
from homarus.tools.actions import cron_tool, gateway_tool, image_tool, message_tool
from homarus.tools.edit import edit_tool
from homarus.tools.exec import exec_tools
from homarus.tools.files import file_tools
from homarus.tools.memory import memory_tools
from homarus.tools.patch import patch_tool
from homarus.tools.paths import Reach
from homarus.tools.search import search_tools
from homarus.tools.services import ToolServices
from homarus.tools.sessions import child_tools, sessions_tools
from homarus.tools.tool import Tool
from homarus.tools.web import WebSettings, engine_for, fetch_tool, search_tool

if TYPE_CHECKING:
    from homarus.memory.toolset import Citations

MAX_SPEC_CHARS = 9_500
# What a call is checked against and no prompt is charged for: who calls it wrong is told then.
_UNTOLD = frozenset({"minimum", "maximum", "minLength", "maxLength", "default"})


class ToolSettings(Struct, frozen=True, kw_only=True):
    reach: Reach = Reach()
    web: WebSettings = WebSettings()
    # The key of the search engine, as a plain text: a reference was resolved before.
    search_key: str = ""
    citations: str = "auto"


def build_tools(services: ToolServices, settings: ToolSettings | None = None) -> tuple[Tool, ...]:
    """Return every tool that can work here, in the order of prompts; policy takes away from it turn by turn."""
    chosen = settings or ToolSettings()
    reach, given, trust = chosen.reach, services, trust_from(services.env)
    tools = [*file_tools(reach), edit_tool(reach), patch_tool(reach), *search_tools(reach)]
    if given.processes is not None and given.grants is not None:
        tools += exec_tools(given.processes, given.grants, given.env)
    search, fetch = chosen.web.search, chosen.web.fetch
    if search.enabled:
        engine = engine_for(search.provider, api_key=chosen.search_key, base_url=search.base_url)
        tools.append(search_tool(engine, search.max_results, search.timeout_seconds, trust=trust))
    tools += [fetch_tool(fetch, trust=trust)] if fetch.enabled else []
    tools += [cron_tool(given.scheduler)] if given.scheduler else []
    tools += [message_tool(given.sender)] if given.sender else []
    tools += [gateway_tool(given.gateway)] if given.gateway else []
    tools += sessions_tools(given.sessions, given.sessions_send, given.status)
    tools += child_tools(given.spawner) if given.spawner else []
    tools += [image_tool(given.vision, reach, web=fetch.enabled, trust=trust)] if given.vision else []
    if given.memory_of:
        view = given.sessions
        tools += memory_tools(
            given.memory_of,
            cast("Citations", chosen.citations if chosen.citations in {"on", "off"} else "auto"),
            lambda agent_id, session_id: view is not None and view.is_tainted_id(agent_id, session_id),
        )
    return _ordered([*map(_told, tools), *given.more])


class _Nobody:
    """Stands for every service where only what tools say of themselves is wanted."""

    def __getattr__(self, name: str) -> Any:
        return self


@cache
def every_tool() -> Mapping[str, Tool]:
    """Return all tools of this program by name, also those whose service is missing here; none of them can be called."""
    nobody: Any = _Nobody()
    fields = {name: nobody for name in ToolServices.__struct_fields__ if name not in {"env", "more"}}
    return {tool.name: tool for tool in build_tools(ToolServices(**fields))}


def members(group: str) -> frozenset[str]:
    return frozenset(name for name, tool in every_tool().items() if tool.group == group)


def spec_chars(specs: Iterable[ToolSpec]) -> int:
    """Return what the specs cost in every prompt: the characters of their JSON."""
    return sum(
        len(msgspec.json.encode({"name": s.name, "description": s.description, "parameters": s.parameters}))
        for s in specs
    )


def _ordered(tools: list[Tool]) -> tuple[Tool, ...]:
    """Return the tools in their order, each name once; the first spelling stays."""
    found: dict[str, Tool] = {}
    for tool in tools:
        found.setdefault(tool.name.lower(), tool)
    return tuple(sorted(found.values(), key=lambda tool: tool.spec.order))


def _told(tool: Tool) -> Tool:
    """Return a tool whose spec leaves out what only its check needs."""
    schema = tool.schema or tool.spec.parameters
    return replace(tool, spec=replace(tool.spec, parameters=_without(tool.spec.parameters)), schema=schema)


def _without(part: Any) -> Any:
    if isinstance(part, list):
        return [_without(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {key: _without(value) for key, value in part.items() if key not in _UNTOLD or isinstance(value, dict)}
