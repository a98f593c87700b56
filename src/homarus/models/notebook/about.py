"""Who or what a question wants to hear everything about, and which lines speak of that. Pure."""

from __future__ import annotations

import re

from homarus.core.patterns import late
from homarus.models.notebook.language import read
from homarus.models.notebook.match import Aliases, covers

_NOTED = r"(?:(?:in|auf) (?:my|your|our|the|meinen|deinen|unseren|den) (?:notes?|memory|notizen) )?"
_EVERYTHING = late(
    r"\W*(?:(?:and|so|und|also)[,\s]+)*(?:"
    rf"what (?:else )?(?:(?:do|did|have) (?:you|i|we) (?:still |ever )?(?:know|remember|have|note|noted|write down|written down|keep|kept|say|said|tell you|told you)|(?:do|did) (?:my|your|the) notes (?:say|have|know)|is (?:there|noted|known|written) ?) ?{_NOTED}(?:about|on)"
    r"|(?:tell me |show me |list )?(?:everything|all|whatever)(?: (?:that )?(?:(?:you|i|we) (?:know|have|noted|told you|said|remember)|there is|is (?:known|noted)))?(?: about| on)"
    rf"|was (?:alles |noch )?(?:wei(?:ß|ss)t du|wissen wir|wei(?:ß|ss) ich|steht|gibt es|hast du|habe? ich(?: dir)?) (?:alles |noch |denn |so )*{_NOTED}(?:alles |so )*(?:über|von|zu)"
    r"|(?:erzähle? mir |sage? mir |zeige? mir )?alles(?:,? was (?:du|ich|wir) (?:weißt|weiß|wissen|hast|habe|haben))?,? (?:über|von|zu)"
    r")\s+(?P<whom>.+?)(?: (?:so far|wei(?:ß|ss)t|weiß|notiert|aufgeschrieben|erzählt|gesagt))*\W*",
    re.IGNORECASE,
)
LEAST = 0.8  # how near a word of a line must come to be the one that is named


def everything(question: str) -> str:
    """Return whom or what a question wants to hear everything about, or nothing. A bare name asks so, too."""
    if found := _EVERYTHING.fullmatch(question):
        return found["whom"]
    words = read(question).words
    bare = len(words) == len(question.split()) and all(word.name and not word.trait for word in words)
    return question if words and bare else ""


def speaks(whom: str, line: str, known: Aliases) -> bool:
    """Say whether a line names all of that, or somebody by the name that the notes give."""
    told, words = read(line), [word for word in read(whom).words if not word.light]
    return bool(words) and all(covers(word, told, known) >= LEAST for word in words)
