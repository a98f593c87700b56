"""Jobs, wake-ups and heartbeats through the gateway, as clients of OpenClaw ask for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gateway.served import ADMIN, Served, served
from tests.scenarios.home import House, until

HOURLY = {"kind": "every", "everyMs": 3_600_000}
JOB = {"name": "mail", "schedule": HOURLY, "sessionTarget": "isolated", "wakeMode": "now",
       "payload": {"kind": "agentTurn", "message": "look"}}  # fmt: skip


@pytest.fixture
async def home(tmp_path: Path):
    config = {
        "agents": {"defaults": {"heartbeat": {"every": "30m"}}},
        "gateway": {"auth": {"secretScopes": ["operator.admin", "operator.read", "operator.write"]}},
    }
    async with served(House(tmp_path, config=config)) as found:
        yield found


async def test_the_life_of_a_job(home: Served) -> None:
    async with home.client(scopes=ADMIN) as client:
        job = await client.call("cron.add", JOB | {"homarus": {"trust": "owner"}})
        assert job["state"]["nextRunAtMs"]
        assert "homarus" not in job
        assert (await client.event("cron", action="added"))["jobId"] == job["id"]
        listed = await client.call("cron.list", {"includeDisabled": False, "limit": 200, "offset": 0})
        assert [row["id"] for row in listed["jobs"]] == [job["id"]]
        assert (listed["total"], listed["hasMore"]) == (1, False)
        changed = await client.call("cron.update", {"id": job["id"], "patch": {"enabled": False}})
        assert changed["enabled"] is False
        assert (await client.call("cron.list", {"includeDisabled": False}))["jobs"] == []
        assert (await client.call("cron.list", {"includeDisabled": True, "query": "MAIL"}))["total"] == 1
        skipped = await client.call("cron.run", {"id": job["id"], "mode": "if-enabled"})
        assert skipped["enqueued"] is False
        started = await client.call("cron.run", {"jobId": job["id"], "mode": "force"})
        assert started["enqueued"]
        ended = await client.event("cron", action="finished", runId=started["runId"])
        assert (ended["status"], ended["summary"]) == ("ok", "answer 1")
        runs = await client.call("cron.runs", {"id": job["id"], "limit": 5})
        assert [row["runId"] for row in runs["entries"]] == [started["runId"]]
        assert (await client.call("cron.status"))["jobs"] == 1
        assert await client.call("cron.remove", {"id": job["id"]}) == {"ok": True, "removed": True}


async def test_what_is_wrong_is_an_invalid_request_in_words(home: Served) -> None:
    async with home.client(scopes=ADMIN) as client:
        wrong = await client.ask("cron.add", JOB | {"schedule": {"kind": "cron", "expr": "99 * * * *"}})
        assert wrong["error"]["code"] == "INVALID_REQUEST"
        assert "99 * * * *" in wrong["error"]["message"]
        for method, params in [("cron.remove", {"id": "x"}), ("cron.run", {}), ("cron.update", {"id": "x", "patch": {}}),
                               ("cron.get", {"id": "x"}), ("wake", {"text": " "})]:  # fmt: skip
            assert not (await client.ask(method, params))["ok"], method


async def test_jobs_are_the_owners(home: Served) -> None:
    async with home.client() as client:
        assert (await client.call("cron.list"))["jobs"] == []
        for method in ("cron.add", "cron.update", "cron.remove", "cron.run", "system-event", "set-heartbeats"):
            assert (await client.ask(method, {}))["error"]["message"] == "missing scope: operator.admin", method


async def test_a_wake_is_heard_at_once_and_an_event_with_the_next_turn(home: Served) -> None:
    async with home.client(scopes=ADMIN) as client:
        assert await client.call("system-event", {"text": "the parcel came"}) == {"ok": True}
        assert await client.call("wake", {"mode": "now", "text": "the build is done"}) == {"ok": True}
        await until(lambda: bool(home.house.model.requests))
        context = home.house.model.requests[0].messages[-1].context
        assert "the parcel came" in context
        assert "the build is done" in context


async def test_an_event_may_wake_at_once_and_is_told_once_by_its_key(home: Served) -> None:
    async with home.client(scopes=ADMIN) as client:
        event = {"text": "the door is open", "wake": True, "idempotencyKey": "door", "mode": "node", "host": "cellar"}
        for text in ("the door is open", "the door is still open"):
            assert await client.call("system-event", {**event, "text": text}) == {"ok": True}
        await until(lambda: bool(home.house.model.requests), 60)
        context = home.house.model.requests[0].messages[-1].context
        assert "the door is open" in context
        assert "still" not in context


async def test_heartbeats_can_be_switched_and_looked_at(home: Served) -> None:
    async with home.client(scopes=ADMIN) as client:
        assert await client.call("last-heartbeat") is None
        assert (await client.call("set-heartbeats", {"enabled": False}))["enabled"] is False
        assert (await client.call("cron.status"))["heartbeats"]["enabled"] is False
        health = await client.call("health")
        assert health["heartbeatSeconds"] == 1800
        assert health["agents"][0]["heartbeat"]["everyMs"] == 1_800_000
