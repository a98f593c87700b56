"""`homarus sessions` on homes that OpenClaw wrote, and on our own."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.fixtures.homes import HOMES, Home, snapshot, unpack
from tests.sessions.lines import header, jsonl, says, user

from homarus.cli.app import App
from homarus.cli.sessions import command
from homarus.cli.sessions_show import new_entries
from homarus.core.errors import ConfigError, Locked, StorageError, Unknown
from homarus.sessions.places import own

MAIN = "agent:main:main"
TWO = "agent:main:explicit:fixture-two"


def run(home: Home | Path, *args: str) -> Result:
    env = home.env if isinstance(home, Home) else {"HOME": str(home), "PATH": os.environ["PATH"]}
    return CliRunner().invoke(command, args, obj=App(env=env), catch_exceptions=False, standalone_mode=False)


def answer(home: Home | Path, *args: str):
    return json.loads(run(home, *args, "--json").output)


@pytest.fixture(params=HOMES)
def home(request, tmp_path) -> Home:
    return unpack(request.param, tmp_path)


@pytest.fixture
def mine(tmp_path) -> Path:
    folder = tmp_path / ".openclaw" / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    rows = [user("a", None, "find the red lamp"), says("b", "a", "it is upstairs")]
    (folder / "s1.jsonl").write_bytes(jsonl(header("s1"), *rows))
    (folder / "sessions.json").write_text(
        json.dumps({MAIN: {"sessionId": "s1", "updatedAt": 1_777_000_000_000, "label": "lamps"}})
    )
    return tmp_path


def test_looking_at_a_real_home_changes_no_byte(home):
    before = snapshot(home.root)
    assert [s["key"] for s in answer(home, "list")["sessions"]] == [MAIN, TWO]
    assert "mock/mock-model" in run(home, "list", "--all").output
    shown = run(home, "show", "main").output
    assert "hello there" in shown and "日本語 🦞" in shown and '→ read {"path": "NOTES.md"' in shown
    assert len(answer(home, "show", "fixture-two")["entries"]) >= 9
    assert "run something" in run(home, "tail", "fixture-two", "-n", "20").output
    assert run(home, "export", "main").output.startswith("# main\n")
    assert answer(home, "usage")["total"]["calls"] == 9
    assert run(home, "check").output == "All sessions are in order.\n"
    assert "Nothing was changed" in run(home, "cleanup").output
    assert "12 messages are in view, 12 are sent." in run(home, "repair", "main").output
    assert answer(home, "import", "--dry-run") == [] or answer(home, "import", "--dry-run")[0]["state"] == "would copy"
    assert snapshot(home.root) == before


def test_searching_a_real_home_changes_nothing_in_it(home):
    before = snapshot(home.root)
    hits = answer(home, "search", "run", "something")
    assert (hits[0]["session"], hits[0]["role"]) == (TWO, "user")
    assert "日本語" in run(home, "search", "日本語").output
    assert "Nothing found" in run(home, "search", "zeppelin").output
    assert snapshot(home.root) == before


def test_a_home_that_is_ours_too_keeps_the_index_of_its_sessions(home):
    (own := home.state / "homarus").mkdir()
    assert answer(home, "search", "run", "something")
    (index,) = own.glob("*.sqlite")
    index.unlink()
    assert answer(home, "search", "run", "something")
    assert index.exists()
    with pytest.raises(Unknown, match="no agent 'nobody'"):
        run(home, "search", "something", "--agent", "nobody")
    assert answer(home, "search", "something", "--agent", "main")


def test_a_fork_and_an_import_leave_the_source_alone(home, tmp_path):
    made = answer(home, "fork", "fixture-two", "copy", "--label", "second try")
    with pytest.raises(Unknown, match="already"):
        run(home, "fork", "fixture-two", "copy")
    assert made["key"] == "agent:main:explicit:copy"
    assert "run something" in run(home, "show", "copy").output
    assert run(home, "show", "second try").output == run(home, "show", "copy").output
    other = tmp_path / "other"
    before = snapshot(home.root)
    done = answer(other, "import", str(home.state))
    assert {one["state"] for one in done} == {"done"} and len(done) == 3
    assert {one["state"] for one in answer(other, "import", str(home.state))} == {"known"}
    assert "hello there" in run(other, "show", "main").output
    assert snapshot(home.root) == before


def test_databases_of_this_home_can_be_copied_out(tmp_path):
    home = unpack("openclaw-2026.9.6", tmp_path)
    assert [one["state"] for one in answer(home, "import")] == ["done", "done"]
    assert {s["keptIn"] for s in answer(home, "list")["sessions"]} == {"file"}
    assert run(home, "import").output == "There is nothing to bring in.\n"


def test_names_a_person_may_use(mine):
    for name in ("main", MAIN, "s1", "lamps", "LAMPS"):
        assert "red lamp" in run(mine, "show", name).output
    with pytest.raises(ConfigError, match="no session"):
        run(mine, "show", "nobody")


def test_list_says_what_there_is(mine, tmp_path):
    out = run(mine, "list").output
    assert "lamps" in out and "d ago" in out
    (mine / ".openclaw/agents/main/sessions/lost.jsonl").write_bytes(jsonl(header("lost"), user("a", None)))
    (mine / ".openclaw/agents/main/sessions/x.jsonl.reset.2026-01-01T00-00-00.000Z").write_bytes(jsonl(header("x")))
    out = run(mine, "list").output
    assert "file without a row" in out and "x.jsonl.reset" not in out
    assert "until 2026-01-01  archive" in run(mine, "list", "--all").output
    assert [s["sessionId"] for s in answer(mine, "list", "--active", "5")["sessions"]] == ["lost"]
    assert "No sessions yet" in run(tmp_path / "empty", "list").output
    assert "1 more" in run(mine, "list", "--all", "--limit", "1").output


def test_show_options(mine):
    assert "red lamp" not in run(mine, "show", "--last", "1").output
    assert "upstairs" in run(mine, "show", "--last", "1").output
    assert "  b" in run(mine, "show", "--ids").output
    path = mine / ".openclaw/agents/main/sessions/s1.jsonl"
    path.write_bytes(path.read_bytes() + jsonl(user("c", "a", "another way")))
    assert "upstairs" not in run(mine, "show").output
    assert "upstairs" in run(mine, "show", "--branches").output


def test_export_writes_a_file_once(mine, tmp_path):
    target = tmp_path / "talk.html"
    assert "Wrote" in run(mine, "export", "main", "--out", str(target)).output
    assert target.read_text().startswith("<!doctype html>")
    with pytest.raises(StorageError, match="exists already"):
        run(mine, "export", "main", "--out", str(target))
    target.with_suffix(".json").write_text("old")
    run(mine, "export", "main", "--out", str(target.with_suffix(".json")), "--force")
    assert json.loads(target.with_suffix(".json").read_text())["entries"][0]["id"] == "a"


@pytest.mark.parametrize(
    ("out", "begins"),
    [("a.md", "# lamps"), ("a.MARKDOWN", "# lamps"), ("a.txt", "# lamps"), ("a", "# lamps"), ("a.HTM", "<!doctype"), ("a.json", "{")],
)  # fmt: skip
def test_the_name_of_a_file_says_what_is_written_into_it(mine, tmp_path, out, begins):
    run(mine, "export", "main", "--out", str(tmp_path / out))
    assert (tmp_path / out).read_text().startswith(begins)


def test_a_name_that_promises_something_else_is_refused(mine, tmp_path):
    for out, form in (("a.jsonl", ()), ("a.pdf", ()), ("a.html", ("--format", "md")), ("a.md", ("--json",))):
        with pytest.raises(click.UsageError, match=re.escape(out)):
            run(mine, "export", "main", "--out", str(tmp_path / out), *form)
        assert not (tmp_path / out).exists()
    run(mine, "export", "main", "--out", str(tmp_path / "a.log"), "--format", "md")  # an ending that promises nothing
    assert (tmp_path / "a.log").read_text().startswith("# lamps")


def test_an_empty_name_means_no_session(mine):
    before = snapshot(mine)
    for words in (("show", ""), ("rename", "", "x"), ("fork", " ", "x"), ("delete", ""), ("repair", ""), ("usage", ""),
                  ("check", ""), ("resume", ""), ("tail", ""), ("export", ""), ("list", "--agent", "")):  # fmt: skip
        with pytest.raises(click.BadParameter, match="empty"):
            run(mine, *words)
    assert snapshot(mine) == before
    assert run(mine, "rename", "main", "").output.endswith("has no name any more.\n")


def test_nothing_is_brought_in_for_an_agent_that_is_not_there(mine, tmp_path):
    with pytest.raises(Unknown, match="there is no agent 'nosuch'"):
        run(mine, "import", str(mine / ".openclaw"), "--agent", "nosuch")
    assert not (mine / ".openclaw/agents/nosuch").exists()
    assert run(mine, "list", "--agent", "Main").output == run(mine, "list").output


def test_the_same_command_twice_deletes_nothing_for_good(mine):
    folder = mine / ".openclaw/agents/main/sessions"
    for name in ("4f0c2a91-0000-4000-8000-000000000001", "notes"):
        (folder / f"{name}.jsonl").write_bytes(jsonl(header(name), user("a", None, "hello")))
    run(mine, "rename", "4f0c", "garden")
    for name, again in (("garden", "4f0c2a91"), ("notes", "notes.jsonl.deleted.")):
        run(mine, "delete", name, "--yes")
        with pytest.raises(Unknown, match="was put away already") as wrong:
            run(mine, "delete", name, "--yes")
        assert f"'homarus sessions delete {again}" in wrong.value.cure
    assert len(list(folder.glob("*.deleted.*"))) == 2
    run(mine, "delete", "4f0c2a91", "--yes")
    assert len(list(folder.glob("*.deleted.*"))) == 1


def test_a_name_that_means_another_session_is_refused(mine):
    folder = mine / ".openclaw/agents/main/sessions"
    rows = json.loads((folder / "sessions.json").read_text())
    ident = "4f0c2a91-0000-4000-8000-000000000001"
    for number, key in enumerate(("agent:main:work", "agent:main:wrk", "agent:main:explicit:a b/c")):
        named = ident if number == 0 else f"t{number}"
        (folder / f"{named}.jsonl").write_bytes(jsonl(header(named), user("a", None, key)))
        rows[key] = {"sessionId": named, "updatedAt": number + 1}
    (folder / "sessions.json").write_text(json.dumps(rows))
    before = snapshot(mine)
    for name in (
        "main",
        "MAIN",
        "work",
        "a b/c",
        "agent:main:new",
        ident,
        ident[:8],
        "lamps",
        "global",
        "tea:",
        "x" * 121,
    ):
        for words in (("rename", "wrk", name), ("fork", "wrk", "copy", "--label", name), ("fork", "wrk", name)):
            with pytest.raises(Unknown) as wrong:
                run(mine, *words)
            assert wrong.value.cure
    assert snapshot(mine) == before
    for name in ("wrk", "Wrk", "tea: green", "日本語 🦞", "x" * 120, "../../etc/passwd"):
        run(mine, "rename", "wrk", name)
        assert "agent:main:wrk" in run(mine, "show", name).output


def test_following_a_session_through_a_reset(mine):
    path = mine / ".openclaw/agents/main/sessions/s1.jsonl"
    steps = iter(
        [
            lambda: path.write_bytes(path.read_bytes() + jsonl(user("c", "b"))[:-3]),
            lambda: path.write_bytes(path.read_bytes()[:-1] + b"1}}\n") and None,
            lambda: path.rename(path.with_suffix(".old")) and None,
            lambda: path.write_bytes(jsonl(header("s2"), user("n", None))) and None,
        ]
    )

    def sleep(_seconds):
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    seen = []
    start = path.stat().st_size
    with pytest.raises(KeyboardInterrupt):
        for one in new_entries(path, start, sleep):
            seen.append(one.id)
    assert seen == ["c", "n"]


def test_usage_draws_a_chart(mine):
    path = mine / ".openclaw/agents/main/sessions/s1.jsonl"
    used = {"input": 100, "output": 5, "cacheRead": 300, "cacheWrite": 0, "cost": {"input": 0.5}}
    path.write_bytes(
        path.read_bytes() + jsonl(says("c", "b", usage=used, timestamp=1777636800000, provider="p", model="m"))
    )
    out = run(mine, "usage").output
    assert "2026-05-01" in out and "75%" in out and "$0.5000" in out and "█" in out
    assert answer(mine, "usage", "--by", "model")["rows"][0]["name"] == "p/m"
    assert answer(mine, "usage", "lamps", "--by", "session")["rows"][0]["name"] == "lamps"
    assert "No answer" in run(mine, "usage", "--days", "0").output


def test_cleanup_needs_to_be_told(mine):
    folder = mine / ".openclaw/agents/main/sessions"
    rows = json.loads((folder / "sessions.json").read_text())
    (folder / "sessions.json").write_text(
        json.dumps(rows | {"agent:main:explicit:s2": {"sessionId": "s2", "updatedAt": 1}})
    )
    (folder / "s2.jsonl").write_bytes(jsonl(header("s2"), user("a", None)))
    assert "would go  agent:main:explicit:s2" in run(mine, "cleanup").output
    assert (folder / "s2.jsonl").exists()
    assert "put away  agent:main:explicit:s2" in run(mine, "cleanup", "--enforce").output
    assert not (folder / "s2.jsonl").exists() and len(list(folder.glob("s2.jsonl.deleted.*"))) == 1
    assert answer(mine, "cleanup")[0]["removals"] == []


def test_check_fails_on_errors_and_repair_mends(mine):
    folder = mine / ".openclaw/agents/main/sessions"
    path = folder / "s1.jsonl"
    path.write_bytes(path.read_bytes() + jsonl(says("c", "b", calls=("1",))))
    assert "open-call" in run(mine, "check").output
    assert "has a result now" in run(mine, "repair", "main", "--write").output
    assert run(mine, "check", "main").output == "All sessions are in order.\n"
    path.write_bytes(b"garbage")
    assert run(mine, "check").return_value == 1


def test_a_session_is_renamed_put_away_and_resumed(mine):
    assert "is now called “red lamps”" in run(mine, "rename", "lamps", "red", "lamps").output
    assert answer(mine, "list")["sessions"][0]["label"] == "red lamps"
    folder = mine / ".openclaw/agents/main/sessions"
    (folder / "4f0c2a91-0000-4000-8000-000000000001.jsonl").write_bytes(
        jsonl(header("x"), user("a", None, "second talk"))
    )
    assert "4f0c2a91 " in run(mine, "list").output
    answer(mine, "rename", "4f0c", "garden")
    assert "resume 4f0c2a91' brings it back" in run(mine, "delete", "garden").output
    assert [s["label"] for s in answer(mine, "list")["sessions"]] == ["red lamps"]
    listed = answer(mine, "list", "--all")["archives"]
    assert [(a["shortId"], a["label"]) for a in listed] == [("4f0c2a91", "garden")]
    assert "second talk" in run(mine, "show", "4f0c2a91").output
    assert "second talk" in run(mine, "show", "garden").output
    key = answer(mine, "resume", "garden")["key"]
    assert answer(mine, "resume", "4f0c2a91")["key"] == key  # once is enough
    assert "second talk" in run(mine, "show", "garden").output
    with pytest.raises(click.UsageError, match="--yes"):
        run(mine, "delete", listed[0]["path"].rpartition("/")[2])
    run(mine, "delete", listed[0]["path"].rpartition("/")[2], "--yes")
    assert answer(mine, "list", "--all")["archives"] == []
    with pytest.raises(ConfigError, match="main session"):
        run(mine, "delete", "main")
    with pytest.raises(click.UsageError, match="say which"):
        run(mine, "resume")


def test_what_was_deleted_is_listed_and_resumed_by_its_name(mine):
    folder = mine / ".openclaw/agents/main/sessions"
    rows = json.loads((folder / "sessions.json").read_text())
    ids = {"trip": "4f0c2a91-0000-4000-8000-000000000001", "tea": "5f0c2a91-0000-4000-8000-000000000001"}
    for name, ident in ids.items():
        (folder / f"{ident}.jsonl").write_bytes(jsonl(header(ident), user("a", None, f"about the {name}")))
        rows[f"agent:main:{name}"] = {"sessionId": ident, "updatedAt": 1}
    (folder / "sessions.json").write_text(json.dumps(rows))
    for name in ids:
        run(mine, "delete", name)
    listed = run(mine, "list", "--all").output
    assert "agent:main:trip" in listed and "agent:main:tea" in listed
    assert [a["key"] for a in answer(mine, "list", "--all")["archives"]] == ["agent:main:trip", "agent:main:tea"]
    assert "about the trip" in run(mine, "show", "trip").output
    assert run(mine, "export", "4f0c2a91").output.startswith("# trip\n")
    assert answer(mine, "resume", "trip")["key"] == "agent:main:trip"


def test_an_export_is_headed_by_the_name_of_the_conversation(mine):
    assert run(mine, "export", "main").output.startswith("# lamps\n")
    assert "<title>lamps</title>" in run(mine, "export", "main", "--format", "html").output
    run(mine, "rename", "main", "")
    assert run(mine, "export", "main").output.startswith("# main\n")


def test_a_name_holds_no_control_characters_and_one_that_does_is_shown_without(mine):
    for words in (("rename", "main"), ("fork", "main", "copy", "--label")):
        with pytest.raises(Unknown, match="control characters"):
            run(mine, *words, "a\nb\x1b[31m")
    assert "is now called “a b”" in run(mine, "rename", "main", "a\nb").output
    index = mine / ".openclaw/agents/main/sessions/sessions.json"
    rows = json.loads(index.read_text())
    rows[MAIN]["label"] = "a\nb\x1b[31m"
    index.write_text(json.dumps({**rows, "agent:main:x": {"sessionId": "s2", "updatedAt": 1, "label": "plain"}}))
    head, *lines = run(mine, "list").output.splitlines()
    assert len(lines) == 2 and len({line.index("file") for line in lines} | {head.index("kept in")}) == 1
    assert answer(mine, "list")["sessions"][0]["label"] == "a b [31m"


def test_a_session_that_is_open_elsewhere_is_not_deleted(mine):
    folder = mine / ".openclaw/agents/main/sessions"
    (folder / "open.jsonl").write_bytes(jsonl(header("open"), user("a", None, "hello")))
    with own(folder / "open.jsonl", datetime.now(UTC)), pytest.raises(Locked, match=f"open in process {os.getpid()}"):
        run(mine, "delete", "open")
    assert (folder / "open.jsonl").exists()
