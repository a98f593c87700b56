"""No test is timed: on a busy machine a property holds as slowly as everything else does."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("homarus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("homarus")
