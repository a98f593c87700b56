"""Small facts about lines that both indexing and ranking know: bits, labels, kinds. Imports nothing heavy."""

from __future__ import annotations

QUESTION, TIME, HEADING, PATH, NUMBER, CODE, PROPER, RETAIN, FIRST, CONTINUED = (1 << bit for bit in range(10))
_LABELS = """todo note notes decision decided idea question answer q a fix bug warning tip reminder summary context goal plan
status next done action actions result results remember important update why how what source link links tags date
name kind aliases title user assistant me"""
LABELS = frozenset(_LABELS.split())  # what stands before a colon and is nobody's name
KINDS = {"W": "world", "B": "experience", "O": "opinion", "S": "observation"}
KIND_NAMES = frozenset([*KINDS.values(), "note", "heading", "turn"])


def kind_names(given: tuple[str, ...]) -> frozenset[str]:
    """Return full kind names for letters or names; one that is unknown matches nothing."""
    return frozenset(KINDS.get(name.upper(), name.lower()) for name in given)
