"""The window of a turn put together: its budget, the engine, the session's counts, and the silent calls that keep it small."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from homarus.agent.model import ChainModel, Summaries
from homarus.agent.open_session import OpenSession
from homarus.agent.prepare import Prepared, compose_turn
from homarus.context.budget import budget_for, measure, most_for
from homarus.context.engine import EngineCall
from homarus.context.settings import FLUSH_PROMPT, CompactionSettings, FlushSettings, PruningSettings
from homarus.context.window import Ports, SessionWindow, WindowFacts
from homarus.core.clock import epoch_ms
from homarus.core.messages import Assistant, Message
from homarus.core.text import estimate_tokens
from homarus.core.tools import ToolSpec
from homarus.models.select import Chain
from homarus.storage.cache import BoundedCache
from homarus.tools.loopguard import LoopGuard
from homarus.workspace.audience import Audience
from homarus.workspace.loader import read_sections

if TYPE_CHECKING:
    from homarus.agent.compose import ComposedPrompt
    from homarus.agent.home import Home
    from homarus.agent.turn import Turn
    from homarus.context.summarize import Ask

# What a provider's request puts around the name, the description and the parameters of each tool.
WRAPPING_CHARS = 60
_prompt_tokens: BoundedCache[str, tuple[tuple[ToolSpec, ...], int]] = BoundedCache(
    256
)  # a worker of a fleet has many homes


def prompt_tokens(system: str, tools: tuple[ToolSpec, ...]) -> int:
    """Return about how many tokens every request holds before its messages; counted once while turns use the same."""
    known = _prompt_tokens.get(system)
    if known is None or known[0] != tools:
        schema = sum(len(msgspec.json.encode([spec.name, spec.description, spec.parameters])) for spec in tools)
        known = (tools, estimate_tokens(system) + (schema + WRAPPING_CHARS * len(tools)) // 4)
        _prompt_tokens.put(system, known)
    return known[1]


class CompactionState:
    """What a session remembers of its compactions: the counts in its row, the failure in its log, and how often saving
    memory failed as long as it is open.

    The counts make saving memory happen once in each cycle; they live across restarts.
    """

    def __init__(self, live: OpenSession, guard: LoopGuard) -> None:
        self._live = live
        self._guard = guard

    @property
    def compactions(self) -> int:
        return self._live.compactions

    @property
    def flushed_at(self) -> int | None:
        """Return the count of compactions at the last time memory was saved."""
        return self._live.entry.flushed_at_compaction

    @property
    def failed_at(self) -> int | None:
        """Return the size of the history when it could last not be compacted."""
        return self._live.compaction_failed_at

    @failed_at.setter
    def failed_at(self, tokens: int | None) -> None:
        if tokens != self.failed_at:
            self._live.note_failed_compaction(tokens)

    @property
    def flush_failures(self) -> int:
        return self._live.flush_failures

    @flush_failures.setter
    def flush_failures(self, count: int) -> None:
        self._live.flush_failures = count

    def compacted(self, tokens_after: int) -> None:
        """Count one more; where it left an entry in the log, that says which one it was."""
        number = max(self._live.entry.compaction_count + 1, self._live.compactions)
        self._live.update(compaction_count=number, total_tokens=tokens_after, total_tokens_fresh=False)
        self._guard.compacted()

    def flushed(self) -> None:
        now = epoch_ms(self._live.store.clock.now())
        self._live.update(memory_flush_at=now, memory_flush_compaction_count=self.compactions)


def open_window(
    home: Home, turn: Turn, live: OpenSession, prepared: Prepared, prompt: ComposedPrompt, model: ChainModel
) -> SessionWindow:
    """Return the window of a turn; `model` is told when the system prompt has to change."""
    agent = home.config.agent(turn.agent_id)
    settings = agent.block("compaction", CompactionSettings)

    def count(purpose: str, answer: Assistant) -> None:
        from homarus.sessions.usage import usage_note

        prepared.meter.add(answer.usage)
        live.writer.append("custom", usage_note(purpose, answer), durable=False)

    async def flush(_reason: str, shown: tuple[Message, ...]) -> bool:
        from homarus.agent.flush import MemoryFlush

        saver = _saver(home, turn, model, settings.memory_flush)
        counted, fits = partial(count, "flush"), partial(_fits, fixed, prepared.window_tokens)
        saving = MemoryFlush(saver, prepared.box, prepared.context, counted, fits)
        return await saving.run(shown, settings.memory_flush.prompt or FLUSH_PROMPT, home.today(turn.agent_id))

    async def summarize(ask: Ask) -> str:
        chain = _chain(home, turn.agent_id, settings.model) if settings.model else prepared.chain
        return await Summaries(prepared.client, chain, turn.cancel, partial(count, "compaction"))(ask)

    async def tell(moment: str, known: dict[str, Any]) -> list[str]:
        return await home.tell(moment, turn.session, {"sessionId": live.writer.session_id, **known})

    def renew() -> int | None:
        # Files that an earlier turn told are in the part that is summarised now.
        system = compose_turn(home, turn, live, prepared, after_compaction=True).prompt.system
        if system == prompt.prompt.system:
            return None
        model.instruct(system)
        return prompt_tokens(system.text, prepared.specs)

    fixed = prompt_tokens(prompt.prompt.system.text, prepared.specs)
    facts = WindowFacts(
        budget=budget_for(prepared.window_tokens, settings, fixed),
        compaction=settings,
        pruning=agent.block("contextPruning", PruningSettings).for_provider(prepared.chain.primary.provider),
        call=_engine_call(turn, live, prepared),
        fixed_tokens=fixed,
        heartbeat=turn.heartbeat,
        writable=can_save(turn, prepared),
        verbose=(turn.levels.get("verbose") or live.entry.verbose_level or "off") != "off",
    )
    ports = Ports(
        host=home.engine(turn.agent_id),
        cycle=CompactionState(live, prepared.guard),
        summarize=summarize,
        flush=flush,
        emit=turn.emit,
        clock=home.clock,
        tell=tell,
        add=model.add,
        rules=partial(_rules, home, prepared, settings),
        renew=renew,
    )
    return SessionWindow(live.writer, facts, ports)


def _fits(fixed: int, window: int, history: tuple[Message, ...]) -> bool:
    return measure(history, fixed=fixed, line=most_for(window)) <= most_for(window)


def _chain(home: Home, agent_id: str, model: str) -> Chain:
    """Return the chain of a model that a setting names; `ConfigError` where it names none."""
    return Chain((home.models.names(home.config.agent(agent_id)).resolve(model).ref,), "config", strict=True)


def _saver(home: Home, turn: Turn, model: ChainModel, settings: FlushSettings) -> ChainModel:
    """Return what memory is saved with: the turn's own model, unless the settings name another one or say more."""
    chain = _chain(home, turn.agent_id, settings.model) if settings.model else None
    return model.variant(chain, settings.system_prompt or "") if chain or settings.system_prompt else model


def _rules(home: Home, prepared: Prepared, settings: CompactionSettings) -> str:
    names, context = settings.post_compaction_sections, prepared.context
    return read_sections(context.workspace, names, home.today(context.agent_id)) if names else ""


def can_save(turn: Turn, prepared: Prepared) -> bool:
    """Say whether a turn can write down what is worth keeping: what others say is not for the owner's memory, and what one
    agent hands to another is not for that one's."""
    context = prepared.context
    heard = Audience(session=turn.session, trust=context.trust, chat_type=turn.chat_type)
    if context.shared or not heard.owner_alone or set(context.lineage) - {context.agent_id}:
        return False
    can_write = context.sandbox.can_write(str(context.workspace / "memory"))
    return can_write and bool(prepared.box.tools.keys() & {"write", "memory_retain"})


def _engine_call(turn: Turn, live: OpenSession, prepared: Prepared) -> EngineCall:
    return EngineCall(
        session_id=live.writer.session_id,
        session_key=str(turn.session),
        session_file=live.writer.path,
        token_budget=prepared.window_tokens,
        tools=tuple([spec.name for spec in prepared.specs]),
        model=prepared.chain.primary.key,
        prompt=turn.text,
        heartbeat=turn.heartbeat,
    )
