"""An extractive summary of a conversation: sentences picked by rules, under the headings that were asked for. Pure.

Nothing is rephrased, so nothing can be made up; the newest request and the exact identifiers are always in it.
"""

from __future__ import annotations

import re

from homarus.core.patterns import late
from homarus.core.prompt import SUMMARY_HEADINGS
from homarus.core.text import single_line

AUDITED = SUMMARY_HEADINGS
MAX_ITEMS, MAX_IDENTIFIERS, MAX_ITEM, MAX_CHARS = 8, 40, 240, 12_000

_SPEAKER = late(r"^\[(User|Assistant|Assistant thinking|Assistant tool calls|Tool result)\]:[ \t]?", re.MULTILINE)
_HEADING = late(r"^#{2,3}[ \t]+(.+?)[ \t]*$", re.MULTILINE)
_SENTENCE = late(r"(?<=[.!?])\s+|\n+")
_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("constraint", late(r"\b(?:must|never|always|do not|don't|only|rule|require[sd]?|forbidden|prefers?|without)\b", re.IGNORECASE)),
    ("decision", late(r"\b(?:decid\w+|agreed?|chose|chosen|settled|going with|we(?:'ll| will) use|let's use|instead of)\b", re.IGNORECASE)),
    ("todo", late(r"\b(?:todo|to do|next|remaining|still (?:need|have)|need(?:s)? to|later|pending|follow[- ]?up|open)\b", re.IGNORECASE)),
)  # fmt: skip
_IDENTIFIERS = (
    late(r"https?://[^\s)>\]\"']+"),
    late(r"[\w.+-]+@[\w-]+\.[\w.]+"),
    late(r"(?<![\w/])(?:~|\.{1,2})?/?(?:[\w.-]+/)+[\w.-]+"),
    late(r"\b[\w-]+\.(?:py|md|json|toml|yaml|yml|ts|js|txt|sh|go|rs|html|css|sql|csv|pdf)\b"),
    late(r"\b[0-9a-f]{7,40}\b"),
    late(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2})?\b"),
    late(r"\bv?\d+\.\d+(?:\.\d+)*\b"),
    late(r"\b[A-Za-z]+_[A-Za-z0-9_]+\b|\b[A-Z]{2,}-\d+\b|#\d+\b"),
)


def wants_summary(system: str, text: str) -> bool:
    """Say whether a request asks for a summary of a conversation rather than for an answer in one."""
    asked = f"{system}\n{text}"
    listed = sum(heading in asked for heading in AUDITED)
    return bool(_SPEAKER.search(text)) and (listed >= 3 or "summar" in asked.lower())


def summarize(instructions: str, text: str) -> str:
    """Return a summary of the conversation inside `text`, under the headings that the instructions list."""
    turns = _turns(text)
    lead = text[: _SPEAKER.search(text).start()] if turns and _SPEAKER.search(text) else text  # type: ignore[union-attr]
    previous = _sections(lead) if "<previous" in lead or "previous summary" in lead.lower() else {}
    picked = _pick(turns)
    asked = f"{instructions}\n{lead}"
    headings = list(AUDITED)
    if sum(heading in asked for heading in AUDITED) < 3:
        headings = list(dict.fromkeys(_HEADING.findall(asked)))[:12] or headings
    blocks = []
    for heading in headings:
        items = [*previous.get(_plain(heading), []), *picked.get(_topic(heading), [])]
        limit = MAX_IDENTIFIERS if _topic(heading) == "identifier" else MAX_ITEMS
        unique = list(dict.fromkeys(items))[-limit:]
        blocks.append(f"## {heading}\n" + ("\n".join(f"- {item}" for item in unique) if unique else "- None noted."))
    return "\n\n".join(blocks)[:MAX_CHARS]


def _turns(text: str) -> list[tuple[str, str]]:
    marks = list(_SPEAKER.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return [
        (mark.group(1), re.sub(r"</?[\w-]+>", "", text[mark.end() : end]).strip())
        for mark, end in zip(marks, ends, strict=True)
    ]


def _pick(turns: list[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {
        "decision": [],
        "todo": [],
        "constraint": [],
        "ask": [],
        "identifier": [],
        "done": [],
    }
    for speaker, words in turns:
        if speaker in {"User", "Assistant"}:
            for sentence in _SENTENCE.split(words):
                topic = next((name for name, rule in _RULES if rule.search(sentence)), None)
                if topic and sentence.strip():
                    found[topic].append(single_line(sentence, MAX_ITEM))
        if speaker == "Assistant" and words:
            found["done"].append(single_line(words, MAX_ITEM))
    users = [words for speaker, words in turns if speaker == "User" and words]
    last_reply = max((i for i, (speaker, _) in enumerate(turns) if speaker == "Assistant"), default=-1)
    open_asks = [words for speaker, words in turns[last_reply + 1 :] if speaker == "User" and words]
    found["ask"] = [single_line(words, 2 * MAX_ITEM) for words in (open_asks or users[-1:])]
    found["identifier"] = identifiers("\n".join(words for _, words in turns))
    return found


def identifiers(text: str) -> list[str]:
    """Return paths, addresses, numbers and names that must survive word for word, newest last."""
    spots = {match.group(0).rstrip(".,;:"): match.start() for rule in _IDENTIFIERS for match in rule.finditer(text)}
    kept = sorted((start, name) for name, start in spots.items() if len(name) > 2)
    return [name for _, name in kept][-MAX_IDENTIFIERS:]


def _sections(text: str) -> dict[str, list[str]]:
    parts = _HEADING.split(text)
    bullets = re.compile(r"^[-*][ \t]+(.+)$", re.MULTILINE)
    return {
        _plain(name): [item for item in bullets.findall(body) if item != "None noted."]
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def _plain(heading: str) -> str:
    return re.sub(r"[^a-z]+", " ", heading.lower()).strip()


def _topic(heading: str) -> str:
    name = _plain(heading)
    for topic, words in (
        ("identifier", ("identifier", "critical context", "files")),
        ("decision", ("decision",)),
        ("constraint", ("constraint", "rule", "preference")),
        ("todo", ("todo", "next", "remaining", "blocked")),
        ("ask", ("ask", "goal", "request", "task", "question")),
        ("done", ("done", "progress", "completed", "what happened")),
    ):
        if any(word in name for word in words):
            return topic
    return "done"
