"""When a conversation starts over by itself, and what hooks hear of it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House

DAY = datetime(2026, 5, 2, tzinfo=UTC)


def home_with(folder: Path, reset: dict[str, Any], **more: Any) -> House:
    return House(folder, config={"session": {"reset": reset, **more}})


async def two_messages(house: House, first: datetime, second: datetime) -> bool:
    """Say whether the second message found a fresh session."""
    house.clock.set(first)
    async with house.agent() as agent:
        await agent.ask("one")
        before = house.row()["sessionId"]
        house.clock.set(second)
        await agent.ask("two")
    return bool(house.row()["sessionId"] != before)


@pytest.mark.parametrize(
    ("first", "second", "fresh"),
    [("03:59", "04:01", True), ("04:01", "23:00", False), ("03:58", "03:59", False)],
)
async def test_daily_at_four(tmp_path: Path, first: str, second: str, fresh: bool) -> None:
    def at(text: str) -> datetime:
        hour, minute = map(int, text.split(":"))
        return DAY + timedelta(hours=hour, minutes=minute)

    assert await two_messages(home_with(tmp_path, {"mode": "daily"}), at(first), at(second)) is fresh


@pytest.mark.parametrize(("minutes", "fresh"), [(59, False), (61, True)])
async def test_idle_for_an_hour(tmp_path: Path, minutes: int, fresh: bool) -> None:
    house = home_with(tmp_path, {"mode": "idle"})
    assert await two_messages(house, DAY, DAY + timedelta(minutes=minutes)) is fresh


async def test_a_block_without_a_mode_means_daily(tmp_path: Path) -> None:
    house = home_with(tmp_path, {"atHour": 6})
    assert await two_messages(house, DAY + timedelta(hours=5, minutes=59), DAY + timedelta(hours=6, minutes=1))


async def test_without_a_policy_a_session_lasts(tmp_path: Path) -> None:
    assert not await two_messages(House(tmp_path), DAY, DAY + timedelta(days=400))


async def test_a_channel_has_its_own_rule(tmp_path: Path) -> None:
    house = home_with(tmp_path, {"mode": "daily"}, resetByChannel={"terminal": {"mode": "none"}})
    assert not await two_messages(house, DAY, DAY + timedelta(days=3))


async def test_what_bookkeeping_touched_does_not_keep_a_session_alive(tmp_path: Path) -> None:
    house = home_with(tmp_path, {"mode": "idle", "idleMinutes": 60})
    house.clock.set(DAY)
    async with house.agent() as agent:
        await agent.ask("one")
        before = house.row()["sessionId"]
        house.clock.set(DAY + timedelta(minutes=61))
        agent.client.runtime.home.store("main").update(
            agent.key, updated_at=round((DAY + timedelta(minutes=60)).timestamp() * 1000)
        )
        await agent.ask("two")
    assert house.row()["sessionId"] != before


def write_hook(house: House, event: str) -> None:
    folder = house.state / "hooks" / "told"
    folder.mkdir(parents=True)
    (folder / "HOOK.md").write_text(
        f'---\nname: told\ndescription: x\nmetadata: {{"openclaw": {{"events": ["{event}"]}}}}\n---\n'
    )
    (folder / "handler.py").write_text(
        "async def handle(event):\n"
        "    reason = event.context.get('reason', '')\n"
        "    said = [m.text for m in event.context['messages'] if hasattr(m, 'text')]\n"
        "    event.messages.append(f'{event.key} {reason} heard {said[:1]}')\n"
        f"    with open({str(house.folder / 'told.txt')!r}, 'a') as file:\n"
        "        file.write(f'{event.key} {reason} {len(said)}\\n')\n"
    )


HOOKS = {
    "hooks": {
        "internal": {"enabled": True, "entries": {"told": {"enabled": True}, "session-memory": {"enabled": True}}}
    }
}


@pytest.mark.parametrize(
    ("command", "event"), [("/new", "command:new"), ("/reset", "command:reset"), ("/stop", "command:stop")]
)
async def test_hooks_hear_of_commands_and_may_answer(tmp_path: Path, command: str, event: str) -> None:
    house = House(tmp_path, config=HOOKS)
    write_hook(house, event)
    async with house.agent() as agent:
        await agent.ask("remember the milk")
        reply = await agent.ask(command)
    assert f"{event}  heard ['remember the milk']" in reply.text


async def test_a_session_that_ends_leaves_a_note_of_its_last_messages(tmp_path: Path) -> None:
    house = House(tmp_path, config=HOOKS)
    async with house.agent() as agent:
        await agent.ask("we decided on the blue one")
        await agent.ask("/new")
    (note,) = (house.workspace / "memory").glob("*.md")
    assert "we decided on the blue one" in note.read_text()


async def test_hooks_hear_why_a_session_started_over_by_itself(tmp_path: Path) -> None:
    house = House(tmp_path, config={**HOOKS, "session": {"reset": {"mode": "idle"}}})
    write_hook(house, "session:auto-reset")
    assert await two_messages(house, DAY, DAY + timedelta(hours=2))
    assert (house.folder / "told.txt").read_text().startswith("session:auto-reset idle")
