"""Lines of notes out of what a memory tool returned, and the answer made of them. Nothing is ever invented. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any

import msgspec
from msgspec import Struct, structs

from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.models.notebook.about import everything, speaks
from homarus.models.notebook.corrections import bare, takes_place
from homarus.models.notebook.days import agenda, beside, days, meets, whether
from homarus.models.notebook.gloss import in_german
from homarus.models.notebook.language import alike, read, stem
from homarus.models.notebook.match import Match, Verdict, aliases, matches, of_another, relatives, rivals, table
from homarus.models.notebook.reader import Reader, near
from homarus.models.notebook.stated import states
from homarus.models.notebook.words import say

CITATION = late(r"([\w./~@-]+\.\w{1,8})#L(\d+)(?:-L?(\d+))?")
MAX_QUOTES, MAX_QUOTE = 2, 300
HIDDEN = "[redacted"
MAX_LISTED = 8  # lines of a day, or about somebody
ON_DAY = 4.0  # how much surer a line is that holds the day asked for and lacks nothing else
SURE = 1.0  # how far beyond the least confidence a line is that states what is asked for by its very words, or speaks of somebody else
_NOTE_DAY = late(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)")
MAX_NAMES = 4  # of one relation
CLOSE = 0.4  # how near in confidence a second line must be to be quoted as well
NEARLY = 2.5  # how far below the least confidence a line is still worth a look
_TEXT_KEYS = ("snippet", "content", "text", "quote", "line")
# A list mark, a box, and the kind of a retained fact with its attributes (`W(sup=…) @Ann:`), as far as a line has them.
_NAMES = r"(?:\s+@(?:\{[^}]*\}|\S+?))*"
_HEAD = late(
    rf"\A\s*(?:(?:[-*+•]|\d+[.)])\s+)?(?:\[([ xX])\]\s+)?(?:[WBOS](?:\(([^)]*)\))?{_NAMES}:\s+|(?<=[-*+•]\s)[WBOS](?:\(([^)]*)\))?\s+)?"
)
_WORD = late(r"[^\W\d_][\w-]*")
_FIGURE = late(r"\d+")
_COMMENT = late(r"\s*<!--.*?-->")
_TRAILER = late(r"\s*\n\s*Source: [^\n]*\s*\Z")
_TODO = late(r"\s*(?:to-?do|zu erledigen|aufgabe|task)\s*[:–-]\s*", re.IGNORECASE)
# What somebody says that they have yet to do is a task as well, under its own words.
_OUGHT = late(
    r"\s*(?:(?:i|we)\s+)?(?:still\s+)?(?:have|need|must remember|gotta|got)\s+to\s+(?!be\b|take\b)|\s*(?:i|we)\s+must\s+still\b"
    r"|\s*(?:(?:ich|wir)\s+)?(?:muss|müssen|sollten?)\s+(?:\w+\s+)?noch\b",
    re.IGNORECASE,
)
# Pages that the program seeds with advice for the model: what addresses somebody there is no fact of the owner's.
_OWN_PAGE = late(r"(?:\A|/)(?:USER|SOUL|AGENTS|IDENTITY|TOOLS|HEARTBEAT|BOOT|BOOTSTRAP)\.md\Z")
_ADVICE = late(r"\b(?:you|your|yourself|they|them|their)\b|_\(|\A\s*[_(>]", re.IGNORECASE)


class Line(Struct, frozen=True):
    """One line of a note, and where it stands."""

    text: str
    source: str
    cosine: float | None = None
    bare: float = 0.0  # the cosine with the question without its names
    replaces: str = ""  # the citation of the line that it took the place of
    struck: bool = False
    todo: bool = False
    said: str = (
        ""  # its text as it is compared with a question: with the days that are asked for as the question writes them
    )
    on_day: bool = False  # it speaks of a day that is asked for

    @property
    def compared(self) -> str:
        return self.said or bare(self.text)

    @property
    def written(self) -> date | None:
        """Return the day that stands in the name of its note."""
        found = _NOTE_DAY.findall(self.source.partition("#")[0])
        return next((day.ranges[0][0] for day in days(found[-1]) if day.ranges), None) if found else None

    @property
    def order(self) -> tuple[str, int]:
        """Return what sorts the newest last: days are in the names of notes, and a note grows downwards."""
        cited = CITATION.fullmatch(self.source)
        return (cited[1], int(cited[2])) if cited else (self.source, 0)


def decode(result: str) -> Any:
    try:
        return msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def lines(result: str) -> list[Line]:
    """Return the lines of a tool result in its order, from JSON or from text that carries citations."""
    value = decode(result)
    found = _from_text(result) if value is None else _from_json(value)
    return [line for line in found if _states(line)]


def _from_json(value: Any) -> Iterable[Line]:
    if isinstance(value, list):
        return [line for item in value for line in _from_json(item)]
    if not isinstance(value, dict):
        return []
    text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
    source = _source(value)
    if text is None or not source:
        return [line for item in value.values() if isinstance(item, list | dict) for line in _from_json(item)]
    cosine, bare = (
        found if isinstance(found := value.get(key), int | float) else None for key in ("vectorScore", "bareScore")
    )
    if value.get("kind") == "heading":
        text = f"# {text}"  # a search shows it without its mark, and it states nothing
    near = {"cosine": cosine, "bare": cosine or 0.0 if bare is None else bare}
    return [structs.replace(line, **near) for line in _split(_TRAILER.sub("", text), source)]


def _source(value: dict[str, Any]) -> str:
    for key in ("citation", "source", "ref"):
        found = CITATION.search(str(value.get(key, "")))
        if found:
            return found.group(0)
    path = value.get("path")
    start = value.get("startLine") or value.get("line") or value.get("from")
    if not isinstance(path, str):
        return ""
    end = value.get("endLine")
    span = f"-L{end}" if isinstance(end, int) and end != start else ""
    return f"{path}#L{start}{span}" if isinstance(start, int) else path


def _from_text(text: str) -> Iterable[Line]:
    found: list[Line] = []
    before: list[str] = []
    for line in text.splitlines():
        cited = CITATION.search(line)
        if cited is None:
            before.append(line)
            continue
        said = (line[: cited.start()] + line[cited.end() :]).strip(" \t()[]<>·-—:|")
        said = re.sub(r"\b(?:source|citation)\s*:?\s*\Z", "", said, flags=re.IGNORECASE).strip(" \t()[]·-—:|")
        if not read(said).words:
            # The citation stands on a line of its own, under the lines it is about.
            said = "\n".join(part for part in before if part.strip())
        before = []
        if said.strip():
            found += _split(said.strip(), cited.group(0))
    return found


def _split(text: str, source: str) -> list[Line]:
    """Return the lines of one passage, each with a citation of its own where they can be counted."""
    parts = text.splitlines()
    cited = CITATION.fullmatch(source)
    countable = cited is not None and cited[3] is not None and len(parts) == int(cited[3]) - int(cited[2]) + 1
    found = []
    for at, part in enumerate(parts):
        if part.strip():
            place = f"{cited[1]}#L{int(cited[2]) + at}" if cited is not None and countable else source
            found.append(parse(part, place))
    return found


def parse(text: str, source: str) -> Line:
    """Read one line of a note: its mark, its kind, what it replaces, and whether it is struck through."""
    if text.lstrip().startswith("#"):
        return Line("", source)
    plain = _COMMENT.sub("", text)
    head = _HEAD.match(plain)
    box, attrs = (head[1], head[2] or head[3] or "") if head else (None, "")
    whole = plain[head.end() if head else 0 :].strip()
    said = single_line(whole, MAX_QUOTE)
    replaced = next((part[4:] for part in attrs.split(",") if part.startswith("sup=")), "")
    struck = box in ("x", "X") or (whole.startswith("~~") and whole.endswith("~~"))
    todo = box is not None or bool(_TODO.match(said) or _OUGHT.match(said))
    return Line(said, source, replaces=replaced, struck=struck, todo=todo)


def strike(text: str) -> str:
    """Return a line struck through; its mark, its kind and where its words came from stay as they are."""
    head = _HEAD.match(text)
    start = head.end() if head else 0
    comment = _COMMENT.search(text, start)
    end = comment.start() if comment else len(text.rstrip())
    return f"{text[:start]}~~{text[start:end]}~~{text[end:]}"


def _states(line: Line) -> bool:
    """Say whether a line is more than a heading, an empty field or advice for the model."""
    if not line.text.strip() or line.text.rstrip(" \t*_").endswith(":") or _NOTE_DAY.fullmatch(line.text.strip()):
        return False
    page = _OWN_PAGE.search(line.source.partition("#")[0])
    return not (page and _ADVICE.search(line.text))


def bare_task(text: str) -> str:
    return _TODO.sub("", text)


def complaint(result: str) -> str:
    """Return what a tool says went wrong inside a result of its own form, or nothing."""
    value = decode(result)
    return str(value["error"]) if isinstance(value, dict) and value.get("error") else ""


def place(result: str) -> str:
    """Return the citation of what a tool wrote, or nothing."""
    value = decode(result)
    if isinstance(value, dict) and _source(value):
        return _source(value)
    cited = CITATION.search(result)
    return cited.group(0) if cited else ""


def vectors(results: Iterable[str]) -> str:
    """Return what kind of vectors ranked these results: words (none), static (of single words) or model."""
    found = {
        str(value.get("provider"))
        for value in map(decode, results)
        if isinstance(value, dict) and value.get("provider")
    }
    return "words" if not found or found == {"none"} else "static" if "wordllama" in found else "model"


def gathered(results: Sequence[str]) -> list[Line]:
    """Return the lines of several results, each once; struck ones are gone. The first result's cosine counts."""
    found: dict[str, Line] = {}
    for result in results:
        for line in lines(result):
            known = found.setdefault(line.source, line)
            if HIDDEN in known.text and HIDDEN not in line.text:
                found[line.source] = structs.replace(known, text=line.text)
    return [line for line in found.values() if not line.struck]


