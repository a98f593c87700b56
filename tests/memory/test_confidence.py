"""Whether the notes answer a question at all, and whole passages where a question wants them."""

from __future__ import annotations

from bench.memory.updates import asked_and_not, separation

from homarus.memory import toolset
from homarus.memory.evaluate import Notebook, write
from homarus.memory.results import UNKNOWN


def test_what_is_not_in_the_notes_is_told_from_what_is(notes):
    files, known, unknown = asked_and_not()
    write(Notebook("asked", files, []), notes.root)
    memory = notes.open()
    sure = [memory.recall(text).confidence for text in known]
    unsure = [memory.recall(text).confidence for text in unknown]
    assert len(known) >= 200 and len(unknown) >= 100
    assert separation(sure, unsure) >= 0.75
    right = sum(value >= UNKNOWN for value in sure) / len(sure) + sum(value < UNKNOWN for value in unsure) / len(unsure)
    assert right / 2 >= 0.7, "at the threshold that other notes gave"


def test_the_verdict_is_told_to_the_model(notes):
    notes.write("memory/2026-01-02.md", "- Greta's dentist is Dr. Bauer.\n")
    notes.write("memory/2026-01-03.md", "- Jonas has a new bike.\n")
    memory = notes.open()
    assert toolset.recall(memory, {"query": "Who is Greta's dentist?"})["verdict"] == "known"
    assert toolset.recall(memory, {"query": "Who is the dentist of Jonas?"})["verdict"] == "unknown"
    assert toolset.search(memory, {"query": "zebra crossing"})["verdict"] == "unknown"


def test_a_thing_of_the_kind_asked_for_is_an_answer(notes):
    notes.write("memory/2026-01-02.md", "- Greta takes coffee these days.\n- Jonas has a new bike.\n")
    memory = notes.open()
    assert memory.recall("what does Greta drink").verdict == "known"
    assert memory.recall("what does Jonas drink").verdict == "unknown"
    assert memory.recall("what did Greta drink at the wedding in Lisbon").verdict == "unknown"


def test_a_summary_gets_whole_passages(notes):
    talk = [f"- Point {at}: the committee went on to something else entirely." for at in range(60)]
    talk[20:28] = [
        "- Ines: let us look at the harbour bridge.",
        "- Omar: the estimate is too low.",
        "- Ines: by how much?",
        "- Omar: a third, because of steel.",
        "- Ines: then we ask the council again.",
        "- Omar: only after the harbour bridge survey.",
        "- Ines: agreed, in May.",
        "- Omar: I will write to them.",
    ]
    notes.write("memory/2026-02-03.md", "# Meeting\n" + "\n".join(talk) + "\n")
    memory = notes.open()
    answer = memory.recall("Summarize the discussion about the harbour bridge", budget_tokens=300)
    shown = "\n".join(hit.text for hit in answer)
    assert all(piece in shown for piece in ("too low", "because of steel", "council again", "in May"))
    assert sum(hit.tokens for hit in answer) <= 300
    assert answer.tokens <= 300
