"""Entity pages: made from facts, the same on every run, and never over what a person wrote."""

from __future__ import annotations

import os
import re
import threading

import pytest

from homarus.core.text import estimate_tokens
from homarus.memory.bank.grammar import Bullet
from homarus.memory.bank.pages import change
from homarus.memory.bank.reflect import reflect
from homarus.memory.bank.retain import retain

NOTE = """# 2026-06-01

## Retain
- W @Ada: Lives in Bergen with two cats.
- O(c=0.9) @Ada: Prefers tea over coffee.
- W(id=rent1) @Flat: The rent is 800 euros a month.
- W @{Mary Jane}: Works as a nurse in Oslo.
"""


def entities(memory):
    return [made for made in reflect(memory).pages if made.path.startswith("bank/entities/")]


def page(notes, name: str) -> str:
    return (notes.root / "bank" / "entities" / name).read_text()


def test_trap15_a_second_reflection_changes_nothing(notes):
    notes.write("memory/2026-06-01.md", NOTE)
    memory = notes.open()
    first = entities(memory)
    assert [(made.path, made.facts, made.changed) for made in first] == [
        ("bank/entities/ada.md", 2, True),
        ("bank/entities/flat.md", 1, True),
        ("bank/entities/mary-jane.md", 1, True),
    ]
    before = {path: path.read_bytes() for path in notes.root.rglob("*.md")}
    assert not reflect(memory).changed
    assert not reflect(notes.open()).changed
    assert {path: path.read_bytes() for path in notes.root.rglob("*.md")} == before
    assert "- Prefers tea over coffee. (c=0.90) (memory/2026-06-01.md#L5)" in page(notes, "ada.md")


def test_trap15_hand_edits_in_and_around_generated_regions_stay(notes):
    notes.write("memory/2026-06-01.md", NOTE)
    notes.write(
        "bank/entities/Ada-Lovelace.md", "---\nname: Ada Lovelace\naliases: [Ada]\n---\n\nMy words about her.\n"
    )
    memory = notes.open()
    reflect(memory)
    text = page(notes, "Ada-Lovelace.md")
    assert text.startswith("---\nname: Ada Lovelace\naliases: [Ada]\n---\n\nMy words about her.\n")
    assert not (notes.root / "bank" / "entities" / "ada.md").exists()
    edited = text.replace("Lives in Bergen with two cats.", "Lives in Bergen with three cats!", 1)
    notes.write("bank/entities/Ada-Lovelace.md", edited + "\nAnd a last word.\n")
    notes.write("memory/2026-06-02.md", "## Retain\n- W @Ada: Sold the piano to a neighbour.\n")
    (made,) = [made for made in reflect(memory).pages if made.name == "Ada-Lovelace"]
    assert made.kept == ("current",)
    after = page(notes, "Ada-Lovelace.md")
    assert "three cats!" in after
    assert after.endswith("And a last word.\n")
    assert after.count("Sold the piano") == 1  # in the timeline, which nobody edited


def test_what_was_replaced_is_not_current_but_in_the_timeline(notes):
    notes.write("memory/2026-06-01.md", NOTE)
    notes.write("memory/2026-07-01.md", "## Retain\n- W(sup=^rent1) @Flat: The rent is 900 euros a month.\n")
    reflect(notes.open())
    current, _, timeline = page(notes, "flat.md").partition("## Timeline")
    assert "900 euros" in current
    assert "800 euros" not in current
    assert timeline.index("### 2026-07") < timeline.index("900 euros") < timeline.index("800 euros")


def test_pages_stay_small(notes):
    for number in range(30):
        lines = "".join(f"- W @Ada: Fact number {number} {line} about the harbour.\n" for line in range(10))
        notes.write(f"memory/20{10 + number % 20}-0{1 + number % 9}-01.md", f"## Retain\n{lines}")
    reflect(notes.open())
    assert estimate_tokens(page(notes, "ada.md")) <= 1_200
    assert "older facts" in page(notes, "ada.md")
    shown = page(notes, "ada.md").partition("## Timeline")[2]
    folded = re.search(r"and (\d+) older facts", shown)
    assert folded and shown.count("\n- Fact number") + int(folded[1]) == 300, "each is shown or counted"


def test_a_dry_run_writes_nothing(notes):
    notes.write("memory/2026-06-01.md", NOTE)
    report = reflect(notes.open(), dry_run=True)
    assert report.pages
    assert all(made.changed for made in report.pages)
    assert "+- Prefers tea over coffee. (c=0.90) (memory/2026-06-01.md#L5)" in report.diff
    assert list((notes.root / "bank").rglob("*.md")) == []


