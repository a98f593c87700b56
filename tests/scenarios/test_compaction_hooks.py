"""Hooks hear of every compaction, whatever caused it, and what they say reaches the person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.hooks.helpers import write_hook
from tests.models.servers import Answer, serving
from tests.scenarios.talker import Say, Talker, make_home, open_agent
from tests.scenarios.test_compaction import SMALL, WINDOW, is_flush, is_summary, last_user, summary_of

SPY = """
import json, pathlib

def handle(event):
    plain = {key: value for key, value in event.context.items() if isinstance(value, str | int | bool) or value is None}
    with pathlib.Path(event.context["workspaceDir"]).parent.joinpath("heard.jsonl").open("a") as file:
        file.write(json.dumps({"key": event.key, "session": event.session_key, **plain}) + "\\n")
"""
HANGS = "import time\n\ndef handle(event):\n    time.sleep(60)\n"
JSON = {"content-type": "application/json"}
TOO_LONG = b'{"error": {"message": "maximum context length is 20000 tokens", "code": "context_length_exceeded"}}'


class Talk:
    """A model that answers at length, summarises well unless told otherwise, and refuses once where that is asked for."""

    def __init__(self, *, refuse: bool = False, garbage: bool = False, broken: bool = False, tokens: int = 0) -> None:
        self.refuse, self.garbage, self.broken, self.tokens = refuse, garbage, broken, tokens

    def __call__(self, body: dict[str, Any], number: int) -> Say:
        if is_summary(body) and self.broken:
            return Say(answer=Answer([b'{"error": {"message": "no"}}'], 403, JSON, chunked=False))
        if is_summary(body):
            return Say("lorem ipsum " * 40) if self.garbage else Say(summary_of(last_user(body)))
        if is_flush(body):
            return Say("NO_REPLY")
        if self.refuse and "refuse" in last_user(body):
            self.refuse = False
            return Say(answer=Answer([TOO_LONG], 400, JSON, chunked=False))
        return Say(f"Chapter {number}. " * 500, tokens=self.tokens)


def home(folder: Path, url: str) -> dict[str, str]:
    """Make a home with the bundled notifier, a hook that writes down what it hears, and one that never comes back."""
    env = make_home(folder, url, window=WINDOW, compaction=SMALL)
    hooks = folder / ".openclaw" / "hooks"
    write_hook(hooks, "spy", metadata='openclaw: {"events": ["session:compact"]}', code=SPY)
    hang = 'openclaw: {"events": ["session:compact:before"], "timeout": 0.02}'
    write_hook(hooks, "hangs", metadata=hang, code=HANGS)
    path = folder / ".openclaw" / "openclaw.json"
    names = ("spy", "hangs", "compaction-notifier")
    document = {**json.loads(path.read_text()), "hooks": {"internal": {"entries": {name: {} for name in names}}}}
    path.write_text(json.dumps(document))
    return env


def heard(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / ".openclaw" / "heard.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("cause", ["threshold", "overflow", "manual"])
async def test_every_compaction_is_told_before_and_after(tmp_path: Path, cause: str) -> None:
    talk = Talk(refuse=cause == "overflow")
    async with serving(server=Talker(talk)) as server:
        agent = open_agent(home(tmp_path, server.url))
        for turn in range(6):
            assert (await agent.ask(f"Please write chapter {turn}.")).ok
        if cause == "threshold":
            talk.tokens = WINDOW - 1_000
            await agent.ask("One more.")
        reply = await agent.ask("/compact" if cause == "manual" else "refuse me once")
        session_id = agent.client.runtime.home.store("main").find(agent.key).entry.session_id
        await agent.aclose()
    before, after = heard(tmp_path)[:2]
    facts = {"reason": cause, "session": "agent:main:main", "agentId": "main", "sessionId": session_id}
    assert before.items() >= {"key": "session:compact:before", **facts}.items()
    assert after.items() >= {"key": "session:compact:after", "ok": True, "problem": "", **facts}.items()
    assert before["messageCount"] >= 12
    assert 0 < after["tokensAfter"] < after["tokensBefore"]
    assert after["summaryLength"] > 50
    assert "One moment: older messages are being summarised." in reply.text
    assert "Summarised: " in reply.text


async def test_a_compaction_that_fails_says_so_to_the_hooks_too(tmp_path: Path) -> None:
    async with serving(server=Talker(Talk(broken=True))) as server:
        agent = open_agent(home(tmp_path, server.url))
        for turn in range(3):
            await agent.ask(f"Please write chapter {turn}.")
        reply = await agent.ask("/compact")
        await agent.aclose()
    before, after = heard(tmp_path)
    assert (before["key"], after["key"], after["ok"]) == ("session:compact:before", "session:compact:after", False)
    assert "the summary failed" in after["problem"]
    assert "the conversation stays as it was" in reply.text


async def test_an_order_to_compact_is_obeyed_also_where_the_model_gives_no_summary_that_would_do(
    tmp_path: Path,
) -> None:
    async with serving(server=Talker(Talk(garbage=True))) as server:
        agent = open_agent(home(tmp_path, server.url))
        for turn in range(3):
            await agent.ask(f"Please write chapter {turn}.")
        reply = await agent.ask("/compact")
        await agent.aclose()
    _, failed, _, done = heard(tmp_path)
    assert (failed["ok"], done["ok"]) == (False, True)
    assert "no summary that would do" in failed["problem"]
    assert "Compacted: ~" in reply.text and "in your own words" in reply.text
    (log,) = (tmp_path / ".openclaw/agents/main/sessions").glob("*.jsonl")
    (summary,) = [line for line in log.read_text().splitlines() if json.loads(line)["type"] == "compaction"]
    assert "Please write chapter 0." in json.loads(summary)["summary"], "what the person said is there"
