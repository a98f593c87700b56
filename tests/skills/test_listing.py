"""The list in the prompt: its form, its budget, and its bytes."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.skills.helpers import read_listing, skill

from homarus.skills.header import visible
from homarus.skills.listing import compact, render, why_unlisted
from homarus.skills.settings import SkillLimits


def limits(chars: int = 30_000, count: int = 150) -> SkillLimits:
    return SkillLimits(max_skills_prompt_chars=chars, max_skills_in_prompt=count)


def test_the_form():
    listed = render([skill("b", 'Say "a" & <b>.', folder="/home/u/skills/b"), skill("a")], limits(), "/home/u")
    assert listed == (
        "<available_skills>\n"
        "  <skill>\n    <name>a</name>\n    <description>Does things.</description>\n    <location>/skills/a/SKILL.md</location>\n  </skill>\n"
        "  <skill>\n    <name>b</name>\n    <description>Say &quot;a&quot; &amp; &lt;b&gt;.</description>\n"
        "    <location>~/skills/b/SKILL.md</location>\n  </skill>\n"
        "</available_skills>"
    )
    assert read_listing(listed)[1] == ("b", 'Say "a" & <b>.', "~/skills/b/SKILL.md")


def test_the_older_form_can_be_read_too():
    older = '<available_skills><skill location="~/skills/github/SKILL.md"><description>Hub.</description></skill></available_skills>'
    assert read_listing(older) == [("github", "Hub.", "~/skills/github/SKILL.md")]


def test_nothing_to_show():
    assert render([], limits(), "/") == ""
    assert render([skill()], limits(count=0), "/") == ""
    assert render([skill()], limits(chars=10), "/") == ""
    assert render([skill()], limits(chars=-5), "/") == ""


def test_what_is_not_listed():
    assert why_unlisted(skill()) == ""
    assert "no description" in why_unlisted(skill(description=""))
    assert "disable-model-invocation" in why_unlisted(skill(model_invocable=False))
    for folder in ("/a\nb", "/a\u2028b", "/a\udcffb", "/a\u202eb", "/a\x1bb"):
        assert "path" in why_unlisted(skill(folder=folder))
    for folder in ("/a b", "/日本\u3000語", "/🛠\ufe0f", "/a&<b>"):
        assert why_unlisted(skill(folder=folder)) == ""
    assert render([skill(description=""), skill(model_invocable=False)], limits(), "/") == ""


def test_the_hundred_and_fifty_first_is_dropped_by_name():
    listed = render([skill(f"s{number:03}") for number in reversed(range(151))], limits(), "/")
    rows = read_listing(listed)
    assert [row[0] for row in rows] == [f"s{number:03}" for number in range(150)]
    assert listed.startswith("<!-- 150 of 151 skills; ")


@pytest.mark.parametrize(
    ("path", "home", "shown"),
    [
        ("/home/u/s/SKILL.md", "/home/u", "~/s/SKILL.md"),
        ("/home/u/s/SKILL.md", "/home/u/", "~/s/SKILL.md"),
        ("/home/user/SKILL.md", "/home/u", "/home/user/SKILL.md"),
        ("/s/SKILL.md", "/", "/s/SKILL.md"),
        ("/s/SKILL.md", "", "/s/SKILL.md"),
    ],
)
def test_the_home_folder_is_shortened(path, home, shown):
    assert compact(path, home) == shown


def test_over_budget_step_by_step():
    many = [skill(f"s{number:02}", "word " * 40) for number in range(20)]
    whole = render(many, limits(), "/")
    assert "<!--" not in whole
    sizes = []
    for budget in range(len(whole) - 1, 0, -37):
        listed = render(many, limits(budget), "/")
        assert len(listed) <= budget
        rows = read_listing(listed)
        longest = max((len(row[1]) for row in rows), default=0)
        sizes.append((len(rows), longest))
        if len(rows) < 20 and rows:
            assert longest == 0
            assert f"{len(rows)} of 20 skills, descriptions left out" in listed
        elif longest:
            assert "descriptions shortened" in listed
            assert 4 <= longest <= 220
            assert all(row[1].endswith("…") for row in rows)
    # Less room never shows more.
    assert sizes == sorted(sizes, reverse=True)
    assert {count for count, _ in sizes} >= {20, 10, 1, 0}


def test_short_descriptions_stay_whole_while_long_ones_shrink():
    made = [skill("a", "Short."), skill("b", "long " * 200)]
    rows = read_listing(render(made, limits(400), "/"))
    assert rows[0][1] == "Short."
    assert rows[1][1].endswith("…")


TEXT = st.text(st.characters(codec="utf-8"), max_size=60) | st.text("<>&\"'-]x—\u200b\u0000", max_size=30)
# Names and descriptions come from headers, and headers hold visible text alone.
SKILLS = st.lists(
    st.builds(
        lambda n, d, f: skill(visible(n, 64) or "x", visible(d * 9, 1024), folder="/r/" + f.replace("\0", "")),
        TEXT,
        TEXT,
        TEXT,
    ),
    max_size=12,
    unique_by=lambda made: made.file,
)


@given(SKILLS, st.integers(0, 2_000), st.integers(0, 14), st.randoms())
@settings(max_examples=300, deadline=None)
def test_the_budget_holds_for_anything(skills, chars, count, order):
    listed = render(skills, limits(chars, count), "/r")
    assert len(listed) <= chars
    rows = read_listing(listed)
    assert len(rows) <= count
    if listed:
        assert ET.fromstring(listed).tag == "available_skills"
        listed.encode("utf-8")
    names = [row[0] for row in rows]
    assert names == sorted(names)
    shuffled = list(skills)
    order.shuffle(shuffled)
    assert render(shuffled, limits(chars, count), "/r") == listed
