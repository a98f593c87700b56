import json
from datetime import UTC

from tests.sessions.lines import entry, header, result, says, user

from homarus.sessions.entry import to_entry, to_header
from homarus.sessions.export import blocks, render

ROWS = [
    user("u", None, "What <b>now</b>? \x1b[31m", timestamp=1777636800000),
    entry("custom_message", "x", "u", customType="openclaw.runtime-context", content="it is friday"),
    says("a", "x", "Look:\n```\ncode\n```", calls=("1",), model="m"),
    result("r", "a", "1", "``` fence"),
    entry(
        "message",
        "t",
        "r",
        message={
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}],
            "stopReason": "error",
            "errorMessage": "boom",
        },
    ),
    entry("compaction", "k", "t", summary="so far", firstKeptEntryId="r"),
    entry("custom", "c", "k", customType="note"),
    entry("reset", "z", "c"),
]
ENTRIES = [to_entry(row) for row in ROWS]
HEADER = to_header(header())


def test_what_a_person_sees():
    assert [(b.kind, b.title) for b in blocks(ENTRIES)] == [
        ("user", ""),
        ("note", "context"),
        ("assistant", "m"),
        ("call", "read"),
        ("result", "read"),
        ("thinking", ""),
        ("assistant", "failed"),
        ("mark", "summary of what came before"),
        ("mark", "started over"),
    ]


def test_markdown():
    text = "".join(render(HEADER, ENTRIES, "md", title="main", zone=UTC))
    assert text.startswith("# main\n\n## You, 2026-05-01 12:00\n\nWhat <b>now</b>? [31m\n")
    assert 'Called `read`:\n\n```\n{"path": "x"}\n```' in text
    assert "````\n``` fence\n````" in text
    assert "\x1b" not in text


def test_people_are_not_shown_what_the_program_told_the_model():
    old = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nsecret facts\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>\nand my question"
    entries = [*ENTRIES, to_entry(user("v", "z", old))]
    for form in ("md", "html"):
        text = "".join(render(HEADER, entries, form, title="main"))
        assert "it is friday" not in text and "secret" not in text and "and my question" in text
        assert "it is friday" in "".join(render(HEADER, entries, form, title="main", full=True))


def test_what_a_program_told_its_model_about_an_answer_is_nobodys_word():
    said = user("v", "z", "That answer does not have the form")
    said["message"]["provenance"] = {"kind": "program"}
    entries = [*ENTRIES, to_entry(said)]
    assert [(b.kind, b.title) for b in blocks(entries)][-1] == ("note", "the program")
    assert "have the form" not in "".join(render(HEADER, entries, "md", title="main"))
    assert "have the form" in "".join(render(HEADER, entries, "md", title="main", full=True))


def test_json_keeps_everything():
    document = json.loads("".join(render(HEADER, ENTRIES, "json", title="main")))
    assert document["session"]["id"] == "s1"
    assert document["entries"] == ROWS


def test_html_is_inert():
    page = "".join(render(HEADER, ENTRIES, "html", title="<main>", zone=UTC))
    assert "<b>now" not in page and "&lt;b&gt;now" in page
    assert "<title>&lt;main&gt;</title>" in page
    assert "<script" not in page and "default-src 'none'" in page
