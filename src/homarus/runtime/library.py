"""`homarus.Agent`: open a home, talk to an agent, watch it work. The command line goes through this, too."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextvars import copy_context
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from msgspec.structs import replace

from homarus.config.paths import resolve_paths
from homarus.core.cancel import STOPPED
from homarus.core.clock import Clock, Ids
from homarus.core.errors import HomarusError
from homarus.core.events import RunEvent
from homarus.core.messages import Image
from homarus.core.routes import SessionKey
from homarus.core.tools import RiskName
from homarus.models.levels import LEVELS, parse_level
from homarus.models.provider import ModelProvider
from homarus.runtime import arguments
from homarus.runtime.asking import in_line, note_opened, noting, open_twice, refuse_inside, refuse_own
from homarus.runtime.client import Client, RunOptions
from homarus.runtime.local import LocalClient
from homarus.runtime.reply import Reply, ReplyFold
from homarus.runtime.runtime import Runtime

if TYPE_CHECKING:
    from homarus.commands.router import IntakeResult

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])
OWN_MODEL = "program/model"  # what a model is called that this program brings along
CORRECTIONS = 2  # how often a model is told what is wrong with the form of its answer


class Agent:
    """One agent of a home, in one of its sessions. Use it in one event loop, and close it."""

    def __init__(
        self,
        client: Client,
        key: SessionKey,
        *,
        instructions: str = "",
        model: str = "",
        functions: list[str] | None = None,
    ) -> None:
        self.client = client
        self.key = key
        self.instructions = instructions
        self.model = model
        # The names of this program's functions that agents may call: one list for all sessions of an open home.
        self.functions = [] if functions is None else functions
        self._opened = functions is None

    @classmethod
    def open(
        cls,
        home: str | Path | None = None,
        *,
        agent: str = "",
        session: str = "main",
        instructions: str = "",
        model: str | ModelProvider = "",
        tools: Sequence[Callable[..., Any]] = (),
        env: Mapping[str, str] | None = None,
        profile: str | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> Agent:
        """Open an agent. `home` is a state folder such as `~/.openclaw`; without it the environment decides.

        `instructions` and `model` hold for everything that is sent through this object; the home keeps its own choices.
        A model is named, or it is an object of this program, such as a `ScriptedModel`.
        """
        variables = arguments.environment(os.environ if env is None else env)
        if home is not None:
            variables["OPENCLAW_STATE_DIR"] = arguments.state_folder(home)
        given = arguments.functions(tools)
        arguments.is_text("instructions", instructions)
        runtime = Runtime.open(resolve_paths(variables, profile=profile), variables, clock=clock, ids=ids)
        client = LocalClient(runtime)
        note_opened(client)
        if not isinstance(model, str):
            if isinstance(model, type) or not hasattr(model, "stream"):
                raise TypeError(f"model must be a name or an object that streams answers, not {_called(model)}")
            own = model
            runtime.home.models.registry.register(OWN_MODEL.partition("/")[0], lambda _ref, _credential: own)
            model = OWN_MODEL
        opened = cls(client, _meant(client, agent, session), instructions=instructions, model=model)
        opened._check_model(model)
        for function in given:
            opened.tool(function)
        return opened

    @classmethod
    async def connect(
        cls,
        url: str = "",
        *,
        token: str = "",
        agent: str = "",
        session: str = "main",
        instructions: str = "",
        model: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Agent:
        """Talk to an agent that a gateway serves: at `ws://…` or `wss://…` with its token, or on this home's own socket."""
        remote = import_module("homarus.gateway.remote")  # above us, so it is named and not imported
        for name, text in (("agent", agent), ("instructions", instructions)):
            arguments.is_text(name, text)
        arguments.session_name(session)
        client: Client = await remote.connected(remote.address_of(url, token=token, env=env))
        return cls(client, _meant(client, agent, session), instructions=instructions, model=model)

    def session(self, name: str, *, agent: str = "") -> Agent:
        """Return the same home in another session, given as a key or a name. Closing the first one closes it, too."""
        key = _meant(self.client, arguments.is_text("agent", agent) or self.key.agent_id, name)
        return Agent(self.client, key, instructions=self.instructions, model=self.model, functions=self.functions)

    @overload
    def tool(self, function: Function, /) -> Function: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str = "",
        risk: RiskName = "write",
        trusted: bool = False,
        ask: bool = False,
    ) -> Callable[[Function], Function]: ...

    def tool(
        self,
        function: Function | None = None,
        /,
        *,
        name: str = "",
        risk: RiskName = "write",
        trusted: bool = False,
        ask: bool = False,
    ) -> Function | Callable[[Function], Function]:
        """Let the agent call a function of this program; the home's policy holds for it as for every tool.

        `risk` is what it can do to the world: only the owner's turns get more than "read" without a question. What it
        returns counts as written by strangers unless it is `trusted`. With `ask` a person is asked before each call.
        """

        def added(given: Function) -> Function:
            from homarus.runtime.functions import function_tool

            made = function_tool(given, name=name, risk=risk, trusted=trusted, ask=ask)
            self.client.add_tool(noting(self._state_folder, made) if self._state_folder else made)
            self.functions.append(made.name)
            return given

        return added if function is None else added(function)

    @property
    def _state_folder(self) -> Path | None:
        return self.client.home.config.paths.state_dir if isinstance(self.client, LocalClient) else None

    @overload
    async def ask(
        self,
        text: str,
        *,
        output_type: None = None,
        model: str = "",
        thinking: str = "",
        images: Sequence[Image] = (),
        seconds: float | None = None,
        options: RunOptions | None = None,
    ) -> Reply[None]: ...

    @overload
    async def ask(
        self,
        text: str,
        *,
        output_type: type[T],
        model: str = "",
        thinking: str = "",
        images: Sequence[Image] = (),
        seconds: float | None = None,
        options: RunOptions | None = None,
    ) -> Reply[T]: ...

    @overload  # `Literal["a"]` and `int | None` are no classes to a type checker
    async def ask(
        self,
        text: str,
        *,
        output_type: object,
        model: str = "",
        thinking: str = "",
        images: Sequence[Image] = (),
        seconds: float | None = None,
        options: RunOptions | None = None,
    ) -> Reply[Any]: ...

    async def ask(
        self,
        text: str,
        *,
        output_type: object = None,
        model: str = "",
        thinking: str = "",
        images: Sequence[Image] = (),
        seconds: float | None = None,
        options: RunOptions | None = None,
    ) -> Reply[Any]:
        """Send one message and return what came of it: the turn's reply, or what the program says to a command.

        With `output_type` the answer is a value of that type, `reply.output`; a model that misses the form is told what
        is wrong, twice at most. There is no reply without a value then: a turn that fails raises `HomarusError`, too.
        `options` has what few programs need.
        """
        sent = self._options(options, model=model, thinking=thinking, images=images, seconds=seconds)
        self._check(text, sent)
        self._refuse_inside()
        if output_type is None:
            return await self._reply(text, sent)
        from homarus.runtime.functions import OutputType

        wanted = OutputType(output_type)
        sent = replace(sent, output_schema=wanted.schema, needs=(*sent.needs, "give a typed answer"))
        wrong = ""
        for _ in range(1 + CORRECTIONS):
            reply = await self._reply(text, sent)
            if not reply.ok:
                raise HomarusError(reply.error or f"the turn ended with {reply.status}")
            try:
                return replace(reply, output=wanted.parse(reply.raw))
            except ValueError as problem:
                wrong = str(problem)
                # What came along is in the session; the id is that of the question.
                sent = replace(sent, by_program=True, message_id="", run_id="", attached="", images=())
                text = f"That answer does not have the form that was asked for: {wrong}. Answer again, with the JSON alone."
        raise HomarusError(
            f"the model gave no {getattr(output_type, '__name__', output_type)}: {wrong}",
            cure="simplify the type, or take another model",
        )

    async def _reply(self, text: str, options: RunOptions) -> Reply[None]:
        fold = ReplyFold()
        async for event in self.client.run(self.key, text, options):
            fold.take(event)
        return fold.reply()

    def run(
        self,
        text: str,
        *,
        model: str = "",
        thinking: str = "",
        images: Sequence[Image] = (),
        seconds: float | None = None,
        options: RunOptions | None = None,
    ) -> AsyncIterator[RunEvent]:
        """Send a message and yield what happens until it is answered: see `Client.run`."""
        sent = self._options(options, model=model, thinking=thinking, images=images, seconds=seconds)
        self._check(text, sent)
        self._refuse_inside()
        return self.client.run(self.key, text, sent)

    async def send(self, text: str, *, options: RunOptions | None = None) -> IntakeResult:
        """Hand a message in and return at once; what happens then is told to those who `listen`."""
        sent = self._options(options)
        self._check(text, sent)
        return await self.client.send(self.key, text, sent)

    def _check(self, text: object, options: RunOptions) -> None:
        """Refuse what cannot be sent, before anything is."""
        if isinstance(self.client, LocalClient) and self.client.runtime.closing:
            raise HomarusError("this agent is closed", cure="open one with Agent.open(…)")
        arguments.words(text, beside=bool(options.images or options.attached))
        self._check_model(options.model)

    def _check_model(self, model: str) -> None:
        """Refuse a name that means no model here. A gateway on another machine knows its own names."""
        if model and isinstance(self.client, LocalClient):
            home = self.client.runtime.home
            home.models.names(home.config.agent(self.key.agent_id)).resolve(model)

    def _refuse_inside(self) -> None:
        """Refuse to wait for a turn, or for a session, that waits for whoever asks."""
        if isinstance(self.client, LocalClient):
            refuse_inside(self.client.home.config.paths.state_dir, self.key)
            refuse_own(self.client, self.key)

    def _refuse_open_twice(self) -> None:
        """Refuse a session that this program has open already: it cannot answer there while it waits here."""
        if isinstance(self.client, LocalClient) and self.client.elsewhere.in_this_process(self.key):
            raise open_twice(self.key)

    def _options(
        self,
        options: RunOptions | None,
        *,
        model: str = "",
        thinking: str = "",
        images: Sequence[Image] = (),
        seconds: float | None = None,
    ) -> RunOptions:
        """Return how a message is sent: what was said for it, then what holds for this object."""
        given = RunOptions() if options is None else options
        if not isinstance(given, RunOptions):
            raise TypeError(f"options must be RunOptions(…), not {type(given).__name__}")
        thinking = arguments.is_text("thinking", thinking or given.thinking)
        level = parse_level(thinking) if thinking else ""
        if level is None:
            raise HomarusError(f"thinking={thinking!r} is no thinking level", cure=f"there are {', '.join(LEVELS)}")
        sent = replace(
            given,
            model=arguments.is_text("model", model or given.model or self.model),
            thinking=level,
            images=arguments.pictures(images) or given.images,
            seconds=given.seconds if seconds is None else seconds,
            instructions=given.instructions or self.instructions,
            needs=(*given.needs, *(["call functions of a program"] if self.functions else [])),
        )
        return arguments.checked(sent)

    def listen(self, listener: Callable[[RunEvent], None]) -> Callable[[], None]:
        """Tell a listener everything that happens in this session; returns what takes it off again."""
        if not callable(listener):
            raise TypeError(f"a listener must be a function, not {type(listener).__name__}")
        return self.client.listen(self.key, listener)

    def steer(self, text: str) -> bool:
        """Say something to the running turn; False when none runs, and then nothing was sent."""
        return self.client.steer(self.key, arguments.words(text))

    def stop(self, reason: str = STOPPED) -> bool:
        """End the running turn and its sub-agents, and forget what waits; False when there was nothing to stop."""
        return self.client.abort(self.key, reason)

    async def aclose(self) -> None:
        if self._opened:
            await self.client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