def compared(question: str, found: Sequence[Line]) -> list[Match]:
    """Return what each line says to a question. What was replaced takes nothing from the line that stands for it now."""
    former = {line.replaces for line in found}
    current = [line for line in found if line.source not in former]
    said = _compared(question, found)
    if len(current) < len(found):
        now = {id(line): one for line, one in zip(current, _compared(question, current), strict=True)}
        said = [now.get(id(line), one) for line, one in zip(found, said, strict=True)]
    # Where the search has no vectors, the reader's words stand in for them.
    meant = near(question, [(line.said or line.text) if line.cosine is None else "" for line in found])
    return [
        structs.replace(one, cosine=words if line.cosine is None else line.cosine, bare=line.bare)
        for one, line, words in zip(said, found, meant, strict=True)
    ]


def _compared(question: str, found: Sequence[Line]) -> list[Match]:
    pairs = [(text, read(text)) for text in (line.compared for line in found)]
    return matches(read(question), pairs, aliases([line.text for line in found]))


def fitting(question: str, found: Sequence[Line], kind: str) -> list[tuple[float, Line]]:
    """Return lines by how well their words fit, best first; of equal ones the newer first."""
    score = table().fits[kind].confidence
    scored = [(score(one), line) for one, line in zip(compared(question, found), found, strict=True)]
    return sorted(sorted(scored, key=lambda item: item[1].order, reverse=True), key=lambda item: -round(item[0], 3))


