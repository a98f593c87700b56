"""Words in pieces: the longest known parts, the same as the model's own tokenizer makes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.notebook.pieces import is_word, pieces, vocabulary

NAMES = {number: piece for piece, number in vocabulary().items()}


def spelt(text):
    return [NAMES[number] for number in pieces(text)]


def test_common_words_are_whole_and_others_in_parts():
    assert spelt("The key, please!") == ["the", "key", ",", "please", "!"]
    assert "".join(spelt("Kompressionsstrumpf")).replace("##", "") == "kompressionsstrumpf"
    assert len(spelt("Kompressionsstrumpf")) > 1


def test_accents_and_capitals_do_not_count():
    assert spelt("Café") == spelt("cafe")


def test_what_is_in_no_piece_is_left_out():
    assert spelt("漢 key \x00 😀") == ["key"]
    assert pieces("") == ()


def test_a_word_of_another_language_is_none():
    assert is_word("key")
    assert not is_word("schlüssel")


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=40))
def test_the_pieces_of_a_word_spell_it(word):
    found = spelt(word)
    assert not found or "".join(found).replace("##", "") == word
    assert not any(piece.startswith("##") for piece in found[:1])


def test_as_the_models_own_tokenizer(tmp_path):
    """Where it is installed: the small reader learnt from what MiniLM sees, so both must cut alike."""
    tokenizers = pytest.importorskip("tokenizers")
    words = vocabulary() | {"[UNK]": 0}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(words, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    for text in ("My sister's cat, 12.5 kg!", "Rückruf Dr. Ünal (0171-555 2)", "e-mail: a@b.de", "unbelievably rude"):
        assert list(pieces(text)) == made.encode(text).ids
