"""The failover decision as a table: error, what was tried, what is left -> next step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.errors import ModelFailure as F
from homarus.models.failover import (
    Compact,
    Failure,
    GiveUp,
    Left,
    LowerLevel,
    NextCredential,
    NextModel,
    Retry,
    Step,
    Tried,
    decide,
)

BOTH, KEYS, MODELS, NOTHING = Left(credentials=1, models=1), Left(credentials=1), Left(models=1), Left()

TABLE: list[tuple[str, Failure, Tried, Left, Step]] = [
    ("a stop is a stop", Failure(F.ABORTED), Tried(), BOTH, GiveUp()),
    ("a request that is wrong here may be right elsewhere", Failure(F.FORMAT), Tried(), BOTH, NextModel()),
    ("a wrong request stays wrong", Failure(F.FORMAT), Tried(), KEYS, GiveUp()),
    ("a certificate does not change by itself", Failure(F.UNREACHABLE), Tried(), BOTH, NextModel()),
    ("nowhere else to go", Failure(F.UNREACHABLE), Tried(), KEYS, GiveUp()),
    ("a refusal is an answer", Failure(F.REFUSAL), Tried(), BOTH, GiveUp()),
    ("no waiting makes it fit", Failure(F.REQUEST_TOO_LARGE), Tried(), BOTH, GiveUp()),
    ("too long is for the compaction", Failure(F.CONTEXT_OVERFLOW), Tried(), BOTH, Compact()),
    ("a level the model lacks", Failure(F.THINKING_LEVEL), Tried(), Left(weaker_level="low"), LowerLevel("low")),
    ("then nothing said at all", Failure(F.THINKING_LEVEL), Tried(), Left(weaker_level=""), LowerLevel("")),
    ("no lower level", Failure(F.THINKING_LEVEL), Tried(), BOTH, NextModel()),
    ("no lower level and no model", Failure(F.THINKING_LEVEL), Tried(), KEYS, GiveUp()),
    ("a bad key: the next one", Failure(F.AUTH), Tried(), BOTH, NextCredential()),
    ("the last key was bad: next model", Failure(F.AUTH), Tried(), MODELS, NextModel()),
    ("no key and no model left", Failure(F.AUTH), Tried(), NOTHING, GiveUp()),
    ("a revoked key", Failure(F.AUTH_PERMANENT), Tried(), BOTH, NextCredential()),
    ("no money: another account", Failure(F.BILLING), Tried(), BOTH, NextCredential()),
    ("no money: another model", Failure(F.BILLING), Tried(), MODELS, NextModel()),
    ("bad keys do not use up the rotation", Failure(F.AUTH), Tried(rotations=1), BOTH, NextCredential()),
    ("an unknown model", Failure(F.MODEL_NOT_FOUND), Tried(), BOTH, NextModel()),
    ("an unknown model, alone", Failure(F.MODEL_NOT_FOUND), Tried(), KEYS, GiveUp()),
    ("rate limit: first wait", Failure(F.RATE_LIMIT), Tried(), BOTH, Retry(1.0)),
    ("rate limit: doubling", Failure(F.RATE_LIMIT), Tried(failures=3, outage_since=0), BOTH, Retry(8.0)),
    ("rate limit: cap", Failure(F.RATE_LIMIT), Tried(failures=8, outage_since=0), BOTH, Retry(30.0)),
    ("rate limit: ten attempts, then rotate", Failure(F.RATE_LIMIT), Tried(failures=9), BOTH, NextCredential()),
    ("rate limit: one rotation only", Failure(F.RATE_LIMIT), Tried(failures=9, rotations=1), BOTH, NextModel()),
    ("rate limit: nothing left", Failure(F.RATE_LIMIT), Tried(failures=9), NOTHING, GiveUp()),
    ("the server's wish is the least wait", Failure(F.RATE_LIMIT, 17), Tried(), NOTHING, Retry(17.0)),
    ("a wish above a minute: fallback", Failure(F.RATE_LIMIT, 61), Tried(), MODELS, NextModel()),
    ("a wish above a minute: other key", Failure(F.RATE_LIMIT, 61), Tried(), KEYS, NextCredential()),
    ("a wish above a minute, nobody else", Failure(F.RATE_LIMIT, 61), Tried(), NOTHING, Retry(61.0)),
    ("a used-up week is not waited for", Failure(F.RATE_LIMIT, exhausted=True), Tried(), KEYS, NextCredential()),
    ("a used-up week, nobody else", Failure(F.RATE_LIMIT, exhausted=True), Tried(), NOTHING, GiveUp()),
    ("overload: wait", Failure(F.OVERLOADED), Tried(), BOTH, Retry(1.0)),
    ("eight retries", Failure(F.SERVER), Tried(failures=7, outage_since=0), MODELS, Retry(30.0)),
    ("and not nine", Failure(F.SERVER), Tried(failures=8, outage_since=0), MODELS, NextModel()),
    ("the outage is too long", Failure(F.TIMEOUT), Tried(failures=2, outage_since=1), Left(models=1, now=91.1), NextModel()),
    ("just inside the window", Failure(F.TIMEOUT), Tried(failures=2, outage_since=1), Left(models=1, now=90.9), Retry(4.0)),
    ("overload: one rotation", Failure(F.OVERLOADED), Tried(failures=8, outage_since=0), BOTH, NextCredential()),
    ("unknown: twice", Failure(F.UNKNOWN), Tried(failures=1), BOTH, Retry(2.0)),
    ("unknown: then the next model", Failure(F.UNKNOWN), Tried(failures=2), BOTH, NextModel()),
    ("unknown: alone", Failure(F.UNKNOWN), Tried(failures=2), KEYS, GiveUp()),
    ("the deadline is over", Failure(F.SERVER), Tried(), Left(models=1, now=10, deadline=10), GiveUp()),
    ("a wait beyond the deadline", Failure(F.SERVER, 30), Tried(), Left(models=1, now=0, deadline=20), NextModel()),
    ("a wait beyond the deadline, alone", Failure(F.SERVER, 30), Tried(), Left(now=0, deadline=20), GiveUp()),
    ("jitter adds at most a fifth", Failure(F.SERVER), Tried(failures=1), Left(dice=0.5), Retry(2.2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("failure", "tried", "left", "step"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_next_step(failure: Failure, tried: Tried, left: Left, step: Step):
    assert decide(failure, tried, left)[0] == step


@given(
    kinds=st.lists(st.sampled_from(list(F)), min_size=1, max_size=400),
    keys=st.integers(0, 3),
    models=st.integers(0, 3),
    wait=st.sampled_from([None, 0.5, 20.0, 3600.0]),
)
def test_every_run_of_failures_ends(kinds: list[F], keys: int, models: int, wait: float | None):
    """However failures follow each other, a bounded number of calls and of seconds is spent."""
    now, tried, credentials, rest, calls = 0.0, Tried(), keys, models, 0
    level: str | None = "high"
    for kind in [*kinds, *([kinds[-1]] * 1000)]:
        calls += 1
        left = Left(
            credentials=credentials,
            models=rest,
            weaker_level="off" if level == "high" else None,
            now=now,
            deadline=600.0,
        )
        step, tried = decide(Failure(kind, wait), tried, left)
        if isinstance(step, Retry):
            now += step.delay
        elif isinstance(step, LowerLevel):
            level = step.level
        elif isinstance(step, NextCredential):
            credentials -= 1
        elif isinstance(step, NextModel):
            rest, credentials = rest - 1, keys
        else:
            break
    else:
        raise AssertionError("never ended")
    assert min(credentials, rest) >= 0
    assert now <= 600.0
    assert calls <= 12 * (keys + 1) * (models + 1) + 2
