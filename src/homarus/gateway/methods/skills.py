"""Skills: what there is and why one cannot be used, switched on and off, and installed. What is installed starts in quarantine."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from msgspec import Struct

from homarus.config.write import Operation, change
from homarus.core.errors import HomarusError
from homarus.core.routes import main_session
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.methods.agents import workspace_of
from homarus.gateway.methods.catalog import AgentParams
from homarus.gateway.protocol import Code, Refused
from homarus.gateway.scopes import ADMIN, NODE, READ
from homarus.hooks.manifest import Requires
from homarus.skills.gate import Verdict, judge
from homarus.skills.install import MAX_BYTES, Leave, LockFile, Outcome, install, update
from homarus.skills.library import SkillLibrary, gate_of, machine_facts, roots_of, settings_of

MAX_UPLOADS = 4  # archives that are being sent at the same time


class InstallParams(Params, frozen=True, kw_only=True):
    """An archive that was sent, or the address of a git repository."""

    source: str = ""
    upload_id: str = ""
    url: str = ""
    slug: str = ""
    sha256: str = ""
    force: bool = False
    name: str = ""
    install_id: str = ""
    PASSED = passed("agentId version timeoutMs")


class UpdateParams(Params, frozen=True, kw_only=True):
    """The owner's word about a skill, or that installed ones are fetched again."""

    skill_key: str = ""
    enabled: bool | None = None
    api_key: str | None = None
    env: dict[str, str] | None = None
    source: str = ""
    slug: str = ""
    all: bool = False
    force: bool = False
    PASSED = passed("agentId")


class BeginParams(Params, frozen=True, kw_only=True):
    kind: Literal["skill-archive"]
    slug: str
    size_bytes: int
    sha256: str = ""
    PASSED = passed("force idempotencyKey")


class ChunkParams(Params, frozen=True, kw_only=True):
    upload_id: str
    offset: int
    data_base64: str


class CommitParams(Params, frozen=True, kw_only=True):
    upload_id: str
    sha256: str = ""


class Upload(Struct):
    """An archive on its way in. It lies in memory: it is small, and a gateway that ends has no use for half of one."""

    slug: str
    size: int
    sha256: str
    data: bytearray
    whole: bool = False


async def status(call: Call, params: AgentParams) -> dict[str, Any]:
    home = call.client.home
    agent, folder = workspace_of(call, params.agent_id)
    gate = gate_of(home.config, agent, machine_facts(home.config, home.env))
    found = SkillLibrary(settings_of(home.config).limits).load(roots_of(home.config, folder)).skills
    held, rows = home.quarantined.now(), []
    for verdict in (judge(skill, gate) for skill in found):
        skill, header = verdict.skill, verdict.skill.header
        shut = {step.gate: step for step in verdict.steps if not step.ok}
        row: dict[str, Any] = {
            "name": skill.name,
            "description": header.description,
            "source": skill.source.value,
            "bundled": skill.source.value == "bundled",
            "filePath": skill.file,
            "baseDir": skill.folder,
            "skillKey": skill.key,
            "always": header.requires.always,
            "disabled": "enabled" in shut,
            "blockedByAllowlist": "bundled" in shut or "agent" in shut,
            "eligible": verdict.eligible,
            "requirements": _needs(header.requires),
            "missing": _missing(verdict),
            "configChecks": [],
            "install": [],
            "modelVisible": verdict.eligible and header.model_invocable,
            "userInvocable": header.user_invocable,
            "quarantined": skill.name in held,
        }
        facts = {"reason": verdict.reason, "emoji": header.emoji, "primaryEnv": header.primary_env}
        rows.append(row | {key: value for key, value in facts.items() if value})
    managed = str(home.config.paths.skills_dir)
    return {"workspaceDir": str(folder), "managedSkillsDir": managed, "agentId": agent, "skills": rows}


def _needs(requires: Requires) -> dict[str, list[str]]:
    lists = {"bins": requires.bins, "anyBins": requires.any_bins, "env": requires.env}
    return {key: list(value) for key, value in (lists | {"config": requires.config, "os": requires.os}).items()}


