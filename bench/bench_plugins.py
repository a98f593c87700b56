"""Fifty plugins that are installed and switched off: what opening a home pays for them."""

from __future__ import annotations

import json
from pathlib import Path

from bench.measure import Ctx, Row
from homarus.config.paths import resolve_paths
from homarus.plugins.manifest import FILE
from homarus.runtime.runtime import Runtime

PLUGINS = 50
LIMIT_MS = 5.0


def run(ctx: Ctx) -> list[Row]:
    """Measure opening a home without plugins and with fifty that are off."""
    none, many = _home(ctx.folder("no-plugins"), 0), _home(ctx.folder("plugins"), PLUGINS)
    taken = ctx.calls({"none": lambda: _opened(none), "many": lambda: _opened(many)})
    more = max(0.0, taken["many"] - taken["none"]) * 1e3
    return [
        Row("opening a home", taken["none"] * 1e3, "ms"),
        Row(f"{PLUGINS} plugins that are off", more, "ms", f"{LIMIT_MS:g} ms of CPU", more / LIMIT_MS, 1.0),
    ]


def _opened(home: Path) -> None:
    env = {"HOME": str(home)}
    Runtime.open(resolve_paths(env), env)


def _home(home: Path, plugins: int) -> Path:
    state = home / ".openclaw"
    entries = {}
    for number in range(plugins):
        folder = state / "plugins" / f"p{number}"
        folder.mkdir(parents=True)
        tools = [{"name": f"act_{number}", "description": "Act."}]
        manifest = {"id": folder.name, "entry": "plugin.py:register", "tools": tools}
        (folder / FILE).write_text(json.dumps(manifest))
        (folder / "plugin.py").write_text("raise SystemExit('it was run')")
        entries[folder.name] = {"enabled": False}
    state.mkdir(exist_ok=True)
    (state / "openclaw.json").write_text(json.dumps({"plugins": {"entries": entries}}))
    return home
