"""Channels through the gateway: what clients are told, and what they can have sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.gateway.served import Served, served
from tests.scenarios.chat import CONFIG, Platform
from tests.scenarios.home import House, merge, until


@pytest.fixture
def chat() -> Platform:
    return Platform()


@pytest.fixture
async def home(tmp_path: Path, chat: Platform) -> AsyncIterator[Served]:
    config = merge(CONFIG, {"gateway": {"auth": {"secretScopes": ["operator.admin"]}}})
    async with served(House(tmp_path, "hello", config=config), platforms=chat.given) as found:
        async with asyncio.timeout(120):
            await chat.up.wait()
        yield found


async def test_the_status_of_channels_has_the_shape_that_clients_know(home: Served) -> None:
    async with home.client() as client:
        found = await client.call("channels.status", {"probe": True})
        health, status = await client.call("health"), await client.call("status")
    assert found["channelOrder"] == ["fake"]
    assert found["channelLabels"] == {"fake": "Fake"}
    assert found["channelDefaultAccountId"] == {"fake": "default"}
    (account,) = found["channelAccounts"]["fake"]
    assert account["connected"]
    assert account["probe"] == {"ok": True, "self": {"id": "bot", "name": "Fake bot", "handle": "bot"}}
    assert health["channels"]["fake"] == {"configured": True, "running": True, "connected": True}
    assert status["channelSummary"] == ["fake/default: connected"]


async def test_a_message_is_sent_once_for_its_key(home: Served, chat: Platform) -> None:
    wish = {"to": "8", "channel": "fake", "message": "**tea**", "idempotencyKey": "k1"}
    async with home.client() as client:
        first = await client.call("send", wish)
        again = await client.call("send", wish)
    assert (first["runId"], first["messageId"], first["status"]) == ("k1", "s1", "sent")
    assert again["status"] == "sent"
    assert chat.texts == ["**tea**"]


async def test_what_cannot_be_sent_is_refused_with_a_reason(home: Served) -> None:
    async with home.client() as client:
        for wish, word in (
            ({"to": "x", "channel": "nosuch", "message": "a"}, "nosuch"),
            ({"to": "x", "channel": "webchat", "message": "a"}, "nobody can be written to there"),
            ({"to": "x", "channel": "terminal", "message": "a"}, "nobody can be written to there"),
            ({"to": "", "channel": "fake", "message": "a"}, "nobody is named"),
            ({"to": "x", "channel": "fake", "accountId": "two", "message": "a"}, "fake/two"),
            ({"to": "x", "channel": "fake", "message": "NO_REPLY"}, "nothing to send"),
        ):
            answer = await client.ask("send", {**wish, "idempotencyKey": word})
            assert not answer["ok"]
            assert word in answer["error"]["message"]


async def test_a_message_for_an_account_that_is_down_is_queued(home: Served, chat: Platform) -> None:
    home.gateway.switchboard.send_seconds = 0.1
    async with home.client(scopes=("operator.admin",)) as client:
        await client.call("channels.stop", {"channel": "fake"})
        answer = await client.ask("send", {"to": "8", "channel": "fake", "message": "later", "idempotencyKey": "k"})
        assert answer["error"]["details"]["code"] == "OUTBOUND_DELIVERY_QUEUED"
        await client.call("channels.start", {"channel": "fake"})
        await chat.sees(1)
    assert chat.texts == ["later"]


async def test_actions_and_their_limits(home: Served, chat: Platform) -> None:
    async with home.client() as client:

        async def act(action: str, **params: object) -> dict[str, object]:
            call = {"channel": "fake", "action": action, "params": {"target": "8", **params}}
            answer: dict[str, object] = await client.ask("message.action", {**call, "idempotencyKey": action})
            return answer

        assert (await act("send", message="hi"))["ok"]
        assert (await act("react", messageId="m9", emoji="✅"))["ok"]
        assert (await act("edit", messageId="s1", message="hello"))["ok"]
        assert not (await act("edit", messageId="m9", message="no"))["ok"], "others' messages are not ours to change"
        assert not (await act("delete", messageId="m9"))["ok"]
        assert (await act("delete", messageId="s1"))["ok"]
        assert (await act("poll", pollQuestion="When?", pollOption=["8", "9"]))["ok"]
        assert not (await act("dance"))["ok"]
    assert chat.signs == [("react", "m9✅"), ("edit", "s1=hello"), ("delete", "s1")]
    assert "1. 8" in chat.texts[1]


async def test_a_reader_cannot_send_and_a_writer_cannot_stop_accounts(home: Served) -> None:
    async with home.client(scopes=("operator.read",)) as client:
        answer = await client.ask("send", {"to": "8", "channel": "fake", "message": "a", "idempotencyKey": "k"})
        assert answer["error"]["details"]["missingScope"] == "operator.write"
    async with home.client() as client:
        answer = await client.ask("channels.stop", {"channel": "fake"})
        assert answer["error"]["details"]["missingScope"] == "operator.admin"


async def test_a_changed_channel_is_started_anew_and_nothing_else(home: Served, chat: Platform) -> None:
    path = home.house.state / "openclaw.json"
    document = json.loads(path.read_text())
    document["channels"]["fake"]["accounts"] = {"default": {}, "two": {"name": "second"}}
    path.write_text(json.dumps(document))
    before = home.gateway.switchboard.status()[0].last_start_at
    assert home.gateway.life.changed() == "hot"
    await until(lambda: sum(each.connected for each in home.gateway.switchboard.status()) == 2)
    found = {each.account_id: each for each in home.gateway.switchboard.status()}
    assert found["default"].last_start_at == before
    document["channels"]["fake"]["enabled"] = False
    path.write_text(json.dumps(document))
    assert home.gateway.life.changed() == "hot"
    await until(lambda: not any(each.connected for each in home.gateway.switchboard.status()))


async def test_a_login_waits_for_the_account(home: Served) -> None:
    async with home.client(scopes=("operator.admin",)) as client:
        assert (await client.call("web.login.start", {"channel": "fake", "force": True}))["connected"]
        assert (await client.call("web.login.wait", {"channel": "fake", "timeoutMs": 100}))["connected"]
        assert (await client.call("channels.logout", {"channel": "fake"}))["loggedOut"]
        assert not (await client.call("web.login.wait", {"channel": "fake", "timeoutMs": 100}))["connected"]


async def test_metrics_count_what_went_through(home: Served, chat: Platform) -> None:
    await chat.says("hello")
    await chat.sees(1)
    await until(lambda: not home.gateway.switchboard.outbox.pending())
    text = home.gateway.metrics.text(home.gateway)
    assert 'homarus_message_received_total{channel="fake"} 1' in text
    assert 'homarus_message_delivery_total{channel="fake",outcome="sent"} 1' in text
    assert 'homarus_channel_connected{channel="fake",account="default"} 1' in text


async def test_a_chat_of_the_page_is_no_target_and_sees_what_a_channel_said(home: Served, chat: Platform) -> None:
    async with home.client() as client:
        await chat.says("hello")
        await chat.sees(1)
        history = await client.call("chat.history", {"sessionKey": "main"})
        await client.call("chat.send", {"sessionKey": "main", "message": "and here", "idempotencyKey": "w1"})
        await client.event("chat", state="final")
    assert [row["role"] for row in history["messages"]] == ["user", "assistant"]
    assert len(chat.texts) == 1, "what the page asks is answered on the page"


async def test_people_are_found(home: Served) -> None:
    async with home.client() as client:
        found = await client.call("directory.list", {"channel": "fake", "query": "an"})
    assert found["entries"] == [{"id": "7", "name": "Ann"}]


async def test_an_answer_is_also_sent_where_its_client_wants_it(home: Served, chat: Platform) -> None:
    async with home.client() as client:
        for number, (to, channel) in enumerate((("8", "fake"), ("8", "nosuch"))):
            wish = {"message": "hello", "deliver": True, "channel": channel, "to": to, "idempotencyKey": f"a{number}"}
            ident = await client.send("agent", wish)
            assert (await client.response(ident))["payload"]["status"] == "accepted"
            result = (await client.response(ident))["payload"]["result"]
            assert result["deliveryStatus"]["status"] == ("sent" if channel == "fake" else "failed")
        await chat.sees(1)
    assert [(each.to, each.text) for each in chat.shown] == [("8", "hello")]
