"""All tools in their fixed order. The bytes of their specs are part of every prompt's cached prefix, so nothing here varies
but what exists: a tool whose service is missing is left out, and the others stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.later import later, made_later
from homarus.core.tools import ToolSpec
from homarus.tools.actions import cron_tool, gateway_tool, image_tool, message_tool
from homarus.tools.children import child_tools
from homarus.tools.edit import edit_tool
from homarus.tools.exec import Grants, exec_tools
from homarus.tools.files import file_tools
from homarus.tools.memory import Open, memory_tools
from homarus.tools.patch import patch_tool
from homarus.tools.paths import Reach
from homarus.tools.processes import ProcessManager, ProcessSettings
from homarus.tools.search import search_tools
from homarus.tools.sessions_tools import sessions_tools
from homarus.tools.settings import WebSettings
from homarus.tools.tool import Tool
from homarus.tools.web import fetch_tool, search_tool

if TYPE_CHECKING:
    from homarus.memory.toolset import Citations
    from homarus.net import egress as fetching
    from homarus.tools import searching
    from homarus.tools.ports import (
        GatewayControl,
        Looker,
        Scheduler,
        Sender,
        SessionsSend,
        SessionsView,
        Spawner,
        StatusSource,
    )
else:
    fetching = later("homarus.net.egress")
    searching = later("homarus.tools.searching")


MAX_SPEC_CHARS = 9_500
ORDER = (
    *("read", "write", "edit", "apply_patch", "grep", "find", "ls", "exec", "process", "web_search", "web_fetch"),
    *("browser", "canvas", "nodes", "cron", "message", "gateway", "agents_list", "sessions_list", "sessions_history"),
    *("sessions_search", "sessions_send", "sessions_spawn", "sessions_yield", "subagents", "session_status", "image"),
    *("memory_search", "memory_get", "memory_recall", "memory_retain"),
)


_BOUNDS = frozenset({"minimum", "maximum", "minLength", "maxLength"})


class ToolServices(Struct, frozen=True, kw_only=True):
    """What the composition provides. What is None has no tools."""

    processes: ProcessManager | None = None
    grants: Grants | None = None
    # Our own environment, of which commands see only what their sandbox names.
    env: Mapping[str, str] = {}
    memory_of: Open | None = None
    sessions: SessionsView | None = None
    sessions_send: SessionsSend | None = None
    spawner: Spawner | None = None
    status: StatusSource | None = None
    sender: Sender | None = None
    scheduler: Scheduler | None = None
    gateway: GatewayControl | None = None
    looker: Looker | None = None
    # Plugins and the like; they come last, in the order given.
    more: tuple[Tool, ...] = ()


class ToolSettings(Struct, frozen=True, kw_only=True):
    """What the configuration says about tools, already resolved."""

    reach: Reach = Reach()
    patch_workspace_only: bool = True
    processes: ProcessSettings = ProcessSettings()
    web: WebSettings = WebSettings()
    # The key of the search engine, as a plain text: a reference was resolved before.
    search_key: str = ""
    citations: str = "auto"


def build_tools(services: ToolServices, settings: ToolSettings | None = None) -> tuple[Tool, ...]:
    """Return every tool that can work here, in the fixed order; policy takes away from it turn by turn."""
    chosen = settings or ToolSettings()
    reach = chosen.reach
    tools = [*file_tools(reach), edit_tool(reach), *search_tools(reach)]
    tools.append(patch_tool(replace(reach, workspace_only=reach.workspace_only or chosen.patch_workspace_only)))
    if services.processes and services.grants:
        tools += exec_tools(services.processes, services.grants, services.env, chosen.processes)
    tools += _web(chosen)
    if services.scheduler:
        tools.append(cron_tool(services.scheduler))
    if services.sender:
        tools.append(message_tool(services.sender))
    if services.gateway:
        tools.append(gateway_tool(services.gateway))
    tools += sessions_tools(services.sessions, services.sessions_send, services.status)
    if services.spawner:
        tools += child_tools(services.spawner)
    if services.looker:
        tools.append(image_tool(services.looker, reach, made_later(_egress) if chosen.web.fetch.enabled else None))
    if services.memory_of:
        tools += memory_tools(services.memory_of, _citations(chosen.citations), _strange(services.sessions))
    return _ordered([*tools, *services.more])


def spec_chars(specs: Iterable[ToolSpec]) -> int:
    """Return what the specs cost in every prompt: the characters of their JSON."""
    return sum(
        len(msgspec.json.encode({"name": s.name, "description": s.description, "parameters": s.parameters}))
        for s in specs
    )


def _egress() -> fetching.Egress:
    return fetching.Egress()


def _web(settings: ToolSettings) -> list[Tool]:
    tools = []
    search, fetch = settings.web.search, settings.web.fetch
    if search.enabled:
        backend = made_later(
            lambda: searching.backend_for(search.provider, api_key=settings.search_key, base_url=search.base_url)
        )
        egress = made_later(lambda: fetching.Egress(own=frozenset({backend.own} if backend.own else ())))
        tools.append(search_tool(egress, backend, search.max_results, search.timeout_seconds))
    if fetch.enabled:
        tools.append(fetch_tool(made_later(_egress), fetch))
    return tools


def _ordered(tools: list[Tool]) -> tuple[Tool, ...]:
    """Return the tools in their order, each name once; the first spelling stays."""
    found: dict[str, Tool] = {}
    for tool in tools:
        found.setdefault(tool.name.lower(), tool)
    known = {name: found[name] for name in ORDER if name in found}
    return (*map(_told, known.values()), *(tool for name, tool in found.items() if name not in known))


def _told(tool: Tool) -> Tool:
    """Return a tool whose spec leaves out the bounds of numbers: who calls it wrong is told then, and pays only then."""
    schema = tool.schema or tool.spec.parameters
    return replace(tool, spec=replace(tool.spec, parameters=_unbounded(tool.spec.parameters)), schema=schema)


def _unbounded(part: Any) -> Any:
    if isinstance(part, list):
        return [_unbounded(item) for item in part]
    if not isinstance(part, dict):
        return part
    kept = {key: value for key, value in part.items() if key not in _BOUNDS or isinstance(value, dict)}
    return {key: _unbounded(value) for key, value in kept.items()}


def _strange(view: SessionsView | None) -> Callable[[str, str], bool]:
    # The view is made when it is first asked for something.
    def is_tainted(agent_id: str, session_id: str) -> bool:
        return view is not None and view.is_tainted_id(agent_id, session_id)

    return is_tainted


def _citations(value: str) -> Citations:
    return "on" if value == "on" else "off" if value == "off" else "auto"
