"""What a message to the notebook asks for, by small rules that can be read off the table in the tests. Pure.

A line is one note, never torn: only a question or an instruction beside a statement is taken out of it.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from homarus.core.patterns import late
from homarus.models.notebook.asks import MAYBE, asks


class Kind(StrEnum):
    """What the notebook can do with a sentence."""

    KEEP = "keep"
    PASTE = "paste"
    TODO = "todo"
    REMIND = "remind"
    ASK = "ask"
    LOOK = "look"  # it may be a question: look first, and keep what nothing answers
    READ = "read"
    LIST = "list"
    TODOS = "todos"
    DONE = "done"
    FORGET = "forget"
    TODAY = "today"
    TIME = "time"
    STATUS = "status"
    HELP = "help"
    GREET = "greet"
    THANK = "thank"
    PART = "part"
    NOD = "nod"
    SELF = "self"
    BEYOND = "beyond"
    SILENT = "silent"
    HEARTBEAT = "heartbeat"


class Intent(Struct, frozen=True):
    """One thing that a message asks for; `text` is what it is about, in the words of the message."""

    kind: Kind
    text: str = ""


MAX_LINES, MAX_LENGTH = 8, 1_500  # a longer message is a paste: kept whole, as one block
_I = re.IGNORECASE
_S = re.IGNORECASE | re.DOTALL
_PLEASE = r"(?:(?:please|pls|bitte|hey|ok(?:ay)?|also|and|und)[,\s]+)*(?:(?:can|could|would|will) you (?:please )?|(?:kannst|könntest) du (?:bitte |mal )*)?"
_END = late(r"(?<=[.!?？。！؟])[\"”’')\]]*\s+(?=[^\W_]|[\"“„¿(-])")
# A full stop that ends a short form and no sentence, or that makes a number an ordinal ("am 2. Mai").
_SHORT = late(
    r"(?:^|[\s(])(?:[^\W\d_]|\d{1,2}|\w+\.\w+|dr|mr|mrs|ms|prof|rev|st|jr|sr|vs|ca|approx|bzw|nr|no|hr|fr|tel|str|ing|dipl|inkl|evtl|ggf|max|min|geb|abt"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|okt|nov|de[cz]|mon|tues?|wed|thu(?:rs)?|fri|sat|sun|mo|di|mi|do|sa|so)\.$",
    _I,
)
_ASKED = late(r"[?？؟][\s\"”')\]]*\Z")
# How a question begins that lacks its mark; "did my ankle in" begins so too, and `asks.py` decides.
_WH = r"(?:(?:what|which|who|whom|whose|when|where|why|how)(?:'s|s|'re)?|wann|wo|wer|wem|wen|was|wie|warum|wieso|woher|wohin|welche[rsmn]?)\b"
_OPENING = late(
    _WH
    + r"|(?:do|does|did|is|are|am|was|were|can|could|should|would|will|has|have|had|ist|sind|war|hat|habe|haben|kann|muss|soll|gibt|darf|weißt)\b",
    _I,
)
# "When I was six …" and "Wo die Schlüssel liegen: …" ask nothing: the verb does not stand before its subject.
_CLAUSE = late(
    _WH
    + r"\s+(?:i|we|you|he|she|it|they|the|my|our|your|his|her|their|a|an|to|ich|wir|du|er|es|man|der|die|das|den|mein\w*|unser\w*|ein\w*)\b",
    _I,
)
_KEEP = late(
    _PLEASE
    + r"(?:remember|note(?: down)?|keep in mind|memori[sz]e|write (?:down|this down)|make a note|take a note|save|store|record|jot down"
    r"|don'?t forget|do not forget|fyi|for the record|merke? (?:dir|es dir)?|notiere?(?: dir)?|schreib(?:e)? (?:dir )?auf|vergiss nicht|denk dran)"
    r"(?:,?\s+(?:that|this|the fact that|dass|of|bitte|folgendes))*\s*[:,–-]*\s+(.+)",
    _S,
)
_TODO = late(
    r"(?:to-?do|task|aufgabe|zu erledigen)\s*[:–-]\s*(.+)"
    rf"|{_PLEASE}(?:add|put|setze?|schreib(?:e)?|pack(?:e)?)\s+(.+?)\s+(?:to|on|onto|in|auf)\s+(?:my |the |our |meine |die )?(?:to-?do(?:s| list|-liste|liste)?|task list|list of tasks|aufgabenliste|liste)[.!]*"
    r"|(?:(?:i|we) (?:still )?(?:need|have|ought) to|(?:i|we) must(?! (?:have|be))|(?:i|we)(?:'ve| have) got to|don'?t let me forget to|remember to|don'?t forget to)\s+(.+)"
    r"|((?:ich|wir) (?:muss|müssen|soll|sollte|sollten) (?:noch |unbedingt |dringend )*.+)",
    _S,
)
# An errand, told as one tells it to oneself: it is kept as a to-do.
_ERRAND = late(
    r"(?:call|ring|phone|buy|pay|pick up|renew|return|collect|drop off|water|feed|clean|wash|fix|replace|visit|post|cancel|reply to"
    r"|mow|iron|pack|get|schedule|bring|hand in|drop)\s+(?!(?:\S+\s+){0,3}(?:is|are|was|were|has|have|costs?|comes?|goes|ist)\b).+",
    _S,
)
_SEARCH = late(
    rf"{_PLEASE}(?:search|look)\s+(?:in )?(?:my\s+|your\s+|the\s+)?(?:memory|notes?)?\s*(?:for|up|about)\s+(.+)"
    rf"|{_PLEASE}(?:recall|find|look up|tell me(?! a (?:joke|story))(?: again)?(?: about)?|remind me (?:again )?(?=wh|how)|i forgot (?=wh|how|my|the))\s*(.+)"
    rf"|{_PLEASE}(?:such(?:e)?|finde?|sag(?:e)? mir|erzähl(?:e)?(?: mir)?(?: von| über)?|schau(?:e)? nach)\s+(?:in (?:meinen|den) notizen\s+)?(?:nach\s+)?[,:]?\s*(.+)",
    _S,
)
_READ = late(
    rf"{_PLEASE}(?:read|show(?: me)?|open|cat|print|display|lies|zeig(?:e)?(?: mir)?|öffne)\s+(?:me\s+)?(?:the\s+|die\s+)?(?:file\s+|datei\s+)?[`'\"]?"
    r"([\w./~@-]*[\w-]+\.[A-Za-z0-9]{1,8}|(?:[\w.~-]+/)+[\w.-]+)[`'\"]?\s*[.!]?\Z",
    _I,
)
_LIST = late(
    rf"(?:{_PLEASE}(?:list|show(?: me)?|zeig(?:e)?(?: mir)?|liste)\s+(?:all\s+|the\s+|my\s+|your\s+|alle\s+|die\s+|meine\s+)*(?:files|folder|directory|workspace|dateien|ordner)(?:\s+(?:in|of|under)\s+|\s+auf)?"
    r"|ls\b|dir\b|(?:what|which) files (?:are|do)\b(?:\s+(?:there|here|you have|i have|we have))?(?:\s+(?:in|under)\s+)?)"
    r"\s*[`'\"]?([\w./~-]*)[`'\"]?\s*[.?!]?\Z",
    _I,
)
_TASKS = r"(?:to-?dos?|to-?do[ -]?list(?:e)?|tasks?|open (?:tasks|items|todos)|task list|aufgaben(?:liste)?|offene[n]? (?:aufgaben|punkte|todos)|errands)"
_TODOS = late(
    rf"{_PLEASE}(?:list|show|show me|read|tell me|give me|what(?:'s| is| are)|which|zeig(?:e)?(?: mir)?|nenn(?:e)? mir|liste|was sind|welche|was steht auf)\s*(?:all |on |me |in |of )*(?:my |the |our |meine[rn]? |die |der |are my )*(?:open |current |offenen )?{_TASKS}\b(?:\s+(?:auf|an|list|do i have|are (?:left|open|there)|habe ich|gibt es|sind offen))?[\s.?!]*"
    rf"|(?:my |meine )?{_TASKS}[\s.?!]*|(?:do i have |any |habe ich |gibt es )+(?:any |noch )*{_TASKS}\b.{{0,20}}"
    r"|what (?:do|must|should) (?:i|we) (?:still )?(?:have to|need to|got to)? ?do(?: today| now| still| this week| next)?[\s.?!]*"
    r"|what(?:'s| is) (?:left|still open|next) to do\??|was (?:muss|soll) ich (?:noch |heute )*(?:tun|machen|erledigen)[\s.?!]*|was (?:ist|gibt es|steht) (?:noch )?(?:zu tun|zu erledigen|an)[\s.?!]*",
    _S,
)
_DONE = late(
    r"(?:done|finished|erledigt|fertig|check(?:ed)? off|tick(?:ed)? off|hake? ab)\s*[:,–-]?\s+(.+)|(?:mark|tick|check|streich(?:e)?)\s+(.+?)\s+(?:as (?:done|finished)|off|als erledigt|ab)[.!]*"
    r"|(?:i(?:'ve| have)? (?:already )?(?:done|finished|completed|took care of|dealt with))\s+(.+)|(.+?) (?:is done|has been done|ist erledigt|habe ich erledigt)[.!]*",
    _S,
)
_FORGET = late(
    rf"{_PLEASE}(?:forget|delete|remove|erase|strike|drop|scrap)\s+(?![^,]*,\s+\S+\s+\S+\s+\S)(?:about\s+|the (?:note|line|fact|entry) (?:about|on|that|with)\s+|what i (?:said|told you) about\s+|that (?=\S+ \S))?(.+)"
    rf"|{_PLEASE}(?:vergiss|lösche?|entferne?|streiche?)\s+(?:bitte\s+)?(?:die notiz (?:über|zu|mit|von)\s+|was ich (?:dir )?über\s+|dass\s+)?(.+)"
    r"|(undo|scratch that|never mind that|take that back|strike that|rückgängig(?: machen)?|streich das|nimm das zurück)[\s.!]*",
    _S,
)
LAST_ONE = late(r"(?:that|this|it|the last (?:one|note|line|thing)|das|dies|es|die letzte (?:notiz|zeile)|das letzte|undo|scratch that|never mind that|take that back|strike that|rückgängig(?: machen)?|streich das|nimm das zurück|das (?:wieder|bitte|von eben)|that again)[\s.!]*", _I)  # fmt: skip
_TIME = late(
    r"(?:what(?:'s| is)?|tell me|do you know)\s*(?:the\s+)?(?:current\s+)?(?:time|date|day|today'?s date)\b(?: is it| it is| now| today| please)*[\s?.!]*"
    r"|what (?:time|day|date) is (?:it|today)\b.{0,24}|(?:time|date)\s*[?]?|wie spät ist es.{0,12}|wie viel uhr ist es.{0,12}|welche[rsn]? (?:tag|datum) (?:ist|haben wir)(?: heute)?\??|der wievielte ist heute\??",
    _I,
)
_STATUS = late(r"/?status\s*[.?!]?|(?:show|what(?:'s| is)) (?:the |your |my )?(?:session )?status\b.{0,16}", _I)
_HELP = late(
    r"/?(?:help|hilfe)\s*(?:me)?[.?!]?|[?]+|what can (?:you|i) do\b(?: here| with you| for me)?[?.!]*|who are you\b.*|what are you\b.*|(?:which|what) (?:model|llm|ai)\b(?:.*\b(?:you|this|here|use|using|run|running))?[?.!]*|was kannst du\b.*|wer bist du\b.*|was bist du\b.*|wie funktionierst du\b.*"
    r"|how (?:do you|does this) work\b.*|are you (?:an? )?(?:ai|llm|gpt|claude|real|bot|human)\b.*|how (?:do|can) i (?:connect|add|use|set ?up|configure|change|switch)\b.*"
    r"(?:model|llm|key|provider|claude|gpt|ollama)\b.*|(?:connect|switch|change|use) (?:to )?(?:a |another )?(?:real )?model\b.*",
    _I,
)
_GREET = late(r"(?:hi|hello|hey|good (?:morning|evening|afternoon)|hallo|moin|servus|grüß dich|guten (?:morgen|tag|abend)|hola|bonjour|ping)\b[\s\w,]{0,12}[.!]*", _I)  # fmt: skip
_THANK = late(r"(?:thanks?|thank you|thx|cheers|danke|vielen dank|merci|gracias)\b[\s\w,]{0,20}[.!]*", _I)
_PART = late(r"(?:bye(?: bye)?|goodbye|good night|see you|gute nacht|tschüss|auf wiedersehen|bis (?:bald|morgen|später)|ciao)\b[\s\w]{0,12}[.!]*", _I)  # fmt: skip
_NOD = late(
    r"(?:ok(?:ay)?|great|cool|nice|perfect|super|yes|no|nope|yep|sure|fine|alright|all right|got it|ja|nein|genau|gut|prima|klar|passt)\b[\s,]*(?:then|great|thanks|good|cool|danke|dann|gut)?[.!]*|(?:test|testing|asdf)[.!\d]*|[^\w?]+",
    _I,
)
_SELF = late(
    r"how (?:are|r) (?:you|u)\b.*|how(?:'s| is) it going\b.*|wie geht(?:'s| es)?(?: dir)?[\s?.!]*|are you\b.*|bist du\b.*|who (?:made|built|wrote|created) you\b.*|what(?:'s| is) your name\b.*|wie heißt du\b.*"
    r"|(?:is|are) my (?:data|notes?)\b.*(?:safe|private|secure|sent|stored|kept)\b.*|where (?:is|are) my (?:data|notes?)(?: kept| stored| saved)?[?.!]*|wo (?:sind|liegen) meine (?:daten|notizen)\b.*"
    r"|(?:can|could|do) you (?!tell|find|look|search|remember|recall|note|keep|show|read|list|know)\b.*\?|kannst du (?!mir sagen|dich|finden|nachsehen|zeigen)\b.*\?",
    _I,
)
_TODAY = late(
    r"what (?:did|have) (?:i|we) (?:tell|told|say|said|note|noted|write|written)(?: to)?(?: you)?(?: down)?(?: today| so far)?[?.!]*"
    r"|what(?:'s| is) (?:in|on) (?:my |your |the )?(?:memory|notes?)[?.!]*|(?:show|list)(?: me)? (?:all )?(?:my |the |your )?(?:memory|notes?)[?.!]*"
    r"|what do you (?:know|remember)(?: about (?:me|us))?[?.!]*|was (?:habe ich|hab ich) (?:dir )?(?:heute )?(?:gesagt|erzählt|notiert)[?.!]*|(?:zeig|zeige)(?: mir)? (?:meine |die )?notizen[?.!]*|was weißt du(?: über (?:mich|uns))?[?.!]*",
    _I,
)
_REMIND = late(
    rf"{_PLEASE}(?:remind|wake|alert|ping|nudge)\s+me\b(?!\s+(?:again\s+)?(?:wh|how))\s*(?:to\s+|that\s+|of\s+|about\s+)?(.+)|{_PLEASE}erinnere? mich\s*(?:bitte\s+)?(?:daran,?\s+)?(.+)",
    _S,
)
# Work for a model that understands, or for tools that a notebook does not use. Verbs that also begin a note ("call mum") are not among these.
_BEYOND = late(
    _PLEASE
    + r"(?:translate|summari[sz]e|explain|calculate|compute|solve|generate|compose|paraphrase|proofread|rewrite|brainstorm|google|browse|run|execute|install"
    r"|look (?:at|into|through|over|(?:this|that|it) up)|go through|go over|say (?:a|an|one|something|hello|it)|think about|tell (?:him|her|them)|find out|figure out|sing|draw|paint|analy[sz]e|convert|compare|suggest|recommend|debug|refactor|download|send|email|text|order|play|turn (?:on|off|up|down)|switch (?:on|off)|start|stop"
    r"|set (?:an?|the|my) (?:timer|alarm|reminder)|open|close|plan|check|help me|teach|describe|imagine|pretend|act as|ignore|answer|reply|respond|repeat|count|sort|list|show|print"
    r"|übersetze?|fasse?|erkläre?|berechne?|rechne|schreib(?:e)?|erstell(?:e)?|generiere?|schick(?:e)?|sende?|bestell(?:e)?|buche?|spiel(?:e)?|mach(?:e)?|stell(?:e)?|schalte?|öffne?|plane?|prüfe?|vergleiche?|empfiehl|hilf|zeig(?:e)?|liste?|such(?:e)?|gib|antworte?|starte?|installiere?)\b(?!\s*[:=]|\s+(?:is|are|was|ist|sind|war|date|time|day)\b|\w*'s\b|-)\s+\S.*"
    rf"|{_PLEASE}(?:write|draft|make|create|give|book)(?: me)? (?:an?|some|the|my)\b.+"
    rf"|{_PLEASE}(?:search|look (?:it )?up on) the (?:web|internet)\b.*|{_PLEASE}tell me a (?:joke|story)\b.*|erzähl(?:e)? (?:mir )?(?:einen|eine) (?:witz|geschichte)\b.*|ignore (?:all|your|previous)\b.*",
    _S,
)
_HEARTBEAT = late(r"HEARTBEAT_OK")
_FLUSH = late(r"NO_REPLY")
_FLUSH_TOPIC = late(r"compact|durable|memory|nothing to (?:store|save|keep)|flush", _I)

_WHOLE = (
    (_HELP, Kind.HELP),
    (_TIME, Kind.TIME),
    (_STATUS, Kind.STATUS),
    (_GREET, Kind.GREET),
    (_THANK, Kind.THANK),
    (_PART, Kind.PART),
    (_NOD, Kind.NOD),
    (_TODOS, Kind.TODOS),
    (_TODAY, Kind.TODAY),
    (_SELF, Kind.SELF),
)
# Those whose text is what stands behind the words that name them, in this order.
_ABOUT = (
    (_LIST, Kind.LIST),
    (_READ, Kind.READ),
    (_TODO, Kind.TODO),
    (_KEEP, Kind.KEEP),
    (_FORGET, Kind.FORGET),
    (_REMIND, Kind.REMIND),
    (_DONE, Kind.DONE),
    (_SEARCH, Kind.ASK),
)
# Said beside something else, these need no answer of their own.
_MANNERS = frozenset({Kind.GREET, Kind.THANK, Kind.PART, Kind.NOD})
_FILE = late(r'<file name="([^"\n]*)">\n?(.*?)</file>', re.DOTALL)
_THIS = late(r"(?:please )?(?:(?:remember|keep|note|save|store|merk dir|notiere?|behalte?) )?(?:this|that|it|these|the file|das|dies|die datei)[.!:]*", _I)  # fmt: skip
_MARK = late(r"\A\s*(?:[-*+•–]|\d{1,2}[.)])\s+(?=\D)")


def read_message(text: str) -> tuple[Intent, ...]:
    """Return what a message asks for, in its order. A line is one note; a long message is one block, and so is a file."""
    if files := _FILE.findall(text):
        words = _FILE.sub("", text).strip()
        said = read_message(words) if words else ()
        if any(intent.kind not in {Kind.KEEP, Kind.TODO} for intent in said):
            return (Intent(Kind.BEYOND, words),)  # work on what came along
        told = tuple(intent for intent in said if not _THIS.fullmatch(intent.text))
        return (*told, *(Intent(Kind.PASTE, f"{name}:\n{body.strip()}") for name, body in files))
    text = text.strip()
    if not text:
        return (Intent(Kind.HELP),)
    if _HEARTBEAT.search(text):
        return (Intent(Kind.HEARTBEAT),)
    if _FLUSH.search(text) and _FLUSH_TOPIC.search(text):
        return (Intent(Kind.SILENT),)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and len(text) <= MAX_LENGTH:
        said = _line(text)
        return (Intent(Kind.LOOK, text),) if said == (Intent(Kind.KEEP, text),) and _may_ask(text) else said
    first = read_sentence(lines[0])
    if first.kind in {Kind.BEYOND, Kind.ASK} and len(lines) > 1 and (len(lines) > MAX_LINES or lines[0].endswith(":")):
        return (Intent(Kind.BEYOND, lines[0]),)  # work on what follows it
    if len(lines) > MAX_LINES or len(text) > MAX_LENGTH or "```" in text:
        return (Intent(Kind.PASTE, text),)
    if lines[0].endswith(":") and first.kind in {Kind.KEEP, Kind.TODO}:
        rest = ", ".join(_MARK.sub("", line).rstrip(",;") for line in lines[1:])
        lead = first.text if _KEEP.fullmatch(lines[0]) else lines[0]
        return (
            Intent(
                Kind.KEEP,
                rest
                if re.fullmatch(r"(?:this|these|following|the following|folgendes)?:", lead, _I)
                else f"{lead} {rest}",
            ),
        )
    found = [intent for line in lines for intent in _line(_MARK.sub("", line))]
    return tuple(dict.fromkeys(intent for intent in found if intent.kind not in _MANNERS)) or (found[0],)


def _line(text: str) -> tuple[Intent, ...]:
    """Read one line: statements stay together as they were written, whatever stops they hold."""
    whole = read_sentence(text)
    ends = [
        end
        for end in _END.finditer(text)
        if not _SHORT.search(text[: end.start()]) or _begins_question(text[end.end() :])
    ]
    if not ends or whole.kind not in {Kind.KEEP, Kind.ASK, Kind.GREET, Kind.THANK, Kind.NOD, Kind.BEYOND, Kind.TODO}:
        return (whole,)
    found: list[Intent] = []
    start = kept = 0
    for at, end in [(mark.start(), mark.end()) for mark in ends] + [(len(text), len(text))]:
        part = read_sentence(text[start:at])
        told = part.kind in {Kind.KEEP, Kind.TODO, Kind.DONE}
        # "Actually" and "Also" before a stop, and the rest of "on Dec. 3.", are parts of what is told.
        if told and found and found[-1].kind in {Kind.KEEP, Kind.TODO}:
            found[-1] = read_sentence(text[kept:at])
        elif part.kind not in _MANNERS:
            kept = start if told else at
            found.append(read_sentence(text[start:at]) if told else part)
        start = end
    return tuple(dict.fromkeys(found)) or (whole,)


def _begins_question(text: str) -> bool:
    return text[:1].isupper() and "?" in text and _OPENING.match(text) is not None


def _may_ask(text: str) -> bool:
    return not _CLAUSE.match(text) and asks(text) >= MAYBE


def read_sentence(text: str) -> Intent:
    """Return what one sentence asks for."""
    text = text.strip()
    for pattern, kind in _WHOLE:
        if pattern.fullmatch(text):
            return Intent(kind)
    asked = bool(_ASKED.search(text))
    for pattern, kind in _ABOUT:
        if (found := pattern.fullmatch(text)) and (not asked or kind in {Kind.LIST, Kind.READ, Kind.ASK}):
            about = next((group for group in found.groups() if group), "").strip()
            return Intent(kind, about.rstrip("?") if kind is Kind.ASK else about or ".")
    # "summarise", alone, is an order without its object.
    if not asked and (_BEYOND.fullmatch(text) or _BEYOND.fullmatch(f"{text.rstrip('.!')} it")):
        return Intent(Kind.BEYOND, text)
    if asked or (_OPENING.match(text) and _may_ask(text)):
        return Intent(Kind.ASK, text)
    return Intent(Kind.TODO if _ERRAND.fullmatch(text) else Kind.KEEP, text)
