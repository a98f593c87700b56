"""Read and write the bullets of a `## Retain` section. Pure; a line that does not parse is still plain text.

    - O(c=0.9,t=2025-11) @Peter: Prefers short replies on WhatsApp.

Kinds are W (world), B (experience), O (opinion) and S (observation). Unknown attributes are kept. A line that was written
down from somebody else's words ends in `<!-- origin: web_fetch -->`, which names where they came from.
"""

from __future__ import annotations

import base64
import re
from hashlib import sha256

from msgspec import Struct

from homarus.core.patterns import late
from homarus.core.text import fold
from homarus.memory.schema import KINDS

LETTERS = {name: letter for letter, name in KINDS.items()}
RETAIN_HEADING = late(r"^(#{2,3})\s+retain\s*:?\s*#*\s*$", re.IGNORECASE)
_BULLET = late(r"^\s{0,3}[-*+]\s+(?P<rest>\S.*)$")
_KIND = late(r"^(?P<kind>[WBOS])(?:\((?P<attrs>[^()]*)\))?(?=[\s:@]|$)\s*")
_ENTITY = late(r"^@(?:\{(?P<free>[^{}]{1,80})\}|(?P<slug>[^\W\d_](?:[\w.-]*\w)?))\s*")
_INLINE = late(r"(?<![\w@/.:`])@(?:\{([^{}]{1,80})\}|([^\W\d_](?:[\w.-]*\w)?)(?![\w/@]))")
_CODE_SPAN = late(r"(`+)(?:.+?)\1")
_OPINION = late(
    r"\b(?:prefers?|likes?|wants?|thinks?|should|hates?|loves?|dislikes?|enjoys?|adores?|believes?|finds? (?!out)|considers?|rather|favou?rites?|"
    r"can(?:['’]t|not) (?:stand|bear)|fond of|(?:a|no|big) fan|tired of|sick of|fed up|(?:not|n['’]t) for (?:me|him|her|them)|"
    r"mag|mögen?|bevorzug\w*|liebt?|hasst?|hasse|lieber|liebsten|lieblings\w*|finde[tn]?|gefällt|gefallen|ausstehen|leiden kann|hält \w+ für|glaubt?|meint|"
    r"gerne?|satt|prefier\w+|gustan?|encantan?|odi[oa]|ador[oa]|detest[oa]|quiero|quiere|cre[eo] que|piens[oa] que|opina|parece|soport[oa]|favorit[oa]s?|hart[oa] de)\b",
    re.IGNORECASE,
)
_FIRST_PERSON = late(r"^(?:i|we|my|our)\b", re.IGNORECASE)
_STRUCK = late(r"^(?P<head>(?:[WBOS](?:\([^()]*\))?\s*)?(?:@(?:\{[^{}]*\}|[^\s:~]+)\s*)*:?\s*)~~(?P<said>\S.*?)~~$")
_PRONOUN = late(r"^(?:he|she|it|they|this|that|these|those|his|her|its|their)\b", re.IGNORECASE)


class Bullet(Struct, frozen=True):
    kind: str  # world | experience | opinion | observation
    text: str
    entities: tuple[str, ...] = ()
    attrs: tuple[tuple[str, str], ...] = ()
    inferred: bool = False
    struck: bool = False  # crossed out (`~~so~~`): no fact any more, and none to learn again

    def attr(self, name: str) -> str | None:
        return next((value for key, value in self.attrs if key == name), None)

    @property
    def confidence(self) -> float | None:
        """Return c of an opinion within 0 and 1; other kinds have none."""
        given = self.attr("c")
        if given is None or self.kind != "opinion":
            return None
        try:
            return min(1.0, max(0.0, float(given)))
        except ValueError:
            return None

    @property
    def id(self) -> str:
        """Return a name that survives moves of the line: it depends on kind, entities and words only."""
        given = self.attr("id")
        return given or fact_id(self.kind, self.entities, self.text)


def fact_id(kind: str, entities: tuple[str, ...], text: str) -> str:
    """Return the first ten base32 characters of the hash of what the fact says."""
    said = "|".join((LETTERS.get(kind, kind), *sorted(map(fold, entities)), " ".join(fold(text).split())))
    return base64.b32encode(sha256(said.encode()).digest()).decode()[:10].lower()


def parse_bullet(line: str) -> Bullet | None:
    """Return the bullet on a line of a Retain section, or None when the line is no bullet at all."""
    match = _BULLET.match(line)
    if not match:
        return None
    rest = match["rest"].strip()
    crossed = _STRUCK.match(rest)
    rest = crossed["head"] + crossed["said"].strip() if crossed else rest
    kind = ""
    attrs: tuple[tuple[str, str], ...] = ()
    if head := _KIND.match(rest):
        kind, rest = KINDS[head["kind"]], rest[head.end() :]
        attrs = _attributes(head["attrs"] or "")
    entities: list[str] = []
    while found := _ENTITY.match(rest):
        entities.append(found["free"] or found["slug"])
        rest = rest[found.end() :]
    rest = rest.removeprefix(":").strip()
    if not rest:
        return None
    everyone = tuple(dict.fromkeys([*entities, *entities_in(rest)]))
    return Bullet(kind or _infer(rest, everyone), rest, everyone, attrs, inferred=not kind, struck=bool(crossed))


def struck(text: str) -> str:
    """Return what a line says that is crossed out from its first word to its last; empty for any other line."""
    return text[2:-2].strip() if text.startswith("~~") and text.endswith("~~") and len(text) > 4 else ""


def _attributes(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (part.partition("=") for part in text.split(",") if part.strip())
    return tuple((key.strip(), value.strip()) for key, _, value in pairs)


def is_opinion(text: str) -> bool:
    return bool(_OPINION.search(text))


def _infer(text: str, entities: tuple[str, ...]) -> str:
    if entities and is_opinion(text):
        return "opinion"
    return "experience" if _FIRST_PERSON.match(text) else "world"


def entities_in(text: str) -> tuple[str, ...]:
    """Return the @entities of free text; code spans, mail addresses and npm scopes hold none."""
    if "@" not in text:
        return ()
    plain = _CODE_SPAN.sub(" ", text)
    return tuple(dict.fromkeys(free or slug for free, slug in _INLINE.findall(plain)))


def lint(bullet: Bullet) -> tuple[str, ...]:
    """Return what would make this fact hard to use later; nothing here stops it from being kept."""
    found = []
    if _PRONOUN.match(bullet.text):
        found.append("starts with a pronoun: name who or what is meant")
    if len(bullet.text.split()) < 4:
        found.append("fewer than four words: write a sentence that makes sense alone")
    if bullet.attr("c") is not None and bullet.kind != "opinion":
        found.append("c= counts for opinions (O) only")
    return tuple(found)


def format_bullet(bullet: Bullet) -> str:
    """Return the line to append to a Retain section; it parses back to the same bullet."""
    attrs = ",".join(f"{key}={value}" for key, value in bullet.attrs)
    head = LETTERS[bullet.kind] + (f"({attrs})" if attrs else "")
    leading = [name for name in bullet.entities if name not in entities_in(bullet.text)]
    names = "".join(
        f" @{name}" if re.fullmatch(r"[^\W\d_](?:[\w.-]*\w)?", name) else f" @{{{name}}}" for name in leading
    )
    said = " ".join(bullet.text.split())
    return f"- {head}{names}: {f'~~{said}~~' if bullet.struck else said}"
