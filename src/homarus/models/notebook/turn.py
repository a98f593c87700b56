"""One step of the notebook: from the conversation and the offered tools to tool calls or an answer. Pure.

Each thing that a message asks for is a routine: given what its calls have returned so far it makes the next calls, or
says what came of it. The same conversation always gets the same step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from hashlib import sha256
from typing import Any

from msgspec import Struct

from homarus.core.messages import Assistant, Message, ToolCall, ToolResult, User
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.core.tools import ToolSpec
from homarus.models.notebook import evidence, words
from homarus.models.notebook.asks import SURE, asks
from homarus.models.notebook.corrections import CHANGED, CORRECTS, bare, corrects
from homarus.models.notebook.days import days, spelled
from homarus.models.notebook.gloss import other_language
from homarus.models.notebook.grammar import LAST_ONE, Intent, Kind, finished, read_message
from homarus.models.notebook.language import Word, alike, read, related
from homarus.models.notebook.match import table
from homarus.models.notebook.reader import Reader, SmallReader
from homarus.models.notebook.replaced import same_matter
from homarus.models.notebook.summary import summarize, wants_summary
from homarus.models.notebook.words import say

MAX_SHOWN_LINES, MAX_SHOWN = 80, 6_000
_DATE = late(r"\b\d{4}-\d{2}-\d{2}\b")
_CLOCK = late(r"\b\d{1,2}:\d{2}\b")
_OPINION = late(
    r"\b(?:prefers?|likes?|loves?|hates?|wants?|thinks?|favou?rite|dislikes?|mag|liebt|hasst)\b", re.IGNORECASE
)
_RETAIN = late(r"^## Retain[ \t]*$", re.MULTILINE | re.IGNORECASE)
_MISSING = late(r"no such|not found|does not exist|missing", re.IGNORECASE)
_ALARM = late(r"\A(.{1,40}?)\s+to\s+(?=\w)", re.IGNORECASE)

# The names a parameter may have, by what we want to put into it.
_TEXT = ("text", "content", "fact", "note", "statement")
_QUERY = ("query", "question", "q", "text")
_PATH = ("path", "file_path", "file", "filename", "directory")
_PATTERN = ("pattern", "query", "regex")
_OLD, _NEW = ("oldText", "old_string", "old_text"), ("newText", "new_string", "new_text")
_WRITERS = {"memory_retain", "read", "write", "edit"}  # what a note is kept with
# What changes notes: one after the other, so that they stand in the order of the message and none undoes another.
_WRITING = frozenset(
    {Kind.KEEP, Kind.PASTE, Kind.TODO, Kind.REMIND, Kind.LOOK, Kind.DONE, Kind.TELLS_DONE, Kind.FORGET}
)
_MANY = {"maxResults": 50, "corpus": "memory"}
# What lines are found by that say who is whose wife, son or mother.
_FAMILY = "married wife husband son daughter mother father brother sister verheiratet Frau Mann Sohn Tochter Mutter Vater Bruder Schwester"

Got = Sequence[ToolResult]
Next = str | list[ToolCall]


class Step(Struct, frozen=True):
    """What the notebook says next: words, calls, or both."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class Desk(Struct, frozen=True):
    """What a routine works with, beside the results of its own calls."""

    offered: dict[str, ToolSpec]
    today: str
    now: datetime
    german: bool
    before: Sequence[Message]
    reader: Reader

    @property
    def day(self) -> date:
        try:
            return date.fromisoformat(self.today)
        except ValueError:
            return self.now.date()

    def say(self, name: str, **values: object) -> str:
        return say(name, self.german, **values)

    def quote(self, line: evidence.Line) -> str:
        return self.say("quote", text=line.text, source=line.source)

    def call(self, tool: str, wanted: dict[tuple[str, ...], str], **extra: object) -> ToolCall | None:
        """Return a call whose arguments fit the tool's own schema, or None when something it needs is not ours to give."""
        spec = self.offered.get(tool)
        if spec is None:
            return None
        properties = spec.parameters.get("properties") or {}
        arguments: dict[str, Any] = {}
        for names, value in wanted.items():
            name = next((name for name in names if name in properties), names[0] if not properties else None)
            if name is None:
                return None
            arguments[name] = value
        for name, given in extra.items():
            choices = (properties.get(name) or {}).get("enum")
            if name in properties and (not choices or given in choices):
                arguments[name] = given
        for name in spec.parameters.get("required") or ():
            if name not in arguments:
                choices = (properties.get(name) or {}).get("enum")
                if not choices:
                    return None
                arguments[name] = choices[0]
        return ToolCall("", spec.name, arguments)

    def look(self, query: str, least: float = 0.0) -> ToolCall | None:
        """Return a search of the notes by the best tool there is. Below 0 it also returns lines that share no word with the query."""
        for name in ("memory_search", "memory_recall"):
            if found := self.call(name, {_QUERY: query}, minScore=least, **_MANY):
                return found
        pattern = "|".join(sorted(re.escape(word) for word in re.findall(r"[^\W_]{3,}", query) if read(word).words))
        return self.call("grep", {_PATTERN: pattern, _PATH: "."}) if pattern else None


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
    offered, german = {spec.name: spec for spec in tools}, read(user.text).german
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