def verdict(kind: str, reader: Reader) -> Verdict:
    """Return what tells an answer, by what found the lines and who reads them."""
    return table().answers[reader.name if reader.name == "minilm" else kind]


class Judged(Struct, frozen=True):
    """A line that was read: how its words fit, what the reader says, and whether something settles it beside these two."""

    line: Line
    fits: float
    reads: float
    full: bool = False  # it holds the day asked for, and lacks nothing else
    stated: bool = False  # it states what is asked for by the question's very words
    another: bool = False  # it speaks of another one than the question


def judged(question: str, found: Sequence[Line], kind: str, reader: Reader) -> list[Judged]:
    """Read the lines that fit best, each once, and say all that tells whether they answer."""
    # A question that was kept answers nothing, and what was said twice is one.
    told = [line for line in found if _bare(line.text) != _bare(question)]
    told = list({_bare(line.text): line for line in sorted(told, key=lambda line: line.order)}.values())
    full = _full(question, told) if any(line.on_day for line in told) else []
    stated = [line for line in told if states(question, line.compared)]
    order = sorted(fitting(question, told, kind), key=lambda item: item[1] not in full + stated)[: reader.most]
    reads = reader.read(named(question, found), [line.compared for _, line in order])
    known = aliases([line.text for line in found])
    return [
        Judged(line, fits, sure, line in full, line in stated, of_another(question, read(line.compared), known))
        for (fits, line), sure in zip(order, reads, strict=True)
    ]


