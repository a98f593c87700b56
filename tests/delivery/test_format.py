"""Markdown in every platform's dialect: nothing is lost, nothing is too long, and no markup breaks."""

import html as html_text
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from homarus.delivery.format import render
from homarus.delivery.format.dialects import DIALECTS, utf16
from homarus.delivery.place import Piece, Place, Style

SIZES = {"characters": len, "utf16": utf16, "bytes": lambda text: len(text.encode())}
WORDS = st.lists(
    st.sampled_from(
        ["word ", "a", "**", "*", "_", "`", "``", "```\n", "\n```\n", "```py\n", "~~~\n", "~~", "||", "\n", "\n\n", "- ", "\n- x\n", "1. ",
         "> ", "\n> ", "# ", "\n## T\n", "[", "](", ")", "[label](https://e.org/a_b)", "https://e.org/x_y?z=1&b=2", "<b>", "&", "<", ">",
         "| a | b |\n|--|--|\n| 1 | 2 |\n", "|", "---\n", "é", "😀", "👩‍👩‍👧", "e\u0301", "你好", "\\", "\\*", "!", "<br>", "    code\n", "   ",
         "<details><summary>S</summary>", "<@U12345>", "<!here>", "snake_case", "x" * 40, ". ", "\t", "\x00", "\u202e", "\ufdd0", "\ud800"]
    ),
    max_size=25,
)  # fmt: skip
LONG = "https://example.org/" + "a" * 500


def texts(markdown: str, dialect: str = "plain", **place: object) -> list[str]:
    return [piece.text for piece in render(markdown, Place(dialect=dialect, **place))]  # type: ignore[arg-type]


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


@given(
    WORDS,
    st.sampled_from(sorted(DIALECTS)),
    st.integers(16, 120),
    st.sampled_from(sorted(SIZES)),
    st.sampled_from([0, 1, 4]),
)
def test_no_message_is_longer_than_the_place_allows(
    words: list[str], dialect: str, limit: int, unit: str, lines: int
) -> None:
    place = Place(dialect=dialect, limit=limit, unit=unit, lines=lines, tables="code")  # type: ignore[arg-type]
    for piece in render("".join(words), place):
        for text in (piece.text, piece.plain):
            assert SIZES[unit](text) <= limit
            assert not lines or text.count("\n") < lines
            assert text.strip()
        assert all(style.start + style.length <= utf16(piece.text) for style in piece.styles)


@given(WORDS, st.integers(16, 120), st.sampled_from(["length", "newline"]))
@example(["word ", f"[label]({LONG})"], 60, "length")
def test_the_words_of_all_messages_are_the_words_of_the_text(words: list[str], limit: int, mode: str) -> None:
    markdown = "".join(words)
    [whole] = texts(markdown, limit=10**6) or [""]
    parts = texts(markdown, limit=limit, chunk_mode=mode)
    marks = str.maketrans("", "", "•>0123456789.")  # the mark of a box is written where the box begins
    assert squeezed("".join(parts)).translate(marks) == squeezed(whole).translate(marks)


