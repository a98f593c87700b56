"""A model server on loopback that answers each request by a rule, and a home that talks to it through a real adapter."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.models.servers import (
    Answer,
    Seen,
    Server,
    choice,
    data,
    finish,
    named,
    openai_call,
    openai_tail,
    tool_use,
    words,
)

from homarus.config.paths import resolve_paths
from homarus.core.clock import Clock
from homarus.runtime.library import Agent
from homarus.runtime.local import LocalClient
from homarus.runtime.runtime import Runtime

OPENAI, ANTHROPIC = "openai-completions", "anthropic-messages"


class Say(Struct, frozen=True):
    """What the model answers: words, and calls as (name, arguments)."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    tokens: int = 0
    answer: Answer | None = None


Rule = Callable[[dict[str, Any], int], Say]


class Talker(Server):
    """Answers by a rule that sees the parsed request and its number; every request is kept as it came."""

    def __init__(self, rule: Rule, dialect: str = OPENAI) -> None:
        super().__init__()
        self.rule = rule
        self.dialect = dialect

    def choose(self, seen: Seen) -> Answer:
        number = len(self.seen) - 1
        say = self.rule(seen.body, number)
        if say.answer is not None:
            return say.answer
        tokens = say.tokens or len(seen.raw) // 4
        speak = _openai if self.dialect == OPENAI else _anthropic
        return Answer(speak(say, number, tokens))


def _openai(say: Say, number: int, tokens: int) -> list[bytes]:
    events = [choice({"role": "assistant", "content": say.text})]
    for index, (name, arguments) in enumerate(say.calls):
        events += openai_call(index, f"call_{number}_{index}", name, [json.dumps(arguments)])
    end, usage = openai_tail("tool_calls" if say.calls else "stop")
    counted = {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}
    return [b"".join(data(*events, end, {**usage, "usage": counted}))]


def _anthropic(say: Say, number: int, tokens: int) -> list[bytes]:
    usage = {"input_tokens": tokens, "output_tokens": 1}
    start = {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}}
    events = words(0, say.text) if say.text else []
    for index, (name, arguments) in enumerate(say.calls, bool(say.text)):
        events += tool_use(index, f"call_{number}_{index}", name, json.dumps(arguments))
    return [b"".join(named(start, *events, *finish("tool_use" if say.calls else "end_turn")))]


def make_home(folder: Path, url: str, *, dialect: str = OPENAI, window: int = 200_000, **agent: Any) -> dict[str, str]:
    """Write the configuration of a home whose one model is the server, and return the environment that names it."""
    state = folder / ".openclaw"
    state.mkdir(parents=True, exist_ok=True)
    models = [{"id": "loop", "contextWindow": window, "maxTokens": 4096}]
    provider = {"baseUrl": url, "api": dialect, "apiKey": "sk-test", "models": models}
    config = {
        "models": {"providers": {"mock": provider}},
        "agents": {"defaults": {"model": {"primary": "mock/loop"}, **agent}},
    }
    (state / "openclaw.json").write_text(json.dumps(config))
    return {"HOME": str(folder), "PATH": os.environ["PATH"], "TZ": "UTC"}


def open_agent(env: dict[str, str], *, clock: Clock | None = None, session: str = "main") -> Agent:
    """Open the home in this process, as a restart would."""
    runtime = Runtime.open(resolve_paths(env), env, clock=clock)
    return Agent(LocalClient(runtime), runtime.home.store("main").key(session))
