"""`homarus skills`: which skills an agent has, why one is missing, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import json_option, pass_app
from homarus.core.errors import HomarusError
from homarus.core.text import single_line
from homarus.skills.frontmatter import remarks
from homarus.skills.gate import Gate, Verdict, judge
from homarus.skills.library import SkillLibrary, SkillSet, gate_of, machine_facts, roots_of, settings_of
from homarus.skills.listing import why_unlisted
from homarus.workspace.agents import resolve_workspace

if TYPE_CHECKING:
    from homarus.hooks.manifest import Step
    from homarus.skills.audit import Finding
    from homarus.skills.discover import Skill

    Loaded = tuple[SkillSet, Gate, SkillLibrary]

_agent_option = click.option("--agent", "agent_id", metavar="ID", help="An agent; the default one without this.")


@click.group("skills", cls=Group, default="list")
def command() -> None:
    """Show the skills of an agent. Without a word: the list."""


@command.command("list")
@_agent_option
@click.option("--eligible", "only_eligible", is_flag=True, help="Only those that the agent may use now.")
@json_option
@pass_app
def list_skills(app: App, agent_id: str | None = None, only_eligible: bool = False, as_json: bool = False) -> None:
    """List all skills: where each comes from, whether it can be used, and why not."""
    skills, gate, _ = _load(app, agent_id)
    verdicts = _judge(skills, gate)
    shown = [verdict for verdict in verdicts if verdict.eligible or not only_eligible]
    if as_json:
        app.out.json({"skills": [_summary(verdict) for verdict in shown], "problems": list(skills.problems)})
        return
    rows = [(*_status(app, verdict), verdict.skill.source.value, _why(verdict)) for verdict in shown]
    if rows:
        app.out.table(rows, ["usable", "name", "source", "why not"])
    usable = sum(verdict.eligible for verdict in verdicts)
    app.out.line(f"{usable} of {len(verdicts)} skills can be used")
    if skills.problems:
        app.out.line("something needs a look: homarus skills check")


@command.command("info")
@click.argument("name")
@_agent_option
@json_option
@pass_app
def info(app: App, name: str, agent_id: str | None, as_json: bool) -> None:
    """Show one skill: its file, its gates one by one, and what the audit says."""
    skills, gate, library = _load(app, agent_id)
    skill = skills.get(name)
    if skill is None:
        raise HomarusError(f"there is no skill '{name}'", cure=_near(name, skills) or "'homarus skills list' shows all")
    verdict = judge(skill, gate)
    findings = library.findings(skill)
    hidden = [other.file for other in skills.shadowed if other.name == skill.name]
    if as_json:
        app.out.json({**_detail(verdict), "findings": [_finding(skill, each) for each in findings], "shadows": hidden})
        return
    _print_info(app, verdict, hidden)
    _section(app, "Read before use", "yellow", [_say(skill, finding) for finding in findings])
    _section(app, "Remarks", "dim", [_clean(line) for line in _remarks(skill)])


@command.command("check")
@_agent_option
@json_option
@pass_app
def check(app: App, agent_id: str | None, as_json: bool) -> int:
    """Look for broken skills and for text that malicious skills use. Exit code 1 when something is broken."""
    skills, gate, library = _load(app, agent_id)
    verdicts = _judge(skills, gate)
    broken = [*skills.problems, *(f"{skill.file}: {why}" for skill in skills.skills if (why := _broken(skill)))]
    findings = [(skill, finding) for skill in skills.skills for finding in library.findings(skill)]
    remarks = [(skill.file, remark) for skill in skills.skills for remark in _remarks(skill)]
    missing = [verdict for verdict in verdicts if not verdict.eligible]
    if as_json:
        app.out.json(
            {
                "total": len(verdicts),
                "eligible": len(verdicts) - len(missing),
                "broken": broken,
                "findings": [_finding(skill, finding) for skill, finding in findings],
                "missing": {verdict.skill.name: verdict.reason for verdict in missing},
                "remarks": [f"{file}: {remark}" for file, remark in remarks],
            }
        )
        return 1 if broken else 0
    out = app.out
    out.line(f"{len(verdicts)} skills, {len(verdicts) - len(missing)} can be used")
    _section(app, "Broken", "red", [_clean(line) for line in broken])
    _section(app, "Read before use", "yellow", [_say(skill, finding) for skill, finding in findings])
    _section(app, "Cannot be used here", "dim", [_clean(f"{each.skill.name}: {each.reason}") for each in missing])
    _section(app, "Outside of the open format", "dim", [_clean(f"{file}: {remark}") for file, remark in remarks])
    return 1 if broken else 0


def _load(app: App, agent_id: str | None) -> Loaded:
    config = app.config
    agent = config.agent_named(agent_id).id
    roots = roots_of(config, resolve_workspace(config, agent, app.env))
    library = SkillLibrary(settings_of(config).limits)
    return library.load(roots), gate_of(config, agent, machine_facts(config, app.env)), library


def _judge(skills: SkillSet, gate: Gate) -> list[Verdict]:
    return [judge(skill, gate) for skill in skills.skills]


def _broken(skill: Skill) -> str:
    if not skill.header.description:
        return skill.header.problem or "it has no description, so no model will ever choose it"
    return ""


def _remarks(skill: Skill) -> list[str]:
    found = remarks(skill.header, skill.folder.rpartition("/")[2])
    if skill.header.description and skill.header.problem:
        found.append(skill.header.problem)
    if skill.header.description and skill.header.model_invocable and (why := why_unlisted(skill)):
        found.append(why)
    return found


def _why(verdict: Verdict) -> str:
    if not verdict.eligible:
        return _clean(verdict.reason)
    return _clean(why_unlisted(verdict.skill))


def _status(app: App, verdict: Verdict) -> tuple[str, str]:
    mark = app.out.style("yes", "green") if verdict.eligible else app.out.style("no", "dim")
    return mark, _clean(verdict.skill.name)


def _summary(verdict: Verdict) -> dict[str, Any]:
    skill, header = verdict.skill, verdict.skill.header
    unlisted = why_unlisted(skill)
    return {
        "name": skill.name,
        "description": header.description,
        "source": skill.source.value,
        "file": skill.file,
        "key": skill.key,
        "eligible": verdict.eligible,
        "reason": verdict.reason,
        "listed": verdict.eligible and not unlisted,
        "unlistedBecause": unlisted,
        "userInvocable": header.user_invocable,
        "remoteInvocable": header.remote_invocable,
    }


def _detail(verdict: Verdict) -> dict[str, Any]:
    skill, header = verdict.skill, verdict.skill.header
    return {
        **_summary(verdict),
        "folder": skill.folder,
        "fingerprint": skill.fingerprint,
        "homepage": header.homepage,
        "license": header.license,
        "compatibility": header.compatibility,
        "allowedTools": list(header.allowed_tools),
        "primaryEnv": header.primary_env,
        "install": list(header.install),
        "gates": [{"gate": step.gate, "ok": step.ok, "detail": step.detail} for step in verdict.steps],
        "problem": header.problem,
        "remarks": _remarks(skill),
    }


def _finding(skill: Skill, finding: Finding) -> dict[str, Any]:
    return {"file": skill.file, "line": finding.line, "rule": finding.rule, "excerpt": finding.excerpt}


def _say(skill: Skill, finding: Finding) -> str:
    return _clean(f"{skill.file}:{finding.line}: {finding.rule}: {finding.excerpt}")


def _print_info(app: App, verdict: Verdict, hidden: list[str]) -> None:
    out, skill, header = app.out, verdict.skill, verdict.skill.header
    state = out.style("can be used", "green") if verdict.eligible else out.style("cannot be used", "yellow")
    out.line(f"{out.style(_clean(skill.name), 'bold')} {header.emoji}".rstrip() + f"  {state}")
    out.line(_clean(header.description) or "(no description)")
    out.line()
    facts = [
        ("file", skill.file),
        ("source", skill.source.value),
        ("key", skill.key if skill.key != skill.name else ""),
    ]
    facts += [("homepage", header.homepage), ("license", header.license), ("compatibility", header.compatibility)]
    facts += [
        (
            "allowed tools",
            ", ".join(header.allowed_tools) and f"{', '.join(header.allowed_tools)} (a wish; it grants nothing)",
        )
    ]
    facts += [("hides", ", ".join(hidden)), ("problem", header.problem)]
    for label, value in facts:
        if value:
            out.line(f"{label:>14}  {_clean(value)}")
    out.line(f"{'who starts it':>14}  {_starters(skill)}")
    _section(
        app, "Gates", "bold", [_gate_line(app, step) for step in verdict.steps] or ["none: it can be used anywhere"]
    )


def _gate_line(app: App, step: Step) -> str:
    mark = app.out.style("open", "green") if step.ok else app.out.style("shut", "red")
    return f"{mark}  {step.gate:<8} {_clean(step.detail)}"


def _starters(skill: Skill) -> str:
    who = ["the model"] if skill.header.model_invocable else []
    if skill.header.user_invocable:
        where = "" if skill.header.remote_invocable else " at this machine"
        who.append(f"people{where} (/skill {skill.name})")
    return _clean(" and ".join(who) or "nobody")


def _near(name: str, skills: SkillSet) -> str:
    import difflib

    near = difflib.get_close_matches(name, [skill.name for skill in skills.skills], n=1)
    return f"did you mean '{near[0]}'?" if near else ""


def _section(app: App, title: str, style: str, lines: list[str]) -> None:
    if lines:
        app.out.line()
        app.out.line(app.out.style(title, style))
        for line in lines:
            app.out.line(f"  {line}")


def _clean(text: str) -> str:
    """Return text that cannot move a terminal's cursor: names of files may hold anything."""
    return single_line(text, 500)
