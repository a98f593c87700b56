"""The contract's first rig."""

from pathlib import Path

import pytest
from tests.channels.contract import Scenario, play
from tests.channels.fake.platform import FakeRig
from tests.channels.foes import SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_contract(scenario: Scenario, tmp_path: Path) -> None:
    async with FakeRig() as rig:
        await play(scenario, rig, tmp_path)
