import pytest
from msgspec.structs import replace

from homarus.context.budget import budget_for
from homarus.context.flush import FlushFacts, due
from homarus.context.settings import CompactionSettings, FlushSettings

BUDGET = budget_for(32_768, CompactionSettings())
FULL = FlushFacts(tokens=20_576, transcript_bytes=0, compactions=2, flushed_at_compaction=1)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (FULL, "tokens"),
        (replace(FULL, tokens=20_575), ""),
        (replace(FULL, tokens=0, transcript_bytes=2 << 20), "bytes"),
        (replace(FULL, tokens=0, compacting=True), "compaction"),
        (replace(FULL, flushed_at_compaction=2), ""),
        (replace(FULL, flushed_at_compaction=2, compacting=True), ""),
        (replace(FULL, flushed_at_compaction=None), "tokens"),
        (replace(FULL, heartbeat=True), ""),
        (replace(FULL, writable=False), ""),
        (replace(FULL, failures=3), ""),
    ],
)
def test_once_in_each_cycle_on_every_path(facts: FlushFacts, reason: str) -> None:
    assert due(facts, BUDGET, FlushSettings()) == reason


def test_off_is_off() -> None:
    assert due(FULL, BUDGET, FlushSettings(enabled=False)) == ""
    assert (
        due(replace(FULL, tokens=0, transcript_bytes=9 << 20), BUDGET, FlushSettings(force_flush_transcript_bytes=0))
        == ""
    )
