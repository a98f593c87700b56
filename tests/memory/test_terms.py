from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.schema import TOKENIZER
from homarus.memory.terms import content_words, forms, match_expression, measure, query_terms, search_text, slips, words


def test_words_are_folded_and_lose_possessives():
    assert words("Zoë's CAFÉ, naïve_plan") == ["zoe", "cafe", "naive", "plan"]
    assert words("don’t") == ["don"]


def test_stop_words_go_unless_nothing_is_left():
    assert content_words("What did she do with the boat?") == ["boat"]
    assert content_words("who are you") == ["who", "are", "you"]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("猫", ["猫"]),
        ("昨日 meeting の話", ["昨日", "meeting", "の話"]),
        ("", []),
        ("?! --", []),
    ],
)
def test_query_terms(text, terms):
    assert query_terms(text) == terms


def test_irregular_forms_belong_together():
    assert set(forms("went")) == {"go", "went", "gone"}
    assert forms("boat") == ("boat",)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("writing", "wrote"),
        ("runs", "ran"),
        ("running", "ran"),
        ("drawings", "drew"),
        ("colour", "color"),
        ("two", "2"),
    ],
)
def test_regular_forms_of_irregular_words_and_other_spellings_belong_to_them(asked, told):
    assert told in forms(asked)


def test_a_slip_is_a_letter_too_many_one_too_few_or_two_swapped():
    assert {"dentist", "reward"} & set(slips("dentsit")) == {"dentist"}
    assert "tournament" in slips("tournamnt")
    assert "tournament" in slips("tournamment")
    assert "reward" not in slips("regard")
    assert "regard" not in slips("regard")


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("We call getUserName twice", "user name"),
        ("HTTPServer settings", "server"),
        ("ticket ABC123 is open", "abc 123"),
        ("run fix_login_bug now", "login bug"),
        ("see src/app/main.py", "main.py"),
        ("東京タワーに行った", "東京"),
        ("猫が好き", "猫"),
        ("한국어 문장입니다", "문장"),
        ("Crème brûlée im Café", "creme cafe"),
        ("I went swimming", "go swim"),
        ("she bought shoes", "buy shoe"),
    ],
)
def test_what_is_written_is_found(line, query):
    conn = sqlite3.connect(":memory:")
    conn.execute(f"CREATE VIRTUAL TABLE t USING fts5(text, detail=none, tokenize='{TOKENIZER}')")
    conn.execute("INSERT INTO t VALUES(?)", (search_text(line),))
    for term in query_terms(query):
        found = conn.execute("SELECT count(*) FROM t WHERE t MATCH ?", (match_expression(term),)).fetchone()[0]
        assert found == 1, term
    conn.close()


def test_plain_english_is_indexed_as_it_stands():
    assert search_text("Nothing special here.") == "Nothing special here."


@pytest.mark.parametrize("word", ["and", "or", "near", "not", "*", '"', "a b", "-", "NEAR(", "col:"])
def test_no_word_is_an_operator(word):
    conn = sqlite3.connect(":memory:")
    conn.execute("CREATE VIRTUAL TABLE t USING fts5(text)")
    conn.execute("SELECT count(*) FROM t WHERE t MATCH ?", (match_expression(word),)).fetchone()
    conn.close()


@given(st.text(max_size=200))
def test_any_text_gives_terms_that_can_be_looked_up(text):
    conn = sqlite3.connect(":memory:")
    conn.execute(f"CREATE VIRTUAL TABLE t USING fts5(text, tokenize='{TOKENIZER}')")
    conn.execute("INSERT INTO t VALUES(?)", (search_text(text).encode("utf-8", "replace").decode(),))
    for term in query_terms(text):
        safe = term.encode("utf-8", "replace").decode()
        conn.execute("SELECT count(*) FROM t WHERE t MATCH ?", (match_expression(safe),)).fetchone()
    assert measure(text) >= 1
    conn.close()
