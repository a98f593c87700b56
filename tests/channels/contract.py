"""What every chat platform must do, written once. A platform's test gives a `Rig`: its server, as people and operators use it.

    @pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
    async def test_contract(scenario, tmp_path):
        async with MyRig() as rig:
            await play(scenario, rig, tmp_path)

The program in here is the real manager, gatekeeper, routing, outbox and sender; only the agent is replaced by a function.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
import pytest

from homarus.channels.admit import Decision
from homarus.channels.channel import Change, Channel, Manifest
from homarus.channels.gatekeeper import Gatekeeper
from homarus.channels.guards import digest
from homarus.channels.manager import ChannelManager
from homarus.channels.pairing import PairingStore
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock
from homarus.core.errors import DeliveryError
from homarus.core.messages import Inbound, Outbound, Trust
from homarus.delivery.outbox import Outbox
from homarus.delivery.place import Piece
from homarus.delivery.retry import RetrySettings
from homarus.delivery.sender import Sender
from homarus.sessions.routing import route_for

To = Literal["direct", "group", "thread"]
# What every platform has: people who are let in or not, messages that end somewhere, sends that a crash can cut off. Not
# so the page and the terminal.
COMMON = frozenset({"people", "cut", "send"})
LIMIT = 120.0  # seconds after which a scenario hangs; nothing is measured by it


class Rig(Protocol):
    """One platform with a server of its own. `features` says what it has: group, mention, thread, edit, react, media,
    busy (its server can ask for patience), fail (it can fail), drop (its connection can be cut), login (its server knows a wrong secret), repeat (it can bring an update again),
    forward (it says that a message was passed on), bots (it says that a program wrote it)."""

    manifest: Manifest
    features: frozenset[str]
    # Of the features that it has not, why: a scenario is left out for a reason that somebody gave.
    without: dict[str, str]
    # Settings that its server refuses; none where it has no feature `login`.
    wrong: dict[str, Any]

    def opener(self, manifest: Manifest, /) -> Any:
        """Return what makes an account; `homarus.channels.discovery.load_entry` for a real platform."""
        ...

    def settings(self) -> dict[str, Any]:
        """Return the platform's own keys that lead an account to this server."""
        ...

    def person(self, who: str) -> str:
        """Return the stable id of `ada`, `bob` or `eve` on this platform, as lists name it."""
        ...

    def chat(self, who: str, to: To) -> str:
        """Return the id of a chat, as `Inbound.peer` has it."""
        ...

    async def write(
        self, who: str, text: str, to: To = "direct", *, mention: bool = False, answers: str = "", file: bytes = b""
    ) -> str: ...

    async def react(self, who: str, message: str, emoji: str) -> None: ...

    async def spoof(self, text: str) -> None:
        """Let eve write to the agent under every name of ada's that the platform lets her take."""
        ...

    async def forward(self, text: str) -> None:
        """Let ada pass on to the agent what eve wrote."""
        ...

    async def bot(self, text: str) -> None:
        """Let a program write in the group."""
        ...

    async def repeat(self) -> None: ...

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        """Let the server refuse the next requests that send something."""
        ...

    async def drop(self) -> None: ...

    def shown(self, who: str, to: To = "direct") -> list[str]:
        """Return the agent's visible messages in a chat, oldest first, as they read now."""
        ...

    def ids(self, who: str, to: To = "direct") -> list[str]:
        """Return the platform's ids of those messages."""
        ...

    def reactions(self) -> list[str]:
        """Return the agent's reactions that are visible now."""
        ...


Answer = Callable[[Inbound], str]


class Crash(BaseException):
    """The process ends here."""


