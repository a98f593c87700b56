"""The plugins of a home that are switched on: loaded here and nowhere else, each contained, each failure noted by name."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from homarus.channels.channel import Manifest as ChannelManifest
from homarus.config.view import Config
from homarus.context.engine import Factory as EngineFactory
from homarus.context.engine import find_factory, register_context_engine
from homarus.core.beside import beside_the_loop
from homarus.core.errors import ConfigError, Denied, HomarusError, ToolError
from homarus.core.text import single_line
from homarus.core.tools import Risk, ToolSpec
from homarus.hooks.events import UNTRUSTED, HookEvent
from homarus.hooks.load import function_of
from homarus.hooks.registry import run_alone
from homarus.memory.backend import Factory as MemoryFactory
from homarus.memory.backend import register_memory_backend
from homarus.models.registry import Factory as ProviderFactory
from homarus.models.registry import Registry
from homarus.plugins.apart import CALL_SECONDS, START_SECONDS, Apart, sandbox_of
from homarus.plugins.api import Call, ChannelFactory, Decision, HookFunction, ToolFunction
from homarus.plugins.health import (
    GROWTH,
    MAX_STARTS,
    STALL_SECONDS,
    HealthBook,
    LoopWatch,
    Strain,
    in_folder,
    limit_starts,
    measured,
    noting,
)
from homarus.plugins.manifest import (
    BEFORE_CALL,
    BOOTSTRAP,
    Entry,
    Lock,
    Plugin,
    PluginSettings,
    ToolManifest,
    find_plugin,
    keys_of,
    usable,
)
from homarus.tools.execute import Asks, BeforeCall
from homarus.tools.tool import RunTool, Tool, ToolContext, ToolOutput, said
from homarus.tools.untrusted import wrapped

if TYPE_CHECKING:
    from homarus.plugins.api import PluginApi

_log = logging.getLogger(__name__)
# So many calls of a plugin inside the program may hang; then it gets no more.
MAX_BUSY = 8
GUARD_SECONDS = 10.0
MAX_ANSWER = 1_000_000
# Of an event, what is not for a plugin in its own process.
_KEPT = frozenset({"cfg", UNTRUSTED})
# Registers a handler for a key of hooks; `hooks/registry.py` has it.
Listen = Callable[..., object]
MadeBy = Callable[[str, Any, tuple[str, ...]], Any]
# Which plugin brought an engine or an index: they stay known for as long as the process lives.
_brought: dict[tuple[str, str], str] = {}


class Hook(Struct, frozen=True):
    """What hears of a moment: under the name that it was given, and for which plugin. One that is `apart` nobody has to trust."""

    name: str
    function: HookFunction
    order: int
    plugin: str
    apart: bool = False


class Plugins:
    """A source of tools. Making one loads the plugins that run inside; the others start with their first call."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        *,
        seconds: float = CALL_SECONDS,
        start: float = START_SECONDS,
        stall: float = STALL_SECONDS,
        growth: Strain = GROWTH,
        starts: int = MAX_STARTS,
        only: str = "",
    ) -> None:
        self._config, self._registry = config, registry
        self._seconds, self._start = seconds, start
        self.health = HealthBook(config.paths.own_dir)
        self._apart: list[Apart] = []
        # What runs inside, by folder; and how many of its calls have not come back.
        self._inside: dict[str, str] = {}
        self._busy: Counter[str] = Counter()
        self._watch = LoopWatch(self._inside, self._stalled, config.paths.own_dir, seconds=stall)
        self._held = self._watch.held_to_the_end()
        self._growth, self._starts, self._leave = growth, starts, list[Callable[[], None]]()
        self._tools: list[Tool] = []
        self.hooks: list[Hook] = []
        # The chat platforms that plugins bring, with what makes an account of each.
        self.channels: dict[str, tuple[ChannelManifest, ChannelFactory]] = {}
        settings, lock = config.block("plugins", PluginSettings), Lock(config.paths).read()
        for plugin_id, entry in sorted(settings.entries.items()):
            # One that was never switched on here and is not here is another program's: the doctor names it.
            known = plugin_id in lock or find_plugin(config, plugin_id, packages=False) is not None
            if not (settings.wants(plugin_id) and known):
                continue
            try:
                plugin = usable(config, plugin_id, entry, lock)
                if not only or (plugin.manifest is not None and only in plugin.manifest.hooks):
                    self._use(plugin, entry)
            except (HomarusError, OSError) as problem:
                self._failed(plugin_id, str(problem))
        self._made = tuple(self._tools)

    async def tools(self) -> Sequence[Tool]:
        self._watch.start()
        return self._made

    async def aclose(self) -> None:
        self._watch.close()
        for leave in self._leave:
            leave()
        await asyncio.gather(*(each.aclose() for each in self._apart))

    def _use(self, plugin: Plugin, entry: Entry) -> None:
        assert plugin.manifest is not None
        functions: dict[str, ToolFunction] = {}
        if where := in_folder(self._held, str(plugin.folder)):
            self.health.note(plugin.id, f"it blocked the whole program until that was ended ({where})", blocked=True)
            usable(self._config, plugin.id, entry, Lock(self._config.paths).read())
        runs_inside = entry.in_process and not self.health.of(plugin.id).blocked
        if runs_inside:
            self._inside[str(plugin.folder)] = plugin.id
            self._leave.append(limit_starts(str(plugin.folder), partial(self._failed, plugin.id), self._starts))
            inside = _Inside(plugin, entry, self._registry, self._made_by)
            inside.load(self._start)
            functions = inside.functions
            for name, brought in inside.channels.items():
                self.channels.setdefault(name, brought)
            self.hooks += inside.hooks
        else:
            spec = sandbox_of(plugin, entry, self._config.paths.state_dir)
            apart = Apart(plugin, entry, spec, seconds=self._seconds)
            self._apart.append(apart)
            if plugin.manifest.hooks:
                # A process of their own: a call that takes long must not keep hooks from being heard.
                hearing = Apart(plugin, entry, spec, seconds=min(self._seconds, GUARD_SECONDS))
                self._apart.append(hearing)
                for name in plugin.manifest.hooks:
                    hear = partial(heard_apart, plugin.id, hearing, name)
                    self.hooks.append(Hook(name, hear, 0, plugin.id, apart=True))
        for tool in plugin.manifest.tools:
            run = partial(self._run_inside, plugin.id, functions[tool.name]) if runs_inside else None
            self._tools.append(_tool(plugin.id, tool, run or partial(self._run_apart, plugin.id, apart, tool.name)))

    def listen(self, listen: Listen) -> BeforeCall | None:
        """Let the hooks of plugins hear what `listen` tells of; return what looks at calls, if anything does."""
        for hook in self.hooks:
            if hook.name != BEFORE_CALL:
                for key in keys_of(hook.name):
                    # Longer than it may take, so that it is noted here that it took too long.
                    more = {"source": f"plugin:{hook.plugin}", "order": hook.order, "seconds": GUARD_SECONDS * 2}
                    listen(key, partial(self._hear, hook), **more)
        guards = sorted((each for each in self.hooks if each.name == BEFORE_CALL), key=lambda each: each.order)
        return partial(self._before_call, guards) if guards else None

    async def _hear(self, hook: Hook, event: HookEvent) -> None:
        try:
            await self._ask(hook, event)
        except (Exception, SystemExit) as problem:
            self._failed(hook.plugin, f"at {event.key}: {type(problem).__name__}: {problem}")
            raise

    async def _ask(self, hook: Hook, given: Any) -> Any:
        inside = nullcontext() if hook.apart else measured(partial(self._failed, hook.plugin), self._growth)
        with inside:
            async with asyncio.timeout(min(self._seconds, GUARD_SECONDS)):
                answer = await beside_the_loop(hook.function, given)
                return await answer if inspect.isawaitable(answer) else answer

    async def _before_call(
        self, guards: list[Hook], tool: Tool, arguments: dict[str, Any], context: ToolContext
    ) -> dict[str, Any] | Asks:
        """Ask every plugin that looks at calls, in order. The first block ends the asking; one that fails blocks."""
        self._watch.start()
        reasons: list[str] = []
        for hook in guards:
            call, plugin = Call(tool.name, dict(arguments), str(context.session)), hook.plugin
            try:
                found = await self._ask(hook, call)
                if not (found is None or isinstance(found, Decision)):
                    raise TypeError(f"it returned {type(found).__name__}, not a Decision")
            except Exception as problem:  # noqa: BLE001 - what should have looked and did not is no yes
                self._failed(plugin, f"before {tool.name}: {type(problem).__name__}: {problem}")
                raise Denied(f"the plugin {plugin}, which looks at calls, failed") from None
            if found is not None and found.block:
                raise Denied(single_line(found.reason, 300) or f"the plugin {plugin} does not allow this call")
            if found is not None and found.arguments is not None and found.arguments != arguments:
                arguments = dict(found.arguments)
                if hook.apart:
                    context.taint.add(f"plugin:{plugin}")
            if found is not None and found.ask:
                reasons.append(f"the plugin {plugin} wants you to be asked: {single_line(found.ask, 300)}")
        return Asks(arguments, "; ".join(reasons)) if reasons else arguments

    async def _run_apart(
        self, plugin: str, apart: Apart, name: str, context: ToolContext, arguments: dict[str, Any]
    ) -> ToolOutput:
        try:
            text = await apart.call(name, arguments, context.cancel)
        except ToolError as problem:
            self._failed(plugin, problem.message)
            return _answer(plugin, problem.message, context, is_error=True)
        return _answer(plugin, text, context)

    async def _run_inside(
        self, plugin: str, function: ToolFunction, context: ToolContext, arguments: dict[str, Any]
    ) -> ToolOutput:
        def counted(given: dict[str, Any]) -> Any:
            self._busy[plugin] += 1
            try:
                return function(given)
            finally:
                self._busy[plugin] -= 1

        if self._busy[plugin] >= MAX_BUSY:
            return _answer(plugin, f"{MAX_BUSY} calls of the plugin {plugin} never came back", context, is_error=True)
        try:
            with context.cancel.interrupting(), measured(partial(self._failed, plugin), self._growth):
                async with asyncio.timeout(self._seconds):
                    result = await beside_the_loop(counted, arguments)
                    text = await result if inspect.isawaitable(result) else result
        except HomarusError:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever a plugin raises is the failure of its own call
            told = "took too long" if isinstance(problem, TimeoutError) else f"{type(problem).__name__}: {problem}"
            self._failed(plugin, told)
            return _answer(plugin, f"the plugin {plugin} failed: {single_line(told, 500)}", context, is_error=True)
        text = str(text)
        if len(text) > MAX_ANSWER:
            self._failed(plugin, f"it floods: an answer of {len(text)} characters was cut")
        return _answer(plugin, text, context)

    def _failed(self, plugin: str, problem: str) -> None:
        _log.warning("plugins: %s: %s", plugin, single_line(problem, 500))
        self.health.note(plugin, problem)

    def _made_by(self, plugin: str, thing: Any, methods: tuple[str, ...]) -> Any:
        """Return what a plugin made for one of the edges, watched from now on."""
        self._watch.start()
        return noting(thing, methods, partial(self._failed, plugin))

    def _stalled(self, plugin: str, where: str, ends_it: bool) -> None:
        """Say which plugin blocks everything; called from the thread that saw it."""
        told = f"it blocks the whole program ({where})"
        told += "; after the next start it does not run inside any more" if ends_it else " and came back"
        _log.error("plugins: %s: %s", plugin, told)
        self.health.note(plugin, told, blocked=ends_it)


