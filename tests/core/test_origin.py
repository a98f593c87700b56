from hypothesis import given
from hypothesis import strategies as st

from homarus.core.origin import mark_new_lines, take_origin

LINES = st.lists(
    st.sampled_from(["- a fact", "# Head", "---", "```python", "", "  ", "owner's own", "é line\r"]), max_size=8
)


@given(LINES, LINES)
def test_every_new_line_with_words_is_marked_and_nothing_else_changes(old: list[str], new: list[str]) -> None:
    before, after = "\n".join(old), "\n".join(new)
    marked = mark_new_lines(before, after, ("web_fetch",))
    assert take_origin(marked)[0].replace("\r", "") == after.replace("\r", "")
    for line, was in zip(marked.split("\n"), new, strict=True) if new else ():
        expected = was.strip() not in {"", "---", "```python"} and was.rstrip("\r") not in before.splitlines()
        assert take_origin(line)[1] == (("web_fetch",) if expected else ())
    assert mark_new_lines(marked, marked, ("other",)) == marked
