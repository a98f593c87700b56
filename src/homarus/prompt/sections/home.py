"""Where the agent lives: its workspace, the sandbox around its commands, and the state of its files."""

from __future__ import annotations

from homarus.prompt.facts import StableFacts
from homarus.prompt.guard import inline

_RITUAL = {
    "full": "Take it up with your next reply, after the task if there is one, and end it as the file says.",
    "limited": "It cannot be finished in this run: do what was asked, and mention that the first meeting is still due.",
}
_ACCESS = {
    "none": "The host's workspace is not mounted there.",
    "ro": "The workspace is mounted read-only there: writes fail.",
    "rw": "",
}


def workspace(facts: StableFacts) -> str:
    """Name the working directory; two roots, where commands run somewhere else than the agent lives."""
    home, cwd = inline(facts.workspace), inline(facts.cwd)
    box = facts.sandbox
    if box is not None and box.instead:
        seen = "can only be read" if box.access == "ro" else "cannot be seen from here"
        lines = [
            f"Working directory: {inline(box.workspace)}",
            f"Agent home: {home}, which {seen}.",
            "Relative paths start at the working directory; keep files there.",
        ]
    elif cwd and cwd != home:
        lines = [
            f"Working directory: {cwd}",
            f"Agent home: {home}",
            "Relative paths start at the working directory; your own files (memory, notes) belong in the agent home.",
        ]
    else:
        lines = [f"Working directory: {home}", "Relative paths start there; keep your own files there."]
    lines += [f"- {inline(note)}" for note in facts.workspace_notes if note.strip()]
    return "\n".join(["## Workspace", *lines])


def sandbox(facts: StableFacts) -> str:
    """Say where commands run and what is closed to them, so that a failure there is understood and not fought."""
    box = facts.sandbox
    if box is None:
        return ""
    lines = ["## Sandbox", f"Commands run in a sandbox ({inline(box.backend)}), not on the host."]
    if box.workspace and not box.instead and inline(box.workspace) != inline(facts.workspace):
        lines.append(f"To them the workspace is {inline(box.workspace)}; file tools take the path above.")
    if _ACCESS[box.access]:
        lines.append(_ACCESS[box.access])
    lines.append("It has network access." if box.network else "It has no network.")
    lines.append(
        "The user may let a command run on the host (`elevated`): ask, never assume."
        if box.elevated
        else "Nothing can leave it: if a task needs the host, say so."
    )
    lines += [f"- {inline(note)}" for note in box.notes if note.strip()]
    return "\n".join(lines)


def ritual(facts: StableFacts) -> str:
    """Remind of the first-run ritual while BOOTSTRAP.md waits; its text stays in Project Context."""
    what = _RITUAL.get(facts.ritual, "")
    if not what:
        return ""
    return f"## First Run\nBOOTSTRAP.md below is a first meeting that has not taken place yet. {what}"


def truncation(facts: StableFacts) -> str:
    """Say that something was cut; which files and how much is shown by `/context`, not paid for in every turn."""
    if not facts.files_cut:
        return ""
    return "## Partial Files\nSome files below are cut, as their markers say. Read such a file before you rely on it."


def files_note(facts: StableFacts) -> str:
    """Say where the workspace files come from."""
    if not facts.files:
        return "## Workspace Files\nNo workspace file is included in this run."
    return (
        "## Workspace Files\n"
        "They follow under Project Context, yours and the user's to edit: what should last is written there."
    )