def ranked(question: str, found: Sequence[Line], kind: str, reader: Reader) -> list[tuple[float, Line]]:
    """Return the lines that fit best by how surely they answer a question, best first."""
    judge, lines = verdict(kind, reader), judged(question, found, kind, reader)
    scores = [judge.confidence(one.fits, one.reads) for one in lines]
    scores = [max(score + ON_DAY, judge.least) if one.full else score for score, one in zip(scores, lines, strict=True)]
    top = max([judge.least + SURE, *scores])
    made = []
    for score, one in zip(scores, lines, strict=True):
        sure = max(score + ON_DAY, top) if one.stated else score
        made.append((min(sure, judge.least - SURE) if one.another else sure, one.line))
    return sorted(made, key=lambda item: -round(item[0], 3))


def _full(question: str, told: Sequence[Line]) -> list[Line]:
    """Return the lines of the day asked for that lack nothing of what the question names and wants."""
    asked = read(beside(question, days(question, date.min, asked=True)))
    found = []
    for line, one in zip(told, compared(question, told), strict=True):
        parts = read(line.compared).parts
        # Who comes need not have a name: the chimney sweep does, if the line says that he comes.
        same = bool(asked.words) and all(
            max((alike(word, part) for part in parts), default=0) >= 0.5 for word in asked.words
        )
        value = one.no_value < 0.5 or (asked.wanted == ("@name",) and same)
        if line.on_day and value and not (one.no_name or one.no_hard) and one.thing >= 0.6:
            found.append(line)
    return found


def on_days(question: str, found: Sequence[Line], today: date | None) -> list[Line]:
    """Return the lines that may answer a question about a day: those of another day do not, unless it asks whether."""
    asked = days(question, today, asked=True)
    if not asked:
        return list(found)
    kept = []
    for line in found:
        told = days(line.text, line.written)
        meant = meets(asked, told)
        if meant:
            said = bare(line.text)
            for day in reversed(days(said, line.written)):
                if meets(asked, [day]):
                    said = f"{said[: day.start]}{question[asked[0].start : asked[0].end]}{said[day.end :]}"
            kept.append(structs.replace(line, said=said, on_day=True))
        elif meant is None or (whether(question) and not agenda(question, asked)):
            kept.append(line)
    return kept


def _day(question: str, found: Sequence[Line], told: Sequence[Line], today: date | None) -> str:
    """Return what there is on the days that a question asks for and holds nothing else, or nothing."""
    if not agenda(question, days(question, today, asked=True)):
        return ""
    there = _there([line for line in told if line.on_day], found)
    return _listed(question, there[:MAX_LISTED]) or say("unknown", in_german(question))


def _everything(question: str, found: Sequence[Line]) -> str:
    """Return the lines about somebody of whom a question wants to hear everything, or nothing."""
    whom = everything(question)
    known = aliases([line.text for line in found]) if whom else {}
    asked = _bare(question)
    lines = [line for line in found if whom and _bare(line.text) != asked and speaks(whom, line.text, known)]
    return _listed(question, _there(lines, found)[-MAX_LISTED:])


def _there(lines: Sequence[Line], found: Sequence[Line]) -> list[Line]:
    """Return what of these lines still holds, the oldest first."""
    former = {line.replaces for line in found}
    there = [line for line in lines if line.source not in former and HIDDEN not in line.text]
    return sorted(there, key=lambda line: line.order)


def _listed(question: str, lines: Sequence[Line], lead: str = "answer") -> str:
    german = in_german(question)
    quotes = [say("quote", german, text=line.text, source=line.source) for line in lines]
    if len(quotes) < 2:
        return say(lead, german, quotes=quotes[0]) if quotes else ""
    return say(lead, german, quotes="").rstrip() + "".join(f"\n- {one}" for one in quotes)


def _bare(text: str) -> str:
    return single_line(text).lower().rstrip(" ?.!")


def more_names(question: str, found: Sequence[Line]) -> str:
    """Return the names by which the notes call somebody whom the question names by relation ("my sister"), or nothing."""
    called = _called(question, found)
    return " ".join(dict.fromkeys(name for word in _WORD.findall(question) for name in called(word)))


def named(question: str, found: Sequence[Line]) -> str:
    """Return a question with those names behind the relations: who reads "my wife Ann" finds what a line says of Ann."""
    called = _called(question, found)
    return _WORD.sub(lambda word: " ".join([word[0], *called(word[0])]), question)


