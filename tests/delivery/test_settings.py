"""Which conversations stream, and how: a channel's own word wins over what holds for all."""

import pytest

from homarus.delivery.place import Place
from homarus.delivery.settings import (
    BlockSwitch,
    ChunkSettings,
    CoalesceSettings,
    DeliverySettings,
    PreviewSettings,
    StreamingSettings,
    block_settings,
    preview_blocks,
    preview_mode,
    streams_blocks,
)

ON, OFF = DeliverySettings(block_streaming_default="on"), DeliverySettings()


def switched(enabled: bool | None, mode: str | None = None) -> StreamingSettings:
    return StreamingSettings(mode=mode, block=BlockSwitch(enabled))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("agent", "streaming", "channel", "expected"),
    [
        (OFF, switched(None), "telegram", False),
        (ON, switched(None), "telegram", True),
        (ON, switched(None), "discord", False),  # every channel but Telegram says so itself
        (OFF, switched(True), "discord", True),
        (ON, switched(False), "telegram", False),
        (ON, switched(None, "partial"), "telegram", False),  # a preview that was asked for wins over the default
        (ON, switched(True, "partial"), "telegram", True),
    ],
)
def test_who_streams_in_blocks(
    agent: DeliverySettings, streaming: StreamingSettings, channel: str, expected: bool
) -> None:
    assert streams_blocks(agent, streaming, channel) is expected


def test_blocks_are_never_longer_than_a_message_may_be() -> None:
    found = block_settings(OFF, StreamingSettings(), "irc", Place(limit=400))
    assert (found.least, found.most, found.join_least, found.join_most) == (400, 400, 400, 400)
    found = block_settings(OFF, StreamingSettings(), "matrix", Place(limit=4000))
    assert (found.least, found.most, found.join_least, found.join_most, found.idle_s) == (800, 1200, 800, 4000, 1.0)


def test_more_is_joined_where_short_messages_are_a_nuisance() -> None:
    assert block_settings(OFF, StreamingSettings(), "discord", Place(limit=2000)).join_least == 1500
    own = StreamingSettings(block=BlockSwitch(coalesce=CoalesceSettings(min_chars=10, max_chars=300, idle_ms=50)))
    found = block_settings(OFF, own, "discord", Place(limit=2000))
    assert (found.join_least, found.join_most, found.idle_s) == (10, 300, 0.05)


def test_bounds_that_contradict_each_other_are_put_right() -> None:
    agent = DeliverySettings(
        block_streaming_chunk=ChunkSettings(5000, 100), block_streaming_coalesce=CoalesceSettings(False)
    )
    found = block_settings(agent, StreamingSettings(), "x", Place())
    assert (found.least, found.most, found.join) == (100, 100, False)


@pytest.mark.parametrize(
    ("streaming", "edit", "expected"),
    [
        (switched(None), True, "off"),
        (switched(None, "partial"), True, "partial"),
        (switched(None, "progress"), False, "off"),
        (switched(True, "partial"), True, "off"),
    ],
)
def test_a_preview_needs_edits_and_no_blocks_beside_it(streaming: StreamingSettings, edit: bool, expected: str) -> None:
    assert preview_mode(OFF, streaming, "telegram", Place(edit=edit)) == expected


def test_previews_are_divided_as_configured() -> None:
    found = preview_blocks(StreamingSettings(), Place(limit=500))
    assert (found.least, found.most, found.join) == (200, 500, False)
    own = StreamingSettings(preview=PreviewSettings(ChunkSettings(10, 50, "newline")))
    found = preview_blocks(own, Place())
    assert (found.least, found.most, found.prefer) == (10, 50, "newline")
