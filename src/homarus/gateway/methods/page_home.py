"""What our own page asks of the home: what it costs and why, who did what, what is wrong with it, what was installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from homarus.agent.settings import TurnSettings
from homarus.config.load import inspect_config
from homarus.core.errors import HomarusError
from homarus.gateway.logs import LEDGER, read_ledger
from homarus.gateway.methods import Call, Method, Params
from homarus.gateway.protocol import Refused
from homarus.gateway.scopes import ADMIN, READ
from homarus.sessions.usage import Total
from homarus.skills.install import Candidate, Locked, LockFile, installed, look

Json = dict[str, Any]
MOST_ROWS, MOST_SESSIONS, MOST_TEXT = 2_000, 100, 200_000

_WORST = ("error", "warning", "info", "ok")


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
        "days": [_row(found.days.get(name) or Total(name)) for name in _days(start, days)],
        "models": [_row(total) for total in _ordered(found.models)],
        "causes": [_row(total) for total in _ordered(found.causes)],
        "sessions": [{**_row(total), "label": labels.get(total.name, "")} for total in by_session],
        "total": _row(found.total),
        "budgets": [_budget(call, agent.id) for agent in home.config.agents],
    }


def _days(start: datetime, count: int) -> list[str]:
    """Return every day, also those on which nothing happened."""
    return [f"{start + timedelta(days=number):%Y-%m-%d}" for number in range(count)]


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
        found = [each.as_json() for each in [*examine(subject), *look_for_openings(subject)]]
        once = {(each["checkId"], each.get("path"), each["message"]): each for each in found}
        return sorted(once.values(), key=lambda each: _WORST.index(each["severity"]))

    return {"findings": await asyncio.to_thread(look)}


# Skills that somebody installed.


class SkillParams(Params, frozen=True, kw_only=True):
    name: str
    sha256: str = ""


def _skill(call: Call, name: str) -> tuple[Locked, Candidate]:
    paths = call.client.home.config.paths
    return installed(name, paths.own_dir), look(paths.skills_dir / name)


async def skill(call: Call, params: SkillParams) -> Json:
    """Return an installed skill for its owner to read: its text, what it asks for, and what in it is suspicious."""

    def read() -> Json:
        row, found = _skill(call, params.name)
        text = (found.folder / "SKILL.md").read_text("utf-8", errors="replace")[:MOST_TEXT]
        said = [{"file": file, "line": each.line, "excerpt": each.excerpt} for file, each in found.findings]
        facts = {"name": found.name, "sha256": found.sha256, "source": row.source, "text": text}
        return {**facts, "wants": to_builtins(found.wants), "findings": said}

    return await _tried(read)


async def approve_skill(call: Call, params: SkillParams) -> Json:
    """Take a skill out of quarantine, if it still is what was read."""

    def approve() -> Json:
        row, found = _skill(call, params.name)
        if found.sha256 != params.sha256:
            raise Refused(f"the files of {params.name} were changed meanwhile; read them again")
        wish = replace(row, sha256=found.sha256, wants=found.wants, approved=True)
        LockFile(call.client.home.config.paths.own_dir).write(params.name, wish)
        return {"ok": True}

    done = await _tried(approve)
    call.gateway.hub.tell("skills.changed", {"skillKey": params.name, "ts": call.gateway.now_ms})
    return done


async def _tried(work: Callable[[], Json]) -> Json:
    try:
        return await asyncio.to_thread(work)
    except (HomarusError, OSError) as problem:
        raise Refused(str(problem)) from None


METHODS = {
    "page.skill": Method(READ, skill, SkillParams),
    "page.skill.approve": Method(ADMIN, approve_skill, SkillParams, write=True),
    "page.costs": Method(READ, costs, CostParams),
    "page.audit": Method(READ, audit, RowsParams),
    "page.doctor": Method(ADMIN, doctor, write=True),
}
