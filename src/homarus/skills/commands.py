"""Skills by name in a chat: `/skill name`, `/name`, and `$name` inside a message. Pure; reading the skill is `discover`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from homarus.core.frontmatter import split
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.skills.discover import Skill

MAX_NAME, MAX_DESCRIPTION, MAX_REFERENCES = 32, 100, 8
_COMMAND = late(r"/([^\s:]+)(?:\s*:)?(?:\s+(.*))?", re.DOTALL)
_SKILL = late(r"([^\s:]+)(?:\s*:)?(?:\s+(.*))?", re.DOTALL)
_REFERENCE = late(r"(?<![\w$])(\\?)\$([A-Za-z][A-Za-z0-9_-]*)")


class SkillCommand(Struct, frozen=True):
    """One skill under the name that chat platforms accept."""

    command: str
    skill: Skill

    @property
    def description(self) -> str:
        return single_line(self.skill.header.description, MAX_DESCRIPTION)


class Invocation(Struct, frozen=True):
    """A person asked for a skill. With `tool` the input goes to that tool as it was typed, without a model."""

    skill: Skill
    input: str = ""
    tool: str = ""


class References(Struct, frozen=True):
    """The skills that a message mentions, and the message with its escapes undone."""

    skills: tuple[Skill, ...]
    text: str


def command_table(
    skills: Iterable[Skill], reserved: Collection[str] = (), *, remote: bool = False
) -> tuple[SkillCommand, ...]:
    """Return a unique command for every skill that people may invoke; `reserved` are the program's own commands.

    `remote` is for people who write through a channel: some skills are for whoever sits at the machine alone.
    """
    taken = {*reserved, "skill"}
    table = []
    for skill in sorted(skills, key=lambda each: (each.name, each.file)):
        if skill.header.user_invocable and (skill.header.remote_invocable or not remote):
            command = _free(sanitize(skill.name), taken)
            taken.add(command)
            table.append(SkillCommand(command, skill))
    return tuple(table)


def sanitize(name: str) -> str:
    """Return a command name: `[a-z0-9_]`, at most 32 characters, never empty."""
    return _plain(name) or "skill"


def find(table: Sequence[SkillCommand], word: str) -> Skill | None:
    """Return the skill that a word names: exactly, by its command, or by its name however it was written."""
    for match in (
        lambda each: each.skill.name == word,
        lambda each: each.command == word.lower(),
        lambda each: each.skill.name.casefold() == word.casefold(),
        lambda each: _plain(word) != "" and _plain(each.skill.name) == _plain(word),
    ):
        for each in table:
            if match(each):
                return each.skill
    return None


def invocation(text: str, table: Sequence[SkillCommand]) -> Invocation | None:
    """Return what a whole message asks for, `/skill name input` or `/name input`, or None where it is something else."""
    outer = _COMMAND.fullmatch(text.lstrip())
    if outer is None:
        return None
    word, rest = outer[1], outer[2] or ""
    if word.lower() == "skill":
        inner = _SKILL.fullmatch(rest)
        skill = find(table, inner[1]) if inner else None
        rest = (inner[2] or "") if inner else ""
    else:
        skill = next((each.skill for each in table if each.command == word.lower()), None)
    return Invocation(skill, rest, skill.header.dispatch_tool) if skill else None


def references(text: str, table: Sequence[SkillCommand]) -> References:
    """Return the skills that `$name` mentions, at most eight; `$HOME` is a shell's business and `\\$name` is plain text."""
    found: dict[str, Skill] = {}

    def look(match: re.Match[str]) -> str:
        escaped, word = match[1], match[2].rstrip("-_")
        skill = None if word == word.upper() else find(table, word)
        if skill is None:
            return match[0]
        if escaped:
            return match[0][1:]
        if len(found) < MAX_REFERENCES:
            found[skill.name] = skill
        return match[0]

    return References(text=_REFERENCE.sub(look, text), skills=tuple(found.values()))


def instructions(text: str, folder: str) -> str:
    """Return what a skill tells the model: its text without the header, `{baseDir}` being its folder."""
    return split(text)[1].replace("{baseDir}", folder).strip()


def prompt_for(asked: Invocation, text: str) -> str:
    """Return the user turn for an invoked skill; its text is quoted as the skill's, and only the input is the user's."""
    body = instructions(text, asked.skill.folder)
    request = asked.input.strip() or "(no further input)"
    return f'Use the skill "{asked.skill.name}" ({asked.skill.file}) for this request. Its instructions:\n\n{body}\n\nRequest: {request}'


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:MAX_NAME].rstrip("_")


def _free(name: str, taken: Collection[str]) -> str:
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        suffix = f"_{number}"
        candidate = name[: MAX_NAME - len(suffix)].rstrip("_") + suffix
    return candidate
