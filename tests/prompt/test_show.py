"""A report on the screen: every line that people and programs look for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.prompt import samples

from homarus.core.tools import ToolSpec
from homarus.prompt.build import build
from homarus.prompt.carrier import render_volatile
from homarus.prompt.facts import PromptFacts
from homarus.prompt.report import About, measure
from homarus.prompt.show import context_mode, detail_lines, help_text, list_lines, map_lines
from homarus.workspace.inject import BootstrapContext, ContextFile

ABOUT = About(
    session_key="agent:main:main",
    model="claude",
    workspace_dir="/w",
    bootstrap_max_chars=20_000,
    bootstrap_total_max_chars=150_000,
    window=200_000,
    session_tokens=52_000,
    messages={"user": 12, "assistant": 14},
)
CONTEXT = BootstrapContext(
    files=(
        ContextFile("AGENTS.md", "/w/AGENTS.md", "a" * 1200, 1234, 1200),
        ContextFile("SOUL.md", "/w/SOUL.md", "b" * 20_000, 31_000, 20_000, truncated=True),
        ContextFile("USER.md", "/w/USER.md", "[MISSING] Expected at: /w/USER.md", 0, 33, missing=True),
        ContextFile("TOOLS.md", "/w/TOOLS.md", "[UNREADABLE: a fifo]", 0, 20, unreadable=True),
    ),
    dynamic=(ContextFile("HEARTBEAT.md", "/w/HEARTBEAT.md", "- water", 8, 7),),
    truncated=True,
    near_limit=("SOUL.md: 31,000 of 20,000 characters",),
    omitted=2,
)


def report(about: About = ABOUT, *, tools=samples.TOOLS):
    prompt = build(PromptFacts(replace(samples.STABLE, files=CONTEXT.files), turn=samples.TURN))
    carrier, _ = render_volatile(prompt.volatile, {})
    return measure(prompt, about, context=CONTEXT, tools=tools, carrier=carrier)


def test_list():
    lines = list_lines(report())
    assert lines[0] == "Context of agent:main:main with claude"
    assert "Workspace: /w" in lines
    assert "Bootstrap max/file: 20,000 chars" in lines
    assert "Bootstrap total: 21,220 of 150,000 chars (14 %)" in lines
    assert "Sandbox: mode=off sandboxed=false" in lines
    assert "- AGENTS.md: OK | raw 1,234 chars (~309 tok) | injected 1,200 chars (~300 tok)" in lines
    assert "- SOUL.md: TRUNCATED | raw 31,000 chars (~7,750 tok) | injected 20,000 chars (~5,000 tok)" in lines
    assert "- USER.md: MISSING | raw 0 chars (~0 tok) | injected 0 chars (~0 tok)" in lines
    assert "- TOOLS.md: UNREADABLE | raw 0 chars (~0 tok) | injected 20 chars (~5 tok)" in lines
    assert "- HEARTBEAT.md: OK | raw 8 chars (~2 tok) | injected 7 chars (~2 tok) | on the next user turn" in lines
    assert "Near the limit: SOUL.md: 31,000 of 20,000 characters" in lines
    assert "Left out, the total is used up: 2 file(s)" in lines
    assert "Skills: daily-review" in lines
    assert any(line.startswith("Tools: read, write, edit, apply_patch, grep") for line in lines)
    assert any(line.startswith("System prompt (estimate): ") and "(Project Context " in line for line in lines)
    assert "Session tokens (cached): 52,000 total / ctx=200,000" in lines
    assert any(line.endswith("(counts toward context; not shown as text)") for line in lines)


def test_total_near_its_budget_is_flagged():
    near = list_lines(report(replace(ABOUT, bootstrap_total_max_chars=24_000)))
    assert "Bootstrap total: 21,220 of 24,000 chars (88 %) NEAR LIMIT" in near


def test_unknown_figures_are_said_to_be_unknown():
    lines = list_lines(report(About(), tools=()))
    assert lines[0] == "Context of a new session"
    assert "Tools: none" in lines
    assert "Session tokens (cached): unknown / ctx=?" in lines


def test_long_lists_are_cut_with_a_count():
    many = tuple(ToolSpec(f"tool_{number:02}", "", {}) for number in range(33))
    assert any(
        line.startswith("Tools: tool_00, ") and line.endswith(" (+3 more)") for line in list_lines(report(tools=many))
    )


def test_detail_adds_sections_skills_tools_and_messages():
    tools = (ToolSpec("read", "Read.", {"type": "object", "properties": {"path": {}, "limit": {}}}, summary="Read"),)
    lines = detail_lines(report(tools=tools))
    assert lines[: len(list_lines(report(tools=tools)))] == list_lines(report(tools=tools))
    assert any(line.startswith("- Safety [stable]: ") for line in lines)
    assert any(line.startswith("- Messaging [session]: ") for line in lines)
    assert any(line.startswith("- Runtime [volatile]: ") for line in lines)
    assert any(line.startswith("- daily-review: ") for line in lines)
    assert any(line.startswith("- read: ") and line.endswith("| 2 params (path, limit)") for line in lines)
    assert "Messages: 12 user, 14 assistant" in lines


class TestMap:
    def test_rows_add_up_to_the_window(self):
        lines = map_lines(report())
        assert lines[0].startswith("Window: ~52,")
        tokens = [int(line.split(" tok")[0].rsplit(" ", 1)[1].replace(",", "")) for line in lines[1:]]
        assert sum(tokens) == 200_000
        assert lines[-1].startswith("free")

    def test_every_row_is_equally_wide(self):
        for unicode in (True, False):
            lines = map_lines(report(), unicode=unicode)[1:]
            assert len({len(line) for line in lines}) == 1

    def test_ascii_where_the_terminal_knows_no_other(self):
        assert "".join(map_lines(report(), unicode=False)).isascii()
        assert "█" in "".join(map_lines(report()))

    def test_the_smallest_part_leaves_a_mark_and_nothing_is_not_listed(self):
        huge = replace(ABOUT, window=100_000_000, session_tokens=None)
        for unicode, mark in ((False, "#"), (True, "▏")):
            assert all(mark in row for row in map_lines(report(huge), unicode=unicode)[1:-1])
        assert not any(row.startswith("tool") for row in map_lines(report(tools=())))

    def test_without_a_window_the_bars_show_shares_of_what_is_used(self):
        lines = map_lines(report(replace(ABOUT, window=0)))
        assert "not known" in lines[0]
        assert not any(line.startswith("free") for line in lines)

    def test_more_than_the_window_still_fits_the_screen(self):
        lines = map_lines(report(replace(ABOUT, window=1000)))[1:]
        assert max(map(len, lines)) < 90


@pytest.mark.parametrize(
    ("argument", "mode"),
    [
        ("", "help"),
        ("help", "help"),
        (" LIST ", "list"),
        ("show", "list"),
        ("deep", "detail"),
        ("map", "map"),
        ("x", "help"),
    ],
)
def test_modes(argument, mode):
    assert context_mode(argument) == mode


def test_an_unknown_word_is_named_with_the_valid_ones():
    assert "'x' is not known" in help_text("x")
    assert "not known" not in help_text("help")
    assert all(f"/context {mode}" in help_text() for mode in ("list", "detail", "map", "json"))
