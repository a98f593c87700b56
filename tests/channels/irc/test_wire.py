"""Lines, names and cuts of IRC, byte for byte."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.channels.irc import wire
from homarus.channels.irc.connection import sasl_pieces

texts = st.text(max_size=400)
emoji = st.text(st.sampled_from("a é ü\u0301 👨\u200d👩\u200d👧 👍🏽 ❤\ufe0f 日本 \t\n\r\x00\x01\x02"), max_size=400)
targets = st.from_regex(r"[#a-z][a-z0-9]{0,30}", fullmatch=True)


@given(texts | emoji, st.integers(40, 400))
def test_no_cut_is_too_long_and_no_word_is_lost(text, room):
    lines = wire.split(text, room)
    assert all(0 < len(line.encode()) <= room for line in lines)
    kept = "".join(text.replace("\x7f", "").split())
    kept = "".join(letter for letter in kept if letter >= " ")
    assert "".join("".join(lines).split()) == kept.encode("utf-8", "replace").decode()


@given(texts | emoji, targets, st.from_regex(r"[a-z]{1,16}![a-z~]{1,10}@[a-z.]{1,63}", fullmatch=True))
def test_no_line_that_a_server_passes_on_is_above_512_bytes(text, target, prefix):
    for part in wire.split(text, wire.room_for(target, prefix)):
        sent = wire.line("PRIVMSG", target, part)
        assert len(sent) <= 512 and sent.count(b"\n") == 1
        passed_on = f":{prefix} ".encode() + sent
        assert len(passed_on) <= 512
        back = wire.parse(passed_on.rstrip(b"\r\n"))
        assert back == wire.Line("PRIVMSG", (target, part), prefix, {})


def test_a_text_is_cut_at_blanks():
    assert wire.split("aaaa bbbb cccc", 9) == ["aaaa bbbb", "cccc"]
    assert wire.split("one\n\n  \ntwo\r\nthree", 50) == ["one", "two", "three"]


def test_a_joined_emoji_and_a_letter_with_its_mark_stay_whole():
    family = "👨\u200d👩\u200d👧"
    assert wire.split("x" * 10 + family, 20) == ["x" * 10, family]
    assert wire.split("abce\u0301", 5) == ["abc", "e\u0301"]
    assert unicodedata.combining("\u0301")


@given(st.binary(max_size=600))
def test_whatever_a_server_sends_is_a_line_or_nothing(raw):
    line = wire.parse(raw)
    assert line is None or line.command


@given(st.dictionaries(st.from_regex(r"\+?[a-z/]{1,12}", fullmatch=True), st.text(max_size=40), max_size=4))
def test_tags_come_back(tags):
    tags = {name: value.replace("\x00", "").encode("utf-8", "replace").decode() for name, value in tags.items()}
    sent = wire.line("TAGMSG", "#a", tags=tags)
    back = wire.parse(sent.rstrip(b"\r\n"))
    assert back is not None
    assert dict(back.tags) == tags and back.params == ("#a",)


def test_a_tag_that_ends_in_a_backslash_and_one_without_a_value():
    line = wire.parse(b"@a=b\\;c;d= :n!u@h PRIVMSG me :x")
    assert line is not None
    assert line.tags == {"a": "b", "c": "", "d": ""} and line.nick == "n"


@pytest.mark.parametrize("bad", [("PRIVMSG", "a b", "x"), ("PRIVMSG", ":a", "x"), ("PRIVMSG", "", "x"), ("PRIVMSG", "a", "x\r\nQUIT"),
                                 ("PRIVMSG", "a", "x" * 600), ("NICK", "a\nQUIT")])  # fmt: skip
def test_nothing_smuggles_a_second_line_in(bad):
    with pytest.raises(ValueError):
        wire.line(*bad)


def test_names_fold_as_the_server_says():
    assert wire.fold("[Alice]\\~", "rfc1459") == "{alice}|^"
    assert wire.fold("[Alice]~", "rfc1459-strict") == "{alice}~"
    assert wire.fold("[Alice]É", "ascii") == "[alice]É"
    assert wire.fold("[A]", "of tomorrow") == "[a]"


def test_colours_go_and_words_stay():
    assert wire.unstyled("\x02bold\x02 \x0304,12red\x03 \x04ff0000hex\x0f 3 apples\x1f") == "bold red hex 3 apples"


@pytest.mark.parametrize(("reason", "split"), [("a.example.net b.example.net", True), ("*.net *.split", True), ("see you. later", False),
                                               ("a.b c.d e.f", False), ("Quit: a.b c.d", False)])  # fmt: skip
def test_a_netsplit_is_two_servers_and_nothing_else(reason, split):
    assert wire.is_netsplit(reason) is split


@given(st.binary(max_size=1300))
def test_the_pieces_of_a_login_say_where_they_end(answer):
    pieces = sasl_pieces(answer)
    assert all(len(piece) == 400 for piece in pieces[:-1]) and 0 < len(pieces[-1]) < 400
