"""What commands ask of the program, answered by the runtime. The one place that knows both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from homarus import __version__
from homarus.agent.budget import Spent
from homarus.agent.childbook import Kept
from homarus.agent.commands.command import CommandReply, QueueState
from homarus.agent.commands.settings import Caller
from homarus.agent.commands.table import reserved
from homarus.agent.live import Live
from homarus.config.keypath import parse_path
from homarus.config.view import Config
from homarus.config.write import Operation, change
from homarus.context.compact import Compacted
from homarus.core.clock import Clock
from homarus.core.errors import HomarusError
from homarus.core.messages import Message, Trust
from homarus.core.routes import SessionKey
from homarus.core.tools import ToolSpec
from homarus.gateway.app import Runtime
from homarus.gateway.compose import PromptRequest
from homarus.gateway.intake.errands import ask_aside, call_tool, compact_now
from homarus.gateway.past import past_of
from homarus.models.access import Models
from homarus.models.ref import split_ref
from homarus.prompt.kept import last_run
from homarus.prompt.report import About, Report
from homarus.prompt.sections.tooling import told_to
from homarus.sessions.settings import SessionSettings
from homarus.sessions.store import SessionStore
from homarus.skills.agent import settings_of
from homarus.skills.commands import SkillCommand, command_table, instructions, invocation, prompt_for, references
from homarus.skills.discover import Skill, read_text
from homarus.skills.gate import eligible
from homarus.skills.library import SkillLibrary

REMEMBERED = 200  # messages that a hook is given of a session that ends


class Decider(Protocol):
    """Where questions of running turns wait for a person."""

    async def answer(self, approval_id: str, decision: str) -> str:
        """Decide one question (`allow-once`, `allow-always` or `deny`) and return what became of it, in words."""
        ...


class Desk:
    """The host of all commands of one home."""

    def __init__(self, runtime: Runtime, decider: Decider | None = None) -> None:
        self.runtime = runtime
        self.decider = decider
        self.version = __version__
        self._skills = SkillLibrary(settings_of(runtime.config).limits)
        self.overrides: dict[str, Any] = {}

    @property
    def config(self) -> Config:
        """Return the configuration."""
        return self.runtime.config

    @property
    def clock(self) -> Clock:
        """Return the clock."""
        return self.runtime.clock

    @property
    def models(self) -> Models:
        """Return the models of this home."""
        return self.runtime.models

    def store(self, agent_id: str) -> SessionStore:
        """Return an agent's sessions."""
        return self.runtime.store(agent_id)

    def workspace(self, agent_id: str) -> Path:
        """Return an agent's folder."""
        return self.runtime.workspace(agent_id)

    def opened(self, key: SessionKey) -> AbstractContextManager[Live]:
        """Open a session for writing while the context lasts."""
        return self.runtime.opened(key)

    def queue(self, key: SessionKey, channel: str) -> QueueState:
        """Return what the session's lane is doing."""
        rules, lane = self.runtime.rules(key, channel), self.runtime.open_lane(key)
        words = f"{rules.mode} (debounce {rules.debounce_ms} ms, cap {rules.cap}, drop {rules.drop})"
        return QueueState(lane.busy, len(lane.waiting), words) if lane else QueueState(rules=words)

    async def stop(self, key: SessionKey, reason: str) -> bool:
        """Forget what waits and end what runs."""
        return await self.runtime.stop(key, reason)

    async def start_over(self, key: SessionKey, event: str, caller: Caller) -> list[str]:
        """Give the session a fresh transcript; what runs in it ends first, and the old transcript becomes an archive."""
        await self.runtime.stop(key, "the session starts over")
        async with self.runtime.errand(key):
            info = self.store(key.agent_id).find(key)
            if info is None:
                return []
            notes = await self.tell_hooks(event, key, caller)
            self.runtime.turns.open.forget(key)
            self.store(key.agent_id).reset(key, by="new" if event == "command:new" else "reset")
            return notes

    async def renew(self, key: SessionKey, channel: str, *, threaded: bool = False) -> str:
        """Start a session over that is past its time, as the configuration says; return why, or nothing."""
        settings, lane = self.config.block("session", SessionSettings), self.runtime.open_lane(key)
        if not (settings.reset or settings.reset_by_type or settings.reset_by_channel):
            return ""
        # What sub-agents are at work on belongs to the old conversation; it ends when they have reported.
        if (lane is not None and lane.busy) or self.runtime.children.books.count(key):
            return ""
        zone = self.runtime.zone(key.agent_id)
        why = self.store(key.agent_id).overdue(key, settings, zone, channel=channel, threaded=threaded)
        if why:
            await self.start_over(key, f"session:auto-reset:{why}", Caller(channel=channel))
        return why or ""

    async def tell_hooks(self, event: str, key: SessionKey, caller: Caller) -> list[str]:
        """Tell the hooks of an event, with the last messages of the session, and return what they want to say."""
        name, _, reason = event.partition(":auto-reset:")
        name = f"{name}:auto-reset" if reason else name
        if not self.runtime.tell.anybody(name):
            return []
        with self.opened(key) as live:
            said: list[Message] = list(live.writer.history()[-REMEMBERED:])
            facts: dict[str, Any] = {"messages": said, "sessionId": live.writer.session_id}
        facts |= {"senderId": caller.sender, "commandSource": caller.channel}
        if reason:
            facts["reason"] = reason
        return await self.runtime.tell(name, key, facts)

    async def compact(self, key: SessionKey, focus: str) -> Compacted:
        """Summarise the older part of a session now."""
        return await compact_now(self.runtime, key, focus)

    def tools(self, key: SessionKey) -> tuple[ToolSpec, ...]:
        """Return the tools of the session's next turn."""
        return tuple(tool.spec for tool in self.runtime.toolkit.box(key.agent_id).tools.values())

    def report(self, key: SessionKey, *, fresh: bool = False) -> Report:
        """Return the figures of the last run's prompt; `fresh`, or where there was none, those of the next turn's."""
        past = past_of(self.config, self.clock, key)
        ref = split_ref(past.turn.runtime.model or self.runtime.composer.agent(key.agent_id).model)
        window = self.models.window(self.config.agent(key.agent_id), ref) if ref else 0
        request = PromptRequest(
            agent_id=key.agent_id,
            session=key,
            window=window,
            tools=told_to(window, self.tools(key)),
            turn=past.turn,
            trust=Trust.OWNER,
            chat_type="direct",
            sandbox=self.runtime.sandbox(key.agent_id, key),
            session_id=past.session_id,
        )
        composed = self.runtime.composer.prompt_for(request)
        about = About(window=window, session_tokens=past.tokens, messages=past.messages)
        report = self.runtime.composer.report_for(composed, about=about, said=past.said)
        return report if fresh else last_run(past.report, report)

    def skills(self, agent_id: str) -> tuple[SkillCommand, ...]:
        """Return the skills that a person may call by name."""
        agent = self.runtime.composer.agent(agent_id)
        found = self._skills.load(agent.skill_roots)
        return command_table(eligible(found.skills, agent.skill_gate), reserved())

    async def use_skill(self, key: SessionKey, text: str, caller: Caller) -> CommandReply | None:
        """Return the turn that a called skill asks for, or the output of the tool that it hands its input to."""
        if "/" not in text:
            return None
        asked = invocation(text, self.skills(key.agent_id))
        if asked is None:
            return None
        if asked.tool:
            arguments = {"command": asked.input, "commandName": asked.skill.name, "skillName": asked.skill.name}
            return CommandReply(text=await self.call_tool(key, asked.tool, arguments, caller))
        return CommandReply(prompt=prompt_for(asked, read_text(asked.skill, self._skills.limits)))

    async def call_tool(self, key: SessionKey, name: str, arguments: dict[str, Any], caller: Caller) -> str:
        """Run one tool as a turn of the session would, behind the same gate; return its output."""
        trust = Trust.OWNER if caller.owner else caller.trust
        return (await call_tool(self.runtime, key, name, arguments, trust)).text

    def mentioned(self, agent_id: str, text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return a text with its `$` escapes undone, and the instructions of the skills that it mentions."""
        if "$" not in text:
            return text, ()
        found = references(text, self.skills(agent_id))
        return found.text, tuple((f"Skill {skill.name}", self._instructions(skill)) for skill in found.skills)

    def _instructions(self, skill: Skill) -> str:
        return instructions(read_text(skill, self._skills.limits), skill.folder)

    def children(self, key: SessionKey) -> Sequence[Kept]:
        """Return the sub-agents of a session and theirs."""
        return self.runtime.children.books.tree(key)

    def stop_child(self, run_id: str) -> bool:
        """Stop one sub-agent and everything below it."""
        return self.runtime.children.cancel(run_id, "stopped by the user", quiet=False)

    def spent_today(self, agent_id: str) -> Spent:
        """Return what an agent used today."""
        return self.runtime.spending.today(agent_id)

    async def approve(self, approval_id: str, decision: str) -> str:
        """Answer a pending question of the running turn."""
        if self.decider is None:
            raise HomarusError("nothing waits for an approval here")
        return await self.decider.answer(approval_id, decision)

    async def aside(self, key: SessionKey, question: str) -> str:
        """Answer a question from the session's history without adding a line to it."""
        return await ask_aside(self.runtime, key, question)

    def configure(self, path: str, value: Any, *, remove: bool = False) -> str:
        """Change one key of the configuration file; it holds for what starts after this."""
        step = Operation("unset" if remove else "set", parse_path(path), value)
        done = change(self.config, self.runtime.env, [step])
        where = ", ".join(str(item.path) for item in done)
        return (
            f"{path} is {'removed' if remove else 'set'} in {where}; it holds from the next start."
            if done
            else "Nothing changed."
        )

    def override(self, values: Mapping[str, Any]) -> None:
        """Let these settings, and no others, hold in this process instead of those in the file."""
        self.config.overlay({parse_path(path): value for path, value in values.items()})
        self.overrides = dict(values)

    async def restart(self) -> str:
        """Say that there is nothing to restart: a terminal is a program of its own, and no gateway serves this home."""
        return "No gateway runs this session. Leave with /quit and start again."
