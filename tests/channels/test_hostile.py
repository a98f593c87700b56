"""What must not open, delay or break anything, on the real adapters: strangers who pose as the owner, forwarded commands, bots
without an end, floods; and for every platform a missing library, a missing key, and a server that is not there."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.channels.contract import at_work, until
from tests.channels.fake.platform import MANIFEST as FAKE
from tests.channels.fake.platform import FakeRig

from homarus.channels.channel import Manifest
from homarus.channels.discovery import lacks, load_entry, manifests
from homarus.channels.gatekeeper import TOO_MANY
from homarus.channels.guards import FLOOD_EVENTS
from homarus.channels.manager import ChannelManager
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock
from homarus.core.messages import Trust

FLOOD = 1000


class Foes:
    """A rig, and what its platform lets somebody hostile do."""

    def __init__(self, rig: Any, fake: Any) -> None:
        self.rig, self.fake = rig, fake


class TelegramFoes(Foes):
    def _person(self, who: str, **more: Any) -> dict[str, Any]:
        return {"id": int(self.rig.person(who)), "is_bot": False, "first_name": who, **more}

    def _chat(self, who: str) -> dict[str, Any]:
        return {"id": int(self.rig.person(who)), "type": "private"}

    async def spoof(self, text: str) -> None:
        owner = self.rig.person("ada")
        posing = self._person("eve", first_name=owner, last_name=owner, username=owner)
        self.fake.say(text, self._chat("eve"), **{"from": posing, "sender_chat": None, "author_signature": owner})

    async def forward(self, text: str) -> None:
        origin = {"type": "user", "date": 1, "sender_user": self._person("eve")}
        self.fake.say(text, self._chat("ada"), **{"from": self._person("ada"), "forward_origin": origin})

    async def bot(self, text: str) -> None:
        from tests.channels.telegram.bot_api import GROUP

        self.fake.say(text, GROUP, **{"from": self._person("bob", is_bot=True)})


class DiscordFoes(Foes):
    def _author(self, who: str, **more: Any) -> dict[str, Any]:
        from tests.channels.discord.fake_discord import ALICE

        return ALICE | {"id": self.rig.person(who), "username": who, "global_name": who} | more

    async def spoof(self, text: str) -> None:
        owner = self.rig.person("ada")
        await self.fake.say(
            text, f"9{self.rig.person('eve')}", author=self._author("eve", username=owner, global_name=owner)
        )

    async def forward(self, text: str) -> None:
        inner = {"type": 0, "content": text, "embeds": [], "attachments": [], "timestamp": "2026-11-16T04:00:00+00:00",
                 "edited_timestamp": None, "mentions": [], "mention_roles": [], "flags": 0, "components": []}  # fmt: skip
        link = {"type": 1, "message_id": "1", "channel_id": "2"}
        more = {"message_reference": link, "message_snapshots": [{"message": inner}], "author": self._author("ada")}
        await self.fake.say("", f"9{self.rig.person('ada')}", **more)

    async def bot(self, text: str) -> None:
        from tests.channels.discord.fake_discord import GENERAL

        await self.fake.say(text, GENERAL, author=self._author("bob", bot=True))


class SlackFoes(Foes):
    async def spoof(self, text: str) -> None:
        owner = self.rig.person("ada")
        profile = {"display_name": owner, "real_name": owner}
        await self.fake.say(text, "D0EVE", user=self.rig.person("eve"), username=owner, user_profile=profile)

    async def forward(self, text: str) -> None:
        """What is shared on Slack hangs below the sharer's own words, as an attachment."""
        shared = [{"is_share": True, "author_id": self.rig.person("eve"), "text": text, "fallback": text}]
        await self.fake.say("look", "D0ADA", user=self.rig.person("ada"), attachments=shared)

    async def bot(self, text: str) -> None:
        from tests.channels.slack.fake_slack import GENERAL

        await self.fake.say(text, GENERAL, user=self.rig.person("bob"), bot_id="B9")


