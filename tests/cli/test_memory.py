from __future__ import annotations

import io
import json
from datetime import date, timedelta

import pytest

from homarus.cli.main import run
from homarus.cli.output import Bar


@pytest.fixture
def home(tmp_path, monkeypatch):
    workspace = tmp_path / ".openclaw" / "workspace"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "MEMORY.md").write_text("- The boat is called Marlene.\n")
    (workspace / "memory" / "2026-01-02.md").write_text("# 2026-01-02\n\n- Anna: I sold the boat to Piet\n")
    for name in ("OPENCLAW_HOME", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "OPENCLAW_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def test_search_in_an_agents_workspace(home, capsys):
    assert run(["memory", "search", "--provider", "none", "boat", "Piet"]) == 0
    out = capsys.readouterr().out
    assert "memory/2026-01-02.md#L3" in out.split("\n")[0]
    assert "I sold the boat to Piet" in out
    assert (home / ".openclaw" / "state" / "memory" / "main.sqlite").exists()
    assert not (home / ".openclaw" / "workspace" / ".memory").exists()


def test_json(home, capsys):
    assert run(["memory", "search", "--provider", "none", "--json", "boat called"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["results"][0]["source"] == "MEMORY.md#L1"
    assert data["degraded"] == data["stale"] == ""


def test_highlights_only_where_colours_are_on(home, capsys, monkeypatch):
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    run(["memory", "search", "--provider", "none", "boats"])
    assert "\x1b[1;33mboat\x1b[0m" in capsys.readouterr().out


def test_recall_get_explain_status_index(home, capsys):
    assert run(["memory", "recall", "--provider", "none", "--why", "--budget", "50", "who bought the boat"]) == 0
    assert "why:" in capsys.readouterr().out
    assert run(["memory", "get", "memory/2026-01-02.md#L3"]) == 0
    assert capsys.readouterr().out == "- Anna: I sold the boat to Piet\n"
    assert run(["memory", "explain", "--provider", "none", "boat Piet", "memory/2026-01-02.md#L3"]) == 0
    assert "rank 1 of" in capsys.readouterr().out
    assert run(["memory", "index", "--provider", "none"]) == 0
    assert "2 notes: 0 indexed" in capsys.readouterr().out
    assert run(["memory", "rebuild", "--provider", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["indexed"] == 2
    assert run(["memory", "status", "--provider", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == 2
    assert run(["memory", "status", "--provider", "none"]) == 0
    assert "up to date" in capsys.readouterr().out


def test_failures_are_one_line(home, capsys):
    assert run(["memory", "get", "../secret.md"]) == 1
    assert capsys.readouterr().err.startswith("homarus: ../secret.md: only MEMORY.md")
    assert run(["memory", "recall", "--since", "soon", "x"]) == 2
    assert "YYYY-MM-DD" in capsys.readouterr().err


def test_what_is_not_there_is_no_empty_answer(home, capsys):
    (home / ".openclaw" / "workspace" / "memory").mkdir(parents=True, exist_ok=True)
    (home / ".openclaw" / "workspace" / "memory" / "short.md").write_text("one\ntwo\n")
    assert run(["memory", "get", "memory/short.md#L99"]) == 1
    assert "the note ends before line 99" in capsys.readouterr().err
    for words in (("get", ""), ("forget", " "), ("promote", ""), ("undo", "")):
        assert run(["memory", *words]) == 2
        assert "it is empty" in capsys.readouterr().err


def test_doctor_proves_it_and_leaves_nothing(home, capsys):
    before = sorted((home / ".openclaw" / "workspace").rglob("*.md"))
    assert run(["memory", "doctor", "--provider", "none"]) == 0
    assert "canary: written, found at place 1" in capsys.readouterr().out
    assert sorted((home / ".openclaw" / "workspace").rglob("*.md")) == before


@pytest.mark.parametrize("name", ["search x", "recall x", "status", "index", "rebuild", "doctor", "get MEMORY.md"])
def test_a_misspelt_workspace_is_refused_and_not_created(home, tmp_path, capsys, name):
    assert run(["memory", *name.split(), "--workspace", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_looking_at_the_status_makes_nothing(home, capsys):
    assert run(["memory", "status", "--json", "--provider", "none"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["exists"], found["files"], found["stale"]) == (False, 0, "2 files changed since the last index")
    assert found["watch"] == "kernel"
    assert not (home / ".openclaw" / "state").exists()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("get --json nope.md", 1),
        ("get ../../etc/passwd", 1),
        ("get memory/2026-01-02.md#L3", 0),
        ("recall boat --kind bogus", 2),
        ("recall boat --kind W", 0),
        ("recall boat --since yesterdayish", 2),
        ("recall boat --since 0000-00-00", 2),
        ("recall boat --since 99999999d", 0),
        ("recall boat --until 9999-12-31", 0),
        ("recall boat --as-of 2026-01-01", 0),
        ("search boat -n 0", 2),
        ("search boat -n 100000", 0),
        ("search boat --min-score nan", 2),
        ("search boat --min-score -5", 2),
        ("search boat --agent nobody", 1),
        ("search", 2),
        ("explain boat garbage", 2),
        ("explain MEMORY.md#L1 boat", 2),
        ("recall boat --k 25", 0),
        ("reflect --since 7d", 0),
        ("reflect --since soon", 2),
        ("explain boat MEMORY.md#L99999999999999999999999", 0),
        ("bench --data /dev/null", 78),
    ],
)
def test_odd_input_never_ends_in_a_trace(home, capsys, command, code):
    given = command.split()
    options = [] if given[0] == "bench" else ["--provider", "none"]
    assert run(["memory", *given, *options]) == code
    assert "Traceback" not in "".join(capsys.readouterr())


def test_bench_on_the_shipped_notes(home, capsys):
    assert run(["memory", "bench", "--provider", "none", "--limit", "5", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["groups"]["all"]["n"] == 5
    assert data["groups"]["all"]["recall@1000tok"] > 0.5


def test_the_bar_is_drawn_only_for_people():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    quiet, loud = io.StringIO(), Terminal()
    for stream in (quiet, loud):
        with Bar(stream, "indexing") as bar:
            bar._last -= 1
            bar.update(1, 2, "note")
    assert quiet.getvalue() == ""
    assert "indexing [###############---------------] 1/2 note" in loud.getvalue()
    assert loud.getvalue().endswith("\r\x1b[K")


def test_explain_says_which_argument_comes_first(home, capsys):
    assert run(["memory", "explain", "MEMORY.md#L1", "boat", "--provider", "none"]) == 2
    assert "the query comes first, then the place (they are the other way round)" in capsys.readouterr().err


def test_reflect_since_a_day_writes_the_pages_of_whom_newer_facts_are_about(home, capsys):
    memory = home / ".openclaw" / "workspace" / "memory"
    (memory / "2020-01-01.md").write_text("## Retain\n- W @Old: Lives in Bonn since long ago.\n")
    (memory / "2026-01-03.md").write_text("## Retain\n- W @New: Lives in Kiel by the sea.\n")
    assert run(["memory", "reflect", "--provider", "none", "--json", "--since", "2026-01-01"]) == 0
    pages = json.loads(capsys.readouterr().out)["pages"]
    assert [page["name"] for page in pages if page["path"].startswith("bank/entities/")] == ["new"]


def test_a_vault_without_notes_says_where_its_markdown_is(home, tmp_path, capsys):
    vault = tmp_path / "vault"
    for number in range(12):
        (vault / f"topic{number}").mkdir(parents=True)
        (vault / f"topic{number}" / "page.md").write_text(f"The lighthouse of harbour {number}.\n")
    options = ["--provider", "none", "--workspace", str(vault)]
    hint = "no notes, but 12 Markdown files outside memory/: name them with --extra"
    for command in (["search", "lighthouse"], ["index"], ["doctor", "--no-canary"]):
        run(["memory", *command, *options])
        assert hint in "".join(capsys.readouterr())
    assert run(["memory", "search", "lighthouse", *options, "--extra", "."]) == 0
    out = "".join(capsys.readouterr())
    assert "topic9/page.md#L1" in out and hint not in out
    assert run(["memory", "search", "lighthouse", "--extra", "."]) == 2


def test_a_fact_lives_through_every_command(home, capsys):
    workspace = home / ".openclaw" / "workspace"
    first, second, between, last = (date.today() - timedelta(days=back) for back in (300, 295, 200, 100))
    (workspace / "memory" / f"{first}.md").write_text("## Retain\n- O(c=0.8) @Anna: Prefers tea in the morning.\n")
    (workspace / "memory" / f"{second}.md").write_text("- Anna: I prefer tea in the morning.\n")

    def said(*command: str, code: int = 0) -> str:
        assert run(["memory", *command, "--provider", "none"]) == code
        return "".join(capsys.readouterr())

    bank = workspace / "bank" / "opinions.md"
    assert "[+2 −0" in said("reflect", "--dry-run") and not bank.exists()
    said("reflect")
    proposal = said("promote").split()[0]
    assert "Prefers tea" in said("promote", proposal) and "Prefers tea" in (workspace / "MEMORY.md").read_text()
    place, fact = said("retain", "Switched from tea to coffee", "--kind", "opinion", "--about", "Anna").split()
    note, _, line = place.partition("#L")
    assert (workspace / note).read_text().splitlines()[int(line) - 1] == "- O @Anna: Switched from tea to coffee"
    assert "there is no ^nosuch" in said("retain", "No more of it at all", "--supersedes", "^nosuch", code=2)
    assert "is none of 2026-03-14" in said("retain", "Once upon a time", "--time", "long ago", code=2)

    assert f"replaced by {place}" in said("timeline", "--entity", "Anna")
    assert "coffee" not in said("timeline", "--entity", "Anna", "--as-of", str(between))
    assert "nothing was known about 'Anna' on 2001-01-01" in said(
        "timeline", "--entity", "Anna", "--as-of", "2001-01-01"
    )
    assert "did you mean Anna?" in said("timeline", "--entity", "anja", code=1)
    assert "nothing is known about 'Zacharias'" in said("timeline", "--entity", "Zacharias", "--json", code=1)
    page = workspace / "bank" / "entities" / "anna.md"
    page.write_text(page.read_text().replace("---\n", "---\naliases: [Annie]\n", 1))
    assert f"replaced by {place}" in said("timeline", "--entity", "Annie")
    items = json.loads(said("recall", "what does Anna prefer", "--k", "25", "--json"))["results"]
    older = next(item for item in items if "O(c=0.8) @Anna" in item["content"])
    newer = next(item for item in items if "coffee" in item["content"])
    assert older["supersededBy"] == place and items.index(newer) < items.index(older)
    assert "coffee" in said("recall", "what does Anna prefer", "--k", "25", "--since", "30d")
    assert "tea in the morning" not in said("recall", "what does Anna prefer", "--since", "30d")

    assert f"MEMORY.md#L4 was replaced by {place}: Prefers tea" in said("reflect")
    assert "coffee" in bank.read_text().partition("## Superseded")[0]
    said("undo")
    assert "coffee" not in bank.read_text()
    said("forget", fact)
    assert "MEMORY.md" not in said("reflect")
    held, _, gone = bank.read_text().partition("## Superseded")
    assert "coffee" not in held + gone and "Prefers tea" in held, "what it had replaced holds again"
    (workspace / "memory" / f"{last}.md").write_text("## Retain\n- O @Anna: Switched from tea to coffee\n")
    said("reflect")
    assert "coffee" not in bank.read_text(), "a fact that was taken back is not learned again"
    assert "(forgotten)" in said("timeline", "--entity", "Anna")
    assert (
        "facts about" in said("graph", "--to", str(home / "graph.html"))
        and (home / "graph.html").stat().st_size > 2_000
    )