def _missing(verdict: Verdict) -> dict[str, list[str]]:
    """Return the part of a skill's needs whose gates are shut: some gates ask for each name, others for all together."""
    found: dict[str, list[str]] = {}
    for key, wanted in _needs(verdict.skill.header.requires).items():
        steps = [step for step in verdict.steps if step.gate == key]
        each = steps if len(steps) == len(wanted) else [step for step in steps[:1] for _ in wanted]
        found[key] = [name for name, step in zip(wanted, each, strict=False) if not step.ok]
    return found


async def bins(call: Call, _params: Params) -> dict[str, Any]:
    """Return the programs that skills name, as nodes ask for them."""
    home = call.client.home
    roots = roots_of(home.config, home.workspace(home.config.default_agent.id))
    found = SkillLibrary(settings_of(home.config).limits).load(roots).skills
    named = {name for skill in found for name in (*skill.header.requires.bins, *skill.header.requires.any_bins)}
    return {"bins": sorted(named)}


async def change_skill(call: Call, params: UpdateParams) -> dict[str, Any]:
    if params.source:
        return await _fetch_again(call, params)
    if not params.skill_key:
        raise Refused("invalid skills.update params: must have required property 'skillKey'")
    home, path = call.client.home, ("skills", "entries", params.skill_key)
    wishes: dict[str, Any] = {"enabled": params.enabled, "apiKey": params.api_key}
    operations = [Operation("set", (*path, key), value) for key, value in wishes.items() if value not in (None, "")]
    entry = settings_of(home.config).entries.get(params.skill_key)
    if params.api_key == "" and entry is not None and entry.api_key:
        operations.append(Operation("unset", (*path, "apiKey")))
    operations += [Operation("set", (*path, "env", key), value) for key, value in (params.env or {}).items() if value]
    if not operations:
        raise Refused("nothing to change: set enabled, apiKey or env")
    try:
        await asyncio.to_thread(change, call.gateway.live.config, home.env, operations)
    except HomarusError as problem:
        raise Refused(str(problem)) from None
    _tell(call, params.skill_key)
    shown = {"enabled": params.enabled} if params.enabled is not None else {}
    return {"ok": True, "skillKey": params.skill_key, "config": shown}


async def _fetch_again(call: Call, params: UpdateParams) -> dict[str, Any]:
    paths = call.client.home.config.paths
    names = [params.slug] if params.slug else sorted(LockFile(paths.own_dir).read()) if params.all else []
    if not names:
        raise Refused("name a skill with slug, or say all")
    results: list[dict[str, Any]] = []
    for name in names:
        try:
            done = await asyncio.to_thread(
                update, name, paths.own_dir, paths.skills_dir, force=params.force, leave=_leave(call)
            )
        except HomarusError as problem:
            results.append({"slug": name, "ok": False, "error": problem.message})
        else:
            results.append({"slug": name, "ok": True, **_told(done)})
            _tell(call, name)
    return {"ok": all(row["ok"] for row in results), "results": results}


async def put_in(call: Call, params: InstallParams) -> dict[str, Any]:
    uploads = call.gateway.uploads
    if params.source == "upload":
        upload = uploads.get(params.upload_id)
        if upload is None or not upload.whole:
            raise Refused("no such upload, or it was not committed")
        if params.slug and params.slug != upload.slug:
            raise Refused("the upload is of another skill")
        if params.sha256 and params.sha256.lower() != hashlib.sha256(upload.data).hexdigest():
            raise Refused("the upload has another sha256")
        del uploads[params.upload_id]
        with TemporaryDirectory(prefix="homarus-upload-") as folder:
            archive = f"{folder}/skill.zip" if upload.data[:2] == b"PK" else f"{folder}/skill.tar.gz"
            await asyncio.to_thread(Path(archive).write_bytes, upload.data)
            return await _installed(call, archive, force=params.force)
    if params.source == "git":
        if not params.url.startswith(("https://", "ssh://")):
            raise Refused("url must be the https:// or ssh:// address of a git repository")
        return await _installed(call, params.url, force=params.force)
    if params.source:
        raise Refused(f"skills come from 'upload' or 'git' here; there is no '{params.source[:40]}'", Code.UNAVAILABLE)
    # The original runs package managers on the host for this form; nobody from outside starts programs here.
    needed = params.name or params.install_id or "the skill"
    raise Refused(
        f"programs that {needed[:60]} needs are installed by hand; skills.status lists them", Code.UNAVAILABLE
    )


