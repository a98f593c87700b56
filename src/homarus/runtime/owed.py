"""What of an answer its chat has not seen yet, told from the transcript alone. Pure.

An answer is known by the entry of the message that it answers: `<session>.<entry>`, then the number of the model's
message since then, then the number of the piece of it and a digest of its words. Whoever comes back after a crash finds
the same names, and the outbox takes each once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from homarus.core.messages import Assistant, StopReason, ToolResult, User
from homarus.delivery.sanitize import Visible, shape
from homarus.sessions.entry import Custom, Entry, MessageEntry

# A piece of a message that is being said: in the log before it is posted.
PIECE = "homarus.said"
# The key of what a turn that goes on after a crash is told about its own words.
TOLD = "#shown"
CUT = frozenset({StopReason.ERROR, StopReason.ABORTED})
_FENCES = ("```", "~~~")


class Said(Struct, frozen=True):
    """One of the model's messages, with the pieces of it that were posted before it was whole."""

    message: Assistant
    pieces: tuple[str, ...] = ()


class Answer(Struct, frozen=True):
    """What the log holds of the answer to some messages: where it begins, and the model's messages since then."""

    anchor: str
    said: tuple[Said, ...] = ()
    # What was posted of a message that is not there.
    pieces: tuple[str, ...] = ()
    # Texts that the agent sent by itself meanwhile, wherever it sent them.
    sent: tuple[str, ...] = ()
    # Whether the model's last word is there.
    ended: bool = False


def answer_in(entries: Iterable[Entry], keys: Collection[str]) -> Answer | None:
    """Return the answer to the messages with these keys, as far as it goes; None where none of them is in the log."""
    anchor, ended = "", False
    said, pieces, sent, asked = list[Said](), list[str](), list[str](), dict[str, str]()
    for entry in entries:
        if anchor and isinstance(entry, Custom) and entry.custom_type == PIECE:
            pieces.append(str((entry.data.get("data") or {}).get("text", "")))
        if not isinstance(entry, MessageEntry):
            continue
        message, own = entry.message, entry.keys
        if not anchor:
            anchor = entry.id if any(key in keys for key in own) else ""
        elif isinstance(message, Assistant):
            said.append(Said(message, tuple(pieces)))
            pieces, ended = [], not message.calls and message.stop_reason not in CUT
            asked |= {call.id: text for call in message.calls if (text := sent_text(call.name, call.arguments))}
        elif isinstance(message, ToolResult):
            sent += [asked[message.call_id]] if message.call_id in asked and not message.is_error else []
        elif isinstance(message, User) and own:
            if not any(key in keys or key.endswith(TOLD) for key in own):
                break  # somebody else's turn
            ended = False
    return Answer(anchor, tuple(said), tuple(pieces), tuple(sent), ended) if anchor else None


def sent_text(tool: str, arguments: dict[str, object]) -> str:
    """Return the words that a call brings to somebody; nothing for any other call."""
    if tool != "message" or arguments.get("action") not in {"send", "reply"}:
        return ""
    return next((str(arguments[name]) for name in ("message", "text", "content") if arguments.get(name)), "")


def shown_of(message: Assistant, sent: Iterable[str] = ()) -> Visible:
    """Return what a person may see of a model's message. One that was cut off is not shown, nor what was sent already."""
    if message.stop_reason in CUT:
        return Visible("")
    visible = shape(message.text)
    return Visible("", visible.directives) if _flat(visible.text) in {_flat(text) for text in sent} else visible


def rest_of(whole: str, shown: Sequence[str]) -> str:
    """Return what of a text is still to be shown after these pieces of it.

    Blanks do not count, nor does a fence that was closed and opened again where a piece ended.
    """
    at = 0
    for line in (line.strip() for piece in shown for line in piece.splitlines()):
        reached = _after(whole, at, line)
        if reached >= 0:
            at = reached
        elif not line.startswith(_FENCES):
            return _unseen(whole, shown)
    return whole[at:].strip()


def _flat(text: str) -> str:
    return "".join(text.split())


def _after(whole: str, at: int, line: str) -> int:
    """Return where a text goes on behind a line, blanks aside; -1 where it does not go on like that."""
    for letter in line:
        if letter.isspace():
            continue
        while at < len(whole) and whole[at].isspace():
            at += 1
        if at >= len(whole) or whole[at] != letter:
            return -1
        at += 1
    return at


def _unseen(whole: str, shown: Sequence[str]) -> str:
    """Return the paragraphs that nobody saw, where the pieces do not fit the text."""
    seen = "".join(_flat(piece) for piece in shown)
    return "\n\n".join(part for part in _paragraphs(whole) if _flat(part) not in seen)


def _paragraphs(text: str) -> Iterator[str]:
    return (part for part in text.split("\n\n") if part.strip())
