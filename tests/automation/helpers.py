"""A home whose automation is driven by hand: the clock moves when told, and a model says what the script says."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any

from tests.scenarios.home import House, until

from homarus import Agent
from homarus.automation.scheduler import Automation
from homarus.core.clock import epoch_ms


def automation_of(agent: Agent) -> Automation:
    return agent.client.runtime.automation


def turn_job(message: str = "look at the mail", schedule: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    schedule = schedule or {"kind": "every", "everyMs": 3_600_000}
    return {"name": "mail", "schedule": schedule, "payload": {"kind": "agentTurn", "message": message}, **more}


def event_job(text: str = "call the dentist", schedule: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    schedule = schedule or {"kind": "every", "everyMs": 3_600_000}
    return {"name": "dentist", "schedule": schedule, "payload": {"kind": "systemEvent", "text": text}, **more}


async def settle(automation: Automation) -> None:
    """Let everything that was begun come to its end."""
    beats = automation.heartbeats
    async with asyncio.timeout(120):
        while automation.cron.running or beats._tasks or automation._work:
            await asyncio.sleep(0.001)


async def pass_time(home: House, automation: Automation, seconds: float, step: float = 60.0) -> None:
    """Move the clock as a running program would see it: it looks around every minute."""
    left = seconds
    while left > 0:
        home.clock.advance(min(step, left))
        left -= step
        automation.tick()
        await settle(automation)


def stored_jobs(home: House) -> list[dict[str, Any]]:
    return json.loads((home.state / "cron" / "jobs.json").read_text())["jobs"]


def in_(home: House, seconds: float) -> str:
    moment: datetime = home.clock.now() + timedelta(seconds=seconds)
    return moment.isoformat()


def now_ms(home: House) -> int:
    return epoch_ms(home.clock.now())


__all__ = [
    "Agent", "House", "automation_of", "event_job", "in_", "now_ms", "pass_time", "settle", "stored_jobs", "turn_job", "until"
]  # fmt: skip
