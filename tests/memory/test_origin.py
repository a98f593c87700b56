"""Whose words a line holds is written beside it, and everybody who finds the line is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.origin import mark_origin, take_origin
from homarus.memory import toolset
from homarus.memory.bank.grammar import parse_bullet
from homarus.memory.bank.reflect import reflect
from homarus.memory.settings import MemorySettings, PreReply, QuerySettings
from homarus.memory.toolset import pre_reply

CHUNKS = MemorySettings(query=QuerySettings(ranking="hybrid"))


@given(st.text(), st.lists(st.text(max_size=20), max_size=12))
def test_no_text_hides_its_origin(text, sources):
    line = mark_origin(f"- W @X: {' '.join(text.split())}", ["web_fetch", *sources])
    assert "\n" not in line
    rest, found = take_origin(line)
    assert "web_fetch" in found
    assert take_origin(rest)[1] == () or "<!--" in text
    assert mark_origin("as it was", []) == "as it was"


def test_a_fact_is_the_same_with_and_without_its_origin():
    plain = "- W @Anna: Owns the boat."
    line, sources = take_origin(mark_origin(plain, ["web_fetch", "session:s-1"]))
    assert (line, sources) == (plain, ("web_fetch", "session:s-1"))
    assert take_origin("- x <!-- origin: -->")[1] == ("unknown",)
    assert take_origin("- x <!-- trigger: a -->")[1] == ()
    assert parse_bullet(line).id == parse_bullet(plain).id  # type: ignore[union-attr]


@pytest.mark.parametrize("settings", [MemorySettings(), CHUNKS])
def test_who_finds_a_fact_learns_whose_words_it_holds(notes, settings):
    memory = notes.open(settings=settings)
    kept = toolset.retain_fact(
        memory, {"text": "The boat of Anna is called Marlene.", "entities": ["Anna"]}, origin=["web_fetch"]
    )
    toolset.retain_fact(memory, {"text": "The car of Anna is called Rosalinde.", "entities": ["Anna"]})
    assert kept["origin"] == ["web_fetch"]
    for ask in (memory, notes.open(settings=settings)):
        ask.sync(force=True)
        assert toolset.search(ask, {"query": "boat Marlene"})["results"][0]["origin"] == ["web_fetch"]
        assert toolset.recall(ask, {"query": "what is the boat called"})["items"][0]["origin"] == ["web_fetch"]
    assert "origin" not in toolset.recall(memory, {"query": "what is the car called"})["items"][0]
    read = toolset.get(memory, {"path": kept["path"], "from": kept["line"], "lines": 1})
    assert read["origin"] == ["web_fetch"]
    assert "origin" not in toolset.get(memory, {"path": kept["path"], "from": 1, "lines": 1})


def test_an_edit_of_the_words_keeps_the_origin(notes):
    memory = notes.open()
    kept = toolset.retain_fact(memory, {"text": "The boat is called Marlene."}, origin=["web_fetch"])
    path = notes.root / kept["path"]
    path.write_text(path.read_text().replace("Marlene", "Rosalinde"))
    assert memory.search("boat Rosalinde")[0].origin == ("web_fetch",)
    assert memory.knowledge().facts[0].origin == ("web_fetch",)


def test_pages_made_from_facts_hand_the_origin_on(notes):
    memory = notes.open()
    toolset.retain_fact(memory, {"text": "Anna owns the boat Marlene.", "entities": ["Anna"]}, origin=["web_fetch"])
    reflect(memory)
    assert not reflect(memory).changed
    assert [hit.path for hit in memory.search("boat Marlene")] == ["memory/2026-06-15.md"], "a page says nothing twice"
    assert memory.get("bank/entities/anna.md").origin == ("web_fetch",)


def test_strangers_words_are_not_put_before_a_reply_unasked(notes):
    memory = notes.open(settings=MemorySettings(pre_reply=PreReply(enabled=True)))
    toolset.retain_fact(memory, {"text": "The boat is called Marlene."}, origin=["web_fetch"])
    assert pre_reply(memory, "what is the boat called") == ()
    toolset.retain_fact(memory, {"text": "The boat is called Rosalinde."})
    assert [text for _, text in pre_reply(memory, "what is the boat called")] == ["W: The boat is called Rosalinde."]