def _wrong(result: ToolResult) -> str:
    return single_line(result.text if result.is_error else evidence.complaint(result.text), 300)


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
        old = same_matter(text, evidence.gathered([got[0].text]), _last_kept(desk.before))
    extra: dict[str, object] = {"kind": "opinion"} if _OPINION.search(text) else {}
    if old is not None and "#L" in old.source:
        extra["supersedes"] = old.source
    if len(got) == len(searched):
        call = desk.call("memory_retain", {_TEXT: text}, **extra)
        return [call] if call else desk.say("no_memory")
    if why := _wrong(got[-1]):
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
            desk.say("not_kept", why=_wrong(got[1]))
            if _wrong(got[1])
            else desk.say("kept_bare", text=single_line(text, 200))
        )
    first = desk.call("read", {_PATH: path}) if {"write", "edit"} <= set(desk.offered) else None
    if first is None or not got:
        return [first] if first else desk.say("no_memory")
    made = None
    if got[0].is_error and _MISSING.search(got[0].text):
        made = desk.call("write", {_PATH: path, ("content", "text"): f"## Retain\n{bullet}\n"})
    elif got[0].is_error:
        return desk.say("not_kept", why=_wrong(got[0]))
    elif len(headings := _RETAIN.findall(got[0].text)) == 1:
        made = desk.call("edit", {_PATH: path, _OLD: headings[0], _NEW: f"{headings[0]}\n{bullet}"})
    return [made] if made else desk.say("no_append", path=path)


def _paste(intent: Intent, got: Got, desk: Desk) -> Next:
    """Keep a long message whole, as a note of its own; the same text has the same name, so nothing is ever overwritten."""
    name = f"memory/{desk.today}-{sha256(intent.text.encode()).hexdigest()[:8]}.md"
    call = desk.call("write", {_PATH: name, ("content", "text"): f"{intent.text}\n"})
    if call is None:
        return _keep(Intent(Kind.KEEP, intent.text), got, desk)
    if not got:
        return [call]
    count = len(intent.text.splitlines())
    return desk.say("not_kept", why=_wrong(got[0])) if _wrong(got[0]) else desk.say("block", lines=count, source=name)


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
    if why := _wrong(got[0]):
        return "" if sure else desk.say("not_found", why=why)
    results = [result.text for result in got if not _wrong(result)]
    names = evidence.more_names(intent.text, evidence.gathered(results)) if len(got) == len(first) else ""
    if names and (again := desk.look(f"{names} {intent.text}")):
        return [again]
    if got[-1].tool_name != "memory_get" and (source := evidence.hidden(intent.text, results, desk.reader)):
        path, _, line = source.partition("#L")
        if line.isdigit() and (exact := desk.call("memory_get", {_PATH: path}, **{"from": int(line), "lines": 1})):
            return [exact]  # the index keeps no secrets; the owner's own note does
    return evidence.answer(intent.text, results, desk.reader, sure=sure, today=desk.day)


