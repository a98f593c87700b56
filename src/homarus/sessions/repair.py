"""One pure, total function from any list of messages to a history that providers accept. It changes no file.

Calls and results are paired per frame and per occurrence: an id may come again in a later turn, and its results must
not be lost for that. `repair(repair(x)) == repair(x)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.messages import (
    Assistant,
    Image,
    Message,
    Part,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from homarus.core.patterns import late
from homarus.sessions.codec import SYNTHETIC, is_synthetic

MISSING_RESULT = (
    "No result of this call is in the session's history; this note stands in its place. It may or may not have run."
)
FAILED_TURN = "[This answer failed before it was complete.]"
EMPTY_USER = "(empty message)"
EMPTY_RESULT = "(no output)"
OPENING = "(The start of this conversation is not shown.)"

_NAME = late(r"[A-Za-z0-9_.-]{1,64}")
_ID = late(r"[A-Za-z0-9_-]{1,40}")
_NOT_ID = late(r"[^A-Za-z0-9_-]")
CUT = frozenset({StopReason.ERROR, StopReason.ABORTED})
# Rows that record what was delivered; the answer itself stands beside them.
_MIRRORS = frozenset({"delivery-mirror", "gateway-injected"})


class Rules(Struct, frozen=True):
    """What one family of providers insists on. The defaults satisfy all of them."""

    alternate: bool = True
    """User and assistant take turns: neighbours of one role are merged."""
    user_first: bool = True
    """The first message is a user's."""
    plain_ids: bool = True
    """Call ids are short, plain and unique in the whole request, and tool names have no dot."""
    drop_prefill: bool = False
    """The last message is not an assistant's without calls."""
    missing_result: str = MISSING_RESULT


STRICT = Rules()
ANTHROPIC = Rules()
OPENAI = Rules(alternate=False, user_first=False)
# For adapters that bring neighbours of one role together themselves, so that the bytes of each stay as they were sent.
APART = Rules(alternate=False)
# Responses ids carry meaning to the provider, and it wants this word for a result that never came.
OPENAI_RESPONSES = Rules(alternate=False, user_first=False, plain_ids=False, missing_result="aborted")


def repair(
    messages: Iterable[Message], rules: Rules = STRICT, *, used: AbstractSet[str] = frozenset()
) -> tuple[Message, ...]:
    """Return a valid history; one that is valid comes out as it went in, message by message.

    `used` holds call ids that stand before these messages in the same request.
    """
    clean = [done for message in messages if (done := _clean(message)) is not None]
    paired = _settle_turns(_pair(clean, rules))
    if rules.plain_ids:
        paired = _rename(paired, used)
    if rules.alternate:
        paired = _merge(paired)
    if rules.drop_prefill:
        while paired and isinstance(last := paired[-1], Assistant) and not last.calls:
            paired.pop()
    if rules.user_first and paired and not isinstance(paired[0], User):
        paired.insert(0, User(parts=(Text(OPENING),), timestamp=paired[0].timestamp))
    return tuple(paired)


def missing_results(calls: Iterable[ToolCall], now: int, text: str = MISSING_RESULT) -> list[ToolResult]:
    return [_synthetic(call, text, now) for call in calls]


def open_calls(messages: Iterable[Message]) -> list[ToolCall]:
    """Return the calls of the last frame that have no result yet, in order: what the append guard must answer first."""
    pending: list[ToolCall] = []
    for message in messages:
        if isinstance(message, Assistant) and (calls := message.calls):
            pending = [] if message.stop_reason in CUT else list(calls)
        elif isinstance(message, ToolResult):
            match = next((call for call in pending if call.id == message.call_id), None)
            if match:
                pending.remove(match)
    return pending


def _clean(message: Message) -> Message | None:
    """Return a message with the parts that its role may have, or None when nothing of it is left."""
    if isinstance(message, Assistant):
        if message.provider == "openclaw" and message.model in _MIRRORS:
            return None
        named = [_named(part) if isinstance(part, ToolCall) else part for part in message.parts]
        said = tuple([part for part in named if _may_say(part)])
        return _with_parts(message, said) if said else None
    parts = tuple([part for part in message.parts if _may_carry(part)])
    return _with_parts(message, parts or (Text(EMPTY_USER if isinstance(message, User) else EMPTY_RESULT),))


