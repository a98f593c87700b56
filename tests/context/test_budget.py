import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.context.budget import IMAGE_TOKENS, budget_for, estimate, measure
from homarus.context.settings import CompactionSettings, PruningSettings
from homarus.core.messages import Assistant, Image, Message, StopReason, Text, ToolCall, ToolResult, Usage, User
from homarus.sessions.settings import size as size_of


@pytest.mark.parametrize(
    ("window", "reserve", "flush", "compact"),
    [(32_768, 8_192, 20_576, 24_576), (200_000, 20_000, 176_000, 180_000), (1_000_000, 20_000, 976_000, 980_000)],
)
def test_the_lines_of_a_window(window: int, reserve: int, flush: int, compact: int) -> None:
    budget = budget_for(window, CompactionSettings())
    assert (budget.reserve, budget.flush_at, budget.compact_above) == (reserve, flush, compact)


def test_a_tiny_window_still_has_room() -> None:
    budget = budget_for(1_000, CompactionSettings())
    assert 0 < budget.flush_at < budget.compact_above < 1_000


def test_parts_are_estimated_by_kind() -> None:
    assert estimate(User((Text("x" * 400),))) == 104
    assert estimate(User((Text("記憶" * 10),))) == 24
    assert estimate(User((Image("a", "image/png"),))) == 4 + IMAGE_TOKENS
    assert estimate(Assistant((ToolCall("1", "read", {"path": "abc"}),))) == 4 + 1 + 4
    assert estimate(User((Text("a" * 40),), context="b" * 40)) == 4 + 10 + 10


def test_the_providers_count_is_the_anchor() -> None:
    history: list[Message] = [
        User((Text("x" * 4_000),)),
        Assistant((Text("y"),), usage=Usage(input=5_000, output=10)),
        User((Text("z" * 400),)),
    ]
    assert measure(history, fixed=9_999) == 5_010 + 104


def test_a_failed_answers_usage_is_no_anchor() -> None:
    failed = Assistant((Text("y"),), usage=Usage(input=7), stop_reason=StopReason.ERROR)
    assert measure([User((Text("x" * 400),)), failed], fixed=50) == 50 + 104 + 5


def test_later_estimates_follow_the_observed_ratio_within_bounds() -> None:
    def history(counted: int) -> list[Message]:
        return [
            User((Text("a"),)),
            Assistant((Text("b"),), usage=Usage(input=1_000, output=0)),
            ToolResult("1", "read", (Text("x" * 4_000),)),
            Assistant((Text("c"),), usage=Usage(input=1_000 + counted, output=0)),
            User((Text("z" * 396),)),
        ]

    assert measure(history(1_506)) == 2_506 + round(103 * 1_506 / 1_004)
    assert measure(history(50_000)) == 51_000 + 206
    assert measure(history(10)) == 1_010 + 52


messages = st.one_of(
    st.builds(lambda size: User((Text("x" * size),)), st.integers(0, 900)),
    st.builds(
        lambda size, total, reason, moment: Assistant((Text("y" * size),), moment, "", "", "", Usage(total), reason),
        st.integers(0, 900),
        st.integers(0, 2_000),
        st.sampled_from(StopReason),
        st.integers(0, 3),
    ),
)


@given(st.lists(messages, max_size=8), st.integers(0, 500), st.integers(0, 2), st.integers(0, 3_000))
def test_a_line_changes_no_decision(history: list[Message], fixed: int, since: int, line: int) -> None:
    exact, quick = measure(history, fixed=fixed, since=since), measure(history, fixed=fixed, since=since, line=line)
    assert quick == exact or exact <= quick < line


@pytest.mark.parametrize(
    ("text", "size"), [("20mb", 20 << 20), (5, 5), ("1.5k", 1536), (None, 0), ("junk", 0), (-1, 0), ("7", 7)]
)
def test_sizes(text: int | str | None, size: int) -> None:
    assert (size_of(text) or 0) == size


@pytest.mark.parametrize(
    ("ttl", "seconds"), [("5m", 300), (5, 300), ("1h", 3600), ("30s", 30), ("7", 420), ("junk", 300)]
)
def test_durations(ttl: int | str, seconds: float) -> None:
    assert PruningSettings(ttl=ttl).ttl_seconds == seconds
