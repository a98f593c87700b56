"""All that the notes say as facts: what was retained, what plain lines and conversations claim, and which of it still holds.

A pure function of the index, so that the bank can be deleted and made again. Nothing is removed: what was replaced or taken back stays,
marked, and holds for any day before that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.patterns import late
from homarus.core.text import slug
from homarus.memory.bank.claims import UNREAD, Claim, claims, differs, repeated, replaced, same_matter
from homarus.memory.bank.grammar import fact_id, is_opinion, struck
from homarus.memory.bank.liking import people_in
from homarus.memory.bank.wordings import Said, read_together
from homarus.memory.results import cite, parse_citation
from homarus.memory.schema import CODE, LABELS, STRUCK
from homarus.memory.terms import content_words, plain

OWNER = "user"  # whom "I" means in what the owner types
KEPT_TEXT = 300
_SENTENCE = late(r"[^.!?？]+(?:[.!?？]+|$)")
SAYS = 3  # words with a meaning that a statement about somebody has at least
LONG = 400  # words of a line that is read at all
# Whom a line of a note is about: Lena in "Anna's sister Lena is …", Anna in "Anna is …", "Anna's wifi …", "Annas Hund …", Ana in "El coche de Ana …".
_ABOUT = tuple(
    map(
        late,
        (
            r"[^\W\d_]\w+(?:['’]s?|s) [^\W\d_]+ ([^\W\d_a-zäöü]\w+) (?=[^\W\d_A-ZÄÖÜ])",
            r"([^\W\d_][^\W_]+) (?=[^\W\d_A-ZÄÖÜ])",
            r"([^\W\d_][^\W_]+?)(?:['’]s?|s) (?=[^\W\d_])",
            r"(?:The|Der|Die|Das|El|La|Los|Las) [^\W\d_]+ (?:of|von|de) ([^\W\d_]\w+) ",
        ),
    )
)
_OWN = late(
    r"(?i:\b(?:i|me|my|mine|we|us|our|ich|mir|mich|meine?[mnrs]?|wir|uns|unsere?[mnrs]?|yo|me|mis?|nos|nosotr[oa]s|nuestr[oa]s?)\b)"
    r"|(?:^|[.!] )(?:(?:Just|Still|Also) )?(?:[Bb]een|[Hh]ad|[Gg]ot|[Mm]ade|[Tt]ook|[Ww]ent|[Bb]ought|[Mm]et|[^\W\d_]{3,}ed|[^\W\d_]{3,}ing (?=on|at|to|an?|the|some|for|in|with)) "
    r"|^(?:[A-ZÁÉ]\w{3,}o|Soy|Voy|Doy|Estoy|He)\b(?=.*\b(?:a|al|con|de|desde|el|en|la|los|las|para|por|que|un|una|y)\b)"
)


class Fact(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    text: str
    path: str
    line: int
    end_line: int
    day: int | None
    entities: tuple[str, ...]  # slugs
    confidence: float | None = None
    origin: tuple[str, ...] = ()
    first: int | None = None  # the days it is about, where it names any
    last: int | None = None
    supersedes: str = ""
    inferred: bool = False  # nobody wrote it down as a fact
    agent: bool = False  # the agent's words, not the owner's
    claims: tuple[Claim, ...] = ()
    replaced_by: str = ""  # where the newer fact stands
    repeated_by: str = ""  # where a later fact says the same again
    doubted_by: str = ""  # where a later line may say otherwise, in words that nobody here can read
    retracted: bool = False

    @property
    def by_hand(self) -> bool:
        """Say whether a person wrote it into a page of the bank, whose lines move."""
        return self.path.startswith("bank/")

    @property
    def citation(self) -> str:
        return self.path if self.by_hand else cite(self.path, self.line, self.end_line)

    @property
    def holds(self) -> bool:
        return not self.replaced_by and not self.retracted

    @property
    def trusted(self) -> bool:
        return not self.origin


def told(fact: Fact, names: Mapping[str, str]) -> str:
    """Return a fact so that it can stand alone: with whom it is about before it, where its words do not say that."""
    name = names.get(fact.entities[0], fact.entities[0]) if fact.entities else ""
    return fact.text if plain(name) in plain(fact.text) else f"{name}: {fact.text}"


class Knowledge(Struct):
    """The facts of one home, oldest first, and the names of those they are about."""

    facts: list[Fact]
    names: dict[str, str]
    rejected: frozenset[str] = frozenset()  # facts that were turned down for MEMORY.md

    @property
    def spoken_of(self) -> set[str]:
        """Return whom and what the facts are about; `names` holds everybody who speaks as well."""
        return {name for fact in self.facts for name in fact.entities}

    def as_of(self, day: int) -> list[Fact]:
        """Return what was known and held on a day."""
        return [fact for fact in _settled([f for f in self.facts if (f.day or 0) <= day]) if fact.holds]


def gather(conn: sqlite3.Connection) -> Knowledge:
    """Read the facts of an index."""
    aliases = _aliases(conn)
    retained, told = _retained(conn, aliases)
    rows = list(_plain_lines(conn, aliases))
    people = people_in((row.said.text for row in rows), (name for row in rows for name in (row.speaker, *row.linked)))
    written = [
        Said(
            fact.day or 0,
            fact.text,
            fact.claims,
            fact.entities[0].replace("-", " ") if fact.entities else "",
            opinion=fact.kind == "opinion",
            retained=True,
            teaches=fact.trusted,
        )
        for fact in retained
    ]
    claimed = [_about(found, aliases) for found in read_together([*written, *(row.said for row in rows)], people)]
    retained = [
        fact if found == fact.claims else replace(fact, claims=found)
        for fact, found in zip(retained, claimed, strict=False)
    ]
    said = {(fact.path, fact.line) for fact in retained} | {(path, line) for path, line, _, _ in told}
    texts = {(fact.text, fact.day) for fact in retained}
    plainly = list(_inferred(zip(rows, claimed[len(retained) :], strict=True), people, aliases))
    found = [
        fact
        for fact in plainly
        if not fact.retracted and (fact.path, fact.line) not in said and (fact.text, fact.day) not in texts
    ]
    forgotten = {reference.removeprefix("^") for _, _, status, reference in told if status == "forgets"}
    forgotten.update(fact.id for fact in plainly if fact.retracted)
    rejected = frozenset(reference.removeprefix("^") for _, _, status, reference in told if status == "rejects")
    facts = sorted([*retained, *found], key=lambda fact: (fact.day or 0, fact.path, fact.line))
    if forgotten:
        facts = [replace(f, retracted=True) if f.id in forgotten or f.citation in forgotten else f for f in facts]
    return Knowledge(_settled(facts), _names(conn, aliases, facts), rejected)


def _settled(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts, each with the one that replaced it: by name (`sup=`), or by another value for the same matter later on."""
    usable = [fact.claims if fact.day and not fact.retracted else () for fact in facts]
    later: dict[int, int] = replaced([(fact.day or 0, found) for fact, found in zip(facts, usable, strict=True)])
    by_id: dict[str, list[int]] = {}
    by_place: dict[tuple[str, int], int] = {}
    for at, fact in enumerate(facts):
        by_id.setdefault(fact.id, []).append(at)
        by_place[fact.path, fact.line] = at
    for at, fact in enumerate(facts):
        for reference in filter(None, fact.supersedes.split("+") if not fact.retracted else ()):
            path, line, _ = parse_citation(reference)
            named = by_id.get(reference[1:], ()) if reference[0] == "^" else [by_place.get((path, line or 0), at)]
            later.update({older: at for older in named if older != at})
    doubted = _doubted(facts)
    again = repeated([(fact.day or 0, found) for fact, found in zip(facts, usable, strict=True)])
    return [
        replace(
            fact,
            replaced_by=facts[later[at]].citation if at in later else "",
            repeated_by=facts[again[at]].citation if at in again else "",
            doubted_by=doubted.get(at, ""),
        )
        if at in later or at in again or at in doubted
        else fact
        for at, fact in enumerate(facts)
    ]