class _Inside:
    """The API for a plugin whose owner lets it run inside the program."""

    def __init__(self, plugin: Plugin, entry: Entry, registry: Registry, made_by: MadeBy) -> None:
        self._plugin, self._registry, self._made_by = plugin, registry, made_by
        self._late = False
        self.config = dict(entry.config)
        self.functions: dict[str, ToolFunction] = {}
        self.channels: dict[str, tuple[ChannelManifest, ChannelFactory]] = {}
        self.hooks: list[Hook] = []

    def tool(self, name: str, function: ToolFunction) -> None:
        self._declared("tools", name, [tool.name for tool in self._manifest.tools])
        self.functions[name] = function

    def provider(self, name: str, factory: ProviderFactory) -> None:
        self._declared("providers", name, self._manifest.providers)
        self._registry.register(name, self._noting(factory, "stream"))

    def context_engine(self, name: str, factory: EngineFactory) -> None:
        self._declared("contextEngines", name, self._manifest.context_engines)
        if (
            _brought.setdefault(("contextEngines", name), self._plugin.id) == self._plugin.id
            and find_factory(name) is None
        ):
            register_context_engine(name, self._noting(factory, "ingest", "assemble", "compact"))

    def memory(self, name: str, factory: MemoryFactory) -> None:
        self._declared("memory", name, self._manifest.memory)
        if _brought.setdefault(("memory", name), self._plugin.id) == self._plugin.id:
            register_memory_backend(name, self._noting(factory, "find"))

    def channel(self, name: str, factory: ChannelFactory) -> None:
        described = {channel.id: channel for channel in self._manifest.channels}
        self._declared("channels", name, list(described))
        self.channels[name] = (described[name], self._noting(factory, "run", "send"))

    def hook(self, name: str, function: HookFunction, *, order: int = 0) -> None:
        self._declared("hooks", name, self._manifest.hooks)
        self.hooks.append(Hook(name, function, order, self._plugin.id))

    @property
    def _manifest(self) -> Any:
        return self._plugin.manifest

    def _noting(self, factory: Callable[..., Any], *methods: str) -> Callable[..., Any]:
        return lambda *given: self._made_by(self._plugin.id, factory(*given), methods)

    def _declared(self, edge: str, name: str, names: Sequence[str]) -> None:
        if self._late:
            raise ConfigError(f"the plugin {self._plugin.id} comes too late")
        if name not in names:
            raise ConfigError(
                f"the plugin {self._plugin.id} adds '{name}', which its manifest does not name under {edge}"
            )

    def load(self, seconds: float) -> None:
        """Import the plugin's file and let it register, in a thread that nobody waits for longer than that.

        Whatever it raises is its own failure.
        """
        file, _, function = self._manifest.entry.partition(":")
        name = f"homarus_plugin_{self._plugin.id.replace('-', '_')}"

        def registering(api: PluginApi) -> None:
            # From the file itself: a compiled one beside it counts for nothing.
            path = self._plugin.folder / file
            function_of(name, path, path.read_bytes(), function)(api)

        problem = run_alone(registering, self, seconds)
        self._late = True
        if isinstance(problem, HomarusError):
            raise problem
        if problem is not None:
            raise ConfigError(f"the plugin {self._plugin.id} cannot be loaded: {type(problem).__name__}: {problem}")
        missing = {tool.name for tool in self._manifest.tools} - self.functions.keys()
        if missing:
            raise ConfigError(f"the plugin {self._plugin.id} names no function for {', '.join(sorted(missing))}")


