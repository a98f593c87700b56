"""What a model is told about a tool; how tools run is the business of `homarus.tools`."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct


class Risk(StrEnum):
    """What a tool can do to the world. Policy decides on it, together with trust and agent."""

    READ = "read"
    WRITE = "write"
    EXEC = "exec"
    SEND = "send"
    ADMIN = "admin"


# The same for programs, so that a type checker knows the words.
RiskName = Literal["read", "write", "exec", "send", "admin"]


class ToolSpec(Struct, frozen=True):
    """A tool as a model sees it.

    The bytes of a spec are part of the provider's cached prefix: no clock, channel or session may show in them,
    and `parameters` (a JSON Schema object) keeps its key order for ever.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    summary: str = ""
    # Where it stands among the tools of a prompt; those without a place of their own follow by name.
    order: int = 1_000
