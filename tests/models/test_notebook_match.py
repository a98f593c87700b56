"""What speaks for a line as an answer: whose name it holds, where that stands, and what form a value has."""

from __future__ import annotations

import pytest

from homarus.models.notebook.language import read
from homarus.models.notebook.match import matches, nearness


def lacks(question: str, line: str) -> float:
    """Return how far the line is without the kind of value that the question wants."""
    return matches(read(question), [(line, read(line))], {})[0].no_value


@pytest.mark.parametrize(
    ("question", "answers", "speaks_of_it"),
    [
        ("What is the cat called?", "Our cat is called Minka.", "The cat sitter is Mrs. Okonjo."),
        ("What are the dogs called?", "The dogs, Rex and Bella, bark.", "We sleep at Ida's in Glasgow, she has two dogs."),
        ("Wie heißt der Wirt?", "Der Wirt heißt Sepp.", "Das Treffen mit Hans ist beim alten Wirt."),
        ("Who is Bukola marrying?", "Bukola marries Tunde in July.", "Bukola is getting married in Lagos."),
        ("How long is the dinghy?", "The dinghy is 3.2 m.", "The rent of the dinghy is paid till March."),
        ("What is Greta charging us?", "Greta wants 40 euros.", "Greta wants the files soon."),
        ("Um wie viel Uhr ist Probe?", "Probe ab halb acht.", "Probe mit 30 Leuten."),
        ("Wann ist der Laden zu?", "Der Laden ist zu bis Aschermittwoch.", "Der Laden ist zu."),
        ("How old is Oma?", "Oma is eighty.", "Oma is tired."),
    ],
)  # fmt: skip
def test_a_line_about_the_matter_without_the_value_is_behind_one_that_has_it(
    question: str, answers: str, speaks_of_it: str
):
    assert lacks(question, answers) == 0.0
    assert lacks(question, speaks_of_it) >= 0.5


def test_how_many_is_no_sum_and_a_hyphen_no_difference():
    assert read("Wie viele Gäste kommen?").wanted == ("@number",)
    assert {word.stem for word in read("X-rays").words} & {word.stem for word in read("Xray").words}


def test_words_in_common_count_only_so_far():
    line = "The blue kitchen table from Leeds with the oak drawers costs much."
    found = matches(read("Which blue kitchen table with oak drawers from Leeds costs much?"), [(line, read(line))], {})
    assert found[0].found <= 2.0
    assert found[0].lead <= 1.0


def test_nearness_tells_the_question_without_its_names_apart():
    first, second = nearness([(0.6, 0.2), (0.4, 0.3)])
    assert (first.cosine, first.bare, first.gap) == (0.6, 0.2, 0.0)
    assert (second.bare, second.lead) == (0.3, 0.0)
    assert first.lead == pytest.approx(0.2)