def _may_carry(part: Part) -> bool:
    if isinstance(part, Text):
        return part.text != "" and not part.text.isspace()
    return isinstance(part, Image)


def _may_say(part: Part) -> bool:
    if isinstance(part, Text):
        return not _blank(part.text)
    if isinstance(part, ToolCall):
        return not _blank(part.id) and _NAME.fullmatch(part.name) is not None
    return isinstance(part, Thinking)


def _named(call: ToolCall) -> ToolCall:
    """Return a call under the name that providers take for its own: without blanks around it or colons in it."""
    name = call.name.strip().replace(":", "_")
    return call if name == call.name else ToolCall(call.id, name, call.arguments)


def _blank(text: str) -> bool:
    return not text or text.isspace()


def _with_parts(message: Message, parts: tuple[Part, ...]) -> Message:
    return message if len(parts) == len(message.parts) and parts == message.parts else replace(message, parts=parts)


class _Slot:
    """One call at its place among the parts, and the result that was found for it."""

    __slots__ = ("call", "place", "result")

    def __init__(self, place: int, call: ToolCall) -> None:
        self.place = place
        self.call = call
        self.result: ToolResult | None = None

    def is_open(self, *, to_real: bool) -> bool:
        return self.result is None or (to_real and is_synthetic(self.result))


class _Frame:
    """An assistant message with calls, and everything up to the next such message."""

    __slots__ = ("assistant", "others", "results", "slots")

    def __init__(self, assistant: Assistant | None) -> None:
        self.assistant = assistant
        parts = assistant.parts if assistant else ()
        self.slots = [_Slot(place, part) for place, part in enumerate(parts) if isinstance(part, ToolCall)]
        self.results: list[ToolResult] = []
        self.others: list[Message] = []

    def claim(self) -> list[ToolResult]:
        """Give each call its result, real ones first, and return the results that belong to no call here."""
        if len(self.slots) == 1 == len(self.results) and self.slots[0].call.id == self.results[0].call_id:
            self.slots[0].result = self.results[0]
            return []
        stray: list[ToolResult] = []
        own = {slot.call.id for slot in self.slots}
        for result in sorted(self.results, key=is_synthetic):
            ident = self._id_of(result)
            slot = next((s for s in self.slots if s.result is None and s.call.id == ident), None)
            if slot:
                slot.result = result
            elif ident not in own:
                stray.append(result)
        return stray

    def _id_of(self, result: ToolResult) -> str:
        """Return the call that a result names; one that names none can only be of the one call that there is."""
        if result.call_id.strip() or len(self.slots) != 1:
            return result.call_id
        call = self.slots[0].call
        return call.id if result.tool_name.strip().replace(":", "_") in {"", call.name} else ""


def _pair(messages: Sequence[Message], rules: Rules) -> list[Message]:
    frames = [_Frame(None)]
    for message in messages:
        if isinstance(message, Assistant) and message.calls:
            frames.append(_Frame(message))
        elif isinstance(message, ToolResult):
            frames[-1].results.append(message)
        else:
            frames[-1].others.append(message)
    _place_strays(frames, [result for frame in frames for result in frame.claim()])
    out: list[Message] = []
    for frame in frames:
        out += _frame_messages(frame, rules)
        out += frame.others
    return out


def _place_strays(frames: list[_Frame], strays: list[ToolResult]) -> None:
    """Move a result to the one open call anywhere that has its id; where two could be meant, it is left out.

    A call is also open to a real result while only a note stands in its place.
    """
    slots = [slot for frame in frames for slot in frame.slots]
    for result in sorted(strays, key=is_synthetic):
        real = not is_synthetic(result)
        waiting = [s for s in slots if s.call.id == result.call_id and s.is_open(to_real=real)]
        if len(waiting) == 1:
            waiting[0].result = result