class Stage:
    """The program, on one home; it can be ended at any moment and started again on what is on disk."""

    def __init__(self, rig: Rig, folder: Path, **settings: Any) -> None:
        self.rig, self._folder = rig, folder
        self.env = {"HOME": str(folder), "OPENCLAW_STATE_DIR": str(folder)}
        self.heard: list[Decision] = []
        self.refused: list[Decision] = []
        self.changes: list[Change] = []
        self.answer: Answer = lambda inbound: f"You said: {inbound.text}"
        self.crash_after_sends = 0
        self.configure(**settings)
        self.pairing = PairingStore(folder / "credentials", SystemClock())
        self._build()

    @property
    def id(self) -> str:
        return self.rig.manifest.id

    def configure(self, *, commands: dict[str, Any] | None = None, **settings: Any) -> None:
        document = {"channels": {self.id: {**self.rig.settings(), **settings}}, "commands": commands or {}}
        (self._folder / "openclaw.json").write_bytes(msgspec.json.encode(document))
        self.config = inspect_config(resolve_paths(self.env), self.env)
        assert self.config.unusable is None, self.config.unusable

    def _build(self) -> None:
        clock, known = SystemClock(), {self.id: self.rig.manifest}
        own = self._folder / "own"
        self.gatekeeper = Gatekeeper(self.config, self.env, self.pairing, own, clock, known=known)
        self.manager = ChannelManager(
            self.config, self.env, own, self._take, self._changed, clock, known=known, opener=self.rig.opener
        )
        self.manager.came_up = lambda channel, account: self.sender.wake(channel, account)
        self.outbox = Outbox(own / "outbox.jsonl", clock)
        quick = RetrySettings(min_delay_ms=1, max_delay_ms=5)
        self.sender = Sender(
            self.outbox,
            self.manager.place,
            self._channel,
            clock,
            retry_of=lambda _channel, _account: (quick, 1),
            file_of=lambda _message, media: media,
        )

    def _channel(self, channel: str, account: str) -> Any:
        try:
            return _Fragile(self.manager.channel(channel, account), self)
        except DeliveryError:
            return None

    async def start(self) -> None:
        await self.manager.start()
        self.sender.start()
        await until(lambda: self.manager.status()[0].connected, self.trouble)

    async def stop(self) -> None:
        await self.manager.stop()
        await self.sender.stop(0.1)
        self.outbox.close()
        self.gatekeeper.close()

    async def restart(self) -> None:
        await self.stop()
        self.crash_after_sends = 0
        self._build()
        await self.start()

    def trouble(self) -> str:
        return "; ".join(status.last_error for status in self.manager.status())

    async def _take(self, inbound: Inbound) -> None:
        identity = self.manager.identity(inbound.channel, inbound.account)
        with self.gatekeeper.passing(inbound, identity) as decision:
            if decision.told:
                self.sender.submit(_to(inbound, f"told-{digest(inbound)}", decision.told))
            if not decision.admitted:
                self.refused.append(decision)
                return
            route_for(decision.inbound, self.config)
            self.heard.append(decision)
            self.sender.submit(_to(inbound, f"reply-{digest(inbound)}", self.answer(decision.inbound)))

    async def _changed(self, change: Change) -> None:
        self.changes.append(change)

    def channel(self) -> Channel:
        return self.manager.channel(self.id, "default")

    def words(self) -> list[str]:
        return [decision.inbound.text for decision in self.heard]


class _Fragile:
    """A channel in a process that ends after so many sends, when the platform has them and nobody noted it."""

    def __init__(self, channel: Channel, stage: Stage) -> None:
        self._channel, self._stage = channel, stage

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        receipt = await self._channel.send(message, piece, key)
        if self._stage.crash_after_sends:
            self._stage.crash_after_sends -= 1
            if not self._stage.crash_after_sends:
                raise Crash
        return receipt


def _to(inbound: Inbound, ident: str, text: str) -> Outbound:
    return Outbound(ident, inbound.channel, inbound.peer or inbound.sender, text, inbound.account, inbound.thread)


async def until(holds: Callable[[], Any], what: Callable[[], str] | None = None) -> None:
    try:
        async with asyncio.timeout(LIMIT):
            while not holds():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"it never came about {what() if what else ''}") from None


@asynccontextmanager
async def at_work(rig: Rig, folder: Path, **settings: Any) -> AsyncIterator[Stage]:
    stage: Stage = getattr(rig, "stage", Stage)(rig, folder, **settings)
    try:
        await stage.start()
        yield stage
    finally:
        await stage.stop()


# What a platform has that has everything.
EVERYTHING = frozenset(
    [
        "login",
        "group",
        "mention",
        "thread",
        "edit",
        "react",
        "media",
        "busy",
        "fail",
        "drop",
        "repeat",
        "forward",
        "bots",
    ]
)


