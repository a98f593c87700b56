from __future__ import annotations

import json

import pytest

from homarus.core.errors import StorageError
from homarus.memory import toolset


@pytest.fixture
def memory(notes):
    notes.write("MEMORY.md", "- The boat is called Marlene.\n- The dog is called Rex.\n")
    notes.write("memory/2026-06-01.md", "".join(f"- line {number}\n" for number in range(1, 301)))
    return notes.open()


def test_specs_are_complete_json():
    assert [spec.name for spec in toolset.SPECS] == ["memory_search", "memory_get", "memory_recall", "memory_retain"]
    for spec in toolset.SPECS:
        assert json.loads(json.dumps(spec.parameters)) == spec.parameters
        assert set(spec.parameters["required"]) <= set(spec.parameters["properties"])


def test_search_returns_the_keys_agents_expect(memory):
    result = toolset.search(memory, {"query": "boat Marlene"})
    assert result["mode"] == "fts-only"
    assert result["citations"] == "auto"
    assert (result["provider"], result["model"]) == ("none", "")
    assert "searchMs" in result["debug"]
    hit = result["results"][0]
    assert (hit["path"], hit["startLine"], hit["endLine"], hit["source"], hit["corpus"]) == (
        "MEMORY.md",
        1,
        1,
        "memory",
        "memory",
    )
    assert hit["citation"] == "MEMORY.md#L1"
    assert hit["snippet"].endswith("Source: MEMORY.md#L1")
    assert json.dumps(result)


@pytest.mark.parametrize(
    ("mode", "direct", "shown"),
    [("on", False, True), ("on", True, True), ("off", True, False), ("auto", True, True), ("auto", False, False)],
)
def test_citations(memory, mode, direct, shown):
    hit = toolset.search(memory, {"query": "boat"}, citations=mode, direct=direct)["results"][0]
    assert ("citation" in hit) == shown
    assert ("Source:" in hit["snippet"]) == shown


def test_search_limits(memory):
    assert len(toolset.search(memory, {"query": "called", "maxResults": 1})["results"]) == 1
    assert toolset.search(memory, {"query": "line", "corpus": "sessions"})["results"] == []
    assert toolset.search(memory, {"query": "zebra boat", "minScore": 0.999})["results"] == []


def test_get(memory):
    assert toolset.get(memory, {"path": "MEMORY.md"}) == {
        "status": "ok",
        "path": "MEMORY.md",
        "text": "- The boat is called Marlene.\n- The dog is called Rex.",
        "from": 1,
        "lines": 2,
    }
    part = toolset.get(memory, {"path": "memory/2026-06-01.md", "from": 10, "lines": 2})
    assert part["text"] == "- line 10\n- line 11"
    long = toolset.get(memory, {"path": "memory/2026-06-01.md"})
    assert (long["lines"], long["truncated"], long["nextFrom"]) == (120, True, 121)
    assert "from=121" in long["text"]
    assert toolset.get(memory, {"path": "memory/2026-06-01.md#L7-L8"})["text"] == "- line 7\n- line 8"
    assert toolset.get(memory, {"path": "memory/none.md"})["status"] == "not_found"
    assert toolset.get(memory, {"path": "memory/2026-06-01.md", "from": 999})["lines"] == 0
    refused = toolset.get(memory, {"path": "../etc/passwd"})
    assert (refused["status"], refused["text"]) == ("error", "")


def test_get_stops_at_whole_lines(notes):
    notes.write("memory/wide.md", "\n".join("x" * 5000 for _ in range(10)))
    found = toolset.get(notes.open(), {"path": "memory/wide.md"})
    assert (found["lines"], found["nextFrom"]) == (2, 3)


def test_recall(memory):
    result = toolset.recall(memory, {"query": "what is the boat called", "k": 1, "budgetTokens": 60})
    assert result["items"][0]["source"].startswith("MEMORY.md#L1")
    assert result["tokens"] <= 60
    assert len(result["items"][0]["why"]) == 2 < len(memory.recall("what is the boat called")[0].why)
    assert "error" in toolset.recall(memory, {"query": "boat", "since": "whenever"})


