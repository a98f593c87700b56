"""`homarus configure`: the questions of `onboard` for a home that exists."""

from __future__ import annotations

from homarus.cli.onboard import configure as command

__all__ = ["command"]