@overload
def ask(
    text: str,
    home: str | Path | None = None,
    *,
    output_type: None = None,
    agent: str = "",
    session: str = "main",
    instructions: str = "",
    model: str | ModelProvider = "",
    tools: Sequence[Callable[..., Any]] = (),
    env: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> Reply[None]: ...


@overload
def ask(
    text: str,
    home: str | Path | None = None,
    *,
    output_type: type[T],
    agent: str = "",
    session: str = "main",
    instructions: str = "",
    model: str | ModelProvider = "",
    tools: Sequence[Callable[..., Any]] = (),
    env: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> Reply[T]: ...


@overload
def ask(
    text: str,
    home: str | Path | None = None,
    *,
    output_type: object,
    agent: str = "",
    session: str = "main",
    instructions: str = "",
    model: str | ModelProvider = "",
    tools: Sequence[Callable[..., Any]] = (),
    env: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> Reply[Any]: ...


def ask(
    text: str,
    home: str | Path | None = None,
    *,
    output_type: object = None,
    agent: str = "",
    session: str = "main",
    instructions: str = "",
    model: str | ModelProvider = "",
    tools: Sequence[Callable[..., Any]] = (),
    env: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> Reply[Any]:
    """Open a home, ask once, and close it. Where an event loop runs, as in a notebook, it waits in a thread of its own.

    Threads that ask in one session are answered one after another. A session that an agent of this program has open is
    refused; `await agent.ask(…)` asks there.
    """

    async def once() -> Reply[Any]:
        opened = Agent.open(
            home, agent=agent, session=session, instructions=instructions, model=model, tools=tools, env=env
        )
        home_folder = opened._state_folder  # noqa: SLF001 - this module's own class
        assert home_folder is not None
        with in_line(home_folder, opened.key) as turn:
            async with opened:
                await turn.comes()
                opened._refuse_open_twice()  # noqa: SLF001 - this module's own class
                return await opened.ask(
                    text, output_type=output_type, seconds=seconds, options=RunOptions(children="all")
                )

    return _finished(once())


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine comes to, whether or not this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    results: list[T] = []
    problems: list[BaseException] = []

    def alone() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as problem:  # noqa: BLE001 - it is raised where it was asked for
            problems.append(problem)

    thread = Thread(target=copy_context().run, args=(alone,), name="homarus.ask")
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return results[0]


def _meant(client: Client, agent: str, session: str) -> SessionKey:
    """Return the session that is named. A new one of an agent that there is not is a slip, and gets no folder."""
    key = client.resolve(arguments.is_text("agent", agent), arguments.session_name(session))
    if isinstance(client, LocalClient) and client.home.store(key.agent_id).find(key) is None:
        client.home.config.agent_named(key.agent_id)
    return key


def _called(model: object) -> str:
    return f"the class {model.__name__} itself" if isinstance(model, type) else type(model).__name__
