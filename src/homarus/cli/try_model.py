"""One real call of a model, to see whether it answers: what `homarus models test` shows, and what onboarding asks for first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from homarus.cli.output import Output
from homarus.core.cancel import Cancel
from homarus.core.clock import epoch_ms
from homarus.core.events import TextDelta
from homarus.core.messages import Text, User
from homarus.core.prompt import SystemPrompt
from homarus.models.access import Models
from homarus.models.provider import ModelRequest, Stop
from homarus.models.rotation import Credential
from homarus.models.select import Chain, Override

if TYPE_CHECKING:
    from homarus.config.view import AgentConfig

RETRY_SECONDS = 1.0  # no pause before another attempt is shorter, so that a test makes none


async def try_model(
    models: Models, agent: AgentConfig, model: str | None, seconds: float, *, key: str = ""
) -> dict[str, Any]:
    """Ask one model one question and return what happened; a `key` is used alone, once, and not stored.

    Nothing is tried again, but with another key: what a test is to show is what the server says.
    """
    chain = await models.chain(agent, override=Override(model) if model else None)
    only = Chain(chain.models[:1], chain.source, strict=True)
    request = ModelRequest(
        only.primary.model, SystemPrompt("Greet back in one word."), (User((Text("Hello"),)),), max_tokens=256
    )
    clock, cancel = models.registry.clock, Cancel()
    started, first = clock.monotonic(), None
    late = f"no answer within {seconds:g} s"
    timer = asyncio.get_running_loop().call_later(seconds, cancel.cancel, late)
    stop: Stop | None = None
    stream: AsyncIterator[object]
    if key:
        typed = Credential("typed", only.primary.provider, "api_key", key)
        stream = models.registry.provider(only.primary, typed).stream(request, cancel=cancel)
    else:
        stream = models.client(agent).stream(request, only, cancel=cancel, deadline=started + RETRY_SECONDS)
    async for event in stream:
        if isinstance(event, TextDelta) and first is None:
            first = clock.monotonic() - started
        elif isinstance(event, Stop):
            stop = event
    timer.cancel()
    await models.aclose()
    assert stop is not None, "a stream ends with one Stop"
    usage, error = stop.message.usage, stop.error
    if error is not None and error.message == late:
        models.calls.write(only.primary.key, late, epoch_ms(clock.now()))
    return {
        "model": only.primary.key,
        "ok": error is None,
        "reply": stop.message.text.strip(),
        "firstTokenSeconds": round(first, 3) if first is not None else None,
        "seconds": round(clock.monotonic() - started, 3),
        "tokens": {"input": usage.input, "output": usage.output, "cacheRead": usage.cache_read},
        "cost": round(usage.cost.total, 6),
        "kind": error.kind.value if error else "",
        "error": error.message if error else "",
        "cure": error.cure if error else "",
    }


def show_test(out: Output, report: dict[str, Any]) -> None:
    """Print the outcome of a test; its failure is the command's own."""
    if not report["ok"]:
        return
    first = f", first word after {report['firstTokenSeconds']:.2f} s" if report["firstTokenSeconds"] is not None else ""
    money = f", {report['cost']:.6f} $" if report["cost"] else ""
    tokens = report["tokens"]
    out.line(f"{report['model']} answered “{report['reply'][:80]}” in {report['seconds']:.2f} s{first}.")
    out.line(f"  {tokens['input'] + tokens['cacheRead']} tokens in, {tokens['output']} out{money}")
