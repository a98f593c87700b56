"""A year of notes about sixty people, in three languages, with known truth: what each prefers, and since when.

Every preference is told several times, each time in other words: an opening, one of sixteen ways to say it and an ending are put together, so
that one statement has hundreds of wordings. Rules were made with the first eight ways to say a thing; the second eight were kept from
whoever wrote them until the last of these were mended; the third (`UNSEEN`) were written after the rules and later used to make them better; the fourth
(`LAST`, with incidents of its own) were written before that, and read when it was done (.62 now, .89 on earlier days), which showed that incidents can be as dense as
likings; the fifth (`FRESH`) were written after that was mended and read once. Among them stand facts that name the same people and
things and say nothing about liking. `year(seed)` is the same on every machine.
"""

from __future__ import annotations

import random
from datetime import date, timedelta

from msgspec import Struct

FIRST = date(2025, 1, 1)
_NAMES = """Anders Bianca Cedric Dorota Emil Farah Gustav Hanna Ivana Jasper Kiana Leopold Mirela Nadia Otto Petra Quentin Ramona Stefan Tamara
Ulrich Valeria Wanda Xaver Yasmin Zoltan Aurelia Bastian Corinna Dominik Agathe Benno Carlotta Dragan Elvira Fabian Gesine Henrik Isolde Joris
Katinka Ludger Magda Norbert Ottilie Pascal Ruben Sabine Tobias Undine Viktor Wiebke Yannick Zdenka Alma Birger Clara Dietmar Edda Frieder"""
PEOPLE = _NAMES.split()
# language -> the domain as it is written -> values
VALUES = {
    "en": {"drink": "tea coffee juice beer cocoa", "colour": "red blue green purple", "instrument": "guitar piano violin cello",
           "sport": "tennis swimming golf yoga", "season": "spring summer autumn winter"},
    "de": {"Getränk": "Tee Kaffee Saft Bier", "Farbe": "Rot Blau Grün Gelb", "Instrument": "Gitarre Klavier Geige Flöte",
           "Verkehrsmittel": "Zug Fahrrad Auto Straßenbahn", "Jahreszeit": "Frühling Sommer Herbst Winter"},
    "es": {"bebida": "agua zumo cerveza vino", "color": "rojo azul verde negro", "instrumento": "guitarra violín flauta batería",
           "transporte": "tren coche bicicleta tranvía", "estación": "primavera verano otoño invierno"},
}  # fmt: skip
OPENINGS = {
    "en": ["", "", "By the way, ", "Heard today that ", "It turns out that ", "As far as I can tell, "],
    "de": ["", "", "Notiert – ", "Heute erfahren – ", "Am Rande – ", "Wie ich höre – "],
    "es": ["", "", "Por cierto, ", "Según me cuentan, ", "Parece que ", "Hoy supe que "],
}
ENDINGS = {
    "en": [
        "",
        "",
        ", as everybody at the table agreed",
        ", so plan the birthday with that in mind",
        ", which surprised nobody",
    ],
    "de": ["", "", ", wie alle am Tisch wussten", ", also beim Geburtstag daran denken", ", was niemanden wundert"],
    "es": ["", "", ", como ya sabían todos", ", hay que pensarlo para el cumpleaños", ", y a nadie le extraña"],
}
# {n} who, {v} value, {o} the value before, {d} the domain, {l} the domain in lower case. First the eight that rules were made with, then those kept back.
STATED = {
    "en": ["{n} prefers {v}", "{n}'s favourite {d} is {v}", "{n} really likes {v}", "nothing beats {v} for {n}", "{n} swears by {v}",
           "{v} is what {n} always picks", "the {d} of choice for {n} is {v}", "{n} is very fond of {v}",
           "{n} is crazy about {v}", "{v} is {n}'s thing", "{n} is a {v} person", "give {n} {v} and all is well, it is the best {d} there is",
           "{n} has a weakness for {v}", "when there is a choice {n} sticks with {v}", "{n} adores {v}", "{v} suits the taste of {n}"],
    "de": ["{n} bevorzugt {v}", "{n}s Lieblings{l} ist {v}", "{n} mag am liebsten {v}", "{n} schwört auf {v}", "{n} nimmt immer {v}",
           "für {n} ist {v} die erste Wahl", "{v} mag {n} besonders gern", "{n} liebt {v}",
           "{n} steht auf {v}", "{v} ist genau {n}s Ding", "{n} hat eine Vorliebe für {v}", "{n} entscheidet sich stets für {v}",
           "{n} ist ganz begeistert von {v}", "{v} trifft {n}s Geschmack", "wenn {n} wählt, dann {v}", "{n} ist ein Fan von {v}"],
    "es": ["{n} prefiere {v}", "a {n} le gusta {v}", "a {n} le encanta {v}", "{n} siempre elige {v}", "{v} es lo que pide {n}",
           "el {d} favorito de {n} es {v}", "para {n} lo mejor es {v}", "{n} adora {v}",
           "{n} tiene debilidad por {v}", "a {n} le apasiona {v}", "{n} se queda siempre con {v}", "{v} fascina a {n}",
           "{n} opta siempre por {v}", "lo suyo, dice {n}, es {v}", "{n} escoge {v} sin dudar", "la elección de {n} es {v}"],
}  # fmt: skip
CHANGED = {
    "en": ["{n} switched from {o} to {v}", "{n} now prefers {v}", "{n} no longer wants {o} and prefers {v} now", "{n} likes {v} these days",
           "{n} takes {v} instead of {o}", "{n} used to love {o}, now it is {v}", "{n} gave up {o} and goes for {v} now", "{n} prefers {v} over {o} now",
           "{n} went off {o} and is into {v} now", "{n} traded {o} for {v} and loves it", "{o} is history, {n} is now a fan of {v}",
           "{n} is tired of {o} and wants {v} now", "nowadays {n} swears by {v} rather than {o}", "it is not {o} but {v} that {n} likes now",
           "{n} is done with {o}; now {n} adores {v}", "{n} left {o} behind and sticks with {v} now"],
    "de": ["{n} mag jetzt {v}", "{n} bevorzugt inzwischen {v}", "{n} ist von {o} auf {v} umgestiegen und mag es sehr", "{n} nimmt jetzt {v} statt {o}",
           "{n} will kein {o} mehr und bevorzugt {v}", "früher mochte {n} {o}, jetzt liebt {n} {v}", "{n} schwört neuerdings auf {v}", "{n} bevorzugt {v} statt {o}",
           "{n} hat genug von {o} und steht jetzt auf {v}", "{o} ist Geschichte, {n} liebt jetzt {v}", "{n} entscheidet sich jetzt für {v} statt für {o}",
           "nicht mehr {o}, sondern jetzt {v} ist {n}s Ding", "{n} greift inzwischen lieber zu {v}", "{n} ist jetzt ein Fan von {v}",
           "mittlerweile hat {n} eine Vorliebe für {v}", "{n} hat {o} satt und wählt jetzt {v}"],
    "es": ["{n} prefiere ahora {v}", "{n} cambió de {o} a {v} y le gusta", "a {n} le gusta ahora {v}", "{n} ya no quiere {o}, ahora prefiere {v}",
           "{n} elige ahora {v}", "{n} prefiere {v} en vez de {o}", "antes {n} adoraba {o}, ahora prefiere {v}", "{n} dejó {o} y ahora pide {v}",
           "{n} está harto de {o} y ahora elige {v}", "{o} es historia, a {n} le encanta ahora {v}", "{n} opta ahora por {v}",
           "a {n} le apasiona ahora {v}", "{n} tiene ahora debilidad por {v}", "{n} pide ahora {v} y no {o}",
           "ya no {o}, ahora {n} escoge {v}", "{n} se queda ahora con {v}"],
}  # fmt: skip
STATED_UNSEEN = {
    "en": ["if you ask {n}, {v} wins every time", "{n} would do anything for {v}", "{n} keeps coming back to {v}", "you can make {n} happy with {v}",
           "{n} can't get enough of {v}", "{n} has always been into {v}", "no {d} comes close to {v} in the eyes of {n}", "{n} raves about {v}"],
    "de": ["mit {v} macht man {n} immer eine Freude", "{n} könnte ohne {v} nicht leben", "{n} schwärmt von {v}", "am allerliebsten hat {n} {v}",
           "für {n} geht nichts über {v}", "{n} kann von {v} nicht genug bekommen", "{n} hat {v} ins Herz geschlossen", "{n} findet {v} am besten"],
    "es": ["a {n} se le ilumina la cara con {v}", "{n} no cambia {v} por nada", "{n} disfruta mucho con {v}", "nada como {v} para {n}",
           "{n} es muy de {v}", "si eliges por {n}, que sea {v}", "{n} no puede vivir sin {v}", "{n} está loco por {v}"],
}  # fmt: skip
CHANGED_UNSEEN = {
    "en": ["{n} has had it with {o}, {v} is the new favourite", "{n} moved on from {o} to {v}", "these days it has to be {v} for {n}", "{n} found out that {v} is better than {o}",
           "{o} was yesterday, {n} only wants {v} now", "{n} converted to {v} and dropped {o}", "for {n} it is {v} now, {o} is out", "{n} has come round to {v}"],
    "de": ["{n} hat {o} gegen {v} getauscht und ist froh darüber", "statt {o} muss es für {n} jetzt {v} sein", "{n} hat sich von {o} verabschiedet und schwärmt jetzt von {v}", "{n} findet {v} inzwischen besser als {o}",
           "aus {o} wurde bei {n} {v}, das ist jetzt der Favorit", "{n} kommt von {v} nicht mehr los, {o} ist vergessen", "{n} hat {v} für sich entdeckt und mag es lieber als {o}", "mit {o} ist bei {n} Schluss, jetzt gibt es nur noch {v}"],
    "es": ["{n} se ha pasado de {o} a {v}", "{n} ha dejado {o} y ahora disfruta con {v}", "ahora a {n} le va más {v} que {o}", "{n} ya se cansó de {o}, lo suyo ahora es {v}",
           "{n} ha descubierto {v} y lo prefiere a {o}", "{o} ya no le dice nada a {n}, ahora quiere {v}", "{n} cambia {o} por {v}", "desde hace poco {n} solo pide {v}"],
}  # fmt: skip
STATED_LAST = {
    "en": ["{v}, and nothing but {v}, for {n}", "{n} told me that life without {v} would be dull", "put {v} in front of {n} and watch the smile",
           "{n} ordered {v} again, as ever", "the heart of {n} belongs to {v}", "{n} won't hear of any other {d} than {v}",
           "anybody who knows {n} knows about {v}", "{n} would pay double for {v}", "{v} makes the day of {n}", "{n} says yes to {v} before you have finished asking"],
    "de": ["{v} und sonst nichts, so ist {n}", "{n} lässt für {v} alles stehen", "ein Tag ohne {v} ist für {n} kein guter Tag", "bei {v} sagt {n} niemals nein",
           "{n}s Herz gehört {v}", "wer {n} kennt, kennt auch die Sache mit {v}", "{n} hat wieder {v} bestellt, wie jedes Mal", "an {v} kommt {n} nicht vorbei",
           "{n} gibt für {v} gern mehr aus", "{n} hält {v} für unschlagbar"],
    "es": ["{v} y nada más, así es {n}", "{n} lo deja todo por {v}", "un día sin {v} no es un buen día para {n}", "{n} nunca dice que no a {v}",
           "el corazón de {n} es de {v}", "quien conoce a {n} sabe lo de {v}", "{n} ha vuelto a pedir {v}, como cada vez", "{n} pagaría el doble por {v}",
           "con {v} {n} es feliz", "{n} no conoce nada mejor que {v}"],
}  # fmt: skip
CHANGED_LAST = {
    "en": ["{v} has pushed {o} off the throne as far as {n} is concerned", "{n} broke up with {o}; {v} has taken its place", "out goes {o}, in comes {v}, so {n} decided",
           "where {n} once reached for {o}, the hand now goes to {v}", "{n} has lost interest in {o} and found it again in {v}", "{n} is a convert: {v} all the way from here on",
           "do not offer {n} {o} again, offer {v}", "{n} has rediscovered {v} lately, and {o} gathers dust"],
    "de": ["{v} hat bei {n} {o} vom Thron gestoßen", "{n} hat mit {o} gebrochen, an seine Stelle trat {v}", "{n} ist zu {v} übergelaufen", "{o} lockt {n} nicht länger, {v} schon",
           "wo {n} einst zu {o} griff, liegt heute {v}", "{n} lässt {o} links liegen, seit es {v} gibt", "bitte {n} kein {o} anbieten, lieber {v}", "seit Neuestem dreht sich bei {n} alles um {v}"],
    "es": ["{v} ha destronado a {o} en el corazón de {n}", "{n} ha roto con {o}, en su lugar está {v}", "{n} se ha vuelto de {v}", "{o} ya no tienta a {n}, {v} sí",
           "donde {n} antes pedía {o}, hoy pide {v}", "{n} deja de lado {o} desde que existe {v}", "no le ofrezcas {o} a {n}, mejor {v}", "últimamente todo gira en torno a {v} para {n}"],
}  # fmt: skip
STATED_FRESH = {
    "en": ["nobody has to ask what {n} will have: {v}", "{n} lights up at the word {v}", "the way to {n} goes through {v}", "{n} counts the hours until {v}",
           "a shelf at home with {n} is all about {v}", "for {n} the world could consist of {v}", "{n} never says no to {v}", "{v} is written all over {n}", "{n} defends {v} against all comers"],
    "de": ["bei {n} muss man nicht fragen, es wird {v}", "{n} strahlt, sobald von {v} die Rede ist", "der Weg zu {n} führt über {v}", "{n} zählt die Stunden bis {v}",
           "{n} verteidigt {v} gegen jeden", "{v} und {n} gehören zusammen", "{n} wird bei {v} schwach", "ohne {v} läuft bei {n} nichts", "{n} träumt von {v}"],
    "es": ["con {n} no hace falta preguntar, será {v}", "{n} sonríe en cuanto se habla de {v}", "el camino hacia {n} pasa por {v}", "{n} cuenta las horas hasta {v}",
           "{n} defiende {v} contra todos", "{v} y {n} van juntos", "{n} se derrite por {v}", "sin {v} no hay quien aguante a {n}", "{n} sueña con {v}"],
}  # fmt: skip
CHANGED_FRESH = {
    "en": ["the days of {o} are over for {n}, long live {v}", "{n} has swung round from {o} to {v}", "{n} packed {o} away and unpacked {v}", "{v} has taken over from {o} at {n}'s place",
           "if you still bring {n} {o}, bring {v} from now on", "{n} looks at {o} and sees only {v}", "{n} has been won over by {v}", "whoever meets {n} these days meets {v}"],
    "de": ["die Zeit von {o} ist für {n} um, es lebe {v}", "{n} hat {o} weggeräumt und {v} hervorgeholt", "{v} hat {o} bei {n} abgelöst", "wer {n} noch {o} bringt, bringe künftig {v}",
           "{n} ist bei {v} angekommen", "{n} wandte sich von {o} ab und {v} zu", "wer {n} dieser Tage trifft, trifft auf {v}", "{v} hat {n} erobert"],
    "es": ["los días de {o} han pasado para {n}, viva {v}", "{n} guardó {o} y sacó {v}", "{v} ha relevado a {o} en casa de {n}", "si aún le llevas {o} a {n}, llévale {v}",
           "{n} ha llegado a {v}", "{n} dio la espalda a {o} y la cara a {v}", "quien ve a {n} estos días ve {v}", "{v} ha conquistado a {n}"],
}  # fmt: skip
OTHER_FRESH = {
    "en": ["{n} dropped the {v} on step {i}.", "{n} measured {i} units of {v}.", "Photo {i} shows {n} next to {v}.", "The {v} in hall {i} belongs to the aunt of {n}.",
           "{n} read out question {i} about {v}.", "Ticket {i} is in the name of {n}.", "{n} keeps the {v} of a neighbour in box {i}.", "{n} translated a text about {v}."],
    "de": ["{n} ließ {v} auf Stufe {i} fallen.", "{n} hat {i} Einheiten {v} gemessen.", "Foto {i} zeigt {n} neben {v}.", "{n} las Frage {i} zu {v} vor.",
           "Karte {i} läuft auf {n}.", "{n} bewahrt in Kiste {i} {v} einer Nachbarin auf.", "{n} übersetzte einen Text über {v}.", "{n} und ich gingen an Haus {i} vorbei."],
    "es": ["A {n} se le cayó {v} en el escalón {i}.", "{n} midió {i} unidades de {v}.", "La foto {i} muestra a {n} junto a {v}.", "{n} leyó la pregunta {i} sobre {v}.",
           "La entrada {i} está a nombre de {n}.", "{n} guarda en la caja {i} {v} de una vecina.", "{n} tradujo un texto sobre {v}.", "{n} y yo pasamos por la casa {i}."],
}  # fmt: skip
OTHER_LAST = {
    "en": ["{n} sells {v} at stand {i}.", "{n} is out of {v}, see order {i}.", "{n} wrote chapter {i}, which is about {v}.", "{n} and I waited {i} minutes for the {v}.",
           "Invoice {i} for {v} went to {n}.", "{n} asks whether {v} belongs on list {i}.", "{n} has an appointment in room {i}.", "{n} knows somebody who collects {v}."],
    "de": ["{n} verkauft {v} an Stand {i}.", "Bei {n} ist {v} ausgegangen, siehe Bestellung {i}.", "{n} schreibt Kapitel {i}, darin geht es um {v}.", "Rechnung {i} über {v} ging an {n}.",
           "{n} fragt, ob {v} auf Liste {i} gehört.", "{n} hat einen Termin in Raum {i}.", "{n} kennt jemanden, der {v} sammelt.", "{n} wartete {i} Minuten."],
    "es": ["{n} vende {v} en el puesto {i}.", "A {n} se le acabó {v}, véase el pedido {i}.", "{n} escribe el capítulo {i}, que trata de {v}.", "La factura {i} por {v} fue para {n}.",
           "{n} pregunta si {v} va en la lista {i}.", "{n} tiene una cita en la sala {i}.", "{n} conoce a alguien que colecciona {v}.", "{n} esperó {i} minutos."],
}  # fmt: skip
OTHER = {
    "en": ["{n} called about item {i} of the list.", "Met {n} at the station, platform {i}.", "{n} sent report number {i}, with {v} on page two.",
           "{n} spilled {v} over folder {i}.", "Lunch with {n} at table {i}, they were out of {v}.", "{n} repaired shelf {i} in the cellar."],
    "de": ["{n} hat Paket {i} abgeholt.", "{n} hat im Keller Regal {i} repariert.", "Mit {n} über Punkt {i} der Liste gesprochen.",
           "{n} hat für Raum {i} Farbe gekauft, dazu {v}.", "{n} fragte nach Akte {i}, es gab noch {v}.", "{n} rief wegen Rechnung {i} an."],
    "es": ["Con {n} en la reunión {i}.", "{n} derramó {v} sobre el informe {i}.", "{n} recogió el paquete {i}.",
           "{n} reparó el estante {i} del sótano.", "{n} llamó por la factura {i}.", "En la mesa {i} con {n}, había {v}."],
}  # fmt: skip


