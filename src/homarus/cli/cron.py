"""`homarus cron` and `homarus system`: jobs by the clock, their runs, events and heartbeats.

The files are the same whether a gateway runs or not: it is told of a change and acts on it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any

import click

from homarus.agent.home import Home
from homarus.automation.jobs import Job
from homarus.automation.schedule import duration_ms, moment_ms
from homarus.automation.scheduler import Automation
from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import Number, filled, with_json
from homarus.cli.output import clean
from homarus.core.clock import SystemIds, epoch_ms
from homarus.core.errors import ConfigError, HomarusError, Unknown
from homarus.runtime.runtime import Runtime
from homarus.storage.locks import holder

Json = dict[str, Any]


@click.group("cron", cls=Group, default="list")
def command() -> None:
    """Jobs and reminders: what runs when. Without a word: the list.

    \b
    Examples:
      homarus cron add --at 20m --system-event "tea is ready"
      homarus cron add --cron "0 8 * * 1-5" --tz Europe/Vienna --message "What is on today?"
      homarus cron add --every 2h --message "Look for new mail" --tools read,exec
      homarus cron run mail
    """


def _job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--name", help="What the job is called."),
        click.option("--description", help="What it is for."),
        click.option("--at", metavar="WHEN", help="Once: a moment (ISO; without a zone it is UTC) or 20m from now."),
        click.option("--every", metavar="TIME", help="Again and again: 30m, 2h, 1d."),
        click.option("--cron", metavar="EXPR", help="Five fields: minute hour day month weekday."),
        click.option("--tz", metavar="ZONE", help="The zone of --cron; without it, yours."),
        click.option("--exact", is_flag=True, help="On the second, also at the full hour."),
        click.option("--message", "-m", metavar="TEXT", help="What the agent is told, in a session of its own."),
        click.option("--system-event", metavar="TEXT", help="What the main session is told instead."),
        click.option("--session", metavar="TARGET", help="main, isolated, or session:<key>."),
        click.option("--wake", type=click.Choice(["now", "next-heartbeat"]), help="When an event is heard."),
        click.option("--agent", metavar="ID", help="Whose job it is.", shell_complete=complete.agents, callback=filled),
        click.option(
            "--model", metavar="MODEL", help="The model of its runs.", shell_complete=complete.models, callback=filled
        ),
        click.option(
            "--thinking", metavar="LEVEL", help="How long the model may think.", shell_complete=complete.levels
        ),
        click.option("--timeout-seconds", type=Number(min=1), help="How long a run may take."),
        click.option("--tools", metavar="A,B", help="The only tools that it may use."),
        click.option("--light-context/--full-context", default=None, help="Without the workspace's files."),
        click.option("--announce", is_flag=True, help="Tell somebody the answer (as isolated jobs do)."),
        click.option("--no-deliver", is_flag=True, help="Tell nobody."),
        click.option("--channel", help="Where the answer goes; without it, where you talked last."),
        click.option("--to", metavar="WHO", help="To whom, on that channel."),
        click.option("--webhook", metavar="URL", help="Post the answer there instead."),
        click.option("--best-effort-deliver", is_flag=True, help="A run whose answer cannot be sent is no failure."),
        click.option("--delete-after-run/--keep-after-run", default=None, help="What becomes of an --at job."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that are switched off.")
@with_json
def list_jobs(app: App, everything: bool = False, as_json: bool = False) -> None:
    """List the jobs, the next one first."""
    automation = _automation(app)
    jobs = automation.jobs(disabled=everything or as_json)
    if as_json:
        app.out.json({"jobs": jobs, "total": len(jobs)})
        return
    if problem := automation.status()["problem"]:
        app.out.warn(problem)
    if not jobs:
        app.out.hint("No jobs. Make one: homarus cron add --at 20m --system-event 'tea is ready'")
        return
    rows = [_shown(app, Job(raw)) for raw in jobs]
    app.out.table(rows, ["id", "name", "when", "next", "last", "where"])
    for raw in jobs:
        if raw.get("problem"):
            app.out.warn(f"{clean(Job(raw).name, 60)}: {clean(raw['problem'], 300)}")
    _say_who_runs(app, automation)


@command.command("add")
@click.argument("text", required=False)
@_job_options
@click.option("--disabled", is_flag=True, help="Make it, and leave it off.")
@with_json
def add(app: App, as_json: bool, **given: Any) -> None:
    """Make a job: when (--at, --every or --cron) and what (--message or --system-event)."""
    automation = _automation(app)
    if given["text"] and not (given["message"] or given["system_event"]):
        given["message"] = given["text"]
    patch = _patch(app, given)
    if "schedule" not in patch:
        raise click.UsageError("say when: --at 20m, --every 2h, or --cron '0 9 * * 1-5'")
    if "payload" not in patch:
        raise click.UsageError("say what: --message TEXT, or --system-event TEXT")
    with _typed():
        raw = automation.add({**patch, **({"enabled": False} if given["disabled"] else {})})
    app.out.answer(raw, f"{raw['id']}  {clean(raw['name'], 80)}  next {_when(app, Job(raw).next_ms)}", as_json=as_json)
    if not as_json:
        _say_who_runs(app, automation)


@command.command("edit")
@click.argument("job", callback=filled)
@_job_options
@with_json
def edit(app: App, job: str, as_json: bool, **given: Any) -> None:
    """Change what is named; the rest of the job stays as it is."""
    patch = _patch(app, given)
    if not patch:
        raise click.UsageError("say what to change, such as --every 2h")
    with _typed():
        raw = _automation(app).update(job, patch)
    app.out.answer(raw, f"{raw['id']}  {clean(raw['name'], 80)}  next {_when(app, Job(raw).next_ms)}", as_json=as_json)


@command.command("rm")
@click.argument("job", callback=filled)
@with_json
def remove(app: App, job: str, as_json: bool) -> None:
    """Remove a job. What it did can still be seen with runs."""
    raw = _automation(app).remove(job)
    app.out.answer({"ok": True, "removed": raw["id"]}, f"Removed: {clean(Job(raw).name, 80)}", as_json=as_json)


@command.command("enable")
@click.argument("job", callback=filled)
@with_json
def enable(app: App, job: str, as_json: bool) -> None:
    """Switch a job on."""
    raw = _automation(app).update(job, {"enabled": True})
    app.out.answer(raw, f"On: {clean(Job(raw).name, 80)}, next {_when(app, Job(raw).next_ms)}", as_json=as_json)


@command.command("disable")
@click.argument("job", callback=filled)
@with_json
def disable(app: App, job: str, as_json: bool) -> None:
    """Switch a job off and keep it."""
    raw = _automation(app).update(job, {"enabled": False})
    app.out.answer(raw, f"Off: {clean(Job(raw).name, 80)}", as_json=as_json)


@command.command("run")
@click.argument("job", callback=filled)
@click.option("--due", is_flag=True, help="Only if it is due.")
@with_json
def run(app: App, job: str, due: bool, as_json: bool) -> None:
    """Run a job now, in this process, and show how it ended."""

    async def work() -> Json | None:
        runtime = _runtime(app)
        try:
            automation = runtime.automation
            ident = Job(automation.job(job)).id
            if not automation.run(ident, force=not due):
                return None
            if not as_json:
                print(f"running {clean(Job(automation.job(ident)).name, 60)} …", file=app.out.err)
            return await automation.finished(ident)
        finally:
            await runtime.aclose()

    row = asyncio.run(work())
    if row is None:
        app.out.answer({"ok": True, "enqueued": False}, "It is not due.", as_json=as_json)
        return
    if as_json:
        app.out.json(row)
    else:
        app.out.line(str(row.get("summary") or ""))
    if row["status"] != "ok":
        raise HomarusError(f"the run ended with {row['status']}: {row.get('error') or ''}")


@command.command("runs")
@click.argument("job", required=False, default="", callback=filled)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most this many.")
@with_json
def runs(app: App, job: str, limit: int, as_json: bool) -> None:
    """Show what became of every due time, newest first: of one job, or of all."""
    rows = _automation(app).runs(job, limit)
    if as_json:
        app.out.json({"entries": rows})
        return
    if not rows:
        app.out.line("No runs yet.")
        return
    shown = [
        (
            _when(app, row.get("runAtMs")),
            clean(str(row.get("jobId")), 36)[:8],
            _colored(app, str(row.get("status"))),
            f"{(row.get('durationMs') or 0) / 1000:.1f} s",
            row.get("deliveryStatus") or "",
            clean(str(row.get("error") or row.get("summary") or ""), 80),
        )
        for row in rows
    ]
    app.out.table(shown, ["when", "job", "status", "took", "delivery", "what"])


@command.command("status")
@with_json
def status(app: App, as_json: bool) -> None:
    """Show whether jobs run, when the next one is due, and what heartbeats cost today."""
    automation = _automation(app)
    found = automation.status()
    if as_json:
        app.out.json(found)
        return
    on = "on" if found["enabled"] else "off (cron.enabled)"
    app.out.facts(
        [
            ("jobs", f"{found['jobs']}, {on}"),
            ("next", _when(app, found["nextWakeAtMs"])),
            ("file", found["storage"]),
            ("problem", found["problem"] or ""),
        ],
        10,
    )
    for agent_id, beat in found["heartbeats"]["agents"].items():
        last, spent = beat["last"], beat["spentToday"]
        words = [f"every {_length(beat['everyMs'])}"]
        words += [f"stopped: {beat['stopped']}"] if beat["stopped"] else []
        words += [] if found["heartbeats"]["enabled"] else ["switched off"]
        words += [f"last {last['status']} {last.get('reason', '')}".strip()] if last.get("status") else []
        words += [f"{spent.get('calls', 0)} model calls today"]
        app.out.facts([("heartbeat", f"{agent_id}: {', '.join(words)}")], 10)
    _say_who_runs(app, automation)


@click.group("system", cls=Group)
def system() -> None:
    """Events for the agent, its heartbeats, and who is here."""


@system.command("event")
@click.argument("text", callback=filled)
@click.option(
    "--mode", type=click.Choice(["now", "next-heartbeat"]), default="now", show_default=True, help="When it is heard."
)
@click.option(
    "--agent", metavar="ID", default="", help="Whom to tell.", shell_complete=complete.agents, callback=filled
)
@click.option(
    "--session",
    metavar="KEY",
    default="",
    help="In which session; without it, the main one.",
    shell_complete=complete.sessions,
    callback=filled,
)
@with_json
def event(app: App, text: str, mode: str, agent: str, session: str, as_json: bool) -> None:
    """Tell the agent that something happened: at once, or with its next turn."""
    automation = _automation(app)
    added = automation.wake(text, now=mode == "now", agent_id=agent, session=session)
    said = "It is told." if automation.runs_anywhere and mode == "now" else "It is told with the next turn."
    app.out.answer({"ok": True, "queued": added, "mode": mode}, said, as_json=as_json)


@system.group("heartbeat", cls=Group, default="last")
def heartbeat() -> None:
    """The polls in which the agent looks after things by itself."""


@heartbeat.command("last")
@click.option(
    "--agent",
    metavar="ID",
    default="",
    help="Whose; the default agent's otherwise.",
    shell_complete=complete.agents,
    callback=filled,
)
@with_json
def heartbeat_last(app: App, agent: str = "", as_json: bool = False) -> None:
    """Show how the newest one ended."""
    found = _automation(app).last_heartbeat(app.config.agent_named(agent).id)
    words = (
        f"{_when(app, found.get('ts'))}  {found.get('status')}  {found.get('reason', '')} {found.get('preview', '')}"
    )
    app.out.answer(found, clean(words, 300) if found else "There was none yet.", as_json=as_json)


@heartbeat.command("enable")
@with_json
def heartbeat_enable(app: App, as_json: bool) -> None:
    """Switch heartbeats on, also after failures stopped them."""
    _automation(app).set_heartbeats(True)
    app.out.answer({"enabled": True}, "Heartbeats are on, as far as the configuration asks for them.", as_json=as_json)


@heartbeat.command("disable")
@with_json
def heartbeat_disable(app: App, as_json: bool) -> None:
    """Switch heartbeats off. Reminders and events are still heard."""
    _automation(app).set_heartbeats(False)
    app.out.answer({"enabled": False}, "Heartbeats are off.", as_json=as_json)


@system.command("presence")
@with_json
def presence(app: App, as_json: bool) -> None:
    """Show which process runs the jobs of this home."""
    found = holder(app.paths.own_dir / "automation.lock")
    rows = [{"pid": found.get("pid"), "reason": "automation", "startedAt": found.get("startedAt")}] if found else []
    text = (
        f"process {rows[0]['pid']} runs jobs and heartbeats since {rows[0]['startedAt']}" if rows else "Nobody is here."
    )
    app.out.answer(rows, text, as_json=as_json)


@contextmanager
def _typed() -> Iterator[None]:
    """What is wrong with a job that was typed is wrong with the words, not with a file."""
    try:
        yield
    except Unknown:
        raise
    except ConfigError as problem:
        raise click.UsageError(str(problem)) from None


def _patch(app: App, given: Json) -> Json:
    """Return the keys of a job that the options name."""
    if given["message"] and given["system_event"]:
        raise click.UsageError("--message and --system-event exclude each other")
    _check_mind(app, given)
    patch: Json = {key: given[key] for key in ("name", "description") if given[key] is not None}
    if schedule := _schedule(app, given):
        patch["schedule"] = schedule
    payload = {
        **({"kind": "systemEvent", "text": given["system_event"]} if given["system_event"] else {}),
        **({"kind": "agentTurn", "message": given["message"]} if given["message"] else {}),
        "model": given["model"],
        "thinking": given["thinking"],
        "timeoutSeconds": given["timeout_seconds"],
        "lightContext": given["light_context"],
        "toolsAllow": [name.strip() for name in given["tools"].split(",")] if given["tools"] else None,
    }
    if payload := {key: value for key, value in payload.items() if value is not None}:
        patch["payload"] = payload
    if delivery := _delivery(given):
        patch["delivery"] = delivery
    named = {"sessionTarget": given["session"], "wakeMode": given["wake"], "agentId": given["agent"]}
    patch |= {key: value for key, value in named.items() if value is not None}
    if given["delete_after_run"] is not None:
        patch["deleteAfterRun"] = given["delete_after_run"]
    return patch


def _check_mind(app: App, given: Json) -> None:
    """Refuse a model or a level of thinking that there is not: a run would find out when nobody is there."""
    if given["model"]:
        from homarus.models.access import Models
        from homarus.models.ready import check_choice

        names = (models := Models(app.config, app.env, clock=app.clock)).names(app.config.agent_named(given["agent"]))
        check_choice(models, names.resolve(given["model"]).ref)
    if given["thinking"]:
        from homarus.models.levels import LEVELS, parse_level

        if parse_level(given["thinking"]) is None:
            raise click.UsageError(f"'{given['thinking']}' is no thinking level; there are {', '.join(LEVELS)}")


def _schedule(app: App, given: Json) -> Json:
    named = [key for key in ("at", "every", "cron") if given[key]]
    if len(named) > 1:
        raise click.UsageError("--at, --every and --cron exclude each other")
    if (given["tz"] or given["exact"]) and named != ["cron"]:
        raise click.UsageError("--tz and --exact belong to --cron")
    if given["at"]:
        moment = moment_ms(given["at"], epoch_ms(app.clock.now()))
        if moment is None:
            raise click.UsageError(f"--at {given['at']!r} is no moment; write 2026-12-24T18:00:00+01:00, or 20m")
        when = datetime.fromtimestamp(moment / 1000, app.clock.now().tzinfo)
        return {"kind": "at", "at": when.isoformat(timespec="seconds")}
    if given["every"]:
        length = duration_ms(given["every"])
        if length is None:
            raise click.UsageError(f"--every {given['every']!r} is no length of time; write 30m, 2h or 1d")
        return {"kind": "every", "everyMs": length}
    if not given["cron"]:
        return {}
    zone = {"tz": given["tz"]} if given["tz"] else {}
    return {"kind": "cron", "expr": given["cron"], **zone, **({"staggerMs": 0} if given["exact"] else {})}


def _delivery(given: Json) -> Json:
    if given["no_deliver"]:
        return {"mode": "none"}
    if given["webhook"]:
        return {"mode": "webhook", "to": given["webhook"]}
    named = {"channel": given["channel"], "to": given["to"], "bestEffort": given["best_effort_deliver"] or None}
    named = {key: value for key, value in named.items() if value is not None}
    return {"mode": "announce", **named} if named or given["announce"] else {}


def _shown(app: App, job: Job) -> tuple[str, ...]:
    raw, state = job.raw.get("schedule"), job.state
    schedule = raw if isinstance(raw, dict) else {}
    when = str(schedule.get("expr") or schedule.get("at") or "")
    if schedule.get("everyMs"):
        when = f"every {_length(int(schedule['everyMs']))}"
    last = _colored(app, str(state["lastStatus"])) if state.get("lastStatus") else ""
    last = "running" if state.get("runningAtMs") else last
    coming = _when(app, job.next_ms) if job.enabled else "off"
    return job.id[:8], clean(job.name, 40), clean(when, 40), coming, last, clean(job.target, 30)


def _length(ms: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms / 1000:g} s"


def _colored(app: App, word: str) -> str:
    colors = {"ok": "green", "error": "red", "skipped": "yellow"}
    return app.out.style(clean(word, 20), colors[word]) if word in colors else clean(word, 20)


def _when(app: App, moment: Any) -> str:
    if not isinstance(moment, int | float):
        return "–"
    zone = _runtime(app).home.zone(app.config.default_agent.id)
    return datetime.fromtimestamp(moment / 1000, zone).strftime("%Y-%m-%d %H:%M:%S")


def _say_who_runs(app: App, automation: Automation) -> None:
    if not automation.runs_anywhere:
        app.out.warn("no gateway runs, so nothing runs by itself; a job runs with: homarus cron run")


@lru_cache(1)
def _runtime(app: App) -> Runtime:
    return Runtime(Home(app.config, app.env, clock=app.clock, ids=SystemIds()))


def _automation(app: App) -> Automation:
    return _runtime(app).automation
