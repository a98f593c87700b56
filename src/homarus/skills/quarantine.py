"""Which installed skills are not approved, looked up at the price of one `stat` while nothing was installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

LOCK = "skills-lock.json"


class QuarantineList:
    """The skills in quarantine, by name, with their folders; looked at again when the lock file changes."""

    def __init__(self, own_dir: Path, skills_dir: Path) -> None:
        self._own_dir, self._skills_dir = own_dir, skills_dir
        self._seen = 0
        self._held: Mapping[str, str] = {}

    def now(self) -> Mapping[str, str]:
        try:
            seen = (self._own_dir / LOCK).stat().st_mtime_ns
        except OSError:
            return {}
        if seen != self._seen:
            from homarus.skills.install import quarantined

            self._seen, self._held = seen, quarantined(self._own_dir, self._skills_dir)
        return self._held
