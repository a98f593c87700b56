"""What a chat shows of a turn: events in, blocks to print and a live tail out. It knows no terminal.

Text is printed block by block, as soon as a paragraph, a list or a code block is complete; what is still being written
is the live tail. So what was printed is final, survives a resize, and can be scrolled and copied.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal

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
from homarus.core.messages import Assistant, Message, ToolResult, User
from homarus.core.patterns import late
from homarus.core.redact import redacted
from homarus.core.text import human_bytes, single_line
from homarus.delivery.sanitize import shape
from homarus.delivery.stream import StreamFilter
from homarus.queue.collect import message_id
from homarus.runtime.reply import REPLY, footer

MAX_TOOLS = 100
DIFF_LINES = 12  # of a change that are shown before somebody asks for more
PAST_TURNS = 3  # that are shown when a conversation goes on
HESITATION_SECONDS = 0.7  # what somebody types on with before they see that they were asked
SHOWN_OUTPUT = 6_000
PAST_LINES = 12
_ATTACHED = late(r'<file name="([^"\n]*)">\n.*?\n</file>', re.DOTALL)
_FENCE = late(r"^ {0,3}(`{3,}|~{3,})")

Kind = Literal["markdown", "tool", "failed", "thinking", "note", "warning", "error", "user", "detail", "diff"]


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
    code: int = 0  # with which a command ended
    seconds: float = 0.0
    # What it changed in a file, as a diff.
    diff: str = ""

    @property
    def line(self) -> str:
        """Return the call on one line."""
        size = f" · {human_bytes(len(self.output))}" if self.output else ""
        if self.diff:
            lines = self.diff.split("\n")
            size = f" · +{sum(line[:1] == '+' for line in lines)} −{sum(line[:1] == '-' for line in lines)}"
        code = f" · exit {self.code}" if self.code else ""
        return f"{self.name} {summary(self.arguments)}".rstrip() + f" · {_time(self.seconds)}{code}{size}"

    def folded(self, hint: str) -> str:
        """Return the beginning of the change, and how to see the rest."""
        lines = self.diff.split("\n")
        more = len(lines) - DIFF_LINES
        return "\n".join([*lines[:DIFF_LINES], f"… {more} more lines{hint}"] if more > 1 else lines)

    @property
    def detail(self) -> str:
        """Return the call with everything, within bounds."""
        if self.diff:
            return f"{self.name} {summary(self.arguments)}\n{self.diff}"
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
        self._streamed = False  # something of the message that is being written was shown
        self._unseen = (
            ""  # what goes on with a message whose beginning was written before anybody looked; it comes whole
        )
        self._told = False  # of a turn that began or ended since this session was entered
        self._manual = False  # a compaction that somebody asked for goes on
        self._opened = 0
        self.cost = 0.0
        self.label = ""
        # The ids of the messages that were typed here; those of others are shown as they are heard. None shows nobody's.
        self.own: set[str] | None = None

    def enter(self, asked: dict[str, ApprovalAsked]) -> None:
        """Begin anew in a session, with the questions that are open there. Nothing of another one stays."""
        self.own, self.approvals, self.progress = set(), asked, ""
        self.running = self._told = False
        self.active.clear()
        self.tools.clear()
        self._begin()
        self._unseen = "thinking"

    def join(self, seconds: float | None) -> None:
        """Take up that a turn has been running for so long, or that none runs; what was heard since knows better."""
        if self._told:
            return
        self.running = seconds is not None
        self.started = self._clock() - (seconds or 0.0)
        if not self.running:
            self.approvals.clear()

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
        return self.progress or self._unseen or ("writing" if self._markdown.pending else "thinking")

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
                self.progress, self._unseen, self._told = "", "", True
            case UserAccepted():
                return self._user(event)
            case ModelCalled():
                self._begin()
            case TextDelta() | ThinkingDelta() if self._unseen:
                self._unseen = "writing" if isinstance(event, TextDelta) else "thinking"
            case TextDelta():
                self._streamed = True
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
                self.progress, self._manual = "compacting", event.reason == "manual"
            case CompactionEnded():
                self.progress = ""
                if self._manual and not event.ok:
                    return []  # whoever asked for it is told
                done = f"🧹 compacted ~{event.tokens_before:,} → ~{event.tokens_after:,} tokens"
                return [Block("note", done if event.ok else f"🧹 not compacted: {event.reason}")]
            case ChildStarted():
                return [Block("note", f"⤷ sub-agent started: {event.name}")]
            case ChildEnded():
                return [Block("note", f"⤶ sub-agent {event.status}: {event.name}")]
            case Notice():
                kinds: dict[str, Kind] = {"warning": "warning", REPLY: "detail"}
                return [Block(kinds.get(event.kind, "note"), event.text)]
            case RunEnded():
                return self._ended(event)
        return []

    def expand(self) -> Block | None:
        """Return the newest call that was not opened yet, whole; after the oldest it begins anew."""
        if not self.tools:
            return None
        self._opened = self._opened % len(self.tools) + 1
        run = self.tools[-self._opened]
        return Block("diff" if run.diff else "detail", run.detail)

    def _user(self, event: UserAccepted) -> list[Block]:
        """Show what somebody else said here, as another terminal does; a report of a sub-agent is told already."""
        message = event.message
        other = self.own is not None and message_id(message.idempotency_key) not in self.own and not message.provenance
        blocks = [said_by_user(message.text)] if other else []
        return [*blocks, Block("note", "↳ steered")] if event.steered else blocks

    def _begin(self) -> None:
        """A new attempt begins: what an earlier one left unprinted is void."""
        self._filter, self._markdown, self._thinking = StreamFilter(), Markdown(), ""
        self._streamed, self._unseen = False, ""

    def _text(self, text: str) -> list[Block]:
        return [Block("markdown", block) for block in self._markdown.feed(text)]

    def _message(self, event: MessageEnded) -> list[Block]:
        # What another process wrote comes whole.
        rest = self._filter.finish() if self._streamed else shape(event.message.text).text
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
        run.diff = "" if run.failed else difference(run.arguments, result)
        run.code = (result.details or {}).get("exitCode") or 0
        self.tools.append(run)
        self._opened = 0
        self.progress = ""
        blocks = [Block("failed" if run.failed or run.code else "tool", run.line)]
        if run.diff:
            # Only a chat has keys.
            blocks.append(Block("diff", run.folded("" if self.own is None else " (Ctrl-O)")))
        elif self.verbose == "full" and run.output:
            blocks.append(Block("detail", run.output[:800]))
        elif run.failed:
            blocks.append(Block("detail", single_line(run.output, 200)))
        return blocks

    def _ended(self, event: RunEnded) -> list[Block]:
        self.running, self._told = False, True
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


def difference(arguments: dict[str, Any], result: ToolResult) -> str:
    """Return what a call changed in files, as a diff; nothing for one that changed none."""
    if result.tool_name == "edit":
        return result.text.partition("\n")[2].strip("\n")
    if result.tool_name == "apply_patch":
        lines = str(arguments.get("input") or arguments.get("patch") or "").strip().split("\n")
        return "\n".join(line for line in lines if not line.startswith(("*** Begin", "*** End")))
    if result.tool_name != "write":
        return ""
    details = result.details or {}
    if details.get("created"):
        return "\n".join(f"+{line}" for line in str(arguments.get("content", "")).rstrip("\n").split("\n"))
    return str(details.get("diff") or "")


def without_files(text: str) -> str:
    """Return a message as it was typed: of what was sent along with it, only the names."""
    return _ATTACHED.sub(lambda found: f"[{found[1]}]", text).strip()


def said_by_user(text: str) -> Block:
    """Return what somebody typed or pasted; of a long text only the beginning, for whoever sent it knows it."""
    lines = without_files(text).split("\n")
    more = len(lines) - PAST_LINES
    return Block("user", "\n".join([*lines[:PAST_LINES], f"… {more} more lines"] if more > 1 else lines))


def past(messages: Sequence[Message]) -> list[Block]:
    """Return the last turns of a conversation, each call on a line."""
    said = [at for at, each in enumerate(messages) if isinstance(each, User) and not each.provenance]
    blocks = []
    for message in messages[said[-PAST_TURNS] if len(said) > PAST_TURNS else 0 :] if said else ():
        match message:
            case User() if not message.provenance:
                blocks.append(said_by_user(message.text))
            case Assistant():
                text = shape(message.text).text
                blocks += [Block("markdown", text)] if text else []
                blocks += [Block("tool", f"{call.name} {summary(call.arguments)}".rstrip()) for call in message.calls]
                if message.error:
                    blocks.append(Block("note", f"✗ {redacted(single_line(message.error, 200))}"))
    return blocks


def summary(arguments: dict[str, Any]) -> str:
    """Return what a call is about: its first telling argument, on one line."""
    for name in ("path", "command", "query", "url", "pattern", "file", "name", "text", "task"):
        if isinstance(arguments.get(name), str):
            return single_line(arguments[name], 60)
    first = next((value for value in arguments.values() if isinstance(value, str | int)), "")
    return single_line(str(first), 60)


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
