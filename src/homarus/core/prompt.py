"""The system prompt as a value: two parts with a line between them, so that no text can move that line.

How the parts are written is the business of `homarus.prompt`; how they travel is the business of a model provider.
"""

from __future__ import annotations

from msgspec import Struct

# Both are OpenClaw's own words, because tools that post-process prompts look for them.
BOUNDARY = "<!-- OPENCLAW_CACHE_BOUNDARY -->"
CONTEXT_BEGIN = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
CONTEXT_END = "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
# What a summary of old history is divided into: asked for and checked by `homarus.context`, filled in by a model.
SUMMARY_HEADINGS = ("Decisions", "Open TODOs", "Constraints/Rules", "Pending user asks", "Exact identifiers")


class SystemPrompt(Struct, frozen=True):
    """What a model is told before the conversation.

    `stable` is the same for every session of its kind, `session` for every turn of one session. A provider with cache
    breakpoints puts one after each part and never looks for a marker in the text: the split is in the type.
    """

    stable: str
    session: str = ""

    @property
    def text(self) -> str:
        """Return what is sent: both parts, without the marker."""
        return f"{self.stable}\n\n{self.session}" if self.session else self.stable

    @property
    def with_boundary(self) -> str:
        """Return both parts with the marker between them, for people and for tools that look for it."""
        return f"{self.stable}\n{BOUNDARY}\n{self.session}" if self.session else f"{self.stable}\n{BOUNDARY}"
