"""The bank as a whole: a year of notes with known truth, the same bytes again and again, and what people decide about facts."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, date, datetime, timedelta

import pytest
from bench.memory.year import CHANGED, FRESH, STATED, Preference, values, year
from hypothesis import given, settings
from hypothesis import strategies as st

from homarus.core.clock import ManualClock
from homarus.core.errors import ToolError
from homarus.memory import Memory, toolset
from homarus.memory.bank.categories import categories_of
from homarus.memory.bank.claims import UNREAD
from homarus.memory.bank.facts import Fact
from homarus.memory.bank.journal import runs, undo
from homarus.memory.bank.promote import mark, promote, proposals
from homarus.memory.bank.reflect import reflect
from homarus.memory.evaluate import Notebook, write
from homarus.memory.results import parse_citation
from homarus.memory.terms import plain, stem, words

DECEMBER = date(2025, 12, 31)


def bank(root) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted((root / "bank").rglob("*.md"))}


def preferred(preference: Preference, facts: list[Fact]) -> set[str]:
    """Return the values of a domain that these facts give somebody."""
    of_domain = {stem(plain(value)) for value in values(preference.domain)}
    about = [fact for fact in facts if plain(preference.name) in fact.entities]
    said = [claim for fact in about for claim in fact.claims if not claim.against and claim.predicate != UNREAD]
    return {value for claim in said for value in claim.value & of_domain}


@pytest.fixture(scope="module", params=[0, 1, 2, FRESH], ids=["wordings", "kept-back", "unseen", "fresh"])
def home(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("year")
    files, truth = year(part=request.param)
    write(Notebook("year", files, []), root)
    with Memory.open(root, provider="none") as memory:
        reflect(memory)
        yield root, memory, truth


def test_a_year_has_many_wordings_and_things_that_only_look_like_a_preference():
    files, _ = year()
    assert sum(len(lines) - 2 for lines in files.values()) == 3_000
    assert all(len(set(ways)) == 16 for table in (STATED, CHANGED) for ways in table.values())
    assert any("spilled tea" in line or "spilled coffee" in line for lines in files.values() for line in lines)


def test_what_is_preferred_now_and_on_any_day(home):
    _, memory, truth = home
    known = memory.knowledge()
    assert (len(truth), sum(len(one.history) > 1 for one in truth)) == (120, 40)
    held = [fact for fact in known.facts if fact.holds]
    now = [preferred(one, held) == {stem(plain(one.on(DECEMBER) or ""))} for one in truth]
    assert sum(now) / len(now) >= 0.95
    then = [
        preferred(one, known.as_of(day.toordinal())) == {stem(plain(one.on(day) or ""))}
        for one in truth
        for day in (since + timedelta(days=45) for since, _ in one.history)
    ]
    assert sum(then) / len(then) >= 0.95


def test_no_retired_opinion_is_shown_as_held(home):
    root, memory, truth = home
    held = re.split(r"^## (?:In doubt|Superseded)$", (root / "bank" / "opinions.md").read_text(), flags=re.MULTILINE)[0]
    gone = [f for f in memory.knowledge().facts if (f.replaced_by or f.doubted_by) and f.kind == "opinion"]
    assert len(gone) >= 80
    for fact in gone:
        assert f"@{fact.entities[0]}: {fact.text} [" not in held
    wrong = [
        one for one in truth if any(shows(line, one) for line in held.splitlines())
    ]  # by what is true, not by what we found
    assert not wrong


def shows(line: str, one: Preference) -> bool:
    """Say whether a line gives somebody a value that was given up."""
    said = {stem(word) for word in words(line.partition(":")[2])} if f"@{plain(one.name)}:" in line else set()
    old, new = {stem(plain(value)) for _, value in one.history[:-1]}, stem(plain(one.history[-1][1]))
    return bool(old & said) and new not in said


def test_every_line_cites_a_line_that_says_so(home):
    root, _, _ = home
    checked = 0
    for path, data in bank(root).items():
        for line in data.decode().splitlines():
            cited = re.findall(r"\(([^()]*#L[^()]*)\)", line)
            text = re.sub(r"^- (?:\[ \] `\w+` |O\([^)]*\) @\S+: )?", "", line)
            text = re.split(r" \(inferred\)| \(c=| \[\+| \(memory/", text)[0]
            places = [place for citation in cited for place in citation.split(", ")]
            said = [lines_of(root, place) for place in places]
            assert places or not line.startswith("- ") or re.search(r"older|together|may be", line), (path, line)
            if "[+" not in line:
                assert all(text in one for one in said), (line, said)
            else:  # an opinion: somebody said it so, and whatever else is cited speaks of the same person and kind of thing
                who = line.split("@")[1].partition(":")[0]
                assert all(who in plain(one) for one in said), (line, said)
                about = kinds(text)
                assert all(about & kinds(one) for one in said), (line, said)
            checked += len(places)
    assert checked > 500


def lines_of(root, citation: str) -> str:
    note, number, _ = parse_citation(citation)
    return (root / note).read_text().splitlines()[(number or 0) - 1]


def kinds(text: str) -> set[str]:
    return {kind for word in words(text) for kind in categories_of(word)}


def test_a_bank_that_was_deleted_comes_back_byte_for_byte(home):
    root, memory, _ = home
    before = bank(root)
    assert not reflect(memory).changed
    shutil.rmtree(root / "bank")
    memory.close()
    shutil.rmtree(root / ".memory")
    with Memory.open(root, provider="none") as again:
        reflect(again)
    assert bank(root) == before


LINES = st.sampled_from(
    [
        "- Ada prefers tea.",
        "- Ada now prefers coffee.",
        "- Ada lives in Bergen.",
        "- Ada has moved to Oslo.",
        "- Otto's dentist is Dr. Bauer.",
        "## Retain\n- O(c=0.9) @Ada: Prefers long walks in the rain.\n- O @Ada: No longer likes long walks in the rain.",
        "## Retain\n- W(t=2025-11) @{Mary Jane}: Was in Marrakech.",
        "Nothing of interest.",
    ]
)


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(st.integers(1, 28), st.lists(LINES, min_size=1, max_size=4), min_size=1, max_size=5), st.randoms()
)
def test_notes_in_any_order_give_one_bank_and_edits_by_hand_survive(tmp_path_factory, notes, rnd):
    made = []
    for _ in range(2):
        root = tmp_path_factory.mktemp("order")
        days = list(notes)
        rnd.shuffle(days)
        (root / "memory").mkdir()
        with Memory.open(root, provider="none", clock=ManualClock(datetime(2026, 2, 1, tzinfo=UTC))) as memory:
            for day in days:
                (root / f"memory/2026-01-{day:02}.md").write_text("\n".join(notes[day]) + "\n")
                reflect(memory)
            assert not reflect(memory).changed
            made.append(bank(root))
            for path in (root / "bank").rglob("*.md"):
                path.write_text("My own words.\n\n" + path.read_text().replace("Ada", "Ada L.") + "\nMore of mine.\n")
            reflect(memory)
            after = bank(root)
            for path in made[-1]:
                assert after[path].startswith(b"My own words.\n\n")
                assert after[path].endswith(b"More of mine.\n") or b"<!-- reflect:end -->" in after[path]
            assert not reflect(memory).changed
    assert made[0] == made[1]


def test_an_opinion_grows_with_support_shrinks_with_contradiction_and_is_superseded_by_a_change(notes):
    notes.write("memory/2026-01-01.md", "## Retain\n- O @Ada: Prefers tea over coffee.\n")
    notes.write("memory/2026-01-02.md", "## Retain\n- O @Ada: Prefers tea.\n")
    memory = notes.open()
    reflect(memory)
    page = (notes.root / "bank" / "opinions.md").read_text()
    assert re.search(r"- O\(c=0\.64,id=\w{10}\) @ada: Prefers tea over coffee\. \[\+2 −0; ↑; last 2026-01-02\] "
                     r"\(memory/2026-01-01\.md#L2, memory/2026-01-02\.md#L2\)", page)  # fmt: skip
    notes.write("memory/2026-03-01.md", "## Retain\n- O @Ada: Switched from tea to coffee.\n")
    reflect(memory)
    held, _, superseded = (notes.root / "bank" / "opinions.md").read_text().partition("## Superseded")
    assert "c=0.70" in held and "Switched from tea to coffee." in held and "Prefers tea" not in held
    assert "Prefers tea over coffee. [+2 −1; ↓; last 2026-03-01]" in superseded
    hits = {hit.text: hit for hit in memory.recall("what does Ada prefer to drink", kinds=["opinion"])}
    newer, older = hits["O @Ada: Switched from tea to coffee."], hits["O @Ada: Prefers tea over coffee."]
    assert (newer.confidence, newer.evidence) == (0.7, "+1 −0; →; last 2026-03-01")
    assert older.evidence.startswith("+2 −1") and older.superseded_by == "memory/2026-03-01.md#L2"


def test_strangers_words_are_no_evidence_and_are_never_promoted(notes):
    memory = notes.open()
    toolset.retain_fact(
        memory, {"text": "Prefers tea in the morning", "kind": "opinion", "entities": ["Ada"], "confidence": 0.9}
    )
    toolset.retain_fact(
        memory,
        {"text": "No longer likes tea in the morning", "kind": "opinion", "entities": ["Ada"]},
        origin=["web_fetch"],
    )
    reflect(memory)
    held = (notes.root / "bank" / "opinions.md").read_text()
    assert "[+1 −0" in held and "## Superseded" not in held
    stranger = next(fact for fact in memory.knowledge().facts if fact.origin)
    with pytest.raises(ToolError, match="web_fetch"):
        promote(memory, stranger.id)
    assert len(proposals(memory)) == 1


def test_a_fact_that_was_taken_back_is_not_learned_again(notes):
    notes.write("memory/2026-01-01.md", "## Retain\n- W @Ada: Lives in Bergen.\n")
    memory = notes.open()
    reflect(memory)
    assert "Bergen" in (notes.root / "bank" / "world.md").read_text()
    path, line = mark(memory, "memory/2026-01-01.md#L2", "forget")
    assert "Bergen" not in (notes.root / path).read_text().splitlines()[line - 1], "the mark does not repeat it"
    notes.write("memory/2026-02-01.md", "## Retain\n- W @Ada: Lives in Bergen.\n")
    reflect(memory)
    assert "Bergen" not in "".join(text.decode() for text in bank(notes.root).values())
    assert "Lives in Bergen" in (notes.root / "memory/2026-01-01.md").read_text(), "nothing is deleted"
    with pytest.raises(ToolError, match="no fact"):
        mark(memory, "^nothing", "forget")


def test_proposals_are_taken_over_or_turned_down(notes):
    notes.write(
        "memory/2026-01-01.md",
        "## Retain\n- O(c=0.9) @Ada: Prefers short replies.\n- O(c=0.9) @Ada: Wants a window seat.\n",
    )
    notes.write("MEMORY.md", "# Mine\n")
    memory = notes.open()
    reflect(memory)
    first, second = (row.split()[0] for row in proposals(memory))
    line = promote(memory, first)
    assert (notes.root / "MEMORY.md").read_text() == f"# Mine\n\n## Learned\n{line}\n"
    promote(memory, first)
    assert (notes.root / "MEMORY.md").read_text().count(line) == 1
    mark(memory, second, "reject")
    reflect(memory)
    assert proposals(memory) == []
    notes.write("MEMORY.md", "x" * 9_990)
    with pytest.raises(ToolError, match="larger than"):
        promote(memory, second)


def test_any_run_can_be_undone_unless_somebody_wrote_since(notes):
    notes.write("memory/2026-01-01.md", "## Retain\n- W @Ada: Lives in Bergen.\n")
    memory = notes.open()
    reflect(memory)
    first = bank(notes.root)
    notes.write("memory/2026-01-02.md", "## Retain\n- W @Otto: Lives in Kiel.\n- W @Ada: Owns a boat in Bergen.\n")
    report = reflect(memory)
    assert report.run in runs(notes.root) and len(runs(notes.root)) == 2
    (notes.root / "bank/entities/ada.md").write_text("all mine\n")
    name, done, left = undo(notes.root)
    assert (name, left) == (report.run, ["bank/entities/ada.md"])
    assert "bank/entities/otto.md" in done
    assert {path: text for path, text in bank(notes.root).items() if "ada" not in path} == {
        path: text for path, text in first.items() if "ada" not in path
    }
    assert (notes.root / "bank/entities/ada.md").read_text() == "all mine\n"


def test_names_of_one_person_are_proposed_and_joined_only_by_a_person(notes):
    notes.write("memory/2026-01-01.md", "## Retain\n- W @Mel: Has a boat here.\n- W @Melanie: Has a dog too.\n")
    memory = notes.open()
    reflect(memory)
    assert "mel may be melanie" in (notes.root / "bank/entities/_review.md").read_text()
    page = notes.root / "bank/entities/melanie.md"
    page.write_text(page.read_text().replace("name: Melanie\n", "name: Melanie\naliases: [Mel]\n"))
    (notes.root / "bank/entities/mel.md").unlink()
    reflect(memory)
    assert "Has a boat here." in page.read_text()
    assert not (notes.root / "bank/entities/mel.md").exists()


def test_what_people_type_in_a_chat_is_in_the_bank_and_marked_as_inferred(notes, tmp_path):
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    message = (
        '{"type":"message","id":"%s","timestamp":"2026-02-0%dT10:00:00Z","message":{"role":"%s","content":"%s"}}\n'
    )
    (sessions / "a.jsonl").write_text(
        message % ("1", 1, "user", "I prefer tea.")
        + message % ("2", 2, "assistant", "I prefer rest.")
        + message % ("3", 3, "user", "I moved to Oslo.")
    )
    memory = notes.open(sessions=sessions)
    reflect(memory)
    page = (notes.root / "bank/entities/user.md").read_text()
    assert "- I moved to Oslo. (inferred) (sessions/a.jsonl#L3)" in page
    assert "I prefer tea. (inferred)" in page and "rest" not in page


def test_the_bank_changes_no_answer(notes):
    for day, lines in {
        "01": ["Ada prefers tea.", "Ada lives in Bergen."],
        "02": ["Ada now prefers coffee.", "Otto met Ada."],
    }.items():
        notes.write(f"memory/2026-01-{day}.md", "".join(f"- {line}\n" for line in lines))
    memory = notes.open()
    questions = ["What does Ada prefer?", "Where does Ada live?", "Ada", "Who met Ada?"]

    def found():
        return [[(hit.citation, hit.score, hit.why) for hit in memory.recall(text)] for text in questions]

    before = found()
    assert reflect(memory).changed and (notes.root / "bank/entities/ada.md").exists()
    assert found() == before, "not even a score: a page makes no word of its name more common"


def test_a_page_with_another_name_brings_the_lines_of_both(notes):
    notes.write("memory/2026-01-01.md", "- Ada prefers tea.\n- Otto prefers milk.\n")
    notes.write("bank/entities/ada.md", "---\nname: Ada\naliases: [Addie]\n---\n\n# Ada\n")
    assert "Ada" in notes.open().recall("What does Addie prefer?").hits[0].text


def test_a_secret_on_a_page_of_the_bank_is_kept_out_of_the_index(notes):
    notes.write("memory/2026-01-01.md", "- Ada prefers tea.\n- Ada lives in Bergen.\n")
    memory = notes.open()
    reflect(memory)
    page = notes.root / "bank/entities/ada.md"
    secret = "sk-ant-api03-" + "Ab1x9Zq7" * 6
    head, _, rest = page.read_text().partition("# Ada\n")
    aliased = head.replace("name: Ada\n", f"name: Ada\naliases: [Addie, {secret}]\n")
    page.write_text(f"{aliased}# Ada\nHer key is {secret}, by the lighthouse.\n{rest}")
    assert "lighthouse" in memory.search("lighthouse").hits[0].text
    assert secret.encode() not in (notes.root / ".memory" / "index.sqlite").read_bytes()
    assert "Ada" in memory.recall("What does Addie prefer?").hits[0].text
