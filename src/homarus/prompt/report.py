"""Measure a prompt: what fills the window, what was cut, and whether the cached prefix is still the same. Pure.

The report backs `homarus context`, `/context` in a chat, and the `systemPromptReport` that a session keeps after a run;
its first fields are OpenClaw's own. How it reads on a screen is the business of `show.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.patterns import late
from homarus.core.text import estimate_tokens, unescape_xml
from homarus.core.tools import ToolSpec
from homarus.prompt.build import Prompt
from homarus.prompt.sections.tooling import in_order, summary_of, tool_line
from homarus.workspace.inject import BootstrapContext

_SKILL = late(r"<skill>.*?</skill>", re.DOTALL)
_NAME = late(r"<name>(.*?)</name>", re.DOTALL)


class Size(Struct, frozen=True, rename="camel"):
    """A text's size, and about how many tokens a model counts for it."""

    chars: int = 0
    tokens: int = 0

    @staticmethod
    @lru_cache(64)
    def of(text: str) -> Size:
        return Size(len(text), estimate_tokens(text))

    @classmethod
    def about(cls, chars: int) -> Size:
        """Return the size of a text of which only the length is known."""
        return Size(chars, -(-chars // 4))

    def __add__(self, other: Size) -> Size:
        return Size(self.chars + other.chars, self.tokens + other.tokens)

    def __sub__(self, other: Size) -> Size:
        return Size(self.chars - other.chars, self.tokens - other.tokens)


class SandboxState(Struct, frozen=True):
    mode: str = "off"
    sandboxed: bool = False


class About(Struct, frozen=True, rename="camel", kw_only=True):
    """Whose prompt it is, under which limits, and what is known of the conversation so far."""

    source: Literal["run", "estimate"] = "estimate"
    generated_at: int = 0
    session_id: str = ""
    session_key: str = ""
    provider: str = ""
    model: str = ""
    workspace_dir: str = ""
    bootstrap_max_chars: int = 0
    bootstrap_total_max_chars: int = 0
    sandbox: SandboxState = SandboxState()
    window: int = 0
    session_tokens: int | None = None
    messages: dict[str, int] = {}
    # Tools for which the window is too small.
    tools_left_out: tuple[str, ...] = ()


class FileRow(Struct, frozen=True, rename="camel"):
    name: str
    path: str
    missing: bool
    raw_chars: int
    injected_chars: int
    truncated: bool
    injected_tokens: int = 0
    unreadable: bool = False
    dynamic: bool = False

    @property
    def state(self) -> str:
        if self.missing:
            return "MISSING"
        return "UNREADABLE" if self.unreadable else "TRUNCATED" if self.truncated else "OK"


class SectionRow(Struct, frozen=True, rename="camel"):
    name: str
    tier: str
    size: Size


class SkillRow(Struct, frozen=True, rename="camel"):
    name: str
    block_chars: int


class ToolRow(Struct, frozen=True, rename="camel"):
    name: str
    summary_chars: int
    schema_chars: int
    properties_count: int
    properties: tuple[str, ...] = ()


class Report(Struct, frozen=True, rename="camel", kw_only=True):
    """Everything measured. `total` is what a first request of this session holds before anybody says a word."""

    about: About
    system: Size
    stable: Size
    session: Size
    turn: Size
    project: Size
    skills: Size
    tool_list: Size
    tool_schemas: Size
    stable_sha256: str
    files: tuple[FileRow, ...]
    sections: tuple[SectionRow, ...]
    skill_rows: tuple[SkillRow, ...]
    tool_rows: tuple[ToolRow, ...]
    near_limit: tuple[str, ...]
    omitted: int
    # What the next run's system message would have, where that differs from this run's.
    since: Size | None = None

    @property
    def total(self) -> Size:
        return self.system + self.tool_schemas + self.turn

    @property
    def model(self) -> str:
        return "/".join(part for part in (self.about.provider, self.about.model) if part)

    @property
    def files_chars(self) -> int:
        return sum(row.injected_chars for row in self.files if not row.dynamic)

    def to_json(self) -> dict[str, Any]:
        """Return the stored form: OpenClaw's fields first, ours beside them."""
        return {
            **msgspec.to_builtins(self.about),
            "systemPrompt": {
                "chars": self.system.chars,
                "projectContextChars": self.project.chars,
                "nonProjectContextChars": self.system.chars - self.project.chars,
                "tokens": self.system.tokens,
                "stableChars": self.stable.chars,
                "sessionChars": self.session.chars,
                "stableSha256": self.stable_sha256,
            },
            "turnContext": msgspec.to_builtins(self.turn),
            "injectedWorkspaceFiles": msgspec.to_builtins(self.files),
            "sections": msgspec.to_builtins(self.sections),
            "skills": {"promptChars": self.skills.chars, "entries": msgspec.to_builtins(self.skill_rows)},
            "tools": {
                "listChars": self.tool_list.chars,
                "schemaChars": self.tool_schemas.chars,
                "entries": msgspec.to_builtins(self.tool_rows),
            },
            "nearLimit": list(self.near_limit),
            "omittedFiles": self.omitted,
            "total": msgspec.to_builtins(self.total),
        }


class ToolSizes(Struct, frozen=True):
    """What tools take: as a list in the prompt, as schemas beside it, and each of them."""

    listed: Size
    schemas: Size
    rows: tuple[ToolRow, ...]


def size_tools(tools: Sequence[ToolSpec]) -> ToolSizes:
    """Measure tools; they are the same for many prompts."""
    listed = "\n".join(map(tool_line, in_order(tools)))
    return ToolSizes(Size.of(listed), Size.of(schema_text(tools)), _tool_rows(tools))


def measure(
    prompt: Prompt,
    about: About,
    *,
    context: BootstrapContext | None = None,
    tools: Sequence[ToolSpec] | ToolSizes = (),
    carrier: str = "",
) -> Report:
    """Measure a prompt with the tools that go with it and the carrier that rides on the next turn."""
    context = context or BootstrapContext()
    texts = {section.name: section.text for section in prompt.sections}
    sizes = tools if isinstance(tools, ToolSizes) else size_tools(tools)
    return Report(
        about=about,
        system=Size.of(prompt.system.text),
        stable=Size.of(prompt.system.stable),
        session=Size.of(prompt.system.session),
        turn=Size.of(carrier),
        project=Size.of(texts.get("Project Context", "")),
        skills=Size.of(texts.get("Skills", "")),
        tool_list=sizes.listed,
        tool_schemas=sizes.schemas,
        stable_sha256=sha256(prompt.system.stable.encode("utf-8", "replace")).hexdigest(),
        files=_file_rows(context),
        sections=tuple(
            SectionRow(section.name, section.tier.value, Size.of(section.text))
            for section in (*prompt.sections, *prompt.volatile)
        ),
        skill_rows=tuple(_skill_rows(texts.get("Skills", ""))),
        tool_rows=sizes.rows,
        near_limit=context.near_limit,
        omitted=context.omitted,
    )


def schema_text(tools: Sequence[ToolSpec]) -> str:
    return "".join(_schema(spec) for spec in in_order(tools))


def _schema(spec: ToolSpec) -> str:
    document = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return msgspec.json.encode(document).decode()


def _tool_rows(tools: Sequence[ToolSpec]) -> tuple[ToolRow, ...]:
    rows = []
    for spec in in_order(tools):
        properties = spec.parameters.get("properties")
        names = tuple(properties) if isinstance(properties, dict) else ()
        rows.append(ToolRow(spec.name, len(summary_of(spec)), len(_schema(spec)), len(names), names))
    return tuple(rows)


def _file_rows(context: BootstrapContext) -> tuple[FileRow, ...]:
    return tuple(
        FileRow(
            name=file.name,
            path=file.path,
            missing=file.missing,
            raw_chars=file.raw_chars,
            injected_chars=0 if file.missing else file.injected_chars,
            truncated=file.truncated,
            injected_tokens=0 if file.missing else estimate_tokens(file.text),
            unreadable=file.unreadable,
            dynamic=dynamic,
        )
        for files, dynamic in ((context.files, False), (context.told, True), (context.dynamic, True))
        for file in files
    )


def _skill_rows(listing: str) -> list[SkillRow]:
    blocks = [(block, _NAME.search(block)) for block in _SKILL.findall(listing)]
    return [SkillRow(unescape_xml(name[1].strip()), len(block)) for block, name in blocks if name]


# What a fresh report says and a kept one does not.
_FRESH = frozenset(
    [
        "window",
        "sessionTokens",
        "messages",
        "tokens",
        "sessionChars",
        "turnContext",
        "sections",
        "nearLimit",
        "omittedFiles",
        "total",
    ]
)


class _Prompt(Struct, frozen=True, rename="camel"):
    chars: int = 0
    project_context_chars: int = 0
    stable_chars: int = 0
    stable_sha256: str = ""


class _Skills(Struct, frozen=True, rename="camel"):
    prompt_chars: int = 0
    entries: tuple[SkillRow, ...] = ()


class _Tools(Struct, frozen=True, rename="camel"):
    list_chars: int = 0
    schema_chars: int = 0
    entries: tuple[ToolRow, ...] = ()


class _Kept(Struct, frozen=True, rename="camel"):
    system_prompt: _Prompt = _Prompt()
    injected_workspace_files: tuple[FileRow, ...] = ()
    skills: _Skills = _Skills()
    tools: _Tools = _Tools()


def keep(report: Report) -> dict[str, Any]:
    """Return what a session's row keeps of a run's report: figures alone, because the row is written after every turn."""
    document = report.to_json()
    rows = [msgspec.to_builtins(replace(row, properties=())) for row in report.tool_rows]
    return {
        **{name: value for name, value in document.items() if name not in _FRESH},
        "source": "run",
        "systemPrompt": {name: value for name, value in document["systemPrompt"].items() if name not in _FRESH},
        "injectedWorkspaceFiles": [_file(row) for row in report.files],
        "tools": {**document["tools"], "entries": rows},
    }


def recall(stored: Any) -> Report | None:
    """Return a kept report, ours or OpenClaw's; None where there is none that can be read."""
    try:
        kept = msgspec.convert(stored, _Kept, strict=False)
        about = msgspec.convert({**stored, "source": "run"}, About, strict=False)
    except msgspec.ValidationError:
        return None
    prompt = kept.system_prompt
    if not prompt.chars:
        return None
    stable = prompt.stable_chars or prompt.chars
    return Report(
        about=about,
        system=Size.about(prompt.chars),
        stable=Size.about(stable),
        session=Size.about(max(0, prompt.chars - stable - 2)),
        turn=Size(),
        project=Size.about(prompt.project_context_chars),
        skills=Size.about(kept.skills.prompt_chars),
        tool_list=Size.about(kept.tools.list_chars),
        tool_schemas=Size.about(kept.tools.schema_chars),
        stable_sha256=prompt.stable_sha256,
        files=tuple(
            replace(row, injected_tokens=Size.about(row.injected_chars).tokens) for row in kept.injected_workspace_files
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
    old, new = ((it.stable_sha256, it.system.chars, it.tool_schemas.chars) for it in (kept, now))
    if old == new:
        return replace(now, about=replace(about, source="run", generated_at=then.generated_at))
    here = replace(then, window=about.window, session_tokens=about.session_tokens, messages=about.messages)
    return replace(kept, about=here, since=now.system)


def _file(row: FileRow) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(row)
    del plain["injectedTokens"]
    return {name: value for name, value in plain.items() if value or name not in {"unreadable", "dynamic"}}
