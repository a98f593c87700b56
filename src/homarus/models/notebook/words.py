"""What the notebook says. Data only: it never claims to be more than it is."""

from __future__ import annotations

from homarus.models.notebook.grammar import Kind

HELP = """I am the built-in notebook, not a language model: a few fixed rules that work without key, network or download.

- Tell me something ("remember that the gate code is 4711", or just say it) and I keep it in today's note.
- Ask me ("what is the gate code?") and I answer with quotes from your notes and where they stand.
- "read FILE", "list files", "what time is it" and "status" work too.

To talk to a real model, do one of these and start again:
- put a key into the environment, for example ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY;
- start Ollama, LM Studio, llama.cpp or vLLM on this machine: it is found by itself;
- fetch a small local model: `homarus models pull NAME` (`homarus models list --pullable` names some);
- or choose one: `homarus models set provider/model`."""

SELF = (
    "I am a notebook with fixed rules, not a language model: I keep what you tell me and find it again. All of it stays in "
    "plain files on this machine, and nothing is sent anywhere. “help” says what I can do and how to connect a real model."
)
BEYOND = (
    "That takes a language model, and I am only a notebook with fixed rules, so nothing was done and nothing was stored. "
    "“note: …” keeps a sentence as it is; “help” says how to connect a real model."
)
NOTHING_FOUND = (
    "I found nothing about that in your notes, and I know nothing beyond them: I am a notebook, not a language model. "
    "'help' says how to connect one."
)
NOTHING_TODAY = "There is no note of today yet. “ls memory” lists the older ones."
NO_ALARM = "I cannot remind you by myself, but it stands in your notes."
THANKS = "You are welcome."
PARTING = "Good-bye. What you told me stays in your notes."
NOD = "All right."
GREETING = "Hello. I am the built-in notebook: tell me what to keep, or ask about what you told me. “help” says more."
FORGET = (
    "I do not delete notes. They are plain Markdown: take the line out of its file, and it is gone from my answers too."
)
NO_MEMORY = "I would keep that, but no memory tool is offered here, so nothing was stored."
NO_SEARCH = "I would look that up, but no memory or search tool is offered here."
NO_FILES = "I would look, but the tool for it is not offered here."
NO_STATUS = "No status tool is offered here. I am builtin/notebook, and I run."
NO_SAFE_APPEND = "I could not add to {path} safely with the tools offered here (it has no single “## Retain” heading), so nothing was stored."

FAILED = {
    Kind.KEEP: "I could not keep that: {why}",
    Kind.REMIND: "I could not keep that: {why}",
    Kind.ASK: "I could not look that up: {why}",
    Kind.READ: "I could not read {about}: {why}",
    Kind.LIST: "I could not list {about}: {why}",
    Kind.TIME: "I could not ask for the time: {why}",
    Kind.STATUS: "I could not get the status: {why}",
}

# What needs no tool.
FIXED = {
    Kind.GREET: GREETING,
    Kind.THANK: THANKS,
    Kind.PART: PARTING,
    Kind.NOD: NOD,
    Kind.SELF: SELF,
    Kind.BEYOND: BEYOND,
    Kind.FORGET: FORGET,
}