def _doubted(facts: Sequence[Fact]) -> dict[int, str]:
    """Return which preferences a later line puts in doubt, and where that stands: it may tell of a change, and nothing clear was said since."""
    told: dict[tuple[str, str], list[tuple[Fact, Claim]]] = {}  # oldest first
    for fact in facts:
        if fact.day and fact.trusted and not fact.retracted:
            for claim in fact.claims:
                for kind in claim.about if claim.predicate in {"prefer", UNREAD} else ():
                    told.setdefault((claim.subject, kind), []).append((fact, claim))
    out: dict[int, str] = {}
    for at, fact in enumerate(facts):
        for claim in fact.claims if fact.day else ():
            for kind in claim.about if claim.predicate == "prefer" else ():
                last, said = told.get((claim.subject, kind), [(fact, claim)])[-1]
                if said.predicate == UNREAD and (last.day or 0) > (fact.day or 0) and said.value - claim.value:
                    out[at] = last.citation
    return out


def conflicts(facts: Iterable[Fact]) -> list[tuple[Fact, Fact]]:
    """Return pairs that cannot both hold and of which nobody knows which is newer."""
    held = [fact for fact in facts if fact.holds and fact.claims]
    return [
        (one, other)
        for at, one in enumerate(held)
        for other in held[at + 1 :]
        if one.day == other.day and any(same_matter(a, b) and differs(a, b) for a in one.claims for b in other.claims)
    ]


