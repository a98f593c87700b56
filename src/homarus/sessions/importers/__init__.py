"""Sessions that other programs keep elsewhere, read where they lie and never changed there."""

from __future__ import annotations

# The database of one agent, in its folder.
FILE = "openclaw-agent.sqlite"
