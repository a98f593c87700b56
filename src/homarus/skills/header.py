"""The header of a SKILL.md, in every form that OpenClaw and the open Agent Skills format have written. Pure, never raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from homarus.core.frontmatter import parse, split
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.hooks.manifest import Requires, flag, manifest, requirements, text_of, words

# Characters that a person does not see but a model reads, and those that no XML may hold.
INVISIBLE = late(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_NAME = late(r"[a-z0-9]+(?:-[a-z0-9]+)*")
# The sizes that the open format allows.
MAX_NAME, MAX_DESCRIPTION, MAX_COMPATIBILITY = 64, 1024, 500
_TOOL = late(r"[^\s,(]+(?:\([^)]*\))?")


class SkillHeader(Struct, frozen=True, gc=False):
    """What a skill says about itself. Nothing here is a permission: `allowed_tools` is shown and otherwise ignored."""

    name: str = ""
    description: str = ""
    requires: Requires = Requires()
    skill_key: str = ""
    primary_env: str = ""
    user_invocable: bool = True
    # Whether people may invoke it from a chat channel, or only at the machine itself.
    remote_invocable: bool = True
    model_invocable: bool = True
    dispatch_tool: str = ""
    homepage: str = ""
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    emoji: str = ""
    install: tuple[dict[str, Any], ...] = ()
    problem: str = ""


def read_header(text: str) -> SkillHeader:
    """Return the header of a whole SKILL.md; a file without one has an empty header and says so."""
    header, _ = split(text)
    if header is None:
        return SkillHeader(problem="it has no front matter (a block between two lines of `---`)")
    values, problem = parse(header)
    block = manifest(values)
    return SkillHeader(
        name=visible(text_of(values.get("name")), MAX_NAME),
        description=visible(text_of(values.get("description")), MAX_DESCRIPTION),
        requires=requirements(block) if block else Requires(),
        skill_key=text_of(block.get("skillKey")),
        primary_env=text_of(block.get("primaryEnv")),
        user_invocable=flag(_either(values, "user-invocable", "userInvocable"), default=True),
        remote_invocable=flag(_invocation(block).get("allowRemote", True), default=False),
        model_invocable=not _model_invocation_disabled(values, block),
        dispatch_tool=_dispatch(values),
        homepage=visible(text_of(values.get("homepage") or block.get("homepage")), 300),
        license=visible(text_of(values["license"]), 200) if "license" in values else "",
        compatibility=visible(text_of(values["compatibility"]), MAX_COMPATIBILITY) if "compatibility" in values else "",
        allowed_tools=_tools(_either(values, "allowed-tools", "allowedTools")),
        emoji=single_line(text_of(block.get("emoji")), 8) if "emoji" in block else "",
        install=_install(block.get("install")),
        problem=problem,
    )


def visible(text: str, limit: int) -> str:
    """Return one line that shows a person everything a model will read in it."""
    if len(text) <= limit and text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return single_line(INVISIBLE.sub("", text), limit)


def remarks(header: SkillHeader, folder: str) -> list[str]:
    """Return where a header leaves the open Agent Skills format: no failure, but other agents may stumble."""
    found = []
    if header.name and not _NAME.fullmatch(header.name):
        found.append("the name is not lowercase letters and digits with single dashes between them")
    if header.name and header.name != folder:
        found.append(f"the name differs from its folder '{visible(folder, 80)}'")
    if len(header.description) >= MAX_DESCRIPTION:
        found.append(f"the description is cut at {MAX_DESCRIPTION} characters")
    return found


def _either(values: Mapping[str, Any], name: str, other: str) -> Any:
    return values[name] if name in values else values.get(other)


def _model_invocation_disabled(values: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    nested = _invocation(block).get("disableModelInvocation")
    plain = _either(values, "disable-model-invocation", "disableModelInvocation")
    return flag(plain, default=False) or flag(nested, default=False)


def _invocation(block: Mapping[str, Any]) -> Mapping[str, Any]:
    found = block.get("invocation")
    return found if isinstance(found, dict) else {}


def _dispatch(values: Mapping[str, Any]) -> str:
    """Return the tool that a command of this skill goes straight to, with its text as it was typed; usually none."""
    if text_of(_either(values, "command-dispatch", "commandDispatch")) != "tool":
        return ""
    return text_of(_either(values, "command-tool", "commandTool"))


def _tools(value: Any) -> tuple[str, ...]:
    # `Bash(git add:*) Read`: blanks and commas part the names, but not inside parentheses.
    return tuple(_TOOL.findall(value)) if isinstance(value, str) else words(value)


def _install(value: Any) -> tuple[dict[str, Any], ...]:
    return tuple(item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()
