"""One tool over HTTP: what is harmless runs, what acts is closed, and policy holds as in a turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import TOKEN, Served, served
from tests.scenarios.home import House

httpx = pytest.importorskip("httpx2")


async def call(home: Served, body: Any, token: str = TOKEN) -> tuple[int, Any]:
    async with httpx.AsyncClient(trust_env=False) as http:
        headers = {"Authorization": f"Bearer {token}"}
        found = await http.post(f"http://127.0.0.1:{home.port}/tools/invoke", json=body, headers=headers, timeout=120)
    return found.status_code, found.json()


async def test_a_tool_answers_and_what_acts_is_closed(tmp_path: Path) -> None:
    async with served(House(tmp_path)) as home:
        status, body = await call(home, {"tool": "session_status", "args": {}})
        assert (status, body["ok"], body["result"]["content"][0]["type"]) == (200, True, "text")
        for name in ("exec", "write", "apply_patch", "sessions_spawn", "no_such_tool", "EXEC "):
            status, body = await call(home, {"tool": name, "args": {"command": "id"}})
            assert (status, body["error"]["type"]) == (404, "not_found")
        assert (await call(home, {"tool": "session_status"}, "wrong"))[0] == 401
        assert (await call(home, {"args": {}}))[0] == 400
        assert (await call(home, {"tool": "session_status", "agentId": "nobody"}))[0] == 400


async def test_the_owner_opens_and_closes_tools(tmp_path: Path) -> None:
    rules = {"gateway": {"tools": {"allow": ["write"], "deny": ["session_status"]}}}
    async with served(House(tmp_path, config=rules)) as home:
        assert (await call(home, {"tool": "session_status"}))[0] == 404
        status, body = await call(home, {"tool": "write", "args": {"path": "note.md", "content": "hi"}})
        assert (status, body["ok"]) == (200, True), body
        assert (home.house.workspace / "note.md").read_text() == "hi"
    denied = {"tools": {"deny": ["write"]}, **rules}
    async with served(House(tmp_path, config=denied)) as home:
        assert (await call(home, {"tool": "write", "args": {"path": "b.md", "content": "hi"}}))[0] == 404


@pytest.mark.parametrize(
    "deny", [["Session_Status"], ["group:sessions"], ["session_*"], [" session_status "], ["sesion_status"], ["*"]]
)
async def test_what_is_denied_is_said_in_the_words_of_the_rules_for_tools(tmp_path: Path, deny: list[str]) -> None:
    async with served(House(tmp_path, config={"gateway": {"tools": {"deny": deny}}})) as home:
        assert (await call(home, {"tool": "session_status"}))[0] == 404


async def test_what_is_opened_is_named_in_any_case_and_a_group_opens_nothing(tmp_path: Path) -> None:
    rules = {"gateway": {"tools": {"allow": [" Write", "group:runtime", "*"]}}}
    async with served(House(tmp_path, config=rules)) as home:
        assert (await call(home, {"tool": "write", "args": {"path": "note.md", "content": "hi"}}))[0] == 200
        assert (await call(home, {"tool": "exec", "args": {"command": "id"}}))[0] == 404
