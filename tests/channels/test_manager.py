"""Accounts at work: one that fails harms no other, one that hangs is noticed, a change touches its own account alone."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.channels.contract import until
from tests.channels.fake.platform import MANIFEST, ME, FakeChannel, FakeServer, make
from tests.channels.homes import NOON, configured, says

from homarus.channels.channel import Change, Manifest
from homarus.channels.discovery import load_entry
from homarus.channels.manager import ChannelManager, Status
from homarus.core.clock import ManualClock
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Inbound, Outbound
from homarus.delivery.place import Piece


class Waiting(ManualClock):
    """A clock on which a sleeper sleeps until the test moves it."""

    def __init__(self) -> None:
        super().__init__(NOON)
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        done = asyncio.Event()
        self._sleepers.append((self.monotonic() + seconds, done))
        await done.wait()

    async def pass_time(self, seconds: float) -> None:
        self.advance(seconds)
        for due, done in list(self._sleepers):
            if due <= self.monotonic():
                self._sleepers.remove((due, done))
                done.set()
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def naps(self) -> list[float]:
        return [due - self.monotonic() for due, done in self._sleepers if not done.is_set()]


class Site:
    """A manager with two accounts on servers of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, Waiting()
        self.one, self.two = FakeServer(f"one-{folder}", "key-one"), FakeServer(f"two-{folder}", "key-two")
        self.taken: list[Inbound] = []
        self.accounts: dict[str, Any] = {
            "one": {"server": self.one.name, "token": "key-one"},
            "two": {"server": self.two.name, "token": "key-two"},
        }
        self.opener: Callable[[Manifest], Any] = lambda _manifest: make
        self.known = {"fake": MANIFEST}
        self.take: Callable[[Inbound], Awaitable[None]] = self._take
        self.changes: list[Change] = []

    async def _take(self, inbound: Inbound) -> None:
        self.taken.append(inbound)

    async def _changed(self, change: Change) -> None:
        self.changes.append(change)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[ChannelManager]:
        self.config = self.read()
        self.manager = ChannelManager(
            self.config,
            {},
            self.folder / "own",
            lambda inbound: self.take(inbound),
            self._changed,
            self.clock,
            known=self.known,
            opener=lambda manifest: self.opener(manifest),
            spread=lambda: 0.5,
        )
        await self.manager.start()
        try:
            yield self.manager
        finally:
            await self.manager.stop()

    def read(self, **channel: Any) -> Any:
        return configured(self.folder, {"server": None, "token": None, "accounts": self.accounts, **channel})

    def status(self, account: str) -> Status:
        return next(one for one in self.manager.status() if one.account_id == account)

    async def up(self, *accounts: str) -> None:
        await until(
            lambda: all(self.status(account).connected for account in accounts), lambda: str(self.manager.status())
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_accounts_start_side_by_side_and_say_who_they_are(site):
    async with site.at_work() as manager:
        await site.up("one", "two")
        assert manager.identity("fake", "one") == ME
        assert site.status("one").running
        site.one.post(says())
        await until(lambda: site.taken)
        assert site.taken[0].account == "one"
        assert site.status("one").last_inbound_at > 0
        await manager.channel("fake", "One").send(Outbound("o", "fake", "u-ada", "hi"), Piece("hi", "hi"), "k")
        assert site.status("one").last_outbound_at > 0
    assert not site.status("one").running
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("channel")] == []


async def test_an_account_speaks_for_itself_alone(site):
    async with site.at_work():
        await site.up("one", "two")
        site.one.post(says(channel="telegram", account="two", text="x" * 300_000))
        site.one.post(Change("deleted", "telegram", "u-ada", account="two"))
        await until(lambda: site.taken and site.changes)
        assert (site.taken[0].channel, site.taken[0].account) == ("fake", "one")
        assert len(site.taken[0].text) == 200_000
        assert (site.changes[0].channel, site.changes[0].account) == ("fake", "one")


async def test_a_wrong_token_stops_its_account_and_no_other(site):
    site.accounts["one"]["token"] = "nonsense"
    async with site.at_work() as manager:
        await site.up("two")
        await until(lambda: site.status("one").last_error)
        status = site.status("one")
        assert (status.last_error, status.cure) == ("the token is wrong", "set channels.fake.token")
        await until(lambda: not site.status("one").running)
        assert len(site.clock.naps) == 1  # the monitor's alone: nothing is tried again
        with pytest.raises(DeliveryError, match="the token is wrong") as refused:
            manager.channel("fake", "one")
        assert refused.value.kind is DeliveryFailure.TRANSIENT


async def test_what_fails_is_started_again_with_growing_pauses(site):
    failures = ["no route to host"] * 3

    class Flaky(FakeChannel):
        async def run(self) -> None:
            if failures:
                raise ChannelError(failures.pop())
            await super().run()

    site.accounts.pop("two")
    site.opener = lambda _manifest: Flaky
    async with site.at_work():
        pauses = []
        for _ in range(3):
            await until(lambda: len(site.clock.naps) == 2)
            pauses.append(min(site.clock.naps))
            await site.clock.pass_time(min(site.clock.naps))
        await site.up("one")
        assert pauses == [2.0, 4.0, 8.0]
        assert site.status("one").restarts == 3
        assert site.status("one").last_error == ""


async def test_what_a_library_raises_harms_nobody_and_shows_no_secret(site, caplog):
    class Broken(FakeChannel):
        async def run(self) -> None:
            if self._host.account == "one":
                raise ZeroDivisionError(f"GET https://api/bot{self._host.settings['token']}/x\n\x1b[31mfailed")
            await super().run()

    site.opener = lambda _manifest: Broken
    with caplog.at_level(logging.DEBUG):
        async with site.at_work():
            await site.up("two")
            await until(lambda: site.status("one").last_error)
            error = site.status("one").last_error
    assert "ZeroDivisionError" in error
    assert "key-one" not in error + caplog.text
    assert "\x1b" not in error
    assert "\n" not in error


