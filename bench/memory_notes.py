"""Sentences and questions of synthetic notes."""

from __future__ import annotations

import random

WHO = [
    "Anna",
    "Boris",
    "Carla",
    "Dmitri",
    "Elena",
    "Farid",
    "Greta",
    "Hiro",
    "Ines",
    "Jonas",
    "Katya",
    "Liam",
    "Mara",
    "Nils",
    "Olga",
    "Pavel",
    "Rosa",
    "Sven",
    "Tara",
]
WHAT = [
    "invoice",
    "passport",
    "bicycle",
    "router",
    "boiler",
    "printer",
    "ticket",
    "contract",
    "backpack",
    "camera",
    "battery",
    "recipe",
    "lease",
    "filter",
]
WHERE = [
    "clinic",
    "garage",
    "garden",
    "library",
    "market",
    "office",
    "station",
    "school",
    "workshop",
    "harbour",
    "bakery",
    "gym",
]
HOW = ["broken", "new", "missing", "late", "cheap", "heavy", "green", "urgent", "old", "shared", "spare", "borrowed"]
SENTENCES = (
    "{who} asked me about the {how} {what} near the {where} and wants an answer soon.",
    "Picked up the {how} {what} from the {where}; it cost {n} euros and the receipt is in the drawer.",
    "Moved the meeting with {who} because the {what} has not arrived at the {where} yet.",
    "Spent {n} minutes on the {what}, then {who} called and we agreed to try the {where} again.",
    "The {what} at the {where} is {how}; ask {who} for the warranty number {n}.",
    "Remember: {who} prefers the {how} {what} and does not want to go to the {where}.",
)


def sentence(rnd: random.Random) -> str:
    """Return one line that somebody could have written."""
    return rnd.choice(SENTENCES).format(
        who=rnd.choice(WHO), what=rnd.choice(WHAT), where=rnd.choice(WHERE), how=rnd.choice(HOW), n=rnd.randint(3, 240)
    )


def questions(rnd: random.Random, count: int) -> list[str]:
    """Return questions about such lines, half of them about a person."""
    asked = [f"What did {rnd.choice(WHO)} say about the {rnd.choice(WHAT)}?" for _ in range(count // 2)]
    return asked + [
        f"when was the {rnd.choice(WHAT)} {rnd.choice(HOW)} near the {rnd.choice(WHERE)}" for _ in range(count // 2)
    ]
