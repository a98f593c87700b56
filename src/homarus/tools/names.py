"""Names in a workspace that matter for safety: what shapes the agent, and what only its owner reads."""

from __future__ import annotations

# What the next prompt is made of, and what runs by itself. Compared without regard to case: some disks do not know it.
FILES = frozenset(
    {
        "soul.md",
        "agents.md",
        "identity.md",
        "user.md",
        "memory.md",
        "heartbeat.md",
        "tools.md",
        "bootstrap.md",
        "boot.md",
    }
)
FOLDERS = frozenset({"hooks", "skills", ".git", ".agents", ".openclaw", "plugins"})
# What makes a hook of ours in the folder of that name.
HOOKS, HOOK_FILES = "hooks", frozenset({"hook.md", "handler.py"})
PRIVATE_FILES = frozenset({"memory.md", "user.md"})
PRIVATE_FOLDERS = frozenset({"memory", "bank"})
# As they are spelled on a disk, for a sandbox that shows them read-only.
LOCKED = (
    "SOUL.md",
    "AGENTS.md",
    "IDENTITY.md",
    "USER.md",
    "MEMORY.md",
    "HEARTBEAT.md",
    "TOOLS.md",
    "BOOTSTRAP.md",
    "BOOT.md",
)
LOCKED_FOLDERS = ("hooks", "skills", ".git", ".agents", ".openclaw", "plugins")
