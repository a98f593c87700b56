"""Memory: find passages in an agent's notes, and how its index stands."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from homarus.core.errors import HomarusError
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.protocol import Refused
from homarus.gateway.scopes import READ
from homarus.memory.memory import NoDay
from homarus.memory.results import as_json

MAX_RESULTS, MAX_QUERY = 50, 2_000


class SearchParams(Params, frozen=True, kw_only=True):
    query: str
    agent_id: str = ""
    max_results: int | None = None
    min_score: float | None = None
    # What was known on a day: later notes are left out.
    as_of: str = ""
    PASSED = passed("sessionKey sources corpus")


class StatusParams(Params, frozen=True):
    agent_id: str = ""
    # Whether the embedder is asked for a vector, which may load a model or use a service.
    probe: bool = False
    deep: bool = False


def _agent(call: Call, name: str) -> str:
    return call.client.home.config.agent_named(name).id


async def search(call: Call, params: SearchParams) -> dict[str, Any]:
    if not params.query.strip() or len(params.query) > MAX_QUERY:
        raise Refused(f"query must be 1 to {MAX_QUERY} characters")
    agent = _agent(call, params.agent_id)
    most = None if params.max_results is None else max(1, min(params.max_results, MAX_RESULTS))
    memory = call.client.home.memory(agent)
    try:
        if params.as_of:
            answer = await asyncio.to_thread(memory.recall, params.query, most or 20, 4_000, as_of=params.as_of)
        else:
            answer = await asyncio.to_thread(memory.search, params.query, most, params.min_score)
    except NoDay as problem:
        raise Refused(str(problem)) from None
    said = {"degraded": answer.degraded, "stale": answer.stale, "verdict": answer.verdict}
    facts: dict[str, Any] = {"mode": answer.mode, **said, "searchMs": round(answer.searched_ms, 1)}
    hits = [
        as_json(hit) | {"path": hit.path, "startLine": hit.start_line, "endLine": hit.end_line, "snippet": hit.text}
        for hit in answer.hits
    ]
    return {"agentId": agent, "results": hits, "count": len(hits), **{key: each for key, each in facts.items() if each}}


async def status(call: Call, params: StatusParams) -> dict[str, Any]:
    agent = _agent(call, params.agent_id)
    memory = call.client.home.memory(agent)
    found = await asyncio.to_thread(memory.status)
    ready: dict[str, Any] = {"ok": not found.degraded, "checked": False}
    if params.probe or params.deep:
        try:
            await asyncio.to_thread(memory.vectors, ["probe"])
            ready = {"ok": True, "checked": True}
        except HomarusError as problem:
            ready = {"ok": False, "checked": True, "error": problem.message}
    if found.degraded:
        ready.setdefault("error", found.degraded)
    return {"agentId": agent, "provider": found.provider, "embedding": ready, "index": msgspec.to_builtins(found)}


METHODS = {
    "memory.search": Method(READ, search, SearchParams),
    "doctor.memory.status": Method(READ, status, StatusParams),
}
