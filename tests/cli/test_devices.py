"""`homarus devices`, as a person and as a program use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from homarus.cli.main import run
from homarus.core.clock import SystemClock, SystemIds
from homarus.gateway.devices import Devices, Pending


@pytest.fixture
def devices(own_home: Path) -> Devices:
    return Devices(own_home / ".openclaw" / "homarus" / "devices.json", SystemClock(), SystemIds())


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(list(arguments)) == code
    return "".join(capsys.readouterr())


def wish(name: str = "phone") -> Pending:
    return Pending(
        request_id="",
        device_id=name * 8,
        public_key="k",
        scopes=("operator.admin",),
        reason="not-paired",
        ts=0,
        display_name=f"my \x1b[31m{name}",
    )


def test_a_device_is_let_in_named_and_forgotten(devices: Devices, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none waits" in output(capsys, "devices")
    asked = devices.ask(wish())
    shown = output(capsys, "devices", "list")
    assert asked.request_id in shown
    assert "\x1b" not in shown
    assert "approved my" in output(capsys, "devices", "approve")
    [paired] = json.loads(output(capsys, "devices", "--json"))["paired"]
    assert (paired["approvedVia"], paired["tokens"]) == ("owner", [])
    assert "renamed desk" in output(capsys, "devices", "rename", "phone", "desk")
    assert json.loads(output(capsys, "devices", "remove", "phone", "--json"))["done"] == "removed"
    assert devices.read().paired == {}


def test_of_several_one_is_named(devices: Devices, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no device waits" in output(capsys, "devices", "approve", code=1)
    first, second = devices.ask(wish()), devices.ask(wish("tablet"))
    assert "2 devices wait" in output(capsys, "devices", "approve", code=1)
    assert "rejected" in output(capsys, "devices", "reject", second.request_id)
    assert "approved" in output(capsys, "devices", "approve", first.request_id[:8])


def test_a_damaged_file_lets_nobody_in_and_is_kept(
    devices: Devices, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    devices.ask(wish())
    path = own_home / ".openclaw" / "homarus" / "devices.json"
    path.write_text("{broken")
    assert "No device is paired" in output(capsys, "devices")
    assert [each.read_text() for each in path.parent.glob("devices.json.damaged.*")] == ["{broken"]
