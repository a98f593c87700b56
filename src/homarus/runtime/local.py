"""The client of a home that runs in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.structs import replace

from homarus.agent.home import Home
from homarus.agent.model import stored_override
from homarus.agent.prepare import compose_turn, lent_mounts, prepare
from homarus.agent.turn import chain_model
from homarus.agent.window import open_window
from homarus.commands.words import ATTACHED, OWN_COMMANDS, is_stop
from homarus.core.cancel import STARTS_OVER, STOPPED
from homarus.core.clock import epoch_ms
from homarus.core.errors import Cancelled, HomarusError, Locked, ModelError, Unknown
from homarus.core.events import Notice, RunEnded, RunEvent
from homarus.core.messages import (
    BY_PROGRAM,
    Assistant,
    Inbound,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Trust,
    Usage,
    User,
)
from homarus.core.routes import SessionKey
from homarus.models.provider import Stop
from homarus.models.ref import split_ref
from homarus.queue.collect import Queued
from homarus.queue.modes import Overrides
from homarus.queue.settings import Mode
from homarus.runtime.client import RunOptions, SessionStatus, Vocabulary
from homarus.runtime.elsewhere import Elsewhere
from homarus.runtime.events import EventFeed, Following, Listener
from homarus.runtime.reply import REPLY
from homarus.runtime.runtime import Runtime
from homarus.sessions.home import SessionHome
from homarus.sessions.row import SessionEntry
from homarus.sessions.settings import SessionSettings
from homarus.tools.execute import execute
from homarus.tools.registry import every_tool
from homarus.tools.tool import Tool

if TYPE_CHECKING:
    from homarus.commands.command import QueueState
    from homarus.commands.router import CommandRouter, IntakeResult
    from homarus.commands.settings import Caller
    from homarus.context.compact import Compacted
    from homarus.runtime.operations import Operations
    from homarus.sessions.search import Hit
    from homarus.sessions.store import SessionInfo
    from homarus.subagents.run import Children

REMEMBERED = 200  # messages that a hook is given of a session that ends
Events = AsyncGenerator[RunEvent, None]


class LocalClient:
    """The client of a home that runs in this process. It also is what the slash commands of that home stand on."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.home: Home = runtime.home
        # What a gateway puts here to be started anew.
        self.restarter: Callable[[], str] | None = None
        self.elsewhere = Elsewhere(runtime, self._handle)
        self._named: tuple[object, SessionHome] | None = None  # with the document that it was made from

    @property
    def children(self) -> Children:
        return self.runtime.children

    @cached_property
    def router(self) -> CommandRouter:
        from homarus.commands.router import CommandRouter

        return CommandRouter(self)

    @cached_property
    def operations(self) -> Operations:
        from homarus.runtime.operations import Operations

        return Operations(self.runtime)

    def resolve(self, agent: str, session: str) -> SessionKey:
        chosen = self.home.config.agent_named(agent).id if agent else ""
        document = self.home.config.document
        if self._named is None or self._named[0] is not document:
            sessions = SessionHome.of(self.home.config, clock=self.home.clock, ids=self.home.ids)
            self._named = (document, sessions)  # which reads an index again when it changed
        return self._named[1].key(session, chosen)

    # Messages.

    async def run(self, session: SessionKey, text: str, options: RunOptions) -> AsyncIterator[RunEvent]:
        _, events = await self.begin(session, text, options)
        async with aclosing(events):
            async for event in events:
                yield event

    async def begin(self, session: SessionKey, text: str, options: RunOptions) -> tuple[IntakeResult, Events]:
        """Hand a message in; return what became of it, when that is durable, and then all that happens, which must be read."""
        events = EventFeed(partial(self.runtime.answering, session))
        unlisten = self.runtime.listen(session, events.put)
        try:
            taken = await self._hand_in(session, text, options)
        except BaseException:
            unlisten()
            raise
        return taken, self._told(session, taken, options, events, unlisten)

    async def _told(
        self,
        session: SessionKey,
        taken: IntakeResult,
        options: RunOptions,
        events: EventFeed,
        unlisten: Callable[[], None],
    ) -> Events:
        runtime = self.runtime
        try:
            for reply in taken.replies:
                yield Notice(reply, REPLY)
            if taken.refused:
                raise HomarusError(taken.refused)
            if taken.item is None:
                yield RunEnded("", "ok")
                return
            if runtime.open_lane(session) is None:
                who = "another agent of this program" if self.elsewhere.in_this_process(session) else "another program"
                yield Notice(f"{who} has {session} open; the message is queued there", "queued")
                async with aclosing(self.elsewhere.asked(session, taken.item, options.seconds)) as asked:
                    async for event in asked:
                        yield event
                        if isinstance(event, RunEnded):
                            return
            lane, owed = runtime.lane(session), partial(runtime.owed, session)
            everyone = options.children == "all"
            async for event in Following(lane, taken.item.key, events, owed, everyone=everyone):
                yield event
        finally:
            unlisten()

    async def send(self, session: SessionKey, text: str, options: RunOptions | None = None) -> IntakeResult:
        taken = await self._hand_in(session, text, options or RunOptions())
        left = taken.item is not None and self.runtime.open_lane(session) is None
        if left and (stuck := self.elsewhere.stuck(session)):
            self.runtime.emit(session, Notice(stuck, "warning"))
        return taken

    async def _hand_in(self, session: SessionKey, text: str, options: RunOptions) -> IntakeResult:
        await self._check(session, options)
        # Rights of its own need a turn of its own.
        apart = Overrides(mode=Mode.FOLLOWUP) if options.folders or options.cwd else None
        return await self.take(session, self._inbound(text, options), overrides=options.queue or apart)

    async def _check(self, session: SessionKey, options: RunOptions) -> None:
        """Refuse what no turn could run with. Nothing is kept of the message: sent again, it would be there twice."""
        lent_mounts(self.home.config, (*options.folders, options.cwd), self.home.workspace(session.agent_id))
        if not options.model:
            return
        from homarus.models.ready import check_asked

        agent, keys = self.home.config.agent(session.agent_id), not self.elsewhere.holds(session)
        try:
            check_asked(self.home.models, agent, options.model, keys=keys)
        except Unknown:
            await self.home.toolkit.refresh()  # its provider may be one of a plugin that nobody has needed yet
            check_asked(self.home.models, agent, options.model, keys=keys)

    async def take(self, session: SessionKey, inbound: Inbound, *, overrides: Overrides | None = None) -> IntakeResult:
        """Take a message in, whoever it came from; it is durable or answered when this returns."""
        # A command belongs to the process that has the session open; of one that does not answer we do what needs no session.
        is_command = inbound.text.lstrip().startswith("/") or is_stop(inbound.text)
        if is_command and self.elsewhere.holds(session) and (done := await self.elsewhere.command(session, inbound)):
            return done
        try:
            return await self.router.handle(session, inbound, overrides=overrides)
        except Locked as held:
            if held.ours:
                self.elsewhere.refuse(session)
            raise

    async def _handle(self, session: SessionKey, inbound: Inbound) -> IntakeResult:
        return await self.router.handle(session, inbound)

    async def follow(self, session: SessionKey) -> None:
        await self.elsewhere.follow(session)

    def is_elsewhere(self, session: SessionKey) -> bool:
        return self.elsewhere.holds(session)

    def _inbound(self, text: str, options: RunOptions) -> Inbound:
        facts = {
            "model": options.model,
            "thinking": options.thinking,
            "seconds": options.seconds,
            "runId": options.run_id,
            "instructions": options.instructions,
            "outputSchema": options.output_schema,
            "needs": list(options.needs),
            "callerTools": to_builtins(options.tools),
            "toolChoice": options.tool_choice,
            "taint": list(options.taint),
            "provenance": {"kind": BY_PROGRAM} if options.by_program else None,
            "folders": list(options.folders),
            "cwd": options.cwd,
            ATTACHED: options.attached,
            OWN_COMMANDS: list(options.own_commands),
        }
        given = {key: value for key, value in facts.items() if value not in ("", None, [], ())}
        return Inbound(
            id=options.message_id or self.home.ids.uuid(),
            channel=options.channel,
            text=text,
            trust=options.trust,
            timestamp=epoch_ms(self.home.clock.now()),
            images=options.images,
            facts=given or None,
        )

    def submit(self, key: SessionKey, inbound: Inbound, *, overrides: Overrides | None = None) -> Queued | None:
        """Take a message into its lane; where another process of ours holds the session, leave it there. Never refused."""
        try:
            return self.runtime.submit(key, inbound, overrides=overrides)
        except Locked as held:
            if not held.ours:
                raise
            return self.runtime.leave_letter(key, inbound, overrides=overrides)

    def steer(self, session: SessionKey, text: str) -> bool:
        if not self.runtime.lane(session).busy:
            return False
        return self.submit(session, self._inbound(text, RunOptions())) is not None

    def abort(self, session: SessionKey, reason: str = STOPPED) -> bool:
        lane = self.runtime.open_lane(session)
        stopped = lane.stop(reason) if lane is not None else False
        stopped = bool(self.children.stop(session, reason)) or stopped
        return self.elsewhere.take_back(session) or stopped

    async def stop(self, key: SessionKey, reason: str = STOPPED) -> bool:
        """Abort, and return when everything has ended. Raises Locked where only another process could do that."""
        stopped = await self.runtime.stop(key, reason)
        if not stopped:
            self.elsewhere.refuse(key)
        return stopped

    def listen(self, session: SessionKey, listener: Listener) -> Callable[[], None]:
        return self.runtime.listen(session, listener)

    def attend(self, session: SessionKey) -> Callable[[], None]:
        self.runtime.stays = True
        return self.home.toolkit.approvers.arrive(session, partial(self.runtime.emit, session))

    async def answer(self, approval_id: str, decision: str) -> str:
        return await self.home.toolkit.answer(approval_id, decision)

    # What is known about sessions.

    def queue(self, key: SessionKey, channel: str) -> QueueState:
        """Return what the session's lane is doing."""
        from homarus.commands.command import QueueState

        rules, lane = self.runtime.rules(key, channel), self.runtime.open_lane(key)
        words = f"{rules.mode} (debounce {rules.debounce_ms} ms, cap {rules.cap}, drop {rules.drop})"
        return QueueState(lane.busy, len(lane.waiting), words) if lane else QueueState(rules=words)

    async def row(self, session: SessionKey) -> SessionEntry:
        found = self.home.store(session.agent_id).find(session)
        return found.entry if found else SessionEntry()

    async def status(self, session: SessionKey) -> SessionStatus:
        lane = self.runtime.open_lane(session)
        model, row = await self._next_model(session), await self.row(session)
        said = [line.message for line in await self.operations.transcript(session)]
        answers = [each.usage for each in said if isinstance(each, Assistant)]
        if not model and row.model_provider and row.model:
            model = f"{row.model_provider}/{row.model}"  # what was picked without being told, last time
        ref = split_ref(model)
        return SessionStatus(
            row=row,
            messages=len(said),
            cost=await self.operations.spent(session),
            model=model,
            window=self.home.models.window(self.home.config.agent(session.agent_id), ref) if ref else 0,
            used=_used(row, answers),
            busy=lane.busy if lane else False,
            running=self.runtime.running(session),
            waiting=len(lane.waiting) if lane else 0,
            children=len(self.children.books.look(session).open),
        )

    async def _next_model(self, key: SessionKey) -> str:
        agent, found = self.home.config.agent(key.agent_id), self.home.store(key.agent_id).find(key)
        try:
            chosen = stored_override(found.entry, key) if found else None
            return (await self.home.models.chain(agent, override=chosen)).primary.key
        except HomarusError:
            return ""  # the turn says what is wrong

    async def history(self, session: SessionKey, limit: int) -> Sequence[Message]:
        return [line.message for line in await self.operations.transcript(session)][-limit:]

    async def sessions(self, agent: str) -> Sequence[SessionInfo]:
        return self.home.store(self.home.config.agent_named(agent).id).list()

    async def patch(self, session: SessionKey, **fields: Any) -> None:
        if fields.get("label"):
            fields["label"] = self.home.store(session.agent_id).free_name(fields["label"], session)
        with self.home.opened(session) as live:
            live.update(**fields)
            facts = {"patch": fields, "sessionId": live.writer.session_id}
        await self.home.tell("session:patch", session, facts)

    async def search(self, text: str, limit: int) -> Sequence[Hit]:
        from homarus.sessions.search import FILE, SessionSearch

        stores = [self.home.store(agent.id) for agent in self.home.config.agents]
        places = [info.place for store in stores for info in store.list(orphans=True)]
        places += [place for store in stores for place in store.archives()]

        def look() -> Sequence[Hit]:
            with SessionSearch(self.home.config.paths.own_dir / FILE) as index:
                index.refresh(places)
                return index.find(text, limit=limit)

        return await asyncio.to_thread(look)

    async def vocabulary(self, session: SessionKey) -> Vocabulary:
        from homarus.commands.skills import skill_commands
        from homarus.commands.table import unique

        table, skills = unique(self.router.commands), skill_commands(self.home, session.agent_id)
        names = self.home.models.names(self.home.config.agent(session.agent_id))
        models = ("list", "status", "default", *names.aliases, *names.configured)
        arguments = {row.name: row.words for row in table if row.words}
        return Vocabulary(
            commands={row.name: row.help for row in table} | {each.command: each.description for each in skills},
            arguments={**arguments, "model": models, "skill": tuple(each.skill.name for each in skills)},
            skills={each.skill.name: each.description for each in skills},
        )

    # What a person can ask of a session besides an answer. While it goes on no turn runs there, and `stop` ends it.

    async def start_over(self, key: SessionKey, event: str, caller: Caller) -> list[str]:
        """Give the session a fresh transcript; what runs in it ends first, and the old transcript becomes an archive."""
        await self.runtime.stop(key, STARTS_OVER)
        async with self.runtime.exclusively(key):
            if self.home.store(key.agent_id).find(key) is None:
                return []
            notes = await self.tell_hooks(event, key, caller)
            self.home.tell.session_ended(key, event.rpartition(":")[2])
            self.home.start_over(key, "new" if event == "command:new" else "reset")
            return notes

    async def renew(self, key: SessionKey, channel: str, *, threaded: bool = False) -> str:
        """Start a session over that is past its time, as the configuration says; return why, or nothing."""
        from homarus.commands.settings import Caller

        settings, lane = self.home.config.block("session", SessionSettings), self.runtime.open_lane(key)
        if not (settings.reset or settings.reset_by_type or settings.reset_by_channel):
            return ""
        # What sub-agents are at work on belongs to the old conversation; it ends when they have reported.
        if (lane is not None and lane.busy) or self.runtime.owed(key):
            return ""
        zone, store = self.home.zone(key.agent_id), self.home.store(key.agent_id)
        why = store.overdue(key, settings, zone, channel=channel, threaded=threaded)
        if why:
            await self.start_over(key, f"session:auto-reset:{why}", Caller(channel=channel))
        return why or ""

    async def tell_hooks(self, event: str, key: SessionKey, caller: Caller) -> list[str]:
        """Tell the hooks of an event, with the last messages of the session, and return what they want to say."""
        name, _, reason = event.partition(":auto-reset:")
        name = f"{name}:auto-reset" if reason else name
        if not self.home.tell.anybody(name):
            return []
        with self.home.opened(key) as live:
            said: list[Message] = list(live.writer.history()[-REMEMBERED:])
            facts: dict[str, Any] = {"messages": said, "sessionId": live.writer.session_id}
        facts |= {"senderId": caller.sender, "commandSource": caller.channel}
        if reason:
            facts["reason"] = reason
        return await self.home.tell(name, key, facts)

    async def compact(self, key: SessionKey, focus: str) -> Compacted:
        """Summarise the older part of a session."""
        from homarus.context.compact import Compacted

        async with self.runtime.exclusively(key, "compacting") as cancel:
            turn = self.runtime.turn_for(key, cancel=cancel)
            with self.home.opened(key) as live:
                prepared = await prepare(self.home, turn, live.refresh())
                prompt = compose_turn(self.home, turn, live, prepared)
                model = chain_model(live, prepared, prompt)
                window = open_window(self.home, turn, live, prepared, prompt, model)
                try:
                    return await window.compact_now(focus, cancel)
                except Cancelled as stop:
                    return Compacted(False, stop.message)

    async def aside(self, key: SessionKey, question: str) -> str:
        """Answer from the session's history, without tools; nothing of it is stored."""
        answer, problem = "", None
        async with self.runtime.exclusively(key, "answering beside the conversation") as cancel:
            turn = self.runtime.turn_for(key, cancel=cancel)
            with self.home.opened(key) as live:
                prepared = await prepare(self.home, turn, live.refresh())
                prompt = compose_turn(self.home, turn, live, prepared)
                model = chain_model(live, prepared, prompt)
                window = open_window(self.home, turn, live, prepared, prompt, model)
                history = (*await window.assemble(cancel), User((Text(question),)))
                async for event in model.stream(history, tools=False, cancel=cancel):
                    if isinstance(event, Stop):
                        answer, problem = event.message.text, event.error
        if isinstance(problem, ModelError):
            raise problem
        return answer

    async def call_tool(self, key: SessionKey, name: str, arguments: dict[str, Any], trust: Trust) -> ToolResult:
        """Run one tool as a turn of this session would, behind the same gate."""
        async with self.runtime.exclusively(key) as cancel:
            turn = replace(self.runtime.turn_for(key, cancel=cancel), trust=trust)
            with self.home.opened(key) as live:
                prepared = await prepare(self.home, turn, live.refresh())
                call = ToolCall(f"call_{self.home.ids.short()}", name, arguments)
                return await execute(call, prepared.box, prepared.context)

    def add_tool(self, tool: Tool) -> None:
        if tool.name.lower() in every_tool():
            raise HomarusError(f"there is a tool '{tool.name}' already", cure="give the function another name")
        self.home.toolkit.add(tool)

    async def restart(self) -> str:
        """Start the gateway anew that serves this home; a terminal is a program of its own."""
        if self.restarter is not None:
            return self.restarter()
        return "No gateway runs this session. Leave with /quit and start again."

    def leaving(self) -> Sequence[str]:
        """Return what becomes of the turns that run now when this program ends, in words."""
        told = []
        for key in self.runtime.lanes.busy:
            lane = self.runtime.open_lane(key)
            if lane is not None and lane.asked_elsewhere:
                told.append(f"what another program asked in {key} is answered by whoever opens that session next")
            elif not key.is_subagent:
                told.append(f"what ran in {key} is stopped")
        return told

    async def aclose(self) -> None:
        await self.elsewhere.finish()
        await self.runtime.aclose()


def _used(row: SessionEntry, answers: Sequence[Usage]) -> int:
    """Return how many tokens the window holds: as a compaction left it, else as the newest answer was counted."""
    if row.compaction_count and row.total_tokens and not row.total_tokens_fresh:
        return row.total_tokens
    return next((usage.total for usage in reversed(answers) if usage.total), 0)
