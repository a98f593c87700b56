"""Compaction: one entry that stands for older history. Nothing is removed, a failure changes nothing, and it can be undone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.context import pins
from homarus.context.budget import estimate, measure
from homarus.context.cut import Cut, plan
from homarus.context.rewrite import say_again
from homarus.context.settings import CompactionSettings
from homarus.context.summarize import (
    HEADINGS,
    MAX_ASK_CHARS,
    MAX_FOCUS_CHARS,
    MAX_SUMMARY_CHARS,
    PLAIN_HEADINGS,
    Job,
    RejectedError,
    Summarizer,
    excerpted,
    failures,
    identifiers,
    summarize,
    summarize_prefix,
    touched_files,
)
from homarus.core.errors import ConfigError, ModelError
from homarus.core.messages import Message, Text, User
from homarus.core.text import estimate_tokens, single_line
from homarus.sessions.entry import Compaction, Entry
from homarus.sessions.view import speak
from homarus.sessions.writer import SessionWriter

RECENT_CHARS = 600
FILES_CHARS = 2_000
REASON_CHARS = 200
MIN_SUMMARY_CHARS = 1_000
MIN_EXCERPT_CHARS = 300
NUMBER = "number"
_log = logging.getLogger(__name__)


class Compacted(Struct, frozen=True):
    """What came of it. `reason` says why nothing changed when `ok` is false, in words for the user."""

    ok: bool
    reason: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    summary: str = ""
    # The model answered, and no answer of it would do: it is not going to give a better one.
    rejected: bool = False
    # There is no part of the history that could be summarised.
    nothing_to_do: bool = False
    # What hooks want the user to be told about it.
    said: tuple[str, ...] = ()


class Occasion(Struct, frozen=True, kw_only=True):
    """Why and for what a history is compacted; `manual` means that a person asked for it."""

    reason: str
    window: int
    reserve: int
    focus: str = ""
    # System prompt and tool schemas: they take their part of the window, whatever is done to the history.
    fixed: int = 0
    # An overflow keeps less than the usual tail, because the usual tail did not fit.
    keep_tokens: int | None = None
    # No model gives a summary and nothing else makes room: what people said is kept in their own words, cut short.
    last_resort: bool = False
    # Which compaction of its session this is. The entry says it, so that a crash right after it cannot lose the count.
    number: int = 1
    # What stands in AGENTS.md under the headings that the owner wants said again after a compaction.
    rules: str = ""

    @property
    def room(self) -> int:
        """Return how many tokens a conversation may have beside the prompt and the answer."""
        return max(0, self.window - self.reserve - self.fixed)


def plan_for(session: SessionWriter, settings: CompactionSettings, occasion: Occasion) -> Cut | str:
    """Return where the history would be cut, or why it would not be. It costs nothing and changes nothing."""
    keep = occasion.keep_tokens if occasion.keep_tokens is not None else settings.keep_recent_tokens
    # A third of the room for what stays word for word, a third for the summary, and a third to go on with.
    keep = max(1, min(keep, occasion.room // 3))
    force = occasion.reason == "manual" or occasion.last_resort
    return plan(session.view, keep, force=force, again=occasion.last_resort)


async def compact(
    session: SessionWriter,
    settings: CompactionSettings,
    occasion: Occasion,
    ask: Summarizer,
    cut: Cut | str | None = None,
) -> Compacted:
    """Summarise what is old and append the compaction; on any failure the history stays exactly as it was."""
    view = session.view
    cut = cut or plan_for(session, settings, occasion)
    before = measure(session.history(), fixed=occasion.fixed, since=view.boundary.time if view.boundary else 0)
    if isinstance(cut, str):
        return Compacted(False, cut, before, before, nothing_to_do=True)
    job = _job(cut, settings, occasion)
    gone = sum(map(estimate, messages_of(cut.left_out))) + estimate_tokens(cut.previous)
    try:
        async with asyncio.timeout(settings.timeout_seconds or None):
            if occasion.last_resort:
                summary = excerpted(job, min(_most(occasion) // 2, max(MIN_EXCERPT_CHARS, gone * 2)))
            else:
                summary = await _summary(job, cut, occasion, ask)
    except RejectedError as problem:
        # What the audit found speaks to the model, and quotes what was said: it is of no use to whoever reads the chat.
        _log.info("no summary passed the audit: %s", problem)
        reason = "the model gave no summary that would do, so nothing was dropped"
        return Compacted(False, reason, before, before, rejected=True)
    except (ModelError, ConfigError) as problem:
        reason = f"the summary failed, so nothing was dropped: {single_line(problem.message, REASON_CHARS)}"
        return Compacted(False, reason, before, before)
    except TimeoutError:
        return Compacted(False, "the summary took too long, so nothing was dropped", before, before)
    held = pins.kept(session.notes, messages_of(cut.left_out))
    read, changed = touched_files(messages_of(cut.left_out))
    text = _whole(summary, cut, held, (read, changed), settings, occasion)
    stands = estimate(User((Text(text),)))
    if occasion.last_resort and stands >= gone:
        return Compacted(False, "there is nothing left that could go", before, before, nothing_to_do=True)
    after = occasion.fixed + stands + _tail_tokens(view.entries, cut.first_kept)
    details: dict[str, Any] = {"readFiles": read, "modifiedFiles": changed, "pins": held, "reason": occasion.reason}
    details[NUMBER] = occasion.number
    session.compact(text, cut.first_kept, before, tokensAfter=after, details=details)
    return Compacted(True, "", before, after, text)


def adopt(session: SessionWriter, summary: str, first_kept: str, tokens: int, *, number: int) -> bool:
    """Append a compaction that an engine made; False when it would hide everything, because it keeps from nowhere on.

    Standing instructions are carried over as in our own: no engine may lose them.
    """
    entries = session.view.entries
    place = next((at for at, entry in enumerate(entries) if entry.id == first_kept), None)
    if first_kept and place is None:
        return False
    held = pins.kept(session.notes, messages_of(entries[:place]))
    text = f"{summary}\n\n{_standing(held)}" if held else summary
    session.compact(text, first_kept, tokens, details={"pins": held, "reason": "engine", NUMBER: number})
    return True


def number_of(boundary: Entry | None) -> int:
    """Return which compaction of its session an entry is, as far as it says so."""
    details = boundary.data.get("details") if isinstance(boundary, Compaction) else None
    number = details.get(NUMBER) if isinstance(details, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 10**9 else 0


def undo(session: SessionWriter) -> bool:
    """Go back to the history before the last compaction; what was said since then is said again behind it.

    Returns False when there is no compaction to undo. The compaction stays in the file, on a branch that nobody reads.
    """
    branch = list(session.branch)
    place = next((at for at in range(len(branch) - 1, -1, -1) if isinstance(branch[at], Compaction)), None)
    if place is None or branch[place].parent_id is None:
        return False
    later = branch[place + 1 :]
    session.move_leaf(str(branch[place].parent_id))
    say_again(session, later)
    return True


def _most(occasion: Occasion) -> int:
    """Return how many characters may stand for what is dropped: about a third of what a small window has room for."""
    return min(MAX_SUMMARY_CHARS, max(MIN_SUMMARY_CHARS, occasion.room * 4 // 3))


def _job(cut: Cut, settings: CompactionSettings, occasion: Occasion) -> Job:
    messages, everything = messages_of(cut.history), messages_of(cut.left_out)
    return Job(
        messages=tuple(messages),
        previous=cut.previous,
        focus=occasion.focus[:MAX_FOCUS_CHARS],
        ask=_last_ask(everything)[:MAX_ASK_CHARS],  # no summary can speak of all that a long one says
        names=tuple(identifiers(everything)) if settings.identifier_policy == "strict" else (),
        window=occasion.window,
        reserve=occasion.reserve,
        retries=settings.audit_retries,
        headings=HEADINGS if settings.is_safeguard else PLAIN_HEADINGS,
    )


async def _summary(job: Job, cut: Cut, occasion: Occasion, ask: Summarizer) -> str:
    if not cut.is_split:
        return await summarize(job, ask)
    prefix = await summarize_prefix(messages_of(cut.prefix), occasion.reserve, ask)
    if not job.messages and not cut.previous:
        job = replace(job, messages=tuple(messages_of(cut.prefix)))
    return f"{await summarize(job, ask)}\n\n## The turn that is going on\n\n{prefix}"


def _whole(
    summary: str,
    cut: Cut,
    held: Sequence[str],
    files: tuple[list[str], list[str]],
    settings: CompactionSettings,
    occasion: Occasion,
) -> str:
    """Return the summary with what is known for certain: pins, files, failures and the last turns, each bounded."""
    messages = messages_of(cut.left_out)
    parts: list[str] = []
    for title, names in zip(("Files read", "Files changed"), files, strict=True):
        if names:
            parts.append(f"## {title}\n\n" + _bounded("\n".join(f"- {name}" for name in names), FILES_CHARS // 2))
    if settings.is_safeguard and (wrong := failures(messages)):
        parts.append("## Recent tool failures\n\n" + "\n".join(f"- {line}" for line in wrong))
    if not occasion.last_resort and (recent := _recent(messages, settings.recent_turns)):
        parts.append("## Last exchanges before the cut\n\n" + "\n".join(recent))
    if occasion.rules:
        parts.append(f"## Rules from AGENTS.md, said again\n\n{occasion.rules}")
    certain = _bounded("\n\n".join(parts), _most(occasion) // 2)
    if held:  # these are cut for no window
        certain = f"{_standing(held)}\n\n{certain}".strip()
    room = max(_most(occasion) // 2, _most(occasion) - len(certain) - 2)
    return f"{_bounded(summary, room)}\n\n{certain}".strip()


def _standing(held: Sequence[str]) -> str:
    return "## Standing instructions of the owner, word for word\n\n" + "\n".join(f"- {pin}" for pin in held)


def _bounded(text: str, limit: int) -> str:
    mark = "\n[… the summary was cut here]"
    return text if len(text) <= limit else text[: limit - len(mark)] + mark


def _recent(messages: Sequence[Message], turns: int) -> list[str]:
    lines: list[str] = []
    for message in reversed(messages) if turns else ():
        if isinstance(message, User) and message.text.strip():
            lines.append(f"- Person: {single_line(message.text, RECENT_CHARS)}")
            if sum(line.startswith("- Person") for line in lines) >= turns:
                break
        elif not isinstance(message, User) and hasattr(message, "calls") and message.text.strip():
            lines.append(f"- Assistant: {single_line(message.text, RECENT_CHARS)}")
    return lines[::-1]


def _last_ask(messages: Sequence[Message]) -> str:
    asked = (message.text for message in reversed(messages) if isinstance(message, User) and message.text.strip())
    return next(asked, "")


def messages_of(entries: Sequence[Entry]) -> list[Message]:
    """Return what was said; what the runtime added to a turn rides on its message and is nobody's words."""
    messages: list[Message] = []
    speak(entries, messages)
    return messages


def _tail_tokens(entries: Sequence[Entry], first_kept: str) -> int:
    place = next((at for at, entry in enumerate(entries) if entry.id == first_kept), len(entries))
    return sum(estimate(message) for message in messages_of(entries[place:]))
