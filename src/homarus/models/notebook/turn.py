"""One step of the notebook: from the conversation and the offered tools to tool calls or an answer. Pure.

Each thing that a message asks for is a routine: given what its calls have returned so far it makes the next calls, or
says what came of it. The same conversation always gets the same step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256

from msgspec import Struct

from homarus.core.messages import Message, ToolCall, ToolResult, User
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.core.tools import ToolSpec
from homarus.models.notebook import evidence, phrases, words
from homarus.models.notebook.asks import may_tell, surely
from homarus.models.notebook.corrections import CHANGED, CORRECTS, bare, corrects
from homarus.models.notebook.days import days, spelled
from homarus.models.notebook.desk import NEW, OLD, PATH, TEXT, Desk, Got, Next, last_kept, last_told, wrong
from homarus.models.notebook.gloss import in_german, other_language
from homarus.models.notebook.grammar import Intent, Kind, finished, read_message
from homarus.models.notebook.language import read, related
from homarus.models.notebook.lists import on_list
from homarus.models.notebook.pages import all_notes, files, notes_of_a_day
from homarus.models.notebook.reader import Reader, SmallReader
from homarus.models.notebook.replaced import same_matter
from homarus.models.notebook.striking import ALL_TODOS, among, near, once, strike, strike_lines, take_off, undo
from homarus.models.notebook.summary import summarize, wants_summary

_DATE = late(r"\b\d{4}-\d{2}-\d{2}\b")
_CLOCK = late(r"\b\d{1,2}:\d{2}\b")
_OPINION = late(
    r"\b(?:prefers?|likes?|loves?|hates?|wants?|thinks?|favou?rite|dislikes?|mag|liebt|hasst)\b", re.IGNORECASE
)
_RETAIN = late(r"^## Retain[ \t]*$", re.MULTILINE | re.IGNORECASE)
_MISSING = late(r"no such|not found|does not exist|missing", re.IGNORECASE)
_ALARM = late(r"\A(.{1,40}?)\s+to\s+(?=\w)", re.IGNORECASE)

_WRITERS = {"memory_retain", "read", "write", "edit"}  # what a note is kept with
# What changes notes: one after the other, so that they stand in the order of the message and none undoes another.
_WRITING = frozenset(
    {
        Kind.KEEP,
        Kind.PASTE,
        Kind.TODO,
        Kind.REMIND,
        Kind.LOOK,
        Kind.DONE,
        Kind.TELLS_DONE,
        Kind.FORGET,
        Kind.UNLIST,
        Kind.UNDO,
    }
)
# What lines are found by that say who is whose wife, son or mother.
_FAMILY = "married wife husband son daughter mother father brother sister verheiratet Frau Mann Sohn Tochter Mutter Vater Bruder Schwester"


class Step(Struct, frozen=True):
    """What the notebook says next: words, calls, or both."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


def next_step(
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    system: str,
    now: datetime,
    reader: Reader = SmallReader(),  # noqa: B008 - it holds nothing
) -> Step:
    """Return the next step of the current turn; the reader tells which line answers a question."""
    start = max((i for i, message in enumerate(messages) if isinstance(message, User)), default=-1)
    if start < 0:
        return Step(words.say("help", german=False))
    user = messages[start]
    assert isinstance(user, User)
    if not tools and wants_summary(system, user.text):
        return Step(summarize(system, user.text))
    offered, german = {spec.name: spec for spec in tools}, in_german(user.text)
    desk = Desk(offered, _today(user, now), now, german, messages[:start], reader)
    results = {message.call_id: message for message in messages[start + 1 :] if isinstance(message, ToolResult)}
    calls: list[ToolCall] = []
    texts: list[str] = []
    writes = waits = False
    for at, intent in enumerate(read_message(user.text)):
        mark = f"note{start}x{at}x"
        got: list[ToolResult] = []
        while f"{mark}{len(got)}" in results:
            got.append(results[f"{mark}{len(got)}"])
        result = _ROUTINES.get(intent.kind, _fixed)(intent, got, desk)
        if isinstance(result, str):
            texts.append(result)
            continue
        if intent.kind in _WRITING:
            # Lines that are only retained may go together: the tool keeps their order.
            waits = waits or any(call.name != "memory_retain" for call in result)
            if writes and waits:
                continue
            writes = True
        calls += [ToolCall(f"{mark}{len(got) + n}", call.name, call.arguments) for n, call in enumerate(result)]
    return Step(calls=tuple(calls)) if calls else Step("\n\n".join(dict.fromkeys(text for text in texts if text)))


