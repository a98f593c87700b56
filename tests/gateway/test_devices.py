"""Invitations beside the devices: once, in time, not too many, and known to whoever reads the file next."""

from datetime import UTC, datetime
from pathlib import Path

from homarus.core.clock import ManualClock, SystemIds
from homarus.gateway.devices import CODE_SECONDS, MAX_CODES, Devices
from homarus.gateway.scopes import READ, WRITE

START = datetime(2026, 5, 1, tzinfo=UTC)


def test_an_invitation_is_good_once_for_the_next_process_too(tmp_path: Path) -> None:
    place, clock = tmp_path / "devices.json", ManualClock(START)
    code = Devices(place, clock, SystemIds()).invite(frozenset({READ}))
    assert code not in place.read_text()
    anew = Devices(place, clock, SystemIds())
    assert anew.redeem(f"{code}x") is None
    assert anew.redeem(code) == {READ}
    assert anew.redeem(code) is None
    assert Devices(place, clock, SystemIds()).redeem(code) is None


def test_an_invitation_ends_and_the_oldest_make_room(tmp_path: Path) -> None:
    clock = ManualClock(START)
    devices = Devices(tmp_path / "devices.json", clock, SystemIds())
    late = devices.invite(frozenset({READ}))
    clock.advance(CODE_SECONDS)
    assert devices.redeem(late) is None
    early = devices.invite(frozenset({READ}))
    clock.advance(-3600)
    assert devices.redeem(early) is None, "a clock that was set back makes no code live longer"
    codes = []
    for _ in range(MAX_CODES + 1):
        clock.advance(1)
        codes.append(devices.invite(frozenset({WRITE})))
    assert devices.redeem(codes[0]) is None
    assert [devices.redeem(each) for each in codes[1:]] == [{WRITE}] * MAX_CODES
    assert devices.read().invited == {}