LAST, FRESH = 3, 4
_STATED = (STATED, STATED_UNSEEN, STATED_LAST, STATED_FRESH)
_CHANGED = (CHANGED, CHANGED_UNSEEN, CHANGED_LAST, CHANGED_FRESH)


def _part(tables: tuple[dict[str, list[str]], ...], language: str, part: int) -> list[str]:
    """Return the ways to say a thing of one part: the first table holds two parts."""
    return tables[0][language][8 * part : 8 * part + 8] if part < 2 else tables[part - 1][language]


class Preference(Struct):
    name: str
    domain: str
    history: list[tuple[date, str]]  # since when which value

    def on(self, day: date) -> str | None:
        held = [value for since, value in self.history if since <= day]
        return held[-1] if held else None


def values(domain: str) -> list[str]:
    return next(row[domain] for row in VALUES.values() if domain in row).split()


def year(seed: int = 7, facts: int = 3_000, *, part: int = 0) -> tuple[dict[str, list[str]], list[Preference]]:
    """Return notes and what they say is true: 120 preferences of 60 people, 40 of which change. `part` (0 to 4) says which ways to say it."""
    rnd = random.Random(seed)
    lines: dict[date, list[str]] = {}
    truth: list[Preference] = []
    languages = list(VALUES)
    stated, changed = ({name: _part(tables, name, part) for name in VALUES} for tables in (_STATED, _CHANGED))
    other = {LAST: OTHER_LAST, FRESH: OTHER_FRESH}.get(part, OTHER)

    def tell(day: date, language: str, ways: list[str], **words: str) -> None:
        core = rnd.choice(ways).format(**words)
        text = f"{rnd.choice(OPENINGS[language])}{core}{rnd.choice(ENDINGS[language])}."
        lines.setdefault(day, []).append(text[0].upper() + text[1:])

    for who, name in enumerate(PEOPLE):
        language = languages[who % 3]
        for at, domain in enumerate(rnd.sample(list(VALUES[language]), 2)):
            before, after = rnd.sample(values(domain), 2)
            words = {"n": name, "d": domain, "l": domain.lower(), "o": before}
            start = FIRST + timedelta(days=rnd.randrange(120))
            truth.append(Preference(name, domain, [(start, before)]))
            for told in range(3):  # said again, in other words
                tell(start + timedelta(days=rnd.randrange(1, 20) * told), language, stated[language], v=before, **words)
            if (who * 2 + at) % 3 == 0:
                day = start + timedelta(days=rnd.randrange(70, 200))
                truth[-1].history.append((day, after))
                for told in range(2):
                    tell(
                        day + timedelta(days=rnd.randrange(1, 20) * told), language, changed[language], v=after, **words
                    )
    said = sum(map(len, lines.values()))
    for number in range(facts - said):
        who = rnd.randrange(len(PEOPLE))
        language = languages[who % 3]
        thing = rnd.choice(values(rnd.choice(list(VALUES[language]))))
        text = rnd.choice(other[language]).format(n=PEOPLE[who], i=number, v=thing)
        lines.setdefault(FIRST + timedelta(days=rnd.randrange(360)), []).append(text)
    files = {}
    for day in sorted(lines):
        rnd.shuffle(lines[day])
        files[f"memory/{day}.md"] = [f"# {day}", "", *(f"- {text}" for text in lines[day])]
    return files, truth