async def _installed(call: Call, source: str, *, force: bool) -> dict[str, Any]:
    paths = call.client.home.config.paths
    try:
        done = await asyncio.to_thread(
            install, source, paths.own_dir, paths.skills_dir, anyway=force, leave=_leave(call)
        )
    except HomarusError as problem:
        raise Refused(str(problem)) from None
    rows = [{"slug": each.skill.name, **_told(each)} for each in done]
    for row in rows:
        _tell(call, row["slug"])
    refused = [row["slug"] for row in rows if not row["installed"]]
    words = f"looks like an attack, read it first: {', '.join(refused)}" if refused else "installed, in quarantine"
    return {"ok": not refused, "message": words, "skills": rows}


def _leave(call: Call) -> Leave:
    """Return what asks the hooks of this home, from the thread that installs, whether something may be put there."""
    home, loop = call.client.home, asyncio.get_running_loop()

    def ask(facts: dict[str, Any]) -> None:
        asked = home.tell.leave("install:before", main_session(home.config.default_agent.id), facts)
        asyncio.run_coroutine_threadsafe(asked, loop).result()

    return ask


def _told(done: Outcome) -> dict[str, Any]:
    findings = [
        {"file": file, "line": each.line, "rule": each.rule, "excerpt": each.excerpt}
        for file, each in done.skill.findings
    ]
    facts = {"installed": done.installed, "approved": done.approved, "changed": done.changed}
    return {**facts, "sha256": done.skill.sha256, "more": list(done.more), "findings": findings}


def _tell(call: Call, name: str) -> None:
    call.gateway.hub.tell("skills.changed", {"skillKey": name, "ts": call.gateway.now_ms})


# Archives that clients send, piece by piece.


def _allowed(call: Call) -> None:
    if not settings_of(call.gateway.live.config).install.allow_uploaded_archives:
        raise Refused("uploads are off: set skills.install.allowUploadedArchives", Code.UNAVAILABLE)


async def begin(call: Call, params: BeginParams) -> dict[str, Any]:
    _allowed(call)
    if not 0 < params.size_bytes <= MAX_BYTES:
        raise Refused(f"sizeBytes must be 1 to {MAX_BYTES}")
    uploads = call.gateway.uploads
    while len(uploads) >= MAX_UPLOADS:
        del uploads[next(iter(uploads))]
    ident = call.gateway.ids.uuid()
    uploads[ident] = Upload(params.slug, params.size_bytes, params.sha256.lower(), bytearray())
    return {"uploadId": ident, "offset": 0, "sizeBytes": params.size_bytes}


async def chunk(call: Call, params: ChunkParams) -> dict[str, Any]:
    _allowed(call)
    upload = _open(call, params.upload_id)
    if params.offset != len(upload.data):
        raise Refused("the pieces come one after another", details={"offset": len(upload.data)})
    try:
        data = base64.b64decode(params.data_base64, validate=True)
    except (binascii.Error, ValueError):
        raise Refused("dataBase64 is no base64") from None
    if len(upload.data) + len(data) > upload.size:
        raise Refused("that is more than sizeBytes")
    upload.data += data
    return {"uploadId": params.upload_id, "offset": len(upload.data)}


async def commit(call: Call, params: CommitParams) -> dict[str, Any]:
    _allowed(call)
    upload = _open(call, params.upload_id)
    found = hashlib.sha256(upload.data).hexdigest()
    if len(upload.data) != upload.size or {upload.sha256, params.sha256.lower()} - {"", found}:
        raise Refused("the upload is not what was announced; begin again")
    upload.whole = True
    return {"uploadId": params.upload_id, "slug": upload.slug, "sizeBytes": upload.size, "sha256": found}


def _open(call: Call, ident: str) -> Upload:
    upload = call.gateway.uploads.get(ident)
    if upload is None or upload.whole:
        raise Refused("no such upload is open")
    return upload


METHODS = {
    "skills.status": Method(READ, status, AgentParams),
    "skills.bins": Method(NODE, bins),
    "skills.update": Method(ADMIN, change_skill, UpdateParams, write=True),
    "skills.install": Method(ADMIN, put_in, InstallParams, write=True),
    "skills.upload.begin": Method(ADMIN, begin, BeginParams, write=True),
    "skills.upload.chunk": Method(ADMIN, chunk, ChunkParams),
    "skills.upload.commit": Method(ADMIN, commit, CommitParams),
}