def _today(user: User, now: datetime) -> str:
    found = _DATE.search(user.context)
    return found.group(0) if found else now.strftime("%Y-%m-%d")


def _fixed(intent: Intent, got: Got, desk: Desk) -> Next:
    if intent.kind is Kind.SILENT:
        return "NO_REPLY"
    if intent.kind is Kind.HEARTBEAT:
        return "HEARTBEAT_OK"
    return desk.say(words.FIXED[intent.kind])


def _keep(intent: Intent, got: Got, desk: Desk) -> Next:
    """Write a line into today's note. A correction looks first for the line that it replaces."""
    text = single_line(intent.text, 2_000)
    if intent.kind in {Kind.TODO, Kind.REMIND}:
        text = "Todo: " + (_ALARM.sub(r"\1: ", text) if intent.kind is Kind.REMIND else text)
    if "memory_retain" not in desk.offered:
        return _append(text, got, desk)
    searched: list[ToolResult] = []
    old = None
    if intent.kind is Kind.KEEP and corrects(text) and (look := desk.look(bare(text), least=-1.0)):
        if not got:
            return [look]
        searched = [got[0]]
        old = same_matter(text, evidence.gathered([got[0].text]), last_kept(desk.before))
    extra: dict[str, object] = {"kind": "opinion"} if _OPINION.search(text) else {}
    if old is not None and "#L" in old.source:
        extra["supersedes"] = old.source
    if len(got) == len(searched):
        call = desk.call("memory_retain", {TEXT: text}, **extra)
        return [call] if call else desk.say("no_memory")
    if why := wrong(got[-1]):
        return desk.say("not_kept", why=why)
    cited = evidence.place(got[-1].text)
    shown = single_line(text, 200)
    said = desk.say("kept", text=shown, source=cited) if cited else desk.say("kept_bare", text=shown)
    if old is not None:
        said += "\n" + desk.say("replaces", quotes=desk.quote(old))
    return f"{said}\n{desk.say('no_alarm')}" if intent.kind is Kind.REMIND else said


def _append(text: str, got: Got, desk: Desk) -> Next:
    """Without a memory tool: put the bullet into today's note by hand, but only where nothing can get lost."""
    path, bullet = f"memory/{desk.today}.md", f"- {text}"
    if len(got) == 2:
        return (
            desk.say("not_kept", why=wrong(got[1]))
            if wrong(got[1])
            else desk.say("kept_bare", text=single_line(text, 200))
        )
    first = desk.call("read", {PATH: path}) if {"write", "edit"} <= set(desk.offered) else None
    if first is None or not got:
        return [first] if first else desk.say("no_memory")
    made = None
    if got[0].is_error and _MISSING.search(got[0].text):
        made = desk.call("write", {PATH: path, ("content", "text"): f"## Retain\n{bullet}\n"})
    elif got[0].is_error:
        return desk.say("not_kept", why=wrong(got[0]))
    elif len(headings := _RETAIN.findall(got[0].text)) == 1:
        made = desk.call("edit", {PATH: path, OLD: headings[0], NEW: f"{headings[0]}\n{bullet}"})
    return [made] if made else desk.say("no_append", path=path)


def _paste(intent: Intent, got: Got, desk: Desk) -> Next:
    """Keep a long message whole, as a note of its own; the same text has the same name, so nothing is ever overwritten."""
    name = f"memory/{desk.today}-{sha256(intent.text.encode()).hexdigest()[:8]}.md"
    call = desk.call("write", {PATH: name, ("content", "text"): f"{intent.text}\n"})
    if call is None:
        return _keep(Intent(Kind.KEEP, intent.text), got, desk)
    if not got:
        return [call]
    count = len(intent.text.splitlines())
    return desk.say("not_kept", why=wrong(got[0])) if wrong(got[0]) else desk.say("block", lines=count, source=name)


