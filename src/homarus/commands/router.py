"""What happens to a message before its session's lane: commands, directives, skills by name, a session past its time.

Every client comes through here, so a command does the same wherever it is typed. What is left for the model goes into
the lane and is durable when `handle` returns.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.commands.command import Command, CommandContext, CommandReply, Need, SessionClient, split_command
from homarus.commands.directives import CLEAR, NAMES, SHORTCUTS, Parsed, Reader, Wishes, parse
from homarus.commands.settings import Caller, CommandSettings, caller_of
from homarus.commands.skills import mentioned_skills, skill_commands, use_skill
from homarus.commands.words import ATTACHED, OWN_COMMANDS, is_stop
from homarus.core.errors import HomarusError, Locked
from homarus.core.messages import Inbound
from homarus.core.routes import SessionKey
from homarus.queue.collect import Queued
from homarus.queue.modes import Overrides, parse_command
from homarus.queue.settings import Mode
from homarus.sessions.lifecycle import reset_command, strip_mentions
from homarus.sessions.settings import SessionSettings

REFUSED = "the message was refused: it came twice, or the queue is full"


class IntakeResult(Struct, frozen=True):
    """What became of a message: replies of the program, and the item in the lane if the model is to answer.

    Nothing of both means that it was ignored, as a command of somebody who may not give one; `refused` says why the lane
    did not take it.
    """

    replies: tuple[str, ...] = ()
    item: Queued | None = None
    refused: str = ""

    @property
    def text(self) -> str:
        """Return what the program says, as one text."""
        return "\n\n".join(self.replies)


class CommandRouter:
    """Reads what people tell the program, and answers it."""

    def __init__(self, client: SessionClient) -> None:
        self._client = client
        self._home = client.home
        self._active: tuple[CommandSettings | None, dict[str, Command]] = (None, {})

    @property
    def settings(self) -> CommandSettings:
        return self._home.config.block("commands", CommandSettings)

    @property
    def commands(self) -> dict[str, Command]:
        from homarus.commands.table import active

        settings = self.settings
        if self._active[0] is not settings:
            self._active = (settings, active(settings))
        return self._active[1]

    async def handle(self, key: SessionKey, inbound: Inbound, *, overrides: Overrides | None = None) -> IntakeResult:
        """Take a message in. A failure of a command is its reply; only a session that cannot be opened raises."""
        caller = caller_of(inbound, self.settings)
        body = strip_mentions(inbound.text) if key.is_shared else inbound.text
        if self.settings.text or caller.channel == "terminal":
            found = self._find(key, body, caller)
            if isinstance(found, IntakeResult):
                return found
            if found is not None:
                command, name, args = found
                reply = await self._run(command, self._context(key, caller, name, args))
                return await self._after(key, inbound, caller, reply, overrides)
            if caller.authorised and (used := await self._skill(key, body, caller)) is not None:
                return await self._after(key, inbound, caller, used, overrides)
            if caller.authorised and (unknown := self._unknown(key, inbound, body, caller)):
                return IntakeResult((unknown,))
        if caller.authorised and inbound.text.startswith("//"):
            inbound = replace(inbound, text=inbound.text[1:])  # meant literally
        return await self._message(key, inbound, caller, overrides)

    def _find(self, key: SessionKey, body: str, caller: Caller) -> IntakeResult | tuple[Command, str, str] | None:
        """Return the command that a whole message is; `IntakeResult()` ignores it, None leaves it to the model."""
        triggers = self._home.config.block("session", SessionSettings).reset_triggers
        fresh = reset_command(body, triggers, authorised=caller.authorised)
        if fresh is not None:
            name = "reset" if fresh.trigger == "/reset" else "new"
            return self.commands[name], name, f"soft {fresh.rest}".strip() if fresh.soft else fresh.rest
        if is_stop(body):
            return (self.commands["stop"], "stop", "") if caller.authorised else None
        split = split_command(body) or _bang(body) or _bare(body)
        command = self.commands.get(split[0]) if split else None
        if split is None:
            return None
        name, args = split
        if command is None:
            from homarus.commands.table import switched_off

            switch = switched_off(name, self.settings) if caller.owner and body.lstrip().startswith("/") else ""
            return (
                IntakeResult((f"/{name} is switched off. 'commands.{switch}: true' switches it on.",))
                if switch
                else None
            )
        if command.name in {"new", "reset"} and not caller.authorised:
            return None
        if not caller.authorised:
            return IntakeResult()
        if self._is_inline(key, name, args, body):
            return None
        if command.need is Need.OWNER and not caller.owner:
            return IntakeResult()
        return command, name, args

    def _unknown(self, key: SessionKey, inbound: Inbound, body: str, caller: Caller) -> str:
        """Return what is said to a message that looks like a command and is none: a slip should not cost a model call."""
        split = split_command(body)
        if split is None or not parse(body, self._reader(key)).wishes.empty:
            return ""
        from difflib import get_close_matches

        skills = [each.command for each in skill_commands(self._home, key.agent_id, remote=caller.remote)]
        own = (inbound.facts or {}).get(OWN_COMMANDS) or ()
        if split[0] in own:
            return f"/{split[0]} stands alone: nothing follows it."
        near = get_close_matches(split[0], [*own, *self.commands, *skills], n=3)
        hint = f" Did you mean {' or '.join(f'/{name}' for name in near)}?" if near else " /commands lists them."
        return f"There is no command /{split[0]}.{hint} To say it to the agent, write //{body.strip()[1:40]}…"

    def _is_inline(self, key: SessionKey, name: str, args: str, body: str) -> bool:
        """Say whether a message that begins like a command is really a text with something in front of it."""
        if name in SHORTCUTS:
            return bool(args) and not (name == "help" and args.lower().removeprefix("/") in self.commands)
        return name in NAMES and not parse(body, self._reader(key)).wishes.empty

    async def _run(self, command: Command, context: CommandContext) -> CommandReply:
        try:
            return await command.run(context)
        except Locked:
            raise
        except HomarusError as problem:
            return CommandReply(text=str(problem))

    async def _skill(self, key: SessionKey, body: str, caller: Caller) -> CommandReply | None:
        if split_command(body) is None:
            return None
        try:
            return await use_skill(self._client, key, body, caller)
        except HomarusError as problem:
            return CommandReply(text=str(problem))

    async def _after(
        self, key: SessionKey, inbound: Inbound, caller: Caller, reply: CommandReply, overrides: Overrides | None
    ) -> IntakeResult:
        """Say what a command said, and go on with the message that it leaves, if it leaves one."""
        replies = (reply.text,) if reply.text else ()
        if not reply.prompt:
            return IntakeResult(replies)
        if reply.steer:
            overrides = replace(overrides or Overrides(), mode=Mode.STEER)
        rest = replace(inbound, text=reply.prompt, facts={**(inbound.facts or {}), **reply.facts} or None)
        done = await self._message(key, rest, caller, overrides)
        return replace(done, replies=(*replies, *done.replies))

    async def _message(
        self, key: SessionKey, inbound: Inbound, caller: Caller, overrides: Overrides | None
    ) -> IntakeResult:
        """Apply the directives of a message, and put what is left into the lane."""
        plain = "/" not in inbound.text or not caller.authorised
        parsed = Parsed(inbound.text) if plain else parse(inbound.text, self._reader(key))
        wishes = parsed.wishes
        attached = str((inbound.facts or {}).get(ATTACHED, ""))
        replies: list[str] = []
        if not wishes.empty:
            from homarus.commands.groups.levels import persist, persist_model, refused

            context = self._context(key, caller, "", "")
            if problem := refused(context, wishes):
                return IntakeResult((problem,))
            try:
                replies += persist_model(context, wishes)
            except HomarusError as problem_:
                return IntakeResult((str(problem_),))
            replies += self._persist_queue(context, wishes.queue)
            for name in wishes.shortcuts:
                replies.append((await self._run(self.commands[name], self._context(key, caller, name, ""))).text)
            if parsed.only_directives and not inbound.images and not attached:
                replies += await persist(context, wishes)
                return IntakeResult(tuple(replies))
            overrides = overrides or wishes.queue
        await self._client.renew(key, inbound.channel, threaded=bool(inbound.thread))
        text, notes = (
            mentioned_skills(self._home, key.agent_id, parsed.text, remote=caller.remote)
            if caller.authorised
            else (parsed.text, ())
        )
        text = "\n\n".join(part for part in (text, attached) if part)
        facts = {**(inbound.facts or {}), **_facts(wishes, notes)}
        for word in (ATTACHED, OWN_COMMANDS):
            facts.pop(word, None)
        heard = await self._home.tell.handled("message:dispatch", key, inbound, text)
        if heard.done:
            return IntakeResult((*replies, *filter(None, [heard.reply])))
        if heard.content is not None:
            text, facts["taint"] = (
                heard.content.marked(self._home.ids),
                [*facts.get("taint", ()), *heard.content.sources],
            )
        item = self._client.submit(key, replace(inbound, text=text, facts=facts or None), overrides=overrides)
        return IntakeResult(tuple(replies), item, "" if item else REFUSED)

    def _context(self, key: SessionKey, caller: Caller, name: str, args: str) -> CommandContext:
        return CommandContext(
            name=name, args=args, session=key, caller=caller, client=self._client, table=self.commands
        )

    def _reader(self, key: SessionKey) -> Reader:
        from homarus.commands.groups.model import named_model
        from homarus.commands.table import reserved

        models, agent = self._home.models, self._home.config.agent(key.agent_id)
        taken = reserved()
        aliases = {short: target for short, target in models.names(agent).aliases.items() if short not in taken}
        return Reader(model=lambda word: named_model(models, agent, word), aliases=aliases, queue=_queue_words)

    def _persist_queue(self, context: CommandContext, wish: Overrides | None) -> list[str]:
        if wish is None:
            return []
        if wish.clear:
            context.save(queue_mode=None, queue_debounce_ms=None, queue_cap=None, queue_drop=None)
            return ["Queue: as configured."]
        fields = {
            "queue_mode": wish.mode and wish.mode.value,
            "queue_debounce_ms": wish.debounce_ms,
            "queue_cap": wish.cap,
            "queue_drop": wish.drop and wish.drop.value,
        }
        context.save(**{name: value for name, value in fields.items() if value is not None})
        return [f"Queue: {self._client.queue(context.session, context.caller.channel).rules}."]


def _queue_words(text: str) -> tuple[Overrides | None, str]:
    wish, rest = parse_command(text)
    return (None, text) if wish.empty else (wish, rest)


def _facts(wishes: Wishes, notes: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Return what holds for this message alone; a choice that is taken back leaves the session's own."""
    wished = {**wishes.levels, **{f"exec_{key}": value for key, value in wishes.exec.items()}}
    levels = {name: value for name, value in wished.items() if value != CLEAR}
    facts: dict[str, Any] = {"notes": [list(note) for note in notes]} if notes else {}
    if "thinking" in levels:
        facts["thinking"] = levels.pop("thinking")
    if levels:
        facts["levels"] = levels
    return facts


def _bare(body: str) -> tuple[str, str] | None:
    """Read a slash alone as the question which commands there are."""
    return ("commands", "") if body.strip() == "/" else None


def _bang(body: str) -> tuple[str, str] | None:
    """Read `! ls` as `/bash ls`; without that command it stays a text like any other."""
    rest = body.strip()
    return ("bash", rest[1:].strip()) if rest.startswith("!") and rest[1:].strip() else None