def _aliases(conn: sqlite3.Connection) -> dict[str, str]:
    import json

    found: dict[str, str] = {}
    for name, aliases in conn.execute("SELECT slug, aliases FROM entities ORDER BY slug DESC"):
        found.update({slug(alias): name for alias in json.loads(aliases) if slug(alias)})
    return found


def _retained(conn: sqlite3.Connection, aliases: dict[str, str]) -> tuple[list[Fact], list[tuple[str, int, str, str]]]:
    """Return the facts that somebody wrote down as such, and what such lines say about other facts: forget, or do not promote."""
    about: dict[tuple[int, str], list[str]] = {}
    for file, number, name in conn.execute("SELECT file, fact_id, slug FROM fact_entities ORDER BY slug"):
        about.setdefault((file, number), []).append(aliases.get(name, name))
    facts: list[Fact] = []
    told: list[tuple[str, int, str, str]] = []
    rows = conn.execute(
        "SELECT id, file, kind, text, path, line, end_line, mentioned_on, occ_from, occ_to, confidence, origin, status,"
        " supersedes FROM facts WHERE path NOT LIKE 'bank/%' ORDER BY path, line"
    )
    for number, file, kind, text, path, line, end, day, first, last, sure, origin, status, reference in rows:
        if status != "active":
            told.append((path, line, status, reference))
            continue
        linked = tuple(dict.fromkeys(about.get((file, number), ())))
        facts.append(
            Fact(
                id=number,
                kind=kind,
                text=text,
                path=path,
                line=line,
                end_line=end,
                day=day,
                first=first,
                last=last,
                confidence=sure,
                supersedes=reference,
                entities=linked,
                agent=kind == "observation",
                origin=() if origin == "owner" else tuple(origin.split(", ")),
                claims=claims(text, [name.replace("-", " ") for name in linked]),
            )
        )
    return facts, told


class _Row(Struct):
    """A plain line of a note or a message."""

    file: int
    path: str
    line: int
    day: int | None
    first: int | None
    last: int | None
    speaker: str
    flags: int
    linked: list[str]
    said: Said
    origin: tuple[str, ...]


def _plain_lines(conn: sqlite3.Connection, aliases: dict[str, str]) -> Iterable[_Row]:
    origins: dict[tuple[int, int], tuple[str, ...]] = {}
    for file, line, source in conn.execute("SELECT file, line, source FROM origins ORDER BY source"):
        origins[file, line] = (*origins.get((file, line), ()), source)
    rows = conn.execute(
        "SELECT f.id, f.path, l.line, l.day, l.first, l.last, l.speaker, l.flags, l.entities, l.text FROM lines l JOIN files f ON f.id = l.file"
        " WHERE l.kind IN ('note', 'turn') AND l.size BETWEEN 2 AND ? AND l.flags & ? = 0 AND f.path NOT LIKE 'bank/%'"
        " ORDER BY f.path, l.line",
        (LONG, CODE),
    )
    for file, path, line, day, first, last, named, flags, entities, text in rows:
        name, _, verb = named.partition(" ")
        speaker = "" if verb[:1].islower() else named  # "Anna called: she has moved" are nobody's words
        label = plain(speaker)
        who = {"user": OWNER, "assistant": ""}.get(label, "" if label in LABELS else speaker)
        body = text[text.index(":") + 1 :].strip() if speaker and ":" in text else text
        body = _statement(struck(body) or body, spoken=bool(speaker))
        if not body:
            continue
        linked = [*([name] if name != speaker else []), *filter(None, entities.split("\x1f"))]
        own = plain(who) if _OWN.search(body) else ""
        origin = origins.get((file, line), ())
        teaches = not origin and not flags & STRUCK
        said = Said(day or 0, body, _about(claims(body, linked, who), aliases), own, teaches=teaches)
        yield _Row(file, path, line, day, first, last, speaker, flags, linked, said, origin)


