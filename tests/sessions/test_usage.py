from datetime import UTC
from zoneinfo import ZoneInfo

from tests.sessions.lines import says, user

from homarus.core.messages import Assistant, Cost, Text, Usage
from homarus.sessions.entry import new_entry, to_entry
from homarus.sessions.usage import Ledger, bars, usage_note


def spent(ident, time, tokens=(100, 10, 300, 0), cost=0.5, model="m"):
    names = ("input", "output", "cacheRead", "cacheWrite")
    usage = dict(zip(names, tokens, strict=True)) | {
        "cost": {"input": cost, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    }
    return to_entry(says(ident, None, usage=usage, provider="p", model=model, timestamp=time))


DAY = 86_400_000
NOON = 1_777_636_800_000  # 2026-05-01T12:00Z


def test_by_day_in_a_zone():
    ledger = Ledger("day", ZoneInfo("Pacific/Auckland"))
    ledger.add(
        "s", "main", [spent("a", NOON), spent("b", NOON + DAY), to_entry(user("u", None)), to_entry(says("c", None))]
    )
    assert [(row.name, row.calls, row.tokens, row.cost) for row in ledger.rows()] == [
        ("2026-05-02", 1, 410, 0.5),
        ("2026-05-03", 1, 410, 0.5),
    ]
    assert ledger.sum().calls == 2
    assert ledger.sum().cache_share == 0.75


def test_by_model_session_and_agent_the_dearest_first():
    calls = [spent("a", NOON, model="small", cost=0.1), spent("b", NOON, model="large", cost=2.0)]
    by_model = Ledger("model", UTC)
    by_model.add("s", "main", calls)
    assert [row.name for row in by_model.rows()] == ["p/large", "p/small"]
    by_session = Ledger("session", UTC)
    by_session.add("one", "main", calls[:1])
    by_session.add("two", "main", calls[1:])
    assert [row.name for row in by_session.rows()] == ["two", "one"]
    by_agent = Ledger("agent", UTC)
    by_agent.add("one", "main", calls)
    assert by_agent.rows()[0].calls == 2


def test_a_call_that_stands_in_two_transcripts_counts_once():
    ledger = Ledger("day", UTC)
    ledger.add("s", "main", [spent("a", NOON)])
    ledger.add("fork", "main", [spent("a", NOON), spent("b", NOON)])
    assert ledger.sum().calls == 2


def test_since_and_bad_numbers():
    ledger = Ledger("day", UTC, since=NOON)
    odd = to_entry(says("x", None, usage={"input": "many", "output": -5, "cacheRead": True, "cost": 7}, timestamp=NOON))
    ledger.add("s", "main", [spent("old", NOON - 1), odd])
    assert ledger.rows() == []


def test_a_total_cost_alone_is_counted():
    ledger = Ledger("day", UTC)
    ledger.add(
        "s", "main", [to_entry(says("x", None, usage={"inputTokens": 7, "cost": {"total": 0.25}}, timestamp=NOON))]
    )
    assert (ledger.sum().cost, ledger.sum().input) == (0.25, 7)


def test_bars():
    assert bars([0, 1, 2, 4], 4) == ["", "█", "██", "████"]
    assert bars([1, 1000], 4) == ["▏", "████"]
    assert bars([]) == []
    assert bars([0.0, 0.0]) == ["", ""]


def test_calls_that_answered_nobody_count_and_are_named():
    answer = Assistant((Text("a summary"),), provider="p", model="small", usage=Usage(100, 10, cost=Cost(0.25)))
    notes = [
        new_entry("custom", ident, None, "2026-05-01T12:00:00.000Z", usage_note(purpose, answer))
        for ident, purpose in (("k", "compaction"), ("f", "flush"), ("g", "flush"))
    ]
    odd = to_entry({"type": "custom", "id": "x", "customType": "homarus.usage", "data": [1]})
    ledger = Ledger("purpose", UTC)
    ledger.add("s", "main", [spent("a", NOON), *notes, odd])
    assert [(row.name, row.calls, row.tokens) for row in ledger.rows()] == [
        ("answer", 1, 410),
        ("flush", 2, 220),
        ("compaction", 1, 110),
    ]
    assert (ledger.sum().calls, ledger.sum().cost) == (4, 1.25)
    assert {name: row.calls for name, row in ledger.aside.items()} == {"compaction": 1, "flush": 2}
    by_day = Ledger("day", UTC)
    by_day.add("s", "main", notes)
    assert [(row.name, row.calls) for row in by_day.rows()] == [("2026-05-01", 3)]
