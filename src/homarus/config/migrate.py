"""Every spelling of every era to one canonical form: numbered steps, pure, in memory only.

Nothing here is written back to the user's file, and unknown keys pass through untouched. Each move is remembered, so
that a problem with a canonical key is reported at the line where the user wrote it. A step is a list of renames, or a
function of `reshape` where the value changes its shape.

The canonical form is the newest spelling, with two exceptions that make merging simple: memory search settings stand at
`memorySearch` of the agent defaults and entries, and a model is always an object with `primary`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any

from msgspec import Struct

from homarus.config import reshape
from homarus.config.keypath import KeyPath
from homarus.config.reshape import Draft

Rename = tuple[str, str]
_OWNERS = ("agents.defaults", "agents.entries.*")
_CHANNELS = ("channels.*", "channels.*.accounts.*")
_TOP_CHANNELS = ("whatsapp", "telegram", "discord", "slack", "signal", "imessage", "msteams", "googlechat", "matrix")


class Migration(Struct, frozen=True):
    """One numbered step. Numbers only grow; a step that exists never changes its meaning."""

    number: int
    about: str
    renames: tuple[Rename, ...] = ()
    apply: Callable[[Draft], None] | None = None


def _for_each(owners: tuple[str, ...], *renames: Rename) -> tuple[Rename, ...]:
    return tuple((f"{owner}.{old}", f"{owner}.{new}") for owner in owners for old, new in renames)


MIGRATIONS = (
    Migration(1, "a dotted key at the top level is a path", apply=reshape.dotted),
    Migration(
        2,
        "the form before there were several agents",
        (
            ("routing.agents", "agents.entries"),
            ("routing.bindings", "bindings"),
            ("routing.queue", "messages.queue"),
            ("routing.allowFrom", "channels.whatsapp.allowFrom"),
            ("routing.groupChat.historyLimit", "messages.groupChat.historyLimit"),
            ("routing.groupChat.mentionPatterns", "messages.groupChat.mentionPatterns"),
            ("agent.tools", "tools"),
            ("agent.elevated", "tools.elevated"),
            ("agent.bash", "tools.exec"),
            ("agent", "agents.defaults"),
            ("identity", "agents.defaults.identity"),
            ("defaultModel", "agents.defaults.model"),
            ("heartbeat", "agents.defaults.heartbeat"),
            ("memorySearch", "agents.defaults.memorySearch"),
        ),
    ),
    Migration(3, "channels at the top level", tuple((name, f"channels.{name}") for name in _TOP_CHANNELS)),
    Migration(4, "agents.list[] with id or agentId becomes agents.entries.<id>", apply=reshape.roster),
    Migration(5, "a model name becomes { primary }, with older fallback and alias lists", apply=reshape.models),
    Migration(6, "the allowlist that used to be the keys of models", apply=reshape.model_policy),
    Migration(7, "memory search moves to the agents it belongs to", apply=reshape.memory_search),
    Migration(
        8,
        "agent settings that changed their name",
        _for_each(_OWNERS, ("embeddedPi", "embeddedAgent"), ("pdfMaxBytesMb", "pdfMaxMb")),
        apply=reshape.sandbox,
    ),
    Migration(
        9,
        "sessions",
        (
            ("session.idleMinutes", "session.reset.idleMinutes"),
            ("session.resetByType.dm", "session.resetByType.direct"),
            ("session.threadBindings.ttlHours", "session.threadBindings.idleHours"),
        ),
        apply=reshape.session,
    ),
    Migration(
        10, "queue modes by provider are by channel", (("messages.queue.byProvider", "messages.queue.byChannel"),)
    ),
    Migration(11, "chunk ranges as text, coalescing as a flag, streaming as a flag or a word", apply=reshape.streaming),
    Migration(
        12,
        "block streaming per channel",
        _for_each(
            _CHANNELS,
            ("blockStreaming", "streaming.block.enabled"),
            ("blockStreamingCoalesce", "streaming.block.coalesce"),
            ("streamMode", "streaming.mode"),
            ("draftChunk", "streaming.preview.chunk"),
            ("chunkMode", "streaming.chunkMode"),
        ),
    ),
    Migration(
        13,
        "channel access",
        (
            *_for_each(_CHANNELS, ("dm.policy", "dmPolicy"), ("dm.allowFrom", "allowFrom")),
            *_for_each(_CHANNELS, ("threadBindings.ttlHours", "threadBindings.idleHours")),
            ("web.enabled", "channels.whatsapp.enabled"),
            ("channels.telegram.requireMention", "channels.telegram.groups.*.requireMention"),
            ("messages.messagePrefix", "channels.whatsapp.responsePrefix"),
            ("channels.whatsapp.messagePrefix", "channels.whatsapp.responsePrefix"),
        ),
    ),
    Migration(
        14,
        "tools",
        (
            ("tools.bash", "tools.exec"),
            ("tools.exec.timeoutSec", "tools.exec.timeoutSeconds"),
            ("tools.message.allowCrossContextSend", "tools.message.crossContext"),
        ),
    ),
    Migration(
        15,
        "gateway and logging",
        (
            ("gateway.token", "gateway.auth.token"),
            ("gateway.password", "gateway.auth.password"),
            ("gateway.nodes.allowCommands", "gateway.nodes.commands.allow"),
            ("gateway.nodes.denyCommands", "gateway.nodes.commands.deny"),
            ("audit", "logging.audit"),
            ("media", "attachments"),
            ("messages.tts", "tts"),
        ),
        apply=reshape.gateway,
    ),
    Migration(16, "model providers and MCP servers", apply=reshape.servers),
    Migration(17, "variables directly under env", apply=reshape.variables),
    Migration(18, "idle minutes of the old form say nothing about a daily reset", apply=reshape.idle_reset),
)


def migrate(document: dict[str, Any]) -> Draft:
    draft = Draft(document)
    for step in MIGRATIONS:
        for old, new in step.renames:
            for source, target in _concrete(draft, old, new):
                draft.move(source, target)
        if step.apply:
            step.apply(draft)
    return draft


@lru_cache(maxsize=512)
def canonical(path: KeyPath) -> KeyPath:
    """Return where a path of any era stands in the canonical form, as far as names alone tell."""
    for old, new in _renames():
        if path and old[0] in (path[0], "*"):
            path = _renamed(path, old, new)
    return path


@cache
def _renames() -> list[tuple[list[str], list[str]]]:
    every = [rename for step in MIGRATIONS for rename in step.renames]
    every.append(("memory.search", "agents.defaults.memorySearch"))
    return [(old.split("."), new.split(".")) for old, new in every]


def _renamed(path: KeyPath, old: list[str], new: list[str]) -> KeyPath:
    if len(path) < len(old):
        return path
    bound = []
    for step, wanted in zip(path, old, strict=False):
        if wanted == "*" and isinstance(step, str):
            bound.append(step)
        elif wanted != step:
            return path
    return (*_fill(new, bound), *path[len(old) :])


def _fill(pattern: list[str], bound: list[str]) -> KeyPath:
    # A star that binds nothing is the name "*": the entry of a channel that stands for every group.
    names = iter(bound)
    return tuple(next(names, "*") if step == "*" else step for step in pattern)


def _concrete(draft: Draft, old: str, new: str) -> Iterator[tuple[KeyPath, KeyPath]]:
    pattern = old.split(".")
    for bound in list(_bindings(draft.root, pattern)):
        yield _fill(pattern, bound), _fill(new.split("."), bound)


def _bindings(here: Any, pattern: list[str]) -> Iterator[list[str]]:
    if not pattern:
        yield []
    elif isinstance(here, dict):
        first, rest = pattern[0], pattern[1:]
        for name in list(here) if first == "*" else [first] if first in here else []:
            for bound in _bindings(here[name], rest):
                yield [name, *bound] if first == "*" else bound