class Balance(HTMLParser):
    """Fails where a tag is not closed by the one that opened it."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.shown = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in {"br", "hr"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.shown += data


@given(WORDS, st.sampled_from(["telegram-html", "matrix-html", "email"]), st.integers(60, 400))
def test_html_is_balanced_in_every_message(words: list[str], dialect: str, limit: int) -> None:
    for text in texts("".join(words), dialect, limit=limit):
        parser = Balance()
        parser.feed(text)
        parser.close()
        assert not parser.open
        assert "<script" not in text


@given(
    st.lists(st.text("ab <&\n", max_size=30), min_size=1, max_size=20),
    st.sampled_from(["discord", "slack-mrkdwn", "whatsapp", "xmpp"]),
)
def test_code_is_closed_and_opened_again_in_every_message(lines: list[str], dialect: str) -> None:
    code = "\n".join(lines).strip("\n")
    for text in texts(f"```py\n{code}\n```", dialect, limit=60):
        assert text.count("```") == 2
        assert text.startswith("```")
        assert text.endswith("\n```")


LITERAL = st.lists(
    st.sampled_from(
        ["word ", "a", "\\*", "\\_", "\\`", "\\#", "\\>", "\\+", "1\\. ", "\\~", "\\|", "\\\\", "*b* ", "**c** ", "`d` ", "~~e~~ ", "_f_ ", " ", "\n", "\n\n",
         "- x\n", "> y\n", "snake_case ", "2*3 ", "a_b_c ", "\\# ", "\\- ", "\\> ", "x\\*y\\*z ", "\\*\\*no\\*\\* "]
    ),
    max_size=14,
)  # fmt: skip


@given(LITERAL)
@example(["1\\. ", "word"])
@example(["*b*", "_f_"])
@example(["2*3 ", "*b*", "**c**"])
@example(["\\~", "~~e~~"])
@example(["word ", "\\*", "*b*"])
def test_what_is_written_for_discord_is_read_back_as_the_same_words(parts: list[str]) -> None:
    markdown = "".join(parts)
    for written, words in zip(texts(markdown, "discord", limit=10**6), texts(markdown, limit=10**6), strict=True):
        [read] = texts(written, limit=10**6)
        assert squeezed(read.replace("\u200b", "")) == squeezed(words)


def test_a_link_goes_to_the_next_message_whole() -> None:
    markdown = "word " * 8 + "[the label](https://example.org/page) after"
    parts = texts(markdown, "slack-mrkdwn", limit=60)
    assert parts == ["word word word word word word word word", "<https://example.org/page|the label> after"]


def test_a_link_that_no_message_can_hold_is_said_in_letters() -> None:
    assert "".join(texts(f"see [label]({LONG}) now", limit=100)) == f"seelabel({LONG}) now"


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("plain", "Hello world, code and gone: docs (https://e.org/a_b)"),
        ("telegram-html", '<b>Hello</b> <i>world</i>, <code>code</code> and <s>gone</s>: <a href="https://e.org/a_b">docs</a>'),
        ("discord", "**Hello** *world*, `code` and ~~gone~~: [docs](https://e.org/a_b)"),
        ("slack-mrkdwn", "*Hello* _world_, `code` and ~gone~: <https://e.org/a_b|docs>"),
        ("whatsapp", "*Hello* _world_, `code` and ~gone~: docs (https://e.org/a_b)"),
        ("xmpp", "*Hello* _world_, `code` and ~gone~: docs (https://e.org/a_b)"),
        ("irc", "Hello world, code and gone: docs (https://e.org/a_b)"),
        ("irc-codes", "\x02Hello\x02 \x1dworld\x1d, \x11code\x11 and \x1egone\x1e: docs (https://e.org/a_b)"),
        ("matrix-html", '<p><strong>Hello</strong> <em>world</em>, <code>code</code> and <del>gone</del>: <a href="https://e.org/a_b">docs</a></p>'),
        ("email", '<p><strong>Hello</strong> <em>world</em>, <code>code</code> and <del>gone</del>: <a href="https://e.org/a_b">docs</a></p>'),
    ],
)  # fmt: skip
def test_styles_and_links_in_every_dialect(dialect: str, expected: str) -> None:
    [piece] = render("**Hello** *world*, `code` and ~~gone~~: [docs](https://e.org/a_b)", Place(dialect=dialect))
    assert piece.text == expected
    assert piece.plain == "Hello world, code and gone: docs (https://e.org/a_b)"


def test_signal_gets_ranges_in_utf16_units() -> None:
    [piece] = render("😀 **bold 😀** and `x` ||hid||", Place(dialect="signal", unit="utf16"))
    assert piece.text == "😀 bold 😀 and x hid"
    assert piece.styles == (Style(3, 7, "BOLD"), Style(15, 1, "MONOSPACE"), Style(17, 3, "SPOILER"))


def test_an_unknown_dialect_is_plain_text() -> None:
    assert texts("**a**", "of tomorrow") == ["a"]


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_hostile_text_is_words_in_every_dialect(dialect: str) -> None:
    hostile = (
        '<script>alert(1)</script> <img src=x onerror=y> &amp; <a href="x">y</a> [x](javascript:alert(1)) \x07\x1b[31m'
    )
    [piece] = render(hostile, Place(dialect=dialect))
    assert "\x1b" not in piece.text
    assert "\x07" not in piece.text
    if DIALECTS[dialect].tags and dialect not in {"signal", "irc-codes"}:
        assert "<script" not in piece.text
        assert "<img" not in piece.text
        assert "href" not in piece.text.replace("a href=&quot;", "")
        assert "alert(1)" in html_text.unescape(piece.text)


def test_slack_mentions_people_and_channels_but_never_everybody() -> None:
    [text] = texts("<@U012ABC> <#C012ABC> <!here> <!channel> a<b & c", "slack-mrkdwn")
    assert text == "<@U012ABC> <#C012ABC> &lt;!here&gt; &lt;!channel&gt; a&lt;b &amp; c"


def test_lists_quotes_and_headings() -> None:
    markdown = "# Title\nintro\n\n- one\n- two\n  - inner\n\n3. three\n4. four\n\n> said\n> twice"
    assert texts(markdown) == ["Title\nintro\n\n• one\n• two\n  • inner\n\n3. three\n4. four\n\n> said\n> twice"]
    assert texts(markdown, "discord") == [
        "# Title\nintro\n\n- one\n- two\n  - inner\n\n3. three\n4. four\n\n> said\n> twice"
    ]
    assert texts(markdown, "telegram-html")[0].endswith("<blockquote>said\ntwice</blockquote>")
    assert texts(markdown, "matrix-html") == [
        (
            "<h1>Title</h1><p>intro</p><ul><li>one</li><li>two<ul><li>inner</li></ul></li></ul>"
            '<ol start="3"><li>three</li><li>four</li></ol><blockquote><p>said<br>twice</p></blockquote>'
        )
    ]


TABLE = "| name | size | note |\n|---|---|---|\n| a | 1 | **x** |\n| b | 22 | |"


def test_tables_become_code_bullets_or_stay_as_they_are() -> None:
    assert texts(TABLE, tables="code") == ["name | size | note\n-----+------+-----\na    | 1    | x\nb    | 22   |"]
    assert texts(TABLE, tables="bullets") == ["a\n• size: 1\n• note: x\n\nb\n• size: 22"]
    assert texts("| k | v |\n|--|--|\n| a | 1 |", "whatsapp") == ["- *a*: 1"]
    assert texts("| k | v |\n|--|--|\n| a | 1 |", tables="off") == ["| k | v |\n|--|--|\n| a | 1 |"]


def test_one_line_per_message_where_the_platform_has_no_line_ends() -> None:
    place = Place(dialect="irc", limit=40, unit="bytes", lines=1)
    pieces = render("first\nsecond\n\n```\n\nx = 1\n\ny = 2\n```\n- a\n- b", place)
    assert [piece.text for piece in pieces] == ["first", "second", "x = 1", "y = 2", "• a", "• b"]


def test_labels_cannot_break_out_of_their_link() -> None:
    assert texts("[a]b\nc](https://e.org/(x))", "discord") == [
        "[a]b\nc](https://e.org/(x))"
    ]  # no link in Markdown either
    assert texts("[a\\]b\nc](<https://e.org/(x)>)", "discord") == ["[a\\]b c](https://e.org/%28x%29)"]
    assert texts("[a>b\nc](https://e.org/a|b)", "slack-mrkdwn") == ["<https://e.org/a%7Cb|a&gt;b c>"]
    assert texts('[x](https://e.org/"onclick=)', "matrix-html") == ['<p><a href="https://e.org/%22onclick=">x</a></p>']


def test_pictures_and_bare_addresses_are_links() -> None:
    assert texts("![a chart](https://e.org/c.png) ![](https://e.org/d.png)") == [
        "a chart (https://e.org/c.png) https://e.org/d.png"
    ]
    assert texts("<https://e.org/a_b> <me@e.org> [](https://e.org)", "discord") == [
        "https://e.org/a_b me@e.org https://e.org"
    ]
    assert texts("[mail me](mailto:me@e.org)") == ["mail me (me@e.org)"]
    assert texts("[![alt](https://e.org/i.png)](https://e.org)", "slack-mrkdwn") == ["<https://e.org|alt>"]
    assert texts("(see https://e.org/a_(b)).", "discord") == ["(see https://e.org/a_(b))."]
    assert texts("[notes](notes.md) and [](notes.md)", "telegram-html") == ["notes (notes.md) and notes.md"]


def test_what_folds_open_elsewhere_is_shown_open() -> None:
    assert texts("<details><summary>More</summary>\n\nInside.\n\n</details>", "whatsapp") == ["*More*\n\nInside."]
    assert texts("one<br>two<br/>three") == ["one\ntwo\nthree"]


def test_a_label_that_names_another_address_hides_nothing() -> None:
    assert texts("[https://bank.example](https://evil.example)", "telegram-html") == [
        "https://bank.example (https://evil.example)"
    ]


def test_codes_of_irc_end_with_their_line() -> None:
    assert texts("**one\ntwo**", "irc-codes") == ["\x02one\x02\n\x02two\x02"]


def test_marks_inside_a_word_are_left_out_where_they_would_be_seen() -> None:
    assert texts("un**believ**able **two words** ", "whatsapp") == ["unbelievable *two words*"]
    assert texts("**over\ntwo lines**", "slack-mrkdwn") == ["*over*\n*two lines*"]


def test_a_heading_goes_with_what_it_stands_over() -> None:
    assert texts("one " * 9 + "\n\n## Head\n\n" + "two " * 9, limit=50) == [
        ("one " * 9).strip(),
        "Head\n\n" + ("two " * 9).strip(),
    ]


def test_a_paragraph_that_fits_stays_whole_and_a_long_one_fills_up() -> None:
    short, long = "a" * 30, "b " * 60
    assert texts(f"{short}\n\n{'c ' * 20}", limit=50) == [short, ("c " * 20).strip()]
    assert texts(f"{'a' * 10}\n\n{long}", limit=50)[0].startswith("a" * 10 + "\n\nb b")
    assert texts(f"{'a' * 10}\n\n{long}", limit=50, chunk_mode="newline")[0] == "a" * 10


def test_no_emoji_and_no_accent_falls_apart() -> None:
    for size in range(9, 30):
        for text in texts("👩‍👩‍👧" * 20, limit=size, unit="utf16"):
            assert not text.startswith("\u200d")
        for text in texts("e\u0301" * 40, limit=size):
            assert not text.startswith("\u0301")


def test_a_list_that_goes_on_in_the_next_message_counts_on() -> None:
    parts = texts("\n".join(f"{n}. item" for n in range(1, 9)), "matrix-html", limit=60)
    assert all(part.startswith("<ol") for part in parts)
    assert parts[1].startswith('<ol start="')


def test_nothing_is_shown_of_nothing() -> None:
    assert render("", Place()) == render(" \n\n", Place()) == render("<details>", Place()) == []


def test_pieces_carry_the_words_for_a_platform_that_refuses_the_markup() -> None:
    assert render("**a** <b", Place(dialect="telegram-html")) == [Piece("<b>a</b> &lt;b", "a <b")]


P = ("aaaa " * 6).strip()


@pytest.mark.parametrize("mode", ["length", "newline"])
@pytest.mark.parametrize(
    ("markdown", "limit", "expected"),
    [
        (f"{P}\n\n{P}\n\n{P}", 50, [P, P, P]),
        (f"{P}\n\n{P}\n\n{P}", 70, [f"{P}\n\n{P}", P]),
        ("one\n\ntwo\n\nthree", 50, ["one\n\ntwo\n\nthree"]),
        (f"{P}\n{P}\n{P}", 50, [P, P, P]),
        ("```py\n" + "x = 1\n" * 12 + "```", 50, ["```py\n" + "x = 1\n" * 6 + "```"] * 2),
        ("intro\n\n```py\nx = 1\n```\nafter", 50, ["intro\n\n```py\nx = 1\n```\nafter"]),
        ("x" * 120, 50, ["x" * 50, "x" * 50, "x" * 20]),
        ("word " * 30, 50, [("word " * 10).strip()] * 3),
        ("a\n\nb\n\nc", 8, ["a\n\nb\n\nc"]),
        ("\n\na\n\nb\n\n", 100, ["a\n\nb"]),
        ("a\r\n\r\nb", 100, ["a\n\nb"]),
        ("- x\n- y\n\n- z", 8, ["- x\n- y", "- z"]),
        ("para one is long enough\n\nb", 8, ["para", "one is", "long", "enough", "b"]),
        ("", 10, []),
        ("\n\n\n", 10, []),
        ("One sentence here. Another sentence here that is long. Third", 40, ["One sentence here. Another sentence", "here that is long. Third"]),
    ],
)  # fmt: skip
def test_cut_as_openclaw_cuts(markdown: str, limit: int, expected: list[str], mode: str) -> None:
    assert texts(markdown, "discord", limit=limit, chunk_mode=mode) == expected


TALL = "\n".join(f"step({n})" for n in range(33))


@pytest.mark.parametrize("dialect", ["plain", "discord"])
@pytest.mark.parametrize(
    ("markdown", "limit", "expected"),
    [
        ("Tea\n\nCake\n\nJam", 1600, ["Tea", "Cake", "Jam"]),
        ("a first part\n\nthen a second one that is longer", 35, ["a first part", "then a second one that is longer"]),
        ("Donaudampfschiff", 6, ["Donaud", "ampfsc", "hiff"]),
        ("See (both (of them) there) then", 27, ["See (both (of them) there)", "then"]),
        ("Done) and (so)", 10, ["Done) and", "(so)"]),
        ("一二三。四五六。", 5, ["一二三。", "四五六。"]),
        ("xy😀z😀w", 3, ["xy", "😀z", "😀w"]),
    ],
)
def test_words_are_cut_as_openclaw_cuts_them(markdown: str, limit: int, expected: list[str], dialect: str) -> None:
    found = texts(markdown, dialect, limit=limit, unit="utf16")
    assert found == expected if limit < 1000 else found == ["\n\n".join(expected)]


@pytest.mark.parametrize(
    ("markdown", "limit", "lines"),
    [
        (TALL, 2000, 12),
        (f"So:\n\n```js\n{TALL}\n```\n\nEnd.", 2000, 9),
        (f"```txt\n{'b' * 250}\n```", 55, 50),
        *[(f"so\n```lang\n```{'q' * size}", 2000, 100) for size in (1990, 1995, 2000)],
        *[(f"```{'n' * size}\none\ntwo\n```", 50, 50) for size in (40, 47, 50, 80)],
        (f"Thinking:\n_{TALL}_", 2000, 9),
    ],
)
def test_every_message_holds_whole_markup_and_few_lines_as_openclaws_does(
    markdown: str, limit: int, lines: int
) -> None:
    found = texts(markdown, "discord", limit=limit, unit="utf16", lines=lines)
    assert len(found) > 1 or len(markdown) < 2000
    for text in found:
        assert utf16(text) <= limit and text.count("\n") < lines and text.strip("`\n")
        assert text.count("```") % 2 == 0 and text.replace("\\*", "").count("*") % 2 == 0


def test_code_that_fits_is_not_cut_and_else_keeps_its_language_as_with_openclaw() -> None:
    whole = "```sh\nls\npwd\n```"
    assert whole in texts(f"{'u' * 65}\n\n{whole}\n\n{'v' * 50}", "discord", limit=40)
    for text in texts(f"```txt\n{'b' * 400}\n```", "discord", limit=90):
        assert text.startswith("```txt\nb") and text.endswith("b\n```")


@pytest.mark.parametrize(
    ("markdown", "limit", "mode", "expected"),
    [
        ("Listen (if you have the time) ok", 22, "length", ["Listen (if you have", "the time) ok"]),
        ("a\n\n\n\nb", 100, "newline", ["a\n\nb"]),
        ("a\n \nb", 100, "newline", ["a\n\nb"]),
        ("  lead\n\ntrail  ", 100, "newline", ["lead\n\ntrail"]),
        ("   ", 10, "length", []),
        ("some *italic words that go over* end", 20, "length", ["some *italic words*", "*that go over* end"]),
        ("_one two three four five six_", 20, "length", ["*one two three*", "*four five six*"]),
        (
            "**bold words that go over the border** x",
            20,
            "length",
            ["**bold words that**", "**go over the**", "**border** x"],
        ),
        ("a `code span that is long` b", 20, "length", ["a", "`code span that is`", "`long` b"]),
        ("~~~sh\nls\n~~~", 100, "length", ["```sh\nls\n```"]),
        ("````md\nx\n````", 100, "length", ["```md\nx\n```"]),
        ("red  blue\tgreen", 10, "length", ["red  blue", "green"]),
        ("    far in", 100, "length", ["```\nfar in\n```"]),
        ("ab cd。ef gh", 8, "length", ["ab cd。", "ef gh"]),
    ],
)
def test_where_openclaw_cuts_otherwise(markdown: str, limit: int, mode: str, expected: list[str]) -> None:
    assert texts(markdown, "discord", limit=limit, chunk_mode=mode) == expected


def test_nothing_heavy_is_imported_before_something_is_shown() -> None:
    code = "import sys, homarus.delivery.sender, homarus.delivery.blocks; print('markdown_it' in sys.modules, 'rich.cells' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    assert found.stdout.split() == ["False", "False"]
