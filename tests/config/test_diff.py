from __future__ import annotations

from hypothesis import given, settings
from tests.config import json5_texts as texts

from homarus.config.diff import shown_text, unified_diff
from homarus.config.redact import MARKER
from homarus.config.scan import parse


def test_secrets_are_hidden_and_a_new_one_is_marked() -> None:
    before = '{\n  port: 1,\n  token: "old-secret", // token: "noted-secret"\n}\n'
    after = '{\n  port: 2,\n  token: "new-secret", // token: "noted-secret"\n}\n'
    shown = unified_diff(before, after, "openclaw.json")
    assert "secret" not in shown
    assert "-  port: 1," in shown
    assert f'+  token: "{MARKER} (new)",' in shown


def test_no_change_is_no_diff() -> None:
    assert unified_diff("{ a: 1 }", "{ a: 1 }", "f") == ""


def test_a_broken_old_text_is_not_shown() -> None:
    shown = unified_diff('{ token: "s3cret', "{}", "f")
    assert "s3cret" not in shown
    assert shown


def test_secrets_below_a_secret_name_and_in_lists() -> None:
    text = '{ serviceAccount: { a: "hide-me", b: ["hide-me"] }, headers: { X: "hide-me" }, u: "https://a:hide-me@h/", r: "${SHOWN}" }'
    shown = shown_text(text, {})
    assert "hide-me" not in shown
    assert "${SHOWN}" in shown
    assert parse(shown)


def test_an_earlier_spelling_of_a_secret_key_is_hidden_too() -> None:
    assert "hide-me" not in shown_text('{ token: "hide-me", token: "${NEW}" }', {})


@settings(max_examples=100, deadline=None)
@given(texts.documents(), texts.documents())
def test_any_two_texts_have_a_diff(before: str, after: str) -> None:
    unified_diff(before, after, "f")
