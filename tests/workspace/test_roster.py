"""Roster changes land in the user's own spelling, and nobody loses the default agent by accident."""

from __future__ import annotations

import pytest

from homarus.core.errors import ConfigError
from homarus.workspace.roster import add_agent, bind, delete_agent, describe_match, places, set_identity, unbind

LISTED = {"agents": {"list": [{"id": "main"}, {"agentId": "Work", "identity": {"name": "W"}}]}}
NAMED = {"agents": {"entries": {"main": {}, "work": {}}}}


def flat(operations) -> list[tuple]:
    return [(each.path, "gone" if each.kind == "unset" else each.value) for each in operations]


def test_an_agent_is_found_in_either_roster_or_both():
    assert places(LISTED, "work") == [("agents", "list", 1)]
    both = {"agents": {"entries": {"work": {}}, "list": [{"id": "work"}]}}
    assert places(both, "work") == [("agents", "entries", "work"), ("agents", "list", 0)]
    assert places({"agents": {"entries": [], "list": "x"}}, "work") == []
    assert places({}, "main") == []


def test_a_new_agent_goes_where_the_others_are():
    assert flat(add_agent(LISTED, "b", {"workspace": "~/b"})) == [
        (("agents", "list", 2), {"id": "b", "workspace": "~/b"})
    ]
    assert flat(add_agent(NAMED, "b", {})) == [(("agents", "entries", "b"), {})]


def test_the_unnamed_agent_stays_the_default_when_it_gets_company():
    assert flat(add_agent({}, "b", {})) == [
        (("agents", "entries", "main"), {"default": True}),
        (("agents", "entries", "b"), {}),
    ]


@pytest.mark.parametrize(("document", "agent"), [(NAMED, "work"), (LISTED, "work"), ({}, "main")])
def test_an_agent_cannot_be_added_twice(document, agent):
    with pytest.raises(ConfigError, match="already"):
        add_agent(document, agent, {})


def test_deleting_takes_the_bindings_along_from_the_end():
    rows = [{"agentId": "work", "match": {}}, {"agentId": "main"}, "odd", {"agentId": "Work", "match": {}}]
    assert flat(delete_agent({**NAMED, "bindings": rows}, "work")) == [
        (("agents", "entries", "work"), "gone"),
        (("bindings", 3), "gone"),
        (("bindings", 0), "gone"),
    ]
    with pytest.raises(ConfigError, match="names no agent"):
        delete_agent(NAMED, "ghost")


def test_binding_appends_once_and_never_to_two_agents():
    match = {"channel": "telegram", "accountId": "a", "peer": {"kind": "group", "id": "-1"}}
    (edit,) = bind(NAMED, "work", match)
    assert flat([edit]) == [(("bindings", 0), {"agentId": "work", "match": match})]
    bound = {**NAMED, "bindings": [edit.value]}
    assert bind(bound, "work", match) == []
    assert bind(bound, "main", {"channel": "telegram"})[0].path == ("bindings", 1)
    with pytest.raises(ConfigError, match=r"telegram account a group:-1 is bound to 'work'"):
        bind(bound, "main", match)


def test_unbinding_removes_what_holds_all_that_was_named():
    rows = [
        {"agentId": "work", "match": {"channel": "telegram", "accountId": "a"}},
        {"agentId": "work", "match": {"channel": "discord"}},
        {"agentId": "main", "match": {"channel": "telegram"}},
    ]
    document = {"bindings": rows}
    assert flat(unbind(document, "work", {"channel": "telegram"})) == [(("bindings", 0), "gone")]
    assert [edit.path for edit in unbind(document, "work", None)] == [("bindings", 1), ("bindings", 0)]
    with pytest.raises(ConfigError, match="irc is not bound to 'work'"):
        unbind(document, "work", {"channel": "irc"})


def test_identity_goes_into_the_entry_and_by_default_only_over_what_is_there():
    values = {"name": "Otto", "emoji": "🦉"}
    assert flat(set_identity(LISTED, "work", values, force=False)) == [
        (("agents", "list", 1, "identity", "name"), "Otto")
    ]
    assert len(set_identity(LISTED, "work", values, force=True)) == 2
    assert set_identity({}, "main", values, force=False) == []
    assert flat(set_identity({}, "main", values, force=True)) == [(("agents", "entries", "main", "identity"), values)]


def test_a_match_is_told_in_words():
    assert (
        describe_match({"channel": "x", "peer": {"kind": "direct", "id": "7"}, "guildId": "9"})
        == "x direct:7 guildId=9"
    )