@contextlib.asynccontextmanager
async def foes_on(name: str) -> AsyncIterator[Any]:
    library = {"telegram": "aiogram", "discord": "hikari", "slack": "slack_sdk"}[name]
    pytest.importorskip(library, reason=f"needs homarus[{name}]")
    if name == "telegram":
        from tests.channels.telegram.bot_api import serving as telegram
        from tests.channels.telegram.test_contract import TelegramRig

        async with telegram() as api:
            yield TelegramFoes(TelegramRig(api), api)
    elif name == "discord":
        from tests.channels.discord.fake_discord import serving as discord
        from tests.channels.discord.test_contract import DiscordRig

        async with discord() as fake:
            yield DiscordFoes(DiscordRig(fake), fake)
    else:
        from tests.channels.slack.fake_slack import serving as slack
        from tests.channels.slack.test_contract import SlackRig

        async with slack() as app:
            yield SlackFoes(SlackRig(app), app)


PLATFORMS = ["telegram", "discord", "slack"]


@pytest.mark.parametrize("name", PLATFORMS)
async def test_whoever_poses_as_the_owner_is_a_stranger(name: str, tmp_path: Path) -> None:
    async with foes_on(name) as foes:
        rig = foes.rig
        people = {"dmPolicy": "pairing", "allowFrom": [rig.person("ada")]}
        owner = {"ownerAllowFrom": [f"{name}:{rig.person('ada')}"]}
        async with at_work(rig, tmp_path, commands=owner, **people) as stage:
            await foes.spoof("/reset everything")
            await until(lambda: stage.refused, stage.trouble)
            assert stage.heard == []
            assert stage.refused[0].inbound.sender == rig.person("eve")
            await rig.write("ada", "it is me")
            await until(lambda: stage.heard, stage.trouble)
            assert stage.heard[0].trust is Trust.OWNER


@pytest.mark.parametrize("name", PLATFORMS)
async def test_a_command_that_is_passed_on_commands_nothing(name: str, tmp_path: Path) -> None:
    async with foes_on(name) as foes:
        rig = foes.rig
        owner = {"ownerAllowFrom": [f"{name}:{rig.person('ada')}"]}
        people = {"dmPolicy": "allowlist", "allowFrom": [rig.person("ada")]}
        async with at_work(rig, tmp_path, commands=owner, **people) as stage:
            await foes.forward("/reset everything")
            await until(lambda: stage.heard, stage.trouble)
            heard = stage.heard[0].inbound
            assert heard.command == ""
            assert heard.forwarded or not heard.text.lstrip().startswith("/")
            if heard.forwarded:
                assert "sender:external" in (heard.facts or {})["taint"]


@pytest.mark.parametrize("name", PLATFORMS)
async def test_two_bots_do_not_talk_for_ever(name: str, tmp_path: Path) -> None:
    async with foes_on(name) as foes:
        rules = {"groupPolicy": "open", "allowBots": True, "groups": {"*": {"requireMention": False}}}
        async with at_work(foes.rig, tmp_path, **rules) as stage:
            stage.answer = lambda _inbound: "NO_REPLY"
            for number in range(25):
                await foes.bot(f"and you? {number}")
            await until(lambda: len(stage.heard) + len(stage.refused) == 25, stage.trouble)
            assert len(stage.heard) == 10  # a message and its answer are two of twenty
            assert stage.refused[-1].gates[-1].name == "botLoopProtection"


@pytest.mark.parametrize("name", PLATFORMS)
async def test_a_flood_is_bounded_and_told_once(name: str, tmp_path: Path) -> None:
    async with foes_on(name) as foes:
        rig = foes.rig
        people = {"dmPolicy": "allowlist", "allowFrom": [rig.person("ada"), rig.person("bob")]}
        async with at_work(rig, tmp_path, **people) as stage:
            stage.answer = lambda _inbound: "NO_REPLY"
            for number in range(FLOOD):
                await rig.write("ada", f"m{number}")
            await rig.write("bob", "may I?")
            await until(lambda: len(stage.heard) + len(stage.refused) == FLOOD + 1, stage.trouble)
            heard = [decision.inbound.text for decision in stage.heard if decision.inbound.sender == rig.person("ada")]
            assert heard == [f"m{number}" for number in range(FLOOD_EVENTS)]
            assert "may I?" in stage.words(), "one who floods keeps nobody else from being heard"
            await until(lambda: rig.shown("ada"), stage.trouble)
            assert rig.shown("ada") == [TOO_MANY]


# Every platform: a library, a key or a server that is not there.

