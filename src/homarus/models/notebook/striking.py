"""Striking lines of notes through: which are meant, how they are found in their file, and how a strike is taken back. Pure.

A struck line stays in its file. What it had replaced goes with it, or a value that holds no more would be quoted again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from homarus.core.messages import Assistant, Message, ToolCall, ToolResult, User
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.models.notebook import evidence, lists, phrases
from homarus.models.notebook.desk import NEW, OLD, PATH, PATTERN, TEXT, Desk, Got, Next, last_kept, wrong
from homarus.models.notebook.grammar import Intent, Kind, read_message
from homarus.models.notebook.language import Word, alike, read
from homarus.models.notebook.match import table

MAX_SHOWN = 4  # lines that are quoted when they are back
ALL_TODOS = "todo to-do task aufgabe erledigen"
_ARTICLE = late(r"\A(?:(?:about|that|the|my|our|a|an|das|die|der|den|dem|mein\w*|unser\w*|dass)\s+)+", re.IGNORECASE)
_ROW = late(r"^(?:\./)?(?:memory/)?([\w./-]+\.md):(\d+):[ \t]?(.*)$", re.MULTILINE)
_BLOCK = late(r"(?:.*/)?\d{4}-\d\d-\d\d-[0-9a-f]{8}\.md")  # the file of a text that was kept whole


class Change(Struct, frozen=True):
    """Something that was done to the notes: a line that was kept, or passages (path, old, new) that were edited."""

    kept: str = ""
    edits: tuple[tuple[str, str, str], ...] = ()


def strike(intent: Intent, got: Got, desk: Desk) -> Next:
    """Strike a line through: the last one that was kept, or the one that the words fit best."""
    done = intent.kind is Kind.DONE
    if phrases.LAST_ONE.fullmatch(intent.text):
        last = "" if done else last_kept(desk.before)
        return strike_lines([last], got, desk) if last else desk.say("no_such")
    number = int(intent.text) if done and re.fullmatch(r"\d{1,2}", intent.text.rstrip(".")) else 0
    look = desk.look(ALL_TODOS if number else intent.text)
    if look is None:
        return desk.say("no_search")
    if not got:
        return [look]
    found = evidence.gathered([got[0].text])
    meant = [line for line in found if line.todo or not done]
    if number:
        chosen = once(sorted(meant, key=lambda line: line.order))[number - 1 : number]
    else:
        chosen = _chosen(intent.text, meant, evidence.vectors([got[0].text]), done=done)
    if len(chosen) != 1 or not (number or names(intent.text, chosen[0].text)):
        listed = "".join(f"\n- {desk.quote(line)}" for line in chosen)
        return desk.say("which") + listed if chosen else desk.say("no_such")
    line = chosen[0]
    if not done and lists.without(line.text, intent.text):
        return _take_off(line, intent.text, got[1:], desk)
    same = [line.source, *(one.source for one in found if _plain(one.text) == _plain(line.text))]
    return strike_lines(list(dict.fromkeys(same)), got[1:], desk, "ticked" if done else "struck", former=True)


def take_off(intent: Intent, got: Got, desk: Desk) -> Next:
    """Take something off a list that has a name ("name: what")."""
    name, _, item = intent.text.partition(": ")
    look = desk.look(f"{name} {item}")
    if look is None:
        return desk.say("no_search")
    if not got:
        return [look]
    found = lists.current(evidence.gathered([got[0].text]), name)
    line = next((line for line in reversed(found) if lists.holds(line.text, item)), None)
    return _take_off(line, item, got[1:], desk) if line else desk.say("no_such")


def _take_off(line: evidence.Line, item: str, got: Got, desk: Desk) -> Next:
    """Keep a list anew without something that stood on it, or strike it through where nothing else did."""
    rest = lists.without(line.text, item)
    if not rest or "#L" not in line.source:
        return strike_lines([line.source], got, desk, former=True)
    call = desk.call("memory_retain", {TEXT: rest}, supersedes=line.source)
    if call is None or "supersedes" not in call.arguments:
        return desk.say("no_edit", source=line.source)
    if not got:
        return [call]
    if why := wrong(got[0]):
        return desk.say("not_changed", why=why)
    kept = desk.say("kept", text=rest, source=evidence.place(got[0].text))
    return f"{kept}\n{desk.say('replaces', quotes=desk.quote(line))}"


def undo(intent: Intent, got: Got, desk: Desk) -> Next:
    """Take back what was done last: strike what was kept, or put back what was struck."""
    done = changes(desk.before)
    if not done:
        return desk.say("no_such")
    last = done[-1]
    if last.kept:
        return strike_lines([last.kept], got, desk)
    calls = [desk.call("edit", {PATH: path, OLD: new, NEW: old}) for path, old, new in reversed(last.edits)]
    if any(call is None for call in calls):
        return desk.say("no_edit", source=last.edits[0][0])
    if len(got) < len(calls):
        return [call for call in calls[len(got) :][:1] if call]
    if why := next(filter(None, map(wrong, got)), ""):
        return desk.say("not_changed", why=why)
    back = [
        evidence.parse(line, path)
        for path, old, new in last.edits
        for line, struck in zip(old.splitlines(), new.splitlines(), strict=False)
        if line != struck
    ]
    return desk.say("restored", quotes=" ".join(list(dict.fromkeys(map(desk.quote, back)))[:MAX_SHOWN]))


def changes(before: Sequence[Message]) -> list[Change]:
    """Return what was done to the notes in this conversation and not taken back since, in its order."""
    done: list[Change] = []
    turns: list[list[Message]] = []
    for message in before:
        if isinstance(message, User):
            turns.append([])
        if turns:
            turns[-1].append(message)
    for turn in turns:
        made = _made(turn)
        assert isinstance(turn[0], User)
        if made and read_message(turn[0].text) == (Intent(Kind.UNDO),):
            done = done[:-1]
        else:
            done += made
    return done


def _made(turn: Sequence[Message]) -> list[Change]:
    results = {message.call_id: message for message in turn if isinstance(message, ToolResult)}
    calls = [call for message in turn if isinstance(message, Assistant) for call in message.calls]
    kept: list[Change] = []
    edits: list[tuple[str, str, str]] = []
    for call in calls:
        result = results.get(call.id)
        if result is None or wrong(result):
            continue
        if call.name == "memory_retain" and (source := evidence.place(result.text)):
            kept.append(Change(kept=source))
        elif call.name == "edit" and (edit := _struck(call)):
            edits.append(edit)
    return [*kept, *([Change(edits=tuple(edits))] if edits else [])]


def _struck(call: ToolCall) -> tuple[str, str, str] | None:
    """Return what an edit changed, if it only struck something through."""
    path, old, new = (
        next((str(call.arguments[name]) for name in given if name in call.arguments), "") for given in (PATH, OLD, NEW)
    )
    return (path, old, new) if old != new and old.replace("~~", "") == new.replace("~~", "") else None


def strike_lines(sources: list[str], got: Got, desk: Desk, said: str = "struck", *, former: bool = False) -> Next:
    """Strike lines through where they stand, one after the other; with `former`, also what they had replaced and where else they stand."""
    rest, waiting, done = list(got), list(dict.fromkeys(sources)), list[evidence.Line]()
    searched = not former
    for source in waiting:
        path = source.partition("#L")[0]
        reading = desk.call("read", {PATH: path})
        if reading is None or "edit" not in desk.offered:
            return desk.say("no_edit", source=source)
        if not rest:
            return [reading]
        page = rest.pop(0)
        line, old, new = _found(page, source, everywhere=former)
        if old and not page.is_error:
            if not rest:
                call = desk.call("edit", {PATH: path, OLD: old, NEW: new})
                return [call] if call else desk.say("no_edit", source=source)
            if why := wrong(rest.pop(0)):
                return desk.say("not_changed", why=why)
            done.append(line)
            waiting += [line.replaces] if former and line.replaces and line.replaces not in waiting else []
        elif not done and source == sources[0]:
            return desk.say("no_such" if line.struck else "no_edit", source=source)
        if source == waiting[-1] and not searched and (again := _elsewhere(done[0].text, desk)):
            if not rest:
                return [again]
            searched = True
            waiting += [place for place in _places(done[0].text, rest.pop(0)) if place not in waiting]
    return desk.say(said, quotes=" ".join(map(desk.quote, done)))


def _elsewhere(text: str, desk: Desk) -> ToolCall | None:
    """Look for a line word for word: a search of the notes shows it once, though it was told on several days."""
    spec = desk.offered.get("grep")
    literal = spec is not None and "literal" in (spec.parameters.get("properties") or {})
    wanted = {PATTERN: text if literal else re.escape(text), PATH: "memory"}
    return desk.call("grep", wanted, literal=True, ignoreCase=True)


def _places(text: str, found: ToolResult) -> list[str]:
    rows = [] if found.is_error else _ROW.findall(found.text)
    parsed = [(evidence.parse(line, ""), f"memory/{path}#L{number}") for path, number, line in rows]
    return [place for line, place in parsed if not line.struck and _plain(line.text) == _plain(text)]


def _found(page: ToolResult, source: str, *, everywhere: bool) -> tuple[evidence.Line, str, str]:
    """Return a line of a page, and the passage to change for it: the line, and as many around it as make it the only one.

    With `everywhere` each line of the page that says the same is struck, too; of a text that was kept whole all are with its title.
    """
    lines, number = page.text.splitlines(), source.partition("#L")[2]
    at = int(number) - 1 if number.isdigit() else len(lines)
    line = evidence.parse(lines[at], source) if 0 <= at < len(lines) else evidence.Line("", source)
    if not line.text or line.struck:
        return line, "", ""
    meant = {at}
    if at == 0 and _BLOCK.fullmatch(source.partition("#L")[0]):
        meant = set(range(len(lines)))
    elif everywhere:
        meant |= {n for n, one in enumerate(lines) if _plain(evidence.parse(one, "").text) == _plain(line.text)}
    first, last = min(meant), max(meant) + 1
    while page.text.count("\n".join(lines[first:last])) > 1 and last - first < len(lines):
        first, last = (first - 1, last) if first else (first, last + 1)
    passage = [evidence.strike(one) if n in meant and _strikable(one) else one for n, one in enumerate(lines)]
    return line, "\n".join(lines[first:last]), "\n".join(passage[first:last])


def _strikable(line: str) -> bool:
    parsed = evidence.parse(line, "")
    return bool(parsed.text) and not parsed.struck


def once(found: Sequence[evidence.Line]) -> list[evidence.Line]:
    """Return lines without those that were told twice; of such the last one stands."""
    return list({_plain(line.text): line for line in found}.values())


def _plain(text: str) -> str:
    return single_line(evidence.bare_task(text)).rstrip(" .!").lower()


def _chosen(text: str, found: Sequence[evidence.Line], kind: str, *, done: bool = False) -> list[evidence.Line]:
    """Return the line that is meant, or the few between which one cannot tell; a line word for word is meant for sure.

    Where no line fits well enough by its words, one is meant that states what is named ("forget Maria's number": "Maria's number is …"), or, of tasks, that has all of it.
    """
    if same := [line for line in found if _plain(text) == _plain(line.text)]:
        return same[:1]
    former = {line.replaces for line in found}
    found = once([line for line in found if line.source not in former])
    least = table().fits[kind].least
    order = [(score, line) for score, line in evidence.fitting(text, found, kind) if score >= least]
    near = [line for score, line in order if score >= order[0][0] - evidence.CLOSE][:4]
    if near and any(names(text, line.text) for line in near):
        return near
    says = _has_all if done else lambda text, line: _states(text, line) or lists.holds(line, text)
    return [line for line in found if says(text, line.text)][:4] or near


def near(text: str, found: Sequence[evidence.Line], kind: str) -> list[evidence.Line]:
    """Return the tasks that a sentence may speak of."""
    return _chosen(text, found, kind, done=True)


def names(text: str, line: str) -> bool:
    """Say whether a line has most of the things that an instruction names; a verb alone ("buy") names none."""
    return _states(text, line) or lists.holds(line, text) or _shares(text, line) > 0.6


def _has_all(text: str, line: str) -> bool:
    return _shares(text, line) == 1


def _shares(text: str, line: str) -> float:
    words = read(text).words
    things = [word for word in words if not (word.verb or word.light)] or list(words)
    told = read(line).parts
    return sum(among(word, told) for word in things) / len(things) if things else 0


def _states(text: str, line: str) -> bool:
    """Say whether a line begins with what an instruction names, and says something of it."""
    named, told = (_ARTICLE.sub("", _plain(part)).replace("’", "'") for part in (text, line))
    return bool(named) and re.match(rf"{re.escape(named)}(?![\w-])[\s:=]", told) is not None


def among(word: Word, others: Sequence[Word]) -> bool:
    return any(max(alike(word, other), alike(other, word)) >= 0.65 for other in others)
