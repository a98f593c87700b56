from __future__ import annotations

import json

import pytest

from homarus.core.errors import ConfigError
from homarus.memory.evaluate import load, recall_within, run
from homarus.memory.results import Hit


def hit(first, last):
    return Hit(path="a.md", start_line=first, end_line=last, score=1, text="")


def test_every_returned_line_is_paid_for_in_order():
    files = {"a.md": ["x" * 39] * 10}  # ten tokens a line
    evidence = frozenset({("a.md", 1), ("a.md", 5)})
    assert recall_within([hit(1, 1), hit(5, 5)], evidence, files, 20) == 1.0
    assert recall_within([hit(1, 1), hit(5, 5)], evidence, files, 19) == 0.5
    assert recall_within([hit(2, 4), hit(5, 5)], evidence, files, 30) == 0.0
    assert recall_within([hit(1, 99)], evidence, files, 1000) == 1.0


def test_locomo_format(tmp_path):
    data = [
        {
            "sample_id": "c",
            "conversation": {
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": [
                    {"speaker": "Ann", "dia_id": "D1:01", "text": "I bought  a kite", "blip_caption": "a red kite"},
                    {"speaker": "Bo", "dia_id": "D1:2", "text": "Nice"},
                ],
                "session_2_date_time": "9:00 am on 8 May, 2023",
                "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "Earlier that day"}],
            },
            "qa": [
                {"question": "What did Ann buy?", "category": 4, "evidence": ["D1:1"]},
                {"question": "adversarial", "category": 5, "evidence": ["D1:1"]},
                {"question": "nothing to find", "category": 1, "evidence": ["D9:9"]},
            ],
        }
    ]
    path = tmp_path / "data.json"
    path.write_text(json.dumps(data))
    (book,) = load(path)
    assert book.files == {
        "memory/2023-05-08.md": [
            "# 2023-05-08",
            "",
            "## Session 2 (09:00)",
            "- Ann: Earlier that day",
            "",
            "## Session 1 (13:56)",
            "- Ann: I bought a kite [image: a red kite]",
            "- Bo: Nice",
        ]
    }
    assert [(q.text, q.group, set(q.evidence)) for q in book.questions] == [
        ("What did Ann buy?", "single-hop", {("memory/2023-05-08.md", 7)})
    ]
    scores = run(path, provider="none")
    assert scores["groups"]["all"]["recall@500tok"] == 1.0
    assert scores["groups"]["all"]["mrr"] == 1.0


@pytest.mark.parametrize("text", ["{", "{}", "[1]"])
def test_other_files_are_refused_with_a_cure(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="LoCoMo"):
        load(path)


def test_our_own_notes_are_answered():
    """The floor holds for kinds of notes that no weight was fitted on."""
    scores = run(provider="none")["groups"]
    assert scores["all"]["recall@500tok"] >= 0.85
    assert scores["all"]["recall@1000tok"] >= 0.9
    assert scores["code"]["mrr"] == 1.0