# Scenarios. Each opens its own stage; `needs` names the features without which it is skipped.

Scenario = Callable[[Rig, Path], Awaitable[None]]
SCENARIOS: list[Scenario] = []


def needs(*features: str) -> Callable[[Scenario], Scenario]:
    def listed(scenario: Scenario) -> Scenario:
        scenario.needs = frozenset(features)  # type: ignore[attr-defined]
        SCENARIOS.append(scenario)
        return scenario

    return listed


async def play(scenario: Scenario, rig: Rig, folder: Path) -> None:
    missing = scenario.needs - (rig.features | COMMON - set(rig.without))  # type: ignore[attr-defined]
    if missing:
        pytest.skip("; ".join(f"{rig.manifest.label}: {rig.without[name]}" for name in sorted(missing)))
    await scenario(rig, folder)


def _open_to(rig: Rig, *who: str, **more: Any) -> dict[str, Any]:
    return {"dmPolicy": "allowlist", "allowFrom": [rig.person(name) for name in who], **more}


@needs("people")
async def a_stranger_gets_a_code_once_and_is_heard_after_the_owner_let_them_in(rig: Rig, folder: Path) -> None:
    async with at_work(rig, folder) as stage:
        await rig.write("ada", "let me in")
        await until(lambda: stage.pairing.pending(stage.id), stage.trouble)
        [request] = stage.pairing.pending(stage.id)
        assert request.id == rig.person("ada")
        await until(lambda: request.code in "".join(rig.shown("ada")), stage.trouble)  # it may take several lines
        await rig.write("ada", "and again")
        await until(lambda: len(stage.refused) == 2)
        assert stage.heard == []
        stage.pairing.approve(stage.id, request.code)
        await rig.write("ada", "now")
        await until(lambda: any("You said: now" in text for text in rig.shown("ada")))
        # Once: as often as it stands in what was told, however many messages that takes.
        assert "".join(rig.shown("ada")).count(request.code) == stage.refused[0].told.count(request.code) > 0
        assert stage.heard[0].trust is Trust.PAIRED


@needs("people")
async def only_those_on_the_list_are_heard(rig: Rig, folder: Path) -> None:
    async with at_work(rig, folder, **_open_to(rig, "ada")) as stage:
        await rig.write("eve", "me too")
        await until(lambda: stage.refused)
        await rig.write("ada", "hello")
        await until(lambda: rig.shown("ada"))
        assert stage.words() == ["hello"]
        assert rig.shown("eve") == []


@needs("people")
async def nobody_is_heard_where_the_list_is_empty(rig: Rig, folder: Path) -> None:
    async with at_work(rig, folder, **_open_to(rig), groupAllowFrom=[], groupPolicy="allowlist") as stage:
        await rig.write("ada", "hello")
        await until(lambda: stage.refused)
        assert stage.heard == []


@needs("group", "mention")
async def a_group_is_heard_when_the_agent_is_spoken_to(rig: Rig, folder: Path) -> None:
    rules = {"groupPolicy": "allowlist", "groupAllowFrom": [rig.person("ada")], "dmPolicy": "disabled"}
    async with at_work(rig, folder, **rules, groups={"*": {"requireMention": True}}) as stage:
        await rig.write("ada", "just chatting", "group")
        await until(lambda: [decision for decision in stage.refused if decision.outcome == "kept"], stage.trouble)
        await rig.write("eve", "do as I say", "group", mention=True)
        await until(lambda: len(stage.refused) == 2)
        await rig.write("ada", "what do you think", "group", mention=True)
        await until(lambda: rig.shown("ada", "group"))
        [heard] = stage.heard
        assert "just chatting" in str((heard.inbound.facts or {})["context"])
        assert heard.trust is Trust.GROUP
        assert heard.inbound.chat_type in {"group", "channel", "room"}
        assert rig.shown("ada") == []


@needs("group")
async def being_paired_opens_no_group(rig: Rig, folder: Path) -> None:
    async with at_work(rig, folder, groups={"*": {"requireMention": False}}) as stage:
        await rig.write("ada", "let me in")
        await until(lambda: stage.pairing.pending(stage.id))
        stage.pairing.approve(stage.id, stage.pairing.pending(stage.id)[0].code)
        await rig.write("ada", "hello all", "group")
        await until(lambda: len(stage.refused) == 2)
        assert stage.heard == []


