from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.tools.context import context

from homarus.core.cancel import Cancel
from homarus.core.errors import Cancelled, Denied, ToolError
from homarus.core.messages import Image, Text, ToolCall
from homarus.core.tools import Risk, ToolSpec
from homarus.tools.execute import STOPPED, Toolbox, execute
from homarus.tools.result import bound, conceal, cut, limit_for
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def allow(_tool: Tool, _arguments: dict[str, Any], _context: ToolContext) -> None:
    return None


def tool(run: Any, **more: Any) -> Tool:
    return Tool(spec=ToolSpec("echo", "says it again", SCHEMA), risk=Risk.READ, run=run, group="test", **more)


def box(run: Any, gate: Any = allow, **more: Any) -> Toolbox:
    return Toolbox({"echo": tool(run, **more)}, gate)


async def echo(_context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
    return said(arguments["text"], length=len(arguments["text"]))


def call(text: Any = "hi", name: str = "echo") -> ToolCall:
    return ToolCall("call/1", name, {"text": text})


async def test_a_call_gets_its_result(tmp_path: Path) -> None:
    result = await execute(call(), box(echo), context(tmp_path))
    assert (result.call_id, result.tool_name, result.text, result.is_error) == ("call/1", "echo", "hi", False)
    assert result.details == {"length": 2}
    assert result.timestamp == 1_777_636_800_000


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (ToolError("no such file", cure="use ls"), "no such file (use ls)"),
        (Denied("not here"), "Denied: not here"),
        (ZeroDivisionError("x"), "echo failed unexpectedly: ZeroDivisionError"),
        (Cancelled("stop"), STOPPED),
    ],
)
async def test_every_failure_is_a_result(tmp_path: Path, problem: Exception, says: str) -> None:
    async def fail(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        raise problem

    result = await execute(call(), box(fail), context(tmp_path))
    assert result.is_error
    assert result.text.startswith(says)


async def test_an_unknown_tool_and_wrong_arguments_help_the_model(tmp_path: Path) -> None:
    result = await execute(call(name="nope\n"), box(echo), context(tmp_path))
    assert result.text == "there is no tool 'nope' (use one of: echo)"
    result = await execute(call(5), box(echo), context(tmp_path))
    assert "call echo(text: string)" in result.text


async def test_the_gate_sees_exactly_what_runs(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    ran: list[dict[str, Any]] = []

    async def gate(_tool: Tool, arguments: dict[str, Any], _context: ToolContext) -> None:
        seen.append(arguments)

    async def run(_context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        ran.append(arguments)
        return said("ok")

    await execute(call(), box(run, gate), context(tmp_path))
    assert seen[0] is ran[0]


async def test_a_denied_call_never_runs(tmp_path: Path) -> None:
    async def gate(_tool: Tool, _arguments: dict[str, Any], _context: ToolContext) -> None:
        raise Denied("policy")

    async def run(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        raise AssertionError("ran")

    assert (await execute(call(), box(run, gate), context(tmp_path))).details == {"status": "denied"}


async def test_a_stopped_turn_runs_nothing_more(tmp_path: Path) -> None:
    cancel = Cancel()
    cancel.cancel("stop")
    assert (await execute(call(), box(echo), context(tmp_path, cancel=cancel))).text == STOPPED


async def test_a_long_result_is_cut_and_kept_whole_in_a_file(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(20_000))
    result = await execute(call(text), box(echo), context(tmp_path, window_tokens=50_000))
    assert len(result.text) <= 16_000
    assert result.text.startswith("line 0\n")
    assert result.text.endswith("line 19999\n")
    (kept,) = (tmp_path / "overflow").iterdir()
    assert result.details == {"length": len(text), "truncated": True, "fullOutputPath": str(kept)}
    assert kept.name == "call-1.txt"
    assert str(kept) in result.text
    assert kept.read_text() == text


async def test_strangers_text_taints_the_turn(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    await execute(call(), box(echo), ctx)
    assert not ctx.taint
    await execute(call(), box(echo, taints=True), ctx)
    assert ctx.taint.sources == ("echo",)


async def test_large_details_are_not_kept(tmp_path: Path) -> None:
    async def run(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        return said("ok", log="x" * 100_000, code=0)

    result = await execute(call(), box(run), context(tmp_path))
    assert result.details == {"code": 0, "persistedDetailsTruncated": True}


@pytest.mark.parametrize(
    ("window", "limit"), [(8_000, 9_600), (50_000, 16_000), (100_000, 32_000), (200_000, 64_000), (10**6, 64_000)]
)
def test_limits_by_window(window: int, limit: int) -> None:
    assert limit_for(window) == limit


@given(st.text(max_size=400), st.integers(0, 300))
def test_a_cut_never_exceeds_its_limit(text: str, limit: int) -> None:
    assert len(cut(text, limit, "note")) <= max(limit, 0)


def test_images_are_counted(tmp_path: Path) -> None:
    images = tuple(Image("x", "image/png") for _ in range(20))
    parts, whole = bound((Text("a"), *images), 100, tmp_path, "f")
    assert whole is None
    assert len(parts) == 9


async def test_a_result_never_shows_a_key_that_the_run_was_given(tmp_path: Path) -> None:
    given = replace(context(tmp_path), hidden=("sk-123456", "sk-123456-long", "abc"))
    result = await execute(call("one sk-123456-long two sk-123456 abc"), box(echo), given)
    assert result.text == "one [hidden] two [hidden] abc"
    long = await execute(call("sk-123456 " * 20_000), box(echo), given)
    assert "sk-123456" not in long.text
    (kept,) = given.overflow_dir.iterdir()
    assert "sk-123456" not in kept.read_text()


def test_parts_without_a_key_come_back_as_they_are() -> None:
    parts = (Text("nothing"), Image("image/png", "sk-123456"))
    assert conceal(parts, ("sk-123456",)) == parts
    assert conceal(parts, ()) is parts
