from hypothesis import given
from hypothesis import strategies as st

from homarus.core.text import escape_xml, estimate_tokens, fold, human_bytes, printable, single_line, slug


@given(st.text(), st.integers(1, 400))
def test_single_line_never_exceeds_its_limit_nor_breaks_a_line(text: str, limit: int) -> None:
    line = single_line(text, limit)
    assert len(line) <= limit
    assert not any(char in line for char in "\n\r\t\x00\x1b\u2028\u2029\u202e")


def test_single_line_marks_a_cut() -> None:
    assert single_line("a\n b\x1b[31m   c") == "a b [31m c"
    assert single_line("abcdef", 4) == "abc…"


@given(st.text())
def test_printable_keeps_lines_and_drops_what_moves_a_cursor(text: str) -> None:
    clean = printable(text)
    assert "\x1b" not in clean
    assert "\r" not in clean
    assert printable(clean) == clean


@given(st.text())
def test_escaped_text_holds_no_markup(text: str) -> None:
    assert not set('<>"') & set(escape_xml(text))


def test_tokens_are_counted_by_script() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("abcd") == 1
    assert estimate_tokens("abcde") == 2
    assert estimate_tokens("記憶") == 2
    assert estimate_tokens("메모") == 2


def test_fold_and_slug() -> None:
    assert fold("Ærø Façade") == "ærø facade"
    assert slug("  Größe & Maß!  ") == "grosse-mass"
    assert slug("a" * 80) == "a" * 64
    assert slug("!!!") == ""


def test_sizes_read_like_speech() -> None:
    assert [human_bytes(n) for n in (0, 999, 1500, 15_000, 3_200_000, 4e12)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "15 kB",
        "3.2 MB",
        "4.0 TB",
    ]
