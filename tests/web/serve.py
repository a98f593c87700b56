"""A home with notes, conversations and a model that does what it is told to, served for a browser: `python -m tests.web.serve FOLDER [plain]`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from tests.gateway.served import served
from tests.scenarios.home import House, last_user

from homarus.core.cancel import Cancel
from homarus.core.clock import SystemClock, SystemIds, epoch_ms
from homarus.core.errors import Cancelled, ModelError, ModelFailure
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.messages import Assistant, Cost, Part, StopReason, Text, Thinking, ToolCall, ToolResult, Usage, User
from homarus.gateway.devices import Pending
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.sessions.store import SessionStore
from homarus.tools.approval import Book, Rule, approvals_path

ANSWER = """## A plan

Here is **what** I found, with `code` and a [link](https://example.org/):

1. First, look at the *notes* (memory/2026-05-01.md#L3).
2. Then run the tests.

```python
def fib(n: int) -> int:
    "Return the n-th number."
    return n if n < 2 else fib(n - 1) + fib(n - 2)  # slow on purpose
```

| name | value |
|:-----|------:|
| pi   | 3.14  |

- [x] done
- [ ] open
"""
HOSTILE = (
    "<script>window.pwned=1</script><img src=x onerror='window.pwned=2'><svg onload=window.pwned=3></svg>\n\n"
    "[click](javascript:window.pwned=4) [data](data:text/html,<script>window.pwned=5</script>) "
    "![p](https://evil.example/pixel.png) <iframe srcdoc='<script>parent.pwned=6</script>'></iframe>\n\n"
    "```html\n<script>window.pwned=7</script>\n```\n\n<style>.question{display:none}</style>\n"
)
COMMAND = "echo 'safe' # \u202etxt.exe <script>window.pwned=8</script>"
ODD = "<img src=x onerror=window.pwned={}><svg onload=window.pwned={}>"
# Commands that would like to look like others: with signs that have no shape, lines that stand far below, marks of a
# terminal, letters that only look alike, and markup that would draw another card.
COMMANDS = (
    COMMAND,
    "echo safe" + "\n" * 40 + "touch below",
    "echo " + "x" * 3_000 + "; touch far",
    "echo \u200b\u2066hidden\u2069 \u00adsoft\x1b[2K\rsafe\x08\x7f",
    "echo '</pre></section><button class=primary>Yes, once</button><style>.exact{display:none}</style><!--'",
    "\u0435cho \u0455afe \U000e0041\U000e0042 \u3164\u2800 \u115f",
    "echo '<U+202E>' # what looks like our own mark",
)


class PageModel:
    """Answers by the first word of the newest message: stream, think, tool, look, approve, run, hostile, hang, crawl; anything else is repeated."""

    def __init__(self) -> None:
        self.calls = 0

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        self.calls += 1
        said = last_user(request.messages)
        word = said.split()[0].lower() if said.split() else ""
        done = isinstance(request.messages[-1], ToolResult)
        calls: dict[str, ToolCall] = {
            "tool": ToolCall(
                f"t{self.calls}", "write", {"path": "plan.txt", "content": f"step {self.calls}\n<b>bold</b>\n"}
            ),
            "slow": ToolCall(f"s{self.calls}", "write", {"path": "slow.txt", "content": "done\n"}),
            "approve": ToolCall(f"a{self.calls}", "exec", {"command": COMMAND}),
            "look": ToolCall(f"l{self.calls}", "read", {"path": "odd.svg"}),
        }
        if word == "run":
            calls["run"] = ToolCall(f"r{self.calls}", "exec", {"command": COMMANDS[int(said.split()[1])]})
        text = {"stream": ANSWER, "hostile": HOSTILE, "crawl": ANSWER}.get(word, f"You said: {said}")
        parts: list[Part] = []
        if word == "think":
            yield ThinkingDelta("First I weigh *both* sides.")
            parts.append(Thinking("First I weigh *both* sides."))
        if word in calls and not done:
            text = "I need a tool."
        try:
            with cancel.interrupting():
                for at in range(0, len(text), 24):
                    yield TextDelta(text[at : at + 24])
                    await asyncio.sleep({"stream": 0.01, "hang": 0.01, "slow": 1.5, "crawl": 0.2}.get(word, 0))
                if word == "hang" and not done:
                    await asyncio.sleep(600)
        except Cancelled:
            stopped = Assistant((Text(text),), stop_reason=StopReason.ABORTED)
            yield Stop(stopped, ModelError(ModelFailure.ABORTED, "stopped"))
            return
        parts.append(Text(text))
        usage = Usage(input=900, output=120, cache_read=2_000, cost=Cost(input=0.002, output=0.001))
        reason = StopReason.STOP
        if word in calls and not done:
            parts.append(calls[word])
            reason = StopReason.TOOL_USE
        yield Stop(Assistant(tuple(parts), usage=usage, stop_reason=reason, provider="script", model="model"))


# A talk as people have them, for the picture in the README: what is said, the call, and the answer.
TALK = {
    "When is the dentist, and is the weekend free?": (
        ToolCall("d1", "read", {"path": "memory/2026-05-01.md"}),
        (
            "The dentist is on **Friday, 8 May, at ten** (memory/2026-05-01.md#L3). The weekend looks like this:\n\n"
            "| day | what |\n|:--|:--|\n| Saturday | free |\n| Sunday | lunch with Ben at one |\n"
        ),
    ),
    "How long until then? Show me how you count.": (
        ToolCall("d2", "exec", {"command": "date -d 2026-05-08 +%A"}),
        (
            "Seven days:\n\n```python\nfrom datetime import date\n\nleft = date(2026, 5, 8) - date(2026, 5, 1)\n"
            'print(f"{left.days} days until the dentist")\n```\n\nShall I remind you the evening before?'
        ),
    ),
}


class TalkModel:
    """Says its part of a talk."""

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        call, text = next(part for said, part in TALK.items() if said in last_user(request.messages))
        done = isinstance(request.messages[-1], ToolResult)
        shown: tuple[Part, ...] = (Text(text),) if done else (call,)
        if done:
            yield TextDelta(text)
        usage = Usage(input=900, output=120, cache_read=2_000, cost=Cost(input=0.002, output=0.001))
        reason = StopReason.STOP if done else StopReason.TOOL_USE
        yield Stop(Assistant(shown, usage=usage, stop_reason=reason, provider="script", model="model"))


def plain(folder: Path) -> House:
    """Return a home in which nobody means harm."""
    tools = {"exec": {"mode": "full"}}
    defaults = {"memorySearch": {"provider": "none"}, "sandbox": {"mode": "off"}, "skipBootstrap": True}
    house = House(folder, config={"agents": {"defaults": defaults}, "tools": tools})
    house.model = TalkModel()  # type: ignore[assignment]
    (house.workspace / "memory").mkdir(parents=True)
    note = "# Friday\n\nThe dentist is on 8 May at ten.\nBen comes for lunch on Sunday at one.\n"
    (house.workspace / "memory/2026-05-01.md").write_text(note)
    store = SessionStore(
        house.state / "agents/main/sessions", "main", clock=SystemClock(), ids=SystemIds(), main_key="main"
    )
    for label in ("The garden in spring", "Letter to the landlord", "Porto in June"):
        with store.open_writer(key := store.key(f"agent:main:explicit:{label.split()[-1].lower()}")) as writer:
            writer.append_message(User((Text(label),)))
        store.update(key, label=label)
    return house


def furnish(folder: Path) -> House:
    """Put into a home what the views show, and foreign words wherever views show some."""
    odd = {"id": "m", "name": ODD.format(22, 23), "contextWindow": 8_000}
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "apiKey": "x", "models": [odd]}
    config = {
        "agents": {"defaults": {"memorySearch": {"provider": "none"}, "sandbox": {"mode": "off"}}},
        "models": {"providers": {"odd": provider}},
        "skills": {"install": {"allowUploadedArchives": True}},
    }
    known = (folder / ".openclaw/openclaw.json").exists()
    house = House(folder, config=config)
    house.model = PageModel()  # type: ignore[assignment]
    if not known:
        _fill(house)
    return house


def _fill(house: House) -> None:
    notes = house.workspace / "memory"
    notes.mkdir(parents=True)
    (house.workspace / "MEMORY.md").write_text("# Memory\n\nAnna lives in Lisbon.\n")
    lines = "\n".join(f"- O(c=0.{6 + at}) @Anna: Prefers tea to coffee on day {at}." for at in range(3))
    (notes / "2026-05-01.md").write_text(
        f"# Friday\n\nThe dentist is on 8 May at ten.\n\n## Retain\n{lines}\n- W @Anna @Ben: Anna and Ben are married.\n"
    )
    (notes / "2026-05-02.md").write_text(
        "# Saturday\n\n## Retain\n- O @Anna: Prefers coffee to tea.\n- O(c=0.9) @Anna: Prefers tea to coffee on day 0.\n- B @Ben: Went to Porto with Anna.\n"
    )
    (notes / f"{ODD.format(24, 25)}.md").write_text(f"# {ODD.format(26, 27)}\n\nThe {ODD.format(28, 29)} is odd.\n")
    (house.workspace / "odd.svg").write_text(
        f"<svg onload=window.pwned=30><script>window.pwned=31</script></svg>\n{HOSTILE}"
    )
    house.skill("odd", description=f"'{ODD.format(32, 33)}'")
    (house.state / "logs").mkdir()
    line = {"time": "2026-05-01T08:00:00.000Z", "level": "error", "logger": "x", "message": ODD.format(34, 35)}
    (house.state / "logs/gateway.log").write_text(json.dumps(line) + "\n")
    now = epoch_ms(SystemClock().now())
    rule = Rule("r1", "exec", "ls <img src=x onerror=window.pwned=13>", "main", now, now)
    approvals_path(house.state).parent.mkdir(parents=True)
    approvals_path(house.state).write_bytes(msgspec.json.encode(Book(rules=(rule,))))
    store = SessionStore(
        house.state / "agents/main/sessions", "main", clock=SystemClock(), ids=SystemIds(), main_key="main"
    )
    with store.open_writer(store.key("agent:main:explicit:long")) as writer:
        for number in range(2_500):
            writer.append_message(User((Text(f"question {number}"),)), durable=False)
            writer.append_message(
                Assistant((Text(f"answer **{number}** with some words\n\n- one\n- two"),), provider="script"),
                durable=False,
            )
    store.update(store.key("agent:main:explicit:long"), label="A long talk")
    with store.open_writer(store.key("agent:main:explicit:odd")) as writer:
        writer.append_message(User((Text("hostile <img src=x onerror='window.pwned=9'>"),)))
        writer.append_message(Assistant((Text(HOSTILE),), provider="script"))
    store.update(store.key("agent:main:explicit:odd"), label="<img src=x onerror='window.pwned=10'>")
    with store.open_writer(store.key("agent:main:explicit:summed")) as writer:
        for number in range(300):
            said = writer.append_message(User((Text(f"early word {number}"),)), durable=False)
            writer.append_message(Assistant((Text(f"early answer {number}"),), provider="script"), durable=False)
        writer.compact("What was said before, in short.", said.id, 9_000)


async def main(folder: Path, kind: str) -> None:
    house = plain(folder) if kind == "plain" else furnish(folder)
    async with served(house, unix=True) as home:
        names = {"display_name": ODD.format(36, 37), "platform": "linux", "client_id": "node-host"}
        for role in () if kind == "plain" else ("node", "operator"):
            wish = Pending("", f"{role}-1", "key", (), "", 0, role=role, **names)
            home.gateway.devices.pair(wish, frozenset(), "test")
        home.gateway.port = home.port
        sys.stdout.write(json.dumps({"port": home.port}) + "\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:] or [""]))
