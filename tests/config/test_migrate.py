from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.config import json5_texts as texts

from homarus.config.migrate import MIGRATIONS, canonical, migrate


@pytest.mark.parametrize(
    ("written", "path", "value"),
    [
        # the roster, in all its forms
        ({"agents": {"list": [{"id": "a", "x": 1}]}}, "agents.entries.a.x", 1),
        ({"agents": {"list": [{"agentId": "B!", "x": 1}]}}, "agents.entries.b.x", 1),
        ({"agents": {"list": [{"agentId": "B b", "x": 1}]}}, "agents.entries.b-b.x", 1),
        ({"agents": {"list": [{}]}}, "agents.entries.main", {}),
        ({"agents": {"list": [{"id": "a", "x": 1, "y": 1}], "entries": {"a": {"x": 2}}}}, "agents.entries.a", {"x": 2, "y": 1}),
        ({"agents": {"entries": {"A b": {"x": 1}}}}, "agents.entries.a-b.x", 1),
        ({"routing": {"agents": {"a": {"x": 1}}, "defaultAgentId": "a"}, "agents": {}}, "agents.entries.a.default", True),
        # one agent, before there were several
        ({"agent": {"workspace": "w"}}, "agents.defaults.workspace", "w"),
        ({"agent": {"workspace": "old"}, "agents": {"defaults": {"workspace": "new"}}}, "agents.defaults.workspace", "new"),
        ({"agent": {"a": {"x": 1}}, "agents": {"defaults": {"a": {"y": 2}}}}, "agents.defaults.a", {"x": 1, "y": 2}),
        ({"agent": {"tools": {"deny": ["x"]}}}, "tools.deny", ["x"]),
        ({"defaultModel": "a/b"}, "agents.defaults.model.primary", "a/b"),
        # models
        ({"agents": {"defaults": {"model": "a/b"}}}, "agents.defaults.model", {"primary": "a/b"}),
        ({"agents": {"entries": {"x": {"imageModel": "a/b"}}}}, "agents.entries.x.imageModel.primary", "a/b"),
        ({"agent": {"model": "a/b", "modelFallbacks": ["c/d"]}}, "agents.defaults.model.fallbacks", ["c/d"]),
        ({"agent": {"modelAliases": {"Big": "a/b"}}}, "agents.defaults.models", {"a/b": {"alias": "Big"}}),
        ({"agents": {"defaults": {"models": {"a/b": {}}}}}, "agents.defaults.modelPolicy", {"allow": ["a/b"]}),
        ({"agents": {"defaults": {"models": {"a/b": {}}, "modelPolicy": {}}}}, "agents.defaults.modelPolicy", {}),
        ({"agents": {"defaults": {"models": {}}}}, "agents.defaults.modelPolicy", None),
        # memory search
        ({"memory": {"search": {"k": 1}}}, "agents.defaults.memorySearch.k", 1),
        ({"memorySearch": {"k": 1}}, "agents.defaults.memorySearch.k", 1),
        (
            {"memory": {"search": {"k": 1}, "citations": "on"}, "agents": {"defaults": {"memorySearch": {"k": 2, "l": 2}}}},
            "agents.defaults.memorySearch",
            {"k": 1, "l": 2},
        ),
        ({"agents": {"entries": {"a": {"memory": {"search": {"k": 1}}}}}}, "agents.entries.a.memorySearch.k", 1),
        # sessions
        ({"session": {"idleMinutes": 5}}, "session.reset.idleMinutes", 5),
        ({"session": {"idleMinutes": 5}}, "session.reset.mode", "idle"),
        ({"session": {"idleMinutes": 5, "reset": {"atHour": 6}}}, "session.reset.mode", None),
        ({"session": {"reset": {"idleMinutes": 5}}}, "session.reset.mode", None),
        ({"session": {"idleMinutes": 5, "reset": {"idleMinutes": 7}}}, "session.reset.idleMinutes", 7),
        ({"session": {"idleMinutes": 5, "reset": {"idleMinutes": 7}}}, "session.reset.mode", None),
        ({"session": {"resetByType": {"dm": {"mode": "idle"}}}}, "session.resetByType.direct.mode", "idle"),
        ({"session": {"maintenance": {"pruneDays": 30}}}, "session.maintenance.pruneAfter", "30d"),
        # streaming
        ({"channels.whatsapp.blockStreaming": True}, "channels.whatsapp.streaming.block.enabled", True),
        ({"channels": {"x": {"blockStreaming": True}}}, "channels.x.streaming.block.enabled", True),
        (
            {"channels": {"x": {"blockStreaming": True, "streaming": {"block": {"enabled": False}}}}},
            "channels.x.streaming.block.enabled",
            False,
        ),
        ({"channels": {"x": {"accounts": {"a": {"blockStreaming": True}}}}}, "channels.x.accounts.a.streaming.block.enabled", True),
        ({"channels": {"x": {"streaming": True}}}, "channels.x.streaming.mode", "partial"),
        ({"channels": {"x": {"streaming": "block", "blockStreaming": True}}}, "channels.x.streaming", {"mode": "block", "block": {"enabled": True}}),
        ({"agents": {"defaults": {"blockStreamingChunk": "800-1200"}}}, "agents.defaults.blockStreamingChunk", {"minChars": 800, "maxChars": 1200}),
        ({"agents": {"defaults": {"blockStreamingCoalesce": True}}}, "agents.defaults.blockStreamingCoalesce", {"enabled": True}),
        ({"agents": {"defaults": {"blockStreamingCoalesce": False}}}, "agents.defaults.blockStreamingCoalesce", {"enabled": False}),
        ({"agents": {"defaults": {"blockStreamingCoalesce": {"idleMs": 5}}}}, "agents.defaults.blockStreamingCoalesce", {"idleMs": 5}),
        # the rest
        ({"telegram": {"botToken": "t"}}, "channels.telegram.botToken", "t"),
        ({"channels": {"telegram": {"requireMention": True}}}, "channels.telegram.groups.*.requireMention", True),
        ({"channels": {"slack": {"dm": {"policy": "open", "enabled": True}}}}, "channels.slack", {"dm": {"enabled": True}, "dmPolicy": "open"}),
        ({"tools": {"bash": {"timeoutSec": 5}}}, "tools.exec.timeoutSeconds", 5),
        ({"agents": {"defaults": {"sandbox": {"perSession": True}}}}, "agents.defaults.sandbox.scope", "session"),
        ({"gateway": {"token": "t", "reload": {"mode": "hot"}}}, "gateway", {"reload": {"mode": "hybrid"}, "auth": {"token": "t"}}),
        ({"models": {"providers": {"p": {"api": "openai"}}}}, "models.providers.p.api", "openai-completions"),
        ({"mcp": {"servers": {"s": {"type": "http", "disabled": True, "api_key": "k"}}}}, "mcp.servers.s", {"transport": "http", "enabled": False, "apiKey": "k"}),
        ({"env": {"NAME": "x", "shellEnv": {"enabled": True}}}, "env", {"vars": {"NAME": "x"}, "shellEnv": {"enabled": True}}),
    ],
)  # fmt: skip
def test_every_spelling(written: dict, path: str, value: object) -> None:
    import copy

    untouched = copy.deepcopy(written)
    found = migrate(written).root
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    assert found == value
    assert written == untouched


