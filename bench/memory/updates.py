"""A hundred things that changed: what was true, what became true later, and the question for what holds now.

Older and newer statement are worded differently, in notes of different days, among lines that share their words.
"""

from __future__ import annotations

from datetime import date, timedelta

from homarus.memory import Memory
from homarus.memory.evaluate import Notebook, Question

NAMES = ("Greta", "Jonas", "Priya", "Mateo")
OTHERS = {
    15: ("Heike", "Uwe", "Silke", "Bernd"),
    17: ("Lucía", "Pablo", "Inés", "Hugo"),
}  # from this row on, for two rows
# older, newer, question; {n} is a person
CHANGES = (
    ("{n} lives in Lisbon.", "{n} has moved to Oslo.", "Where does {n} live?"),
    ("{n} works at Siemens.", "{n} joined Ericsson this week.", "Which company does {n} work for?"),
    ("{n}'s favourite drink is tea.", "{n} now prefers coffee.", "What does {n} like to drink?"),
    ("{n} prefers the train.", "{n} switched from the train to the car.", "How does {n} prefer to travel?"),
    ("{n}'s phone number is 0171 555 20.", "{n}'s phone number changed to 0160 444 31.", "What is {n}'s phone number?"),
    ("{n} uses Vim.", "{n} uses Emacs now.", "Which editor does {n} use?"),
    ("{n}'s rent is 900 euros.", "{n}'s rent was raised to 980 euros.", "How much is {n}'s rent?"),
    ("{n}'s standup is at 9:30.", "{n}'s standup was moved to 10:15.", "When is {n}'s standup?"),
    ("{n}'s dentist is Dr. Bauer.", "{n}'s dentist is Dr. Okafor now.", "Who is {n}'s dentist?"),
    ("{n} drives a Golf.", "{n} now drives a Zoe.", "Which car does {n} drive?"),
    ("{n}'s flight leaves on Monday at 8.", "{n}'s flight leaves on Tuesday at 11.", "When does {n}'s flight leave?"),
    ("{n} plays the guitar.", "{n} plays the cello these days.", "Which instrument does {n} play?"),
    (
        "{n}'s project deadline is 3 March.",
        "{n}'s project deadline moved to 24 March.",
        "When is {n}'s project deadline?",
    ),
    ("{n} wants a window seat.", "{n} wants an aisle seat from now on.", "Which seat does {n} want?"),
    ("{n}'s shoe size is 38.", "{n}'s shoe size is 39, the old ones were tight.", "What is {n}'s shoe size?"),
    ("{n} wohnt in Köln.", "{n} ist nach Hamburg umgezogen.", "Wo wohnt {n}?"),
    ("{n} arbeitet bei Bosch.", "{n} arbeitet jetzt bei Zeiss.", "Wo arbeitet {n}?"),
    ("{n} vive en Sevilla.", "{n} se ha mudado a Bilbao.", "¿Dónde vive {n}?"),
    ("{n} prefiere el té.", "{n} prefiere ahora el café.", "¿Qué bebida prefiere {n}?"),
    (
        "Budget for {n}'s kitchen: about 4,000 euros.",
        "Budget for {n}'s kitchen: now 5,500 euros.",
        "What is the budget for {n}'s kitchen?",
    ),
    (
        "{n} meets the physio every Tuesday.",
        "{n} meets the physio every Friday instead.",
        "On which day does {n} meet the physio?",
    ),
    (
        "The meeting with {n} is in room 12.",
        "The meeting with {n} is in room 40.",
        "In which room is the meeting with {n}?",
    ),
    ("{n} keeps the spare key with Mrs Lindt.", "{n} keeps the spare key with Mr Abel.", "Who keeps {n}'s spare key?"),
    ("{n} weighs 82 kilos.", "{n} weighs 79 kilos after the summer.", "How much does {n} weigh?"),
    (
        "{n}'s laptop runs Debian 12.",
        "{n}'s laptop runs Debian 13 since the upgrade.",
        "Which system does {n}'s laptop run?",
    ),
)
NOISE = (
    "Bought bread, milk and a new lamp for the hall.",
    "{n} called about the weekend and sounded tired.",
    "Long walk by the river, no phone for three hours.",
    "{n} sent photos of the garden and the old car.",
    "Paid the invoice for the kitchen tiles.",
)


def updates() -> tuple[Notebook, list[tuple[str, int]]]:
    """Return the notebook, whose questions have the newer statement as evidence; and where the older one of each stands."""
    files: dict[str, list[str]] = {}
    replaced: list[tuple[str, int]] = []
    questions: list[Question] = []
    first = date(2026, 1, 3)

    def note(number: int, text: str, name: str) -> tuple[str, int]:
        day = first + timedelta(days=number)
        lines = files.setdefault(f"memory/{day}.md", [f"# {day}", ""])
        lines += [f"- {NOISE[number % len(NOISE)].format(n=name)}", f"- {text}"]
        return f"memory/{day}.md", len(lines)

    for at, (older, newer, question) in enumerate(CHANGES):
        for who, name in enumerate(OTHERS.get(at, OTHERS.get(at - 1, NAMES))):
            before = note(at + 2 * who, older.format(n=name), NAMES[who - 1])
            after = note(60 + at * 2 + 7 * who, newer.format(n=name), NAMES[who - 2])
            questions.append(Question(question.format(n=name), "updates", frozenset([after])))
            replaced.append(before)
    return Notebook("updates", {path: files[path] for path in sorted(files)}, questions), replaced


def asked_and_not(people: int = 14, told: int = 9) -> tuple[dict[str, list[str]], list[str], list[str]]:
    """Return notes, questions that they answer, and questions about people who stand in them with other things only."""
    names = [*NAMES, "Anders", "Bianca", "Cedric", "Dorota", "Emil", "Farah", "Gustav", "Hanna", "Ilka", "Jorge"][
        :people
    ]
    rows = [row for row in CHANGES if row[2].isascii()][:25]
    files: dict[str, list[str]] = {}
    known: list[str] = []
    unknown: list[str] = []
    for at, (older, newer, question) in enumerate(rows):
        for who, name in enumerate(names):
            asked = question.format(n=name)
            if (who + at) % people >= told:
                unknown.append(asked)
                continue
            known.append(asked)
            day = date(2026, 1, 3) + timedelta(days=3 * at + who)
            lines = files.setdefault(f"memory/{day}.md", [f"# {day}", ""])
            lines += [
                f"- {(newer if who % 2 else older).format(n=name)}",
                f"- {NOISE[who % len(NOISE)].format(n=name)}",
            ]
    return files, known, unknown


def separation(known: list[float], unknown: list[float]) -> float:
    """Return the chance that a question with an answer gets more confidence than one without (AUROC)."""
    pairs = [(one > other) + 0.5 * (one == other) for one in known for other in unknown]
    return sum(pairs) / len(pairs)


def newer_first(memory: Memory) -> float:
    """Return the share of questions for which the newer statement is ranked before the older one."""
    book, replaced = updates()
    right = 0
    for question, older in zip(book.questions, replaced, strict=True):
        ranking = [(hit.path, hit.start_line) for hit in memory.ranking(question.text, 60)]
        right += next((place for place in ranking if place in question.evidence or place == older), None) != older
    return right / len(book.questions)
