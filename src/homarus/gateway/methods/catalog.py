"""What a home has: agents and their files, models, commands, skills, tools."""

from __future__ import annotations

import hashlib
from typing import Any

from homarus.config.write import Operation, change
from homarus.core.messages import Trust
from homarus.core.routes import SessionKey
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.protocol import Refused
from homarus.gateway.scopes import ADMIN, READ, WRITE
from homarus.storage.atomic import ensure_dir
from homarus.storage.boundary import Root
from homarus.workspace import names
from homarus.workspace.agents import describe

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


class FileParams(Params, frozen=True, kw_only=True):
    agent_id: str
    name: str = ""


class FileSetParams(Params, frozen=True, kw_only=True):
    agent_id: str
    name: str
    content: str
    expected_hash: str = ""


class SkillParams(Params, frozen=True, kw_only=True):
    skill_key: str
    enabled: bool | None = None


class InvokeParams(Params, frozen=True, kw_only=True):
    name: str
    args: dict[str, Any] | None = None
    session_key: str = ""
    agent_id: str = ""
    PASSED = passed("confirm idempotencyKey conversationReadOrigin")


async def agents(call: Call, _params: Params) -> dict[str, Any]:
    home = call.client.home
    rows = []
    for agent in home.config.agents:
        view = describe(home.config, agent, home.env)
        look = {"name": view.name or agent.id, **({"emoji": view.emoji} if view.emoji else {})}
        model = view.model or next((row["id"] and f"{row['provider']}/{row['id']}" for row in model_rows(call)), "")
        row: dict[str, Any] = {"id": agent.id, "name": look["name"], "workspace": view.workspace, "identity": look}
        rows.append(row | ({"model": {"primary": model}} if model else {}))
    main = call.gateway.key("main")
    return {
        "defaultId": home.config.default_agent.id,
        "mainKey": main.peer or "main",
        "scope": "per-sender",
        "agents": rows,
    }


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


# Files.


def _workspace(call: Call, agent_id: str) -> tuple[str, Any]:
    agent = call.client.home.config.agent_named(agent_id).id
    return agent, call.client.home.workspace(agent)


async def files(call: Call, params: FileParams) -> dict[str, Any]:
    agent, folder = _workspace(call, params.agent_id)
    return {"agentId": agent, "workspace": str(folder), "files": [_file(folder, name) for name in FILES]}


def _file(folder: Any, name: str, *, content: bool = False) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "path": str(folder / name), "missing": True}
    if not folder.is_dir():
        return row
    with Root(folder) as root:
        got = root.read(name, max_bytes=_MAX_FILE)
    if got.kind != "ok":
        return row
    facts = {"missing": False, "size": len(got.data), "hash": hashlib.sha256(got.data).hexdigest()}
    text = {"content": got.data.decode("utf-8", "replace")} if content else {}
    return {**row, **facts, **text}


def _known(name: str) -> str:
    if name not in FILES:
        raise Refused(f"unsupported file: {name}")
    return name


async def file(call: Call, params: FileParams) -> dict[str, Any]:
    agent, folder = _workspace(call, params.agent_id)
    return {"agentId": agent, "workspace": str(folder), "file": _file(folder, _known(params.name), content=True)}


async def set_file(call: Call, params: FileSetParams) -> dict[str, Any]:
    agent, folder = _workspace(call, params.agent_id)
    name, data = _known(params.name), params.content.encode()
    if len(data) > _MAX_FILE:
        raise Refused(f"{name} would be larger than {_MAX_FILE} bytes")
    now = _file(folder, name)
    if params.expected_hash and params.expected_hash != now.get("hash"):
        raise Refused(f"{name} changed since it was read")
    ensure_dir(folder)
    with Root(folder) as root:
        root.write(name, data)
    return {"ok": True, "agentId": agent, "workspace": str(folder), "file": _file(folder, name, content=True)}


# Skills and tools.


async def skills(call: Call, params: AgentParams) -> dict[str, Any]:
    from homarus.skills.gate import judge
    from homarus.skills.library import SkillLibrary, gate_of, machine_facts, roots_of, settings_of

    home = call.client.home
    agent, folder = _workspace(call, params.agent_id)
    gate = gate_of(home.config, agent, machine_facts(home.config, home.env))
    found = SkillLibrary(settings_of(home.config).limits).load(roots_of(home.config, folder)).skills
    nothing: dict[str, list[str]] = {"bins": [], "anyBins": [], "env": [], "config": [], "os": []}
    rows: list[dict[str, Any]] = []
    for verdict in (judge(skill, gate) for skill in found):
        skill, header = verdict.skill, verdict.skill.header
        off = any(not step.ok and step.gate == "enabled" for step in verdict.steps)
        rows.append(
            {
                "name": skill.name,
                "description": header.description,
                "source": skill.source.value,
                "bundled": skill.source.value == "bundled",
                "filePath": skill.file,
                "baseDir": skill.folder,
                "skillKey": skill.key,
                "always": False,
                "disabled": off,
                "blockedByAllowlist": False,
                "eligible": verdict.eligible,
                "requirements": nothing,
                "missing": nothing,
                "configChecks": [],
                "install": [],
                "modelVisible": verdict.eligible and header.model_invocable,
                "userInvocable": header.user_invocable,
                **({"reason": verdict.reason} if verdict.reason else {}),
            }
        )
    managed = str(home.config.paths.skills_dir)
    return {"workspaceDir": str(folder), "managedSkillsDir": managed, "agentId": agent, "skills": rows}


async def set_skill(call: Call, params: SkillParams) -> dict[str, Any]:
    home = call.client.home
    if params.enabled is None:
        raise Refused("nothing to change: only enabled can be set from here")
    path = ("skills", "entries", params.skill_key, "enabled")
    change(home.config, home.env, [Operation("set", path, params.enabled)])
    call.gateway.hub.tell("skills.changed", {"skillKey": params.skill_key, "ts": call.gateway.now_ms})
    return {"ok": True, "skillKey": params.skill_key, "config": {"enabled": params.enabled}}


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
    "agents.list": Method(READ, agents),
    "agents.files.list": Method(READ, files, FileParams),
    "agents.files.get": Method(READ, file, FileParams),
    "agents.files.set": Method(ADMIN, set_file, FileSetParams, write=True),
    "models.list": Method(READ, models, ModelsParams),
    "models.authStatus": Method(READ, model_keys, AgentParams),
    "commands.list": Method(READ, commands, AgentParams),
    "skills.status": Method(READ, skills, AgentParams),
    "skills.update": Method(ADMIN, set_skill, SkillParams, write=True),
    "tools.catalog": Method(READ, tool_catalog, AgentParams),
    "tools.effective": Method(READ, tools, AgentParams),
    "tools.invoke": Method(WRITE, invoke, InvokeParams),
}