@needs("thread")
async def a_thread_is_answered_in_that_thread(rig: Rig, folder: Path) -> None:
    people = {"groupPolicy": "open", "groups": {"*": {"requireMention": False}}}
    async with at_work(rig, folder, **people) as stage:
        await rig.write("ada", "in a thread", "thread")
        await until(lambda: rig.shown("ada", "thread"), stage.trouble)
        assert rig.shown("ada", "group") == []
        await rig.write("ada", "beside it", "group")
        await until(lambda: len(stage.heard) == 2, stage.trouble)
        aside, beside = (route_for(decision.inbound, stage.config).session_key for decision in stage.heard)
        assert aside != beside
        await until(lambda: rig.shown("ada", "group") == ["You said: beside it"], stage.trouble)
        assert rig.shown("ada", "thread") == ["You said: in a thread"]


@needs()
async def a_long_answer_comes_whole_and_in_order(rig: Rig, folder: Path) -> None:
    words = [f"word{number:04d}" for number in range(400)]
    async with at_work(rig, folder, **_open_to(rig, "ada"), textChunkLimit=300) as stage:
        stage.answer = lambda _inbound: " ".join(words)
        await rig.write("ada", "tell me all")
        await until(lambda: "word0399" in "".join(rig.shown("ada")), stage.trouble)
        assert len(rig.shown("ada")) > 1 or "cut" in rig.without
        assert " ".join(rig.shown("ada")).split() == words


@needs()
async def code_that_is_cut_stays_code(rig: Rig, folder: Path) -> None:
    lines = [f"print({number})  # {'x' * 20}" for number in range(40)]
    async with at_work(rig, folder, **_open_to(rig, "ada"), textChunkLimit=300) as stage:
        stage.answer = lambda _inbound: "Here:\n\n```python\n" + "\n".join(lines) + "\n```\n\nDone."
        await rig.write("ada", "code please")
        await until(lambda: "Done." in "".join(rig.shown("ada")), stage.trouble)
        shown = "\n".join(rig.shown("ada"))
        assert [line for line in lines if line.split("  #")[0] not in shown] == []
        for text in rig.shown("ada"):
            assert text.count("```") % 2 == 0


@needs("edit")
async def a_message_of_ours_can_be_changed_and_taken_back(rig: Rig, folder: Path) -> None:
    async with at_work(rig, folder, **_open_to(rig, "ada")) as stage:
        await rig.write("ada", "hello")
        await until(lambda: rig.shown("ada"))
        [sent] = rig.ids("ada")
        where = Outbound("edit", stage.id, rig.chat("ada", "direct"), "")
        await stage.channel().edit(where, sent, Piece("changed", "changed"))
        await until(lambda: rig.shown("ada") == ["changed"])
        if rig.manifest.place.delete:
            await stage.channel().delete(where, sent)
            await until(lambda: rig.shown("ada") == [])


@needs("react")
async def reactions_go_both_ways(rig: Rig, folder: Path) -> None:
    async with at_work(rig, folder, **_open_to(rig, "ada")) as stage:
        message = await rig.write("ada", "hello")
        await until(lambda: rig.shown("ada"))
        where = Outbound("react", stage.id, rig.chat("ada", "direct"), "")
        await stage.channel().react(where, message, "👍")
        await until(lambda: rig.reactions() == ["👍"])
        await stage.channel().react(where, message, "👍", on=False)
        await rig.react("ada", rig.ids("ada")[0], "❤️")
        await until(lambda: [change for change in stage.changes if change.kind == "reacted"], stage.trouble)
        change = next(change for change in stage.changes if change.kind == "reacted")
        assert change.sender == rig.person("ada")
        noticed = stage.gatekeeper.notice(change, ours=True)
        assert noticed is not None
        assert rig.person("ada") in noticed.text
        assert stage.gatekeeper.notice(change, ours=False) is None


