from hypothesis import given
from hypothesis import strategies as st

from homarus.context.prune import PruneState, apply_cuts, decide
from homarus.context.settings import PruneTools, PruningSettings
from homarus.core.messages import Assistant, Image, Message, Part, Text, ToolCall, ToolResult, User

ON = PruningSettings(mode="cache-ttl", min_prunable_tool_chars=1)
HOUR = 3_600_000


def turn(number: int, size: int, name: str = "read", part: Part | None = None) -> list[Message]:
    call = f"c{number}"
    return [
        User((Text(f"q{number}"),)),
        Assistant((ToolCall(call, name, {}),)),
        ToolResult(call, name, (part or Text("h" * (size // 2) + "t" * (size - size // 2)),)),
    ]


def history(*sizes: int) -> list[Message]:
    return [message for number, size in enumerate(sizes) for message in turn(number, size)] + [
        Assistant((Text("done"),)) for _ in range(3)
    ]


def results(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolResult)]


def test_below_the_waiting_time_nothing_changes() -> None:
    state = PruneState(touched_at=HOUR)
    assert decide(history(90_000), state, ON, window=1_000, now=HOUR + 299_000) is state


def test_a_result_just_over_the_limit_keeps_head_tail_and_a_note() -> None:
    messages = history(4_000, 4_001)
    # The window is so large that clearing is not needed, and so small that trimming is.
    state = decide(messages, PruneState(), ON, window=5_000, now=HOUR)
    first, second = results(apply_cuts(messages, state))
    assert len(first) == 4_000
    assert second.startswith("h" * 1_500 + "\n...\n" + "t" * 1_500)
    assert second.endswith("[Shortened: the first 1,500 and last 1,500 of 4,001 characters.]")


def test_the_oldest_are_cleared_first_and_only_as_many_as_needed() -> None:
    messages = history(30_000, 30_000, 30_000)
    state = decide(messages, PruneState(), ON, window=3_000, now=HOUR)
    shown = results(apply_cuts(messages, state))
    assert shown[0] == "[Old tool result content cleared]"
    assert shown[2] != shown[0]


def test_images_denied_tools_and_the_newest_answers_are_left_alone() -> None:
    messages: list[Message] = [*turn(0, 0, part=Image("x", "image/png")), *turn(1, 50_000, "exec"), *history(50_000)]
    settings = PruningSettings(mode="cache-ttl", tools=PruneTools(deny=["EX*"]))
    state = decide(messages, PruneState(), settings, window=1_000, now=HOUR)
    assert set(state.cuts) == {"c0#1"} or set(state.cuts) == {"c0#0"}
    few = turn(0, 90_000)
    assert decide(few, PruneState(), ON, window=1_000, now=HOUR).cuts == {}


def test_a_decision_is_replayed_to_the_byte_also_after_a_restart() -> None:
    messages = history(9_000, 9_000, 9_000)
    state = decide(messages, PruneState(), ON, window=5_000, now=HOUR)
    before = apply_cuts(messages, state)
    again = PruneState.from_data(state.to_data())
    assert again == state
    assert apply_cuts([*messages, User((Text("next"),))], again)[: len(before)] == before


def test_an_id_that_comes_twice_is_two_results() -> None:
    messages = [*turn(0, 9_000), *turn(0, 100), *history(0)]
    state = decide(messages, PruneState(), ON, window=3_000, now=HOUR)
    assert state.cuts == {"c0#0": "soft"}


@given(
    st.lists(st.integers(0, 12_000), max_size=8),
    st.integers(500, 20_000),
    st.lists(st.integers(0, 2_000_000), max_size=5),
)
def test_what_was_cut_stays_cut_and_the_clock_moves_only_with_a_change(
    sizes: list[int], window: int, moments: list[int]
) -> None:
    messages = history(*sizes)
    state = PruneState()
    for now in sorted(moments):
        after = decide(messages, state, ON, window=window, now=now)
        assert set(state.cuts) <= set(after.cuts)
        assert (after.cuts == state.cuts) == (after is state)
        state = after


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.dictionaries(st.text(), x) | st.lists(x)))
def test_any_stored_state_can_be_read(data: object) -> None:
    assert isinstance(PruneState.from_data(data), PruneState)


def test_to_keep_no_answers_protects_none() -> None:
    messages = turn(0, 90_000)
    settings = PruningSettings(mode="cache-ttl", min_prunable_tool_chars=1, keep_last_assistants=0)
    assert set(decide(messages, PruneState(), settings, window=1_000, now=HOUR).cuts) == {"c0#0"}


def test_pruning_is_on_by_itself_for_anthropic_alone_and_waits_an_hour() -> None:
    unset = PruningSettings()
    assert unset.for_provider("openai").mode is None
    on = unset.for_provider("anthropic")
    assert (on.mode, on.ttl_seconds) == ("cache-ttl", 3_600)
    assert PruningSettings(mode="off").for_provider("anthropic").mode == "off"
    assert PruningSettings(ttl="10m").for_provider("anthropic").ttl_seconds == 600
    assert PruningSettings(mode="cache-ttl").for_provider("anthropic").ttl_seconds == 300
    messages = history(90_000)
    assert decide(messages, PruneState(), unset, window=1_000, now=HOUR).cuts == {}
    assert decide(messages, PruneState(), on, window=1_000, now=HOUR).cuts
