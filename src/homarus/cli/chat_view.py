"""What a chat shows of a turn: events in, blocks to print and a live tail out. It knows no terminal.

Text is printed block by block, as soon as a paragraph, a list or a code block is complete; what is still being written
is the live tail. So what was printed is final, survives a resize, and can be scrolled and copied.
"""

from __future__ import annotations

import io
import json
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct

from homarus.core.events import (
    ApprovalAsked,
    ChildEnded,
    ChildStarted,
    CompactionEnded,
    CompactionStarted,
    MessageEnded,
    ModelCalled,
    Notice,
    RunEnded,
    RunEvent,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UserAccepted,
)
from homarus.core.patterns import late
from homarus.core.redact import redacted
from homarus.core.text import human_bytes, printable, single_line
from homarus.delivery.stream import StreamFilter
from homarus.runtime.reply import footer

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown as RichMarkdown


MAX_TOOLS = 100
HESITATION_SECONDS = 0.7  # what somebody types on with before they see that they were asked
SHOWN_OUTPUT = 6_000
_FENCE = late(r"^ {0,3}(`{3,}|~{3,})")

Kind = Literal["markdown", "tool", "failed", "thinking", "note", "warning", "error", "user", "detail"]


class Block(Struct, frozen=True):
    """Something to print, and how it looks."""

    kind: Kind
    text: str


class ToolRun(Struct):
    """One call, folded to a line until somebody asks for more."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    started: float
    output: str = ""
    failed: bool = False
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """Return the call on one line."""
        size = f" · {human_bytes(len(self.output))}" if self.output else ""
        return f"{self.name} {summary(self.arguments)}".rstrip() + f" · {_time(self.seconds)}{size}"

    @property
    def detail(self) -> str:
        """Return the call with everything, within bounds."""
        arguments = json.dumps(self.arguments, ensure_ascii=False, indent=2)
        output = (
            self.output
            if len(self.output) <= SHOWN_OUTPUT
            else f"{self.output[:SHOWN_OUTPUT]}\n[… {len(self.output):,} characters]"
        )
        return f"{self.name} {arguments}\n{output}"


class Markdown:
    """Cuts Markdown that is still arriving into blocks that can be rendered alone."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial = ""
        self._fence = ""

    @property
    def pending(self) -> str:
        """Return what is not printed yet."""
        return "\n".join([*self._lines, self._partial]).strip("\n")

    def feed(self, text: str) -> list[str]:
        """Take more text and return the blocks that it completed."""
        *whole, self._partial = (self._partial + text).split("\n")
        return [block for line in whole for block in self._line(line)]

    def finish(self) -> list[str]:
        """Return what is left as the last block."""
        rest, self._lines, self._partial, self._fence = self.pending, [], "", ""
        return [rest] if rest.strip() else []

    def _line(self, line: str) -> list[str]:
        mark = _FENCE.match(line)
        if self._fence:
            self._lines.append(line)
            if mark and mark[1][0] == self._fence[0] and len(mark[1]) >= len(self._fence):
                self._fence = ""
                return self._cut()
            return []
        if mark:
            before = self._cut()
            self._fence = mark[1]
            self._lines.append(line)
            return before
        if not line.strip():
            return self._cut()
        self._lines.append(line)
        return []

    def _cut(self) -> list[str]:
        block, self._lines = "\n".join(self._lines), []
        return [block] if block.strip() else []


