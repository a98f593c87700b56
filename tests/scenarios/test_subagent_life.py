"""The life of a sub-agent beyond the plain case: forks, words on the way, questions, commands, budgets, other agents."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.family import WAIT, Family, Scene, spawn
from tests.scenarios.home import until
from tests.scenarios.script import Line
from tests.scenarios.test_subagents import MAIN, children, finished

from homarus.agent.prepare import prepare
from homarus.agent.turn import TurnRunner
from homarus.core.errors import Locked
from homarus.core.events import ApprovalAsked
from homarus.core.messages import Inbound, ToolResult, Trust, User
from homarus.core.routes import SessionKey
from homarus.queue.modes import Overrides
from homarus.queue.settings import Mode
from homarus.runtime.client import RunOptions
from homarus.subagents.child import RESULT_HEAD


def once(*calls: tuple[str, dict[str, Any]], child: Any = "done", end: str = "the end") -> Any:
    """A parent that makes these calls once and then ends; its children do what `child` says."""

    def rule(scene: Scene) -> Line | str:
        if scene.task:
            said: Line | str = child(scene) if callable(child) else child
            return said
        return end if scene.results else Line("", calls)

    return rule


async def test_a_fork_begins_with_its_parents_conversation_and_its_taint(tmp_path: Path) -> None:
    def rule(scene: Scene) -> Line | str:
        if scene.task:
            return "done"
        if scene.last_user == "remember 42":
            return "I will"
        return "the end" if scene.results else Line("", (spawn("use it", context="fork"), WAIT))

    family = Family(tmp_path, rule)
    async with family.open() as agent:
        await agent.ask("remember 42")
        await agent.ask("go")
    texts = [message.text for message in family.cast.asked("use it")[0].messages]
    assert texts[:2] == ["remember 42", "I will"] and "go" in texts
    assert not any(isinstance(message, ToolResult) for message in family.cast.asked("use it")[0].messages)
    assert family.users()[0] == "remember 42"
    (key,) = [key for key in family.rows() if ":subagent:" in key]
    assert family.rows()[key]["forkedFrom"]["sessionId"] == family.row()["sessionId"]


async def test_a_fork_of_too_much_begins_alone_and_says_so(tmp_path: Path) -> None:
    family = Family(tmp_path, once(spawn("x", context="fork"), WAIT))
    async with family.open() as agent:
        await agent.ask("word " * 110_000)
    child = family.cast.asked("x")[0]
    assert "begin without your parent's conversation" in child.last_user
    assert len(child.messages) == 1
    result = next(Scene(request).results[0] for request in family.cast.requests if Scene(request).results)
    assert "too long to copy" in json.loads(result.text)["note"]


async def test_cleanup_delete_takes_the_session_away_and_keeps_an_archive(tmp_path: Path) -> None:
    family = Family(tmp_path, once(spawn("a", cleanup="delete"), spawn("b"), WAIT))
    async with family.open() as agent:
        await agent.ask("go", options=RunOptions(children="all"))
        await until(lambda: len([key for key in family.rows() if ":subagent:" in key]) == 1)
        await agent.client.runtime.children.gone(5)
        kept = [path.name for path in (family.state / "homarus" / "inbox").iterdir() if "subagent" in path.name]
        assert len(kept) == 1, "an inbox goes with its session"
    archived = list((family.state / "agents/main/sessions").glob("*.deleted.*"))
    assert len(archived) == 1 and "[Subagent Task]" in archived[0].read_text()
    assert len([text for text in family.users() if text.startswith(RESULT_HEAD)]) == 2


async def test_a_parent_looks_after_its_own_children_only(tmp_path: Path) -> None:
    steps: list[tuple[str, dict[str, Any]]] = [
        spawn("slow", label="twin"),
        spawn("slow", label="twin"),
        ("subagents", {"action": "list"}),
        ("subagents", {"action": "info", "target": "twin"}),
        ("subagents", {"action": "info", "target": "1"}),
        ("subagents", {"action": "cancel", "target": "#1"}),
        ("subagents", {"action": "cancel", "target": "1"}),
        ("subagents", {"action": "cancel", "target": "agent:main:subagent:other"}),
        ("subagents", {"action": "kill", "target": "all"}),
        ("sessions_yield", {}),
    ]

    def rule(scene: Scene) -> Line | str:
        if scene.task:
            return Line(hang=True)
        return Line("", (steps[len(scene.results)],)) if len(scene.results) < len(steps) else "the end"

    family = Family(tmp_path, rule)
    async with family.open() as agent:
        assert (await agent.ask("go")).text == "the end"
    results = Scene(family.cast.requests[-1]).results
    listed, twins, first, cancelled, again, foreign, everyone, nothing = [result.text for result in results[2:]]
    assert json.loads(listed)["count"] == 2
    assert "names 2 sub-agents" in twins and json.loads(first)["status"] == "running"
    assert json.loads(cancelled)["status"] == "cancelled" and "is not at work" in again
    assert "there is no sub-agent" in foreign
    assert json.loads(everyone)["count"] == 1 and "nothing to wait for" in nothing
    assert len(family.users()) == 1, "what its parent cancelled reports nothing"


async def test_words_on_the_way_reach_a_child_and_bring_their_taint(tmp_path: Path) -> None:
    def child(scene: Scene) -> Line | str:
        if scene.last_user == "use blue":
            return "blue then"
        return Line("", (("ls", {}),)) if len(scene.results) < 50 else "never told"

    def rule(scene: Scene) -> Line | str:
        if scene.task:
            return child(scene)
        order = [
            spawn("paint", label="p"),
            ("subagents", {"action": "steer", "target": "p", "message": "use blue"}),
            WAIT,
        ]
        return "the end" if scene.reports else Line("", (order[len(scene.results)],))

    family = Family(tmp_path, rule)
    async with family.open() as agent:
        await agent.ask("go")
    assert any("blue then" in text for text in family.users())


async def test_a_child_that_stays_gets_another_task(tmp_path: Path) -> None:
    def rule(scene: Scene) -> Line | str:
        if scene.task:
            return f"answer {sum(isinstance(message, User) for message in scene.messages)}"
        if len(scene.reports) == 2:
            return "the end"
        if len(scene.reports) == 1 and isinstance(scene.newest, User):
            return Line("", (("subagents", {"action": "steer", "target": "s", "message": "and now?"}), WAIT))
        return Line("", (spawn("stay", label="s", mode="session"), WAIT)) if not scene.results else "NO_REPLY"

    family = Family(tmp_path, rule)
    async with family.open() as agent:
        assert (await agent.ask("go")).text == "the end"
    reports = [text for text in family.users() if text.startswith(RESULT_HEAD)]
    assert "answer 1" in reports[0] and "answer 2" in reports[1]
    assert len([key for key in family.rows() if ":subagent:" in key]) == 1


async def test_a_childs_question_goes_to_the_person_at_the_root_and_else_is_answered_no(tmp_path: Path) -> None:
    config = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}, "tools": {"exec": {"mode": "ask"}}}

    def child(scene: Scene) -> Line | str:
        return scene.results[0].text if scene.results else Line("", (("exec", {"command": "echo hello"}),))

    family = Family(tmp_path, once(spawn("run"), WAIT, child=child), config)
    async with family.open() as agent:
        await agent.ask("go")
        assert "Denied" in family.users()[-1] and "nobody is here" in family.users()[-1]
        asked: list[ApprovalAsked] = []
        agent.listen(lambda event: asked.append(event) if isinstance(event, ApprovalAsked) else None)
        leave = agent.client.attend(MAIN)
        family.cast.requests.clear()
        family.cast.rule = lambda scene: (
            child(scene)
            if scene.task
            else "the end"
            if scene.last_user.startswith(RESULT_HEAD)
            else Line("", (spawn("again"), WAIT))
        )
        waiting = asyncio.ensure_future(agent.ask("go again"))
        await until(lambda: bool(asked))
        assert asked[0].detail.startswith("a sub-agent asks")
        await agent.client.runtime.home.toolkit.answer(asked[0].approval_id, "allow-once")
        await waiting
        leave()
    assert "hello" in family.users()[-1]


async def test_what_a_child_left_running_ends_with_it(tmp_path: Path) -> None:
    config = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}, "tools": {"exec": {"mode": "full"}}}
    number = f"8{os.getpid()}"

    def child(scene: Scene) -> Line | str:
        if scene.results:
            return scene.results[0].text
        return Line("", (("exec", {"command": f"sleep {number}", "background": True}),))

    def alive() -> list[str]:
        wanted, found = f"sleep\0{number}".encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                found += [entry.name] if wanted in (entry / "cmdline").read_bytes() else []
            except OSError:
                continue
        return found

    family = Family(tmp_path, once(spawn("run"), WAIT, child=child), config)
    async with family.open() as agent:
        await agent.ask("go")
        await agent.client.runtime.children.gone(5)
        assert not alive()
        assert not agent.client.runtime.home.toolkit.processes.listed("main")


async def test_a_person_lists_looks_at_and_stops_sub_agents(tmp_path: Path) -> None:
    family = Family(tmp_path, once(spawn("slow", label="tortoise"), WAIT, child=Line(hang=True)))
    async with family.open() as agent:
        assert (await agent.ask("/subagents")).text == "This session has no sub-agents."
        asked = asyncio.ensure_future(agent.ask("go"))
        await until(lambda: bool(family.cast.asked("slow")))
        await until(lambda: not agent.client.runtime.lane(MAIN).busy)
        assert (await agent.ask("/subagents list")).text == "#1 tortoise · running"
        assert "task: slow" in (await agent.ask("/subagents info 1")).text
        assert "[Subagent Task]" in (await agent.ask("/subagents log tortoise")).text
        assert "no sub-agent 7" in (await agent.ask("/subagents log 7")).text
        assert (await agent.ask("/subagents stop 1")).text == "tortoise: stopped."
        # Its parent waits for it, so it is told.
        assert (await asyncio.wait_for(asked, 60)).text == "the end"
    assert (
        family.users()[-1].startswith(f"{RESULT_HEAD} tortoise: error") and "stopped by the user" in family.users()[-1]
    )


async def test_a_new_conversation_ends_the_children_of_the_old_one(tmp_path: Path) -> None:
    family = Family(tmp_path, once(spawn("slow"), child=Line(hang=True)))
    async with family.open() as agent:
        await agent.ask("go")
        await until(lambda: family.cast.active == 1)
        await agent.ask("/new")
        await until(lambda: family.cast.active == 0)
        assert agent.client.runtime.children.books.count(MAIN) == 0
        assert (await agent.ask("hello")).ok
        assert not any(text.startswith(RESULT_HEAD) for text in family.users())


async def test_a_run_budget_covers_what_its_children_use(tmp_path: Path) -> None:
    def child(scene: Scene) -> Line | str:
        return Line("", (("ls", {}),)) if len(scene.results) < 20 else "done"

    config = {"agents": {"defaults": {"budget": {"run": {"calls": 6}}}}}
    family = Family(tmp_path, once(spawn("a"), spawn("b"), WAIT, child=child), config)
    async with family.open() as agent:
        await agent.ask("go", options=RunOptions(children="all"))
        spent = agent.client.runtime.home.spending.today("main")
    used = [request for request in family.cast.requests if Scene(request).task]
    # The parent's one call and those of both children are one budget; each child may have one call under way.
    assert len(used) <= 7 and spent.calls == len(family.cast.requests)
    assert sum("model calls is used up" in text for text in family.users()) == 2


async def test_many_reports_neither_fill_the_queue_nor_cost_a_turn_each(tmp_path: Path) -> None:
    count = 30
    config = {
        **children(maxChildrenPerAgent=count, maxConcurrent=count),
        "messages": {"queue": {"cap": 2, "drop": "new"}},
    }
    family = Family(tmp_path, once(*(spawn(f"t{n}") for n in range(count)), child=lambda scene: scene.task), config)
    gates = [family.cast.hold(f"t{n}") for n in range(count)]
    held = family.cast.hold("")
    async with family.open() as agent:
        held.set()
        await agent.send("go")
        await until(lambda: family.cast.active == count, 20)
        held.clear()
        agent.client.runtime.submit(
            MAIN,
            Inbound(id="x", channel="test", text="busy", trust=Trust.OWNER),
            overrides=Overrides(mode=Mode.FOLLOWUP),
        )
        await until(lambda: agent.client.runtime.lane(MAIN).busy)
        for gate in gates:
            gate.set()
        await until(lambda: agent.client.runtime.children.books.count(MAIN) == 0, 20)
        before = len(family.cast.requests)
        held.set()
        await finished(agent)
        assert len(family.cast.requests) - before <= 3
    assert len([text for text in family.users() if RESULT_HEAD in text]) == count


async def test_another_process_cannot_take_a_parent_whose_children_work(tmp_path: Path) -> None:
    family = Family(tmp_path, once(spawn("slow")))
    gate = family.cast.hold("slow")
    async with family.open() as agent:
        await agent.ask("go")
        await until(lambda: family.cast.active == 1)
        # Many other sessions are opened meanwhile; the parent's stays held.
        for number in range(40):
            with agent.client.runtime.home.opened(SessionKey.parse(f"agent:main:explicit:s{number}")):
                pass
        other = family.open()
        with pytest.raises(Locked):
            other.client.runtime.lane(MAIN)
        assert other.client.runtime.recover() == 0
        await other.aclose()
        gate.set()
        await finished(agent)
    assert sum(text.startswith(RESULT_HEAD) for text in family.users()) == 1


async def test_a_report_that_comes_after_a_compaction_is_still_told_once(tmp_path: Path) -> None:
    def rule(scene: Scene) -> Line | str:
        if scene.task:
            return "done"
        return Line("", (spawn("slow", label="late"),)) if getattr(scene.newest, "text", "") == "go" else "ok"

    family = Family(tmp_path, rule)
    gate = family.cast.hold("slow")
    async with family.open() as agent:
        await agent.ask("go")
        for number in range(4):
            await agent.ask(f"talk {number}")
        with agent.client.runtime.home.opened(MAIN) as live:
            live.writer.compact("they talked", live.writer.leaf or "", 1_000)
        gate.set()
        await finished(agent)
    async with family.open() as agent:
        agent.client.runtime.recover()
        await agent.ask("hello")
        await finished(agent)
    assert sum(text.startswith(RESULT_HEAD) for text in family.users()) == 1


async def test_nobody_but_the_owner_starts_sub_agents_unasked(tmp_path: Path) -> None:
    family = Family(tmp_path, once(spawn("x"), end="no"))
    async with family.open() as agent:
        for trust in (Trust.GROUP, Trust.EXTERNAL, Trust.PAIRED):
            family.cast.requests.clear()
            await agent.ask(f"go {trust}", options=RunOptions(trust=trust, channel="telegram"))
            results = Scene(family.cast.requests[-1]).results
            assert results[-1].is_error and "Denied" in results[-1].text
        assert agent.client.runtime.children.books.count(MAIN) == 0


async def test_the_child_of_a_group_tells_no_private_memory(tmp_path: Path) -> None:
    """Its own session is no group, but what it reports is read by one."""
    family = Family(tmp_path, once(spawn("x"), WAIT))
    seen = []
    async with family.open("agent:main:telegram:group:7") as agent:

        async def spy(home: Any, turn: Any, entry: Any) -> Any:
            prepared = await prepare(home, turn, entry)
            seen.append(prepared.context)
            return prepared

        agent.client.runtime.turns = TurnRunner(agent.client.runtime.home, spy)
        await agent.ask("go")
    child = next(context for context in seen if context.session.is_subagent)
    assert child.shared and child.root == SessionKey.parse("agent:main:telegram:group:7")


async def test_a_main_session_of_another_name_hears_its_children(tmp_path: Path) -> None:
    family = Family(tmp_path, once(spawn("x"), WAIT), {"session": {"mainKey": "home"}})
    async with family.open() as agent:
        assert str(agent.key) == "agent:main:home"
        assert (await agent.ask("go")).text == "the end"
        assert agent.client.runtime.owed(agent.key) == 0
    async with family.open() as agent:
        assert agent.client.runtime.recover() == 0


async def test_a_start_takes_up_all_parents_that_are_owed_something(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    family = Family(tmp_path / "a", once(spawn("slow")))
    family.cast.hold("slow")
    agent = family.open()
    await agent.ask("go")
    await until(lambda: family.cast.active == 1)
    await agent.aclose()
    async with family.open() as agent:
        assert agent.client.runtime.recover() == 1
        await finished(agent)
        assert agent.client.runtime.recover() == 0
    assert sum(text.startswith(f"{RESULT_HEAD} slow: unknown") for text in family.users()) == 1


async def test_old_children_are_put_away_with_their_own(tmp_path: Path) -> None:
    def rule(scene: Scene) -> Line | str:
        if scene.task == "middle":
            return "done" if scene.results else Line("", (spawn("deep"), WAIT))
        if scene.task:
            return "done"
        return Line("", (spawn("middle"), WAIT)) if scene.last_user.startswith("go") else "the end"

    family = Family(tmp_path, rule, children(maxSpawnDepth=2))
    async with family.open() as agent:
        await agent.ask("go")
        old = [key for key in family.rows() if ":subagent:" in key]
        assert len(old) == 2
        store = agent.client.runtime.home.store("main")
        for key in old:
            store.update(SessionKey.parse(key), updated_at=1)
        agent.client.runtime.children._archive._swept.clear()
        await agent.ask("go again")
        await agent.client.runtime.children.gone(5)
        assert not set(old) & set(family.rows())
    assert len(list((family.state / "homarus" / "children").glob("*.jsonl"))) == 2
