from datetime import UTC, datetime

import pytest
from tests.fixtures.homes import snapshot, unpack
from tests.sessions.lines import header, jsonl, says, user

from homarus.core.clock import CountingIds, ManualClock
from homarus.core.errors import ConfigError
from homarus.core.routes import SessionKey
from homarus.sessions.home import bring_in, candidates
from homarus.sessions.store import SessionStore

CLOCK = ManualClock(datetime(2026, 12, 1, tzinfo=UTC))


@pytest.fixture
def store(tmp_path):
    return SessionStore(
        tmp_path / "mine" / "agents" / "main" / "sessions", "main", clock=CLOCK, ids=CountingIds(), main_key="main"
    )


def all_from(store, path):
    found = candidates(path, "main", clock=CLOCK, ids=CountingIds())
    return [(candidate.name, *bring_in(store, candidate)) for candidate in found]


def texts(store, name):
    with store.open_writer(SessionKey.parse(name)) as writer:
        return [message.text for message in writer.history()]


@pytest.mark.parametrize("name", ["openclaw-2026.6.11", "openclaw-2026.9.6"])
def test_a_whole_home(tmp_path, store, name):
    home = unpack(name, tmp_path)
    before = snapshot(home.root)
    assert [state for _, state, _ in all_from(store, home.state)] == ["done", "done"]
    assert texts(store, "agent:main:main")[0] == "hello there"
    assert store.find(SessionKey.parse("main")).entry.imported_from["path"].startswith(str(home.state))
    assert [state for _, state, _ in all_from(store, home.state)] == ["known", "known"]
    assert snapshot(home.root) == before


def test_a_key_that_is_taken_gets_another_name(tmp_path, store):
    home = unpack("openclaw-2026.6.11", tmp_path)
    store.open_writer(SessionKey.parse("main")).close()
    (_, state, key), *_ = all_from(store, home.state)
    assert (state, str(key)) == ("done", "agent:main:explicit:d9c7b28f-48c2-4511-8f98-2e4e68b40a0d-imported")
    assert texts(store, "agent:main:main") == []


def test_files_folders_and_databases(tmp_path, store):
    folder = tmp_path / "loose"
    folder.mkdir()
    (folder / "one.jsonl").write_bytes(jsonl(header("one"), user("a", None), says("b", "a")))
    (folder / "two.jsonl").write_bytes(jsonl({"role": "user", "content": "flat"}))
    (folder / "bad.jsonl").write_bytes(b"garbage")
    assert {(name, state) for name, state, _ in all_from(store, folder)} == {
        ("agent:main:explicit:one", "done"),
        ("agent:main:explicit:two", "done"),
        ("agent:main:explicit:bad", "empty"),
    }
    assert texts(store, "agent:main:explicit:two") == ["flat"]
    home = unpack("openclaw-2026.9.6", tmp_path)
    database = home.state / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    assert len(all_from(store, database)) == 2
    assert [name for name, _, _ in all_from(store, home.state / "agents" / "main")] == [
        "agent:main:main",
        "agent:main:explicit:fixture-two",
    ]
    with pytest.raises(ConfigError):
        all_from(store, tmp_path / "nowhere")
