"""exec and process: run commands inside the turn's sandbox, and look after those that go on.

A command on the host runs only if the gate has granted exactly this plan to exactly this call.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from homarus.core.errors import Denied, ToolError
from homarus.core.patterns import late
from homarus.core.text import human_bytes
from homarus.core.tools import Risk
from homarus.sandbox.claims import Claim
from homarus.tools.processes import ProcessManager, Running
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said, spec

MAX_YIELD_MS, MAX_POLL_MS = 120_000, 30_000
LOG_LINES = 200
# How long a command may take to read what it is given.
GIVE_SECONDS = 10.0
_CLOSED_GIT = late(r"\.git/.*(?:Read-only file system|Permission denied)")
_ALONE = "(Only git itself writes into a repository: run git add, commit and the like alone, joined by && and without expansions.)"
_NOT_NOW = "(This turn follows words that are not the owner's: it changes no repository.)"

EXEC = spec("exec")
PROCESS = spec("process")
MAX_GRANTS = 1_000


class Granted:
    """What the gate has let through and nobody has used yet: one call, one plan, once."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, Claim]] = {}

    def give(self, call_id: str, digest: str, held: Claim) -> None:
        """Let one call run one plan; `held` keeps others from changing what it uses, until it has ended."""
        if len(self._open) >= MAX_GRANTS:
            self._open.pop(next(iter(self._open)))[1].release()
        self._open[call_id] = (digest, held)

    def drop(self, call_id: str) -> None:
        self._open.pop(call_id, ("", Claim()))[1].release()

    def take(self, call_id: str, digest: str) -> Claim:
        """Use the grant up; raises when there is none or when what would run is not what was granted."""
        granted, held = self._open.pop(call_id, ("", Claim()))
        if granted != digest:
            held.release()
            raise Denied("what would run is not what was approved", cure="call exec again to ask anew")
        return held


def exec_tools(manager: ProcessManager, grants: Granted, outer: Mapping[str, str]) -> list[Tool]:
    """Return exec and process; `outer` is our own environment, of which only allowed names pass."""
    kit = _Kit(manager, grants, outer)
    aliases = {"cmd": "command", "cwd": "workdir", "timeoutSeconds": "timeout", "timeout_sec": "timeout"}
    session = {"session_id": "sessionId", "id": "sessionId", "text": "data", "input": "data"}
    return [
        Tool(spec=EXEC, risk=Risk.EXEC, run=kit.exec, group="runtime", aliases=aliases),
        Tool(spec=PROCESS, risk=Risk.EXEC, run=kit.process, group="runtime", aliases=session),
    ]


