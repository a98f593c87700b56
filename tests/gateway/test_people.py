"""Several people write to one home, over several accounts and channels: who shares a conversation with whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.gateway.served import Served, served
from tests.scenarios.chat import Platform
from tests.scenarios.home import House, until

OWNER, GUEST = "7", "8"
# One channel with two accounts, and another one.
PLACES = (("fake", "a"), ("fake", "b"), ("other", "default"))
Chats = dict[tuple[str, str], Platform]
ADA = {"identityLinks": {"ada": [f"fake:{GUEST}", f"other:{GUEST}"]}}


def config(session: dict[str, Any]) -> dict[str, Any]:
    let_in = {"dmPolicy": "allowlist", "allowFrom": [OWNER, GUEST]}
    return {
        "channels": {"fake": {**let_in, "accounts": {"a": {}, "b": {}}}, "other": let_in},
        "commands": {"ownerAllowFrom": [f"{channel}:{OWNER}" for channel in ("fake", "other")]},
        "session": session,
    }


@asynccontextmanager
async def family(folder: Path, session: dict[str, Any]) -> AsyncIterator[tuple[Served, Chats]]:
    chats = {place: Platform() for place in PLACES}
    known = {name: replace(chats[name, account].manifest, id=name) for name, account in PLACES}

    def opener(manifest: Any) -> Any:
        return lambda host: chats[manifest.id, host.account].open(host)

    given = {"known": known, "opener": opener}
    async with served(House(folder, config=config(session)), platforms=given) as home:
        async with asyncio.timeout(60):
            for chat in chats.values():
                await chat.up.wait()
        yield home, chats


async def said(home: Served, chat: Platform, sender: str, text: str) -> str:
    """Let somebody write and wait for the answer; return the session in which it was given."""
    before, seen = len(home.house.model.requests), len(chat.shown)
    await chat.says(text, sender=sender)
    (shown,) = (await chat.sees(seen + 1, 60))[seen:]
    assert shown.to == sender, "the answer goes back to whoever asked"
    assert len(home.house.model.requests) == before + 1
    client = home.gateway.client
    await until(lambda: not home.gateway.runtime.lanes.busy, 60)
    found = [
        info
        for info in client.home.store("main").list()
        if info.entry.session_id == home.house.model.requests[-1].session_id
    ]
    return str(found[0].key)


@pytest.mark.parametrize(
    ("session", "sessions"),
    [
        ({"dmScope": "main"}, ["agent:main:main"] * 3),
        ({"dmScope": "per-peer"}, ["agent:main:direct:8"] * 3),
        ({"dmScope": "per-channel-peer"}, ["agent:main:fake:direct:8"] * 2 + ["agent:main:other:direct:8"]),
        (
            {"dmScope": "per-account-channel-peer"},
            ["agent:main:fake:a:direct:8", "agent:main:fake:b:direct:8", "agent:main:other:default:direct:8"],
        ),
        ({}, ["agent:main:fake:direct:8"] * 2 + ["agent:main:other:direct:8"]),
        ({"dmScope": "per-peer", **ADA}, ["agent:main:direct:ada"] * 3),
        ({"dmScope": "per-channel-peer", **ADA}, ["agent:main:fake:direct:ada"] * 2 + ["agent:main:other:direct:ada"]),
    ],
)
async def test_a_second_person_has_the_sessions_that_the_scope_says(
    tmp_path: Path, session: dict[str, Any], sessions: list[str]
) -> None:
    async with family(tmp_path, session) as (home, chats):
        got = [await said(home, chats[place], GUEST, f"over {place}") for place in PLACES]
        assert got == sessions
        # A conversation goes on where it is the same, and only there.
        for number, request in enumerate(home.house.model.requests):
            heard = "\n".join(message.text for message in request.messages)
            shared = [f"over {place}" in heard for place in PLACES[: number + 1]]
            assert shared == [sessions[at] == sessions[number] for at in range(number + 1)]
        async with home.client() as client:
            rows = (await client.call("sessions.list", {"limit": 20}))["sessions"]
        assert {row["key"] for row in rows} == {"agent:main:main", *sessions}


async def test_unless_told_otherwise_the_main_session_is_the_owners_alone(tmp_path: Path) -> None:
    async with family(tmp_path, {}) as (home, chats):
        for place in PLACES:
            assert await said(home, chats[place], OWNER, "the code is swordfish") == "agent:main:main"
        (home.house.workspace / "MEMORY.md").write_text("The safe opens with marzipan.\n")
        assert await said(home, chats[PLACES[0]], GUEST, "what is the code?") == "agent:main:fake:direct:8"
        request = home.house.model.requests[-1]
        seen = str(request.system) + "".join(f"{each.text}{getattr(each, 'context', '')}" for each in request.messages)
        assert "swordfish" not in seen
        assert "marzipan" not in seen
        tools = {tool.name for tool in request.tools}
        assert not tools & {"cron", "gateway", "nodes"}, "what is the owner's is not offered to a guest"
        await said(home, chats[PLACES[0]], OWNER, "and now?")
        newest = home.house.model.requests[-1]
        assert "swordfish" in "".join(each.text for each in newest.messages)
        assert "what is the code?" not in "".join(each.text for each in newest.messages)
        assert "cron" in {tool.name for tool in newest.tools}
