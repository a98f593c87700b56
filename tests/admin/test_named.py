"""An entry that names nothing is said to have no effect, with the name that was meant where one is near."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from homarus.config.blocks import validate
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.plugins.manifest import FILE


def found(home: Path, document: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    env = {"HOME": str(home), "OPENCLAW_STATE_DIR": str(home)}
    (home / "openclaw.json").write_text(json.dumps(document))
    problems = validate(inspect_config(resolve_paths(env), env))
    return {each.key: (each.severity, each.message, each.cure) for each in problems}


def test_plugins_that_are_not_installed(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "weather"
    folder.mkdir(parents=True)
    (folder / FILE).write_text(json.dumps({"id": "weather", "api": 1, "entry": "plugin.py:start"}))
    entries = {"weather": {}, "wether": {"enabled": True}, "memory-core": {}, "foo": {}}
    plugins = {"entries": entries, "allow": ["weather", "bar"], "deny": ["weathre"]}
    missing = "has no effect here: there is no plugin"
    assert found(tmp_path, {"plugins": plugins}) == {
        "plugins.entries.wether": ("warning", f"{missing} 'wether'", "did you mean 'weather'?"),
        "plugins.entries.memory-core": ("info", f"{missing} 'memory-core'", "memory is part of this program"),
        "plugins.entries.foo": ("info", f"{missing} 'foo'", "nothing here replaces it"),
        "plugins.allow[1]": ("info", f"{missing} 'bar'", "nothing here replaces it"),
        "plugins.deny[0]": ("warning", f"{missing} 'weathre'", "did you mean 'weather'?"),
    }


def test_skills_that_are_in_no_workspace(tmp_path: Path) -> None:
    for workspace, name in (("workspace", "garden"), ("workspace-work", "invoices")):
        folder = tmp_path / workspace / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Things.\n---\nDo it.\n")
    names = ("garden", "invoices", "github", "invoicse", "nosuchskill")
    document = {
        "agents": {"list": [{"id": "main"}, {"id": "work"}]},
        "skills": {"entries": {each: {} for each in names}},
    }
    missing = "has no effect here: there is no skill"
    assert found(tmp_path, document) == {
        "skills.entries.invoicse": ("warning", f"{missing} 'invoicse'", "did you mean 'invoices'?"),
        "skills.entries.nosuchskill": ("info", f"{missing} 'nosuchskill'", "it is kept as it is"),
    }


def test_hooks_that_are_not_there(tmp_path: Path) -> None:
    entries = {name: {"enabled": True} for name in ("session-memory", "sesion-memory", "other")}
    missing = "has no effect here: there is no hook"
    assert found(tmp_path, {"hooks": {"internal": {"entries": entries}}}) == {
        "hooks.internal.entries.sesion-memory": (
            "warning",
            f"{missing} 'sesion-memory'",
            "did you mean 'session-memory'?",
        ),
        "hooks.internal.entries.other": ("info", f"{missing} 'other'", "it is kept as it is"),
    }
