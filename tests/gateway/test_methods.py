"""What methods answer: sessions, configuration, catalogues, devices, approvals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import Key, Served, Wire, served
from tests.scenarios.home import House
from tests.scenarios.script import Line

from homarus.gateway.methods import table

MAIN = "agent:main:main"
EVERYTHING = ("operator.admin",)


@pytest.fixture
async def home(tmp_path: Path):
    house = House(tmp_path, config={"gateway": {"auth": {"secretScopes": list(EVERYTHING)}}})
    async with served(house) as found:
        yield found


@pytest.fixture
async def client(home: Served):
    async with home.client(scopes=EVERYTHING) as found:
        yield found


async def said(client: Wire, text: str, ident: str, key: str = MAIN) -> None:
    await client.call("chat.send", {"sessionKey": key, "message": text, "idempotencyKey": ident})
    await client.event("chat", runId=ident, state="final")


async def test_what_is_offered_is_what_there_is(client: Wire) -> None:
    offered = client.hello["features"]["methods"]
    assert offered == sorted(table())
    for name in ("models.fly", "connect", "", "x" * 300):
        assert "ok" not in offered
        await client.raw.send(json.dumps({"type": "req", "id": "1", "method": name or "none"}))
        if len(name) < 200:
            assert (await client.response("1"))["error"]["code"] == "INVALID_REQUEST"


# What each kind of client of OpenClaw needs, each with all that stands before it.
NEEDED = {
    "command line": "health status system-presence agent agent.wait chat.abort logs.tail channels.status config.get "
    "cron.list device.pair.list node.list message.action exec.approvals.get send wake",
    "terminal": "sessions.subscribe sessions.list sessions.describe agents.list chat.history chat.send commands.list",
    "chat page": "sessions.messages.subscribe chat.startup chat.metadata models.list models.authStatus agent.identity.get "
    "exec.approval.list plugin.approval.list openclaw.approval.list question.list cron.list cron.status chat.inject",
    "other pages": "config.schema config.schema.lookup config.set config.patch config.apply skills.status skills.update "
    "skills.install tools.catalog tools.effective tools.invoke agents.files.list agents.files.get agents.files.set "
    "agents.create agents.update agents.delete cron.add cron.update cron.remove cron.run cron.runs sessions.patch "
    "sessions.create sessions.reset sessions.compact sessions.delete sessions.usage sessions.send sessions.preview "
    "sessions.resolve device.pair.list device.pair.approve device.pair.reject device.pair.remove device.pair.rename "
    "device.pair.setupCode device.token.rotate device.token.revoke node.list usage.cost exec.approvals.get "
    "exec.approvals.set exec.approval.request exec.approval.waitDecision exec.approval.resolve update.status tasks.list "
    "system.info",
    "nodes": "node.pair.list node.pair.approve node.pair.reject node.pair.remove node.event node.skills.update "
    "node.pluginTools.update node.runnerInventory.update node.invoke node.invoke.result node.list node.describe",
}


@pytest.mark.parametrize("kind", NEEDED)
def test_what_a_kind_of_client_needs_is_there(kind: str) -> None:
    assert set(NEEDED[kind].split()) - set(table()) == set()


async def test_parameters_are_closed_and_errors_say_which(client: Wire) -> None:
    missing = (await client.ask("chat.history", {}))["error"]["message"]
    extra = (await client.ask("chat.history", {"sessionKey": "main", "nope": 1}))["error"]["message"]
    assert missing == "invalid chat.history params: must have required property 'sessionKey'"
    assert extra == "invalid chat.history params: at root: unexpected property 'nope'"


async def test_the_life_of_a_session(home: Served, client: Wire) -> None:
    made = await client.call("sessions.create", {"label": "plans", "model": "script/other", "thinkingLevel": "low"})
    key = made["key"]
    assert key.startswith("agent:main:dashboard:")
    assert made["resolved"] == {"modelProvider": "script", "model": "other", "thinkingLevel": "low"}
    await said(client, "hello", "r1", key)
    listed = await client.call("sessions.list", {"search": "plans", "includeLastMessage": True})
    [row] = listed["sessions"]
    assert (row["key"], row["label"], row["lastMessagePreview"]) == (key, "plans", "answer 1")
    assert None not in row.values()
    patched = await client.call("sessions.patch", {"key": key, "label": "trips", "model": None, "pinned": True})
    assert (patched["entry"]["label"], patched["entry"]["pinned"]) == ("trips", True)
    assert patched["entry"]["model"] != "other"
    preview = await client.call("sessions.preview", {"keys": [key, "agent:ghost:main"]})
    assert [each["status"] for each in preview["previews"]] == ["ok", "missing"]
    assert (await client.call("sessions.resolve", {"label": "trips"}))["key"] == key
    before = row["sessionId"]
    await said(client, "bye", "r2", key)
    assert (await client.call("sessions.reset", {"key": key}))["entry"]["sessionId"] != before
    gone = await client.call("sessions.delete", {"key": key})
    assert (gone["deleted"], gone["archived"]) == (True, [])  # nothing was said since it started over
    await said(client, "again", "r3", key)
    assert Path((await client.call("sessions.delete", {"key": key}))["archived"][0]).is_file()
    assert (await client.call("sessions.delete", {"key": key}))["deleted"] is False
    assert (await client.call("sessions.list", {"search": "trips"}))["sessions"] == []
    assert "main session" in (await client.ask("sessions.delete", {"key": "main"}))["error"]["message"]


async def test_reading_makes_no_session(home: Served, client: Wire) -> None:
    seen = await client.call("chat.history", {"sessionKey": "agent:main:nothing-here"})
    assert (seen["messages"], seen["sessionId"]) == ([], "")
    await client.call("sessions.describe", {"key": "agent:main:nothing-here"})
    assert not (home.house.state / "agents/main/sessions").exists()


async def test_history_goes_on_from_a_cursor(client: Wire) -> None:
    await said(client, "one", "r1")
    cursor = (await client.call("chat.history", {"sessionKey": MAIN}))["deltaCursor"]
    await said(client, "two", "r2")
    more = await client.call("chat.history", {"sessionKey": MAIN, "cursor": cursor})
    assert (more["kind"], [message["role"] for message in more["messages"]]) == ("delta", ["user", "assistant"])
    assert (await client.call("chat.history", {"sessionKey": MAIN, "cursor": "gone"})) == {"kind": "reset"}
    short = await client.call("chat.history", {"sessionKey": MAIN, "limit": 1})
    assert (len(short["messages"]), short["hasMore"], short["totalMessages"]) == (1, True, 4)


async def test_words_can_be_put_into_a_transcript(home: Served, client: Wire) -> None:
    done = await client.call("chat.inject", {"sessionKey": MAIN, "message": "the build is done", "label": "ci"})
    [only] = (await client.call("chat.history", {"sessionKey": MAIN}))["messages"]
    assert (only["role"], only["content"][0]["text"]) == ("assistant", "[ci]\n\nthe build is done")
    assert only["__openclaw"]["id"] == done["messageId"]
    [branch] = (await client.call("sessions.branches.list", {"sessionKey": MAIN}))["branches"]
    assert (branch["leafEntryId"], branch["messageCount"], branch["active"]) == (done["messageId"], 1, True)
    assert home.house.model.requests == []


async def test_costs_are_counted_from_transcripts(client: Wire) -> None:
    await said(client, "one", "r1")
    used = await client.call("sessions.usage", {"range": "7d"})
    assert used["totals"]["totalTokens"] == 110
    assert [row["key"] for row in used["sessions"]] == [MAIN]
    assert (await client.call("usage.cost", {}))["totals"]["totalTokens"] == 110
    assert "invalid date" in (await client.ask("sessions.usage", {"startDate": "soon"}))["error"]["message"]


async def test_the_configuration_is_shown_without_secrets_and_changed_on_top_of_what_was_seen(
    home: Served, client: Wire
) -> None:
    file = home.house.state / "openclaw.json"
    document = json.loads(file.read_text())
    document["hooks"] = {"token": "a-secret-that-nobody-may-see"}
    file.write_text(json.dumps(document))
    state = await client.call("config.get")
    assert "a-secret" not in json.dumps(state)
    wish = {"raw": json.dumps({"messages": {"queue": {"cap": 7}}})}
    assert "hash" in (await client.ask("config.patch", wish))["error"]["message"]
    assert "re-run config.get" in (await client.ask("config.patch", {**wish, "baseHash": "old"}))["error"]["message"]
    done = await client.call("config.patch", {**wish, "baseHash": state["hash"]})
    assert done["changedPaths"] == ["messages.queue.cap"] or done["changedPaths"] == ["messages"]
    told = await client.event("config.changed")
    assert told["hash"] == done["hash"]
    written = json.loads(file.read_text())
    assert (written["messages"]["queue"]["cap"], written["hooks"]["token"]) == (7, "a-secret-that-nobody-may-see")
    broken = {"raw": '{"gateway": {"port": "many"}}', "baseHash": done["hash"]}
    assert "gateway.port" in (await client.ask("config.patch", broken))["error"]["message"]
    # A page writes back what it was shown: the markers stand for what they hid.
    again = await client.call("config.set", {"raw": json.dumps(done["config"]), "baseHash": done["hash"]})
    assert json.loads(file.read_text())["hooks"]["token"] == "a-secret-that-nobody-may-see"
    assert again["ok"] is True


async def test_a_schema_without_references(client: Wire) -> None:
    schema = (await client.call("config.schema"))["schema"]
    assert "$ref" not in json.dumps(schema)
    found = await client.call("config.schema.lookup", {"path": "gateway"})
    assert (found["reloadKind"], "auth" in {row["key"] for row in found["children"]}) == ("restart", True)


async def test_too_many_changes_are_put_off(client: Wire) -> None:
    codes = [(await client.ask("config.set", {"raw": "no"}))["error"]["code"] for _ in range(31)]
    assert codes[0] == "INVALID_REQUEST"
    assert codes[-1] == "UNAVAILABLE"


async def test_catalogues(home: Served, client: Wire) -> None:
    agents = await client.call("agents.list", {})
    assert agents["agents"][0]["model"] == {"primary": "script/model"}
    names = {row["name"] for row in (await client.call("commands.list", {"scope": "text"}))["commands"]}
    assert {"new", "status"} <= names
    assert {row["name"] for row in (await client.call("skills.status", {}))["skills"]}
    groups = (await client.call("tools.catalog", {}))["groups"]
    assert "read" in {tool["id"] for group in groups for tool in group["tools"]}
    assert all(row["available"] for row in (await client.call("models.list", {}))["models"])


async def test_tools_from_outside(client: Wire) -> None:
    for name in ("exec", "write", "sessions_send", "gateway", "cron", "nothing"):
        answer = await client.call("tools.invoke", {"name": name, "args": {"command": "id"}})
        assert (answer["ok"], answer["error"]["code"]) == (False, "not_found")
    assert (await client.call("tools.invoke", {"name": "session_status", "args": {}}))["ok"] is True


async def test_files_of_an_agent_and_no_others(home: Served, client: Wire) -> None:
    done = await client.call("agents.files.set", {"agentId": "main", "name": "USER.md", "content": "# Ann\n"})
    assert (home.house.workspace / "USER.md").read_text() == "# Ann\n"
    stale = {"agentId": "main", "name": "USER.md", "content": "x", "expectedHash": "0"}
    assert "changed" in (await client.ask("agents.files.set", stale))["error"]["message"]
    assert (await client.call("agents.files.get", {"agentId": "main", "name": "USER.md"}))["file"]["hash"] == done[
        "file"
    ]["hash"]
    for name in ("../openclaw.json", "/etc/passwd", "memory/x.md"):
        for method, more in (("agents.files.get", {}), ("agents.files.set", {"content": "x"})):
            error = (await client.ask(method, {"agentId": "main", "name": name, **more}))["error"]
            assert "unsupported file" in error["message"]


async def test_devices_are_approved_from_a_client(home: Served, client: Wire) -> None:
    own = {"Origin": f"http://127.0.0.1:{home.port}"}
    async with home.client(
        ident="webchat-ui", mode="webchat", device=Key("v2"), scopes=("operator.talk.secrets",), headers=own
    ):
        pass
    book = await client.call("device.pair.list", {})
    assert (book["pending"], book["paired"]) == ([], [])  # this secret gives everything, so nobody has to ask
    key = Key()
    async with home.client(ident="openclaw-tui", mode="ui", device=key, scopes=EVERYTHING) as other:
        assert other.hello["auth"]["deviceToken"]
        [row] = (await client.call("device.pair.list", {}))["paired"]
        assert (row["deviceId"], row["approvedVia"]) == (key.id, "silent")
        rotated = await client.call(
            "device.token.rotate", {"deviceId": key.id, "role": "operator", "scopes": ["operator.read"]}
        )
        assert rotated["scopes"] == ["operator.read"]
        assert (await other.closed())[0] == 1008
    for said in ({"label": "Phone"}, {"displayName": "Telephone"}):  # as the original's clients say it, and our page
        named = await client.call("device.pair.rename", {"deviceId": key.id, **said})
        assert named["device"]["displayName"] in said.values()
    assert not (await client.ask("device.pair.rename", {"deviceId": key.id}))["ok"]
    assert (await client.call("device.pair.remove", {"deviceId": key.id}))["removed"] is True
    assert "no device" in (await client.ask("device.pair.remove", {"deviceId": key.id}))["error"]["message"]


async def test_a_question_is_asked_of_those_who_may_answer(tmp_path: Path) -> None:
    call: tuple[str, dict[str, Any]] = ("exec", {"command": "touch asked"})
    house = House(
        tmp_path, Line(calls=(call,)), Line("done"), config={"agents": {"defaults": {"sandbox": {"mode": "off"}}}}
    )
    async with served(house) as home, home.client(scopes=("operator.write", "operator.approvals")) as client:
        await client.call("chat.send", {"sessionKey": MAIN, "message": "go", "idempotencyKey": "r1"})
        asked = await client.event("exec.approval.requested")
        listed = await client.call("exec.approval.list", {})
        assert [row["id"] for row in listed] == [asked["id"]]
        assert (await client.ask("exec.approval.resolve", {"id": "other", "decision": "deny"}))["error"][
            "code"
        ] == "APPROVAL_NOT_FOUND"
        assert (await client.call("exec.approval.resolve", {"id": asked["id"], "decision": "deny"})) == {"ok": True}
        await client.event("exec.approval.resolved", decision="deny")
        final = await client.event("chat", runId="r1", state="final")
        assert final["message"]["content"][0]["text"] == "done"
        assert not (house.workspace / "asked").exists()


async def test_pictures_go_along_and_other_files_are_refused(home: Served, client: Wire) -> None:
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    send = {"sessionKey": MAIN, "message": "look", "idempotencyKey": "r1"}
    for bad in ({"mimeType": "application/pdf", "content": dot}, {"mimeType": "image/png", "content": "not base64!"}):
        assert not (await client.ask("chat.send", {**send, "attachments": [bad]}))["ok"]
    await client.call("chat.send", {**send, "attachments": [{"mimeType": "image/png", "content": dot}]})
    await client.event("chat", runId="r1", state="final")
    assert "image" in str(home.house.model.requests[-1].messages[-1])


async def test_status_and_log(client: Wire) -> None:
    status = await client.call("status", {"includeChannelSummary": False})
    assert status["sessions"]["count"] == 0
    assert (await client.call("logs.tail", {"limit": 5}))["lines"] == []
    [gateway, own] = await client.call("system-presence")
    assert (gateway["mode"], own["clientId"]) == ("gateway", "cli")