def test_retain_writes_and_is_found(memory, notes):
    made = toolset.retain_fact(
        memory,
        {
            "text": "Anna moved to Kiel in spring.",
            "kind": "world",
            "entities": ["Anna", "Van der Berg"],
            "time": "2026-04",
        },
    )
    assert (made["status"], made["path"], made["line"]) == ("ok", "memory/2026-06-15.md", 4)
    text = (notes.root / "memory" / "2026-06-15.md").read_text()
    assert text == "# 2026-06-15\n\n## Retain\n- W(t=2026-04) @Anna @{Van der Berg}: Anna moved to Kiel in spring.\n"
    hit = memory.recall("where did Anna move", kinds=["world"])[0]
    assert (hit.citation, hit.timestamp) == ("memory/2026-06-15.md#L4", "2026-04-01..2026-04-30")
    again = toolset.retain_fact(memory, {"text": "He left.", "kind": "B"})
    assert again["line"] == 5
    assert len(again["hints"]) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": ""},
        {"text": "x", "kind": "nonsense"},
        {"text": "a b c d", "time": "2026) evil"},
        {"text": "a b", "supersedes": "a,b"},
        {"text": "a b c d", "time": "soon"},
        {"text": "a b c d", "time": "2026-13"},
        {"text": "a b c d", "confidence": "high"},
        {"text": "a b c d", "confidence": "nan"},
        {"text": "a b c d", "confidence": 7},
        {"text": "a b c d", "supersedes": "^nosuchfact"},
        {"text": "a b c d", "supersedes": "memory/1999-01-01.md#L3"},
        {"text": "a b c d", "supersedes": "the old one"},
    ],
)
def test_retain_refuses_what_would_not_parse(memory, notes, arguments):
    before = {path: path.read_bytes() for path in notes.root.rglob("*.md")}
    assert toolset.retain_fact(memory, arguments)["status"] == "error"
    assert before == {path: path.read_bytes() for path in notes.root.rglob("*.md")}


def test_retain_never_writes_through_a_link(memory, notes, tmp_path):
    target = tmp_path / "outside.md"
    target.write_text("mine\n")
    (notes.root / "memory" / "2026-06-15.md").symlink_to(target)
    assert toolset.retain_fact(memory, {"text": "This must not land outside."})["status"] == "error"
    assert target.read_text() == "mine\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": None},
        {"query": 7},
        {"query": ["boat"]},
        {"query": "boat", "maxResults": "many"},
        {"query": "boat", "maxResults": "3"},
        {"query": "boat", "maxResults": -4},
        {"query": "boat", "maxResults": 1e300},
        {"query": "boat", "maxResults": float("inf")},
        {"query": "boat", "minScore": "high"},
        {"query": "boat", "minScore": float("nan")},
        {"query": "boat", "corpus": "attic"},
        {"query": "boat", "corpus": None},
        {"query": "boat", "k": "x", "budgetTokens": "y", "since": 5, "entities": "Rex", "kinds": "note"},
        {"query": "boat", "since": "", "until": "  ", "asOf": None, "entities": None, "kinds": []},
        {"path": "MEMORY.md", "from": "2", "lines": "x"},
        {"path": 5, "from": [], "lines": {}},
        {"text": "The dog likes the boat.", "entities": "Rex", "confidence": "high"},
    ],
)
def test_what_models_really_send(memory, arguments):
    for tool in (toolset.search, toolset.get, toolset.recall, toolset.retain_fact):
        assert json.dumps(tool(memory, dict(arguments)))


def test_the_whole_shape_of_a_get(memory):
    assert toolset.get(memory, {"path": "MEMORY.md", "from": 2, "lines": 1}) == {
        "status": "ok",
        "path": "MEMORY.md",
        "text": "- The dog is called Rex.",
        "from": 2,
        "lines": 1,
    }
    long = toolset.get(memory, {"path": "memory/2026-06-01.md"})
    assert (long["lines"], long["truncated"], long["nextFrom"]) == (120, True, 121)
    assert toolset.get(memory, {"path": "memory/none.md"})["status"] == "not_found"
    assert toolset.get(memory, {"path": "/etc/passwd"})["status"] == "error"


def test_the_corpus_chooses_where_to_look(notes, tmp_path):
    notes.write("memory/a.md", "The boat is red.\n")
    notes.write("bank/world.md", "The boat is in the wiki.\n")
    folder = tmp_path / "sessions"
    folder.mkdir()
    said = {"type": "message", "id": "1", "message": {"role": "user", "content": "The boat came up."}}
    (folder / "s.jsonl").write_text(json.dumps(said) + "\n")
    memory = notes.open(sessions=folder)

    def found(**options):
        result = toolset.search(memory, {"query": "boat", **options.pop("arguments", {})}, **options)
        return sorted(hit["path"] for hit in result["results"])

    assert found() == ["bank/world.md", "memory/a.md", "sessions/s.jsonl"]
    assert found(arguments={"corpus": "memory"}) == ["bank/world.md", "memory/a.md"]
    assert found(arguments={"corpus": "wiki"}) == ["bank/world.md"]
    assert found(arguments={"corpus": "sessions"}) == ["sessions/s.jsonl"]
    # Where others read along, past conversations stay private.
    assert found(direct=False) == ["bank/world.md", "memory/a.md"]
    assert found(direct=False, arguments={"corpus": "sessions"}) == []
    items = toolset.recall(memory, {"query": "boat"}, direct=False)["items"]
    assert not any(item["source"].startswith("sessions/") for item in items)


def test_a_failure_is_a_result(notes):
    class Broken:
        settings = notes.open().settings

        def search(self, *_args, **_options):
            raise StorageError("the disk is gone", cure="plug it in")

    result = toolset.search(Broken(), {"query": "boat"})
    assert result == {"results": [], "disabled": True, "error": "the disk is gone", "action": "plug it in"}