def test_a_page_that_is_a_link_is_refused(notes, tmp_path):
    from homarus.storage.boundary import BoundaryError

    notes.write("memory/2026-06-01.md", NOTE)
    outside = tmp_path / "outside.md"
    outside.write_text("mine\n")
    (notes.root / "bank" / "entities").mkdir(parents=True)
    (notes.root / "bank" / "entities" / "ada.md").symlink_to(outside)
    with pytest.raises(BoundaryError):
        reflect(notes.open())
    assert outside.read_text() == "mine\n"


def test_facts_retained_at_once_are_all_kept(notes):
    day = notes.clock.now().date()
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait()
        for line in range(6):
            retain(notes.root, Bullet("world", f"Fact {number} {line} is kept for good."), day)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    text = (notes.root / "memory" / f"{day.isoformat()}.md").read_text()
    assert text.count("is kept for good.") == 48


def test_a_process_forked_while_a_fact_is_written_locks_nobody_out(notes):
    """A forked child holds a copy of every descriptor; a lock that only ends with its descriptor would last as long."""
    release, hold = os.pipe()
    child = []

    def fork(text: str) -> str:
        child.append(os.fork())
        if not child[0]:
            os.close(hold)
            os.read(release, 1)
            os._exit(0)
        return text + "- first\n"

    try:
        change(notes.root, "memory/a.md", fork)
        second = threading.Thread(target=change, args=(notes.root, "memory/a.md", lambda text: text + "- second\n"))
        second.daemon = True
        second.start()
        second.join(10)
        assert (notes.root / "memory" / "a.md").read_text() == "- first\n- second\n"
    finally:
        os.close(hold)
        os.waitpid(child[0], 0)
        os.close(release)


def test_a_page_begins_with_what_is_known_and_keeps_what_a_person_wrote_there(notes):
    notes.write("memory/2026-01-05.md", "## Retain\n- O @Ada: Prefers tea.\n")
    reflect(notes.open())
    assert page(notes, "ada.md").startswith(
        "---\nname: Ada\nkind: person\nfirst_seen: 2026-01-05\nlast_seen: 2026-01-05\nfacts: 1\n---\n\n# Ada\n"
    )
    place = notes.root / "bank/entities/ada.md"
    edited = (
        place.read_text().replace("kind: person", "kind: cat\naliases: [Addy]\ncolour: black").replace("facts: 1\n", "")
    )
    place.write_text(edited)
    notes.write("memory/2026-02-01.md", "## Retain\n- W @Ada: Sleeps on the sofa.\n")
    reflect(notes.open())
    assert page(notes, "ada.md").startswith(
        "---\nname: Ada\nkind: cat\naliases: [Addy]\ncolour: black\nfirst_seen: 2026-01-05\nlast_seen: 2026-02-01\n---\n"
    )


def test_a_page_of_an_earlier_version_is_completed(notes):
    notes.write("bank/entities/ada.md", "---\nname: Ada\n---\n\n# Ada\n")
    notes.write("memory/2026-01-05.md", "## Retain\n- W @Ada: Sleeps on the sofa.\n")
    reflect(notes.open())
    assert page(notes, "ada.md").startswith("---\nname: Ada\nkind: unknown\nfirst_seen: 2026-01-05\n")


def test_what_a_later_line_may_have_changed_is_in_doubt_until_somebody_says_it_clearly(notes):
    notes.write("memory/2026-01-05.md", "- Ada prefers tea.\n- Met Ada at noon.\n- With Ada to the station.\n")
    notes.write("memory/2026-02-01.md", "- Out of tea came coffee for Ada.\n")
    reflect(notes.open())
    opinions = (notes.root / "bank/opinions.md").read_text()
    assert "## Held" not in opinions and "## In doubt" in opinions and "memory/2026-02-01.md#L1" in opinions
    assert "; in doubt since memory/2026-02-01.md#L1" in page(notes, "ada.md")
    notes.write("memory/2026-03-01.md", "- Ada prefers coffee.\n")
    reflect(notes.open())
    held, _, gone = (notes.root / "bank/opinions.md").read_text().partition("## Superseded")
    assert "Ada prefers coffee" in held and "Ada prefers tea" in gone and "In doubt" not in held
