"""The silent turn that saves memory before a compaction. It works on a copy: nothing of it enters the transcript."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

from homarus.core.errors import Denied
from homarus.core.messages import Assistant, Message, Text, User
from homarus.core.origin import take_origin
from homarus.core.text import single_line
from homarus.models.provider import Stop
from homarus.tools.execute import Toolbox, execute
from homarus.tools.tool import Tool, ToolContext

if TYPE_CHECKING:
    from homarus.agent.ports import Model


MAX_CALLS = 6
_ALLOWED = frozenset({"read", "memory_retain", "memory_search", "write"})


class MemoryFlush:
    """One such turn. `count` is told of every answer, because all of them are paid for; it ends where the next request would not fit."""

    def __init__(
        self,
        model: Model,
        box: Toolbox,
        context: ToolContext,
        count: Callable[[Assistant], None],
        fits: Callable[[tuple[Message, ...]], bool] = lambda _history: True,
    ) -> None:
        self._fits = fits
        self._model = model
        self._box = box
        self._context = context
        self._count = count

    async def run(self, shown: tuple[Message, ...], prompt: str, today: date) -> bool:
        """Let the model write down what is worth keeping; return whether it came to an end by itself."""
        tools = {name: tool for name, tool in self._box.tools.items() if name in _ALLOWED}
        limited = Toolbox(tools, _only(f"memory/{today.isoformat()}.md"))
        history: tuple[Message, ...] = (*shown, User((Text(prompt.replace("{date}", today.isoformat())),)))
        for _ in range(MAX_CALLS):
            reply = await self._ask(history)
            if reply is None or self._context.cancel.cancelled:
                return False
            history = (*history, reply)
            if not reply.calls:
                return True
            for call in reply.calls:
                history = (*history, await execute(call, limited, self._context))
            if not self._fits(history):
                return False
        return False

    async def _ask(self, history: tuple[Message, ...]) -> Assistant | None:
        reply = None
        async for event in self._model.stream(history, tools=True, cancel=self._context.cancel):
            if isinstance(event, Stop):
                self._count(event.message)
                reply = event.message if event.error is None else None
        return reply


def _only(note: str) -> Any:
    """Return a gate that lets this turn add to today's note and change nothing else.

    What is added should be facts that can be read as such later. It is told so once; then plain words are better than nothing.
    """
    told = False

    async def gate(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> None:
        if tool.name != "write":
            return
        path = str(arguments.get("path", "")).removeprefix("./").removeprefix(f"{context.workspace}/")
        if path != note:
            raise Denied(f"only {note} may be changed here", cure="use memory_retain")
        try:
            old = (context.workspace / note).read_text(encoding="utf-8", errors="replace")
        except OSError:
            old = ""
        new = take_origin(str(arguments.get("content", "")))[0]  # marks that it leaves out are set again
        if not new.startswith(take_origin(old)[0].rstrip("\n")):
            raise Denied(f"{note} may only grow", cure="repeat what is in it, then add to it, or use memory_retain")
        nonlocal told
        if not told and (line := _no_fact(note, old, new)):
            told = True
            cure = "use memory_retain, or write '- W @Name: sentence.' (B for what was done, O for an opinion) below '## Retain'"
            raise Denied(f"'{single_line(line, 60)}' is no fact below '## Retain'", cure=cure)

    return gate


def _no_fact(note: str, old: str, new: str) -> str:
    """Return the first added line that is no bullet of a Retain section."""
    from homarus.memory.note_parser import parse_note, split_lines

    known = len(split_lines(old.rstrip("\n"))) if old.strip() else 0
    added = [unit for unit in parse_note(note, split_lines(new)) if unit.line > known and unit.kind != "heading"]
    return next((unit.text for unit in added if unit.bullet is None), "")
