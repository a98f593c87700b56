"""The notebook's table of words is what its text says."""

from pathlib import Path

from homarus.models.notebook import language

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_was_made_of_the_text_as_it_is() -> None:
    script = (ROOT / "scripts" / "make_thesaurus.py").read_text(encoding="utf-8")
    space: dict[str, object] = {"__name__": "made"}
    exec(compile(script, "make_thesaurus.py", "exec"), space)
    text = Path(language.__file__).with_name("thesaurus.txt").read_text(encoding="utf-8")
    made = space["thesaurus"](text)  # type: ignore[operator]
    assert made == language.thesaurus(), "run scripts/make_thesaurus.py"


def test_its_values_are_ones_that_lines_are_read_for() -> None:
    table = language.thesaurus()
    assert {value for found in table.values.values() for value in found} <= language.VALUES.keys() | {"@name"}
