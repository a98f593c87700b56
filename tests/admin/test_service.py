"""The service's file says what to run in words that its supervisor reads as they are meant."""

from __future__ import annotations

import plistlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from homarus.admin.service import install, service_for, uninstall
from homarus.config.paths import resolve_paths
from homarus.core.errors import HomarusError


def test_a_unit_for_systemd(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": f"{tmp_path}/50% $x", "SECRET_KEY": "never"}
    done: list[Sequence[str]] = []

    def run(words: Sequence[str]) -> int:
        done.append(words)
        return 0

    service = service_for(resolve_paths(env), env, "linux")
    assert install(service, run=run)
    text = service.path.read_text()
    assert service.path == tmp_path / ".config/systemd/user/homarus-gateway.service"
    assert f'Environment="OPENCLAW_STATE_DIR={tmp_path}/50%% $x"' in text
    assert '"gateway" "run"' in text
    assert "RestartPreventExitStatus=78" in text
    assert "Restart=on-failure" in text, "what 'gateway stop' ended is not started again"
    assert "never" not in text
    assert [words[2] for words in done] == ["daemon-reload", "enable"]
    assert uninstall(service, run=run)
    assert not service.path.exists()
    assert not uninstall(service, run=run)


def test_a_property_list_for_launchd_and_a_name_for_each_profile(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": "/a&b"}
    service = service_for(resolve_paths(env, profile="work"), env, "darwin")
    assert install(service, start=False, run=lambda _words: 1)
    found = plistlib.loads(service.path.read_bytes())
    assert found["Label"] == "org.homarus.gateway-work"
    assert found["ProgramArguments"][-4:] == ["--profile", "work", "gateway", "run"]
    assert found["EnvironmentVariables"]["PATH"] == "/a&b"


def test_a_path_that_no_unit_can_hold_is_refused(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": "/a\nExecStartPre=/bin/evil"}
    with pytest.raises(HomarusError, match="control characters"):
        service_for(resolve_paths(env), env, "linux")


def test_a_supervisor_that_refuses_is_said(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert not install(service_for(resolve_paths(env), env, "linux"), run=lambda _words: 1)
