"""The `hooks.internal` block of the configuration, and the ruling on which hooks it lets run. Pure."""

from __future__ import annotations

from typing import Any, Self

from msgspec import Struct

from homarus.hooks.discover import Hook, Source


class HookLoad(Struct, frozen=True, rename="camel"):
    """Where else hooks lie."""

    extra_dirs: tuple[str, ...] = ()


class HookSettings(Struct, frozen=True, rename="camel"):
    """`hooks.internal`. `enabled` is the master switch: absent, only what is named runs."""

    enabled: bool | None = None
    entries: dict[str, dict[str, Any]] = {}
    load: HookLoad = HookLoad()

    @classmethod
    def disabled(cls) -> Self:
        """Return the block that runs nothing: what a damaged block becomes, because hooks are code."""
        return cls(enabled=False)

    def entry(self, hook: Hook) -> dict[str, Any] | None:
        """Return a hook's own entry, under its key or its name."""
        return self.entries.get(hook.key, self.entries.get(hook.name))


def is_wanted(hook: Hook, settings: HookSettings) -> tuple[bool, str]:
    """Say whether the owner wants this hook to run, and why.

    Named entries form an allowlist. Bundled hooks run only when named, workspace hooks only when an entry says
    `enabled: true` in so many words, because a workspace may hold what a stranger wrote. A folder in
    `load.extraDirs` and a plugin were chosen by hand: their hooks run unless an entry turns them off.
    """
    entry = settings.entry(hook)
    switch = None if entry is None else entry.get("enabled")
    if settings.enabled is False:
        return False, "hooks.internal.enabled is false"
    if entry is not None and switch is not True and switch is not None:
        return False, "turned off"
    if hook.source is Source.WORKSPACE:
        return switch is True, "enabled" if switch is True else "a workspace hook runs only when enabled by name"
    if entry is not None:
        return True, "enabled"
    if hook.source is Source.BUNDLED:
        return False, "not enabled"
    if hook.source in {Source.EXTRA, Source.PLUGIN}:
        return True, "its folder was chosen by hand"
    if any(other.get("enabled") in {True, None} for other in settings.entries.values()):
        return False, "not among the enabled entries"
    if settings.enabled or settings.load.extra_dirs:
        return True, "hooks are on and none is named"
    return False, "no hooks are enabled"
