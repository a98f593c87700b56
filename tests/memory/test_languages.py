"""A word that stands in a note is found by typing it, in whatever script, case or normal form."""

from __future__ import annotations

import sqlite3
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.schema import SCHEMA
from homarus.memory.terms import match_expression, plain, query_terms, search_text, words

SENTENCES = {
    "English": "Grandmother's recipe for Naïve café pancakes",
    "German": "Die Straßenbahn hält vor dem größten Weißbierkeller Süddeutschlands",
    "French": "L'été dernier, ma sœur a goûté l'œuvre de l'hôtelier à Besançon",
    "Spanish": "El niño pequeño desayunó piñas y jalapeños mañana",
    "Portuguese": "Amanhã João não irá à reunião das opções",
    "Polish": "Łódź leży daleko od Gdańska, źdźbło trawy żółknie",
    "Czech": "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "Danish": "Rødgrød med fløde på ærø, ålen æder",
    "Icelandic": "Þórður borðaði þorramat í Hafnarfirði",
    "Turkish": "Işık Irmağı İstanbul'da ığdır şehrinde çağlıyor",
    "Vietnamese": "Nguyễn Thị Phượng đến Đà Nẵng uống cà phê sữa đá",
    "Greek": "Ο γιατρός είπε ότι η Ελένη χρειάζεται καινούργια γυαλιά ΐσως ΌΧΙ",
    "Russian": "Ёлка стоит в моей новой квартире, йогурт в холодильнике",
    "Ukrainian": "П'ять їжаків їдять ґрунтові яблука щодня",
    "Hebrew": "הרופא אמר שהפגישה תתקיים בירושלים בשעה שלוש",
    "Pointed Hebrew": "שָׁלוֹם לְכֻלָּם",
    "Arabic": "الطبيب أخبر إبراهيم آخر الأسبوع عن مؤتمر القاهرة رئيس",
    "Pointed Arabic": "كِتَابٌ مُفِيدٌ",
    "Persian": "کتابخانه می‌خواهم یک گربه بگیرم",
    "Hindi": "मेरी दादी हिन्दी में कहानियाँ सुनाती थीं।",
    "Bengali": "আমার ঠাকুমা বাংলায় গল্প বলতেন",
    "Tamil": "என் பாட்டி தமிழில் கதைகள் சொல்வார்",
    "Thai": "คุณยายชอบดื่มกาแฟร้อนทุกเช้า",
    "Khmer": "ខ្ញុំចូលចិត្តញ៉ាំបាយ",
    "Korean": "할머니는 부산에서 김치를 담그셨다",
    "Japanese": "祖母は京都でパンとｶﾞﾗｽを買った",
    "Chinese": "我的祖母住在北京西边的胡同里",
    "Full width": "Ｐｒｏｊｅｃｔ Ｈｏｒｉｚｏｎ １２３４",
    "Georgian": "ბებია თბილისში ცხოვრობს",
    "Armenian": "Տատիկը Երևանում է ապրում",
    "Amharic": "አያቴ በአዲስ አበባ ትኖራለች",
}
# Words that stand inside a run without spaces.
INSIDE = {
    "Thai": ["กาแฟ", "เช้า", "ยาย"],
    "Khmer": ["បាយ"],
    "Chinese": ["北京", "胡同"],
    "Japanese": ["京都", "ガラス", "パン"],
}


def typed(sentence: str) -> list[str]:
    return [word.strip(",.।") for word in sentence.split() if len(word.strip(",.।")) > 1]


@pytest.mark.parametrize("language", SENTENCES)
def test_every_word_is_found_as_it_is_typed(notes, language):
    # Each sentence in a note of its own, so that only its words tell which one is meant.
    for name, sentence in SENTENCES.items():
        notes.write(f"memory/{name}.md", f"- {sentence}\n")
    memory = notes.open()
    own = f"memory/{language}.md"
    for word in typed(SENTENCES[language]) + INSIDE.get(language, []):
        forms = {
            word,
            word.upper(),
            word.lower(),
            unicodedata.normalize("NFD", word),
            unicodedata.normalize("NFKC", word),
        }
        for form in forms:
            assert own in [hit.path for hit in memory.search(form)], (form, query_terms(form))


