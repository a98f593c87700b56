"""The chat without a terminal: each line is a message, its answer follows as plain text. For pipes, scripts and dumb terminals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TextIO

from homarus.cli.output import problem_line
from homarus.cli.reply_stream import TextStream
from homarus.core.errors import HomarusError
from homarus.core.events import RunEnded
from homarus.runtime.client import RunOptions

if TYPE_CHECKING:
    from homarus.runtime.library import Agent

LEAVING = frozenset({"/exit", "/quit", "/bye"})


async def talk_in_lines(agent: Agent, lines: TextIO, out: TextIO, err: TextIO) -> int:
    """Answer line after line until there are no more; 1 when a turn failed."""
    failed = False
    while True:
        # A thread reads, so that a slow writer at the other end of the pipe does not hold up the loop.
        line = await asyncio.to_thread(lines.readline)
        if not line or line.strip().lower() in LEAVING:
            return int(failed)
        if not line.strip():
            continue
        try:
            row = await agent.client.row(agent.key)
            shown = TextStream(out, row.response_usage, row.verbose_level)
            async for event in agent.run(line.rstrip("\n"), options=RunOptions(children="all")):
                shown.take(event)
                if isinstance(event, RunEnded) and event.status != "ok":
                    failed = True
                    print(problem_line(event.error or event.status), file=err)
        except HomarusError as problem:
            failed = True
            print(problem_line(str(problem)), file=err)
