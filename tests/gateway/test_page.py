"""What our own page relies on: no line is lost or doubled, files stay in their folder, notes are not overwritten, and a link is the owner's to make."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.served import ADMIN, Served, served
from tests.scenarios.home import House, Line, until
from websockets.asyncio.client import unix_connect

from homarus.core.messages import Assistant, Text, Thinking, ToolCall, ToolResult, User
from homarus.gateway.methods.page import _attached, _parts
from homarus.gateway.page_feed import lines_of
from homarus.gateway.protocol import Refused
from homarus.gateway.server import SOCKET
from homarus.sessions.entry import new_entry, new_message
from homarus.skills.install import install

MAIN = "agent:main:main"
CONFIG = {
    "gateway": {"auth": {"secretScopes": ["operator.admin"]}},
    "agents": {"defaults": {"sandbox": {"mode": "off"}}},
}
WRITE: tuple[str, dict[str, Any]] = ("write", {"path": "a.txt", "content": "one\n"})


@pytest.fixture
async def home():
    with tempfile.TemporaryDirectory(prefix="h") as short:  # a socket's path holds a hundred bytes
        house = House(Path(short), Line("first", calls=(WRITE,)), Line("second"), config=CONFIG)
        async with served(house, unix=True) as home:
            yield home


def told(client: Any, kind: str) -> list[dict[str, Any]]:
    return [
        each["payload"] for each in client.events if each["event"] == "page.event" and each["payload"]["kind"] == kind
    ]


async def test_every_line_is_told_once_with_its_id_and_counted(home: Served) -> None:
    async with home.client(scopes=ADMIN) as client:
        opened = await client.call("page.open", {"session": MAIN})
        assert (opened["lines"], opened["live"], opened["continued"]) == ([], None, False)
        await client.call("page.send", {"session": MAIN, "message": "go", "id": "r1"})
        end = await client.event("page.event", kind="end")
        assert end["status"] == "ok"
        lines = [each["line"] for each in told(client, "line")]
        assert [line["role"] for line in lines] == ["user", "assistant", "tool", "assistant"]
        assert (lines[0]["sent"], lines[1]["calls"][0]["name"], lines[2]["call"]) == (
            "r1",
            "write",
            lines[1]["calls"][0]["id"],
        )
        numbers = [each["payload"]["seq"] for each in client.events if each["event"] == "page.event"]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        again = await client.call("page.open", {"session": MAIN})
        assert [line["id"] for line in again["lines"]] == [line["id"] for line in lines]
        rest = await client.call("page.open", {"session": MAIN, "after": lines[1]["id"]})
        assert rest["continued"] and [line["id"] for line in rest["lines"]] == [line["id"] for line in lines[2:]]
        lost = await client.call("page.open", {"session": MAIN, "after": "nothing"})
        assert not lost["continued"] and len(lost["lines"]) == 4


async def test_a_message_that_is_told_has_the_id_that_the_history_gives_it(home: Served) -> None:
    async with home.client(scopes=ADMIN) as client:
        await client.call("sessions.messages.subscribe", {"key": MAIN})
        await client.call("page.open", {"session": MAIN})
        await client.call("page.send", {"session": MAIN, "message": "go", "id": "r1"})
        await client.event("page.event", kind="end")
        frames = [each["payload"] for each in client.events if each["event"] == "session.message"]
        held = (await client.call("chat.history", {"sessionKey": MAIN}))["messages"]
        assert [each["messageId"] for each in frames] == [each["__openclaw"]["id"] for each in held]
        assert [each["message"]["__openclaw"]["id"] for each in frames] == [each["messageId"] for each in frames]


async def test_whoever_comes_later_hears_the_line_that_is_being_said(home: Served) -> None:
    home.house.model.lines = [Line("half an answer", hang=True)]
    async with home.client(scopes=ADMIN) as client, home.client(scopes=ADMIN) as other:
        await client.call("page.send", {"session": MAIN, "message": "go", "id": "r1"})
        await until(lambda: bool(home.house.model.active))
        opened = await other.call("page.open", {"session": MAIN})
        assert opened["live"]["run"] == "r1"
        await client.call("chat.abort", {"sessionKey": MAIN})
        assert (await other.event("page.event", kind="end"))["status"] == "aborted"
        assert not told(client, "end")  # it never asked to look at the session


async def test_a_message_is_said_otherwise_and_the_first_one_cannot(home: Served) -> None:
    async with home.client(scopes=ADMIN) as client:
        await client.call("page.open", {"session": MAIN})
        for number in ("1", "2"):
            await client.call("page.send", {"session": MAIN, "message": f"say {number}", "id": f"r{number}"})
            await client.event("page.event", kind="end", run=f"r{number}")
        users = [each["line"] for each in told(client, "line") if each["line"]["role"] == "user"]
        await client.call("page.goBack", {"session": MAIN, "entry": users[1]["id"]})
        await client.event("page.event", kind="reset")
        kept = (await client.call("page.open", {"session": MAIN}))["lines"]
        assert [line["text"] for line in kept if line["role"] == "user"] == ["say 1"]
        found = (await client.call("page.branches", {"session": MAIN}))["branches"]
        assert "say 2" in [row["said"] for row in found]
        leaf = next(row["leaf"] for row in found if row["said"] == "say 2")
        await client.call("page.goBack", {"session": MAIN, "entry": leaf})
        back = (await client.call("page.open", {"session": MAIN}))["lines"]
        assert [line["text"] for line in back if line["role"] == "user"] == ["say 1", "say 2"]
        refused = await client.ask("page.goBack", {"session": MAIN, "entry": users[0]["id"]})
        assert refused["error"]["details"]["code"] == "FIRST_MESSAGE"
        assert not (await client.ask("page.goBack", {"session": MAIN, "entry": "nowhere"}))["ok"]


async def test_a_note_is_saved_only_over_what_was_shown_and_only_in_the_workspace(home: Served) -> None:
    note = home.house.workspace / "memory/day.md"
    note.parent.mkdir(parents=True)
    note.write_text("one\n")
    async with home.client(scopes=ADMIN) as client:
        shown = await client.call("page.memory.note", {"path": "memory/day.md#L1"})
        assert (shown["text"], shown["editable"], shown["versions"]) == ("one\n", True, [])
        wish = {"path": "memory/day.md", "text": "two\n", "hash": shown["hash"]}
        saved = await client.call("page.memory.save", wish)
        assert note.read_text() == "two\n"
        stale = await client.ask("page.memory.save", wish)
        assert stale["error"]["details"]["code"] == "CHANGED"
        old = await client.call("page.memory.version", {"path": "memory/day.md", "version": saved["versions"][0]})
        assert old["text"] == "one\n"
        new = await client.call("page.memory.save", {"path": "memory/deep/new.md", "text": "x", "hash": ""})
        assert new["exists"] and (home.house.workspace / "memory/deep/new.md").read_text() == "x"
        for path in ("../openclaw.json", "/etc/passwd", "AGENTS.txt", "memory/../../x.md", "memory/.hidden.md"):
            for method, more in (("page.memory.note", {}), ("page.memory.save", {"text": "x", "hash": ""})):
                assert not (await client.ask(method, {"path": path, **more}))["ok"], path
        for version in ("../../../openclaw", "..", "x/y"):
            assert not (await client.ask("page.memory.version", {"path": "memory/day.md", "version": version}))["ok"]


async def test_context_costs_and_archive(home: Served) -> None:
    async with home.client(scopes=ADMIN) as client:
        await client.call("page.open", {"session": MAIN})
        await client.call("page.send", {"session": MAIN, "message": "go", "id": "r1"})
        await client.event("page.event", kind="end")
        found = await client.call("page.context", {"session": MAIN})
        assert {"instructions", "tools", "user", "assistant"} <= {part["name"] for part in found["parts"]}
        assert sum(part["tokens"] for part in found["parts"]) == found["used"]  # the parts are all that there is
        costs = await client.call("page.costs", {"days": 7})
        assert [row["calls"] for row in costs["days"]] == [0] * 6 + [2]
        assert costs["total"]["calls"] == 2 and [row["name"] for row in costs["causes"]] == ["answer"]
        await client.call("page.archive", {"session": MAIN, "archived": True})
        assert [row["key"] for row in (await client.call("sessions.list", {"archived": True}))["sessions"]] == [MAIN]
        await client.call("page.archive", {"session": MAIN, "archived": False})
        assert home.house.row().get("archived") is None
        assert (await client.call("page.audit", {"limit": 50}))["rows"]


async def test_what_a_compaction_replaced_is_read_step_by_step(home: Served) -> None:
    store = home.gateway.client.home.store("main")
    with store.open_writer(store.key("agent:main:explicit:old")) as writer:
        for number in range(40):
            kept = writer.append_message(User((Text(f"question {number}"),)))
            call = ToolCall(f"c{number}", "read", {"path": "a"})
            writer.append_message(Assistant((Text(f"answer {number}"), call)))
            writer.append_message(ToolResult(f"c{number}", "read", (Text("x"),)))
            if number in {10, 30}:
                writer.compact(f"summary {number}", kept.id, 100)
    where = {"session": "agent:main:explicit:old"}
    async with home.client(scopes=ADMIN) as client:
        opened = await client.call("page.open", where)
        lines, more, steps = opened["lines"], opened["more"], 0
        assert more and lines[0]["text"] == "question 30"
        while more:
            found = await client.call("page.earlier", {**where, "before": lines[0]["id"], "limit": 25})
            assert found["lines"][0]["role"] != "tool"  # a result comes with its call
            lines, more, steps = [*found["lines"], *lines], found["more"], steps + 1
        assert 3 <= steps <= 6
        assert [x["text"] for x in lines if x["role"] == "user"] == [f"question {number}" for number in range(40)]
        assert [x["text"] for x in lines if x["role"] == "summary"] == ["summary 10", "summary 30"]
        assert len({line["id"] for line in lines}) == len(lines) == 122
        none = await client.call("page.earlier", {**where, "before": "nothing"})
        assert none == {"lines": [], "more": False}


@given(
    sizes=st.lists(st.integers(0, 5_000), min_size=1, max_size=30),
    used=st.integers(0, 100_000),
    kept=st.integers(0, 200_000),
)
def test_the_parts_of_a_window_add_up(sizes: list[int], used: int, kept: int) -> None:
    rows = _parts([(f"part {at % 7}", size) for at, size in enumerate(sizes)], used, kept)
    if sum(sizes):
        assert sum(row["tokens"] for row in rows) == used
    assert all(0 <= row["cached"] <= row["tokens"] for row in rows)


async def test_a_skill_is_read_and_approved_as_it_was_read(home: Served, tmp_path: Path) -> None:
    paths, source = home.gateway.client.home.config.paths, tmp_path / "tidy"
    source.mkdir()
    (source / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidy up.\n---\nUse `jq`.\n")
    install(str(source), paths.own_dir, paths.skills_dir)
    async with home.client(scopes=ADMIN) as client:
        found = await client.call("page.skill", {"name": "tidy"})
        assert "Use `jq`." in found["text"] and found["findings"] == []
        (paths.skills_dir / "tidy/SKILL.md").write_text("---\nname: tidy\ndescription: x\n---\nOther words.\n")
        wish = {"name": "tidy", "sha256": found["sha256"]}
        assert "changed meanwhile" in (await client.ask("page.skill.approve", wish))["error"]["message"]
        assert "tidy" in home.gateway.client.home.quarantined.now()
        wish["sha256"] = (await client.call("page.skill", {"name": "tidy"}))["sha256"]
        await client.call("page.skill.approve", wish)
        rows = (await client.call("skills.status"))["skills"]
        assert [row["quarantined"] for row in rows if row["name"] == "tidy"] == [False]
        for name in ("none", "../x", ""):
            assert not (await client.ask("page.skill", {"name": name}))["ok"]


async def test_only_the_machine_itself_makes_a_link(home: Served) -> None:
    from tests.gateway.served import Key, Wire

    async with home.client(scopes=ADMIN) as client:
        assert (await client.ask("page.link"))["error"]["code"] == "FORBIDDEN"
    own = home.gateway.client.home.config.paths.own_dir / SOCKET
    async with unix_connect(str(own)) as raw:
        local = Wire(raw)
        await local.connect(None, scopes=())
        code = (await local.call("page.link"))["code"]
    origin = {"Origin": f"http://127.0.0.1:{home.port}"}
    everything = ("operator.admin", "operator.pairing")
    async with home.socket(**origin) as browser:
        let_in = await browser.connect(
            None,
            scopes=everything,
            ident="homarus-web",
            mode="ui",
            auth={"bootstrapToken": code},
            device=(key := Key()),
        )
        assert "operator.admin" in let_in["payload"]["auth"]["scopes"]
        token = let_in["payload"]["auth"]["deviceToken"]
    async with home.socket(**origin) as browser:
        assert not (await browser.connect(None, scopes=everything, auth={"bootstrapToken": code}, device=Key()))["ok"]
    async with home.socket(**origin) as browser:
        known = await browser.connect(
            None, scopes=everything, ident="homarus-web", mode="ui", auth={"deviceToken": token}, device=key
        )
        assert "operator.pairing" in known["payload"]["auth"]["scopes"]


@given(name=st.text(max_size=60), data=st.binary(max_size=40))
def test_a_file_never_leaves_its_folder_and_its_name_is_no_markup(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: bytes
) -> None:
    from homarus.gateway.methods.page import File

    folder = tmp_path_factory.mktemp("w")
    _, text = _attached(folder, (File(name, base64.b64encode(data).decode()),))
    assert text.count("<file ") <= 1 + data.count(b"<file ")
    assert '"' not in text.split('name="', 1)[1].split('">', 1)[0]
    assert {path.parent for path in folder.rglob("*") if path.is_file()} <= {folder / "uploads"}


def test_a_text_in_another_encoding_is_read_and_not_put_aside(tmp_path: Path) -> None:
    from homarus.gateway.methods.page import File

    _, text = _attached(tmp_path, (File("n.txt", base64.b64encode("Grüße".encode("latin-1")).decode()),))
    assert text == '[n.txt was read as Windows-1252]\n\n<file name="n.txt">\nGrüße\n</file>'
    assert not (tmp_path / "uploads").exists()


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    from homarus.gateway.methods.page import File

    with pytest.raises(Refused):
        _attached(tmp_path, (File("x", "not base64!"),))


def test_lines_show_thoughts_context_and_what_a_tool_changed() -> None:
    said = [
        User((Text("hello"),), timestamp=1),
        Assistant((Thinking("hm"), Text("NO_REPLY"), ToolCall("c1", "edit", {"path": "x"})), timestamp=2),
        ToolResult("c1", "edit", (Text("done"),), details={"diff": "+x"}, timestamp=3),
    ]
    entries: list[Any] = [
        new_message(f"m{at}", None, "2026-05-01T00:00:00Z", each, at)[1] for at, each in enumerate(said)
    ]
    carrier = {"customType": "openclaw.runtime-context", "content": "memory/a.md#L1", "display": False}
    entries.insert(1, new_entry("custom_message", "c", "m0", "2026-05-01T00:00:00Z", carrier))
    user, answer, result = lines_of(entries)
    assert (user["text"], user["context"]) == ("hello", "memory/a.md#L1")
    assert (answer["text"], answer["thinking"], answer["calls"][0]["name"]) == ("", "hm", "edit")
    assert result["details"] == {"diff": "+x"}