def _called(question: str, found: Sequence[Line]) -> Callable[[str], list[str]]:
    known, said = relatives([line.text for line in found]), {word.stem for word in read(question).words}

    def names(word: str) -> list[str]:
        kin = {idea for one in read(word).words for idea in one.kin}
        new = [name for name, ideas in known if ideas & kin and stem(name) not in said]
        return list(dict.fromkeys(new))[:MAX_NAMES]

    return names


def chosen(order: Sequence[tuple[float, Line]], least: float) -> list[Line]:
    """Return the line that answers a question surely enough, and another that does so nearly as well."""
    near = [line for score, line in order if score >= max(least, order[0][0] - CLOSE)]
    near = [structs.replace(line, said="", on_day=False) for line in near]
    return list({line.text: line for line in reversed(near)}.values())[::-1][:MAX_QUOTES]


def hidden(question: str, results: Sequence[str], reader: Reader) -> str:
    """Return where a line stands that would answer, but whose secret the index does not hold."""
    found = gathered(results)
    if not any(HIDDEN in line.text for line in found):
        return ""
    kind = vectors(results)
    best = chosen(ranked(question, found, kind, reader), verdict(kind, reader).least)
    return next((line.source for line in best if HIDDEN in line.text), "")


def answer(
    question: str, results: Sequence[str], reader: Reader, *, sure: bool = False, today: date | None = None
) -> str:
    """Return what the notes say about a question: quotes with citations, the nearest line where none answers for sure, or that
    there is nothing. With `sure` nothing but an answer, or the empty text."""
    found, kind = gathered(results), vectors(results)
    told = on_days(question, found, today)
    if there := _day(question, found, told, today):
        return there if not sure or there != say("unknown", in_german(question)) else ""
    if there := _everything(question, told):
        return there
    order, least = ranked(question, told, kind, reader), verdict(kind, reader).least
    if best := chosen(order, least):
        return _reply(question, best, found, "answer")
    if sure:
        return ""
    least -= NEARLY
    shown = [line for score, line in order if score >= least and HIDDEN not in line.text]
    shown = [structs.replace(line, said="", on_day=False) for line in shown[:1]]
    return _reply(question, shown, found, "nearest") if shown else say("unknown", in_german(question))


def _reply(question: str, best: list[Line], found: Sequence[Line], lead: str) -> str:
    """Quote the newest state first: a line that replaced another speaks for it, if it says anything to the question."""
    german = in_german(question)
    by_source = {line.source: line for line in found}
    newer = {line.replaces: line for line in found if line.replaces in by_source}
    best = _newest_first(question, best, found, newer)
    first, note, other = best[0], "former", by_source.get(best[0].replaces)
    start = best[0] if first.source in newer else other
    if start is not None:
        known = aliases([line.text for line in found])
        asked, chain = read(question), [start]
        while chain[-1].source in newer and newer[chain[-1].source] not in chain:
            chain.append(newer[chain[-1].source])
        wins = [at for at in range(1, len(chain)) if rivals(asked, read(chain[at].text), read(start.text), known)]
        at = max(wins, default=0)
        first = chain[at]
        note, other = ("later", chain[-1]) if at < len(chain) - 1 else ("former", chain[at - 1])
    shown = [first, *(line for line in best[1:] if line not in (first, other) and line.source not in newer)]
    text = _listed(question, shown, lead)
    if other is not None:
        text += "\n" + say(note, german, quotes=say("quote", german, text=other.text, source=other.source))
    return text


def _newest_first(question: str, best: list[Line], found: Sequence[Line], newer: dict[str, Line]) -> list[Line]:
    """Put a newer line that contradicts the best without saying so before it: both may hold, and both are quoted."""
    first, figures = (
        best[0],
        set(_FIGURE.findall(question)),
    )  # asked about item 44, what there is of item 61 is another matter
    known = aliases([line.text for line in found])
    against = [
        line
        for line in found
        if line.order > first.order
        and not line.todo
        and HIDDEN not in line.text
        and line.source not in newer
        and takes_place(line.text, first.text)
        and figures & set(_FIGURE.findall(first.text)) <= set(_FIGURE.findall(line.text))
        and rivals(read(question), read(line.text), read(first.text), known)
    ]
    if not against or first.source in newer:
        return best
    newest = max(against, key=lambda line: line.order)
    return [newest, *(line for line in best if line is not newest)][:MAX_QUOTES]