async def test_a_message_that_cannot_be_kept_is_not_acknowledged(site):
    async def full(_inbound: Inbound) -> None:
        raise OSError("the disk is full")

    site.accounts.pop("two")
    site.take = full
    async with site.at_work():
        await site.up("one")
        site.one.post(says())
        await until(lambda: site.status("one").last_error)
        site.take = site._take
        await site.clock.pass_time(60)
        await until(lambda: site.taken)


@pytest.mark.parametrize(
    ("manifest", "accounts", "error", "cure"),
    [
        ({"needs": ("no_such_sdk",), "extra": "fake"}, {}, "Python package no_such_sdk", "pip install 'homarus[fake]'"),
        ({"programs": {"no-such": "the no-such package"}}, {}, "program no-such", "install the no-such package"),
        ({}, {"server": None}, "channels.fake.server is not set", "'homarus channels add fake' asks for it"),
        ({}, {"pace": "quick"}, "channels.fake.pace has the wrong type", "'homarus config validate'"),
        ({}, {"token": {"source": "env", "provider": "default", "id": "NO_SUCH_VARIABLE"}}, "channels.fake.token", ""),
    ],
)
async def test_what_is_missing_is_said_with_its_cure(site, manifest, accounts, error, cure):
    site.known = {"fake": msgspec.structs.replace(MANIFEST, **manifest)}
    site.accounts["one"] |= accounts
    site.opener = lambda found: load_entry(found) if manifest else make
    async with site.at_work():
        await until(lambda: site.status("one").last_error)
        assert error in site.status("one").last_error
        assert cure in site.status("one").cure
        assert not site.status("one").running


async def test_a_library_that_takes_long_to_load_keeps_nobody_waiting(site, tmp_path, monkeypatch):
    name = f"slow_sdk_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text("import threading\nWHERE = threading.current_thread()\n")
    monkeypatch.syspath_prepend(tmp_path)
    site.known = {"fake": msgspec.structs.replace(MANIFEST, needs=(name, "no_such_sdk"))}
    async with site.at_work():
        await site.up("one", "two")
    assert sys.modules.pop(name).WHERE is not threading.current_thread()


async def test_two_accounts_with_one_token_are_not_both_served(site):
    site.accounts["two"] = dict(site.accounts["one"])
    async with site.at_work():
        await until(lambda: any("same credentials" in status.last_error for status in site.manager.status()))
        assert sum(status.connected for status in site.manager.status()) <= 1
        await until(lambda: sum(status.connected for status in site.manager.status()) == 1)


async def test_a_change_restarts_the_account_it_is_about(site):
    async with site.at_work() as manager:
        await site.up("one", "two")
        kept, old = manager.channel("fake", "two"), manager.channel("fake", "one")
        site.accounts["one"]["dmPolicy"] = "disabled"
        site.config.adopt(site.read())
        assert await manager.apply() == ["fake/one"]
        await site.up("one", "two")
        assert manager.channel("fake", "two") is kept
        assert manager.channel("fake", "one") is not old
        assert manager.account("fake", "one").settings.dm_policy == "disabled"
        site.accounts = {"two": site.accounts["two"]}
        site.config.adopt(site.read())
        assert await manager.apply() == ["fake/one"]
        with pytest.raises(DeliveryError) as refused:
            manager.channel("fake", "one")
        assert refused.value.kind is DeliveryFailure.REFUSED
        assert await manager.apply() == []


async def test_an_account_can_be_stopped_and_started_by_hand(site):
    async with site.at_work() as manager:
        await site.up("one", "two")
        await manager.halt("fake", "one")
        assert (site.status("one").running, site.status("two").connected) == (False, True)
        await manager.restart("fake", "one")
        await site.up("one")
        with pytest.raises(ChannelError, match="no account"):
            await manager.restart("fake", "three")


async def test_an_account_that_is_switched_off_is_not_started(site):
    site.accounts["one"]["enabled"] = False
    async with site.at_work() as manager:
        await site.up("two")
        assert (site.status("one").enabled, site.status("one").running) == (False, False)
        with pytest.raises(ChannelError, match="switched off"):
            await manager.restart("fake", "one")


async def test_an_account_that_hangs_is_started_again(site):
    site.accounts.pop("two")
    site.one.asleep = True
    async with site.at_work():
        await until(lambda: site.one.hung)
        site.one.asleep = False
        for _ in range(8):
            await site.clock.pass_time(301)
        await site.up("one")
        assert site.status("one").restarts == 1


async def test_an_account_that_says_it_is_up_and_does_not_answer_is_started_again(site):
    site.accounts.pop("two")
    async with site.at_work():
        await site.up("one")
        site.one.asleep = True
        for _ in range(20):
            await site.clock.pass_time(301)
        assert site.status("one").restarts >= 1


async def test_a_quiet_account_that_answers_is_left_alone(site):
    async with site.at_work() as manager:
        await site.up("one", "two")
        kept = manager.channel("fake", "one")
        for _ in range(30):
            await site.clock.pass_time(301)
        assert manager.channel("fake", "one") is kept


async def test_a_lost_connection_shows_and_comes_back(site):
    heard = []
    async with site.at_work() as manager:
        manager.came_up = lambda channel, account: heard.append((channel, account))
        await site.up("one", "two")
        site.one.drop()
        await until(lambda: ("fake", "one") in heard[1:])
        await site.up("one")
