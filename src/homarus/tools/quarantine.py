"""A turn that has read a skill which its owner has not approved neither runs commands nor reaches anything."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from homarus.core.errors import Denied
from homarus.core.patterns import late
from homarus.core.tools import Risk
from homarus.tools.tool import Tool, ToolContext

_PREFIX = "skill:"
_READING = frozenset({"exec", "read", "grep", "find", "ls"})
_ALL_SKILLS = late(r"(?<![\w.-])skills/?(?![\w/-]|/[\w-])")
_REACHING = frozenset({"web_fetch", "web_search", "image"})


class Quarantine:
    """Sees every call before the gate does. `held` are the skills in quarantine, by name, with their folders."""

    def __init__(self, held: Callable[[], Mapping[str, str]]) -> None:
        self._held = held

    async def __call__(self, tool: Tool, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        held = self._held()
        if not held:
            return arguments
        words = msgspec.json.encode(arguments).decode()
        swept = tool.name in _READING and _ALL_SKILLS.search(words) is not None
        for name, folder in held.items():
            # However a call names the folder, or the folder of all: what it brings back is text that nobody has approved.
            named = "skills" in words and re.search(rf"(?<![\w-]){re.escape(os.path.basename(folder))}(?![\w-])", words)
            if named or swept:
                context.taint.add(f"{_PREFIX}{name}")
        read = [each.removeprefix(_PREFIX) for each in context.taint.sources if each.startswith(_PREFIX)]
        new = [name for name in read if name in held]
        acts = tool.risk in {Risk.EXEC, Risk.SEND, Risk.ADMIN} or tool.name in _REACHING or tool.foreign
        if new and acts:
            cure = f"the owner looks at it, then: homarus skills approve {new[0]}"
            raise Denied(
                f"the skill {new[0]} is new here, so {tool.name} is closed to a turn that has read it", cure=cure
            )
        return arguments
