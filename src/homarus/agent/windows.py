"""The window of a turn put together: its budget, the engine, the counts, and the calls that nobody sees the answers of."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.cycle import Counts
from homarus.agent.fixed import FixedTokens
from homarus.agent.live import Live
from homarus.agent.model import ChainModel, Summaries
from homarus.agent.services import ComposeRequest, Prepared, Speech, TurnServices
from homarus.context.budget import budget_for
from homarus.context.engine import EngineCall
from homarus.context.flush import FLUSH_PROMPT
from homarus.context.pins import pinned
from homarus.context.settings import CompactionSettings, PruningSettings
from homarus.context.window import Ports, SessionWindow, WindowFacts
from homarus.core.errors import ConfigError
from homarus.core.events import Notice
from homarus.core.later import later
from homarus.core.messages import Assistant, Message
from homarus.workspace.loader import read_sections

if TYPE_CHECKING:
    from homarus.agent import flush as keeping
    from homarus.agent.turn import Given, Turn
    from homarus.context.summarize import Ask
    from homarus.sessions import usage as costs
else:
    costs = later("homarus.sessions.usage")
    keeping = later("homarus.agent.flush")


class Scene(Struct, frozen=True):
    """A turn with everything that it runs with."""

    turn: Turn
    given: Given
    live: Live
    prepared: Prepared
    speech: Speech


def speech_for(turn: Turn, live: Live, prepared: Prepared) -> ComposeRequest:
    """Return what the prompt of a turn is composed for, as its session stands now."""
    return ComposeRequest(
        agent_id=turn.agent_id,
        session=turn.session,
        session_id=live.writer.session_id,
        prepared=prepared,
        entry=live.entry,
        occasion=live.occasion,
        heartbeat=turn.heartbeat,
        interactive=turn.interactive,
        chat_type=turn.chat_type,
        levels=turn.levels,
        pins=tuple(pinned(live.writer.notes)),
        notes=turn.notes,
    )


class Windows:
    """Makes the windows of a process's turns."""

    def __init__(self, services: TurnServices) -> None:
        self._services = services
        self._fixed = FixedTokens()

    def _rules(self, scene: Scene, settings: CompactionSettings) -> str:
        names, today = settings.post_compaction_sections, self._services.today(scene.turn.agent_id)
        return read_sections(scene.prepared.context.workspace, names, today) if names else ""

    def open(self, scene: Scene, model: ChainModel) -> SessionWindow:
        """Return the window of a turn; `model` is told when the system prompt has to change."""
        services = self._services
        turn, live, prepared = scene.turn, scene.live, scene.prepared
        agent = services.config.agent(turn.agent_id)
        settings = agent.block("compaction", CompactionSettings)

        def count(purpose: str, answer: Assistant) -> None:
            prepared.meter.add(answer.usage)
            live.writer.append("custom", costs.usage_note(purpose, answer), durable=False)

        async def flush(_reason: str, shown: tuple[Message, ...]) -> bool:
            flushing = settings.memory_flush
            try:
                chain = prepared.chain_of(flushing.model) if flushing.model else None
            except ConfigError as problem:
                scene.given.emit(Notice(f"memory was not saved: {problem}", "warning"))
                return False
            saver = model.variant(chain, flushing.system_prompt or "") if chain or flushing.system_prompt else model
            saving = keeping.Saving(saver, prepared.box, prepared.context, partial(count, "flush"))
            return await saving.run(shown, flushing.prompt or FLUSH_PROMPT, services.today(turn.agent_id))

        async def summarize(ask: Ask) -> str:
            chain = prepared.chain_of(settings.model) if settings.model else prepared.chain
            return await Summaries(prepared.client, chain, scene.given.cancel, partial(count, "compaction"))(ask)

        async def tell(moment: str, known: dict[str, Any]) -> list[str]:
            return await services.tell(moment, turn.session, {"sessionId": live.writer.session_id, **known})

        def renew() -> int | None:
            # Files that an earlier turn told are in the part that is summarised now.
            system = services.compose(replace(speech_for(turn, live, prepared), after_compaction=True)).system
            if system == scene.speech.system:
                return None
            model.instruct(system)
            return self._fixed.of(system.text, prepared.specs)

        facts = WindowFacts(
            budget=budget_for(prepared.window_tokens, settings),
            compaction=settings,
            pruning=agent.block("contextPruning", PruningSettings).for_provider(prepared.chain.primary.provider),
            call=_engine_call(scene),
            fixed_tokens=self._fixed.of(scene.speech.system.text, prepared.specs),
            heartbeat=turn.heartbeat,
            writable=_can_save(prepared),
            verbose=(turn.levels.get("verbose") or live.entry.verbose_level or "off") != "off",
        )
        ports = Ports(
            host=services.engines(turn.agent_id),
            cycle=Counts(live, prepared.guard),
            summarize=summarize,
            flush=flush,
            emit=scene.given.emit,
            clock=services.clock,
            tell=tell,
            add=model.add,
            rules=partial(self._rules, scene, settings),
            renew=renew,
        )
        return SessionWindow(live.writer, facts, ports)


def _can_save(prepared: Prepared) -> bool:
    """Say whether a turn can write down what is worth keeping."""
    context = prepared.context
    can_write = context.sandbox.can_write(str(context.workspace / "memory"))
    return can_write and bool(prepared.box.tools.keys() & {"write", "memory_retain"})


def _engine_call(scene: Scene) -> EngineCall:
    prepared, writer = scene.prepared, scene.live.writer
    return EngineCall(
        session_id=writer.session_id,
        session_key=str(scene.turn.session),
        session_file=writer.path,
        token_budget=prepared.window_tokens,
        tools=tuple([spec.name for spec in prepared.specs]),
        model=prepared.chain.primary.key,
        prompt=scene.turn.text,
        heartbeat=scene.turn.heartbeat,
    )
