"""What the notebook says, in English and German. Data only: it never claims to be more than it is."""

from __future__ import annotations

from homarus.models.notebook.grammar import Kind

# name -> (English, German)
SAID: dict[str, tuple[str, str]] = {
    "help": (
        """I am the built-in notebook, not a language model: a few fixed rules that work without key, network or download.

- Tell me something ("the gate code is 4711") and I keep it in today's note, one line for each message.
- Ask me ("how do I open the gate?") and I answer with quotes from your notes and where they stand, or say that I don't know.
- "actually …" corrects, "forget …" strikes a line through, "undo" takes the last change back; "todo: …", "my todos" and "done: …" keep a list.
- "read FILE", "list files", "what time is it" and "status" work too. I speak English and German.

To talk to a real model, do one of these and start again:
- put a key into the environment, for example ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY;
- start Ollama, LM Studio, llama.cpp or vLLM on this machine: it is found by itself;
- fetch a small local model: `homarus models pull NAME` (`homarus models list --pullable` names some);
- or choose one: `homarus models set provider/model`.""",
        """Ich bin das eingebaute Notizbuch, kein Sprachmodell: ein paar feste Regeln, ohne Schlüssel, Netz oder Download.

- Sag mir etwas („der Torcode ist 4711“), und es steht in der Notiz von heute, eine Zeile je Nachricht.
- Frag mich („wie geht das Tor auf?“), und ich antworte mit Zitaten aus deinen Notizen und wo sie stehen, oder sage, dass ich es nicht weiß.
- „eigentlich …“ berichtigt, „vergiss …“ streicht eine Zeile durch, „rückgängig“ nimmt die letzte Änderung zurück; „todo: …“, „meine Aufgaben“ und „erledigt: …“ führen eine Liste.
- „lies DATEI“, „zeig die Dateien“, „wie spät ist es“ und „status“ gehen auch. Ich kann Deutsch und Englisch.

Für ein richtiges Modell eines davon, dann neu starten:
- einen Schlüssel in die Umgebung setzen, etwa ANTHROPIC_API_KEY, OPENAI_API_KEY oder OPENROUTER_API_KEY;
- Ollama, LM Studio, llama.cpp oder vLLM auf diesem Rechner starten: es wird von selbst gefunden;
- ein kleines lokales Modell holen: `homarus models pull NAME` (`homarus models list --pullable` nennt einige);
- oder eines wählen: `homarus models set anbieter/modell`.""",
    ),
    "self": (
        ("I am a notebook with fixed rules, not a language model: I keep what you tell me and find it again. All of it stays in "
        "plain files on this machine, and nothing is sent anywhere. “help” says what I can do and how to connect a real model."),
        ("Ich bin ein Notizbuch mit festen Regeln, kein Sprachmodell: Ich behalte, was du mir sagst, und finde es wieder. Alles bleibt in "
        "einfachen Dateien auf diesem Rechner, nichts wird verschickt. „Hilfe“ sagt, was ich kann und wie ein richtiges Modell dazukommt."),
    ),
    "beyond": (
        ("That takes a language model, and I am only a notebook with fixed rules, so nothing was done and nothing was stored. "
        "“note: …” keeps a sentence as it is, “todo: …” makes it a task; “help” says how to connect a real model."),
        ("Dafür braucht es ein Sprachmodell, und ich bin nur ein Notizbuch mit festen Regeln: Nichts wurde getan, nichts gespeichert. "
        "„Notiere: …“ behält einen Satz, wie er ist, „todo: …“ macht ihn zur Aufgabe; „Hilfe“ sagt, wie ein richtiges Modell dazukommt."),
    ),
    "unknown": (
        "I don't know: I found nothing about that in your notes.",
        "Das weiß ich nicht: In deinen Notizen steht nichts dazu.",
    ),
    "nearest": (
        "I don't know. The nearest in your notes: {quotes}",
        "Das weiß ich nicht. Am nächsten kommt in deinen Notizen: {quotes}",
    ),
    "answer": ("Your notes say: {quotes}", "In deinen Notizen steht: {quotes}"),
    "taken_for_question": ("(Taken for a question. “note: …” keeps it as a note.)", "(Als Frage verstanden. „Notiere: …“ behält es als Notiz.)"),
    "if_question": ("(If it was a question: I don't know; your notes don't answer it.)", "(Falls das eine Frage war: Das weiß ich nicht; deine Notizen beantworten sie nicht.)"),
    "kept_too": (
        "(It may ask or tell, so it was looked up and kept; “forget that” strikes it through.)",
        "(Das kann eine Frage sein oder eine Mitteilung: Es ist nachgesehen und notiert; „vergiss das“ streicht es durch.)",
    ),
    "denied": (
        "What is right, then? Say it as a sentence that begins with “actually”, or strike the last line through with “forget that”: {quotes}",
        "Was stimmt dann? Sag es als Satz, der mit „eigentlich“ beginnt, oder streiche die letzte Zeile mit „vergiss das“ durch: {quotes}",
    ),
    "denied_nothing": (
        "What is right, then? Say it as a sentence that begins with “actually”. Nothing was stored or changed.",
        "Was stimmt dann? Sag es als Satz, der mit „eigentlich“ beginnt. Nichts wurde notiert oder geändert.",
    ),
    "restored": ("Back again: {quotes}", "Wieder da: {quotes}"),
    "former": ("Before: {quotes}", "Früher: {quotes}"),
    "later": ("Since then: {quotes}", "Inzwischen: {quotes}"),
    "quote": ("“{text}” ({source})", "„{text}“ ({source})"),
    "kept": ("Noted: “{text}” ({source})", "Notiert: „{text}“ ({source})"),
    "kept_bare": ("Noted: “{text}”", "Notiert: „{text}“"),
    "block": ("Kept as one block of {lines} lines in {source}.", "Als ein Block von {lines} Zeilen behalten in {source}."),
    "replaces": ("It replaces: {quotes}", "Das ersetzt: {quotes}"),
    "struck": ("Struck through: {quotes}", "Durchgestrichen: {quotes}"),
    "ticked": ("Done: {quotes}", "Erledigt: {quotes}"),
    "still_open": ("(Still to do: {quotes} “done: …” ticks it off.)", "(Noch offen: {quotes} „erledigt: …“ hakt es ab.)"),
    "which": ("Which one? Say it in the words of the note:", "Welche? Sag es mit den Worten der Notiz:"),
    "no_such": ("I found no such note, so nothing was changed.", "So eine Notiz finde ich nicht, also ist nichts geändert."),
    "no_edit": (
        "I cannot change files here. It stands at {source}: take the line out, and it is gone from my answers too.",
        "Ich kann hier keine Dateien ändern. Es steht bei {source}: Nimm die Zeile heraus, dann ist sie auch aus meinen Antworten verschwunden.",
    ),
    "todos": ("To do:", "Zu erledigen:"),
    "no_todos": ("Nothing to do stands in your notes.", "In deinen Notizen steht nichts zu erledigen."),
    "today": ("Today's note:", "Die Notiz von heute:"),
    "nothing_today": (
        "There is no note of today yet. “ls memory” lists the older ones.",
        "Von heute gibt es noch keine Notiz. „ls memory“ zeigt die älteren.",
    ),
    "of_day": ("The note of {day}:", "Die Notiz von {day}:"),
    "nothing_of_day": ("There is no note of {day}.", "Von {day} gibt es keine Notiz."),
    "older": ("And {days} older ones; “ls memory” lists them.", "Und {days} ältere; „ls memory“ zeigt sie."),
    "texts": ("Texts that were kept whole:", "Texte, die als Ganzes dastehen:"),
    "no_notes": ("There is no note yet.", "Noch gibt es keine Notiz."),
    "no_alarm": (
        "I cannot remind you by myself, but it stands among your todos.",
        "Von selbst kann ich dich nicht erinnern, aber es steht bei deinen Aufgaben.",
    ),
    "thanks": ("You are welcome.", "Gern geschehen."),
    "parting": ("Good-bye. What you told me stays in your notes.", "Tschüss. Was du mir gesagt hast, bleibt in deinen Notizen."),
    "nod": ("All right.", "In Ordnung."),
    "greeting": (
        "Hello. I am the built-in notebook: tell me what to keep, or ask about what you told me. “help” says more.",
        "Hallo. Ich bin das eingebaute Notizbuch: Sag mir, was ich behalten soll, oder frag nach dem, was du mir gesagt hast. „Hilfe“ sagt mehr.",
    ),
    "no_memory": (
        "I would keep that, but no memory tool is offered here, so nothing was stored.",
        "Ich würde das behalten, aber hier gibt es kein Werkzeug dafür: Nichts wurde gespeichert.",
    ),
    "no_search": (
        "I would look that up, but no memory or search tool is offered here.",
        "Ich würde nachsehen, aber hier gibt es kein Werkzeug zum Suchen.",
    ),
    "no_files": ("I would look, but the tool for it is not offered here.", "Ich würde nachsehen, aber das Werkzeug dafür gibt es hier nicht."),
    "no_status": ("No status tool is offered here. I am builtin/notebook, and I run.", "Hier gibt es kein Werkzeug für den Status. Ich bin builtin/notebook, und ich laufe."),
    "no_append": (
        "I could not add to {path} safely with the tools offered here (it has no single “## Retain” heading), so nothing was stored.",
        "Mit den Werkzeugen hier kann ich {path} nicht sicher ergänzen (es hat nicht genau eine Überschrift „## Retain“): Nichts wurde gespeichert.",
    ),
    "clock": ("It is {now} by this machine's clock.", "Es ist {now} nach der Uhr dieses Rechners."),
    "not_kept": ("I could not keep that: {why}", "Das konnte ich nicht behalten: {why}"),
    "not_found": ("I could not look that up: {why}", "Das konnte ich nicht nachsehen: {why}"),
    "not_changed": ("I could not change that: {why}", "Das konnte ich nicht ändern: {why}"),
    "not_read": ("I could not read {about}: {why}", "{about} konnte ich nicht lesen: {why}"),
    "not_listed": ("I could not list {about}: {why}", "{about} konnte ich nicht auflisten: {why}"),
    "no_time": ("I could not ask for the time: {why}", "Nach der Zeit konnte ich nicht fragen: {why}"),
    "not_status": ("I could not get the status: {why}", "Den Status konnte ich nicht bekommen: {why}"),
}  # fmt: skip

# What needs no tool.
FIXED = {
    Kind.GREET: "greeting",
    Kind.THANK: "thanks",
    Kind.PART: "parting",
    Kind.NOD: "nod",
    Kind.SELF: "self",
    Kind.BEYOND: "beyond",
    Kind.HELP: "help",
}
FAILED = {
    Kind.READ: "not_read",
    Kind.LIST: "not_listed",
    Kind.TIME: "no_time",
    Kind.STATUS: "not_status",
}


def say(name: str, german: bool, **values: object) -> str:
    return SAID[name][german].format(**values) if values else SAID[name][german]
