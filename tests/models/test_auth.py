"""Credentials: cooldown ladders, rotation, pins, the file and everything that can be wrong with it."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from homarus.core.clock import ManualClock, epoch_ms
from homarus.core.errors import ModelFailure as F
from homarus.models.auth import AuthStore, candidates, env_credentials
from homarus.models.rotation import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Credential,
    Pin,
    Stats,
    after_failure,
    after_success,
    ordered,
)
from homarus.models.settings import AuthSettings

START = datetime(2026, 11, 15, 8, tzinfo=UTC)
NOW = epoch_ms(START)


def climb(kind: F, times: int, model: str = "m") -> list[int]:
    """The lengths of the rests when each failure comes right after the last rest ended."""
    stats, now, rests = Stats(), NOW, []
    for _ in range(times):
        stats = after_failure(stats, kind, model, now)
        rests.append(stats.resting_until(model, now) - now)
        now += rests[-1]
    return rests


@pytest.mark.parametrize(
    ("kind", "rests"),
    [
        (F.SERVER, [30 * SECOND, 60 * SECOND, 300 * SECOND, 300 * SECOND]),
        (F.AUTH, [30 * SECOND, 60 * SECOND, 300 * SECOND, 300 * SECOND]),
        (F.RATE_LIMIT, [30 * SECOND * 2**n for n in range(11)]),
        (F.BILLING, [10 * MINUTE * 2**n for n in range(8)] + [DAY, DAY]),
        (F.AUTH_PERMANENT, [10 * MINUTE, 20 * MINUTE, 40 * MINUTE, HOUR, HOUR]),
    ],
)
def test_ladders(kind: F, rests: list[int]):
    assert climb(kind, len(rests)) == rests


def test_a_rate_limit_rests_for_a_day_at_most():
    assert max(climb(F.RATE_LIMIT, 16)) == DAY


def test_a_running_rest_is_not_extended():
    first = after_failure(Stats(), F.RATE_LIMIT, "m", NOW)
    second = after_failure(first, F.RATE_LIMIT, "m", NOW + 5 * SECOND)
    assert second.cooldown_until == first.cooldown_until == NOW + 30 * SECOND
    third = after_failure(second, F.RATE_LIMIT, "m", NOW + 31 * SECOND)
    assert third.cooldown_until == NOW + 31 * SECOND + 60 * SECOND


def test_a_rate_limit_is_about_one_model():
    stats = after_failure(Stats(), F.RATE_LIMIT, "a", NOW)
    assert stats.resting_until("a", NOW)
    assert not stats.resting_until("b", NOW)
    both = after_failure(stats, F.RATE_LIMIT, "b", NOW + SECOND)
    assert both.resting_until("a", NOW + SECOND)
    assert both.resting_until("b", NOW + SECOND)


def test_a_bad_key_is_about_all_models():
    assert after_failure(Stats(), F.AUTH, "a", NOW).resting_until("b", NOW)
    assert after_failure(Stats(), F.BILLING, "a", NOW).resting_until("b", NOW)


@pytest.mark.parametrize("kind", [F.FORMAT, F.REFUSAL, F.CONTEXT_OVERFLOW, F.ABORTED, F.MODEL_NOT_FOUND, F.UNKNOWN])
def test_what_is_about_one_request_cools_nothing(kind: F):
    assert after_failure(Stats(), kind, "m", NOW) == Stats()


def test_failures_are_forgotten_after_a_day_and_by_success():
    stats = after_failure(Stats(), F.SERVER, "m", NOW)
    later = after_failure(stats, F.SERVER, "m", NOW + DAY + MINUTE)
    assert later.resting_until("m", NOW + DAY + MINUTE) == NOW + DAY + MINUTE + 30 * SECOND
    assert after_success(NOW) == Stats(last_used=NOW)


# --- order -----------------------------------------------------------------------------------------------------------

KEYS = [
    Credential("p:key", "p", "api_key", "k"),
    Credential("p:token", "p", "token", "t"),
    Credential("p:login", "p", "oauth", "o"),
]


def names(found: tuple[Credential, ...]) -> list[str]:
    return [item.id.partition(":")[2] for item in found]


def test_logins_before_tokens_before_keys():
    assert names(ordered(KEYS, {}, model="m", now=NOW)) == ["login", "token", "key"]


def test_the_longest_unused_of_a_kind_comes_first():
    keys = [Credential(f"p:{i}", "p") for i in range(3)]
    stats = {"p:0": Stats(last_used=30), "p:1": Stats(last_used=10), "p:2": Stats(last_used=20)}
    assert names(ordered(keys, stats, model="m", now=NOW)) == ["1", "2", "0"]


def test_resting_ones_come_last_by_waking_time():
    stats = {
        "p:login": Stats(cooldown_until=NOW + 500),
        "p:token": Stats(disabled_until=NOW + 100),
        "p:key": Stats(cooldown_until=NOW + 900, cooldown_model="other"),
    }
    assert names(ordered(KEYS, stats, model="m", now=NOW)) == ["key", "token", "login"]
    assert names(ordered(KEYS, stats, model="m", now=NOW, explicit=["p:login", "p:key", "p:token"])) == [
        "key",
        "token",
        "login",
    ]


def test_an_explicit_order_is_kept_and_leaves_out_the_rest():
    assert names(ordered(KEYS, {}, model="m", now=NOW, explicit=["p:key", "p:login", "p:gone"])) == ["key", "login"]


def test_expired_tokens_are_out_and_expired_logins_last():
    keys = [
        Credential("p:t", "p", "token", "x", NOW - 1),
        Credential("p:o", "p", "oauth", "x", NOW - 1),
        Credential("p:k", "p"),
    ]
    assert names(ordered(keys, {}, model="m", now=NOW)) == ["k", "o"]


def test_pins():
    resting = {"p:key": Stats(cooldown_until=NOW + 500)}
    assert names(ordered(KEYS, {}, model="m", now=NOW, pin=Pin("p:key"))) == ["key", "login", "token"]
    assert names(ordered(KEYS, resting, model="m", now=NOW, pin=Pin("p:key", by_user=True))) == [
        "login",
        "token",
        "key",
    ]
    assert names(ordered(KEYS, {}, model="m", now=NOW, pin=Pin("p:key", by_user=True), explicit=["p:login"])) == [
        "key",
        "login",
    ]


# --- the file --------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def write(folder: Path, **document: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "auth-profiles.json"
    path.write_text(json.dumps({"version": 1, **document}))
    return path


PROFILES = {
    "acme:default": {"type": "api_key", "provider": "Acme", "key": "sk-1", "email": "me@example.com"},
    "acme:other": {"type": "token", "provider": "acme", "token": "tok", "expires": NOW + DAY},
    "zai:default": {"type": "api_key", "provider": "z.ai", "key": "sk-z"},
    "broken": "nonsense",
    "empty": {"type": "api_key", "provider": "acme", "key": ""},
}


def test_profiles_are_read(tmp_path: Path, clock: ManualClock):
    write(tmp_path, profiles=PROFILES, order={"acme": ["acme:other"]})
    store = AuthStore(tmp_path, clock=clock)
    assert {item.id: item.secret for item in store.credentials("acme")} == {"acme:default": "sk-1", "acme:other": "tok"}
    assert [item.id for item in store.credentials("zai")] == ["zai:default"]
    assert store.stored_order("acme") == ["acme:other"]
    assert store.credentials("nobody") == []
    assert "sk-1" not in repr(store.credentials("acme"))


def test_state_is_written_and_unknown_fields_survive(tmp_path: Path, clock: ManualClock):
    path = write(
        tmp_path, profiles=PROFILES, future={"x": 1}, usageStats={"acme:default": {"lastUsed": 5, "strange": True}}
    )
    store = AuthStore(tmp_path, clock=clock)
    key = store.credentials("acme")[0]
    store.failed(key, F.RATE_LIMIT, "m1")
    document = json.loads(path.read_text())
    assert document["future"] == {"x": 1}
    assert document["profiles"]["acme:default"]["email"] == "me@example.com"
    assert document["profiles"]["broken"] == "nonsense"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    stats = document["usageStats"]["acme:default"]
    assert stats["strange"] is True
    assert stats["cooldownUntil"] == NOW + 30 * SECOND
    assert stats["cooldownModel"] == "m1"
    assert AuthStore(tmp_path, clock=clock).stats("acme:default").resting_until("m1", NOW)
    store.succeeded(key)
    assert AuthStore(tmp_path, clock=clock).stats("acme:default") == Stats(last_used=NOW)
    assert json.loads(path.read_text())["usageStats"]["acme:default"]["strange"] is True


def test_a_new_file_is_for_its_owner_only(tmp_path: Path, clock: ManualClock):
    store = AuthStore(tmp_path / "agent", clock=clock)
    store.put("acme:default", {"type": "api_key", "provider": "acme", "key": "sk"})
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert [item.id for item in store.credentials("acme")] == ["acme:default"]
    assert store.remove("acme:default")
    assert not store.remove("acme:default")
    assert store.credentials("acme") == []


def test_uses_are_written_rarely(tmp_path: Path, clock: ManualClock):
    path = write(tmp_path, profiles=PROFILES)
    store = AuthStore(tmp_path, clock=clock)
    key = store.credentials("acme")[0]
    store.succeeded(key)
    before = path.stat().st_ino
    for _ in range(5):
        clock.advance(60)
        store.succeeded(key)
    assert path.stat().st_ino == before
    assert store.stats(key.id).last_used == NOW + 300 * SECOND


def test_an_edit_by_hand_is_seen(tmp_path: Path, clock: ManualClock):
    write(tmp_path, profiles={})
    store = AuthStore(tmp_path, clock=clock)
    assert store.credentials("acme") == []
    path = write(tmp_path, profiles=PROFILES)
    os.utime(path, (1, 1))
    assert store.credentials("acme")


def test_a_damaged_file_is_moved_aside_before_the_first_write(tmp_path: Path, clock: ManualClock):
    path = tmp_path / "auth-profiles.json"
    path.write_text('{"profiles": {"acme:default": {"key": "half')
    store = AuthStore(tmp_path, clock=clock)
    assert store.credentials("acme") == []
    store.put("acme:new", {"type": "api_key", "provider": "acme", "key": "sk"})
    assert [item.id for item in store.credentials("acme")] == ["acme:new"]
    kept = [item for item in tmp_path.iterdir() if ".corrupt." in item.name]
    assert len(kept) == 1
    assert "half" in kept[0].read_text()


def test_older_forms_are_read_and_left_alone(tmp_path: Path, clock: ManualClock):
    agent = tmp_path / "agents" / "main" / "agent"
    agent.mkdir(parents=True)
    old = agent / "auth.json"
    old.write_text(json.dumps({"acme": {"type": "api_key", "key": "sk-old"}}))
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "oauth.json").write_text(
        json.dumps({"other": {"access": "a", "refresh": "r", "expires": 1}})
    )
    store = AuthStore(agent, clock=clock)
    assert store.credentials("acme") == [Credential("acme:default", "acme", "api_key", "sk-old")]
    assert store.credentials("other")[0].kind == "oauth"
    before = old.read_bytes()
    store.put("x:y", {"type": "api_key", "provider": "x", "key": "k"})
    assert old.read_bytes() == before
    assert {"acme:default", "other:default", "x:y"} == set(json.loads(store.path.read_text())["profiles"])


def test_profiles_of_a_newer_openclaw_are_read_from_its_database(tmp_path: Path, clock: ManualClock):
    path = tmp_path / "openclaw-agent.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE auth_profile_store (key TEXT, value TEXT)")
    database.execute("CREATE TABLE auth_profile_state (key TEXT, value TEXT)")
    database.execute(
        "INSERT INTO auth_profile_store VALUES ('primary', ?)", [json.dumps({"version": 1, "profiles": PROFILES})]
    )
    database.execute(
        "INSERT INTO auth_profile_state VALUES ('primary', ?)", [json.dumps({"order": {"acme": ["acme:other"]}})]
    )
    database.commit()
    database.close()
    before = path.read_bytes()
    store = AuthStore(tmp_path, clock=clock)
    assert len(store.credentials("acme")) == 2
    assert store.stored_order("acme") == ["acme:other"]
    assert path.read_bytes() == before


def test_a_short_agent_dir_finds_its_child(tmp_path: Path, clock: ManualClock):
    write(tmp_path / "agent", profiles=PROFILES)
    assert AuthStore(tmp_path, clock=clock).credentials("acme")


def test_nothing_is_shared_unless_asked_for(tmp_path: Path, clock: ManualClock):
    write(tmp_path / "main", profiles=PROFILES)
    main = AuthStore(tmp_path / "main", clock=clock)
    assert AuthStore(tmp_path / "work", clock=clock).credentials("acme") == []
    shared = AuthStore(tmp_path / "work", clock=clock, parent=main)
    key = shared.credentials("acme")[0]
    shared.failed(key, F.RATE_LIMIT, "m")
    assert shared.stats(key.id).resting_until("m", NOW)
    assert main.stats(key.id).resting_until("m", NOW), "the owner of the key learns of it"
    assert not (tmp_path / "work").exists()


def test_a_read_only_home_does_not_fail_the_turn(tmp_path: Path, clock: ManualClock):
    write(tmp_path, profiles=PROFILES)
    store = AuthStore(tmp_path, clock=clock)
    key = store.credentials("acme")[0]
    store.path = tmp_path / "auth-profiles.json" / "not a folder"
    store.note(key.id, Stats(cooldown_until=NOW + 1), write=True)
    assert store.stats(key.id).cooldown_until == NOW + 1


def test_keys_without_a_profile_cool_in_memory(tmp_path: Path, clock: ManualClock):
    store = AuthStore(tmp_path, clock=clock)
    key = env_credentials("acme", ("ACME_API_KEY",), {"ACME_API_KEY": "k"})[0]
    store.failed(key, F.SERVER, "m")
    assert store.stats(key.id).resting_until("m", NOW)
    assert list(tmp_path.iterdir()) == []


def test_environment_keys():
    env = {"A_KEY": "one", "A_KEYS": "two; three,one", "A_KEY_1": "four", "B_KEY": " five ", "C_KEY": " "}
    found = env_credentials("a", ("A_KEY", "B_KEY", "C_KEY"), env)
    assert [item.secret for item in found] == ["one", "two", "three", "four", "five"]
    assert found[0].id == "env:A_KEY"


def test_profiles_come_before_bare_keys(tmp_path: Path, clock: ManualClock):
    write(tmp_path, profiles=PROFILES)
    store = AuthStore(tmp_path, clock=clock)
    bare = [Credential("env:ACME_API_KEY", "acme", "api_key", "e")]

    def order(**options: object) -> list[str]:
        settings = AuthSettings(**options)  # type: ignore[arg-type]
        return [
            item.id for item in candidates(store, "acme", model="m", last_resort=bare, settings=settings, clock=clock)
        ]

    assert order() == ["acme:other", "acme:default", "env:ACME_API_KEY"]
    assert order(order={"acme": ["acme:default"]}) == ["acme:default", "env:ACME_API_KEY"]
    assert order(order={"ACME": ["acme:default"]}) == ["acme:default", "env:ACME_API_KEY"], "by any spelling"
    assert order(order={"acme": ["acme:gone"]}) == order(), "an order of missing profiles is none"
    assert order(profiles={"acme:default": {"provider": "acme"}}) == ["acme:default", "env:ACME_API_KEY"]
    both = {"acme:default": {"provider": "Acme"}, "acme:other": {"provider": "acme"}}
    assert order(profiles=both) == order(), "naming profiles gives them no order of their own"
