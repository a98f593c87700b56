"""The standard files of a workspace: their names, what each is for, and the order in which a prompt shows them."""

from __future__ import annotations

from functools import lru_cache

AGENTS = "AGENTS.md"
SOUL = "SOUL.md"
IDENTITY = "IDENTITY.md"
USER = "USER.md"
TOOLS = "TOOLS.md"
HEARTBEAT = "HEARTBEAT.md"
BOOTSTRAP = "BOOTSTRAP.md"
MEMORY = "MEMORY.md"
MEMORY_LOWER = "memory.md"
MEMORIES = (MEMORY, MEMORY_LOWER)
BOOT = "BOOT.md"
DREAMS = "DREAMS.md"

MEMORY_DIR = "memory"
SKILLS_DIR = "skills"
STATE_FILE = ".openclaw/workspace-state.json"
LEGACY_STATE_FILE = "openclaw-workspace-state.json"

# What each file means to its owner; shown by commands that list them.
MEANINGS: dict[str, str] = {
    AGENTS: "the operating rules: how the agent works, what it may do alone, how it keeps memory",
    SOUL: "who the agent is: character, tone, values, limits",
    IDENTITY: "the record of its name, kind, manner and emoji",
    USER: "the person it works for: how to address them and what they care about",
    TOOLS: "local notes on tools and conventions; guidance only, it enables nothing",
    HEARTBEAT: "what to look after between conversations; read fresh every time",
    BOOTSTRAP: "the first-run ritual; deleted by the agent when it is done",
    MEMORY: "curated long-term memory; shown in the private main session only",
    BOOT: "what to do when the gateway starts; never part of a prompt",
    DREAMS: "a diary for people to review; never part of a prompt",
}

# The files that a bootstrap context is made of, in the order of the prompt. HEARTBEAT.md is dynamic and stands last.
LOADED = (AGENTS, SOUL, IDENTITY, USER, TOOLS, BOOTSTRAP, MEMORY, MEMORY_LOWER, HEARTBEAT)

# What a new workspace gets; BOOTSTRAP.md comes on top when it is brand new.
SEEDED = (AGENTS, SOUL, TOOLS, IDENTITY, USER, HEARTBEAT)
# What `skipOptionalBootstrapFiles` may name.
OPTIONAL = (SOUL, USER, IDENTITY, HEARTBEAT)
# A prompt says when one of these is missing; the others come and go by design.
EXPECTED = frozenset({AGENTS, SOUL, IDENTITY, USER, TOOLS})

ORDER: dict[str, int] = {
    "agents.md": 10,
    "soul.md": 20,
    "identity.md": 30,
    "user.md": 40,
    "tools.md": 50,
    "bootstrap.md": 60,
    "memory.md": 70,
}
LAST = 1000


@lru_cache(512)  # the same few names, many times in every turn
def base_of(name: str) -> str:
    """Return the last part of a name in lower case: what the rules below go by."""
    return name.rpartition("/")[2].lower()


def order_key(name: str, path: str) -> tuple[int, str, str]:
    """Return the sort key of a file in a prompt; USER files tie completely, so a stable sort keeps their order."""
    base = base_of(name)
    rank = ORDER.get(base, LAST)
    return (rank, "", "") if base == "user.md" else (rank, base, path)


def is_memory(name: str) -> bool:
    """Say whether a name is the long-term memory, in any case: that file is private."""
    return base_of(name) == "memory.md"