def _ask(intent: Intent, got: Got, desk: Desk, *, sure: bool = False) -> Next:
    """Search by the question, by other words for it, by the words for who is who, and by the names of the relatives it speaks of. `sure`: nothing but an answer is said."""
    look = desk.look(intent.text, least=-1.0)
    if look is None:
        return "" if sure else desk.say("no_search" if read(intent.text).words else "unknown")
    other = " ".join(filter(None, (related(intent.text), other_language(intent.text))))
    day = spelled(days(intent.text, desk.day, asked=True))
    family = _FAMILY if any(word.kin for word in read(intent.text).words) else ""
    first = [look, *(found for text in (other, day, family) if text and (found := desk.look(text)))]
    if not got:
        return first
    if why := wrong(got[0]):
        return "" if sure else desk.say("not_found", why=why)
    results = [result.text for result in got if not wrong(result)]
    names = evidence.more_names(intent.text, evidence.gathered(results)) if len(got) == len(first) else ""
    if names and (again := desk.look(f"{names} {intent.text}")):
        return [again]
    if got[-1].tool_name != "memory_get" and (source := evidence.hidden(intent.text, results, desk.reader)):
        path, _, line = source.partition("#L")
        if line.isdigit() and (exact := desk.call("memory_get", {PATH: path}, **{"from": int(line), "lines": 1})):
            return [exact]  # the index keeps no secrets; the owner's own note does
    return evidence.answer(intent.text, results, desk.reader, sure=sure, today=desk.day)


def _look(intent: Intent, got: Got, desk: Desk) -> Next:
    """Answer what may be a question and has no mark. It is kept, too, if it may tell something that the answer lacks; what nothing answers is kept unless it asks for sure."""
    in_doubt = not surely(intent.text)
    if CORRECTS.match(intent.text) or CHANGED.search(intent.text) or (in_doubt and corrects(intent.text)):
        return _keep(Intent(Kind.KEEP, intent.text), got, desk)
    kept = [result for result in got if result.tool_name in _WRITERS]
    looked = [result for result in got if result not in kept]
    said = _ask(intent, looked, desk, sure=in_doubt)
    if isinstance(said, list):
        return said
    if said and not (may_tell(intent.text) and _tells_more(intent.text, said, looked)):
        return f"{said}\n{desk.say('taken_for_question')}"
    done = _keep(Intent(Kind.KEEP, intent.text), kept, desk)
    if isinstance(done, list):
        return done
    return f"{said}\n{done}\n{desk.say('kept_too')}" if said else f"{done}\n{desk.say('if_question')}"


def _tells_more(text: str, said: str, looked: Got) -> bool:
    """Say whether a line has words that the lines quoted in an answer have not, beside those that only ask."""
    quoted = [line.text for line in evidence.gathered([result.text for result in looked]) if line.text in said]
    told = [word for line in quoted for word in read(line).parts]
    return any(not (word.asks or word.light or among(word, told)) for word in read(text).words)


def _told(intent: Intent, got: Got, desk: Desk) -> Next:
    """Keep a line; where it tells of an errand that was run, say which task like it is still open."""
    did = phrases.DID.fullmatch(intent.text.replace("’", "'"))
    look = desk.look(did[1]) if did and not corrects(intent.text) else None
    if did is None or look is None:
        return _keep(intent, got, desk)
    return _kept_with_task(intent, did[1], got, desk) if got else [look]


def _tells_done(intent: Intent, got: Got, desk: Desk) -> Next:
    """Tick off the task that a sentence says is finished, where it names that one and no other. Else it is told, and kept."""
    task = finished(intent.text)
    look = desk.look(task)
    if look is None:
        return _keep(Intent(Kind.KEEP, intent.text), got, desk)
    if not got:
        return [look]
    found = [line for line in evidence.gathered([got[0].text]) if line.todo]
    named = [line for line in found if _says_all(intent.text, task, evidence.bare_task(line.text))]
    if named and len(once(named)) == 1:
        return strike_lines([line.source for line in named], got[1:], desk, "ticked")
    return _kept_with_task(intent, task, got, desk)