AWAY = "127.0.0.1"
SERVERS: dict[str, dict[str, Any]] = {
    "telegram": {"botToken": "4242:AAfakefakefakefakefakefakefakefakefake", "apiRoot": f"http://{AWAY}:9"},
    "discord": {"token": "MTAw.fake.token", "proxy": f"http://{AWAY}:9"},
    "slack": {"botToken": "xoxb-1", "appToken": "xapp-1", "proxy": f"http://{AWAY}:9"},
    "signal": {"account": "+15550000", "httpUrl": f"http://{AWAY}:9"},
    "matrix": {"homeserver": f"http://{AWAY}:9", "accessToken": "x"},
    "irc": {"host": AWAY, "port": 9, "nick": "helper", "tls": False},
    "email": {
        "address": "a@b.example",
        "password": "x",
        "imapHost": AWAY,
        "imapPort": 9,
        "smtpHost": AWAY,
        "smtpPort": 9,
    },
    "xmpp": {"jid": "a@localhost", "password": "x", "host": AWAY, "port": 9},
    "whatsapp": {
        "phoneNumberId": "42",
        "accessToken": "x",
        "appSecret": "x",
        "verifyToken": "x",
        "apiRoot": f"http://{AWAY}:9",
    },
}


@contextlib.asynccontextmanager
async def beside_a_healthy_one(
    folder: Path, manifest: Manifest, block: dict[str, Any]
) -> AsyncIterator[ChannelManager]:
    """The platform that is in trouble, and one that is not."""
    healthy = FakeRig()
    document = {"channels": {manifest.id: block, "fake": healthy.settings()}}
    (folder / "openclaw.json").write_bytes(msgspec.json.encode(document))
    env = {"HOME": str(folder), "OPENCLAW_STATE_DIR": str(folder)}
    config = inspect_config(resolve_paths(env), env)

    async def nothing(_given: Any) -> None: ...

    def opener(wanted: Manifest) -> Any:
        return healthy.opener(wanted) if wanted.id == "fake" else load_entry(wanted)

    known = {manifest.id: manifest, "fake": FAKE}
    manager = ChannelManager(config, env, folder / "own", nothing, nothing, SystemClock(), known=known, opener=opener)
    try:
        await manager.start()
        yield manager
    finally:
        await manager.stop()


def row(manager: ChannelManager, channel: str) -> Any:
    return next(status for status in manager.status() if status.channel == channel)


@pytest.mark.parametrize("name", sorted(set(manifests()) & set(SERVERS)))
async def test_a_server_that_is_not_there_is_said_and_harms_nobody(name: str, tmp_path: Path) -> None:
    manifest = manifests()[name]
    if name != "whatsapp" and lacks(manifest)[0]:
        pytest.skip(" ".join(lacks(manifest)))
    manifest = replace(manifest, needs=()) if name == "whatsapp" else manifest  # the Cloud API needs no library
    async with beside_a_healthy_one(tmp_path, manifest, SERVERS[name]) as manager:
        await until(lambda: row(manager, "fake").connected)
        await until(lambda: row(manager, name).last_error)
        assert not row(manager, name).connected
        assert row(manager, "fake").connected


@pytest.mark.parametrize("name", sorted(manifests()))
async def test_a_library_that_is_missing_is_said_with_its_cure(name: str, tmp_path: Path) -> None:
    manifest = replace(manifests()[name], needs=("a_library_that_nobody_has",), extra=name)
    async with beside_a_healthy_one(tmp_path, manifest, SERVERS.get(name, {})) as manager:
        await until(lambda: row(manager, "fake").connected)
        await until(lambda: row(manager, name).last_error)
        assert "homarus[" in row(manager, name).cure
        assert "a_library_that_nobody_has" not in sys.modules


@pytest.mark.parametrize("name", sorted(name for name in manifests() if name != "whatsapp"))
async def test_a_key_that_is_missing_is_said_with_its_cure(name: str, tmp_path: Path) -> None:
    if lacks(manifests()[name])[0]:
        pytest.skip(" ".join(lacks(manifests()[name])))
    async with beside_a_healthy_one(tmp_path, manifests()[name], {"enabled": True}) as manager:
        await until(lambda: row(manager, "fake").connected)
        await until(lambda: row(manager, name).last_error)
        assert row(manager, name).cure
