"""All servers of a home, as a source of tools: what they offer comes from the catalog, and a call starts its server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from homarus.config.paths import expand
from homarus.config.view import Config
from homarus.core.clock import Clock
from homarus.core.errors import ConfigError, HomarusError, ToolError, Unknown, installing
from homarus.core.messages import Image, Part, Text
from homarus.core.text import single_line
from homarus.plugins.mcp.catalog import Catalog, Listing, Offer, ask, tools_of
from homarus.plugins.mcp.connection import Connection
from homarus.plugins.mcp.login import WAIT_SECONDS, signed_in, token_file
from homarus.plugins.mcp.settings import McpSettings, ServerSettings
from homarus.plugins.mcp.transport import Place, passed_on
from homarus.sandbox.resolve import account_home, clean_environment
from homarus.sandbox.spec import Backend, Limits, SandboxSpec
from homarus.tools.result import conceal
from homarus.tools.tool import Tool, ToolContext, ToolOutput
from homarus.tools.untrusted import wrapped

if TYPE_CHECKING:
    from mcp import Client

_log = logging.getLogger(__name__)
FIRST_SECONDS = 20.0  # how long a turn waits for servers that were never asked before; slower ones join a later turn
MAX_TEXT = 1_000_000
MAX_IMAGE = 7_000_000  # characters of base64, about 5 MB
INSTALL = f"install it with: {installing('homarus[mcp]')}"


class McpServers:
    """The servers of one home. `aclose` ends all of them."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        *,
        clock: Clock,
        workspace: Callable[[], Path],
        before: Callable[[], object] = lambda: None,
    ) -> None:
        self._config, self._env, self._clock = config, env, clock
        self._workspace = workspace
        self._before = before
        self.catalog = Catalog(catalog_folder(config))
        # By name, the agent in whose sandbox it runs, and the settings that it was started with.
        self._open: dict[tuple[str, str, str], Connection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._asking: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._made: tuple[object, tuple[Tool, ...]] = (None, ())
        self._told = False
        # How a person who is here signs in to a server, by its name.
        self.signing_in: dict[str, Any] = {}

    @property
    def settings(self) -> McpSettings:
        return self._config.block("mcp", McpSettings)

    async def tools(self) -> Sequence[Tool]:
        """Return what all servers offer. One that was never asked is asked now; the others are not even started."""
        self._close_changed()
        known, unknown = listed(self._config, self.catalog)
        if unknown and find_spec("mcp") is None:
            if not self._told:
                _log.warning("mcp: servers are configured, but the package 'mcp' is missing; %s", INSTALL)
            self._told = True
            return ()
        asked = [(name, _mark(settings)) for name, settings in unknown.items()]
        for key in asked:
            if key not in self._asking:  # one that cannot be asked is asked again when its settings changed
                self._asking[key] = asyncio.create_task(self._ask(key[0]), name=f"ask mcp {key[0]}")
        waiting = [self._asking[key] for key in asked if not self._asking[key].done()]
        if waiting:
            await asyncio.wait(waiting, timeout=FIRST_SECONDS)
            known, _ = listed(self._config, self.catalog)
        servers = {name: self.settings.servers[name] for name in known}
        if self._made[0] != (known, servers):
            alone = frozenset(name for name in known if not servers[name].supports_parallel_tool_calls)
            tools = tools_of(known, lambda name, offer: partial(self._run, name, servers[name], offer), alone)
            self._made = ((known, servers), tools)
        return self._made[1]

    def _close_changed(self) -> None:
        """End servers that are configured differently now, or not at all. One that works for a turn may come to its end."""
        now = {(name, _mark(settings)) for name, settings in self.settings.servers.items()} if self._open else set()
        for key in [key for key, made in self._open.items() if (key[0], key[2]) not in now and not made.busy]:
            task = asyncio.create_task(self._open.pop(key).aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def ask(self, name: str) -> Listing:
        """Ask a server what it offers, and keep that. Raises `HomarusError` when it cannot be asked."""
        require("mcp")
        settings = server_named(self._config, name)
        connection = self._connection(name, settings, None)
        seconds = WAIT_SECONDS if name in self.signing_in else settings.connect_seconds
        offers = await connection.use(partial(ask, settings=settings), seconds)
        return self.catalog.keep(name, settings, offers)

    async def _ask(self, name: str) -> None:
        try:
            await self.ask(name)
        except HomarusError as problem:
            _log.warning("mcp: %s", single_line(str(problem), 1_000))

    async def aclose(self) -> None:
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await asyncio.gather(*(connection.aclose() for connection in self._open.values()), *self._closing)
        self._open.clear()

    # One call.

    async def _run(
        self, server: str, settings: ServerSettings, offer: Offer, context: ToolContext, arguments: dict[str, Any]
    ) -> ToolOutput:
        if find_spec("mcp") is None:
            raise ToolError("this server cannot be spoken to: the package 'mcp' is missing", cure=INSTALL)
        connection = self._connection(server, settings, context)

        async def progress(done: float, total: float | None, message: str | None) -> None:
            share = f"{done:g} of {total:g}" if total else f"{done:g}"
            context.progress(context.call_id, single_line(f"{share} {message or ''}", 200))

        async def work(client: Client) -> ToolOutput:
            with context.cancel.interrupting():
                if offer.utility:
                    return ToolOutput((Text(await _utility(client, offer.name, arguments)),))
                result = await client.call_tool(offer.name, arguments, progress_callback=progress)
                return _output(result)

        try:
            output = await connection.use(work, settings.request_seconds)
        except ToolError as problem:  # in the server's words, so they are marked and taint like any others
            output = ToolOutput((Text(str(problem)),), is_error=True)
        secrets = tuple(value for value in (await self._secrets(server, settings)) if len(value) > 5)
        return _foreign(replace(output, parts=conceal(output.parts, secrets)), f"MCP server {server}", context)

    async def _secrets(self, name: str, settings: ServerSettings) -> tuple[str, ...]:
        values = [*settings.env.items(), *settings.headers.items()]
        return tuple([await self._resolved(name, key, value) for key, value in values])

    # Connections.

    def _connection(self, name: str, settings: ServerSettings, context: ToolContext | None) -> Connection:
        """Return the connection to a server; each agent has its own to one that runs in its sandbox."""
        of = context.agent_id if context is not None and settings.sandbox else ""
        key = (name, of, _mark(settings))
        if key not in self._open:
            idle = self.settings.session_idle_ttl_ms / 1000
            sandbox = context.sandbox if context is not None else None
            place = partial(self._place, name, settings, sandbox)
            self._open[key] = Connection(place, name, idle=idle, clock=self._clock)
        return self._open[key]

    async def _place(self, name: str, settings: ServerSettings, sandbox: SandboxSpec | None) -> Place:
        self._before()
        own = {key: await self._resolved(name, f"env.{key}", value) for key, value in settings.env.items()}
        headers = {key: await self._resolved(name, f"headers.{key}", value) for key, value in settings.headers.items()}
        cwd = self._folder(name, settings)
        spec = SandboxSpec(Backend.OFF, cwd, limits=Limits(0, 0, 0, 0))
        env = {**passed_on(self._env), **own}
        if settings.sandbox:
            # Asked without a turn (to learn what it offers), it gets a sandbox with nothing in it but programs.
            spec = sandbox or _empty_sandbox(name)
            spec = replace(spec, limits=replace(spec.limits, cpu_seconds=0))
            env, cwd = clean_environment(spec, self._env, own), spec.workspace if sandbox else "/"
        auth = self.signing_in.get(name)
        tokens = token_file(name, settings, self._config.paths.state_dir)
        if settings.url and auth is None and (settings.auth == "oauth" or tokens.path.exists()):
            auth = signed_in(name, settings, self._config.paths.state_dir)
        if name in self.signing_in:
            settings = replace(settings, connect_timeout=WAIT_SECONDS)
        return Place(name, settings, env, headers, spec, cwd, auth)

    def _folder(self, name: str, settings: ServerSettings) -> str:
        wanted = expand(settings.cwd, self._config.paths.home) if settings.cwd else self._workspace()
        if wanted.is_dir() or not settings.command:
            return str(wanted)
        if settings.cwd:
            raise ConfigError(f"mcp.servers.{name}.cwd: {wanted} is no folder", cure="create it or name another one")
        return str(self._config.paths.home)

    async def _resolved(self, name: str, key: str, value: Any) -> str:
        if isinstance(value, str) and "$" not in value:
            return value
        if isinstance(value, int | float):
            return str(value)
        try:
            return await asyncio.to_thread(self._config.resolve, value)
        except HomarusError as problem:
            raise ConfigError(f"mcp.servers.{name}.{key}: {problem.message}", cure=problem.cure) from None


def _mark(settings: ServerSettings) -> str:
    """Return what tells these settings from any others."""
    return msgspec.json.encode(settings).decode()


def require(extra: str, module: str = "") -> None:
    """Say which extra to install where what it brings is missing."""
    if find_spec(module or extra) is None:
        raise ConfigError(f"the package '{module or extra}' is missing", cure=installing(f"homarus[{extra}]"))


def catalog_folder(config: Config) -> Path:
    return config.paths.own_dir / "mcp"


def server_named(config: Config, name: str) -> ServerSettings:
    servers = config.block("mcp", McpSettings).servers
    if name not in servers:
        known = ", ".join(sorted(servers)) or "none"
        raise Unknown(f"there is no MCP server '{name}'", cure=f"servers are: {known}; 'homarus mcp add' adds one")
    return servers[name]


def listed(config: Config, catalog: Catalog) -> tuple[dict[str, Listing], dict[str, ServerSettings]]:
    """Return what is known of the servers that are on, and those of which nothing is known yet. Starts nothing."""
    known: dict[str, Listing] = {}
    unknown: dict[str, ServerSettings] = {}
    for name, settings in sorted(config.block("mcp", McpSettings).servers.items()):
        if not settings.enabled or not settings.kind:
            continue
        found = catalog.look(name, settings)
        if found is None:
            unknown[name] = settings
        else:
            offers = tuple(offer for offer in found.offers if settings.tool_filter.takes(offer.name))
            known[name] = found if len(offers) == len(found.offers) else replace(found, offers=offers)
    return known, unknown


def known_tools(config: Config) -> tuple[Tool, ...]:
    """Return the tools that servers offered when they were last asked, to be shown and not to be called."""

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        raise HomarusError("only the descriptions of the tools were asked for")

    return tools_of(listed(config, Catalog(catalog_folder(config)))[0], lambda _server, _offer: run)


def _empty_sandbox(name: str) -> SandboxSpec:
    from homarus.sandbox.process import available
    from homarus.sandbox.spec import Access

    for backend in (Backend.BWRAP, Backend.LANDLOCK):
        if available(backend):
            return SandboxSpec(backend, "/", Access.NONE, hidden=(str(account_home()),))
    raise ConfigError(f"mcp.servers.{name}.sandbox: no sandbox works here", cure="install bubblewrap")


def _output(result: Any) -> ToolOutput:
    """Return what a server answered: texts and pictures; of everything else, that it is there."""
    parts: list[Part] = []
    for block in result.content:
        kind = block.type
        if kind == "text":
            parts.append(Text(block.text))
        elif kind == "image" and len(block.data) <= MAX_IMAGE and block.mime_type.startswith("image/"):
            parts.append(Image(block.data, block.mime_type))
        elif kind == "resource":
            parts.append(Text(_document(block.resource)))
        elif kind == "resource_link":
            parts.append(Text(f"[document {block.uri}: {block.description or block.name}]"))
        else:
            parts.append(Text(f"[{kind} of {len(getattr(block, 'data', ''))} characters, left out]"))
    if result.structured_content is not None and not any(isinstance(part, Text) for part in parts):
        parts.append(Text(msgspec.json.encode(result.structured_content).decode()))
    return ToolOutput(tuple(parts) or (Text("(nothing)"),), is_error=bool(result.is_error))


def _foreign(output: ToolOutput, source: str, context: ToolContext) -> ToolOutput:
    """Mark a server's words as what they are: material, whoever wrote it."""
    text = "\n".join(part.text for part in output.parts if isinstance(part, Text))[:MAX_TEXT]
    pictures = tuple(part for part in output.parts if isinstance(part, Image))
    marked = (Text(wrapped(text, source, context.ids.uuid()[:8])),) if text else ()
    return replace(output, parts=(*marked, *pictures))


def _document(contents: Any) -> str:
    text = getattr(contents, "text", None)
    if text is not None:
        return f"[document {contents.uri}]\n{text}"
    return f"[document {contents.uri}: {contents.mime_type or 'binary'}, {len(contents.blob)} characters of base64, left out]"


async def _utility(client: Client, name: str, arguments: dict[str, Any]) -> str:
    if name == "resources_list":
        found = await client.list_resources()
        templates = await client.list_resource_templates()
        rows = [f"{each.uri}  {each.name}  {each.description or ''}" for each in found.resources]
        rows += [f"{each.uri_template}  {each.name}  {each.description or ''}" for each in templates.resource_templates]
        return "\n".join(row.rstrip() for row in rows) or "There are no documents."
    if name == "resources_read":
        read = await client.read_resource(arguments["uri"])
        return "\n\n".join(map(_document, read.contents)) or "(empty)"
    if name == "prompts_list":
        prompts = (await client.list_prompts()).prompts
        return "\n".join(f"{each.name}  {each.description or ''}".rstrip() for each in prompts) or "There are none."
    given = {str(key): str(value) for key, value in (arguments.get("arguments") or {}).items()}
    filled = await client.get_prompt(arguments["name"], given)
    return "\n\n".join(f"{each.role}: {getattr(each.content, 'text', '[not text]')}" for each in filled.messages)
