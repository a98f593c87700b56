"""What of an answer a chat has not seen yet is told from the log: nothing twice, nothing left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from homarus.core.messages import Assistant, Message, StopReason, Text, ToolCall, ToolResult, User
from homarus.runtime.owed import PIECE, TOLD, answer_in, rest_of, shown_of
from homarus.sessions.entry import Custom, Entry, MessageEntry

WORDS = st.lists(st.text("abc .\n`", min_size=1, max_size=12), max_size=12).map("".join)


def log(*items: Message | str) -> list[Entry]:
    """Entries as a transcript has them; a text is a piece that was posted early."""
    found: list[Entry] = []
    for number, item in enumerate(items):
        ident = f"e{number}"
        if isinstance(item, str):
            raw = f'{{"type":"custom","customType":"{PIECE}","data":{{"text":"{item}"}}}}'.encode()
            found.append(Custom(ident, None, "", raw, custom_type=PIECE))
        else:
            role = {User: "user", Assistant: "assistant"}.get(type(item), "toolResult")
            found.append(MessageEntry(ident, None, "", b"", role=role, message=item))
    return found


def user(key: str) -> User:
    return User((Text(key),), idempotency_key=key)


def said(text: str, *calls: ToolCall, **more: object) -> Assistant:
    return Assistant((Text(text), *calls), **more)  # type: ignore[arg-type]


def test_an_answer_begins_with_its_question_and_ends_before_the_next() -> None:
    entries = log(user("other"), said("no"), user("mine"), said("one"), said("two"), user("next"), said("three"))
    found = answer_in(entries, {"mine"})
    assert found is not None
    assert found.anchor == "e2"
    assert [each.message.text for each in found.said] == ["one", "two"]
    assert found.ended
    assert answer_in(entries, {"nobody"}) is None


def test_what_steered_the_turn_and_what_it_was_told_belong_to_it() -> None:
    entries = log(user("a"), said("one"), user("b"), user(f"a{TOLD}"), said("two"))
    found = answer_in(entries, {"a", "b"})
    assert found is not None
    assert [each.message.text for each in found.said] == ["one", "two"]


def test_an_answer_that_was_cut_off_has_not_ended() -> None:
    for last in (said("half", stop_reason=StopReason.ABORTED), said("", ToolCall("c", "read", {})), user("a2")):
        found = answer_in(log(user("a"), last), {"a", "a2"})
        assert found is not None
        assert not found.ended


def test_pieces_belong_to_the_message_that_comes_after_them() -> None:
    found = answer_in(log(user("a"), "One.", said("One. Two."), "Three."), {"a"})
    assert found is not None
    assert found.said[0].pieces == ("One.",)
    assert found.pieces == ("Three.",)


def test_what_the_agent_sent_itself_is_not_said_again() -> None:
    call = ToolCall("c", "message", {"action": "send", "message": "Tea is ready."})
    result = ToolResult("c", "message", (Text("ok"),))
    found = answer_in(log(user("a"), said("", call), result, said("Tea is  ready.")), {"a"})
    assert found is not None
    assert shown_of(found.said[-1].message, found.sent).text == ""
    failed = answer_in(log(user("a"), said("", call), ToolResult("c", "message", (), is_error=True)), {"a"})
    assert failed is not None
    assert failed.sent == ()


def test_a_message_that_broke_off_is_not_shown() -> None:
    assert shown_of(said("half", stop_reason=StopReason.ERROR)).text == ""


@given(st.lists(WORDS, max_size=5))
def test_pieces_and_the_rest_are_the_whole(parts: list[str]) -> None:
    whole = "\n".join(parts)
    for count in range(len(parts) + 1):
        rest = rest_of(whole, parts[:count])
        shown = "".join("".join(parts[:count]).split())
        assert shown + "".join(rest.split()) == "".join(whole.split())


def test_a_fence_that_was_closed_and_opened_again_is_no_text() -> None:
    whole = "Look:\n```py\none()\ntwo()\n```\nDone."
    pieces = ["Look:\n```py\none()\n```", "```py\ntwo()\n```"]
    assert rest_of(whole, pieces[:1]).replace(" ", "") == "two()\n```\nDone."
    assert rest_of(whole, pieces) == "Done."


def test_an_answer_that_was_written_anew_says_what_nobody_saw() -> None:
    assert rest_of("First part.\n\nSomething else.", ["First part.", "Second part."]) == "Something else."
    assert rest_of("Another answer.", ["First part."]) == "Another answer."
