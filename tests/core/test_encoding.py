"""Bytes are the text that they are, or no text; nothing is damaged without a word."""

from __future__ import annotations

import pytest

from homarus.core.encoding import DAMAGED, Decoded, decode

GREETING = "Grüße, Ærø: 20 € “heute” — ÀÉ"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (GREETING.encode(), ""),
        (GREETING.encode("utf-8-sig"), ""),
        (GREETING.encode("utf-16"), "UTF-16"),
        (b"\xfe\xff" + GREETING.encode("utf-16-be"), "UTF-16"),
        (GREETING.encode("utf-32"), "UTF-32"),
        (GREETING.encode("cp1252"), "Windows-1252"),
    ],
)
def test_a_text_is_read_in_the_encoding_that_it_has(data: bytes, encoding: str) -> None:
    assert decode(data) == Decoded(GREETING, encoding)


@pytest.mark.parametrize("text", ["é", "un café", "Grüße", "ÄÖÜ", "a\r\nß\t\x1b[1m", "öööööö"])
def test_short_western_words_are_read(text: str) -> None:
    assert decode(text.encode("latin-1")) == Decoded(text, "Windows-1252")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\xff\x00\xfe",
        b"\x1f\x8b\x08\x00 archive",
        bytes(range(256)),
        b"caf\xe9 \x01",
        b"\xff\xfeodd",
        b"\xff\xfe\x01\x00\x02\x00",
        "Привет, как дела".encode("cp1251"),
        "Привет, как дела".encode("koi8-r"),
        "こんにちは世界".encode("shift_jis"),
        "\u4f60\u597d\u4e16\u754c".encode("gbk"),
        b"r\x81sum\x8d",
    ],
)
def test_what_is_no_text_or_can_only_be_guessed_at_is_none(data: bytes) -> None:
    assert decode(data) is None


def test_a_text_with_a_damaged_place_says_so() -> None:
    assert decode("Grüße, Jörg, tschü".encode()[:-1]) == Decoded("Grüße, Jörg, tsch\ufffd", DAMAGED)
    assert decode("\ufffd".encode()) == Decoded("\ufffd")
    assert decode("Grüße ".encode() + b"\xfc!") == Decoded("Grüße \ufffd!", DAMAGED)
    assert Decoded("x", DAMAGED).note("a.txt") == "[a.txt was read as UTF-8 with damaged places]"
    assert decode(b"") == Decoded("")
