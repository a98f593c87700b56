"""What adapters share: secrets in files, blocks that hide themselves, connections that are made again, notes."""

import asyncio
import itertools
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from tests.channels.platform_host import RecordingHost

from homarus.channels.support import (
    Block,
    Note,
    keep_connected,
    reason,
    secret,
    settings_of,
    side_by_side,
    tls_context,
)
from homarus.core.clock import ManualClock
from homarus.core.errors import ChannelError, StorageError


class Own(Block, frozen=True):
    host: str
    port: int = 1
    pass_word: str = ""


def test_a_block_is_read_also_from_variables_and_never_shows_itself(tmp_path: Path) -> None:
    found = settings_of(
        RecordingHost(tmp_path, {"host": "h", "port": "7", "passWord": "wr0ng-word", "else": 1}), "own", Own
    )
    assert (found.port, found.pass_word) == (7, "wr0ng-word")
    assert "wr0ng-word" not in f"{found!r} {found}"
    for bad in ({}, {"host": 7}, {"host": "h", "port": "wr0ng-word"}):
        with pytest.raises(ChannelError) as caught:
            settings_of(RecordingHost(tmp_path, bad), "own", Own)
        assert caught.value.fatal and "channels.own" in str(caught.value) and "wr0ng-word" not in str(caught.value)


def test_a_secret_comes_from_its_key_or_from_an_ordinary_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(" s3cret\n")
    assert secret("given", str(file), "password") == "given"
    assert secret("", str(file), "password") == "s3cret"
    assert secret("", "", "password") == ""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for bad in ("pipe", "binary", "missing", "."):
        with pytest.raises(ChannelError, match="passwordFile") as caught:
            secret("", str(tmp_path / bad), "password")
        assert caught.value.fatal


def test_certificates_that_are_none_are_told_with_their_key(tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("none")
    with pytest.raises(ChannelError, match="caFile"):
        tls_context(str(tmp_path / "none.pem"))
    with pytest.raises(ChannelError, match="certFile"):
        tls_context("", str(tmp_path / "none.pem"))
    assert tls_context().verify_mode is ssl.CERT_REQUIRED
    assert tls_context() is not tls_context()


async def test_pauses_grow_until_a_connection_held_and_only_what_is_fatal_ends_it(tmp_path: Path) -> None:
    clock, host = ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), RecordingHost(tmp_path, {})
    ends: list[Exception | float] = [
        OSError(111, "Connection refused"),
        TimeoutError(),
        StorageError("full"),
        100.0,
        EOFError("gone"),
    ]
    began: list[float] = []

    async def session() -> None:
        began.append(clock.monotonic())
        if not ends:
            raise ChannelError("wrong token", fatal=True)
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        clock.advance(end)

    with pytest.raises(ChannelError, match="wrong token"):
        await keep_connected(session, host, clock, spread=lambda: 0.5)
    assert [then - now for now, then in itertools.pairwise(began)] == [1, 2, 4, 101, 2]
    assert host.troubles == [
        "Connection refused",
        "no answer in time",
        "full",
        "the server closed the connection",
        "gone",
    ]


async def test_what_runs_side_by_side_ends_together() -> None:
    ended = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    async def breaks() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await side_by_side(waits(), breaks())
    assert ended == [1]
    both = asyncio.create_task(side_by_side(waits(), waits()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    both.cancel()
    with pytest.raises(asyncio.CancelledError):
        await both
    assert ended == [1, 1, 1]


class Held(msgspec.Struct):
    number: int = 0


def test_a_note_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    note = Note(tmp_path / "new", "state.json")
    assert note.load(Held) is None
    note.write(Held(7))
    assert note.load(Held) == Held(7)
    assert (tmp_path / "new" / "state.json").stat().st_mode & 0o777 == 0o600
    for damage in (b"{", b'{"number":"x"}', b"[]"):
        (tmp_path / "new" / "state.json").write_bytes(damage)
        assert note.load(Held) is None


def test_reasons_are_one_line() -> None:
    assert reason(OSError(5, "broken\nline")) == "broken line"
    assert reason(ValueError()) == "ValueError"
