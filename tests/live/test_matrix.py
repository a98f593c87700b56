"""The Matrix adapter at a real homeserver (synapse), with a person who uses another client."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from tests.channels.contract import play
from tests.channels.foes import SCENARIOS
from tests.channels.platform_host import RecordingHost, running, until
from tests.live.chat_servers import synapse

from homarus.core.clock import SystemClock
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Media, Outbound
from homarus.delivery.place import Piece

nio = pytest.importorskip("nio", reason="needs matrix-nio (PyPI)")
from tests.channels.matrix.rig import PASSWORD, MatrixRig, Person  # noqa: E402

from homarus.channels.matrix.adapter import Matrix  # noqa: E402

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def homeserver(tmp_path_factory: pytest.TempPathFactory):
    """One homeserver for all scenarios of the contract: starting one takes longer than most of them."""
    with asyncio.Runner() as runner:
        serving = synapse(tmp_path_factory.mktemp("synapse"))
        yield runner.run(serving.__aenter__())
        runner.run(serving.__aexit__(None, None, None))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_contract(scenario, tmp_path: Path, homeserver: str) -> None:
    async with MatrixRig(tmp_path, homeserver) as rig:
        await play(scenario, rig, tmp_path)


@contextlib.asynccontextmanager
async def place(tmp_path: Path, **more: Any):
    """A homeserver, alice on it, and an account for the agent."""
    limited = more.pop("limited", False)
    async with synapse(tmp_path, limited=limited) as server, Person(server, "alice") as alice:
        client = nio.AsyncClient(server, "helper")
        made = await client.register("helper", PASSWORD)
        assert not isinstance(made, nio.ErrorResponse), made
        await client.close()
        settings = {"homeserver": server, "userId": "@helper:test.example", "password": PASSWORD, "autoJoin": "always"}
        yield server, alice, RecordingHost(tmp_path / "account", settings | more)


def to(room: str, **more: Any) -> Outbound:
    return Outbound("o", "matrix", room, "", **more)


async def test_a_conversation(tmp_path: Path) -> None:
    async with place(tmp_path) as (_, alice, host):
        matrix = Matrix(host, SystemClock())
        async with running(matrix):
            await until(lambda: host.up)
            me = host.up[0].id
            room = await alice.room(me, name="Kitchen")
            await until(lambda: "joined" in host.kinds)
            first = await alice.say(room, "hello", **{"m.mentions": {"user_ids": [me]}})
            await until(lambda: host.received)
            said = host.received[0]
            assert (said.peer, said.chat_type, said.sender, said.mentioned, said.id) == (
                room,
                "group",
                alice.id,
                True,
                first,
            )

            sent = await matrix.send(to(room, reply_to=first), Piece("<b>hi</b>", "hi"), "key-1")
            again = await matrix.send(to(room, reply_to=first), Piece("<b>hi</b>", "hi"), "key-1")
            assert sent == again
            await matrix.edit(to(room), sent, Piece("<b>ho</b>", "ho"))
            in_thread = await matrix.send(to(room, thread=first), Piece("there", "there"), "key-2")
            await matrix.react(to(room), first, "👍")
            await matrix.react(to(room), first, "👍")
            await matrix.typing(to(room))
            await until(lambda: alice.of(me, "m.reaction"))
            assert alice.texts(me) == ["hi", "* ho", "there"]
            assert alice.of(me)[0]["content"]["formatted_body"] == "<b>hi</b>"
            await matrix.react(to(room), first, "👍", on=False)
            await matrix.delete(to(room), in_thread)
            await until(lambda: len(alice.of(me, "m.room.redaction")) == 2)

            # She answers, in a thread, edits, reacts and takes it back.
            answer = await alice.say(room, "why?", **{"m.relates_to": {"m.in_reply_to": {"event_id": sent}}})
            await alice.say(room, "deep", **{"m.relates_to": {"rel_type": "m.thread", "event_id": first}})
            edit = {
                "m.new_content": {"msgtype": "m.text", "body": "why not?"},
                "m.relates_to": {"rel_type": "m.replace", "event_id": answer},
            }
            await alice.say(room, "* why not?", **edit)
            link = {"m.relates_to": {"rel_type": "m.annotation", "event_id": sent, "key": "❤"}}
            liked = await alice.client.room_send(room, "m.reaction", link)
            await alice.client.room_redact(room, liked.event_id)
            await until(lambda: "unreacted" in host.kinds)
            quoted, deep = host.received[1:]
            assert quoted.quote is not None
            assert quoted.quote.ours and quoted.quote.text == "hi"
            assert deep.thread == first
            assert [kind for kind in host.kinds if kind != "joined"] == ["edited", "reacted", "unreacted"]
            assert {one.id for one in await matrix.directory("")} >= {room, alice.id}
            assert (await matrix.probe()).id == me


async def test_between_two_people_and_files_both_ways(tmp_path: Path) -> None:
    async with place(tmp_path) as (_, alice, host):
        matrix = Matrix(host, SystemClock())
        async with running(matrix):
            await until(lambda: host.up)
            me = host.up[0].id
            room = await alice.room(me, is_direct=True)
            await alice.say(room, "are you there?")  # before anybody has come in
            await until(lambda: host.received)
            said = host.received[0]
            assert (said.peer, said.chat_type, said.text) == (alice.id, "direct", "are you there?")
            file = tmp_path / "größe.txt"
            file.write_text("content " * 1000)
            await matrix.send(to(alice.id), Piece("look", "look", file=str(file)), "key-f")
            await until(lambda: alice.of(me))
            shown = alice.of(me)[0]
            assert (
                shown["room"] == room
                and shown["content"]["filename"] == "größe.txt"
                and shown["content"]["body"] == "look"
            )
            await alice.client.room_send(
                room, "m.room.message", {k: v for k, v in shown["content"].items() if k != "m.mentions"}
            )
            await until(lambda: len(host.received) == 2)
            media = host.received[1].media[0]
            got = b"".join([piece async for piece in matrix.fetch(media)])
            assert got == file.read_bytes()
            with pytest.raises(DeliveryError):
                [piece async for piece in matrix.fetch(Media(ref="mxc://test.example/nothing"))]
            with pytest.raises(DeliveryError) as caught:
                await matrix.send(to("!nowhere:test.example"), Piece("x", "x"), "k")
            assert caught.value.kind is DeliveryFailure.REFUSED
            # Written to by itself, it opens a room.
            async with Person(host.settings["homeserver"], "bob") as bob:
                await matrix.send(to(bob.id), Piece("good morning", "good morning"), "key-b")
                await until(lambda: bob.client.invited_rooms)


async def test_nothing_is_lost_and_nothing_comes_twice_over_a_restart(tmp_path: Path) -> None:
    async with place(tmp_path) as (_, alice, host):
        first = Matrix(host, SystemClock())
        async with running(first):
            await until(lambda: host.up)
            room = await alice.room(host.up[0].id, name="Kitchen")
            await until(lambda: "joined" in host.kinds)
            await alice.say(room, "one")
            await until(lambda: host.texts == ["one"])
            sent = await first.send(to(room), Piece("x", "x"), "same key")
        for number in range(130):  # more than one sync holds
            await alice.say(room, f"away {number}")
        host.disk_full = 1  # and the disk is full when it comes back
        second = Matrix(host, SystemClock())
        async with running(second):
            await until(lambda: len(host.up) == 3)
            await until(lambda: f"away {129}" in host.texts)
            assert await second.send(to(room), Piece("x", "x"), "same key") == sent
        assert host.texts == ["one", *[f"away {number}" for number in range(130)]]
        assert (host.folder / "login.json").stat().st_mode & 0o777 == 0o600
        assert len({one.id for one in host.received}) == len(host.received)


async def test_invitations_are_followed_only_where_they_are_allowed(tmp_path: Path) -> None:
    settings = {"autoJoin": "allowlist", "autoJoinAllowlist": ["#kitchen:test.example"]}
    async with place(tmp_path, **settings) as (_, alice, host), running(Matrix(host, SystemClock())):
        await until(lambda: host.up)
        me = host.up[0].id
        await alice.room(me, name="#kitchen:test.example")  # only calls itself so
        wanted = await alice.room(me, alias="kitchen")
        await until(lambda: "joined" in host.kinds)
        assert [change.peer for change in host.changes] == [wanted]


async def test_a_hurried_server_and_a_lost_login(tmp_path: Path) -> None:
    async with place(tmp_path, limited=True) as (_, alice, host):
        matrix = Matrix(host, SystemClock())
        async with running(matrix):
            await until(lambda: host.up)
            room = await alice.room(host.up[0].id)
            await until(lambda: "joined" in host.kinds)
            with pytest.raises(DeliveryError) as caught:
                for number in range(10):
                    await matrix.send(to(room), Piece("x", "x"), f"key {number}")
            assert caught.value.kind is DeliveryFailure.RATE_LIMIT
            assert caught.value.retry_after and caught.value.retry_after > 0
        wrong = RecordingHost(tmp_path / "wrong", dict(host.settings) | {"password": "wr0ng-word"})
        with pytest.raises(ChannelError) as refused:
            await Matrix(wrong, SystemClock()).run()
        assert refused.value.fatal and "wr0ng-word" not in str(refused.value)
        stolen = RecordingHost(
            tmp_path / "stolen", {"homeserver": host.settings["homeserver"], "accessToken": "syt_nothing_1234567890"}
        )
        with pytest.raises(ChannelError) as refused:
            await Matrix(stolen, SystemClock()).run()
        assert refused.value.fatal and "syt_nothing" not in str(refused.value)


async def test_an_encrypted_room(tmp_path: Path) -> None:
    from nio.crypto import ENCRYPTION_ENABLED

    if not ENCRYPTION_ENABLED:
        pytest.skip("needs matrix-nio[e2e] (PyPI)")
    store = tmp_path / "her keys"
    store.mkdir()
    async with place(tmp_path, encryption=True) as (server, _, host), Person(server, "carol", store) as carol:
        locked = [{"type": "m.room.encryption", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}]
        matrix = Matrix(host, SystemClock())
        async with running(matrix):
            await until(lambda: host.up)
            me = host.up[0].id
            room = await carol.room(me, name="Vault", initial_state=locked)
            await until(lambda: "joined" in host.kinds)
            await until(lambda: room in carol.client.rooms and me in carol.client.rooms[room].users)
            await carol.say(room, "a secret")
            await until(lambda: host.texts == ["a secret"])
            await matrix.send(to(room), Piece("kept", "kept"), "key-1")
            file = tmp_path / "plan.bin"
            file.write_bytes(b"\0\1" * 5000)
            await matrix.send(to(room), Piece(file=str(file)), "key-2")
            await until(lambda: len(carol.of(me)) == 2)
            assert carol.texts(me)[0] == "kept"
            content = carol.of(me)[1]["content"]
            assert "url" not in content
            await carol.client.room_send(room, "m.room.message", content, ignore_unverified_devices=True)
            await until(lambda: len(host.received) == 2)
            assert b"".join([piece async for piece in matrix.fetch(host.received[1].media[0])]) == file.read_bytes()
        # After a restart it is the same device, with the same keys.
        again = Matrix(host, SystemClock())
        async with running(again):
            await until(lambda: len(host.up) == 2)
            await carol.say(room, "still there?")
            await until(lambda: host.texts[-1] == "still there?")
            await again.send(to(room), Piece("yes", "yes"), "key-3")
            await until(lambda: carol.texts(me)[-1] == "yes")
        blind = RecordingHost(host.folder, dict(host.settings) | {"encryption": False})
        async with running(other := Matrix(blind, SystemClock())):
            await until(lambda: blind.up)
            with pytest.raises(DeliveryError, match="encrypted"):
                await other.send(to(room), Piece("x", "x"), "key-4")
