"""What a message to the notebook asks for, by small rules that can be read off the table in the tests. Pure."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from homarus.core.patterns import late
from homarus.core.text import STOP_WORDS


class Kind(StrEnum):
    """What the notebook can do with a sentence."""

    KEEP = "keep"
    ASK = "ask"
    READ = "read"
    LIST = "list"
    TIME = "time"
    STATUS = "status"
    HELP = "help"
    GREET = "greet"
    THANK = "thank"
    PART = "part"
    NOD = "nod"
    SELF = "self"
    TODAY = "today"
    REMIND = "remind"
    BEYOND = "beyond"
    FORGET = "forget"
    SILENT = "silent"
    HEARTBEAT = "heartbeat"


class Intent(Struct, frozen=True):
    """One thing that a message asks for; `text` is what it is about, in the words of the message."""

    kind: Kind
    text: str = ""


MAX_INTENTS = 6
_END = late(r"(?<=[.!?？。！؟])\s+|\n+")
# A full stop that ends a short form, and no sentence.
_SHORT = late(
    r"(?:^|[\s(])(?:dr|mr|mrs|ms|prof|st|jr|sr|vs|ca|approx|e\.g|i\.e|z\.b|d\.h|bzw|nr|hr|fr|tel)\.$",
    re.IGNORECASE,
)

_QUESTION_WORDS = (
    "what|what's|whats|when|when's|where|where's|who|who's|whom|whose|which|why|how|how's|do|does|did|is|are|am|was|were|"
    "can|could|should|would|will|has|have|had|wann|wo|wer|was|wie|warum|welche[rs]?|quand|où|qui|que|quel|quelle|comment|"
    "pourquoi|cuándo|dónde|quién|qué|cómo|cuál"
)
_QUESTION = late(rf"(?:{_QUESTION_WORDS})\b", re.IGNORECASE)
_ASKED = late(r"[?？؟]\s*\Z")
_KEEP = late(
    r"(?:please\s+)?(?:can you\s+|could you\s+)?(?:remember|note(?: down)?|keep in mind|memori[sz]e|write down|make a note|"
    r"take a note|save|store|record|don'?t forget|do not forget|fyi|for the record|merk(?:e)? dir|notiere?)"
    r"(?:\s+(?:that|this|the fact that|dass|of))?\s*[:,-]?\s+(.+)",
    re.IGNORECASE | re.DOTALL,
)
_SEARCH = late(
    r"(?:please\s+)?(?:search|look)\s+(?:my\s+|your\s+|the\s+)?(?:memory|notes?)?\s*(?:for|up|about)\s+(.+)"
    r"|(?:please\s+)?(?:recall|find|look up|tell me(?: again)?(?: about)?|what do you know about)\s+(.+)",
    re.IGNORECASE | re.DOTALL,
)
_READ = late(
    r"(?:please\s+)?(?:read|show(?: me)?|open|cat|print|display)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?[`'\"]?"
    r"([\w./~@-]*[\w-]+\.[A-Za-z0-9]{1,8}|(?:[\w.~-]+/)+[\w.-]+)[`'\"]?\s*[.!]?\Z",
    re.IGNORECASE,
)
_LIST = late(
    r"(?:please\s+)?(?:(?:list|show(?: me)?)\s+(?:all\s+|the\s+|my\s+|your\s+)*(?:files|folder|directory|workspace)(?:\s+(?:in|of|under)\s+)?"
    r"|ls\b|dir\b|(?:what|which) files (?:are|do)\b(?:\s+(?:there|here|you have|i have|we have))?(?:\s+(?:in|under)\s+)?)"
    r"\s*[`'\"]?([\w./~-]*)[`'\"]?\s*[.?!]?\Z",
    re.IGNORECASE,
)
_TIME = late(
    r"(?:what(?:'s| is)?|tell me|do you know)\s*(?:the\s+)?(?:current\s+)?(?:time|date|day|today'?s date)\b.{0,24}"
    r"|what (?:time|day|date) is (?:it|today)\b.{0,24}|(?:time|date)\s*[?]?",
    re.IGNORECASE,
)
_STATUS = late(
    r"/?status\s*[.?!]?|(?:show|what(?:'s| is)) (?:the |your |my )?(?:session )?status\b.{0,16}", re.IGNORECASE
)
_HELP = late(
    r"/?help\s*[.?!]?|[?]+|what can you do\b.*|who are you\b.*|what are you\b.*|(?:which|what) (?:model|llm|ai)\b.*|"
    r"are you (?:an? )?(?:ai|llm|gpt|claude|real|bot|human)\b.*|how (?:do|can) i (?:connect|add|use|set ?up|configure|change|switch)\b.*"
    r"(?:model|llm|key|provider|claude|gpt|ollama)\b.*|(?:connect|switch|change|use) (?:to )?(?:a |another )?(?:real )?model\b.*",
    re.IGNORECASE,
)
_GREET = late(
    r"(?:hi|hello|hey|good (?:morning|evening|afternoon)|hallo|moin|hola|bonjour|ping)\b[\s\w]{0,12}[.!]*",
    re.IGNORECASE,
)
_THANK = late(r"(?:thanks?|thank you|thx|cheers|danke|merci|gracias)\b[\s\w]{0,20}[.!]*", re.IGNORECASE)
_PART = late(r"(?:bye(?: bye)?|goodbye|good night|see you|gute nacht|tschüss|ciao)\b[\s\w]{0,12}[.!]*", re.IGNORECASE)
_NOD = late(
    r"(?:ok(?:ay)?|great|cool|nice|yes|no|nope|yep|sure|fine|alright|all right)\b[\s\w]{0,12}[.!]*|[^\w?]+",
    re.IGNORECASE,
)
_SELF = late(
    r"how (?:are|r) (?:you|u)\b.*|how(?:'s| is) it going\b.*|are you\b.*|who (?:made|built|wrote|created) you\b.*"
    r"|(?:is|are) my (?:data|notes?)\b.*(?:safe|private|secure|sent|stored|kept)\b.*|where (?:is|are) my (?:data|notes?)\b.*"
    r"|(?:can|could|do) you (?!tell|find|look|search|remember|recall|note|keep|show|read|list|know)\b.*\?",
    re.IGNORECASE,
)
_TODAY = late(
    r"what (?:did|have) (?:i|we) (?:tell|told|say|said|note|noted|write|written)(?: to)?(?: you)?(?: today| so far)?[?.!]*"
    r"|what(?:'s| is) (?:in|on) (?:my |your |the )?(?:memory|notes?)[?.!]*|(?:show|list)(?: me)? (?:my |the |your )?(?:memory|notes?)[?.!]*"
    r"|what do you (?:know|remember)(?: about (?:me|us))?[?.!]*",
    re.IGNORECASE,
)
_REMIND = late(r"(?:please\s+)?(?:remind|wake|alert|ping)\s+me\b.+|erinnere? mich\b.+", re.IGNORECASE | re.DOTALL)
# Work for a model that understands. Verbs that also begin a note ("call mum", "buy milk") are not among these.
_BEYOND = late(
    r"(?:please\s+)?(?:can you |could you )?(?:translate|summari[sz]e|explain|calculate|compute|solve|generate|compose|paraphrase"
    r"|proofread|rewrite|brainstorm|google|browse|run|execute|install|sing|draw|paint|übersetze?)\b.+"
    r"|(?:please\s+)?(?:can you |could you )?(?:write|draft|make|create|give)(?: me)? (?:an?|some|the)\b.+"
    r"|(?:please\s+)?(?:search|look (?:it )?up on) the (?:web|internet)\b.*|(?:please\s+)?tell me a (?:joke|story)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_FORGET = late(r"(?:please\s+)?(?:forget|delete|remove|erase)\s+(?:that\s+|about\s+)?(.+)", re.IGNORECASE | re.DOTALL)
_HEARTBEAT = late(r"HEARTBEAT_OK")
_FLUSH = late(r"NO_REPLY")
_FLUSH_TOPIC = late(r"compact|durable|memory|nothing to (?:store|save|keep)|flush", re.IGNORECASE)


_WHOLE = (
    (_HELP, Kind.HELP),
    (_TIME, Kind.TIME),
    (_STATUS, Kind.STATUS),
    (_GREET, Kind.GREET),
    (_THANK, Kind.THANK),
    (_PART, Kind.PART),
    (_NOD, Kind.NOD),
    (_TODAY, Kind.TODAY),
    (_SELF, Kind.SELF),
)
# Said beside something else, these need no answer of their own.
_MANNERS = frozenset({Kind.GREET, Kind.THANK, Kind.PART, Kind.NOD})


def read_message(text: str) -> tuple[Intent, ...]:
    """Return what a message asks for, in its order; neighbouring statements stay together as they were written."""
    text = text.strip()
    if not text:
        return (Intent(Kind.HELP),)
    if _HEARTBEAT.search(text):
        return (Intent(Kind.HEARTBEAT),)
    if _FLUSH.search(text) and _FLUSH_TOPIC.search(text):
        return (Intent(Kind.SILENT),)
    whole = read_sentence(text)
    sentences = _sentences(text)
    if len(sentences) == 1 or whole.kind not in {Kind.KEEP, Kind.ASK}:
        return (whole,)
    found: list[Intent] = []
    for sentence in sentences:
        intent = read_sentence(_unbulleted(sentence))
        if intent.kind in _MANNERS:
            continue
        found.append(intent)
    return tuple(dict.fromkeys(found))[:MAX_INTENTS] or (whole,)


def _sentences(text: str) -> list[str]:
    parts, start = [], 0
    for end in _END.finditer(text):
        if "\n" in end[0] or not _SHORT.search(text, start, end.start()):
            parts.append(text[start : end.start()])
            start = end.end()
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def read_sentence(text: str) -> Intent:
    """Return what one sentence asks for."""
    for pattern, kind in _WHOLE:
        if pattern.fullmatch(text):
            return Intent(kind)
    if found := _LIST.fullmatch(text):
        return Intent(Kind.LIST, found.group(1) or ".")
    if found := _READ.fullmatch(text):
        return Intent(Kind.READ, found.group(1))
    if found := _FORGET.fullmatch(text):
        return Intent(Kind.FORGET, found.group(1).strip())
    if (found := _KEEP.fullmatch(text)) and not _ASKED.search(text):
        return Intent(Kind.KEEP, found.group(1).strip())
    if _REMIND.fullmatch(text):
        return Intent(Kind.REMIND, text)
    if _BEYOND.fullmatch(text):
        return Intent(Kind.BEYOND, text)
    if found := _SEARCH.fullmatch(text):
        return Intent(Kind.ASK, (found.group(1) or found.group(2)).strip().rstrip("?"))
    if _ASKED.search(text) or _QUESTION.match(text):
        return Intent(Kind.ASK, text)
    return Intent(Kind.KEEP, text)


def _unbulleted(text: str) -> str:
    return re.sub(r"\A(?:[-*+•]|\d+[.)])\s+", "", text)


# The notebook also talks a little German and French.
_STOP = STOP_WORDS | frozenset(
    [
        "am",
        "das",
        "dein",
        "der",
        "die",
        "du",
        "ein",
        "eine",
        "est",
        "hows",
        "ich",
        "im",
        "ist",
        "ive",
        "know",
        "la",
        "le",
        "les",
        "mein",
        "mine",
        "please",
        "remember",
        "sind",
        "still",
        "tell",
        "un",
        "une",
        "wann",
        "warum",
        "wer",
        "what's",
        "whats",
        "when's",
        "where's",
        "who's",
        "wie",
        "wo",
        "yes",
    ]
)
_WORD = late(r"[^\W_]+", re.UNICODE)


def content_words(text: str) -> frozenset[str]:
    """Return the words that carry meaning, cut to their stems so that `meetings` finds `meeting`."""
    words = (word.lower() for word in _WORD.findall(text.replace("'", "")))
    return frozenset(stem(word) for word in words if word not in _STOP and (len(word) > 1 or word.isdigit()))


def stem(word: str) -> str:
    """Return a crude stem: plural and verb endings off, if enough of the word stays."""
    for endings in (("ies", "es", "s"), ("ing", "ed")):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word[: -len(ending)] + ("y" if ending == "ies" else "")
                break
    return word