def _statement(body: str, *, spoken: bool) -> str:
    """Return the part of a line that states something: of a message that asks as well, or goes on at length, as much as makes one fact.

    It begins with the first sentence that somebody says of themselves and that is more than a greeting, and ends before a question.
    """
    if "?" not in body[-80:] and "？" not in body[-80:] and len(body) <= KEPT_TEXT:
        return body
    kept = ""
    for match in _SENTENCE.finditer(body):
        part = match[0].strip()
        if part.endswith(("?", "？")) or len(kept) + len(part) >= KEPT_TEXT:
            if kept:
                break
            continue
        if kept or not spoken or (_OWN.search(part) and len(content_words(part)) >= SAYS):
            kept = body[body.index(kept or part) : match.end()].strip()
    return kept


def _inferred(
    rows: Iterable[tuple[_Row, tuple[Claim, ...]]],
    people: frozenset[str],
    aliases: dict[str, str],
) -> Iterable[Fact]:
    """Yield what plain lines and messages claim about somebody with a name; the line itself is the fact."""
    for row, found in rows:
        body = row.said.text
        subjects = tuple(dict.fromkeys(slug(claim.subject) for claim in found if slug(claim.subject)))
        subjects = subjects or _stated(body, row.speaker, people, aliases)
        agent = plain(row.speaker) == "assistant"
        if not subjects or (agent and not row.linked):
            continue
        thought = {claim.predicate for claim in found} or {"prefer" if is_opinion(body) else ""}
        thought |= {"prefer"} if thought == {"use"} and is_opinion(body) else set()
        kind = "opinion" if "prefer" in thought else "world"
        yield Fact(
            path=row.path,
            line=row.line,
            end_line=row.line,
            day=row.day,
            first=row.first,
            last=row.last,
            kind=kind,
            id=fact_id(kind, subjects, body[:KEPT_TEXT]),
            text=body[:KEPT_TEXT],
            entities=subjects,
            origin=row.origin,
            inferred=True,
            retracted=bool(row.flags & STRUCK),
            agent=agent,
            claims=found,
        )


def _stated(body: str, speaker: str, people: frozenset[str], aliases: dict[str, str]) -> tuple[str, ...]:
    """Return whom a line without a known form is about: who speaks of themselves, or whose name begins it.

    In chats with the agent people ask for things in the first person: only what `claims` reads counts there.
    """
    if plain(speaker) in LABELS or len(content_words(body)) < SAYS:
        return ()
    if speaker:
        about = speaker if _OWN.search(body) else ""
    else:
        found = (plain(match[1]) for pattern in _ABOUT if (match := pattern.match(body)))
        about = next((name for name in found if name in people), "")
    name = slug(about)
    return (aliases.get(name, name),) if name else ()


def _about(found: Iterable[Claim], aliases: dict[str, str]) -> tuple[Claim, ...]:
    """Return claims whose subjects are slugs, one for all names of somebody."""
    named = (replace(claim, subject=aliases.get(slug(claim.subject), slug(claim.subject))) for claim in found)
    return tuple(claim for claim in named if claim.subject)


def _names(conn: sqlite3.Connection, aliases: dict[str, str], facts: Iterable[Fact]) -> dict[str, str]:
    """Return how each entity is written: by its page, else as most lines write it."""
    written = conn.execute("SELECT name, sum(lines) FROM names GROUP BY name ORDER BY 2, 1 DESC")
    names = {slug(name): name for name, _ in written if slug(name) not in aliases}
    names.update(conn.execute("SELECT slug, name FROM entities ORDER BY slug").fetchall())
    for fact in facts:
        for entity in fact.entities:
            names.setdefault(entity, entity.replace("-", " ").title())
    return names
