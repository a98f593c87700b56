"""Run each workspace's BOOT.md once when the gateway starts. Running a turn is the gateway's work, passed in."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from homarus.core.errors import StorageError
from homarus.core.text import single_line
from homarus.hooks.events import HookEvent
from homarus.storage.boundary import Root

FILE = "BOOT.md"
_MAX_BYTES = 64_000

log = logging.getLogger("homarus.hooks.boot-md")


class RunTurn(Protocol):
    """Run one turn in a throw-away session. It must deliver nothing, and return when the turn has ended."""

    async def __call__(self, *, agent_id: str, workspace: Path, prompt: str) -> object: ...


async def handle(event: HookEvent) -> None:
    """Expect `run_turn` and `agents` ([{agentId, workspaceDir}]) in the context."""
    run_turn: RunTurn = event.context["run_turn"]
    for agent_id, workspace in _distinct(event):
        text = _boot_text(workspace)
        if not text:
            continue
        try:
            await run_turn(agent_id=agent_id, workspace=workspace, prompt=_prompt(text))
        except Exception as problem:  # noqa: BLE001 - one workspace must not keep the next one waiting
            log.warning("BOOT.md of %s failed: %s", agent_id, single_line(f"{type(problem).__name__}: {problem}"))


def _distinct(event: HookEvent) -> Iterator[tuple[str, Path]]:
    seen: set[Path] = set()
    for agent in event.context.get("agents", []):
        workspace = Path(agent["workspaceDir"])
        real = workspace.resolve()
        if real not in seen:
            seen.add(real)
            yield agent["agentId"], workspace


def _boot_text(workspace: Path) -> str:
    try:
        with Root(workspace) as root:
            found = root.read(FILE, max_bytes=_MAX_BYTES)
    except StorageError as problem:
        log.warning("no BOOT.md could be looked for: %s", problem)
        return ""
    if found.kind in {"validation", "io"}:
        log.warning("%s/%s is not run: %s", workspace, FILE, found.reason)
    if found.truncated:
        log.warning("%s/%s is longer than %d bytes; the rest is left out", workspace, FILE, _MAX_BYTES)
    return found.data.decode("utf-8", "replace").strip()


def _prompt(text: str) -> str:
    return (
        "The gateway has just started. Nobody is waiting for an answer, and your reply is shown to nobody: to reach "
        "a person, send a message with the tool for that. Do what your BOOT.md asks, then reply NO_REPLY.\n\n"
        f"BOOT.md:\n\n{text}"
    )
