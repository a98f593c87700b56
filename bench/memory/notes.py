"""Notes of several kinds with questions whose answering lines are known, written from seeded templates.

No weight is fitted on them: they show whether a ranking that was learned from conversations also serves bullets, prose,
runbooks, minutes, retained facts and other languages. Each answer stands among lines that share its person or its words.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import date, timedelta

from bench.memory import phrases
from homarus.memory.evaluate import Notebook, Question

START = date(2026, 1, 5)


class _Book:
    """A notebook in the making. `say` returns where a line went, so that a question can name it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, list[str]] = {}
        self.questions: list[Question] = []

    def say(self, path: str, line: str) -> tuple[str, int]:
        lines = self.files.setdefault(path, [])
        lines.append(line)
        return path, len(lines)

    def ask(self, text: str, *evidence: tuple[str, int]) -> None:
        self.questions.append(Question(text, self.name, frozenset(evidence)))

    def done(self) -> Notebook:
        return Notebook(self.name, self.files, self.questions)


def notebooks(seed: int = 11) -> list[Notebook]:
    """Return one notebook of each kind; the same seed gives the same text."""
    makers: dict[str, Callable[[_Book, random.Random], None]] = {
        "bullets": _bullets,
        "diary": _diary,
        "runbooks": _runbooks,
        "minutes": _minutes,
        "facts": _facts,
        "languages": _languages,
    }
    found = []
    for name, make in makers.items():
        book = _Book(name)
        make(book, random.Random(f"{seed}-{name}"))
        found.append(book.done())
    return found


def _days(rnd: random.Random, count: int) -> list[str]:
    days = sorted(rnd.sample(range(300), count))
    return [(START + timedelta(days=day)).isoformat() for day in days]


def _facts_of(rnd: random.Random) -> Iterator[tuple[str, str]]:
    """Yield statement and question: every person has every kind of fact once, with other values."""
    for who in phrases.PEOPLE:
        for statement, question, values in phrases.DAILY:
            value = rnd.choice(values)
            detail = rnd.choice(phrases.DETAILS)
            yield statement.format(who=who, value=value, detail=detail), question.format(who=who)


def _bullets(book: _Book, rnd: random.Random) -> None:
    """Daily notes of short list items, one fact each, filler between them."""
    days = _days(rnd, 60)
    facts = list(_facts_of(rnd))
    rnd.shuffle(facts)
    for day in days:
        path = f"memory/{day}.md"
        book.say(path, f"# {day}")
        book.say(path, "")
        for _ in range(rnd.randint(2, 5)):
            book.say(path, f"- {_filler(rnd)}")
    for statement, question in facts:
        place = book.say(f"memory/{rnd.choice(days)}.md", f"- {statement}")
        if rnd.random() < 0.5:
            book.ask(question, place)


def _filler(rnd: random.Random) -> str:
    return rnd.choice(phrases.FILLER).format(
        who=rnd.choice(phrases.PEOPLE), thing=rnd.choice(phrases.THINGS), n=rnd.randint(2, 90)
    )


def _diary(book: _Book, rnd: random.Random) -> None:
    """Prose: each line is a paragraph of several sentences, and the fact stands somewhere inside."""
    facts = list(_facts_of(rnd))
    rnd.shuffle(facts)
    facts = facts[:90]
    for at, day in enumerate(_days(rnd, 45)):
        path = f"memory/{day}.md"
        book.say(path, f"# {day}")
        for statement, question in facts[2 * at : 2 * at + 2]:
            sentences = [_filler(rnd) for _ in range(rnd.randint(2, 5))]
            sentences.insert(rnd.randrange(len(sentences) + 1), statement)
            book.say(path, "")
            place = book.say(path, " ".join(sentences))
            book.ask(question, place)


def _runbooks(book: _Book, rnd: random.Random) -> None:
    """Technical notes without dates: headings, settings, commands, error codes."""
    for service in phrases.SERVICES:
        path = f"memory/services/{service}.md"
        book.say(path, f"# {service}")
        for heading, lines in phrases.RUNBOOK.items():
            book.say(path, "")
            book.say(path, f"## {heading}")
            for statement, question in rnd.sample(lines, len(lines)):
                values = {
                    "service": service,
                    "port": str(rnd.randint(3000, 9999)),
                    "code": f"E{rnd.randint(100, 999)}",
                    "key": rnd.choice(phrases.KEYS),
                    "n": str(rnd.randint(2, 60)),
                    "host": f"{rnd.choice(phrases.HOSTS)}-{rnd.randint(1, 9)}",
                    "who": rnd.choice(phrases.PEOPLE),
                }
                place = book.say(path, f"- {statement.format(**values)}")
                book.ask(question.format(**values), place)


def _minutes(book: _Book, rnd: random.Random) -> None:
    """Meetings: who said what, what was decided, who does it, one file a meeting."""
    topics = rnd.sample(phrases.TOPICS, len(phrases.TOPICS))
    for at, day in enumerate(_days(rnd, len(topics) // 2)):
        path = f"memory/{day}-meeting.md"
        when = date.fromisoformat(day)
        book.say(path, f"# Meeting {day}")
        for topic, short in topics[2 * at : 2 * at + 2]:
            asks, owner, doubts = rnd.sample(phrases.PEOPLE, 3)
            book.say(path, "")
            book.say(path, f"## {topic}")
            book.say(path, f"{asks}: What do we do about {topic}?")
            doubt = book.say(path, f"{doubts}: {rnd.choice(phrases.DOUBTS)}")
            book.say(path, f"{asks}: {rnd.choice(phrases.SMALL_TALK)}")
            plan = rnd.choice(phrases.PLANS)
            decided = book.say(path, f"- Decision: {plan.format(topic=short)}")
            action = book.say(path, f"- Action: {owner} prepares this until {rnd.choice(phrases.DEADLINES)}.")
            book.ask(f"What was decided about {topic}?", decided)
            book.ask(f"Who takes care of {topic}?", action)
            book.ask(f"What worried {doubts} about {topic}?", doubt)
            book.ask(f"What did we agree on in the meeting of {when.day} {when.strftime('%B %Y')} on {short}?", decided)


def _facts(book: _Book, rnd: random.Random) -> None:
    """Retained facts and opinions, with questions that several lines answer together."""
    days = _days(rnd, 40)
    for day in days:
        path = f"memory/{day}.md"
        book.say(path, f"# {day}")
        for _ in range(3):
            book.say(path, f"- {_filler(rnd)}")
        book.say(path, "## Retain")
    for who in phrases.PEOPLE:
        for question, statements in phrases.OPINIONS:
            chosen = rnd.sample(statements, 2)
            places = [
                book.say(f"memory/{rnd.choice(days)}.md", f"- O(c=0.{rnd.randint(5, 9)}) @{who}: {said}")
                for said in chosen
            ]
            book.ask(question.format(who=who), *places)


def _languages(book: _Book, rnd: random.Random) -> None:
    """The same kinds of facts in other languages and scripts, in one workspace."""
    days = _days(rnd, 30)
    for language in phrases.LANGUAGES:
        for who in language.people:
            for statement, question in language.facts:
                value = rnd.choice(language.values)
                path = f"memory/{rnd.choice(days)}.md"
                place = book.say(path, f"- {statement.format(who=who, value=value)}")
                book.say(path, f"- {rnd.choice(language.filler).format(who=rnd.choice(language.people))}")
                book.ask(question.format(who=who), place)
