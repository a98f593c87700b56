"""What many lines tell together: wordings that nobody foresaw, learned by agreement, and never from what merely happens."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.bank.categories import categories_of
from homarus.memory.bank.claims import UNREAD, Claim, claims
from homarus.memory.bank.wordings import Said, read_together, things_in

NAMES = ["anna", "otto", "ines", "petra", "ruben", "viktor", "magda", "joris"]
PEOPLE = frozenset(NAMES)
TOLD = ["{n} gronks {v} daily", "the blorp of {n} is {v}", "{v} flims {n} a lot"]  # words that nobody can know
HAPPENED = ["{n} dropped {v} on the stairs", "a lorry with {v} passed {n}"]
DRINKS = ["tea", "coffee", "juice", "beer"]


def told(line: str, day: int = 1, **more) -> Said:
    return Said(day, line, claims(line), **more)


def months(rnd: random.Random, *, dense: int = 6) -> tuple[list[Said], dict[str, str]]:
    """Return lines in which each of eight people likes one drink, told three times, among things that happen; and who likes what."""
    truth = {name: rnd.choice(DRINKS) for name in NAMES}
    lines = [
        told(way.format(n=name.title(), v=drink), day)
        for name, drink in truth.items()
        for day, way in zip((5, 15, 25), TOLD, strict=True)
    ]
    for name in NAMES:
        lines += [
            told(rnd.choice(HAPPENED).format(n=name.title(), v=rnd.choice(DRINKS)), rnd.randrange(1, 60))
            for _ in range(dense)
        ]
    rnd.shuffle(lines)
    return lines, truth


def liked(lines: list[Said]) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for found in read_together(lines, PEOPLE):
        for claim in found:
            if claim.predicate == "prefer":
                out.setdefault(claim.subject, set()).update(claim.value)
    return out


def test_a_wording_in_which_lines_agree_is_believed_and_one_for_what_happens_is_not():
    lines, truth = months(random.Random(3))
    read = read_together(lines, PEOPLE)
    for line, found in zip(lines, read, strict=True):
        preferred = [claim for claim in found if claim.predicate == "prefer"]
        assert bool(preferred) == any(word in line.text for word in ("gronks", "blorp", "flims")), line.text
    assert {name: next(iter(found))[:3] for name, found in liked(lines).items()} == {n: v[:3] for n, v in truth.items()}


def test_the_order_of_lines_does_not_matter():
    lines, _ = months(random.Random(4))
    again = list(lines)
    random.Random(9).shuffle(again)
    assert dict(zip((id(line) for line in lines), read_together(lines, PEOPLE), strict=True)) == dict(
        zip((id(line) for line in again), read_together(again, PEOPLE), strict=True)
    )


def test_a_change_in_unknown_words_is_read_from_what_was_held_before():
    lines, truth = months(random.Random(3))
    old = truth["anna"]
    new = next(drink for drink in DRINKS if drink != old)
    for day, pair in ((90, (new, old)), (96, (old, new))):  # told twice, in either order: one change
        lines.append(told(f"{pair[0]} snorps {pair[1]} where Anna blorps of the", day))
    read = read_together(lines, PEOPLE)[-2:]
    assert [[min(claim.value)[:3] for claim in found if claim.predicate == "prefer"] for found in read] == [
        [new[:3]]
    ] * 2


def test_with_few_lines_nothing_is_learned():
    lines = [told("Anna gronks tea daily", 1), told("the blorp of Anna is tea", 9), told("Otto dropped juice", 9)]
    assert not liked(lines)


def test_what_is_denied_again_and_again_is_no_preference():
    ways = ["{n} can't stand {v} at all", "{n} would never touch {v}", "no {v} for {n} ever"]
    lines, _ = months(random.Random(5), dense=0)
    for name in NAMES:
        lines += [told(way.format(n=name.title(), v="cocoa"), day) for day, way in zip((31, 35, 39), ways, strict=True)]
    assert all("cocoa" not in values for values in liked(lines).values())


def test_strangers_words_teach_nothing():
    lines, _ = months(random.Random(3))
    for line in lines:
        line.teaches = False
    assert not liked(lines)
    lines = [told("Anna's favourite drink is rooibusch.", teaches=False), told("Ines prefers rooibusch.", 3)]
    assert not read_together(lines, PEOPLE)[1][0].about


def test_an_opinion_that_was_written_down_needs_no_word_of_liking():
    lines = [
        Said(1, "Swears by coffee.", (), "otto", opinion=True, retained=True),
        Said(9, "Has come round to tea.", (), "otto", opinion=True, retained=True),
        Said(9, "Has tea in the cellar.", (), "otto", retained=True),
    ]
    first, second, third = read_together(lines, PEOPLE)
    assert [min(claim.value)[:3] for claim in (*first, *second)] == ["cof", "tea"] and not third
    assert {claim.subject for claim in (*first, *second)} == {"otto"}


def test_a_thing_beside_what_is_preferred_is_no_preference():
    seat = "Prefers the window seat on trains"
    lines = [
        told("Otto swears by the train.", 1),
        Said(9, seat, claims(seat, ["otto"]), "otto", opinion=True, retained=True),
    ]
    assert not any("train" in claim.value for claim in read_together(lines, PEOPLE)[1])


def test_what_notes_say_of_a_kind_holds_for_everybody():
    lines = [told("Anna's favourite drink is rooibusch."), told("Otto switched from rooibusch to tepache.")]
    kinds = things_in(lines)
    assert {min(found) for found in kinds.values()} == {"drink"} and len(kinds) == 2
    lines += [told("Ines prefers rooibusch.", 3), told("Ines now prefers tepache.", 40)]
    older, newer = read_together(lines, PEOPLE)[-2:]
    assert older[0].about == newer[0].about == {"drink"}


def test_words_with_one_stem_are_not_one_thing():
    assert categories_of("wine") == categories_of("wines") == {"drink"}
    assert not categories_of("wins") and not categories_of("planning") and not categories_of("hat")


@given(st.lists(st.tuples(st.integers(0, 400), st.text(max_size=80)), max_size=12))
def test_any_lines_are_read_without_an_error(rows):
    found = read_together([Said(day, text, ()) for day, text in rows], PEOPLE)
    assert len(found) == len(rows)
    assert all(isinstance(claim, Claim) and claim.predicate in {"prefer", UNREAD} for row in found for claim in row)