class _Kit:
    def __init__(self, manager: ProcessManager, grants: Granted, outer: Mapping[str, str]) -> None:
        self._manager = manager
        self._grants = grants
        self._outer = outer

    async def exec(self, context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        from homarus.tools.command import make_plan

        try:
            plan = make_plan(context, arguments, self._outer)
        except BaseException:
            self._grants.drop(context.call_id)
            raise
        held = self._grants.take(context.call_id, plan.digest) if plan.on_host else Claim()
        background = arguments.get("background", False) and context.background
        tty = arguments.get("pty", False)
        settings = self._manager.settings(context.agent_id)
        seconds = float(arguments.get("timeout", settings.timeout_seconds))
        item = await self._manager.start(plan, context, held, tty=tty, stdin=background or tty, seconds=seconds)
        wait = 0.0 if background else min(arguments.get("yieldMs", settings.background_ms), MAX_YIELD_MS) / 1000
        try:
            with context.cancel.interrupting():
                async with asyncio.timeout(wait if context.background else None):
                    await item.done.wait()
        except TimeoutError:
            item.background = True
            _note(context, item)
            return self._still(item)
        except BaseException:
            await self._manager.kill(item, "it was stopped")
            self._manager.drop(item)
            raise
        self._manager.drop(item)
        _note(context, item)
        return self._finished(item)

    def _still(self, item: Running) -> ToolOutput:
        text = item.pending.drain()[-4_000:]
        note = f"Still running as {item.id}; use process to poll it, to give it input or to end it."
        return said(f"{text}\n\n{note}" if text else note, status="running", sessionId=item.id, cwd=item.plan.cwd)

    def _finished(self, item: Running) -> ToolOutput:
        text = "\n".join(part for part in (item.output.text().rstrip("\n"), item.ending, _hint(item)) if part)
        details = self._details(item)
        return said(text or "(no output)", **details)

    def _details(self, item: Running) -> dict[str, Any]:
        return {
            "status": item.status,
            "exitCode": item.exit.code if item.exit else None,
            "durationMs": int(((item.ended_at or 0) - item.started) * 1000),
            "cwd": item.plan.cwd,
            "sandbox": item.plan.spec.backend.value,
            **({"timedOut": True} if "longer than" in item.stopped else {}),
        }

    async def process(self, context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        action = arguments["action"]
        if action == "list":
            return self._list(context)
        if not arguments.get("sessionId"):
            raise ToolError(f"process {action} needs sessionId", cure="see the ids with action list")
        item = self._manager.find(context.agent_id, arguments["sessionId"])
        if _is_wider(item, context):
            raise Denied(f"{item.id} may do more than this session", cure="start a command of your own")
        match action:
            case "poll":
                _note(context, item)
                return await self._poll(context, item, min(arguments.get("timeout", 0), MAX_POLL_MS) / 1000)
            case "log":
                _note(context, item)
                return _log(item, arguments.get("offset"), arguments.get("limit", LOG_LINES))
            case "kill":
                await self._manager.kill(item, "it was killed")
                return said(f"{item.id} has ended. {item.ending}".strip(), status=item.status)
            case "clear":
                item.output.drain()
                item.pending.drain()
                return said(f"The output of {item.id} so far is forgotten.")
            case "remove":
                await self._manager.kill(item, "it was removed")
                self._manager.drop(item)
                return said(f"{item.id} is gone.")
            case _:
                asked = item.plan.on_host or item.plan.spec.network  # by the gate, for each input
                if context.restricted and not item.plan.spec.locked and not asked:
                    raise Denied(
                        f"{item.id} was started before untrusted text was read, and takes no more input from this turn",
                        cure="start a new command",
                    )
                with context.cancel.interrupting():
                    return await _give(item, action, arguments)

    def _list(self, context: ToolContext) -> ToolOutput:
        items = [item for item in self._manager.listed(context.agent_id) if not _is_wider(item, context)]
        if not items:
            return said("No command is running or has just ended.", count=0)
        lines = [
            f"{item.id} {item.status} pid {item.child.pid} {human_bytes(item.printed)}: {item.plan.command[:120]}"
            for item in items
        ]
        return said("\n".join(lines), count=len(items))

    async def _poll(self, context: ToolContext, item: Running, seconds: float) -> ToolOutput:
        text = item.pending.drain()
        if not text and item.exit is None and seconds:
            item.fresh.clear()
            with context.cancel.interrupting(), contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await item.fresh.wait()
            text = item.pending.drain()
        state = item.ending or ("(still running)" if item.exit is None else "(ended with code 0)")
        return said(f"{text.rstrip()}\n{state}".lstrip(), **self._details(item))


def _note(context: ToolContext, item: Running) -> None:
    """Note that a turn may read what strangers wrote: what a command with a network, or on the host, brings in, nobody can tell."""
    if item.plan.spec.network or item.plan.on_host:
        context.taint.add("exec")


def _hint(item: Running) -> str:
    failed = item.exit is not None and not item.exit.ok and item.plan.spec.enforced
    if not failed or not _CLOSED_GIT.search(item.output.text()):
        return ""
    return _NOT_NOW if item.plan.spec.locked else _ALONE


def _is_wider(item: Running, context: ToolContext) -> bool:
    """Say whether a command of another session sees or does more than this one may: then it is none of its business."""
    return item.session != str(context.session) and not context.sandbox.contains(item.plan.spec)


async def _give(item: Running, action: str, arguments: dict[str, Any]) -> ToolOutput:
    if item.exit is not None:
        raise ToolError(f"{item.id} has ended", cure="read its output with action log")
    from homarus.tools.terminal_keys import encode_keys, paste

    data = arguments.get("data", "")
    match action:
        case "send-keys":
            sent = encode_keys(arguments.get("keys") or ([data] if data else []))
        case "submit":
            sent = data.encode() + (b"\r" if item.child.is_terminal else b"\n")
        case "paste":
            sent = paste(data) if item.child.is_terminal else data.encode()
        case _:
            sent = data.encode("utf-8", "surrogateescape")
    if not sent and not arguments.get("eof"):
        raise ToolError(f"process {action} has nothing to send", cure="give data, keys or eof")
    try:
        async with asyncio.timeout(GIVE_SECONDS):
            await item.child.write(sent, eof=arguments.get("eof", False))
    except TimeoutError:
        raise ToolError(f"{item.id} does not read its input", cure="wait until it does, or end it") from None
    return said(f"Sent {len(sent)} bytes to {item.id}.", bytes=len(sent))


def _log(item: Running, offset: int | None, limit: int) -> ToolOutput:
    lines = item.output.text().splitlines()
    start = max(0, len(lines) - limit) if offset is None else offset
    shown = lines[start : start + min(limit, 2_000)]
    note = f"\n[lines {start + 1}-{start + len(shown)} of {len(lines)}; {item.status}]"
    return said("\n".join(shown) + note, lines=len(shown), total=len(lines))
