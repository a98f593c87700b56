"""From found hooks to listening ones: the verdict on each, and the loading of Python handlers that are wanted."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from msgspec import Struct

from homarus.core.text import single_line
from homarus.hooks.discover import Hook, HookSet, Source
from homarus.hooks.manifest import Facts, Step, check
from homarus.hooks.registry import Handler, HookRegistry
from homarus.storage.boundary import Root


class HookLoad(Struct, frozen=True, rename="camel"):
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


_MAX_BYTES = 1_000_000


class HookStatus(Struct, frozen=True):
    """How a hook stands: wanted by its owner, able to run here, and why or why not. `loaded` says that it listens."""

    hook: Hook
    wanted: bool
    able: bool
    reason: str
    steps: tuple[Step, ...] = ()
    loaded: bool = False

    @property
    def on(self) -> bool:
        return self.wanted and self.able


def judge(hook: Hook, settings: HookSettings, facts: Facts) -> HookStatus:
    wanted, reason = is_wanted(hook, settings)
    env = (settings.entry(hook) or {}).get("env")
    granted = frozenset(name for name, value in env.items() if value) if isinstance(env, dict) else frozenset[str]()
    steps = tuple(check(hook.requires, facts, granted))
    missing = next((step for step in steps if not step.ok), None)
    able = bool(hook.handler and hook.events) and missing is None
    if wanted and not able:
        reason = f"{missing.gate}: {missing.detail}" if missing else "; ".join(hook.problems)
    return HookStatus(hook, wanted, able, reason, steps)


def load_hooks(
    found: HookSet, settings: HookSettings, facts: Facts, registry: HookRegistry, base: Mapping[str, Any] | None = None
) -> tuple[HookStatus, ...]:
    """Register every hook that is wanted and able; one that cannot be loaded is reported and never stops the others.

    `base` is what every hook finds in its options beside its own entry, such as `stateDir`.
    """
    statuses = []
    for hook in found.hooks:
        status = judge(hook, settings, facts)
        if status.on:
            options = {**(base or {}), **(settings.entry(hook) or {})}
            status = _load(status, registry, options)
        statuses.append(status)
    return tuple(statuses)


def _load(status: HookStatus, registry: HookRegistry, options: dict[str, Any]) -> HookStatus:
    hook = status.hook
    try:
        handler = load_handler(hook)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - the code of a hook may raise anything
        reason = single_line(f"{type(problem).__name__}: {problem}")
        return HookStatus(hook, True, False, f"its handler failed to load: {reason}", status.steps)
    for key in hook.events:
        registry.register(key, handler, source=f"{hook.source}:{hook.name}", timeout=hook.timeout, options=options)
    return HookStatus(hook, True, True, status.reason, status.steps, loaded=True)


def load_handler(hook: Hook) -> Handler:
    """Run a hook's handler file and return its function.

    The file is read through the guard of its folder and compiled from those bytes: what was checked is what runs, and
    no `__pycache__` appears in the user's folder. Two hooks never share a module name.
    """
    with Root(hook.folder) as folder:
        guarded = folder.read(hook.handler, max_bytes=_MAX_BYTES)
    if guarded.kind != "ok" or guarded.truncated:
        raise ImportError(guarded.reason or f"{hook.handler} is longer than {_MAX_BYTES} bytes")
    path = hook.folder / hook.handler
    name = f"homarus_hook_{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    return function_of(name, path, guarded.data, hook.function)  # type: ignore[no-any-return]


def function_of(name: str, path: Path, source: bytes, function: str) -> Any:
    """Run somebody's file from the bytes that were checked, as a module of this name, and return a function of it."""
    module = ModuleType(name)
    module.__file__ = str(path)
    code = compile(source, str(path), "exec", dont_inherit=True)
    previous = sys.modules.get(name)
    # Registered as an import would be: dataclasses and pickling look the module up by its name.
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)  # noqa: S102 - it is enabled: code that its owner asked for
        found = getattr(module, function, None)
        if found is None or not callable(found):
            raise AttributeError(f"{path.name} has no function '{function}'")
    except BaseException:
        if previous is None:
            del sys.modules[name]
        else:
            sys.modules[name] = previous
        raise
    return found
