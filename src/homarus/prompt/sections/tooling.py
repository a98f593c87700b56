"""What the model can do and look up: tools in their fixed order, the command line, skills, memory, aliases, documentation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from homarus.core.text import single_line
from homarus.core.tools import ToolSpec
from homarus.prompt.escape import body, inline
from homarus.prompt.facts import StableFacts
from homarus.prompt.section import is_small

LINE_LIMIT = 80
_CITATIONS = {
    "on": "Cite every statement from memory: `Source: <path#line>`.",
    "off": "Do not mention paths or line numbers of memory files unless the user asks.",
    "auto": "Cite `Source: <path#line>` where the user may want to check.",
}


def in_order(specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools in the order of the list, each name once however it is cased, in its first spelling."""
    first: dict[str, ToolSpec] = {}
    for spec in specs:
        first.setdefault(spec.name.lower(), spec)
    return tuple(sorted(first.values(), key=lambda spec: (spec.order, spec.name.lower())))


def told_to(window: int, specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools as a model with this window is told of them: a small one gets names and types, and a few words."""
    if not is_small(window):
        return tuple(specs)
    return tuple(replace(spec, description=summary_of(spec), parameters=_bare(spec.parameters)) for spec in specs)


def _bare(schema: Any) -> Any:
    """Return a schema without its prose; a parameter that is called `description` stays."""
    if isinstance(schema, list):
        return [_bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _bare(inner) for name, inner in value.items()}
        if key == "properties" and isinstance(value, dict)
        else _bare(value)
        for key, value in schema.items()
        if key not in {"description", "title", "examples"}
    }


def tooling(facts: StableFacts) -> str:
    if not facts.tools:
        return "## Tooling\nYou have no tools in this run: answer from what you know and from what stands here."
    lines = ["## Tooling", "Your tools, by exact name. What is not listed you do not have."]
    lines += [tool_line(tool) for tool in in_order(facts.tools)]
    if facts.has("exec") and facts.has("process"):
        lines.append("Long work: start it with `exec` in the background, look in with `process`, never poll in a loop.")
    if facts.has("sessions_spawn"):
        lines.append("Big or parallel work: `sessions_spawn`.")
    if facts.has("cron"):
        lines.append("Anything for later: `cron`, worded so that it is understood when it fires.")
    return "\n".join(lines)


def tool_line(tool: ToolSpec) -> str:
    """Return one row of the list, short enough to stay one row."""
    name = inline(tool.name, 64)
    summary = inline(summary_of(tool), LINE_LIMIT - len(name) - 4)
    return f"- {name}: {summary}" if summary else f"- {name}"


def command_line(facts: StableFacts) -> str:
    """Point at the program's own help: commands that a model invents do harm. A sandbox has no such program."""
    if facts.sandbox is not None or not facts.has("exec"):
        return (
            "## homarus Command Line\n"
            "You cannot run `homarus` here, the user can: `homarus --help` lists the commands, `homarus doctor` finds what is"
            " wrong. Never guess a command."
        )
    return (
        "## homarus Command Line\n"
        "`homarus --help` lists the commands, `homarus <command> --help` explains one: never guess. `homarus doctor`"
        " finds what is wrong."
    )


def self_update(facts: StableFacts) -> str:
    """Keep changes of the installation in the user's hands."""
    if not facts.has("gateway"):
        return ""
    return (
        "## Self-Update\n"
        "Change the configuration or restart homarus (`gateway`) only when the user asks for exactly that."
    )


def summary_of(tool: ToolSpec) -> str:
    """Return a tool in a few words: its own, or the first sentence about it."""
    if tool.summary:
        return tool.summary
    flat = single_line(tool.description, 400)
    head, stop, _ = flat.partition(". ")
    return head if stop else flat.removesuffix(".")


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