def test_unknown_keys_are_kept_everywhere() -> None:
    document = {
        "mine": {"a": [1]},
        "agents": {"mine": 1, "defaults": {"mine": 2}, "entries": {"a": {"mine": 3}}},
        "session": {"mine": 4, "reset": {"mine": 5}},
        "channels": {"own": {"mine": 6, "streaming": {"mine": 7}}},
        "gateway": {"mine": 8},
    }
    assert migrate(document).root == document


def test_steps_are_numbered_in_order() -> None:
    assert [step.number for step in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_a_second_migration_changes_nothing() -> None:
    document = {
        "agent": {"model": "a/b", "models": {"a/b": {}}},
        "agents": {"list": [{"id": "x", "model": "c/d"}]},
        "memory": {"search": {"k": 1}},
        "session": {"idleMinutes": 5},
        "whatsapp": {"blockStreaming": True},
        "env": {"A": "b"},
    }
    once = migrate(document).root
    assert migrate(once).root == once


@settings(max_examples=150, deadline=None)
@given(texts.documents())
def test_any_document_migrates(text: str) -> None:
    from homarus.config.scan import parse

    document = parse(text)
    for name in ("agents", "agent", "session", "channels", "env", "mcp", "models", "gateway", "memory"):
        migrate({name: document, "routing": document})
        migrate(
            {name: {"defaults": document, "list": [document], "entries": document, "servers": document, "x": document}}
        )


def test_problems_are_found_where_they_were_written(load) -> None:
    config = load('{\n agents: { list: [\n  { id: "a" },\n  { id: "A" },\n  5,\n ] } }')
    assert [(p.line, p.key, p.severity) for p in config.problems] == [
        (4, "agents.list[1]", "error"),
        (5, "agents.list[2]", "error"),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("session", "idleMinutes"), ("session", "reset", "idleMinutes")),
        (("agent", "model"), ("agents", "defaults", "model")),
        (("channels", "x", "blockStreaming"), ("channels", "x", "streaming", "block", "enabled")),
        (("memory", "search", "k"), ("agents", "defaults", "memorySearch", "k")),
        (("session", "scope"), ("session", "scope")),
        ((), ()),
    ],
)
def test_names_of_any_era_lead_to_the_canonical_one(old: tuple, new: tuple) -> None:
    assert canonical(old) == new


def test_a_value_can_be_asked_for_in_any_spelling(load) -> None:
    config = load('{ agents: { list: [ { id: "a", model: "x/y" } ] }, session: { idleMinutes: 5 } }')
    for path in ("session.idleMinutes", "session.reset.idleMinutes"):
        assert config.get(path) == 5
    for path in ("agents.list[0].model.primary", "agents.list.0.model.primary", "agents.entries.a.model.primary"):
        assert config.get(path) == "x/y"
