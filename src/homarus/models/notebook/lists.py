"""Lists that have a name, one or more lines of a note each: "Shopping list: milk, bread". Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from homarus.core.patterns import late
from homarus.models.notebook import evidence, phrases
from homarus.models.notebook.desk import Desk, Got, Next, wrong
from homarus.models.notebook.grammar import Intent
from homarus.models.notebook.language import stem

_BETWEEN = late(r"\s*[,;]\s+(?:(?:and|und)\s+)?|\s+(?:and|und)\s+")
_SMALL = late(r"\A(?:(?:the|some|a|an|die|das|den|der|ein|eine|einen|etwas)\s+)+", re.IGNORECASE)


def current(found: Sequence[evidence.Line], name: str) -> list[evidence.Line]:
    """Return the lines of a list, in the order in which they were told, without those that others took the place of."""
    former = {line.replaces for line in found}
    named = [line for line in found if _plain(_parts(line.text)[0]) == _plain(name) and line.source not in former]
    return sorted(named, key=lambda line: line.order)


def holds(text: str, item: str) -> bool:
    return _plain(item) in map(_plain, _parts(text)[1])


def without(text: str, item: str) -> str:
    """Return a line of a list without something that stands on it; nothing where that is all, or does not stand there."""
    name, items = _parts(text)
    rest = [one for one in items if _plain(one) != _plain(item)]
    return f"{name}: {', '.join(rest)}" if rest and len(rest) < len(items) else ""


def _parts(text: str) -> tuple[str, list[str]]:
    found = phrases.A_LIST.fullmatch(text.strip().rstrip("."))
    return (text[: found.end("list")].strip(), _BETWEEN.split(found["items"])) if found else ("", [])


def _plain(text: str) -> str:
    words = _SMALL.sub("", re.sub(r"\A(?:my|our|the|meine|unsere|die)\s+", "", text.strip(), flags=re.IGNORECASE))
    return " ".join(stem(word.lower()) for word in words.split())


def on_list(intent: Intent, got: Got, desk: Desk, ask: Next) -> Next:
    """Say all that stands on a list; `ask` is what is said otherwise, if no line is one of that list."""
    found = phrases.LISTED.fullmatch(intent.text.replace("’", "'"))
    name = found["list"] if found else intent.text
    if isinstance(ask, list):
        return ask
    results = [result.text for result in got if not wrong(result)]
    lines = current(evidence.gathered(results), name)
    if not lines:
        return ask
    quotes = [desk.quote(line) for line in lines]
    if len(quotes) == 1:
        return desk.say("answer", quotes=quotes[0])
    return desk.say("answer", quotes="").rstrip() + "".join(f"\n- {quote}" for quote in quotes)