def test_an_index_of_another_folding_is_built_anew_by_itself(notes):
    notes.write("memory/a.md", "Die Straßenbahn hält.\n")
    notes.open().sync()
    path = notes.root / ".memory" / "index.sqlite"
    for memory in notes.opened:
        memory.close()
    old = sqlite3.connect(path)
    old.execute("PRAGMA user_version = 10")
    old.execute("DELETE FROM lines")
    old.commit()
    old.close()
    assert notes.open().search("STRASSENBAHN")[0].citation == "memory/a.md#L1"


@given(st.text(st.characters(categories=["L", "N", "M", "P", "Z", "Cf"]), max_size=30))
def test_what_a_question_looks_up_is_what_the_index_holds(text):
    conn = sqlite3.connect(":memory:")
    conn.executescript(SCHEMA)
    conn.execute("INSERT INTO lines_fts(rowid, text) VALUES(1, ?)", (search_text(text),))
    for term in query_terms(text):
        rows = conn.execute("SELECT rowid FROM lines_fts WHERE lines_fts MATCH ?", (match_expression(term),)).fetchall()
        assert rows == [(1,)], term
    conn.close()


@given(st.text(max_size=30))
def test_folding_twice_changes_nothing(text):
    assert plain(plain(text)) == plain(text)


def test_letters_stay_letters_and_accents_go():
    assert words("Łódź Straße œuvre ISIK ışık") == ["lodz", "strasse", "oeuvre", "isik", "isik"]
    assert words("мой йогурт и ёлка") == ["мой", "йогурт", "и", "елка"]
    assert words("l'été aujourd’hui don't Anna's O'Brien") == [
        "l",
        "ete",
        "aujourd",
        "hui",
        "don",
        "anna",
        "o",
        "brien",
    ]
    assert words("हिन्दी में।") == ["हिन्दी", "में"]


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("Она прочитала интересную книгу о море.", "интересная книгами"),
        ("Η γιατρός δουλεύει στο νοσοκομείο.", "νοσοκομείων"),
        ("زار أحمد المدرسة القديمة.", "مدرسة"),
        ("ذهبت إلى مكتبة جديدة.", "المكتبة"),
        ("Die Versicherungen wurden gekündigt.", "Versicherung"),
    ],
)
def test_other_forms_of_a_word_are_found(notes, line, asked):
    notes.write("memory/a.md", f"- {line}\n")
    notes.write("memory/b.md", "- Something else entirely, about boats.\n")
    assert [hit.path for hit in notes.open().search(asked)][:1] == ["memory/a.md"]


@pytest.mark.parametrize(
    ("question", "line", "word"),
    [
        ("Wann öffnet die Bibliothek?", "Die Universitätsbibliothek hat ab neun Uhr Einlass.", "bibliothek"),
        ("Wer kennt unseren Nachbarn?", "Die Nachbarin verreist im Mai.", "nachbarn"),
        ("Mehmet hangi kitaplarını kaybetti?", "Kitabı yok, ama kitapları rafta duruyor.", "kitaplarını"),
    ],
)
def test_endings_and_compounds_of_other_languages_count_for_the_word(notes, question, line, word):
    notes.write("memory/a.md", f"- {line}\n- Sonst nichts.\n")
    memory = notes.open()
    assert (plain(word), True) in {(term, here) for term, _, here in memory.explain(question, "memory/a.md#L1").terms}


def test_a_question_in_english_looks_for_no_compounds(notes):
    notes.write("memory/a.md", "- Overcoats are expensive.\n- The coats hang in the hall.\n")
    found = notes.open().explain("Where do the coats hang?", "memory/a.md#L1")
    assert ("coats", 1, False) in found.terms
