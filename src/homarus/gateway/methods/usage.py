"""What sessions took: tokens, cost, by day, model and agent, counted from the transcripts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.protocol import Refused
from homarus.gateway.rows import row_of
from homarus.gateway.scopes import READ
from homarus.runtime.operations import Costs
from homarus.sessions.usage import Total


class UsageParams(Params, frozen=True):
    key: str = ""
    agent_id: str = ""
    start_date: str = ""
    end_date: str = ""
    range: str = ""
    days: int = 0
    limit: int = 50
    PASSED = passed("agentScope creatorKey mode groupBy includeHistorical utcOffset timeZone includeContextWeight")


async def usage(call: Call, params: UsageParams) -> dict[str, Any]:
    """Count what sessions took in a span of days, from the transcripts."""
    now = datetime.now(UTC)
    days = params.days or {"7d": 7, "30d": 30, "90d": 90, "1y": 365, "all": 3650}.get(params.range, 30)
    start = _day(params.start_date) or (now - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0)
    last = _day(params.end_date) or now
    until = int((last.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)).timestamp() * 1000)
    agent = call.client.home.config.agent_named(params.agent_id).id if params.agent_id else ""
    costs = await call.client.operations.costs(
        int(start.timestamp() * 1000),
        until,
        agent=agent,
        session=str(call.gateway.key(params.key)) if params.key else "",
    )
    rows = []
    for name, total in sorted(costs.sessions.items(), key=lambda pair: -pair[1].tokens)[: max(1, params.limit)]:
        try:
            rows.append({**row_of(call.gateway, call.gateway.key(name)), "usage": _total(total)})
        except Refused:
            continue
    return {
        "updatedAt": call.gateway.now_ms,
        "startDate": f"{start:%Y-%m-%d}",
        "endDate": f"{last:%Y-%m-%d}",
        "sessions": rows,
        "totals": _total(costs.total),
        "aggregates": _aggregates(costs),
    }


def _aggregates(costs: Costs) -> dict[str, Any]:
    spoken = {"user": costs.roles["user"], "assistant": costs.roles["assistant"], "errors": costs.errors}
    counts = {"total": costs.roles.total(), "toolCalls": costs.tools.total(), "toolResults": costs.tools.total()}
    tools = [{"name": name, "count": count} for name, count in costs.tools.most_common(50)]
    providers: dict[str, Total] = {}
    for name, total in costs.models.items():
        provider = name.partition("/")[0]
        providers[provider] = providers.get(provider, Total(provider)).joined(total)
    daily = [{"date": name, **_total(total)} for name, total in sorted(costs.days.items())]
    return {
        "messages": spoken | counts,
        "tools": {"totalCalls": costs.tools.total(), "uniqueTools": len(costs.tools), "tools": tools},
        "byModel": [_split(name, total) for name, total in costs.models.items()],
        "byProvider": [
            {"provider": key, "count": each.calls, "totals": _total(each)} for key, each in providers.items()
        ],
        "byAgent": [{"agentId": name, "totals": _total(total)} for name, total in costs.agents.items()],
        "byChannel": [],
        "daily": [{**row, "tokens": row["totalTokens"], "cost": row["totalCost"]} for row in daily],
    }


def _split(name: str, total: Total) -> dict[str, Any]:
    provider, _, model = name.rpartition("/") if "/" not in name else name.partition("/")
    return {"provider": provider, "model": model, "count": total.calls, "totals": _total(total)}


async def cost(call: Call, params: UsageParams) -> dict[str, Any]:
    found = await usage(call, params)
    daily = [
        {key: value for key, value in row.items() if key not in {"tokens", "cost"}}
        for row in found["aggregates"]["daily"]
    ]
    return {"updatedAt": found["updatedAt"], "days": len(daily), "daily": daily, "totals": found["totals"]}


def _total(total: Total) -> dict[str, Any]:
    counts = {"input": total.input, "output": total.output, "cacheRead": total.cache_read}
    money = {"inputCost": 0, "outputCost": 0, "cacheReadCost": 0, "cacheWriteCost": 0, "missingCostEntries": 0}
    more = {"cacheWrite": total.cache_write, "totalTokens": total.tokens, "totalCost": round(total.cost, 6)}
    return {**counts, **more, **money}


def _day(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) if text else None
    except ValueError:
        raise Refused(f"invalid date: {text}; write YYYY-MM-DD") from None


METHODS = {
    "sessions.usage": Method(READ, usage, UsageParams),
    "usage.cost": Method(READ, cost, UsageParams),
}
