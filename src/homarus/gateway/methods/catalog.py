"""What a home has: models, commands, tools."""

from __future__ import annotations

from typing import Any

from homarus.core.messages import Trust
from homarus.core.routes import SessionKey
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.scopes import READ, WRITE
from homarus.workspace import names

# Never from outside, whatever a policy allows: they act on the machine, start other turns, or change the gateway itself.
DENIED = frozenset(
    [
        "exec",
        "process",
        "spawn",
        "shell",
        "write",
        "edit",
        "apply_patch",
        "fs_write",
        "fs_delete",
        "fs_move",
        "sessions_spawn",
        "sessions_send",
        "cron",
        "gateway",
        "nodes",
    ]
)
FILES = (*names.SEEDED, names.BOOTSTRAP, names.MEMORY, names.BOOT)
_MAX_FILE = 2_000_000


class AgentParams(Params, frozen=True):
    agent_id: str = ""
    session_key: str = ""
    PASSED = passed("includePlugins refresh provider scope includeArgs authProfileId")


class ModelsParams(Params, frozen=True):
    view: str = "default"
    PASSED = passed(
        "agentId sessionKey authProfileId provider includeDetails includeProviderCapabilities includeDefaultModels "
        "preparedOnly refresh"
    )


class InvokeParams(Params, frozen=True, kw_only=True):
    name: str
    args: dict[str, Any] | None = None
    session_key: str = ""
    agent_id: str = ""
    PASSED = passed("confirm idempotencyKey conversationReadOrigin")


def model_rows(call: Call) -> list[dict[str, Any]]:
    return [
        {
            "id": info.id,
            "name": info.name or info.id,
            "provider": info.provider,
            "contextWindow": info.window,
            "reasoning": bool(info.levels),
            "input": list(info.input),
            "available": True,
            **({"thinkingLevels": [{"id": level, "label": level} for level in info.levels]} if info.levels else {}),
        }
        for info in call.client.operations.models()
    ]


async def models(call: Call, _params: ModelsParams) -> dict[str, Any]:
    return {"models": model_rows(call)}


async def model_keys(call: Call, _params: AgentParams) -> dict[str, Any]:
    found = dict.fromkeys(row["provider"] for row in model_rows(call))
    rows = [{"provider": name, "displayName": name, "status": "ok", "profiles": []} for name in found]
    return {"ts": call.gateway.now_ms, "providers": rows}


async def command_rows(call: Call, key: SessionKey) -> list[dict[str, Any]]:
    words = await call.client.vocabulary(key)
    rows = []
    for name, text in words.commands.items():
        source = "skill" if name in words.skills else "native"
        rows.append(
            {
                "name": name,
                "textAliases": [f"/{name}"],
                "description": text,
                "category": "tools" if source == "skill" else "session",
                "source": source,
                "scope": "text",
                "acceptsArgs": name in words.arguments,
            }
        )
    return rows


async def commands(call: Call, params: AgentParams) -> dict[str, Any]:
    key = call.gateway.key(params.session_key or "main", params.agent_id)
    return {"commands": await command_rows(call, key)}


# Tools.


def _groups(call: Call, agent_id: str) -> tuple[str, list[dict[str, Any]]]:
    agent = call.client.home.config.agent_named(agent_id).id
    rows = call.client.operations.tools(agent)
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, group, text in rows:
        row = {"id": name, "label": name, "description": text, "rawDescription": text, "source": "core"}
        groups.setdefault(group, []).append(row | {"defaultProfiles": []})
    found = [{"id": name, "label": name, "source": "core", "tools": tools} for name, tools in groups.items()]
    return agent, found


async def tool_catalog(call: Call, params: AgentParams) -> dict[str, Any]:
    agent, groups = _groups(call, params.agent_id)
    profiles = [{"id": name, "label": name.title()} for name in ("minimal", "coding", "messaging", "full")]
    return {"agentId": agent, "profiles": profiles, "groups": groups}


async def tools(call: Call, params: AgentParams) -> dict[str, Any]:
    key = call.gateway.key(params.session_key or "main", params.agent_id)
    agent, groups = _groups(call, key.agent_id)
    return {"agentId": agent, "profile": "full", "groups": groups}


async def invoke(call: Call, params: InvokeParams) -> dict[str, Any]:
    """Run one tool as a turn of the session would, behind the same gate, if it is one that may be run from outside."""
    key = call.gateway.key(params.session_key or "main", params.agent_id)
    known = {name for name, _, _ in call.client.operations.tools(key.agent_id)}
    if params.name in DENIED or params.name not in known:
        return _no(params.name, "not_found", f"Tool not available: {params.name}")
    result = await call.client.call_tool(key, params.name, params.args or {}, Trust.OWNER)
    if result.is_error:
        return _no(params.name, "tool_error", result.text[:2000])
    return {"ok": True, "toolName": params.name, "output": {"content": [{"type": "text", "text": result.text}]}}


def _no(name: str, code: str, message: str) -> dict[str, Any]:
    return {"ok": False, "toolName": name, "error": {"code": code, "message": message}}


METHODS = {
    "models.list": Method(READ, models, ModelsParams),
    "models.authStatus": Method(READ, model_keys, AgentParams),
    "commands.list": Method(READ, commands, AgentParams),
    "tools.catalog": Method(READ, tool_catalog, AgentParams),
    "tools.effective": Method(READ, tools, AgentParams),
    "tools.invoke": Method(WRITE, invoke, InvokeParams),
}
