from homarus.core.prompt import BOUNDARY, SystemPrompt


def test_text_joins_both_parts_without_the_marker():
    prompt = SystemPrompt("stable", "session")
    assert prompt.text == "stable\n\nsession"
    assert BOUNDARY not in prompt.text


def test_an_absent_session_part_leaves_no_trace():
    assert SystemPrompt("stable").text == "stable"


def test_the_marker_stands_on_a_line_of_its_own_between_the_parts():
    assert SystemPrompt("stable", "session").with_boundary == f"stable\n{BOUNDARY}\nsession"
    assert SystemPrompt("stable").with_boundary == f"stable\n{BOUNDARY}"
