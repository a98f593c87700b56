"""A plugin in a process of its own: started with its first call, in a sandbox, and ended with everything that it started.

Whatever it does is the failure of one call: it raises, it hangs, it floods, it forks, it takes all the memory it may have.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from homarus.core.cancel import Cancel
from homarus.core.errors import ConfigError, ToolError
from homarus.core.text import single_line
from homarus.plugins.manifest import Entry, Plugin
from homarus.plugins.mcp.transport import lines
from homarus.sandbox.process import Child, Order, available, start
from homarus.sandbox.resolve import account_home, clean_environment
from homarus.sandbox.spec import Access, Backend, Limits, Mount, SandboxSpec

START_SECONDS, CALL_SECONDS = 20.0, 60.0
MAX_IGNORED = 1_000
LIMITS = Limits(cpu_seconds=3_600, memory_bytes=1 << 30, processes=32, disk_bytes=1 << 30)
_WORKER = os.path.realpath(Path(__file__).with_name("worker.py"))
_PYTHON = os.path.realpath(sys.executable)


def sandbox_of(plugin: Plugin, entry: Entry, state_dir: Path) -> SandboxSpec:
    """Return what a plugin sees: its own folder and programs, to read; a network only if it wishes and its owner agrees."""
    backend = next((each for each in (Backend.BWRAP, Backend.LANDLOCK) if available(each)), None)
    if backend is None:
        cure = "install bubblewrap (Debian: apt install bubblewrap)"
        raise ConfigError(f"the plugin {plugin.id} needs a sandbox, and none works here", cure=cure)
    assert plugin.manifest is not None
    return SandboxSpec(
        backend,
        os.path.realpath(plugin.folder),
        Access.RO,
        network=plugin.manifest.wishes.network and entry.network,
        mounts=tuple(Mount(os.path.realpath(each)) for each in (sys.base_prefix, _WORKER)),
        limits=LIMITS,
        hidden=tuple({str(account_home()), os.path.realpath(state_dir)}),
    )


class Apart:
    """One plugin's process, as its tools or its hooks see it. One call at a time; the next one starts what died."""

    def __init__(self, plugin: Plugin, entry: Entry, spec: SandboxSpec, *, seconds: float = CALL_SECONDS) -> None:
        self._plugin, self._entry, self._spec = plugin, entry, spec
        self._seconds = seconds
        self._child: Child | None = None
        self._answers: Any = None
        self._number = 0
        self._alone = asyncio.Lock()

    async def call(self, name: str, arguments: dict[str, Any], cancel: Cancel) -> str:
        """Run one tool of the plugin. Raises `ToolError` for whatever goes wrong with it."""
        return str(await self._run("call", {"name": name, "arguments": arguments}, cancel))

    async def hook(self, name: str, given: dict[str, Any]) -> Any:
        """Let what the plugin registered for a moment run, and return what it made of what it was given."""
        return await self._run("hook", {"name": name, "given": given}, Cancel())

    async def _run(self, method: str, params: dict[str, Any], cancel: Cancel) -> Any:
        async with self._alone:
            try:
                with cancel.interrupting():
                    async with asyncio.timeout(self._seconds):
                        if self._child is None or not self._child.running:
                            await self._start()
                        return await self._ask(method, params)
            except TimeoutError:
                await self._end()
                raise ToolError(f"the plugin {self._plugin.id} did not answer within {self._seconds:g} s") from None
            except _Failed as problem:
                raise ToolError(f"the plugin {self._plugin.id} failed: {problem}") from None
            except BaseException:
                await self._end()
                raise

    async def aclose(self) -> None:
        async with self._alone:
            await self._end()

    async def _start(self) -> None:
        await self._end()
        manifest = self._plugin.manifest
        assert manifest is not None
        argv = (_PYTHON, "-I", _WORKER, self._spec.workspace, manifest.entry)
        env = clean_environment(self._spec, {}, {})
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            order = Order(argv, self._spec.workspace, env, f"plugin-{self._plugin.id}", stdin=True, stderr=nowhere)
            self._child = await start(self._spec, order)
        finally:
            os.close(nowhere)
        self._answers = lines(self._child.output())
        async with asyncio.timeout(START_SECONDS):
            named = await self._ask("start", {"config": self._entry.config})
        missing = {tool.name for tool in manifest.tools} - set(named)
        if missing:
            raise _Failed(f"register() named no function for {', '.join(sorted(missing))}")

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self._child is not None
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        await self._child.write(msgspec.json.encode(request) + b"\n")
        ignored = 0
        async for line in self._answers:
            # Lines that are there already are read without a pause, so a flood of them would hold up everything else.
            if (ignored := ignored + 1) > MAX_IGNORED:
                await self._end()
                raise _Failed("it floods the pipe for its answers")
            try:
                answer = msgspec.json.decode(line)
            except ValueError:
                continue
            if not isinstance(answer, dict) or answer.get("id") != self._number:
                continue
            if "error" in answer:
                raise _Failed(single_line(str(answer["error"].get("message", "")), 500))
            return answer.get("result")
        await self._end()
        raise _Failed("its process ended")

    async def _end(self) -> None:
        child, self._child = self._child, None
        answers, self._answers = self._answers, None
        if answers is not None:
            with suppress(RuntimeError):
                await answers.aclose()
        if child is not None:
            try:
                await child.kill()
            finally:
                child.close()


class _Failed(Exception):
    """What the plugin itself says went wrong; its process may go on."""
