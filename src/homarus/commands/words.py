"""The words that stop a run when they are a whole message. Every message is looked at, so this costs next to nothing."""

from __future__ import annotations

_TRAILING = " \t\n!?.,;:。！？，；：…'\"’”)]}"
# A whole message that means /stop: said in a hurry, in the languages that people swear in.
STOP_WORDS = frozenset(
    {
        "stop", "esc", "abort", "exit", "interrupt", "wait", "halt", "please stop", "stop please", "stop now", "stop right now",
        "stop run", "stop the run", "stop current run", "stop action", "stop current action", "stop agent", "stop the agent",
        "stop openclaw", "openclaw stop", "stop homarus", "homarus stop", "stop doing anything", "stop do not do anything",
        "stop don't do anything", "stop dont do anything", "do not do that", "don't do that", "cancel that",
        "stopp", "halt an", "anhalten", "abbrechen", "aufhören", "aufhoeren", "hör auf", "hoer auf", "bitte stopp", "bitte aufhören",
        "arrête", "arrete", "arrêter", "arretez", "arrêtez", "stoppe", "arrête stp", "arrête s'il te plaît", "para", "para ya", "detente",
        "detén", "deten", "detenlo", "detener", "detente por favor", "para por favor", "alto", "ferma", "fermati", "basta", "basta così", "pare",
        "parar", "parem", "pare por favor", "stoppa", "sluta", "stop met", "hou op", "przestań", "zatrzymaj", "durdur", "dur", "стоп", "остановись",
        "останови", "остановить", "прекрати", "хватит", "зупинись", "停止", "停", "停下", "停一下", "请停止", "别做了", "止めて", "止まれ", "ストップ",
        "やめて", "やめてください", "중지", "멈춰", "그만", "توقف", "قف", "रुको", "बंद करो", "dừng lại", "berhenti",
    }
)  # fmt: skip


# Among the facts of a message: texts that go along with it and are never read for commands.
ATTACHED = "attached"
# Among them, too: the names of the commands that its sender carries out itself, which a slip may have meant.
OWN_COMMANDS = "ownCommands"


def is_stop(text: str) -> bool:
    """Say whether a whole message is a word that stops the run."""
    word = " ".join(text.split()).rstrip(_TRAILING).casefold().replace("’", "'").replace(",", "")
    return word in STOP_WORDS
