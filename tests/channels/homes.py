"""A home with the fake platform in it, for tests of what all channels share."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from tests.channels.fake.platform import MANIFEST

from homarus.channels.gatekeeper import Gatekeeper
from homarus.channels.pairing import PairingStore
from homarus.channels.settings import Account, account_of
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.config.view import Config
from homarus.core.clock import ManualClock
from homarus.core.messages import Inbound

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
BASE = {"server": "s", "token": "t"}


def configured(folder: Path, channel: dict[str, Any] | None = None, **document: Any) -> Config:
    if channel is not None:
        document = {**document, "channels": {**document.get("channels", {}), "fake": {**BASE, **channel}}}
    (folder / "openclaw.json").write_bytes(msgspec.json.encode(document))
    env = {"HOME": str(folder), "OPENCLAW_STATE_DIR": str(folder)}
    return inspect_config(resolve_paths(env), env)


def account(folder: Path, name: str = "default", /, **channel: Any) -> Account:
    return account_of(configured(folder, channel), MANIFEST, name, {})


class Door:
    """A gatekeeper with a clock that the test moves."""

    def __init__(self, folder: Path, channel: dict[str, Any] | None = None, **document: Any) -> None:
        self.clock = ManualClock(NOON)
        self.config = configured(folder, channel, **document)
        self.pairing = PairingStore(folder / "credentials", self.clock)
        self.activation = ""
        self.keeper = Gatekeeper(
            self.config,
            {},
            self.pairing,
            folder / "own",
            self.clock,
            known={"fake": MANIFEST},
            activation=lambda _key: self.activation,
        )

    def judge(self, inbound: Inbound) -> Any:
        with self.keeper.passing(inbound) as decision:
            return decision


def says(text: str = "hello", sender: str = "u-ada", **more: Any) -> Inbound:
    given = {"id": more.pop("id", f"{text}-{sender}"), "channel": "fake", "text": text, "sender": sender}
    return Inbound(**{**given, "peer": sender, **more})


def in_group(text: str = "hello", sender: str = "u-ada", **more: Any) -> Inbound:
    return says(text, sender, **{"chat_type": "group", "peer": "room-1", **more})
