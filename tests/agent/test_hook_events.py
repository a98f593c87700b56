"""Hooks of a home: loaded where somebody asked for them, and never silently missing."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from tests.hooks.helpers import write_hook

from homarus.agent.hook_events import load_registry
from homarus.config.load import Config, load_config
from homarus.config.paths import resolve_paths


def config(home: Path, **entries: dict) -> Config:
    (home / ".openclaw").mkdir(exist_ok=True)
    document = {"hooks": {"internal": {"entries": entries}}} if entries else {}
    (home / ".openclaw" / "openclaw.json").write_text(json.dumps(document))
    env = {"HOME": str(home)}
    return load_config(resolve_paths(env), env)


def test_nobody_asked_for_a_hook(tmp_path):
    write_hook(tmp_path / ".openclaw" / "hooks", "mine", code="raise SystemExit('ran')\n")
    assert load_registry(config(tmp_path), {}, tmp_path) is None


@pytest.mark.parametrize(
    ("metadata", "code", "why"),
    [
        ('openclaw: {"events": ["command"]}', "raise RuntimeError('oh')\n", "its handler failed to load: RuntimeError: oh"),
        ('openclaw: {"events": ["command"], "requires": {"bins": ["no-such"]}}', "", "bins: needs no-such on PATH"),
        ('openclaw: {"events": ["command"]}', None, "it has no handler.py"),
    ],
)  # fmt: skip
def test_an_enabled_hook_that_cannot_run_is_named_in_the_log(tmp_path, caplog, metadata, code, why):
    write_hook(tmp_path / ".openclaw" / "hooks", "mine", metadata=metadata, code=code)
    with caplog.at_level(logging.WARNING):
        assert load_registry(config(tmp_path, mine={}), {"PATH": ""}, tmp_path) is None
    assert caplog.messages == [f"hook mine is enabled and cannot run: {why}"]


def test_only_hooks_that_hear_an_event_are_loaded_for_it(tmp_path):
    hooks = tmp_path / ".openclaw" / "hooks"
    write_hook(hooks, "loud", metadata='openclaw: {"events": ["agent"]}')
    write_hook(hooks, "other", code="raise SystemExit('ran')\n")
    registry = load_registry(config(tmp_path, loud={}, other={}), {}, tmp_path, only="agent:bootstrap")
    assert registry is not None
    assert [each.source for each in registry.listeners("agent:bootstrap")] == ["managed:loud"]
