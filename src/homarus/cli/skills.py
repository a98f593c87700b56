"""`homarus skills`: which skills an agent has, why one is missing, and what is wrong with them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import filled, with_json
from homarus.cli.output import clean
from homarus.core.errors import HomarusError
from homarus.skills.gate import Gate, Verdict, judge
from homarus.skills.header import remarks
from homarus.skills.library import SkillLibrary, SkillSet, gate_of, machine_facts, roots_of, settings_of
from homarus.skills.listing import why_unlisted
from homarus.workspace.agents import resolve_workspace

if TYPE_CHECKING:
    from homarus.hooks.manifest import Step
    from homarus.skills.audit import Finding
    from homarus.skills.discover import Skill
    from homarus.skills.install import Candidate

    Loaded = tuple[SkillSet, Gate, SkillLibrary]

_agent_option = click.option(
    "--agent",
    "agent_id",
    metavar="ID",
    help="An agent; the default one without this.",
    shell_complete=complete.agents,
    callback=filled,
)


@click.group("skills", cls=Group, default="list")
def command() -> None:
    """Show the skills of an agent. Without a word: the list."""


@command.command("list")
@_agent_option
@click.option("--eligible", "only_eligible", is_flag=True, help="Only those that the agent may use now.")
@with_json
def list_skills(app: App, agent_id: str | None = None, only_eligible: bool = False, as_json: bool = False) -> None:
    """List all skills: where each comes from, whether it can be used, and why not."""
    skills, gate, _ = _load(app, agent_id)
    verdicts = _judge(skills, gate)
    shown = [verdict for verdict in verdicts if verdict.eligible or not only_eligible]
    if as_json:
        app.out.json({"skills": [_summary(verdict) for verdict in shown], "problems": list(skills.problems)})
        return
    rows = []
    for verdict in shown:
        mark = app.out.style("yes", "green") if verdict.eligible else app.out.style("no", "dim")
        why = why_unlisted(verdict.skill) if verdict.eligible else verdict.reason
        rows.append((mark, clean(verdict.skill.name), verdict.skill.source.value, clean(why)))
    if rows:
        app.out.table(rows, ["usable", "name", "source", "why not"])
    usable = sum(verdict.eligible for verdict in verdicts)
    app.out.line(f"{usable} of {len(verdicts)} skills can be used")
    if skills.problems:
        app.out.hint("something needs a look: homarus skills check")


@command.command("info")
@click.argument("name")
@_agent_option
@with_json
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
    app.out.section("Read before use", "yellow", [_say(skill, finding) for finding in findings])
    app.out.section("Remarks", "dim", [clean(line) for line in _remarks(skill)])


@command.command("check")
@_agent_option
@with_json
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
    app.out.section("Broken", "red", [clean(line) for line in broken])
    app.out.section("Read before use", "yellow", [_say(skill, finding) for skill, finding in findings])
    app.out.section("Cannot be used here", "dim", [clean(f"{each.skill.name}: {each.reason}") for each in missing])
    app.out.section("Outside of the open format", "dim", [clean(f"{file}: {remark}") for file, remark in remarks])
    return 1 if broken else 0


@command.command("install")
@click.argument("source")
@click.option("--anyway", is_flag=True, help="Install also what looks like an attack; it stays in quarantine.")
@with_json
def install(app: App, source: str, anyway: bool, as_json: bool) -> int:
    """Install skills from a folder, an archive or git (SOURCE#FOLDER for a part of it).

    Shows what each asks for, what is suspicious in it, and its hash. It starts in quarantine: see 'skills approve'.
    """
    from homarus.plugins.installs import ask_leave
    from homarus.skills.install import install as put_in

    leave = partial(ask_leave, app.config, app.env)
    done = put_in(source, app.paths.own_dir, app.paths.state_dir / "skills", anyway=anyway, leave=leave)
    _tell_offers(app, [{**_offered(each.skill), "installed": each.installed} for each in done], as_json=as_json)
    return 0 if all(each.installed for each in done) else 1


@command.command("approve")
@click.argument("name")
@with_json
def approve(app: App, name: str, as_json: bool) -> None:
    """Take an installed skill out of quarantine, as its files are now."""
    from msgspec.structs import replace

    from homarus.skills.install import LockFile, installed, look

    lock = LockFile(app.paths.own_dir)
    row = installed(name, app.paths.own_dir)
    found = look(app.paths.state_dir / "skills" / name)
    lock.write(name, replace(row, sha256=found.sha256, wants=found.wants, approved=True))
    words = f"{name} is approved as it is now ({found.sha256[:12]})"
    app.out.json({"name": name, "sha256": found.sha256, "approved": True}) if as_json else app.out.line(words)


@command.command("update")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also where its files were changed here.")
@with_json
def update(app: App, name: str, force: bool, as_json: bool) -> int:
    """Fetch an installed skill again. Approval stays only if it asks for nothing more and nothing in it is suspicious."""
    from homarus.plugins.installs import ask_leave
    from homarus.skills.install import update as put_again

    leave = partial(ask_leave, app.config, app.env)
    done = put_again(name, app.paths.own_dir, app.paths.state_dir / "skills", force=force, leave=leave)
    facts = {"installed": True, "changed": done.changed, "more": list(done.more), "approved": done.approved}
    _tell_offers(app, [{**_offered(done.skill), **facts}], as_json=as_json)
    return 0


@command.command("remove")
@click.argument("name")
@with_json
def remove(app: App, name: str, as_json: bool) -> None:
    """Remove an installed skill."""
    import shutil

    from homarus.skills.install import LockFile, installed

    installed(name, app.paths.own_dir)
    shutil.rmtree(app.paths.state_dir / "skills" / name, ignore_errors=True)
    LockFile(app.paths.own_dir).write(name, None)
    app.out.json({"name": name, "removed": True}) if as_json else app.out.line(f"{name} is removed")


@command.command("audit")
@click.argument("source", required=False)
@with_json
def audit(app: App, source: str | None, as_json: bool) -> int:
    """Look through SOURCE, or through all installed skills, for attacks. Exit code 1 when something is suspicious."""
    from homarus.skills.install import LockFile, candidates, fetched, look, quarantined

    home = app.paths.state_dir / "skills"
    if source:
        with fetched(source) as folder:
            rows = [_offered(found) for found in candidates(folder)]
    else:
        held = quarantined(app.paths.own_dir, home)
        names = [name for name in sorted(LockFile(app.paths.own_dir).read()) if (home / name / "SKILL.md").is_file()]
        rows = [{**_offered(look(home / name)), "approved": name not in held} for name in names]
    if not rows and not as_json:
        app.out.line("no skill was installed from elsewhere")
    _tell_offers(app, rows, as_json=as_json)
    return 1 if any(row["findings"] for row in rows) else 0


def _offered(found: Candidate) -> dict[str, Any]:
    return {
        "name": found.name,
        "description": found.header.description,
        "sha256": found.sha256,
        "wants": {field: list(getattr(found.wants, field)) for field in found.wants.__struct_fields__},
        "findings": [
            {"file": file, "line": each.line, "rule": each.rule, "excerpt": each.excerpt}
            for file, each in found.findings
        ],
    }


def _tell_offers(app: App, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        app.out.json({"skills": rows})
        return
    for row in rows:
        out = app.out
        out.line(f"{out.style(clean(row['name']), 'bold')}  {clean(row['description'])}")
        wants = [(f"names {field}", ", ".join(values)) for field, values in row["wants"].items()]
        out.facts([("sha256", row["sha256"]), *((label, clean(text)) for label, text in wants)], 14)
        lines = [clean(f"{each['file']}:{each['line']}: {each['rule']}: {each['excerpt']}") for each in row["findings"]]
        out.section("Looks like an attack", "red", lines)
        if row.get("more"):
            out.section("Asks for more than before", "yellow", [clean(each) for each in row["more"]])
        if row.get("installed") is False:
            out.line("not installed; read it first, then add --anyway")
        elif row.get("approved"):
            out.line("approved")
        elif "installed" in row or "approved" in row:
            out.hint(f"in quarantine: no commands, no network; read it, then: homarus skills approve {row['name']}")


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
    return clean(f"{skill.file}:{finding.line}: {finding.rule}: {finding.excerpt}")


def _print_info(app: App, verdict: Verdict, hidden: list[str]) -> None:
    out, skill, header = app.out, verdict.skill, verdict.skill.header
    state = out.style("can be used", "green") if verdict.eligible else out.style("cannot be used", "yellow")
    out.line(f"{out.style(clean(skill.name), 'bold')} {header.emoji}".rstrip() + f"  {state}")
    out.line(clean(header.description) or "(no description)")
    out.line()
    key, tools = skill.key if skill.key != skill.name else "", ", ".join(header.allowed_tools)
    facts = [("file", skill.file), ("source", skill.source.value), ("key", key)]
    facts += [("homepage", header.homepage), ("license", header.license), ("compatibility", header.compatibility)]
    facts += [("allowed tools", tools and f"{tools} (a wish; it grants nothing)")]
    facts += [("hides", ", ".join(hidden)), ("problem", header.problem)]
    out.facts([*facts, ("who starts it", _starters(skill))], 14)
    out.section("Gates", "bold", [_gate_line(app, step) for step in verdict.steps] or ["none: it can be used anywhere"])


def _gate_line(app: App, step: Step) -> str:
    mark = app.out.style("open", "green") if step.ok else app.out.style("shut", "red")
    return f"{mark}  {step.gate:<8} {clean(step.detail)}"


def _starters(skill: Skill) -> str:
    who = ["the model"] if skill.header.model_invocable else []
    if skill.header.user_invocable:
        where = "" if skill.header.remote_invocable else " at this machine"
        who.append(f"people{where} (/skill {skill.name})")
    return clean(" and ".join(who) or "nobody")


def _near(name: str, skills: SkillSet) -> str:
    import difflib

    near = difflib.get_close_matches(name, [skill.name for skill in skills.skills], n=1)
    return f"did you mean '{near[0]}'?" if near else ""
