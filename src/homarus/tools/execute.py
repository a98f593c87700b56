"""Run one call: find the tool, fit the arguments, pass the gate, bound the result. Total: every call gets one result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.clock import epoch_ms
from homarus.core.errors import Cancelled, Denied, HomarusError, ToolError
from homarus.core.messages import Text, ToolCall, ToolResult
from homarus.core.origin import take_origin
from homarus.core.text import single_line
from homarus.tools.policy import ALIASES
from homarus.tools.result import MAX_DETAIL_BYTES, WHOLE, bound, conceal, limit_for
from homarus.tools.schema import fit
from homarus.tools.tool import Tool, ToolContext, ToolOutput

_log = logging.getLogger(__name__)
# In a result's details: by then the turn had read what nobody trusted wrote.
TAINTED = "tainted"
STOPPED = "This call was stopped before it finished. What it had done by then stays done."


class Gate(Protocol):
    """Says yes by returning. It may wait for a human, and raises `Denied` when the answer is no."""

    def __call__(self, tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Awaitable[None]:
        """Admit one call, exactly as it will run."""


class Asks(Struct, frozen=True):
    """The arguments that a call shall have, and why a person must be asked before it runs."""

    arguments: dict[str, Any]
    reason: str


class BeforeCall(Protocol):
    """Sees every call before the gate does. It may change the arguments, or raise `Denied` to keep the call from running."""

    def __call__(self, tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Awaitable[dict[str, Any] | Asks]:
        """Return the arguments that the call shall have."""


class Toolbox(Struct, frozen=True):
    """The tools of one turn, after policy: what is not in here does not exist for the model."""

    tools: dict[str, Tool]
    gate: Gate
    before: tuple[BeforeCall, ...] = ()

    def find(self, name: str) -> Tool | None:
        """Return a tool by its name, or by the name that another program gives it."""
        found = self.tools.get(name)
        if found is None:
            plain = name.strip().lower()
            found = self.tools.get(ALIASES.get(plain, plain))
        return found


Run = Callable[[], Awaitable[ToolOutput]]


async def execute(call: ToolCall, box: Toolbox, context: ToolContext) -> ToolResult:
    """Run one call and return its result, whatever happens: a failure is a result that says what to do about it."""
    context = replace(context, call_id=call.id)
    try:
        output = await _run(call, box, context)
    except Cancelled:
        output = ToolOutput((Text(STOPPED),), {"status": "cancelled"}, is_error=True)
    except Denied as problem:
        output = _failed(f"Denied: {problem}", "denied")
    except ToolError as problem:
        output = _failed(str(problem), "error")
    except HomarusError as problem:
        output = _failed(str(problem), "failed")
    except asyncio.CancelledError as problem:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Nobody cancelled this call: something that it waited for was.
        output = _failed(
            f"{call.name} failed: what it waited for was cancelled {single_line(str(problem))}".strip(), "bug"
        )
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a bug in one tool must not end the turn or the program
        _log.exception("tool %s failed", single_line(call.name, 64))
        output = _failed(
            f"{call.name} failed unexpectedly: {type(problem).__name__}: {single_line(str(problem))}", "bug"
        )
    shown = conceal(output.parts, context.hidden)
    parts, whole = bound(shown, limit_for(context.window_tokens), context.overflow_dir, call.id)
    details = dict(output.details) if output.details else {}
    if parts is not shown:
        details["truncated"] = True
    if whole:
        details[WHOLE] = str(whole)
    if context.taint:
        details[TAINTED] = True
    return ToolResult(
        call_id=call.id,
        tool_name=call.name,
        parts=parts or (Text("(no output)"),),
        timestamp=epoch_ms(context.clock.now()),
        is_error=output.is_error,
        details=_small(details) or None,
    )


async def _run(call: ToolCall, box: Toolbox, context: ToolContext) -> ToolOutput:
    tool = box.find(call.name)
    if tool is None:
        names = ", ".join(box.tools) or "none"
        raise ToolError(f"there is no tool '{single_line(call.name, 64)}'", cure=f"use one of: {names}")
    arguments = _fitting(call.arguments, tool)
    context.cancel.check()
    judged = context
    for before in box.before:
        # What comes back is checked like what the model wrote, and the gate decides on that.
        found = await before(tool, arguments, context)
        if isinstance(found, Asks):
            judged = replace(judged, asks="; ".join(filter(None, (judged.asks, found.reason))))
            found = found.arguments
        arguments = _fitting(found, tool)
    await box.gate(tool, arguments, judged)
    context.cancel.check()
    output = await tool.run(context, arguments)
    if tool.taints:  # the words of a failure are the server's, too
        context.taint.add(tool.name)
    for part in output.parts:  # a note that says whose words it holds is as good as these words, whoever shows it
        for source in take_origin(part.text)[1] if isinstance(part, Text) else ():
            context.taint.add(source)
    return output


def _fitting(arguments: dict[str, Any], tool: Tool) -> dict[str, Any]:
    return fit(arguments, tool.schema or tool.spec.parameters, aliases=tool.aliases, tool=tool.name)


def _failed(text: str, status: str) -> ToolOutput:
    return ToolOutput((Text(text),), {"status": status}, is_error=True)


def _small(details: dict[str, Any]) -> dict[str, Any]:
    """Return details that are worth keeping: too much of them would make every later start slow."""
    try:
        size = len(msgspec.json.encode(details))
    except (TypeError, ValueError):
        return {"persistedDetailsTruncated": True}
    if size <= MAX_DETAIL_BYTES:
        return details
    kept = {key: value for key, value in details.items() if isinstance(value, int | float | bool | None)}
    return {**kept, "persistedDetailsTruncated": True}
