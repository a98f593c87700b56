"""What the configuration says about showing replies, with all defaults in one place."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from homarus.delivery.chunk import Break
from homarus.delivery.place import Place

Count = Annotated[int, Meta(ge=0)]
Mode = Literal["off", "partial", "block", "progress"]
# Where short messages in a row are a nuisance, more is joined before it is sent.
_JOINED = ("discord", "slack", "signal", "msteams", "mattermost", "googlechat")
_NATURAL_MS = (800, 2500)
WORKING = "⏳ Working…"


class ChunkSettings(Struct, frozen=True, rename="camel"):
    min_chars: Count | None = None
    max_chars: Count | None = None
    break_preference: Break = "paragraph"


class CoalesceSettings(Struct, frozen=True, rename="camel"):
    enabled: bool = True
    min_chars: Count | None = None
    max_chars: Count | None = None
    idle_ms: Count | None = None


class HumanDelay(Struct, frozen=True, rename="camel"):
    """A pause between blocks, as somebody makes who types."""

    mode: Literal["off", "natural", "custom"] = "off"
    min_ms: Count | None = None
    max_ms: Count | None = None

    def seconds(self, chance: float) -> float:
        """Return how long to pause, for a number from 0 to 1."""
        if self.mode == "off":
            return 0.0
        low, high = _NATURAL_MS
        if self.mode == "custom":
            low = low if self.min_ms is None else self.min_ms
            high = max(low, high if self.max_ms is None else self.max_ms)
        return (low + (high - low) * chance) / 1000


class DeliverySettings(Struct, frozen=True, rename="camel"):
    """Keys of `agents.defaults` (and of an agent's own entry)."""

    block_streaming_default: Literal["on", "off"] = "off"
    block_streaming_break: Literal["text_end", "message_end"] = "text_end"
    block_streaming_chunk: ChunkSettings = ChunkSettings()
    block_streaming_coalesce: CoalesceSettings = CoalesceSettings()
    human_delay: HumanDelay = HumanDelay()
    # Unset means at once where the agent was spoken to, and with the first words in a group where it was not.
    typing_mode: Literal["never", "instant", "thinking", "message"] | None = None
    typing_interval_seconds: Annotated[float, Meta(gt=0)] = 6.0


class BlockSwitch(Struct, frozen=True, rename="camel"):
    enabled: bool | None = None
    coalesce: CoalesceSettings | None = None


class PreviewSettings(Struct, frozen=True, rename="camel"):
    chunk: ChunkSettings = ChunkSettings()
    # Whether the preview says which tools are at work before there are words to show.
    tool_progress: bool = True


class ProgressSettings(Struct, frozen=True, rename="camel"):
    """What a preview says of the tools at work: a title, and the newest of them below it."""

    max_lines: Count = 8
    max_line_chars: Count = 120
    label: str | bool = "auto"

    @property
    def title(self) -> str:
        """Return the line above the tools; nothing where it is switched off."""
        if isinstance(self.label, bool):
            return WORKING if self.label else ""
        return WORKING if self.label == "auto" else self.label


class StreamingSettings(Struct, frozen=True, rename="camel"):
    """`channels.<id>.streaming` and that of an account."""

    mode: Mode | None = None
    chunk_mode: Literal["length", "newline"] | None = None
    block: BlockSwitch = BlockSwitch()
    preview: PreviewSettings = PreviewSettings()
    progress: ProgressSettings = ProgressSettings()


class BlockSettings(Struct, frozen=True):
    """How one conversation streams: everything settled, nothing left to look up."""

    enabled: bool = False
    at_end: bool = False
    least: int = 800
    most: int = 1200
    prefer: Break = "paragraph"
    join: bool = True
    join_least: int = 800
    join_most: int = 4000
    idle_s: float = 1.0
    delay: HumanDelay = HumanDelay()


def block_settings(agent: DeliverySettings, streaming: StreamingSettings, channel: str, place: Place) -> BlockSettings:
    """Return how replies stream in blocks to a place. No block is longer than a message there may be."""
    chunk, joined = agent.block_streaming_chunk, streaming.block.coalesce or agent.block_streaming_coalesce
    most = max(1, min(chunk.max_chars or 1200, place.limit))
    least = min(800 if chunk.min_chars is None else chunk.min_chars, most)
    usual = 1500 if channel in _JOINED and streaming.block.coalesce is None else least
    join_most = max(1, min(joined.max_chars or place.limit, place.limit))
    return BlockSettings(
        enabled=streams_blocks(agent, streaming, channel),
        at_end=agent.block_streaming_break == "message_end",
        least=least,
        most=most,
        prefer=chunk.break_preference,
        join=joined.enabled,
        join_least=min(usual if joined.min_chars is None else joined.min_chars, join_most),
        join_most=join_most,
        idle_s=(1000 if joined.idle_ms is None else joined.idle_ms) / 1000,
        delay=agent.human_delay,
    )


def streams_blocks(agent: DeliverySettings, streaming: StreamingSettings, channel: str) -> bool:
    """Say whether replies go out in blocks. The default is for Telegram; every other channel says so itself.

    A preview that was asked for wins over the default, and the channel's own switch wins over both.
    """
    if streaming.block.enabled is not None:
        return streaming.block.enabled
    return agent.block_streaming_default == "on" and channel == "telegram" and (streaming.mode or "off") == "off"


def preview_mode(agent: DeliverySettings, streaming: StreamingSettings, channel: str, place: Place) -> Mode:
    """Return how a reply is shown while it is written: only where messages can be edited, and never beside blocks."""
    if not place.edit or streams_blocks(agent, streaming, channel):
        return "off"
    return streaming.mode or "off"


def preview_blocks(streaming: StreamingSettings, place: Place) -> BlockSettings:
    """Return how a preview of the mode `block` is divided: what is complete stays, and a new preview goes on."""
    chunk = streaming.preview.chunk
    most = max(1, min(chunk.max_chars or 800, place.limit))
    least = min(200 if chunk.min_chars is None else chunk.min_chars, most)
    return BlockSettings(enabled=True, least=least, most=most, prefer=chunk.break_preference, join=False)
