"""Say what changed, on the newest user turn: the carrier of volatile sections.

A carrier is stored with its turn and replayed byte for byte, so what it said stays in the model's view until a
compaction. Therefore each carrier says only what differs from what was said before, and what was said before can be
read back from the stored carriers alone: no second record can disagree with the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256

from homarus.core.messages import User
from homarus.core.patterns import late
from homarus.core.prompt import CONTEXT_BEGIN, CONTEXT_END
from homarus.prompt.escape import inline, seal
from homarus.prompt.section import Section
from homarus.sessions.view import View, project

# What was last said under each heading: name -> "held:<digest>" or "once:<digest>".
Said = Mapping[str, str]

WITHDRAWN = "No longer applies."
_ONCE = " (this turn)"
_CARRIER = late(rf"^{re.escape(CONTEXT_BEGIN)}\n(.*?)\n{re.escape(CONTEXT_END)}$", re.MULTILINE | re.DOTALL)
_HEADING = late(r"^## (.+)$", re.MULTILINE)
_POSING = late(r"^([ \t]*)(##[ \t])", re.MULTILINE)


def render_volatile(sections: Iterable[Section], said: Said) -> tuple[str, dict[str, str]]:
    """Return the carrier for this turn, empty if there is nothing new, and what has been said with it.

    `said` is what the turns since the last compaction said (`said_in`); after a compaction it is empty, and everything
    is said again.
    """
    now = dict(said)
    parts: list[str] = []
    present: set[str] = set()
    for section in sections:
        name, text, word = _spoken(section)
        if text in {"", WITHDRAWN}:
            continue
        present.add(name)
        if said.get(name) != word:
            parts.append(_part(name, text, once=section.once))
            now[name] = word
    for name in [name for name, word in said.items() if name not in present and word.startswith("held:")]:
        parts.append(_part(name, WITHDRAWN, once=False))
        del now[name]
    if not parts:
        return "", now
    return "\n".join([CONTEXT_BEGIN, *parts, CONTEXT_END]), now


def said_in(contexts: Iterable[str]) -> dict[str, str]:
    """Read back from stored carriers, oldest first, what has been said; damaged ones say nothing."""
    said: dict[str, str] = {}
    for context in contexts:
        for carrier in _CARRIER.finditer(context):
            # Split at headings there is a lead, then title and text in turn.
            pieces = _HEADING.split(carrier[1])
            for title, text in zip(pieces[1::2], pieces[2::2], strict=True):
                name, text = title.removesuffix(_ONCE), text.strip("\n")
                if text == WITHDRAWN:
                    said.pop(name, None)
                else:
                    said[name] = _word(text, once=title != name)
    return said


def said_in_view(view: View) -> dict[str, str]:
    """Return what the turns of a session said since its last compaction or reset; what a summary swallowed is unsaid.

    Turns that a compaction keeps word for word do not count either: after a compaction everything is said again.
    """
    turns = project(View(None, (), view.after))
    return said_in(turn.context for turn in turns if isinstance(turn, User))


@lru_cache(maxsize=64)
def _spoken(section: Section) -> tuple[str, str, str]:
    """Return a section's name and text as they may be said, and the word for it; most are the same from turn to turn."""
    text = _POSING.sub(r"\1\\\2", seal(section.text)).strip()
    return inline(section.name, 80).removesuffix(_ONCE), text, _word(text, once=section.once)


def _part(name: str, text: str, *, once: bool) -> str:
    return f"## {name}{_ONCE if once else ''}\n{text}"


def _word(text: str, *, once: bool) -> str:
    return f"{'once' if once else 'held'}:{sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"
