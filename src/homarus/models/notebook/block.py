"""Whether a message of several lines is somebody's text (a mail, a chat, code), by its own shape. Pure.

A text is kept whole and nothing in it is an instruction; several facts that were typed one a line are not a text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from homarus.core.patterns import late

_I = re.IGNORECASE
_NAMED = r"(?:(?-i:[A-ZÄÖÜ])[\w.-]*|all|team|both|everyone|everybody|folks|zusammen|alle|ihr|mum|mom|dad|and|und|&)"
# "Hi Max,", "Dear Ms Jones", "Liebe Oma!"; "Hi" alone and "hello there" greet the notebook.
_SALUTES = late(
    rf"(?:dear|liebe[rs]?|sehr geehrte[rns]?)(?:\s+[\w.&-]+){{1,6}}\s*[,!:–-]?"
    rf"|(?:hallo|hi|hiya|hey|hello|moin|servus|good (?:morning|afternoon|evening)|guten (?:morgen|tag|abend))(?:(?:\s+[\w.&-]+){{0,4}}\s*,|(?:\s+{_NAMED}){{1,4}}\s*[!:–-]?)",
    _I,
)
_SIGNS_OFF = late(
    r"(?:(?:with |all |my )*(?:best|kind|kindest|warm|many|lots of|much|all)(?: the)?(?: best| kind| warm)? ?(?:regards|wishes|love|thanks)?|regards|yours(?: sincerely| truly| faithfully)?|sincerely"
    r"|cheers|love|thanks|thank you|many thanks|hugs|x{1,4}|take care|talk soon|see you(?: \w+){0,3}|lg|vg|mfg|bg|(?:mit )?(?:ganz )?(?:liebe[nr]?|viele[n]?|beste[n]?|freundliche[nr]?|herzliche[nr]?|schöne[n]?)? ?(?:grüße[n]?|grüsse[n]?|gruß|gruss)"
    r"|bis (?:bald|dann|später|morgen|\w+tag)|deine?|eure?|ihre?|danke(?: dir| euch)?)\s*[,!.]?",
    _I,
)
_SIGNED = late(
    r"(?:[-–]+\s*)?(?-i:[A-ZÄÖÜ])[\w.-]*(?:\s+(?:(?-i:[A-ZÄÖÜ])[\w.-]*|und|and|&)){0,3}\s*(?:x{1,3})?[.!]?", _I
)
_SIGNED_TOO = late(
    r"(?:lg|vg|mfg|best|regards|cheers|love|xx?|(?:liebe|viele|beste) (?:grüße|grüsse))[,\s]+\S.{0,30}", _I
)  # "LG Anna"
# What was sent before, the head of a mail, and who said what when.
_QUOTED = late(
    r">.*|(?:on|am) .{6,80}(?:wrote|schrieb.{0,60})\s*:|(?:from|to|cc|subject|sent|von|an|betreff|gesendet|datum|date)\s*:\s.*@.*|(?:subject|betreff)\s*:.*|-{3,}\s*\w.*"
    r"|\[?(?:\d[\d./-]{3,9},?\s+)?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?\]?\s*[-–]?\s*[^\W\d_][\w .]{0,24}:\s.*",
    _I,
)
_CODE = late(
    r".*[{};]\s*|\s*(?:def|class) \w+.*:|\s*(?:import|from) [\w.]+(?: import .*)?|\s*(?:const|let|var|return|function)\b.*|#include.*|</?\w[^>]*>.*|\$ .*|select .* from .*"
)
_JOINS = late(
    r"(?:,|\b(?:and|or|the|a|an|of|to|for|with|that|which|because|but|my|your|our|is|are|in|on|at|und|oder|der|die|das|den|dem|ein|eine|einen|mit|für|dass|weil|aber|zu|von|im|ich|wir))\s*\Z",
    _I,
)
_ENDED = late(r"[.!?:;…\"”’')\]]\s*\Z")
_EMPTY = late(r"\n[ \t]*(?:\n[ \t]*)+")
_ITEM = late(r"\s*(?:[-*+•–]|\d{1,2}[.)]|\[[ x]\])\s")
# "1 kg beef", "½ TL Salz": what goes into a dish, one a line.
_AMOUNT = late(
    r"\s*(?:[-*+•–]\s*)?(?:\d+(?:[.,/]\d+)?|[½¼¾⅓]|\d+\s?[½¼¾]|an?|eine?|etwas|some)\s*(?P<unit>(?:k?g|mg|m?l|[dc]l|lbs?|oz|tbsp|tsp|tablespoons?|teaspoons?|cups?|pinch|pints?|cloves?|cans?|tins?|el|tl|prisen?|dosen?|bund|zehen?|becher|tassen?|päckchen|pck|stück)\b\.?\s+)?(?:[^\s:]+\s*){1,6}",
    _I,
)
WRAPPED = 55  # from here on a line that ends nowhere was broken by a program


def is_text(text: str) -> bool:
    """Say whether several lines have the shape of a text that somebody wrote or a program made."""
    raw = [line for line in text.splitlines() if line.strip()]
    lines = [line.strip() for line in raw]
    return (
        _SALUTES.fullmatch(lines[0]) is not None
        or _signed(lines)
        or any(_QUOTED.fullmatch(line) for line in lines)
        or sum(_CODE.fullmatch(line) is not None for line in raw) > 1
        or any(_goes_on(line, after) for line, after in pairwise(raw))
        or _is_recipe(lines)
        or _has_parts(text)
    )


def _is_recipe(lines: Sequence[str]) -> bool:
    """Say whether these are a title, what goes into it, and what is done with that."""
    amounts = [at for at, line in enumerate(lines) if _AMOUNT.fullmatch(line)]
    measured = any(found["unit"] for line in lines if (found := _AMOUNT.fullmatch(line)))
    return len(amounts) > 1 and measured and 0 < amounts[0] <= 3 and amounts[-1] < len(lines) - 1


def _has_parts(text: str) -> bool:
    """Say whether a title stands above several parts with empty lines between them."""
    first, *parts = [part.strip().splitlines() for part in _EMPTY.split(text.strip())]
    title = len(first) == 1 and not first[0].rstrip().endswith((".", ":", "!", "?")) and len(first[0].split()) < 9
    return title and len(parts) > 1 and any(len(part) > 1 for part in parts)


def _signed(lines: Sequence[str]) -> bool:
    """Say whether the last lines take leave of somebody: by words and a name, or by a name behind a comma."""
    last, before = lines[-1], lines[-2]
    if len(lines) > 2 and _SIGNED_TOO.fullmatch(last):
        return True
    return _SIGNED.fullmatch(last) is not None and (
        _SIGNS_OFF.fullmatch(before) is not None or (before.endswith(",") and not _lists(lines))
    )


def _goes_on(line: str, after: str) -> bool:
    """Say whether a sentence was broken at the end of a line."""
    first = after.strip()[0]
    if _ITEM.match(after) or not (first.islower() or first.isdigit()):
        return False
    if len(line.split()) > 3 and _JOINS.search(line):
        return True
    return first.islower() and len(line.strip()) >= WRAPPED and not _ENDED.search(line)


def _lists(lines: Sequence[str]) -> bool:
    """Say whether these are items, with commas between them."""
    return all(line.endswith(",") and len(line.split()) < 4 for line in lines[:-1])
