"""The words that stop a run when they are a whole message. Every message is looked at, so this costs next to nothing."""

from __future__ import annotations

_TRAILING = " \t\n!.。！…"
# A whole message that means /stop: said in a hurry, in the languages that people swear in.
STOP_WORDS = frozenset(
    {
        "stop", "esc", "abort", "exit", "interrupt", "wait", "halt",
        "stopp", "halt an", "abbrechen", "aufhören", "arrête", "arrete", "arrêter", "stoppe", "para", "detente", "alto",
        "ferma", "fermati", "basta", "pare", "parar", "stoppa", "durdur", "dur", "стоп", "остановись", "хватит",
        "停止", "停", "停下", "止めて", "ストップ", "やめて", "중지", "멈춰", "توقف", "रुको",
    }
)  # fmt: skip


def is_stop(text: str) -> bool:
    """Say whether a whole message is a word that stops the run."""
    word = text.strip().rstrip(_TRAILING).casefold()
    return word in STOP_WORDS
