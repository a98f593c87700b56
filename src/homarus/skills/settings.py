"""The `skills` block of the configuration: defaults in one place, each with the era it comes from where eras differ."""

from __future__ import annotations

from typing import Any, Self

from msgspec import Struct


class SkillLimits(Struct, frozen=True, rename="camel"):
    """How much is looked at and shown. A limit of zero shows nothing."""

    max_candidates_per_root: int = 300
    max_skills_loaded_per_source: int = 200
    max_skills_in_prompt: int = 150
    # 18,000 since summer 2026; the older number leaves descriptions whole for longer.
    max_skills_prompt_chars: int = 30_000
    max_skill_file_bytes: int = 256_000


class SkillLoad(Struct, frozen=True, rename="camel"):
    """Where else skills lie, where links may lead, and whether edits are picked up while a session runs."""

    extra_dirs: tuple[str, ...] = ()
    allow_symlink_targets: tuple[str, ...] = ()
    watch: bool = True


class SkillInstall(Struct, frozen=True, rename="camel"):
    """Whether clients of the gateway may send archives with skills. What they send starts in quarantine."""

    allow_uploaded_archives: bool = False


class SkillEntry(Struct, frozen=True, rename="camel"):
    """What the owner says about one skill. `api_key` is text or a reference to a secret."""

    enabled: bool | None = None
    env: dict[str, Any] = {}
    api_key: Any = None
    config: dict[str, Any] = {}

    @classmethod
    def disabled(cls) -> Self:
        """Return the entry of a skill that is off: what a damaged entry becomes."""
        return cls(enabled=False)


class SkillSettings(Struct, frozen=True, rename="camel"):
    """`skills`. Without `allow_bundled` all bundled skills may be used; an empty list means none."""

    allow_bundled: tuple[str, ...] | None = None
    entries: dict[str, SkillEntry] = {}
    load: SkillLoad = SkillLoad()
    limits: SkillLimits = SkillLimits()
    install: SkillInstall = SkillInstall()

    def entry(self, key: str, name: str) -> SkillEntry | None:
        return self.entries.get(key, self.entries.get(name))