def _look(intent: Intent, got: Got, desk: Desk) -> Next:
    """Answer what may be a question and has no mark. What nothing answers is kept, unless it asks for sure."""
    if CORRECTS.match(intent.text) or CHANGED.search(intent.text):
        return _keep(Intent(Kind.KEEP, intent.text), got, desk)
    kept = [result for result in got if result.tool_name in _WRITERS]
    said = _ask(intent, [result for result in got if result not in kept], desk, sure=asks(intent.text) < SURE)
    if isinstance(said, list):
        return said
    if said:
        return f"{said}\n{desk.say('taken_for_question')}"
    done = _keep(Intent(Kind.KEEP, intent.text), kept, desk)
    return f"{done}\n{desk.say('if_question')}" if isinstance(done, str) else done


def _strike(intent: Intent, got: Got, desk: Desk) -> Next:
    """Strike a line through: the last one that was kept, or the one that the words fit best. It stays in its file."""
    done = intent.kind is Kind.DONE
    last = _last_kept(desk.before) if LAST_ONE.fullmatch(intent.text) and not done else ""
    if not last and LAST_ONE.fullmatch(intent.text):
        return desk.say("no_such")
    rest = list(got)
    if not last:
        look = desk.look(intent.text)
        if look is None:
            return desk.say("no_search")
        if not rest:
            return [look]
        result = rest.pop(0)
        found = evidence.gathered([result.text])
        meant = [line for line in found if line.todo or not done]
        chosen = _chosen(intent.text, meant, evidence.vectors([result.text]))
        if len(chosen) != 1 or not _names(intent.text, chosen[0].text):
            listed = "".join(f"\n- {desk.quote(line)}" for line in chosen)
            return desk.say("which") + listed if chosen else desk.say("no_such")
        last = chosen[0].source
    return _edit_line(last, rest, desk, "ticked" if done else "struck")


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
    if len(named) == 1:
        return _edit_line(named[0].source, list(got[1:]), desk, "ticked")
    said = _keep(Intent(Kind.KEEP, intent.text), got[1:], desk)
    near = _chosen(task, found, evidence.vectors([got[0].text]))
    return f"{said}\n{desk.say('still_open', quotes=desk.quote(near[0]))}" if isinstance(said, str) and near else said


def _names(text: str, line: str) -> bool:
    """Say whether a line has most of the things that an instruction names; a verb alone ("buy") names none."""
    words = read(text).words
    things = [word for word in words if not (word.verb or word.light)] or list(words)
    told = read(line).parts
    return sum(_among(word, told) for word in things) > 0.6 * len(things)


def _says_all(text: str, task: str, line: str) -> bool:
    """Say whether a sentence names a task by its words, the verb included, and speaks of nothing else. What is "erledigt" was a task, whatever its verb."""
    said, told = read(task).words, read(line).words
    verbless = re.search(r"\b(?:erledigt|abgehakt)\b", text, re.IGNORECASE) is not None
    least = max(1, len(told) - 1) if verbless or len(told) > 4 else len(told)
    return bool(said) and all(_among(word, told) for word in said) and sum(_among(word, said) for word in told) >= least


def _among(word: Word, others: Sequence[Word]) -> bool:
    return any(max(alike(word, other), alike(other, word)) >= 0.65 for other in others)


def _edit_line(source: str, got: list[ToolResult], desk: Desk, said: str) -> Next:
    path, _, number = source.partition("#L")
    reading = desk.call("read", {_PATH: path})
    if reading is None or "edit" not in desk.offered:
        return desk.say("no_edit", source=source)
    if not got:
        return [reading]
    lines = got[0].text.splitlines()
    raw = lines[int(number) - 1] if number.isdigit() and int(number) <= len(lines) else ""
    line = evidence.parse(raw, source)
    if line.struck and len(got) == 1:
        return desk.say("no_such")
    if got[0].is_error or not line.text or lines.count(raw) != 1:
        return desk.say("no_edit", source=source)
    if len(got) == 1:
        call = desk.call("edit", {_PATH: path, _OLD: raw, _NEW: evidence.strike(raw)})
        return [call] if call else desk.say("no_edit", source=source)
    return desk.say("not_changed", why=_wrong(got[1])) if _wrong(got[1]) else desk.say(said, quotes=desk.quote(line))


