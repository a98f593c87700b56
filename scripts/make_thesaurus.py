"""Make the notebook's table of words of `thesaurus.txt`: `python scripts/make_thesaurus.py` after every edit of it. A test compares the two."""

from __future__ import annotations

from pathlib import Path

import msgspec

from homarus.models.notebook import language
from homarus.models.notebook.language import Thesaurus, stem

HERE = Path(language.__file__).parent
MARKS = "~&^!$ "


def thesaurus(text: str) -> Thesaurus:
    """Read the table: one idea a line, its words as stems, both as they are written inside a sentence and with a capital."""
    made = Thesaurus({}, {}, {}, {}, {}, set(), set(), set(), set(), set(), {})
    marks = {"~": made.light, "&": made.kin, "^": made.verbs, "!": made.hard, "$": made.traits}
    phrases: dict[str, dict[tuple[str, ...], None]] = {}

    def keys(entry: str) -> set[str]:
        forms = {tuple(stem(part) for part in form.split("_")) for form in (entry, entry.capitalize())}
        for parts in forms:
            if len(parts) > 1:
                phrases.setdefault(parts[0], {})[parts] = None
        return {" ".join(parts) for parts in forms}

    rows = [row for line in text.splitlines() if line and line[0] != "#" for row in _rows(line)]
    for idea, row in enumerate(rows):
        heads, _, members = row.lstrip(MARKS).partition("<")
        for mark in row[: len(row) - len(row.lstrip(MARKS))].replace(" ", ""):
            marks[mark].add(idea)
        spelled = [entry.replace("_", " ") for entry in (members or heads).split() if entry[0] != "@"]
        made.spelled[idea] = ",".join(spelled)
        for entry in heads.split():
            # The heads of a line with members are what is asked for; they need not mean the same.
            for key in keys(entry):
                (made.asks if members else made.ideas).setdefault(key, set()).add(idea)
        for entry in members.split():
            if entry.startswith("@"):
                made.values.setdefault(idea, set()).add(entry)
            else:
                for key in keys(entry):
                    made.answers.setdefault(key, set()).add(idea)
    made.phrases = {first: tuple(sorted(found, key=lambda one: (-len(one), one))) for first, found in phrases.items()}
    return made


def _rows(line: str) -> list[str]:
    return [pair.replace("=", " ") for pair in line.split()] if "=" in line else [line]


def encoded(table: Thesaurus) -> bytes:
    plain = msgspec.to_builtins(table, str_keys=True, order="deterministic")
    return msgspec.json.encode(plain, order="deterministic") + b"\n"


if __name__ == "__main__":
    made = encoded(thesaurus((HERE / "thesaurus.txt").read_text(encoding="utf-8")))
    (HERE / "thesaurus.json").write_bytes(made)
    print(f"thesaurus.json: {len(made):,} bytes")
