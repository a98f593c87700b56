"""Generated regions: written again and again they stay the same, and what a person wrote is never lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.bank.pages import END, is_generated, refresh

PAGE = "---\nname: Ada\n---\n\nAda is a friend.\n"


def test_trap15_a_second_run_changes_nothing_and_hand_edits_stay():
    first = refresh(PAGE, "current", "- Lives in Bergen. (memory/a.md#L1)")
    assert first.text.startswith(PAGE)
    assert refresh(first.text, "current", "- Lives in Bergen. (memory/a.md#L1)").text == first.text
    newer = refresh(first.text, "current", "- Lives in Oslo. (memory/b.md#L1)")
    assert "Bergen" not in newer.text
    assert newer.text.startswith(PAGE)
    by_hand = newer.text.replace("Lives in Oslo.", "Lives in Tromsø, she says.")
    kept = refresh(by_hand, "current", "- Lives in Rome.")
    assert kept.kept
    assert kept.text == by_hand
    assert "Tromsø" in kept.edited
    assert refresh(kept.text, "current", "- Lives in Rome.") == kept


def test_trap15_an_emptied_region_is_an_edit_too():
    page = refresh(PAGE, "current", "- Lives in Bergen.").text.replace("- Lives in Bergen.\n", "")
    assert refresh(page, "current", "- Lives in Bergen.").text == page


def test_regions_are_told_apart_and_human_text_around_them_moves_freely():
    page = refresh(refresh(PAGE, "current", "a").text, "timeline", "b").text
    page = page.replace("\n<!-- reflect:begin id=timeline", "\nA word of mine.\n\n<!-- reflect:begin id=timeline")
    after = refresh(refresh(page, "current", "a2").text, "timeline", "b2").text
    assert "A word of mine." in after
    assert after.count(END) == 2
    assert after.index("a2") < after.index("A word of mine.") < after.index("b2")


@pytest.mark.parametrize(
    "body", [END, "x\n<!-- reflect:end -->\ny", "<!-- reflect:begin id=a hash= -->", "", "\r\n", "\f"]
)
def test_a_body_that_imitates_the_marks_cannot_end_the_region(body):
    page = refresh(PAGE, "current", body).text
    assert refresh(page, "current", body).text == page
    assert refresh(page, "current", "new").text == refresh(PAGE, "current", "new").text


def test_what_the_program_wrote_is_no_evidence():
    page = refresh("one\ntwo\n", "current", "three").text
    lines = page.split("\n")
    flags = [is_generated(page, number) for number in range(1, len(lines) + 1)]
    assert [line for line, flag in zip(lines, flags, strict=True) if flag] == lines[3:6]
    edited = page.replace("three", "3")
    assert not any(is_generated(edited, number) for number in range(1, 9))
    assert not is_generated(page, 999)


@given(st.text(), st.text(), st.text())
def test_any_page_and_any_body(page, one, two):
    first = refresh(page, "x", one)
    if "reflect:begin id=x" in page:
        return
    assert first.text.startswith(page)
    assert refresh(first.text, "x", one).text == first.text
    assert refresh(refresh(first.text, "x", two).text, "x", one).text == first.text