def _kept_with_task(intent: Intent, task: str, got: Got, desk: Desk) -> Next:
    """Keep what was told, and name the open task that it may be about."""
    said = _keep(Intent(Kind.KEEP, intent.text), got[1:], desk)
    found = [line for line in evidence.gathered([got[0].text]) if line.todo and line.text != intent.text]
    open_ones = near(task, found, evidence.vectors([got[0].text]))
    if not isinstance(said, str) or not open_ones:
        return said
    return f"{said}\n{desk.say('still_open', quotes=desk.quote(open_ones[0]))}"


def _says_all(text: str, task: str, line: str) -> bool:
    """Say whether a sentence names a task by its words, the verb included, and speaks of nothing else. What is "erledigt" was a task, whatever its verb."""
    said, told = read(task).words, read(line).words
    verbless = re.search(r"\b(?:erledigt|abgehakt)\b", text, re.IGNORECASE) is not None
    least = max(1, len(told) - 1) if verbless or len(told) > 4 else len(told)
    return bool(said) and all(among(word, told) for word in said) and sum(among(word, said) for word in told) >= least


def _denied(intent: Intent, got: Got, desk: Desk) -> Next:
    """A bare "that's wrong" says nothing that could be kept: what is right is asked for."""
    last = last_told(desk.before)
    return desk.say("denied", quotes=desk.quote(last)) if last else desk.say("denied_nothing")


def _listed(intent: Intent, got: Got, desk: Desk) -> Next:
    return on_list(intent, got, desk, _ask(intent, got, desk))


def _todos(intent: Intent, got: Got, desk: Desk) -> Next:
    look = desk.look(ALL_TODOS)
    if look is None:
        return desk.say("no_search")
    if not got:
        return [look]
    if why := wrong(got[0]):
        return desk.say("not_found", why=why)
    found = once(sorted((line for line in evidence.gathered([got[0].text]) if line.todo), key=lambda line: line.order))
    listed = "".join(f"\n- {evidence.bare_task(line.text)} ({line.source})" for line in found)
    return desk.say("todos") + listed if found else desk.say("no_todos")


def _clock(intent: Intent, got: Got, desk: Desk) -> Next:
    call = desk.call("session_status", {})
    if call is not None and not got:
        return [call]
    if got and (why := wrong(got[0])):
        return desk.say(words.FAILED[intent.kind], why=why)
    if intent.kind is Kind.STATUS:
        return got[0].text.strip() if got else desk.say("no_status")
    lines = [line.strip() for line in got[0].text.splitlines() if _CLOCK.search(line)] if got else []
    timed = [line for line in lines if re.search(r"time|date|now|clock", line, re.IGNORECASE)] or lines
    return single_line(timed[0]) if timed else desk.say("clock", now=desk.now.strftime("%A, %Y-%m-%d %H:%M %Z").strip())


_ROUTINES: dict[Kind, Callable[[Intent, Got, Desk], Next]] = {
    **dict.fromkeys((Kind.TODO, Kind.REMIND), _keep),
    **dict.fromkeys((Kind.FORGET, Kind.DONE), strike),
    **dict.fromkeys((Kind.READ, Kind.LIST), files),
    **dict.fromkeys((Kind.TIME, Kind.STATUS), _clock),
    Kind.KEEP: _told,
    Kind.TELLS_DONE: _tells_done,
    Kind.PASTE: _paste,
    Kind.ASK: _ask,
    Kind.LOOK: _look,
    Kind.TODOS: _todos,
    Kind.TODAY: notes_of_a_day,
    Kind.NOTES: all_notes,
    Kind.UNDO: undo,
    Kind.DENIED: _denied,
    Kind.LISTED: _listed,
    Kind.UNLIST: take_off,
}
