"""What somebody hostile tries on any platform, in its own raw updates: the contract's other half, with the same rigs."""

from __future__ import annotations

import time
from pathlib import Path

from tests.channels.contract import SCENARIOS, Rig, at_work, needs, until

from homarus.channels.gatekeeper import TOO_MANY
from homarus.channels.guards import FLOOD_EVENTS, FLOOD_PAUSE
from homarus.core.messages import Trust

__all__ = ["SCENARIOS"]
FLOOD = 1000


@needs("people")
async def whoever_poses_as_the_owner_is_a_stranger(rig: Rig, folder: Path) -> None:
    people = {"dmPolicy": "pairing", "allowFrom": [rig.person("ada")]}
    owner = {"ownerAllowFrom": [f"{rig.manifest.id}:{rig.person('ada')}"]}
    async with at_work(rig, folder, commands=owner, **people) as stage:
        await rig.spoof("/reset everything")
        await until(lambda: stage.refused, stage.trouble)
        assert stage.heard == []
        assert stage.refused[0].inbound.sender != rig.person("ada")
        assert stage.refused[0].outcome == "asked"
        await rig.write("ada", "it is me")
        await until(lambda: stage.heard, stage.trouble)
        assert stage.words()[0].endswith("it is me")
        assert stage.heard[0].trust is Trust.OWNER


@needs("forward")
async def a_command_that_is_passed_on_commands_nothing(rig: Rig, folder: Path) -> None:
    owner = {"ownerAllowFrom": [f"{rig.manifest.id}:{rig.person('ada')}"]}
    people = {"dmPolicy": "allowlist", "allowFrom": [rig.person("ada")]}
    async with at_work(rig, folder, commands=owner, **people) as stage:
        await rig.forward("/reset everything")
        await until(lambda: stage.heard, stage.trouble)
        heard = stage.heard[0].inbound
        assert heard.command == ""
        assert heard.forwarded or not heard.text.lstrip().startswith("/")
        if heard.forwarded:
            assert "/reset everything" in heard.text
            assert "sender:external" in (heard.facts or {})["taint"]


@needs("bots")
async def two_bots_do_not_talk_for_ever(rig: Rig, folder: Path) -> None:
    rules = {"groupPolicy": "open", "allowBots": True, "groups": {"*": {"requireMention": False}}}
    async with at_work(rig, folder, **rules) as stage:
        stage.answer, began = lambda _inbound: "NO_REPLY", time.monotonic()
        for number in range(25):
            await rig.bot(f"and you? {number}")
        await until(
            lambda: len(stage.heard) + len(stage.refused) == 25,
            lambda: f"{stage.words()} {[one.inbound.text for one in stage.refused]} {stage.trouble()}",
        )
        minutes = 1 + int((time.monotonic() - began) / 60)  # a server that is slow makes no loop of it
        # A message and its answer are two of twenty.
        assert len(stage.heard) == 10 if minutes == 1 else len(stage.heard) <= 10 * minutes
        assert {decision.gates[-1].name for decision in stage.refused} == (
            {"botLoopProtection"} if stage.refused else set()
        )


@needs("bots")
async def bots_are_not_heard_unless_somebody_said_so(rig: Rig, folder: Path) -> None:
    rules = {"groupPolicy": "open", "groups": {"*": {"requireMention": False}}}
    async with at_work(rig, folder, **rules) as stage:
        await rig.bot("hello, fellow machine")
        await until(lambda: stage.refused, stage.trouble)
        assert stage.heard == []
        assert stage.refused[0].gates[-1].name == "allowBots"


@needs("people")
async def a_flood_is_bounded_and_told_once(rig: Rig, folder: Path) -> None:
    people = {"dmPolicy": "allowlist", "allowFrom": [rig.person("ada"), rig.person("bob")]}
    async with at_work(rig, folder, **people) as stage:
        stage.answer = lambda _inbound: "NO_REPLY"
        words, began = [f"m{number}" for number in range(FLOOD)], time.monotonic()
        at_once = getattr(rig, "write_many", None)  # where one by one is no flood
        if at_once is not None:
            await at_once("ada", words)
        for text in words if at_once is None else ():
            await rig.write("ada", text)
        await rig.write("bob", "may I?")
        await until(lambda: len(stage.heard) + len(stage.refused) == FLOOD + 1, stage.trouble)
        heard = [decision.inbound.text for decision in stage.heard if decision.inbound.sender == rig.person("ada")]
        # A platform that takes longer than the pause to bring all of it makes several floods of it.
        floods = 1 + int((time.monotonic() - began) / FLOOD_PAUSE)
        assert heard[:FLOOD_EVENTS] == words[:FLOOD_EVENTS]
        assert len(heard) <= FLOOD_EVENTS * floods
        assert "may I?" in stage.words(), "one who floods keeps nobody else from being heard"
        await until(lambda: rig.shown("ada"), stage.trouble)
        assert rig.shown("ada") in [[TOO_MANY] * count for count in range(1, floods + 1)]


@needs("people")
async def a_flood_of_strangers_gets_one_code_and_no_more(rig: Rig, folder: Path) -> None:
    async with at_work(rig, folder, dmPolicy="pairing") as stage:
        for number in range(FLOOD_EVENTS * 2):
            await rig.write("eve", f"m{number}")
        await until(lambda: len(stage.refused) == FLOOD_EVENTS * 2, stage.trouble)
        assert stage.heard == []
        assert [decision.told != "" for decision in stage.refused] == [True] + [False] * (FLOOD_EVENTS * 2 - 1)
        assert len(stage.pairing.pending(stage.id)) == 1
