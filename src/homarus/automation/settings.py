"""The configuration blocks `cron` and `heartbeat`, with all defaults in one place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from homarus.agent.budget import Limits
from homarus.automation.schedule import minutes
from homarus.config import settings as shared
from homarus.config.keypath import KeyPath
from homarus.core.errors import HomarusError
from homarus.core.text import single_line
from homarus.workspace.settings import is_zone

CAP = Annotated[int, Meta(ge=1, le=100)]


class RunLogSettings(Struct, frozen=True, rename="camel"):
    max_bytes: Annotated[int, Meta(ge=10_000)] = 2_000_000
    keep_lines: Annotated[int, Meta(ge=10)] = 2_000


class FailureAlert(Struct, frozen=True, rename="camel"):
    """When a failing job is told of: from which failure in a row on, and how long then nothing more is said."""

    enabled: bool = True
    after: Annotated[int, Meta(ge=1)] = 1
    cooldown_ms: Annotated[int, Meta(ge=0)] = 3_600_000


class CronSettings(Struct, frozen=True, rename="camel"):
    """`cron`: jobs of `cron/jobs.json`."""

    enabled: bool = True
    max_concurrent_runs: CAP = 1
    # Whether a due time that passed while nothing ran is left out; otherwise it is made up for, once.
    skip_missed_jobs: bool = False
    webhook_token: Any = None
    run_log: RunLogSettings = RunLogSettings()
    failure_alert: FailureAlert | bool = FailureAlert()
    # What one job may use in a day; zero is no bound.
    budget: Limits = Limits()

    @property
    def alert(self) -> FailureAlert:
        found = self.failure_alert
        return found if isinstance(found, FailureAlert) else FailureAlert(enabled=found)


class ActiveHours(Struct, frozen=True, rename="camel"):
    """`start` and `end` as HH:MM; an end before the start is after midnight, and equal ones are the whole day."""

    start: str = "00:00"
    end: str = "24:00"
    # `user`, `local`, or the name of a zone.
    timezone: str = "user"


class HeartbeatSettings(shared.HeartbeatSettings, frozen=True, rename="camel"):
    """`agents.defaults.heartbeat`, or an agent's own: `every` and `prompt` stand with the prompt, which tells of them."""

    model: str = ""
    session: str = "main"
    # `last`, `owner`, `none`, or a channel.
    target: str = "last"
    to: str = ""
    account_id: str = ""
    active_hours: ActiveHours | None = None
    ack_max_chars: Annotated[int, Meta(ge=0)] = 300
    # A session of its own that begins anew each time, so that a poll does not carry the whole conversation.
    isolated_session: bool = False
    # Of the workspace the model sees HEARTBEAT.md only.
    light_context: bool = False
    timeout_seconds: Annotated[float, Meta(ge=0)] = 300.0
    # What the heartbeats of a day may use. An agent that is left alone must not become expensive unnoticed.
    budget: Limits = Limits(tokens=2_000_000)
    # After so many failures in a row they stop until somebody switches them on again.
    max_errors: Annotated[int, Meta(ge=1)] = 3

    @property
    def warnings(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield the hours that nobody understands: they allow no heartbeat at all."""
        hours = self.active_hours
        for key, text in (("start", hours.start), ("end", hours.end)) if hours else ():
            try:
                minutes(text)
            except HomarusError:
                yield ("activeHours", key), f"'{single_line(text, 20)}' is no time such as 08:30"
        zone = hours.timezone.strip() if hours else ""
        if zone and zone not in ("user", "local") and not is_zone(zone):
            yield ("activeHours", "timezone"), f"'{single_line(zone, 40)}' is no time zone that this machine knows"


class ChoreSettings(Struct, frozen=True, rename="camel"):
    """`memory.reflect`, and of `memory.dreaming` as much as tells when: by themselves only if a time is set."""

    schedule: str = ""
    timezone: str = ""


DeliveryMode = Literal["none", "announce", "webhook"]
