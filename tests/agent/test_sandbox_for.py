"""What a turn would get that nobody has started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from homarus.agent.sandbox_for import sandbox_for, window_of
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.errors import Denied
from homarus.core.routes import SessionKey


def agent(root: Path, config: dict):
    env = {"HOME": str(root)}
    (root / ".openclaw").mkdir(exist_ok=True)
    (root / ".openclaw" / "openclaw.json").write_text(json.dumps(config))
    return load_config(resolve_paths(env), env).default_agent


def sandboxed(root: Path, sandbox: dict, key: str = "main") -> bool:
    config = {"agents": {"defaults": {"sandbox": sandbox}}}
    return sandbox_for(agent(root, config), SessionKey.parse(key), root).enforced


def test_the_sandbox_follows_the_configuration(tmp_path):
    assert not sandboxed(tmp_path, {"mode": "off"})
    assert not sandboxed(tmp_path, {"mode": "non-main"})
    with pytest.raises(Denied, match="podman"):
        sandboxed(tmp_path, {"mode": "non-main", "backend": "podman"}, "agent:main:irc:group:x")


def test_the_window_of_a_described_model(tmp_path):
    own = {"baseUrl": "http://localhost:1", "models": [{"id": "m", "contextWindow": 4096}]}
    mine = agent(tmp_path, {"models": {"providers": {"own": own}}})
    assert window_of(mine, "own/m") == 4096
    assert window_of(mine, "own/stranger") == 0
    assert window_of(mine, "") == 0