async def heard_apart(plugin: str, apart: Apart, name: str, given: Call | HookEvent) -> Decision | None:
    """Let a plugin in its own process hear of a moment. It gets plain facts without the configuration, and changes no others."""
    if isinstance(given, Call):
        answer = await apart.hook(
            name, {"tool": given.tool, "arguments": given.arguments, "session_key": given.session_key}
        )
        return msgspec.convert(answer, Decision)
    if given.key == BOOTSTRAP:
        return None
    facts = {
        key: value for key, each in given.context.items() if key not in _KEPT and (value := _plain(each)) is not None
    }
    head = {"type": given.type, "action": given.action, "key": given.key, "session_key": given.session_key}
    when = given.timestamp.isoformat()
    answer = await apart.hook(
        name, {**head, "timestamp": when, "context": facts, "messages": given.messages, "options": {}}
    )
    context = msgspec.convert(answer, dict[str, Any])["context"]
    changed = {key: context[key] for key in facts if key in context and context[key] != facts[key]}
    if changed:
        given.context.update(changed)
        given.context[UNTRUSTED] = [*given.context.get(UNTRUSTED, ()), f"plugin:{plugin}"]
    given.messages[:] = msgspec.convert(answer["messages"], list[str])
    return None


def _plain(value: Any) -> Any:
    """Return a fact as JSON has it; None for what is none."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None


def _tool(plugin: str, tool: ToolManifest, run: RunTool) -> Tool:
    from homarus.plugins.mcp.catalog import checked

    parameters = {"type": "object", "properties": {}, **tool.parameters}
    text = tool.description[:1_000]
    return Tool(
        spec=ToolSpec(tool.name, text, parameters, text.partition("\n")[0].partition(". ")[0][:100]),
        risk=Risk(tool.risk),
        run=run,
        group=f"plugin:{plugin}",  # never a group of ours, whatever a plugin calls itself
        schema=checked(parameters),
        taints=True,
        foreign=True,
    )


def _answer(plugin: str, text: str, context: ToolContext, *, is_error: bool = False) -> ToolOutput:
    return said(wrapped(text[:MAX_ANSWER], f"plugin {plugin}", context.ids.uuid()[:8]), is_error=is_error)
