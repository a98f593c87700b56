"""A context engine through the whole runtime: what the model sees of it, which turns it hears of, and its sub-agents."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from tests.context.test_host import Recorder
from tests.invariants.test_prefix import last_user, summary_of
from tests.models.servers import serving
from tests.scenarios.family import WAIT, Family, Scene, spawn
from tests.scenarios.home import NOW, House, until
from tests.scenarios.script import Line
from tests.scenarios.talker import Say, Talker, make_home, open_agent

from homarus.context.engine import Assembled, EngineCall, register_context_engine
from homarus.core.errors import ModelError, ModelFailure
from homarus.core.routes import SessionKey

_NUMBERS = count()
MAIN = SessionKey.parse("agent:main:main")


def slot(engine: Recorder) -> dict[str, Any]:
    """Return the configuration that chooses an engine."""
    name = f"scenario-{next(_NUMBERS)}"

    def make(facts: Any) -> Recorder:
        engine.calls["facts"] = facts
        return engine

    register_context_engine(name, make)
    return {"plugins": {"slots": {"contextEngine": name}}}


async def test_an_engine_speaks_behind_the_cache_line_and_hears_of_good_turns_only(tmp_path: Path) -> None:
    def view(call: EngineCall) -> Assembled:
        return Assembled(call.messages, addition=f"## Messaging\nrecalled for {call.prompt}")

    engine = Recorder(assemble=view)
    bad = Line("", error=ModelError(ModelFailure.FORMAT, "no"))
    house = House(tmp_path, "one", bad, "three", config=slot(engine))
    async with house.agent() as agent:
        assert (await agent.ask("first")).ok
        assert not (await agent.ask("second")).ok
        assert (await agent.ask("third")).ok
    first, _, third = (request.system for request in house.model.requests)
    assert first.session.startswith("\\## Messaging\nrecalled for first\n\n")  # it cannot pose as one of our sections
    assert third.session.startswith("\\## Messaging\nrecalled for third\n\n")
    assert first.stable == third.stable and "recalled" not in first.stable
    told = [name for name in engine.asked if name != "assemble"]
    after = ["ingest", "after_turn", "commit_turn", "maintain"]
    assert told == ["bootstrap", *after, *after, "dispose"]
    facts = engine.calls["facts"]
    assert facts["workspaceDir"] == house.workspace and facts["agentDir"].name == "agent"


async def test_an_engine_is_told_of_sub_agents(tmp_path: Path) -> None:
    def rule(scene: Scene) -> Line | str:
        if scene.task:
            return "done"
        return "both" if scene.reports else Line("", (spawn("red", cleanup="delete"), WAIT))

    ended: list[tuple[str, str]] = []
    engine = Recorder(on_subagent_ended=lambda child, reason: ended.append((child, reason)))
    family = Family(tmp_path, rule, config=slot(engine))
    async with family.open() as agent:
        await agent.ask("go")
        await until(lambda: len(ended) == 2 and not agent.client.runtime.children.books.count(MAIN), 20)
    call = engine.calls["prepare_subagent_spawn"][0]
    assert (call.parent, call.mode, call.ttl_ms) == ("agent:main:main", "isolated", 3_600_000)
    assert ended == [(call.child, "completed"), (call.child, "deleted")]


async def test_a_spawn_that_is_refused_after_the_engine_got_ready_is_taken_back(tmp_path: Path) -> None:
    undone: list[str] = []

    async def undo() -> None:
        undone.append("undone")

    def rule(scene: Scene) -> Line | str:
        if scene.task:
            return "done"
        return "no" if scene.results else Line("", (spawn("red"),))

    family = Family(tmp_path, rule, config=slot(engine := Recorder(prepare_subagent_spawn=lambda _call: undo)))
    async with family.open() as agent:
        # The folder of the children's books is a file: no order can be written down.
        (agent.client.runtime.home.config.paths.own_dir).mkdir(parents=True, exist_ok=True)
        (agent.client.runtime.home.config.paths.own_dir / "children").write_text("")
        await agent.ask("go")
    assert "prepare_subagent_spawn" in engine.asked and undone == ["undone"]


async def test_long_results_of_a_deleted_child_go_with_it(tmp_path: Path) -> None:
    def rule(scene: Scene) -> Line | str:
        if scene.task:
            return "done" if scene.results else Line("", (("exec", {"command": "seq 1 40000"}),))
        return "over" if scene.reports else Line("", (spawn("red", cleanup="delete"), WAIT))

    family = Family(tmp_path, rule)
    async with family.open() as agent:
        folder = agent.client.runtime.home.config.paths.own_dir / "overflow"
        seen: list[str] = []
        agent.client.runtime.listen(MAIN, lambda _event: seen.extend(path.name for path in folder.glob("*")))
        await agent.ask("go")
        await until(lambda: not any(":subagent:" in key for key in family.rows()), 20)
        await agent.client.runtime.children.gone(5)
        assert seen and list(folder.glob("*")) == []


async def test_the_retry_after_a_compaction_has_the_workspace_files_again(tmp_path: Path) -> None:
    size = 1_000

    def rule(body: dict[str, Any], _number: int) -> Say:
        nonlocal size
        if "<conversation>" in last_user(body):
            size = 1_000
            return Say(summary_of(last_user(body)))
        return Say(f"Chapter. {'x' * 2_000}", tokens=size)

    small = {
        "keepRecentTokens": 500,
        "reserveTokensFloor": 0,
        "reserveTokens": 2_000,
        "memoryFlush": {"enabled": False},
    }
    async with serving(server=(server := Talker(rule))):
        env = make_home(tmp_path, server.url, window=40_000, compaction=small, contextInjection="continuation-skip")
        agent = open_agent(env)
        await agent.ask("Please write chapter 0 of the lighthouse story.")
        workspace = agent.client.runtime.home.workspace("main")
        (workspace / "SOUL.md").write_text("Speak like a LIGHTHOUSE.")
        (workspace / "BOOTSTRAP.md").unlink(missing_ok=True)
        await agent.ask("Please write chapter 1 of the lighthouse story.")
        await agent.ask("Please write chapter 2 of the lighthouse story.")
        size = 39_500
        await agent.ask("Please write chapter 3 of the lighthouse story.")
        before = len(server.seen)
        await agent.ask("Please write chapter 4 of the lighthouse story.")
        await agent.aclose()
    systems = ["LIGHTHOUSE" in str(seen.body["messages"][0]) for seen in server.seen]
    summaries = ["<conversation>" in last_user(seen.body) for seen in server.seen]
    assert systems[before - 1] is False  # a turn that goes on without the files
    assert any(summaries[before:]) and systems[-1] is True


async def notes_told(folder: Path, on: list[str], command: str) -> list[bool]:
    """Return which of three turns had the daily notes: the first of all, one behind a command, and one after that."""
    house = House(folder, config={"agents": {"defaults": {"startupContext": {"applyOn": on}}}})
    (house.workspace / "memory").mkdir(parents=True)
    (house.workspace / "memory" / f"{NOW.date().isoformat()}.md").write_text("the boat is blue")
    async with house.agent() as agent:
        await agent.ask("one")
        await agent.send(command)
        await agent.ask("two")
        await agent.ask("three")
    return ["the boat is blue" in request.messages[-1].context for request in house.model.requests]


async def test_a_reset_is_another_occasion_than_a_new_session(tmp_path: Path) -> None:
    for number, (on, command, told) in enumerate(
        [
            (["reset"], "/reset", [False, True, False]),
            (["reset"], "/new", [False, False, False]),
            (["new"], "/reset", [True, False, False]),
            (["new", "reset"], "/new", [True, True, False]),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert await notes_told(folder, on, command) == told, (on, command)
