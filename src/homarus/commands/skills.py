"""Skills that a person calls by name: as a command, with `/skill`, or by a `$mention` in a message."""

from __future__ import annotations

from homarus.agent.home import Home
from homarus.commands.command import CommandReply, SessionClient
from homarus.commands.settings import Caller
from homarus.core.routes import SessionKey
from homarus.skills.commands import SkillCommand, command_table, instructions, invocation, prompt_for, references
from homarus.skills.discover import read_text
from homarus.skills.gate import eligible


def skill_commands(home: Home, agent_id: str, *, remote: bool = False) -> tuple[SkillCommand, ...]:
    """Return the skills that a person may call by name; `remote` is somebody who does not sit at this machine."""
    from homarus.commands.table import reserved

    agent = home.composer.agent(agent_id)
    found = home.composer.skill_library.load(agent.skill_roots)
    held = home.quarantined.now()  # their words reach no prompt unasked
    known = [skill for skill in eligible(found.skills, agent.skill_gate) if skill.folder not in held.values()]
    return command_table(known, reserved(), remote=remote)


async def use_skill(client: SessionClient, key: SessionKey, text: str, caller: Caller) -> CommandReply | None:
    """Return the turn that a called skill asks for, or the output of the tool that it hands its input to."""
    if "/" not in text:
        return None
    asked = invocation(text, skill_commands(client.home, key.agent_id, remote=caller.remote))
    if asked is None:
        return None
    if asked.tool:
        arguments = {"command": asked.input, "commandName": asked.skill.name, "skillName": asked.skill.name}
        result = await client.call_tool(key, asked.tool, arguments, caller.acting_trust)
        return CommandReply(text=result.text)
    return CommandReply(prompt=prompt_for(asked, read_text(asked.skill, client.home.composer.skill_library.limits)))


def mentioned_skills(
    home: Home, agent_id: str, text: str, *, remote: bool = False
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return a text with its `$` escapes undone, and the instructions of the skills that it mentions."""
    if "$" not in text:
        return text, ()
    found = references(text, skill_commands(home, agent_id, remote=remote))
    limits = home.composer.skill_library.limits
    return found.text, tuple(
        (f"Skill {skill.name}", instructions(read_text(skill, limits), skill.folder)) for skill in found.skills
    )