def _chosen(text: str, found: Sequence[evidence.Line], kind: str) -> list[evidence.Line]:
    """Return the line that is meant, or the few between which one cannot tell; a line word for word is meant for sure."""
    same = [
        line
        for line in found
        if single_line(text).rstrip(".").lower() == evidence.bare_task(line.text).rstrip(".").lower()
    ]
    least = table().fits[kind].least
    order = [(score, line) for score, line in evidence.fitting(text, found, kind) if score >= least]
    return same[:1] or [line for score, line in order if score >= order[0][0] - evidence.CLOSE][:4]


def _last_kept(before: Sequence[Message]) -> str:
    """Return the citation of what was kept last in this conversation."""
    kept = {
        call.id
        for message in before
        if isinstance(message, Assistant)
        for call in message.calls
        if call.name == "memory_retain"
    }
    results = [
        message
        for message in before
        if isinstance(message, ToolResult) and message.call_id in kept and not message.is_error
    ]
    return evidence.place(results[-1].text) if results else ""


def _todos(intent: Intent, got: Got, desk: Desk) -> Next:
    look = desk.look("todo to-do task aufgabe erledigen")
    if look is None:
        return desk.say("no_search")
    if not got:
        return [look]
    if why := _wrong(got[0]):
        return desk.say("not_found", why=why)
    found = sorted((line for line in evidence.gathered([got[0].text]) if line.todo), key=lambda line: line.order)
    listed = "".join(f"\n- {evidence.bare_task(line.text)} ({line.source})" for line in found)
    return desk.say("todos") + listed if found else desk.say("no_todos")


def _files(intent: Intent, got: Got, desk: Desk) -> Next:
    path = f"memory/{desk.today}.md" if intent.kind is Kind.TODAY else intent.text
    call = desk.call("ls" if intent.kind is Kind.LIST else "read", {_PATH: path})
    if call is None or not got:
        return [call] if call else desk.say("no_files")
    if intent.kind is Kind.TODAY:
        return _today_note(got[0], desk)
    if why := _wrong(got[0]):
        return desk.say(words.FAILED[intent.kind], why=why, about=intent.text)
    return f"{intent.text}:\n\n{_shown(got[0].text)}"


def _today_note(result: ToolResult, desk: Desk) -> str:
    parsed = [] if result.is_error else [evidence.parse(line, "") for line in result.text.splitlines()]
    kept = [line.text for line in parsed if line.text and not line.struck]
    if not kept:
        return desk.say("nothing_today")
    return desk.say("today") + "".join(f"\n- {line}" for line in kept[:MAX_SHOWN_LINES])


def _clock(intent: Intent, got: Got, desk: Desk) -> Next:
    call = desk.call("session_status", {})
    if call is not None and not got:
        return [call]
    if got and (why := _wrong(got[0])):
        return desk.say(words.FAILED[intent.kind], why=why)
    if intent.kind is Kind.STATUS:
        return got[0].text.strip() if got else desk.say("no_status")
    lines = [line.strip() for line in got[0].text.splitlines() if _CLOCK.search(line)] if got else []
    timed = [line for line in lines if re.search(r"time|date|now|clock", line, re.IGNORECASE)] or lines
    return single_line(timed[0]) if timed else desk.say("clock", now=desk.now.strftime("%A, %Y-%m-%d %H:%M %Z").strip())


def _shown(text: str) -> str:
    lines = text.rstrip().splitlines()
    shown = "\n".join(lines[:MAX_SHOWN_LINES])[:MAX_SHOWN]
    return shown if shown == text.rstrip() else f"{shown}\n\n[… {len(lines)} lines in all]"


_ROUTINES: dict[Kind, Callable[[Intent, Got, Desk], Next]] = {
    **dict.fromkeys((Kind.KEEP, Kind.TODO, Kind.REMIND), _keep),
    **dict.fromkeys((Kind.FORGET, Kind.DONE), _strike),
    **dict.fromkeys((Kind.READ, Kind.LIST, Kind.TODAY), _files),
    **dict.fromkeys((Kind.TIME, Kind.STATUS), _clock),
    Kind.TELLS_DONE: _tells_done,
    Kind.PASTE: _paste,
    Kind.ASK: _ask,
    Kind.LOOK: _look,
    Kind.TODOS: _todos,
}
