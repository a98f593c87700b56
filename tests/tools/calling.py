"""Call one tool as a turn does, through `execute` with an open gate, and read its answer as text."""

from typing import Any

from homarus.core.messages import Text, ToolCall, ToolResult
from homarus.tools.execute import Toolbox, execute
from homarus.tools.tool import Tool, ToolContext


async def open_gate(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> None:
    return None


async def call(
    tools: list[Tool] | tuple[Tool, ...], name: str, context: ToolContext, /, **arguments: Any
) -> ToolResult:
    box = Toolbox({tool.name: tool for tool in tools}, open_gate)
    return await execute(ToolCall("c1", name, arguments), box, context)


def text_of(result: ToolResult) -> str:
    return "".join(part.text for part in result.parts if isinstance(part, Text))


async def say(tools: list[Tool] | tuple[Tool, ...], name: str, context: ToolContext, /, **arguments: Any) -> str:
    """Return the text of a call that must succeed."""
    result = await call(tools, name, context, **arguments)
    assert not result.is_error, text_of(result)
    return text_of(result)


async def fail(tools: list[Tool] | tuple[Tool, ...], name: str, context: ToolContext, /, **arguments: Any) -> str:
    """Return the text of a call that must fail."""
    result = await call(tools, name, context, **arguments)
    assert result.is_error, text_of(result)
    return text_of(result)
