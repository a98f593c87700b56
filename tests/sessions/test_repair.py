import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sessions.provider_rules import check_anthropic, check_both, check_openai

from homarus.core.messages import Assistant, Image, StopReason, Text, Thinking, ToolCall, ToolResult, Usage, User
from homarus.sessions.codec import SYNTHETIC, is_synthetic
from homarus.sessions.repair import (
    ANTHROPIC,
    FAILED_TURN,
    OPENAI,
    OPENAI_RESPONSES,
    STRICT,
    Rules,
    missing_results,
    open_calls,
    repair,
)


def user(text="hi", **more):
    return User((Text(text),), **more)


def says(text="ok", **more):
    return Assistant((Text(text),), **more)


def calls(*ids, name="read", stop=StopReason.TOOL_USE, text=""):
    words = (Text(text),) if text else ()
    return Assistant((*words, *(ToolCall(i, name, {}) for i in ids)), stop_reason=stop)


def result(ident, text="out", **more):
    return ToolResult(ident, "read", (Text(text),), **more)


def shape(messages):
    """A history in short: u, a, a(ids), r(id) and r(id)! for a synthetic result."""
    out = []
    for m in messages:
        if isinstance(m, User):
            out.append("u")
        elif isinstance(m, ToolResult):
            out.append(f"r({m.call_id})" + ("!" if is_synthetic(m) else ""))
        else:
            out.append("a" + (f"({','.join(c.id for c in m.calls)})" if m.calls else ""))
    return " ".join(out)


UNMARKED = "[openclaw] missing tool result in session history; inserted synthetic error result for transcript repair."


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        # A note that stood in for a result gives way to the result, also where it has no mark.
        ([user(), calls("a"), result("a", UNMARKED, is_error=True), result("a", "real")], "u a(a) r(a)"),
        ([user(), calls("a"), result("a", UNMARKED, is_error=True)], "u a(a) r(a)!"),
        (
            [
                user(),
                calls("a"),
                missing_results([ToolCall("a", "read", {})], 1)[0],
                calls("b"),
                result("a"),
                result("b"),
            ],
            "u a(a) r(a) a(b) r(b)",
        ),
        # A result that names no call is of the only call there is.
        ([user(), calls("a"), result("")], "u a(a) r(a)"),
        ([user(), calls("a", "b"), result("")], "u a(a,b) r(a)! r(b)!"),
        ([user(), calls("a", name="exec"), result("")], "u a(a) r(a)!"),
        ([user(), calls("a"), result("a"), result("a", "again"), says()], "u a(a) r(a) a"),
        ([user(), calls("a"), result("a"), user(), calls("a"), result("a")], "u a(a) r(a) u a(a) r(a)"),
        ([user(), result("a"), calls("a")], "u a(a) r(a)"),
        ([user(), result("a"), calls("a"), user(), calls("a")], "u a(a) r(a)! u a(a) r(a)!"),
        ([user(), calls("a", "b"), result("b")], "u a(a,b) r(a)! r(b)"),
        ([user(), calls("a", "b"), result("b"), result("a")], "u a(a,b) r(a) r(b)"),
        ([user(), calls("a"), user("wait"), result("a")], "u a(a) r(a) u"),
        ([user(), calls("a", stop=StopReason.ABORTED)], "u"),
        ([user(), calls("a", stop=StopReason.ABORTED, text="so")], "u a"),
        ([user(), calls("a", "b", stop=StopReason.ABORTED), result("a")], "u a(a) r(a)"),
        ([user(), calls("a"), *missing_results([ToolCall("a", "read", {})], 0), result("a")], "u a(a) r(a)"),
        ([user(), calls("a"), user(), calls("b"), result("a"), result("b")], "u a(a) r(a) u a(b) r(b)"),
        ([user(), result("zombie"), says()], "u a"),
        ([user(), calls("a", "a"), result("a", "1"), result("a", "2")], "u a(a,a) r(a) r(a)"),
    ],
)
def test_pairing(history, expected):
    assert shape(repair(history, Rules(alternate=False, user_first=False, plain_ids=False))) == expected


def test_an_id_that_comes_again_keeps_both_results():
    history = repair([user(), calls("a"), result("a", "first"), user(), calls("a"), result("a", "second")], STRICT)
    assert [m.text for m in history if isinstance(m, ToolResult)] == ["first", "second"]
    check_both(history)


def test_a_synthetic_result_says_what_it_is_and_fails():
    made = repair([user(), calls("a")])[-1]
    assert made.is_error
    assert made.details == {SYNTHETIC: True}
    assert repair([user(), calls("a")], OPENAI_RESPONSES)[-1].text == "aborted"


def test_two_calls_with_one_id_get_one_result_each():
    history = repair([user(), calls("a", "a"), result("a", "1"), result("a", "2")])
    check_both(history)
    assert [m.text for m in history if isinstance(m, ToolResult)] == ["1", "2"]


def test_malformed_calls_go_and_an_empty_turn_with_them():
    bad = Assistant((ToolCall("", "read", {}), ToolCall("b", "no good", {}), ToolCall("c", "x" * 65, {})))
    assert repair([user(), bad]) == (user(),)


