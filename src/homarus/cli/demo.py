"""`homarus demo`: a short conversation in a throw-away home, to see what this is. No key, no network, no question."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

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


@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep the throw-away home and say where it is.")
@pass_app
def command(app: App, keep: bool) -> int:
    """Hold a short conversation with the built-in offline model, in a home that is thrown away afterwards.

    It is told something, looks it up later with a citation, and uses tools: the real loop, real files, a real index.
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
    state = folder / ".openclaw"
    transcript = next(iter(sorted((state / "agents/main/sessions").glob("*.jsonl"))))
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


def _indented(text: str, name: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    shown = rest[:12]
    more = [f"       … {len(rest) - 12} more lines"] if len(rest) > 12 else []
    return [f"{name}  {first}", *(f"       {line}".rstrip() for line in shown), *more]
