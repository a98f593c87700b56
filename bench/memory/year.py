"""A year of notes about sixty people, in three languages, with known truth: what each prefers, and since when.

Preferences are stated in eight forms a language, some of them change during the year; among them stand facts that have nothing to do
with it. `year(seed)` is the same on every machine.
"""

from __future__ import annotations

import random
from datetime import date, timedelta

from msgspec import Struct

FIRST = date(2025, 1, 1)
PEOPLE = [
    "Anders",
    "Bianca",
    "Cedric",
    "Dorota",
    "Emil",
    "Farah",
    "Gustav",
    "Hanna",
    "Ivana",
    "Jasper",
    "Kiana",
    "Leopold",
    "Mirela",
    "Nadia",
    "Otto",
    "Petra",
    "Quentin",
    "Ramona",
    "Stefan",
    "Tamara",
    "Ulrich",
    "Valeria",
    "Wanda",
    "Xaver",
    "Yasmin",
    "Zoltan",
    "Aurelia",
    "Bastian",
    "Corinna",
    "Dominik",
]
PEOPLE += [f"{name}{more}" for name, more in zip(PEOPLE, ["ko", "ra", "lin", "mo", "sa"] * 6, strict=True)]
# language -> domain -> values; the domain as it is written, and the forms ({n} who, {v} value, {o} the value before, {d} the domain)
VALUES = {
    "en": {"drink": ["tea", "coffee", "juice", "beer", "cocoa"], "colour": ["red", "blue", "green", "purple"]},
    "de": {"Getränk": ["Tee", "Kaffee", "Saft", "Bier"], "Farbe": ["Rot", "Blau", "Grün", "Gelb"]},
    "es": {"bebida": ["agua", "zumo", "cerveza", "vino"], "color": ["rojo", "azul", "verde", "negro"]},
}
STATED = {
    "en": ["{n} prefers {v}.", "{n}'s favourite {d} is {v}.", "{n} likes {v}.", "{n} really likes {v}.", "{n}'s preferred {d} is {v}.",
           "{n} loves {v}.", "{n} goes for {v}.", "The favourite {d} of {n} is {v}."],
    "de": ["{n} bevorzugt {v}.", "{n}s Lieblings{l} ist {v}.", "{n} mag {v}.", "{n} mag am liebsten {v}.", "{n} liebt {v}.",
           "{n} mag sehr {v}.", "{n} nimmt immer {v}.", "{n} will lieber {v}."],
    "es": ["{n} prefiere {v}.", "La {d} favorita de {n} es {v}.", "{n} prefiere siempre {v}.", "A {n} le gusta {v}.",
           "A {n} le encanta {v}.", "{n} elige {v}.", "{n} quiere {v}.", "El {d} preferido de {n} es {v}."],
}  # fmt: skip
CHANGED = {
    "en": ["{n} switched from {o} to {v}.", "{n} now prefers {v}.", "{n}'s favourite {d} is now {v}.", "{n} no longer wants {o}; {n} prefers {v}.",
           "Actually, {n} prefers {v}.", "{n} likes {v} these days.", "{n} prefers {v} over {o} now.", "{n} has changed from {o} to {v}."],
    "de": ["{n} mag jetzt {v}.", "{n} bevorzugt inzwischen {v}.", "{n}s Lieblings{l} ist jetzt {v}.", "{n} nimmt mittlerweile {v}.",
           "{n} mag nicht mehr {o}; {n} bevorzugt {v}.", "{n} liebt jetzt {v}.", "{n} bevorzugt {v} statt {o}.", "{n} will jetzt lieber {v}."],
    "es": ["{n} prefiere ahora {v}.", "{n} cambió de {o} a {v}.", "A {n} le gusta ahora {v}.", "{n} ya no quiere {o}; {n} prefiere {v}.",
           "La {d} favorita de {n} es ahora {v}.", "{n} elige ahora {v}.", "{n} prefiere {v} en vez de {o}.", "{n} prefiere {v} antes que {o}."],
}  # fmt: skip
OTHER = (
    "{n} called about item {i} of the list.", "Met {n} at the station, platform {i}.", "{n} sent the report number {i}.",
    "{n} hat Paket {i} abgeholt.", "Con {n} en la reunión {i}.", "{n} repaired shelf {i} in the cellar.",
    "Lunch with {n}, table {i}.", "{n} asked for the file {i} again.",
)  # fmt: skip


class Preference(Struct):
    name: str
    domain: str
    history: list[tuple[date, str]]  # since when which value

    def on(self, day: date) -> str | None:
        held = [value for since, value in self.history if since <= day]
        return held[-1] if held else None


def year(seed: int = 7, facts: int = 3_000) -> tuple[dict[str, list[str]], list[Preference]]:
    """Return notes and what they say is true: 120 preferences of 60 people, 40 of which change."""
    rnd = random.Random(seed)
    lines: dict[date, list[str]] = {}
    truth: list[Preference] = []
    languages = list(VALUES)
    for who, name in enumerate(PEOPLE[:60]):
        language = languages[who % 3]
        for at, (domain, values) in enumerate(VALUES[language].items()):
            chosen = rnd.sample(values, 2)
            changes = (who * 2 + at) % 3 == 0
            words = {"n": name, "d": domain, "l": domain.lower(), "o": chosen[0]}
            preference = Preference(name, domain, [])
            start = FIRST + timedelta(days=rnd.randrange(0, 120))
            for told in range(3):  # said again, in other words
                day = start + timedelta(days=rnd.randrange(1, 20) * told)
                lines.setdefault(day, []).append(rnd.choice(STATED[language]).format(v=chosen[0], **words))
            preference.history.append((start, chosen[0]))
            if changes:
                day = start + timedelta(days=rnd.randrange(70, 220))
                lines.setdefault(day, []).append(rnd.choice(CHANGED[language]).format(v=chosen[1], **words))
                preference.history.append((day, chosen[1]))
            truth.append(preference)
    said = sum(map(len, lines.values()))
    for number in range(facts - said):
        text = OTHER[number % len(OTHER)].format(n=rnd.choice(PEOPLE), i=number)
        lines.setdefault(FIRST + timedelta(days=rnd.randrange(360)), []).append(text)
    files = {}
    for day in sorted(lines):
        rnd.shuffle(lines[day])
        files[f"memory/{day}.md"] = [f"# {day}", "", *(f"- {text}" for text in lines[day])]
    return files, truth
