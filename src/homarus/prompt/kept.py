"""The report that a session keeps of its last run: OpenClaw's own `systemPromptReport`, written small and read leniently.

Pure. A row of the index is written after every turn, so what is kept is figures alone. A run that is told what the one
before was told keeps that one's report: `inputsSha256`, which its caller adds, says so.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.prompt.report import About, FileRow, Report, Size, SkillRow, ToolRow


class _Prompt(Struct, frozen=True, rename="camel"):
    chars: int = 0
    project_context_chars: int = 0
    stable_chars: int = 0
    stable_sha256: str = ""


class _Sandbox(Struct, frozen=True):
    mode: str = "off"
    sandboxed: bool = False


class _Skills(Struct, frozen=True, rename="camel"):
    prompt_chars: int = 0
    entries: tuple[SkillRow, ...] = ()


class _Tools(Struct, frozen=True, rename="camel"):
    list_chars: int = 0
    schema_chars: int = 0
    entries: tuple[ToolRow, ...] = ()


class _Kept(Struct, frozen=True, rename="camel"):
    generated_at: int = 0
    session_id: str = ""
    session_key: str = ""
    provider: str = ""
    model: str = ""
    workspace_dir: str = ""
    bootstrap_max_chars: int = 0
    bootstrap_total_max_chars: int = 0
    sandbox: _Sandbox = _Sandbox()
    system_prompt: _Prompt = _Prompt()
    injected_workspace_files: tuple[FileRow, ...] = ()
    skills: _Skills = _Skills()
    tools: _Tools = _Tools()


def keep(report: Report) -> dict[str, Any]:
    """Return what a session's row keeps of a run's report."""
    about = report.about
    return {
        "source": "run",
        "generatedAt": about.generated_at,
        "sessionId": about.session_id,
        "sessionKey": about.session_key,
        "provider": about.provider,
        "model": about.model,
        "workspaceDir": about.workspace_dir,
        "bootstrapMaxChars": about.bootstrap_max_chars,
        "bootstrapTotalMaxChars": about.bootstrap_total_max_chars,
        "sandbox": {"mode": about.sandbox_mode, "sandboxed": about.sandboxed},
        "systemPrompt": {
            "chars": report.system.chars,
            "projectContextChars": report.project.chars,
            "nonProjectContextChars": report.system.chars - report.project.chars,
            "stableChars": report.stable.chars,
            "stableSha256": report.stable_sha256,
        },
        "injectedWorkspaceFiles": [_file(row) for row in report.files],
        "skills": {"promptChars": report.skills.chars, "entries": msgspec.to_builtins(report.skill_rows)},
        "tools": {
            "listChars": report.tool_list.chars,
            "schemaChars": report.tool_schemas.chars,
            "entries": [msgspec.to_builtins(replace(row, properties=())) for row in report.tool_rows],
        },
    }


def recall(stored: Any) -> Report | None:
    """Return a kept report, ours or OpenClaw's; None where there is none that can be read."""
    try:
        kept = msgspec.convert(stored, _Kept, strict=False)
    except msgspec.ValidationError:
        return None
    prompt = kept.system_prompt
    if not prompt.chars:
        return None
    about = About(
        source="run",
        generated_at=kept.generated_at,
        session_id=kept.session_id,
        session_key=kept.session_key,
        provider=kept.provider,
        model=kept.model,
        workspace_dir=kept.workspace_dir,
        bootstrap_max_chars=kept.bootstrap_max_chars,
        bootstrap_total_max_chars=kept.bootstrap_total_max_chars,
        sandbox_mode=kept.sandbox.mode,
        sandboxed=kept.sandbox.sandboxed,
    )
    stable = prompt.stable_chars or prompt.chars
    return Report(
        about=about,
        system=_size(prompt.chars),
        stable=_size(stable),
        session=_size(max(0, prompt.chars - stable - 2)),
        turn=Size(),
        project=_size(prompt.project_context_chars),
        skills=_size(kept.skills.prompt_chars),
        tool_list=_size(kept.tools.list_chars),
        tool_schemas=_size(kept.tools.schema_chars),
        stable_sha256=prompt.stable_sha256,
        files=tuple(
            replace(row, injected_tokens=_size(row.injected_chars).tokens) for row in kept.injected_workspace_files
        ),
        sections=(),
        skill_rows=kept.skills.entries,
        tool_rows=kept.tools.entries,
        near_limit=(),
        omitted=0,
    )


def last_run(stored: Any, now: Report) -> Report:
    """Return the report of a session's last run, given what the next one would be told; that, where none is kept.

    Where nothing changed since, the fresh figures are the run's own, and there are more of them.
    """
    kept = recall(stored)
    if kept is None:
        return now
    then, about = kept.about, now.about
    if (kept.stable_sha256, kept.system.chars, kept.tool_schemas.chars) == (
        now.stable_sha256,
        now.system.chars,
        now.tool_schemas.chars,
    ):
        return replace(now, about=replace(about, source="run", generated_at=then.generated_at))
    here = replace(then, window=about.window, session_tokens=about.session_tokens, messages=about.messages)
    return replace(kept, about=here, since=now.system)


def _file(row: FileRow) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(row)
    del plain["injectedTokens"]
    return {name: value for name, value in plain.items() if value or name not in {"unreadable", "dynamic"}}


def _size(chars: int) -> Size:
    return Size(chars, -(-chars // 4))
