"""A tenant's settings on a machine that others share: nothing in them reaches out of the home or over its quota."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.errors import ConfigError
from homarus.fleet.settings import Fleet, Quota, is_home, load, parse_quota, quota_of, ready
from homarus.fleet.tenancy import confine
from homarus.sandbox.settings import SandboxSettings

QUOTA = Quota(processes=16, memory_mb=256, cpu_seconds=10, stored_bytes=50 << 20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "homes" / "ada"
    (made / ".openclaw" / "workspace").mkdir(parents=True)
    (tmp_path / "homes" / "bob" / ".openclaw").mkdir(parents=True)
    return made


def loaded(folder: Path, document: object):
    (folder / ".openclaw" / "openclaw.json").write_text(json.dumps(document))
    env = {"HOME": str(folder)}
    config = load_config(resolve_paths(env), env)
    config.bound(lambda canonical: confine(canonical, folder, QUOTA))
    return config


@pytest.mark.parametrize(
    "box",
    [
        {"mode": "off"},
        {"mode": "non-main", "network": "host", "binds": ["/var/lib"], "env": ["HOMARUS_FLEET_SECRET"]},
        {"backend": "docker", "docker": {"binary": "/tmp/mine"}, "processes": 0, "memoryMb": -1, "diskMb": 10**9},
        {"processes": 10**6, "cpuSeconds": 10**6, "memoryMb": True},
    ],
)
def test_no_agent_leaves_the_sandbox_or_its_limits(box, folder):
    document = {
        "agents": {
            "defaults": {"sandbox": box},
            "list": [{"id": "main", "sandbox": box}, {"id": "two", "sandbox": box}],
        },
        "tools": {"elevated": {"enabled": True, "allowFrom": {"telegram": ["*"]}}},
    }
    config = loaded(folder, document)
    assert [agent.id for agent in config.agents] == ["main", "two"]
    for agent in config.agents:
        found = agent.block("sandbox", SandboxSettings)
        assert (found.mode, found.network, found.binds, found.env) == ("all", False, [], [])
        assert found.backend in {"auto", "bwrap", "landlock"}
        assert 0 < found.processes <= 16
        assert 0 < found.memory_mb <= 256
        assert 0 < found.cpu_seconds <= 10
        assert 0 < found.disk_mb <= 50
    assert config.get("tools.elevated.enabled") is False


def test_tighter_limits_of_the_tenant_stay(folder):
    config = loaded(folder, {"agents": {"defaults": {"sandbox": {"processes": 4, "workspaceAccess": "ro"}}}})
    found = config.agents[0].block("sandbox", SandboxSettings)
    assert (found.processes, found.workspace_access) == (4, "ro")


def test_nothing_of_another_home_and_no_program_can_be_named(folder):
    bob = str(folder.parent / "bob")
    (folder / "door").symlink_to(bob)
    document = {
        "agents": {
            "defaults": {"workspace": bob, "memorySearch": {"extraPaths": [bob, "notes", "../../bob", "~/door", "~/mine"]}},
            "list": [{"id": "a", "workspace": f"{folder}/../bob"}, {"id": "b", "workspace": "~/door/x", "agentDir": bob}, {"id": "c", "workspace": "~/ok"}],
        },
        "session": {"store": f"{bob}/.openclaw/sessions.json"},
        "logging": {"file": "/var/log/other.log"},
        "skills": {"load": {"extraDirs": [bob, "${HOME}/../bob"]}},
        "plugins": {"enabled": True, "load": {"paths": [bob]}},
        "hooks": {"enabled": True, "token": "t", "path": "/hooks", "internal": {"enabled": True}},
        "mcp": {"servers": {"shell": {"command": "/bin/sh", "args": ["-c", "id"]}, "far": {"url": "https://mcp.example/"}}},
        "secrets": {"providers": {"f": {"source": "file", "path": f"{bob}/key"}, "x": {"source": "exec", "command": "/bin/id"}, "e": {"source": "env"}}},
        "channels": {"signal": {"cliPath": "/tmp/evil"}, "telegram": {"tokenFile": f"{bob}/token", "webhookPath": "/telegram-webhook"}},
    }  # fmt: skip
    lost = confine(document, folder, QUOTA)
    text = json.dumps(document)
    assert (
        bob not in text and "../bob" not in text and "/bin/" not in text and "evil" not in text and "door" not in text
    )
    agents = document["agents"]["list"]
    assert [agent.get("workspace") for agent in agents] == [None, None, "~/ok"]
    assert document["agents"]["defaults"]["memorySearch"]["extraPaths"] == ["notes", "~/mine"]
    assert document["plugins"]["enabled"] is False and document["hooks"]["internal"]["enabled"] is False
    assert (
        document["hooks"]["path"] == "/hooks" and document["channels"]["telegram"]["webhookPath"] == "/telegram-webhook"
    )
    assert document["mcp"]["servers"]["far"] == {"url": "https://mcp.example/"}
    assert list(document["secrets"]["providers"]) == ["e"]
    assert {"session.store", "plugins.enabled", "secrets.providers.f", "channels.signal.cliPath"} <= set(lost)


def test_a_workspace_that_came_along_is_found_where_it_lies_now(folder):
    (folder / "ws").mkdir()
    (folder / "bob").symlink_to(folder.parent / "bob")
    document = {
        "agents": {
            "defaults": {"workspace": "/home/ada/.openclaw/workspace"},
            "list": [{"id": "a", "workspace": "/home/ada/ws"}, {"id": "b", "workspace": "/home/bob"}, {"id": "c", "workspace": "/home/ada/../ws"}],
        },
    }  # fmt: skip
    lost = confine(document, folder, QUOTA)
    assert document["agents"]["defaults"]["workspace"] == f"{folder}/.openclaw/workspace"
    assert [agent.get("workspace") for agent in document["agents"]["list"]] == [f"{folder}/ws", None, None]
    assert lost == ["agents.list.1.workspace", "agents.list.2.workspace"]


def test_what_was_taken_away_comes_back_by_no_overlay_and_no_new_reading(folder):
    config = loaded(folder, {})
    config.overlay({("agents", "defaults", "sandbox", "mode"): "off", ("tools", "elevated", "enabled"): True})
    assert config.agents[0].block("sandbox", SandboxSettings).mode == "all"
    assert config.get("tools.elevated.enabled") is False
    (folder / ".openclaw" / "openclaw.json").write_text('{agents: {defaults: {sandbox: {mode: "off"}}}}')
    env = {"HOME": str(folder)}
    config.adopt(load_config(resolve_paths(env), env))
    assert config.agents[0].block("sandbox", SandboxSettings).mode == "all"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["/etc", "~", "~root", "../x"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["agents", "defaults", "list", "entries", "sandbox", "tools", "workspace", "plugins", "hooks", "secrets", "providers", "path"]), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["agents", "tools", "plugins", "hooks", "secrets", "mcp"]), JSON))
def test_whatever_stands_in_the_file_is_confined(document):
    confine(document, Path("/srv/homes/ada"), QUOTA)
    assert document["agents"]["defaults"]["sandbox"]["mode"] == "all"
    assert document["plugins"]["enabled"] is False
    again = json.dumps(document)
    assert confine(document, Path("/srv/homes/ada"), QUOTA) == []
    assert json.dumps(document) == again


def test_settings_come_from_a_private_file_and_variables(tmp_path):
    file = tmp_path / "fleet.json"
    with pytest.raises(ConfigError, match="fleet init"):
        load({}, str(file))
    file.write_text("{database: 'postgresql://x', quota: {messagesPerSecond: 5}}")
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod"):
        load({}, str(file))
    file.chmod(0o600)
    found = load({"HOMARUS_FLEET_SECRET": "s" * 24}, str(file))
    assert (found.database, found.secret, found.quota.messages_per_second) == ("postgresql://x", "s" * 24, 5)
    ready(found, secret=True)
    for bad in ("{quota: {message: 1}}", "[]", "{", "{database: 3}"):
        file.write_text(bad)
        with pytest.raises(ConfigError):
            load({}, str(file))
    with pytest.raises(ConfigError, match="no database"):
        ready(Fleet())
    with pytest.raises(ConfigError, match="begins with 'mysql'"):
        ready(Fleet(database="mysql://root:4711@x"))
    with pytest.raises(ConfigError, match="no secret"):
        ready(Fleet(database="postgresql://x"), secret=True)


def test_quotas_of_a_home_stand_over_the_fleets():
    assert quota_of(Quota(), '{"files": 3}').files == 3
    assert quota_of(Quota(), {"files": "many"}) == Quota()
    assert quota_of(Quota(), None) == Quota()
    assert parse_quota(("files=3", "messagesPerSecond=0.5", "processes=")) == {"files": 3, "messagesPerSecond": 0.5, "processes": None}  # fmt: skip
    for bad in ("file=3", "files=x", "files=-1", "files=0", "messagesPerSecond=nan"):
        with pytest.raises(ConfigError):
            parse_quota((bad,))


def test_names_of_homes_are_labels():
    assert all(is_home(name) for name in ("a", "ada", "ada-2", "0" * 63))
    assert not any(is_home(name) for name in ("", "-a", "a-", "A", "a.b", "a/b", "..", "a_b", "0" * 64, "ä", "a\n"))
