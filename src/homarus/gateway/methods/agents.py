"""Agents: who lives here, and the files that say who each one is. They come and go as with `homarus agents`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType

from homarus.admin.agents import Roster
from homarus.core.errors import HomarusError
from homarus.gateway.methods import Call, Method, Params
from homarus.gateway.methods.catalog import model_rows
from homarus.gateway.protocol import Refused
from homarus.gateway.scopes import ADMIN, READ
from homarus.models.ref import split_ref
from homarus.storage.atomic import ensure_dir
from homarus.storage.boundary import Root
from homarus.workspace import names
from homarus.workspace.agents import describe

FILES = (*names.SEEDED, names.BOOTSTRAP, names.MEMORY, names.BOOT)
_MAX_FILE = 2_000_000


class CreateParams(Params, frozen=True, kw_only=True):
    name: str
    workspace: str = ""
    model: str = ""
    emoji: str = ""
    avatar: str = ""


class UpdateParams(Params, frozen=True, kw_only=True):
    """What is absent stays; null takes the model back."""

    agent_id: str
    name: str = ""
    workspace: str = ""
    model: str | UnsetType | None = UNSET
    emoji: str = ""
    avatar: str = ""


class DeleteParams(Params, frozen=True, kw_only=True):
    agent_id: str
    delete_files: bool = True


class FileParams(Params, frozen=True, kw_only=True):
    agent_id: str
    name: str = ""


class FileSetParams(Params, frozen=True, kw_only=True):
    agent_id: str
    name: str
    content: str
    expected_hash: str = ""


async def listed(call: Call, _params: Params) -> dict[str, Any]:
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


def _roster(call: Call) -> Roster:
    return Roster(call.gateway.live.config, call.client.home.env, call.gateway.clock)


def _taken_over(call: Call) -> None:
    """Let a change of the roster count at once, so that the next list has it."""
    if call.gateway.live.settings.reload.mode != "off":
        call.gateway.life.changed()


def _identity(params: CreateParams | UpdateParams) -> dict[str, str]:
    found = {"name": params.name, "emoji": params.emoji, "avatar": params.avatar}
    return {key: value.strip() for key, value in found.items() if value.strip()}


async def create(call: Call, params: CreateParams) -> dict[str, Any]:
    _check_model(params.model)
    try:
        made = _roster(call).add(params.name, {"workspace": params.workspace, "model": params.model}, _identity(params))
    except HomarusError as problem:
        raise Refused(str(problem)) from None
    _taken_over(call)
    model = {"model": params.model} if params.model else {}
    return {"ok": True, "agentId": made.agent_id, "name": params.name, "workspace": str(made.workspace), **model}


async def update(call: Call, params: UpdateParams) -> dict[str, Any]:
    agent_id = _known_agent(call, params.agent_id)
    settings: dict[str, Any] = {"workspace": params.workspace} if params.workspace else {}
    if params.model is not UNSET:
        _check_model(params.model or "")
        settings["model"] = params.model or None
    try:
        _roster(call).set(agent_id, settings, _identity(params))
    except HomarusError as problem:
        raise Refused(str(problem)) from None
    _taken_over(call)
    return {"ok": True, "agentId": agent_id}


async def delete(call: Call, params: DeleteParams) -> dict[str, Any]:
    """Take an agent away; its files go to the trash, where they can be had back."""
    agent_id, roster = _known_agent(call, params.agent_id), _roster(call)
    busy = [key for key in call.gateway.runtime.lanes.busy if key.agent_id == agent_id]
    if busy:
        raise Refused(f"'{agent_id}' is at work in {len(busy)} sessions; stop them first")
    try:
        gone = roster.remove(roster.plan_removal(agent_id, purge=params.delete_files))
    except HomarusError as problem:
        raise Refused(str(problem)) from None
    _taken_over(call)
    removed = [{"path": str(path), "method": "trash"} for path in gone.moved]
    return {"ok": True, "agentId": agent_id, "removedBindings": gone.bindings, "removed": removed, "failed": []}


def _known_agent(call: Call, agent_id: str) -> str:
    if not agent_id.strip():
        raise Refused("agentId is missing")
    try:
        return call.gateway.live.config.agent_named(agent_id).id
    except HomarusError as problem:
        raise Refused(str(problem)) from None


def _check_model(model: str) -> None:
    if model and split_ref(model) is None:
        raise Refused(f"invalid model: {model}; write provider/model")


# Files.


def workspace_of(call: Call, agent_id: str) -> tuple[str, Path]:
    agent = call.client.home.config.agent_named(agent_id).id
    return agent, call.client.home.workspace(agent)


async def files(call: Call, params: FileParams) -> dict[str, Any]:
    agent, folder = workspace_of(call, params.agent_id)
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
    agent, folder = workspace_of(call, params.agent_id)
    return {"agentId": agent, "workspace": str(folder), "file": _file(folder, _known(params.name), content=True)}


async def set_file(call: Call, params: FileSetParams) -> dict[str, Any]:
    agent, folder = workspace_of(call, params.agent_id)
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


METHODS = {
    "agents.list": Method(READ, listed),
    "agents.create": Method(ADMIN, create, CreateParams, write=True),
    "agents.update": Method(ADMIN, update, UpdateParams, write=True),
    "agents.delete": Method(ADMIN, delete, DeleteParams, write=True),
    "agents.files.list": Method(READ, files, FileParams),
    "agents.files.get": Method(READ, file, FileParams),
    "agents.files.set": Method(ADMIN, set_file, FileSetParams, write=True),
}