def _frame_messages(frame: _Frame, rules: Rules) -> list[Message]:
    assistant = frame.assistant
    if assistant is None:
        return []
    slots = frame.slots
    if assistant.stop_reason in CUT:
        # A cut stream: a call with a real result did run and the model must know; the others never began.
        slots = [slot for slot in slots if slot.result is not None and not is_synthetic(slot.result)]
    if not slots:
        words = tuple(part for part in assistant.parts if not isinstance(part, ToolCall))
        return [replace(assistant, parts=words)] if words else []
    kept = {slot.place for slot in slots}
    parts = tuple(p for place, p in enumerate(assistant.parts) if not isinstance(p, ToolCall) or place in kept)
    out: list[Message] = [_with_parts(assistant, parts)]
    for slot in slots:
        result = slot.result or _synthetic(slot.call, rules.missing_result, assistant.timestamp)
        right = result.call_id == slot.call.id and result.tool_name == slot.call.name
        out.append(result if right else replace(result, call_id=slot.call.id, tool_name=slot.call.name))
    return out


def _synthetic(call: ToolCall, text: str, timestamp: int) -> ToolResult:
    return ToolResult(call.id, call.name, (Text(text),), timestamp, is_error=True, details={SYNTHETIC: True})


def _settle_turns(messages: list[Message]) -> list[Message]:
    """Drop assistant turns that say nothing, and turn the remains of a failed one into one short mark."""
    out: list[Message] = []
    for message in messages:
        if not isinstance(message, Assistant) or message.calls:
            out.append(message)
            continue
        said = any(isinstance(part, Text) for part in message.parts)
        if not said:
            continue  # thinking alone is no turn
        if message.stop_reason is StopReason.ERROR:
            message = replace(message, parts=(Text(FAILED_TURN),), stop_reason=StopReason.STOP, error="", usage=Usage())
        out.append(message)
    return out


def _rename(messages: list[Message], used: AbstractSet[str]) -> list[Message]:
    """Give each call an id that is plain and new in this request, and its result the same one."""
    out: list[Message] = []
    taken: set[str] = set()
    queue: list[tuple[str, str]] = []  # new ids (and names) of the results that follow, in order
    for message in messages:
        if isinstance(message, Assistant) and message.calls:
            parts = []
            queue = []
            for part in message.parts:
                if isinstance(part, ToolCall):
                    ident, name = _fresh_id(part.id, used, taken), part.name.replace(".", "_")
                    queue.append((ident, name))
                    if (ident, name) != (part.id, part.name):
                        part = ToolCall(ident, name, part.arguments)
                parts.append(part)
            message = _with_parts(message, tuple(parts))
        elif isinstance(message, ToolResult) and queue:
            ident, name = queue.pop(0)
            if (ident, name) != (message.call_id, message.tool_name):
                message = replace(message, call_id=ident, tool_name=name)
        out.append(message)
    return out


def _fresh_id(ident: str, used: AbstractSet[str], taken: set[str]) -> str:
    plain = ident if _ID.fullmatch(ident) else _NOT_ID.sub("_", ident)[-40:]
    name, count = plain, 1
    while name in used or name in taken:
        count += 1
        suffix = f"_{count}"
        name = plain[: 40 - len(suffix)] + suffix
    taken.add(name)
    return name


def _merge(messages: list[Message]) -> list[Message]:
    out: list[Message] = []
    for message in messages:
        last = out[-1] if out else None
        if isinstance(message, User) and isinstance(last, User):
            carried = (Text(last.context),) if last.context.strip() else ()
            out[-1] = replace(message, parts=(*last.parts, *carried, *message.parts))
        elif isinstance(message, Assistant) and isinstance(last, Assistant):
            # Thinking in the middle of a turn would belong to another answer than the provider signed.
            words = (part for part in last.parts if not isinstance(part, Thinking))
            out[-1] = replace(message, parts=(*words, *message.parts))
        else:
            out.append(message)
    return out
