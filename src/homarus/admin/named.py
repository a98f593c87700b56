"""Entries of the configuration that name a plugin, a skill or a hook which is not there. Checking a file asks here; nothing is run."""

from __future__ import annotations

from collections.abc import Collection

from homarus.agent.hook_events import hooks_of
from homarus.config.keypath import KeyPath
from homarus.config.known import near
from homarus.config.view import Config
from homarus.hooks.load import HookSettings
from homarus.plugins.manifest import PluginSettings, found_plugins, of_openclaw
from homarus.skills.library import discover, roots_of, settings_of
from homarus.workspace.agents import all_workspaces, resolve_workspace


def check_plugins(config: Config) -> None:
    settings, instead = config.block("plugins", PluginSettings), dict(of_openclaw(config))
    known = {plugin.id for plugin in found_plugins(config)}
    for name in settings.entries:
        if name in instead:
            _report(config, ("plugins", "entries", name), "plugin", known, instead[name])
    for key, names in (("allow", settings.allow or ()), ("deny", settings.deny)):
        for index, name in enumerate(names):
            if name not in known:
                _report(config, ("plugins", key, index), "plugin", known, instead.get(name, ""))


def check_skills(config: Config) -> None:
    settings = settings_of(config)
    if not settings.entries:
        return
    known: set[str] = set()
    for workspace in all_workspaces(config, config.env):
        for skill in discover(roots_of(config, workspace), settings.limits).skills:
            known |= {skill.name, skill.key}
    for name in sorted(settings.entries.keys() - known):
        _report(config, ("skills", "entries", name), "skill", known)


def check_hooks(config: Config) -> None:
    entries = config.block("hooks.internal", HookSettings).entries
    if not entries:
        return
    workspace = resolve_workspace(config, config.default_agent.id, config.env)
    known = {name for hook in hooks_of(config, workspace).hooks for name in (hook.name, hook.key)}
    for name in sorted(entries.keys() - known):
        _report(config, ("hooks", "internal", "entries", name), "hook", known)


def _report(config: Config, path: KeyPath, what: str, known: Collection[str], instead: str = "") -> None:
    """Name an entry; one that is nearly a known name is a slip, any other may belong to another program or to tomorrow."""
    item = config.lookup(path)
    name = item if isinstance(item, str) else str(path[-1])  # in a list the item, in a table the key
    meant = near(name, known)
    cure = f"did you mean '{meant}'?" if meant else instead or "it is kept as it is"
    config.report("warning" if meant else "info", path, f"has no effect here: there is no {what} '{name}'", cure)
