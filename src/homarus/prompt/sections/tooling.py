"""What the model can do: the tool list in its fixed order, and the command line of homarus."""

from __future__ import annotations

from collections.abc import Iterable

from homarus.core.text import single_line
from homarus.core.tools import ToolSpec
from homarus.prompt.facts import StableFacts, ToolNote
from homarus.prompt.guard import inline

LINE_LIMIT = 80


def in_order(specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools in the order of the list, each name once however it is cased, in its first spelling."""
    first: dict[str, ToolSpec] = {}
    for spec in specs:
        first.setdefault(spec.name.lower(), spec)
    return tuple(sorted(first.values(), key=lambda spec: (spec.order, spec.name.lower())))


def tool_notes(specs: Iterable[ToolSpec]) -> tuple[ToolNote, ...]:
    """Return the rows of the list."""
    return tuple(ToolNote(spec.name, spec.summary or _first_sentence(spec.description)) for spec in in_order(specs))


def tooling(facts: StableFacts) -> str:
    """List the tools by exact name, with the few hints that no schema can give."""
    if not facts.tools:
        return "## Tooling\nYou have no tools in this run: answer from what you know and from what stands here."
    lines = ["## Tooling", "Your tools, by exact name. What is not listed you do not have."]
    lines += [tool_line(tool) for tool in facts.tools]
    if facts.has("exec") and facts.has("process"):
        lines.append("Long work: start it with `exec` in the background, look in with `process`, never poll in a loop.")
    if facts.has("sessions_spawn"):
        lines.append("Big or parallel work: `sessions_spawn`.")
    if facts.has("cron"):
        lines.append("Anything for later: `cron`, worded so that it is understood when it fires.")
    return "\n".join(lines)


def tool_line(tool: ToolNote) -> str:
    """Return one row of the list, short enough to stay one row."""
    name = inline(tool.name, 64)
    summary = inline(tool.summary, LINE_LIMIT - len(name) - 4)
    return f"- {name}: {summary}" if summary else f"- {name}"


def command_line(_: StableFacts) -> str:
    """Point at the program's own help: commands that a model invents do harm."""
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


def _first_sentence(text: str) -> str:
    flat = single_line(text, 400)
    head, stop, _ = flat.partition(". ")
    return head if stop else flat.removesuffix(".")
