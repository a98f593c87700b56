"""The order and the size of what every prompt carries, and the tools behind contracts."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.tools.calling import fail, say
from tests.tools.context import context

from homarus.core.clock import SystemClock, SystemIds
from homarus.tools.exec import Granted
from homarus.tools.processes import ProcessManager
from homarus.tools.registry import MAX_SPEC_CHARS, ToolSettings, build_tools, every_tool, members, spec_chars
from homarus.tools.services import ToolServices
from homarus.tools.tool import ToolContext
from homarus.tools.web import SearchSettings, WebSettings


class World:
    """Everything that the composition would provide, answering from a script."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.children = 0

    async def rows(self, ctx: ToolContext, query: dict[str, Any]) -> list[dict[str, Any]]:
        self.calls.append(query)
        return [{"key": f"k{n}", "text": "x" * 2_000} for n in range(query["limit"])]

    async def history(
        self, ctx: ToolContext, key: str, limit: int, offset: int, *, tools: bool
    ) -> list[dict[str, Any]]:
        return [
            {"role": "user", "text": f"{n} sk-aaa{'1B2c3D4e5F' * 3} " + "y" * 9_000, "thinkingSignature": "z"}
            for n in range(limit)
        ]

    async def search(self, ctx: ToolContext, query: str, limit: int) -> list[dict[str, Any]]:
        return []

    async def send(self, ctx: ToolContext, target: dict[str, Any], message: str, seconds: float) -> dict[str, Any]:
        return {"status": "ok", "reply": f"{target} {message} {seconds:g}"}

    async def spawn(self, ctx: ToolContext, order: dict[str, Any]) -> dict[str, Any]:
        self.children += 1
        return {"status": "accepted", "runId": "r", "childSessionKey": "agent:main:subagent:1"}

    async def manage(self, ctx: ToolContext, action: str, target: str, message: str) -> dict[str, Any]:
        return {"action": action, "target": target}

    def waiting(self, ctx: ToolContext) -> int:
        return self.children

    async def status(self, ctx: ToolContext, key: str, model: str) -> str:
        return "a card"

    async def agents(self, ctx: ToolContext) -> list[dict[str, Any]]:
        return [{"id": "main"}]

    def can_look(self, agent_id: str) -> bool:
        return True

    async def look(self, ctx: ToolContext, data: bytes, kind: str, prompt: str) -> str:
        return f"{kind} {len(data)} {prompt}"


class Doer:
    async def act(self, ctx: ToolContext, *arguments: Any) -> dict[str, Any]:
        return {"did": arguments}


def services(world: World | None = None) -> ToolServices:
    world, doer = world or World(), Doer()
    return ToolServices(
        processes=ProcessManager(SystemClock(), SystemIds()),
        grants=Granted(),
        memory_of=lambda agent_id: None,  # type: ignore[arg-type, return-value]  # nothing is asked of it here
        sessions=world,
        sessions_send=world,
        spawner=world,
        status=world,
        sender=doer,
        scheduler=doer,
        gateway=doer,
        vision=world,
    )


# fmt: off
ORDER = [
    "read", "write", "edit", "apply_patch", "grep", "find", "ls", "exec", "process", "web_search", "web_fetch", "cron",
    "message", "gateway", "agents_list", "sessions_list", "sessions_history", "sessions_search", "sessions_send",
    "sessions_spawn", "sessions_yield", "subagents", "session_status", "image",
    "memory_get", "memory_recall", "memory_retain", "memory_search",
]
# fmt: on


def test_what_each_tool_says_of_itself() -> None:
    tools = every_tool()
    assert len({tool.spec.order for tool in tools.values()}) == len(tools)
    assert {name for name, tool in tools.items() if tool.owner_only} == {"cron", "gateway"}
    assert {name for name, tool in tools.items() if tool.children == "none"} == {
        *("sessions_send", "gateway", "agents_list", "session_status", "cron", "message")
    }
    assert {name for name, tool in tools.items() if tool.children == "parents"} == {
        *("sessions_list", "sessions_history", "sessions_search", "sessions_spawn", "sessions_yield", "subagents")
    }
    assert members("fs") == {"read", "write", "edit", "apply_patch", "grep", "find", "ls"}
    assert members("runtime") == {"exec", "process"}
    assert members("automation") == {"cron", "gateway"}
    assert {tool.group for tool in tools.values()} == {
        *("fs", "runtime", "web", "sessions", "agents", "memory", "automation", "messaging", "media")
    }


def test_all_tools_in_their_order_and_within_their_budget() -> None:
    tools = build_tools(services())
    assert [tool.name for tool in tools] == ORDER == list(every_tool())
    assert spec_chars(tool.spec for tool in tools) <= MAX_SPEC_CHARS
    assert all(tool.spec.summary for tool in tools)