def test_failed_and_empty_turns():
    history = [
        user("1"),
        Assistant((), stop_reason=StopReason.ERROR, error="boom"),
        user("2"),
        Assistant((Text("half an ans"),), stop_reason=StopReason.ERROR, usage=Usage(5, 5)),
        user("3"),
        Assistant((Thinking("hm"),), stop_reason=StopReason.LENGTH),
        user("4"),
        Assistant((Text("I was say"),), stop_reason=StopReason.ABORTED),
    ]
    done = repair(history, OPENAI)
    assert [m.text for m in done] == ["1", "2", FAILED_TURN, "3", "4", "I was say"]
    check_openai(done)


def test_delivery_mirrors_are_not_replayed():
    mirror = Assistant((Text("ok"),), provider="openclaw", model="delivery-mirror")
    injected = Assistant((Text("note"),), provider="openclaw", model="gateway-injected")
    assert repair([user(), says(), mirror, injected]) == (user(), says())


def test_blank_blocks_get_a_placeholder_or_go():
    history = repair(
        [User((Text(" "), Image("aa", "image/png"))), says(" "), User((Text("\n"),)), calls("a"), result("a", "")]
    )
    check_both(history)
    assert history[-1].text == "(no output)"


def test_neighbours_of_one_role_are_merged_with_the_context_in_between():
    history = repair([user("a", context="monday"), user("b", context="tuesday"), says("x"), says("y")], ANTHROPIC)
    assert [part.text for part in history[0].parts] == ["a", "monday", "b"]
    assert history[0].context == "tuesday"
    assert [part.text for part in history[1].parts] == ["x", "y"]
    check_anthropic(history)


def test_a_history_that_begins_with_an_answer_gets_an_opening():
    check_anthropic(repair([says(), user()], ANTHROPIC))
    assert repair([says(), user()], OPENAI) == (says(), user())


def test_prefill_is_dropped_where_asked():
    assert repair([user(), says()], Rules(drop_prefill=True)) == (user(),)


@pytest.mark.parametrize("name", [" read", "read\n", "mcp:fetch", "\tmcp:fetch:x "])
def test_a_call_under_an_odd_name_is_not_lost(name):
    history = repair([user(), calls("a", name=name), ToolResult("a", name, (Text("found"),)), says()])
    assert shape(history) == "u a(a) r(a) a"
    assert history[2].text == "found"
    assert history[1].calls[0].name == history[2].tool_name
    check_both(history)


def test_ids_and_names_become_plain_on_both_sides():
    odd = Assistant((ToolCall("call_1|fc_" + "x" * 60, "web.fetch", {}),))
    history = repair([user(), odd, ToolResult(odd.calls[0].id, "web.fetch", (Text("o"),))])
    check_both(history)
    assert history[1].calls[0].id == history[2].call_id
    assert history[2].tool_name == "web_fetch"


def test_open_calls():
    assert [c.id for c in open_calls([user(), calls("a", "b"), result("a")])] == ["b"]
    assert open_calls([user(), calls("a"), result("a"), user()]) == []
    assert open_calls([calls("a", stop=StopReason.ABORTED)]) == []


ids = st.sampled_from(["a", "b", "c", "call_1|fc_2", "", " ", "é", "a" * 50])
texts = st.sampled_from(["", " ", "x", "two words", "日本"])
parts = st.lists(
    st.one_of(
        st.builds(Text, texts),
        st.builds(Thinking, texts, st.none() | texts),
        st.builds(ToolCall, ids, st.sampled_from(["read", "web.fetch", "", "no good"]), st.just({})),
        st.builds(Image, st.just("aa"), st.just("image/png")),
    ),
    max_size=4,
).map(tuple)
messages = st.one_of(
    st.builds(User, parts, context=texts),
    st.builds(
        Assistant,
        parts,
        stop_reason=st.sampled_from(list(StopReason)),
        model=st.sampled_from(["m", "delivery-mirror"]),
        provider=st.sampled_from(["openclaw", "x"]),
    ),
    st.builds(ToolResult, ids, texts, parts, details=st.none() | st.just({SYNTHETIC: True})),
)


@given(st.lists(messages, max_size=14))
def test_any_messages_become_a_history_that_both_accept(history):
    strict = repair(history, STRICT)
    check_both(strict)
    check_anthropic(repair(history, ANTHROPIC))
    check_openai(repair(history, OPENAI))
    for rules in (STRICT, OPENAI, OPENAI_RESPONSES, Rules(drop_prefill=True)):
        once = repair(history, rules)
        assert repair(once, rules) == once
        assert all(new is old for new, old in zip(repair(once, rules), once, strict=True))


def test_a_usual_history_comes_out_as_it_went_in():
    history = [user(), calls("a", "b"), result("a"), result("b"), says(), user("and?"), says("so")]
    for rules in (STRICT, OPENAI, OPENAI_RESPONSES):
        assert all(new is old for new, old in zip(repair(history, rules), history, strict=True))
    assert shape(repair(history, STRICT, used={"a"})) == "u a(a_2,b) r(a_2) r(b) a u a"
    assert shape(repair(history[:3], STRICT)) == "u a(a,b) r(a) r(b)!"
    assert shape(repair([user(), user()], STRICT)) == "u"
    assert shape(repair([user(), user()], OPENAI)) == "u u"
