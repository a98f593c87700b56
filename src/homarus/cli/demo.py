"""`homarus demo`: a short conversation in a throw-away home, to see what this is. No key, no network, no question."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import click

from homarus.cli.app import App
from homarus.cli.options import pass_app
from homarus.core.events import RunEnded, ToolEnded, ToolStarted
from homarus.delivery.sanitize import shape
from homarus.runtime.library import Agent

LINES = (
    "Remember that the spare key hangs behind the barometer.",
    "Note that Ann's train arrives on Friday at 18:40.",
    "Where is the spare key?",
    "When does Ann arrive?",
    "list files",
    "what can you do?",
)

SERVED = "Where is the spare key?"


@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep the throw-away home and say where it is.")
@pass_app
def command(app: App, keep: bool) -> int:
    """Hold a short conversation with the built-in offline model, in a home that is thrown away afterwards.

    It is told something, looks it up later with a citation, and uses tools: the real loop, real files, a real index.
    Then the same home is served on a free port of this machine and asked as OpenAI's clients do.
    """
    folder = Path(tempfile.mkdtemp(prefix="homarus-demo-"))
    try:
        return asyncio.run(_talk(app, folder, keep=keep))
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


async def _talk(app: App, folder: Path, *, keep: bool) -> int:
    out = app.out
    env = {"HOME": str(folder), "PATH": app.env.get("PATH", "/usr/bin:/bin"), "LANG": app.env.get("LANG", "C.UTF-8")}
    out.line(out.style("A new home, and a conversation with the agent that lives in it.", "bold"))
    failed = False
    async with Agent.open(env=env) as agent:
        for line in LINES:
            out.line(f"\n{out.style('you', 'cyan', 'bold')}    {line}")
            async for event in agent.run(line, model="builtin/notebook"):
                if isinstance(event, ToolStarted):
                    given = ", ".join(f"{key}={value!r}" for key, value in event.arguments.items())
                    out.line(out.style(f"       · {event.name}({given})", "dim"))
                elif isinstance(event, ToolEnded) and event.result.is_error:
                    out.line(out.style(f"       ! {event.result.text}", "red"))
                    failed = True
                elif isinstance(event, RunEnded):
                    failed = failed or event.status != "ok"
                    text = shape(event.text).text or event.error
                    out.line("\n".join(_indented(text, out.style("agent", "green", "bold"))))
    failed = not await _serve(app, env) or failed
    state = folder / ".openclaw"
    transcript = max((state / "agents/main/sessions").glob("*.jsonl"), key=lambda path: path.stat().st_size)
    notes = sorted((state / "workspace/memory").glob("*.md"))
    out.line(f"\n{out.style('What is on disk now', 'bold')} (plain files, all of it)")
    for note in notes:
        out.line(f"\n  {note}")
        out.line("\n".join(out.style(f"    {text}", "dim") for text in note.read_text().strip().splitlines()))
    count = transcript.read_text().count("\n")
    out.line(f"\n  {transcript}")
    out.line(
        out.style(
            f"    {count} lines of JSON: every message, call and result, in the order in which they happened", "dim"
        )
    )
    out.line()
    out.line(
        f"Kept in {folder}."
        if keep
        else f"The home is thrown away now; --keep keeps it. Next: {app.program} onboard, then {app.program} chat."
    )
    return 1 if failed else 0


async def _serve(app: App, env: dict[str, str]) -> bool:
    """Put the same home on a free port of this machine, ask it as OpenAI's clients do, and end it again."""
    import secrets
    import socket

    from homarus.agent.home import Home
    from homarus.config.load import load_config
    from homarus.config.paths import resolve_paths
    from homarus.config.write import Operation, change
    from homarus.core.clock import SystemIds
    from homarus.gateway.live import Given
    from homarus.gateway.server import Gateway, serve
    from homarus.runtime.runtime import Runtime

    paths, token = resolve_paths(env), secrets.token_urlsafe(24)
    switch = ("gateway", "http", "endpoints", "chatCompletions", "enabled")
    model = Operation("set", ("agents", "defaults", "model", "primary"), "builtin/notebook")
    change(load_config(paths, env), env, [Operation("set", switch, True), model])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    up: asyncio.Future[Gateway] = asyncio.get_running_loop().create_future()
    runtime = Runtime(Home(load_config(paths, env), env, clock=app.clock, ids=SystemIds()))
    serving = asyncio.ensure_future(serve(runtime, Given(port=port, token=token), ready=up.set_result))
    begun: set[asyncio.Future[Any]] = {serving, up}
    await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        await serving
    address, out = f"http://127.0.0.1:{port}", app.out
    out.line(
        f"\n{out.style('The same home, served', 'bold')} at {address} ({app.program} gateway run does it for good)"
    )
    out.line(f"\n{out.style('curl', 'cyan', 'bold')}   {address}/v1/chat/completions  {SERVED}")
    answer = await asyncio.to_thread(_posted, f"{address}/v1/chat/completions", token)
    out.line("\n".join(_indented(answer, out.style("agent", "green", "bold"))))
    if await asyncio.to_thread(_has_page, address):
        out.line(f"       its page: {address}/")
    up.result().life.stop()
    await serving
    return "barometer" in answer


def _posted(address: str, token: str) -> str:
    """Return what an endpoint of this machine answers; no proxy has a part in that."""
    import json
    from urllib.request import ProxyHandler, Request, build_opener

    body = {"model": "openclaw", "messages": [{"role": "user", "content": SERVED}]}
    headers = {"Authorization": f"Bearer {token}"}
    request = Request(address, json.dumps(body).encode(), headers)  # noqa: S310 - an address that we made
    with build_opener(ProxyHandler({})).open(request, timeout=60) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def _has_page(address: str) -> bool:
    from urllib.error import URLError
    from urllib.request import ProxyHandler, build_opener

    try:
        with build_opener(ProxyHandler({})).open(f"{address}/", timeout=10) as answer:
            return bool(answer.status == 200)
    except URLError:
        return False


def _indented(text: str, name: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    shown = rest[:12]
    more = [f"       … {len(rest) - 12} more lines"] if len(rest) > 12 else []
    return [f"{name}  {first}", *(f"       {line}".rstrip() for line in shown), *more]
