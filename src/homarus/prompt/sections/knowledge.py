"""Where knowledge comes from: skills, memory, model aliases and the documentation on disk."""

from __future__ import annotations

from homarus.prompt.escape import body, inline
from homarus.prompt.facts import StableFacts

_CITATIONS = {
    "on": "Cite every statement from memory: `Source: <path#line>`.",
    "off": "Do not mention paths or line numbers of memory files unless the user asks.",
    "auto": "Cite `Source: <path#line>` where the user may want to check.",
}


def skills(facts: StableFacts) -> str:
    """List the skills with the one rule of reading them; without `read` the list would be of no use."""
    if not facts.skills.strip() or not facts.has("read"):
        return ""
    return (
        "## Skills (mandatory)\n"
        "Before you answer, hold the request against each <description> below.\n"
        "- One clearly fits: `read` its SKILL.md at <location>, then do as it says.\n"
        "- Several fit: the most specific one, never two up front.\n"
        "- None fits: read none.\n"
        f"{body(facts.skills)}"
    )


def minimal_skills(facts: StableFacts) -> str:
    """List the skills in a small prompt only where the caller passed them on purpose."""
    return skills(facts) if facts.skills_in_minimal else ""


def memory(facts: StableFacts) -> str:
    """Ask for a look into memory before an answer about the past."""
    search, get = facts.has("memory_search"), facts.has("memory_get")
    if not search and not get:
        return ""
    how = "call `memory_search`" if search else "look with `memory_get`"
    then = ", then `memory_get` for just the lines you need" if search and get else ""
    return (
        "## Memory Recall\n"
        f"Before you answer about earlier work, decisions, dates, people, preferences or open tasks, {how} (MEMORY.md"
        f" and memory/*.md){then}. If that leaves you unsure, say that you looked.\n"
        f"{_CITATIONS[facts.citations]}"
    )


def aliases(facts: StableFacts) -> str:
    """List the short names of models, sorted, so that the order of a config file does not show."""
    if not facts.aliases:
        return ""
    rows = [f"- {inline(alias)}: {inline(ref)}" for alias, ref in sorted(set(facts.aliases))]
    return "\n".join(["## Model Aliases", "Wherever you name a model, these names work too.", *rows])


def documentation(facts: StableFacts) -> str:
    if not facts.docs:
        return ""
    return (
        "## Documentation\n"
        f"homarus docs: {inline(facts.docs)}\n"
        "About homarus itself (behaviour, commands, configuration): read there first."
    )