@needs("media")
async def a_file_comes_in_and_goes_out(rig: Rig, folder: Path) -> None:
    data = bytes(range(256)) * 20
    async with at_work(rig, folder, **_open_to(rig, "ada")) as stage:
        await rig.write("ada", "a file", file=data)
        await until(lambda: stage.heard and rig.shown("ada"), stage.trouble)
        [media] = stage.heard[0].inbound.media
        assert media.path == ""
        assert b"".join([block async for block in stage.channel().fetch(media)]) == data
        path = folder / "out.bin"
        path.write_bytes(data)
        to = rig.chat("ada", "direct")
        stage.sender.submit(Outbound("file-1", stage.id, to, "look", media=(str(path),)))
        await until(lambda: stage.outbox.outcome("file-1") == "sent", stage.trouble)


@needs("login")
async def a_wrong_secret_is_said_with_its_cure(rig: Rig, folder: Path) -> None:
    stage = Stage(rig, folder, **rig.wrong)
    try:
        await stage.manager.start()
        await until(lambda: stage.manager.status()[0].cure, stage.trouble)
        [status] = stage.manager.status()
        assert status.last_error and not status.connected
        assert not [secret for secret in rig.wrong.values() if secret in status.last_error + status.cure]
    finally:
        await stage.stop()


@needs("busy")
async def a_server_that_asks_for_patience_gets_it(rig: Rig, folder: Path) -> None:
    async with at_work(rig, folder, **_open_to(rig, "ada")) as stage:
        rig.refuse(429, retry_after=0.05)
        await rig.write("ada", "hello")
        await until(lambda: rig.shown("ada"), stage.trouble)
        assert rig.shown("ada") == ["You said: hello"]


@needs("fail")
async def a_server_that_fails_is_asked_again_and_shows_it_once(rig: Rig, folder: Path) -> None:
    async with at_work(rig, folder, **_open_to(rig, "ada")) as stage:
        rig.refuse(503, times=2)
        await rig.write("ada", "hello")
        await until(lambda: rig.shown("ada"), stage.trouble)
        assert rig.shown("ada") == ["You said: hello"]


@needs("drop")
async def a_lost_connection_comes_back_and_nothing_is_missed(rig: Rig, folder: Path) -> None:
    async with at_work(rig, folder, **_open_to(rig, "ada")) as stage:
        await rig.write("ada", "one")
        await until(lambda: rig.shown("ada") == ["You said: one"], stage.trouble)
        await rig.drop()
        await rig.write("ada", "two")
        await until(lambda: rig.shown("ada") == ["You said: one", "You said: two"], stage.trouble)


@needs("repeat")
async def an_update_that_comes_twice_counts_once(rig: Rig, folder: Path) -> None:
    async with at_work(rig, folder, **_open_to(rig, "ada")) as stage:
        await rig.write("ada", "once")
        await until(lambda: rig.shown("ada"))
        await rig.repeat()
        await stage.restart()
        await rig.repeat()
        await rig.write("ada", "twice")
        await until(lambda: "You said: twice" in rig.shown("ada"), stage.trouble)
        assert rig.shown("ada") == ["You said: once", "You said: twice"]


@needs("send")
async def what_a_crash_cut_off_is_never_shown_twice(rig: Rig, folder: Path) -> None:
    words = " ".join(f"word{number:04d}" for number in range(150))
    async with at_work(rig, folder, **_open_to(rig, "ada"), textChunkLimit=300) as stage:
        stage.answer = lambda _inbound: words
        stage.crash_after_sends = 2
        await rig.write("ada", "go")
        await until(lambda: stage.heard and not stage.crash_after_sends, stage.trouble)
        await stage.restart()
        await until(lambda: not stage.outbox.pending(), stage.trouble)
        whole = stage.rig.manifest.place.repeatable
        # People see a moment later what a real server took.
        await until(lambda: len(" ".join(rig.shown("ada")).split()) >= (len(words.split()) if whole else 1))
        # Where nobody can know how much arrived, the chat is told so.
        await until(lambda: whole or "⚠️" in " ".join(rig.shown("ada")), stage.trouble)
        shown = " ".join(rig.shown("ada")).partition("⚠️")[0].split()
        assert len(shown) == len(set(shown))
        assert shown == words.split()[: len(shown)]
        assert shown == words.split() if whole else len(shown) >= 1
        ident = f"reply-{digest(stage.heard[0].inbound)}"
        assert stage.outbox.outcome(ident) == ("sent" if whole else "unknown")
