"""Hand-made facts: an agent with every core tool, and the sessions whose prompts are kept as golden files."""

from __future__ import annotations

from msgspec.structs import replace

from homarus.core.tools import ToolSpec
from homarus.prompt.facts import (
    PromptFacts,
    SessionFacts,
    StableFacts,
    TurnFacts,
)
from homarus.prompt.gather import Machine
from homarus.prompt.section import Section, Tier
from homarus.sandbox.spec import Access, Backend, Mount, SandboxSpec
from homarus.workspace.inject import ContextFile, prompt_text

SUMMARIES = {
    "read": "Read a file, or look at an image",
    "write": "Create or overwrite a file",
    "edit": "Replace exact text in a file",
    "apply_patch": "Change several files with one patch",
    "grep": "Search file contents by pattern",
    "find": "Find files by name",
    "ls": "List a directory",
    "exec": "Run a shell command",
    "process": "Look after background commands",
    "web_search": "Search the web",
    "web_fetch": "Fetch a page as text",
    "cron": "Schedule reminders and jobs",
    "message": "Send to another chat or person",
    "gateway": "Restart, configure or update homarus",
    "agents_list": "List the agents that may be spawned",
    "sessions_list": "List sessions",
    "sessions_history": "Read another session",
    "sessions_search": "Search all sessions",
    "sessions_send": "Send to another session",
    "sessions_spawn": "Give a task to a sub-agent",
    "sessions_yield": "End the turn and wait for sub-agents",
    "subagents": "List, steer or stop sub-agents",
    "session_status": "Time, model, usage and levels",
    "image": "Describe an image",
    "memory_search": "Search memory",
    "memory_get": "Read lines of a memory file",
}
TOOLS = tuple(
    ToolSpec(name, f"{text}.", {"type": "object"}, text, order if not name.startswith("memory_") else 1_000)
    for order, (name, text) in enumerate(SUMMARIES.items())
)

SKILLS = """<available_skills>
  <skill>
    <name>daily-review</name>
    <description>Look back on the day and plan the next one.</description>
    <location>~/.openclaw/skills/daily-review/SKILL.md</location>
  </skill>
</available_skills>"""

HOME = "/home/ada/.openclaw/workspace"


def note(name: str, text: str) -> ContextFile:
    """Return a file as the workspace hands it over."""
    shown = prompt_text(text)
    return ContextFile(name, f"{HOME}/{name}", shown, len(text), len(shown))


AGENTS = note("AGENTS.md", "# Rules\n\n- Ask before sending anything.\n- Keep notes in memory/.")
SOUL = note("SOUL.md", "Calm, exact, a little dry.")
IDENTITY = note("IDENTITY.md", "- Name: Pincer\n- Emoji: 🦞")
USER = note("USER.md", "- Name: Ada\n- Pronouns: she/her")
LOCAL = note("TOOLS.md", "The printer is called Bertha.")
MEMORY = note("MEMORY.md", "- Ada's brother is Byron.")
ALL_FILES = (AGENTS, SOUL, IDENTITY, USER, LOCAL, MEMORY)

STABLE = StableFacts(
    workspace=HOME,
    tools=TOOLS,
    docs="/usr/lib/python3/site-packages/homarus/docs",
    skills=SKILLS,
    aliases=(("sonnet", "anthropic/claude-sonnet"), ("fast", "groq/llama-small")),
    files=ALL_FILES,
)
HEARTBEAT_PROMPT = "Read HEARTBEAT.md and do what is due. If nothing is, answer HEARTBEAT_OK."
TURN = TurnFacts(
    today="Sunday 2026-03-01",
    zone="Europe/Berlin",
    heartbeat_prompt=HEARTBEAT_PROMPT,
    agent="main",
    machine=Machine("lovelace", "Linux", "x86_64", "3.12.3", "bash"),
    repo=HOME,
    model="anthropic/claude-sonnet",
    default_model="anthropic/claude-sonnet",
    thinking="low",
)


def main() -> PromptFacts:
    """Return the private main session on the terminal."""
    return PromptFacts(STABLE, SessionFacts(), TURN)


def group() -> PromptFacts:
    """Return a group chat: no MEMORY.md, silent replies, owners known."""
    return PromptFacts(
        replace(STABLE, files=ALL_FILES[:-1]),
        SessionFacts(
            messaging_hints=("Buttons: pass `buttons` to `message`.",),
            extra="You are in the group «Book club». Speak when spoken to.",
        ),
        replace(
            TURN,
            silent=True,
            reply_tags=True,
            media=True,
            owners=("telegram:4711", "+49 151 1234"),
            reactions="minimal",
            channel="telegram",
            capabilities=("inlineButtons", "reactions", "InlineButtons"),
        ),
    )


def subagent() -> PromptFacts:
    """Return a helper with one task; rendered in the minimal mode."""
    return PromptFacts(
        replace(STABLE, files=(AGENTS, LOCAL)),
        SessionFacts(extra="Your task: count the lobsters in the picture.\nReport the number."),
        replace(TURN, heartbeat_prompt=""),
    )


def cron() -> PromptFacts:
    """Return a scheduled run: rules and tool notes, no persona, no memory file."""
    return PromptFacts(replace(STABLE, files=(AGENTS, LOCAL)), SessionFacts(), replace(TURN, silent=True))


def heartbeat() -> PromptFacts:
    """Return an isolated heartbeat with the light context; rendered in the minimal mode."""
    turn = replace(
        TURN, heartbeat_file=note("HEARTBEAT.md", "# Heartbeat\n\n## Daily\n- Check the greenhouse at noon.")
    )
    return PromptFacts(replace(STABLE, files=()), SessionFacts(), turn)


def sandboxed() -> PromptFacts:
    """Return a main session whose commands run in a container, in a second directory, with a cut file."""
    stable = replace(
        STABLE,
        cwd="/home/ada/project",
        sandbox=SandboxSpec(Backend.DOCKER, "/workspace", Access.RO, mounts=(Mount("/srv/photos"),)),
        elevated=True,
        files_cut=True,
        citations="on",
    )
    return PromptFacts(stable, SessionFacts(), replace(TURN, elevated="ask", reasoning="on"))


def ritual() -> PromptFacts:
    """Return the very first conversation, with everything optional switched on."""
    stable = replace(
        STABLE,
        ritual="full",
        files=(AGENTS, SOUL, note("BOOTSTRAP.md", "Hello. Who are you?")),
        workspace_notes=("The photos lie in ./photos.",),
        reasoning_tags=True,
        provider_prefix="## Model Family\nPrefer short tool arguments.",
        citations="off",
    )
    session = SessionFacts(engine_addition="The engine keeps a map of people.", voice="Write for the ear: no tables.")
    turn = replace(
        TURN,
        recall="- memory/2026-02-28.md#3: Ada planted tomatoes.",
        voice_tag=True,
        reactions="extensive",
        reasoning="stream",
        provider_suffix="Think briefly.",
        extras=(Section("Recent Notes", "Yesterday: tomatoes.", Tier.VOLATILE, once=True),),
    )
    return PromptFacts(stable, session, turn)


CASES = {
    "main": (main, "full"),
    "group": (group, "full"),
    "subagent": (subagent, "minimal"),
    "cron": (cron, "full"),
    "heartbeat": (heartbeat, "minimal"),
    "sandboxed": (sandboxed, "full"),
    "ritual": (ritual, "full"),
    "mode-minimal": (main, "minimal"),
    "mode-none": (main, "none"),
}
