"""What our own page asks of the home: what it costs and why, who did what, what is wrong with it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import to_builtins

from homarus.agent.settings import TurnSettings
from homarus.config.load import inspect_config
from homarus.gateway.logs import LEDGER, read_ledger
from homarus.gateway.methods import Call, Method, Params
from homarus.gateway.scopes import ADMIN, READ
from homarus.sessions.usage import Total

Json = dict[str, Any]
MOST_ROWS, MOST_SESSIONS = 2_000, 100


class CostParams(Params, frozen=True):
    days: int = 30


class RowsParams(Params, frozen=True):
    limit: int = 300


async def costs(call: Call, params: CostParams) -> Json:
    """Return tokens and money of the last days by day, model, session and cause, and what the budgets leave."""
    home = call.client.home
    days = max(1, min(params.days, 400))
    start = (datetime.now(UTC) - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    found = await call.client.operations.costs(int(start.timestamp() * 1000))
    labels: dict[str, str] = {}
    for agent in home.config.agents:
        labels |= {info.name: info.title for info in home.store(agent.id).list()}
    by_session = sorted(found.sessions.values(), key=lambda total: (-total.cost, -total.tokens))[:MOST_SESSIONS]
    return {
        "days": [_row(total) for total in sorted(found.days.values(), key=lambda total: total.name)],
        "models": [_row(total) for total in _ordered(found.models)],
        "causes": [_row(total) for total in _ordered(found.causes)],
        "sessions": [{**_row(total), "label": labels.get(total.name, "")} for total in by_session],
        "total": _row(found.total),
        "since": f"{start:%Y-%m-%d}",
        "budgets": [_budget(call, agent.id) for agent in home.config.agents],
    }


def _ordered(totals: dict[str, Total]) -> list[Total]:
    return sorted(totals.values(), key=lambda total: (-total.cost, -total.tokens, total.name))


def _row(total: Total) -> Json:
    return {**to_builtins(total), "tokens": total.tokens, "cacheShare": round(total.cache_share, 4)}


def _budget(call: Call, agent_id: str) -> Json:
    home = call.client.home
    rules, today = home.config.agent(agent_id).block("", TurnSettings).budget, home.spending.today(agent_id)
    spent = {"calls": today.calls, "tokens": today.usage.total, "money": today.usage.cost.total}
    return {
        "agent": agent_id,
        "today": {**spent, "seconds": today.seconds},
        "day": to_builtins(rules.day),
        "run": to_builtins(rules.run),
    }


async def audit(call: Call, params: RowsParams) -> Json:
    """Return who connected, what was called, which runs and tools there were; the newest rows, oldest first."""
    folder = call.client.home.config.paths.own_dir / LEDGER
    return {"rows": await asyncio.to_thread(read_ledger, folder, max(1, min(params.limit, MOST_ROWS)))}


async def doctor(call: Call, _params: Params) -> Json:
    """Look over the home as `homarus doctor` and `homarus security audit` do. Nothing is mended."""
    from homarus.admin.audit import audit as look_for_openings
    from homarus.admin.doctor.examine import examine
    from homarus.admin.doctor.finding import Home

    home = call.client.home

    def look() -> list[Json]:
        subject = Home(inspect_config(home.config.paths, home.env), home.env, home.clock)
        return [found.as_json() for found in [*examine(subject), *look_for_openings(subject)]]

    return {"findings": await asyncio.to_thread(look)}


METHODS = {
    "page.costs": Method(READ, costs, CostParams),
    "page.audit": Method(READ, audit, RowsParams),
    "page.doctor": Method(ADMIN, doctor, write=True),
}
