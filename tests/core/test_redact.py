"""Secrets in free text: every documented form goes, and what only looks random stays."""

import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core import redact
from homarus.core.redact import MARK, is_secret_name, redacted, redacted_lines

ALPHABETS = {
    "a": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    "h": "0123456789abcdef",
    "d": "0123456789",
    "U": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
}
FILE = json.loads((Path(__file__).parent / "secrets.json").read_text(encoding="utf-8"))


def filled(template: str, seed: int = 7) -> str:
    """Return the text with random letters for `{a20}` (letters and digits), `{h32}` (hex), `{d9}` and `{U16}`.

    So no file of the project holds a string that a scanner for secrets would take for one.
    """
    chance = random.Random(f"{seed}{template}")
    text = re.sub(
        r"\{([ahdU])(\d+)\}", lambda m: "".join(chance.choice(ALPHABETS[m[1]]) for _ in range(int(m[2]))), template
    )
    return text.replace("{{", "{").replace("}}", "}")


@pytest.mark.parametrize("template", [text for texts in FILE["hide"].values() for text in texts])
def test_secrets_go(template: str) -> None:
    text = filled(template)
    shown = redacted(text.replace("«", "").replace("»", ""))
    assert MARK in shown
    for secret in re.findall("«(.*?)»", text, re.DOTALL):
        assert secret not in shown
    assert redacted(shown) == shown


@pytest.mark.parametrize("template", FILE["keep"])
def test_what_is_no_secret_stays(template: str) -> None:
    for seed in range(5):
        text = filled(template, seed)
        assert redacted(text) == text


def test_what_announced_a_secret_stays_readable() -> None:
    assert (
        redacted('curl --token abcdef123456 -H "X-Api-Key: abcdef123456"')
        == f'curl --token {MARK} -H "X-Api-Key: {MARK}"'
    )
    assert redacted('{"token":"abcdef123456","n":1}') == f'{{"token":"{MARK}","n":1}}'
    assert redacted("https://me:abcdef123456@host/x?a=1&sig=abc&b=2") == f"https://me:{MARK}@host/x?a=1&sig={MARK}&b=2"
    assert redacted("(password=abc123def); status=401") == f"(password={MARK} status=401"
    assert redacted('Authorization: Digest username="x", response="abc"; status=401') == (
        f"Authorization: Digest {MARK}; status=401"
    )


def test_a_path_that_is_said_already_stays() -> None:
    for text in (
        "cannot create folder /etc/passwd: /etc/passwd is not a folder",
        "cannot create folder /data/my/secrets: /data/my is not a folder",
    ):
        assert redacted(text) == text
    assert redacted("/etc/passwd: /aB3+xYz9/q1w2e3") == f"/etc/passwd: {MARK}"


def test_the_mark_is_the_callers() -> None:
    assert redacted("token=abcdef123456", "***") == "token=***"


@pytest.mark.parametrize(
    "name", ["token", "api_key", "apiKey", "botToken", "DB_PASSWORD", "x-auth-token", "jdbc.password", "clientSecret"]
)
def test_names_that_announce_one(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["token_count", "monkey", "mytoken", "maxTokens", "publicKey", "session_key", "tokenizer", "passport", "keys"],
)
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)


def test_a_private_key_goes_with_its_body_and_numbers_stay() -> None:
    lines = ["before", "-----BEGIN RSA PRIVATE KEY-----", "A" * 64, "B" * 64, "-----END RSA PRIVATE KEY-----", "after"]
    out = redacted_lines(lines)
    assert len(out) == len(lines)
    assert out[0] == "before"
    assert out[5] == "after"
    assert not any("A" * 10 in line or "B" * 10 in line for line in out)


@given(st.lists(st.text(max_size=100), max_size=20))
def test_line_for_line(lines: list[str]) -> None:
    lines = [line.replace("\n", " ") for line in lines]
    assert len(redacted_lines(lines)) == len(lines)


@given(st.text())
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redacted(text)
    assert redacted(once) == once


_LONG = [(word, pattern) for word, pattern in redact._rules() if word not in redact._SHORT]


@given(st.data())
def test_what_a_rule_finds_is_one_long_run_that_holds_its_word(data: st.DataObject) -> None:
    word, pattern = data.draw(st.sampled_from(_LONG))
    found = re.compile(pattern).search(data.draw(st.from_regex(pattern)))
    assert found is not None
    assert redact._RUN.fullmatch(found[0])
    assert word in found[0].lower()