def test_the_bytes_are_the_same_every_time_and_whatever_else_is_missing() -> None:
    one, other = build_tools(services()), build_tools(services())
    assert msgspec.json.encode([t.spec for t in one]) == msgspec.json.encode([t.spec for t in other])
    few = build_tools(ToolServices(), ToolSettings(web=WebSettings.disabled()))
    assert [tool.name for tool in few] == ["read", "write", "edit", "apply_patch", "grep", "find", "ls"]
    full = {tool.name: tool.spec for tool in one}
    assert all(full[tool.name] == tool.spec for tool in few)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("sessions_search", {"query": "x"}, '"count":0'),
        ("sessions_send", {"message": "hi", "session_key": "k", "timeoutSeconds": 0}, "'sessionKey': 'k'} hi 0"),
        ("sessions_spawn", {"task": "do"}, "accepted"),
        ("subagents", {}, '"action":"list"'),
        ("session_status", {}, "a card"),
        ("agents_list", {}, '"id":"main"'),
        ("message", {"action": "send", "to": "ann", "text": "hi"}, '"target":"ann"'),
        ("cron", {"action": "list"}, "list"),
        ("cron", {"action": "add", "job": '{"name": "x"}'}, '"name":"x"'),
        ("gateway", {"action": "config.get"}, "config.get"),
    ],
)
async def test_good_calls(tmp_path: Any, name: str, arguments: dict[str, Any], expected: str) -> None:
    assert expected in await say(build_tools(services()), name, context(tmp_path), **arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("sessions_history", {}, "'sessionKey' is missing"),
        ("sessions_send", {"message": "hi"}, "needs a target"),
        ("sessions_spawn", {"task": " "}, "empty"),
        ("sessions_spawn", {"task": "x", "context": "all"}, "must be one of isolated, fork"),
        ("sessions_spawn", {"task": "x", "sandbox": "off"}, "must be one of inherit, require"),
        ("sessions_yield", {}, "nothing to wait for"),
        ("subagents", {"action": "cancel"}, "needs target"),
        ("message", {"action": "send"}, "nothing to send"),
        ("cron", {"action": "remove"}, "needs jobId"),
        ("cron", {"action": "add"}, "needs job"),
        ("gateway", {"action": "config.patch"}, "needs patch"),
        ("gateway", {"action": "shell"}, "must be one of"),
        ("image", {"image": "f"}, "no image"),
        ("image", {"image": "../x.png"}, "does not exist"),
        ("image", {"image": "http://127.0.0.1/x.png"}, "private network"),
        ("image", {"image": "http://localhost/x.png"}, "local network"),
    ],
)
async def test_bad_and_hostile_calls(tmp_path: Any, name: str, arguments: dict[str, Any], expected: str) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_text("text")
    text = await fail(build_tools(services()), name, ctx, **arguments)
    assert any(part in text for part in expected.split("|")), text


async def test_lists_and_histories_are_bounded_and_hold_no_secrets(tmp_path: Any) -> None:
    tools = build_tools(services())
    wide = context(tmp_path, window_tokens=10_000_000)
    text = await say(tools, "sessions_list", wide, limit=5_000)
    assert len(text) < 66_000
    assert '"truncated":' in text
    text = await say(tools, "sessions_history", wide, sessionKey="k", limit=3)
    assert "sk-aaa" not in text
    assert "[redacted]" in text
    assert "Signature" not in text
    assert len(text) < 3 * 4_200


async def test_yield_ends_the_turn_when_there_is_something_to_wait_for(tmp_path: Any) -> None:
    world = World()
    tools = build_tools(services(world))
    await say(tools, "sessions_spawn", context(tmp_path), task="x")
    assert "1 sub-agent" in await say(tools, "sessions_yield", context(tmp_path))
    assert next(tool for tool in tools if tool.name == "sessions_yield").ends_turn


async def test_an_image_file(tmp_path: Any) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 20)
    assert await say(build_tools(services()), "image", ctx, path="p.png", prompt="what?") == "image/png 28 what?"


async def test_the_web_tools_trust_the_certificates_that_the_environment_names(tmp_path: Path) -> None:
    search = SearchSettings(provider="searxng", base_url="https://127.0.0.1:9")
    env = {"SSL_CERT_FILE": str(tmp_path / "missing.pem")}
    tools = build_tools(ToolServices(env=env), ToolSettings(web=WebSettings(search)))
    assert "SSL_CERT_FILE" in await fail(tools, "web_search", context(tmp_path), query="x")
