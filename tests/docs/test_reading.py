"""The list of files behind one turn is short, complete, and true: a traced turn enters every file of it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.scenarios.test_hops import SOURCE, Trace, trace

ROOT = Path(__file__).resolve().parent.parent.parent
# A turn's own packages: a file of these that a turn enters is on the page.
OWN = ("runtime/", "agent/", "queue/")
assert trace  # the fixture, by its name


def tables() -> tuple[list[str], list[str]]:
    """Return the files to read, and those that a turn enters as well."""
    first, second = (ROOT / "docs/reading.md").read_text().split("A turn also enters")
    found = [re.findall(r"^\| `([\w/]+\.py)` \| \S", part, re.MULTILINE) for part in (first, second)]
    return found[0], found[1]


def test_a_turn_can_be_read_in_an_evening() -> None:
    files, _ = tables()
    assert len(files) == len(set(files)) <= 35
    assert sum(Path(SOURCE, name).read_text().count("\n") for name in files) <= 6_000


def test_the_list_and_a_turn_are_in_step(trace: Trace) -> None:  # noqa: F811
    files, others = tables()
    entered = {callee for _, callee, _ in trace.calls}
    assert [name for name in [*files, *others] if name not in entered and "core/" not in name] == []
    assert sorted(name for name in entered if name.startswith(OWN) and name not in {*files, *others}) == []
