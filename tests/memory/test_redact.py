from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.redact import MARK, redact_line, redact_lines


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("key sk-ant-" + "a1" * 20, "a1a1"),
        ("use " + "ghp_" + "Ab1" * 12, "Ab1"),
        ("AKIA" + "ABCDEFGH12345678", "ABCDEFGH"),
        ("slack xox" + "b-123456789012-abcdef", "abcdef"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4", "SflKx"),
        ("password: hunter22x", "hunter22x"),
        ("DB_PASSWORD=swordfish", "swordfish"),
        ('"api_key": "abc123def456"', "abc123"),
        ("Authorization: Bearer abc123def456ghi", "abc123"),
        ("postgres://user:s3cretpw@db/x", "s3cretpw"),
    ],
)
def test_secrets_go(line, secret):
    assert secret not in redact_line(line)
    assert MARK in redact_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "The broken keyboard is in the garage.",
        "The secret of the garden is patience.",
        "Secret: the party is on Friday",
        "order 4711-ABCD-99 arrived",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "see https://example.org/path?x=1",
        "the bearer of good news",
        "password reset was annoying",
        "Her token of love",
    ],
)
def test_ordinary_notes_stay(line):
    assert redact_line(line) == line


def test_a_private_key_goes_with_its_body_and_numbers_stay():
    lines = ["before", "-----BEGIN RSA PRIVATE KEY-----", "A" * 64, "B" * 64, "-----END RSA PRIVATE KEY-----", "after"]
    out = redact_lines(lines)
    assert len(out) == len(lines)
    assert out[0] == "before"
    assert out[5] == "after"
    assert not any("A" * 10 in line or "B" * 10 in line for line in out)


@given(st.lists(st.text(max_size=100), max_size=20))
def test_line_for_line(lines):
    assert len(redact_lines(lines)) == len(lines)