class ChatView:
    """The state of one chat on a screen. `take` returns what to print; the properties are what is live just now."""

    def __init__(self, clock: Callable[[], float], *, reasoning: str = "off", verbose: str = "off") -> None:
        self._clock = clock
        self.reasoning = reasoning
        self.verbose = verbose
        self.usage: str | None = None
        self.running = False
        self.started = 0.0
        self.model = ""
        self.used = 0
        self.window = 0
        self.waiting = 0
        self.tools: deque[ToolRun] = deque(maxlen=MAX_TOOLS)
        self.active: dict[str, ToolRun] = {}
        self.approvals: dict[str, ApprovalAsked] = {}
        self._shown = 0.0  # since when the oldest of them is on the screen
        self.progress = ""
        self._filter = StreamFilter()
        self._markdown = Markdown()
        self._thinking = ""
        self._opened = 0

    @property
    def live(self) -> str:
        """Return the text that is still being written."""
        if self._thinking and self.reasoning != "off" and not self._markdown.pending:
            return self._thinking
        return self._markdown.pending

    @property
    def doing(self) -> str:
        """Return what is going on, on one line."""
        if self.active:
            return ", ".join(f"{run.name} {summary(run.arguments)}".rstrip() for run in self.active.values())
        return self.progress or ("writing" if self._markdown.pending else "thinking")

    @property
    def answerable(self) -> bool:
        """Say whether a key answers the question on the screen. One pressed as it came up was meant for something else."""
        return bool(self.approvals) and self._clock() - self._shown >= HESITATION_SECONDS

    def answered(self) -> tuple[str, ApprovalAsked]:
        """Take the question on the screen away, with its id; the next one has its own moment to be read."""
        approval_id = next(iter(self.approvals))
        self._shown = self._clock()
        return approval_id, self.approvals.pop(approval_id)

    def take(self, event: RunEvent) -> list[Block]:
        """Take one event in and return what it prints."""
        match event:
            case RunStarted():
                self.running, self.started, self.model = True, self._clock(), event.model
                self.progress = ""
            case UserAccepted(steered=True):
                return [Block("note", "↳ steered")]
            case ModelCalled():
                self._begin()
            case TextDelta():
                return self._text(self._filter.feed(event.text))
            case ThinkingDelta():
                self._thinking += event.text
            case MessageEnded():
                return self._message(event)
            case ToolStarted():
                self.active[event.call_id] = ToolRun(event.call_id, event.name, event.arguments, self._clock())
            case ToolProgress():
                self.progress = single_line(event.text, 120)
            case ToolEnded():
                return self._tool(event)
            case _:
                return self._other(event)
        return []

    def _other(self, event: RunEvent) -> list[Block]:
        match event:
            case ApprovalAsked():
                if not self.approvals:
                    self._shown = self._clock()
                self.approvals[event.approval_id] = event
                return [Block("warning", f"? {event.title}\n{event.detail}".rstrip())]
            case CompactionStarted():
                self.progress = "compacting"
            case CompactionEnded():
                self.progress = ""
                done = f"🧹 compacted ~{event.tokens_before:,} → ~{event.tokens_after:,} tokens"
                return [Block("note", done if event.ok else f"🧹 not compacted: {event.reason}")]
            case ChildStarted():
                return [Block("note", f"⤷ sub-agent started: {event.name}")]
            case ChildEnded():
                return [Block("note", f"⤶ sub-agent {event.status}: {event.name}")]
            case Notice():
                return [Block("warning" if event.kind == "warning" else "note", event.text)]
            case RunEnded():
                return self._ended(event)
        return []

    def expand(self) -> Block | None:
        """Return the newest call that was not opened yet, whole; after the oldest it begins anew."""
        if not self.tools:
            return None
        self._opened = self._opened % len(self.tools) + 1
        return Block("detail", self.tools[-self._opened].detail)

    def _begin(self) -> None:
        """A new attempt begins: what an earlier one left unprinted is void."""
        self._filter, self._markdown, self._thinking = StreamFilter(), Markdown(), ""

    def _text(self, text: str) -> list[Block]:
        return [Block("markdown", block) for block in self._markdown.feed(text)]

    def _message(self, event: MessageEnded) -> list[Block]:
        rest, _ = self._filter.finish()
        blocks = (
            [Block("thinking", self._thinking.strip())] if self._thinking.strip() and self.reasoning == "on" else []
        )
        blocks += self._text(rest)
        blocks += [Block("markdown", block) for block in self._markdown.finish()]
        self.used = event.message.usage.total or self.used
        self._begin()
        return blocks

    def _tool(self, event: ToolEnded) -> list[Block]:
        result = event.result
        run = self.active.pop(result.call_id, None) or ToolRun(result.call_id, result.tool_name, {}, self._clock())
        run.output, run.failed, run.seconds = result.text, result.is_error, event.seconds
        self.tools.append(run)
        self._opened = 0
        self.progress = ""
        blocks = [Block("failed" if run.failed else "tool", run.line)]
        if self.verbose == "full" and run.output:
            blocks.append(Block("detail", run.output[:800]))
        elif run.failed:
            blocks.append(Block("detail", single_line(run.output, 200)))
        return blocks

    def _ended(self, event: RunEnded) -> list[Block]:
        self.running = False
        self.active.clear()
        self.approvals.clear()
        left = [Block("markdown", block) for block in self._markdown.finish()]
        self._begin()
        if event.status == "aborted":
            return [*left, Block("note", "■ stopped")]
        if event.status != "ok":
            left.append(Block("error", f"✗ {redacted(event.error or event.status)}"))
        line = footer(self.usage, event)
        return [*left, Block("note", line)] if line else left


def summary(arguments: dict[str, Any]) -> str:
    """Return what a call is about: its first telling argument, on one line."""
    for name in ("path", "command", "query", "url", "pattern", "file", "name", "text", "task"):
        if isinstance(arguments.get(name), str):
            return single_line(arguments[name], 60)
    first = next((value for value in arguments.values() if isinstance(value, str | int)), "")
    return single_line(str(first), 60)


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


_STYLES: dict[Kind, tuple[str, str]] = {
    "tool": ("⏺ ", "dim cyan"),
    "failed": ("⏺ ", "red"),
    "thinking": ("", "dim italic"),
    "note": ("", "dim"),
    "warning": ("", "yellow"),
    "error": ("", "bold red"),
    "user": ("› ", "bold"),
    "detail": ("  ", "dim"),
}


class Painter:
    """Turns blocks into text for one terminal. Without colours it is plain text of the same shape."""

    def __init__(self, *, color: bool) -> None:
        self.color = color

    def paint(self, block: Block, width: int) -> str:
        """Return a block ready to print, ending with a line break."""
        from rich.console import Console
        from rich.text import Text

        out = io.StringIO()
        console = Console(
            file=out,
            width=max(20, min(width, 120)),
            force_terminal=self.color,
            color_system="standard" if self.color else None,
            highlight=False,
            emoji=False,
            markup=False,
        )
        text = printable(block.text)
        if block.kind == "markdown":
            console.print(_markdown()(text, code_theme="ansi_dark", hyperlinks=False))
            return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n")) + "\n\n"
        lead, style = _STYLES[block.kind]
        lines = [f"{lead if number == 0 else ' ' * len(lead)}{line}" for number, line in enumerate(text.split("\n"))]
        console.print(Text("\n".join(lines), style=style if self.color else "", overflow="fold"))
        return out.getvalue()


@cache
def _markdown() -> type[RichMarkdown]:
    """Return rich's Markdown with headings at the left, where a chat's text stands."""
    from rich.markdown import Heading
    from rich.markdown import Markdown as RichMarkdown
    from rich.text import Text

    class LeftHeading(Heading):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            del console, options
            text: Text = self.text
            text.stylize("bold underline" if self.tag == "h1" else "bold")
            yield text

    class ChatMarkdown(RichMarkdown):
        elements: ClassVar = {**RichMarkdown.elements, "heading_open": LeftHeading}

    return ChatMarkdown
