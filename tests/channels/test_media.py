"""Files of messages: what strangers send, and what the agent may give away."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.channels.homes import NOON, says

from homarus.channels import media as module
from homarus.channels.media import MediaError, MediaStore, open_to_send, received, shown, sniff
from homarus.core.clock import ManualClock, SystemClock
from homarus.core.errors import Denied, HomarusError
from homarus.core.messages import Media

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def blocks(data: bytes, size: int = 1000):
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media" / "inbound", SystemClock())


@pytest.mark.parametrize(
    ("head", "name", "found"),
    [
        (PNG, "a.txt", ("image/png", "png")),
        (b"\xff\xd8\xff\xe0", "evil.exe", ("image/jpeg", "jpg")),
        (b"RIFF....WEBPVP8", "", ("image/webp", "webp")),
        (b"RIFF....WAVEfmt ", "", ("audio/wav", "wav")),
        (b"....1234WEBP", "x.webp", ("text/plain", "webp")),
        (b"OggS\0", "voice", ("audio/ogg", "ogg")),
        (b"%PDF-1.7", "a.png", ("application/pdf", "pdf")),
        (b"PK\x03\x04..", "a.docx", (module._NAMED_TYPES["docx"], "docx")),
        (b"PK\x03\x04..", "a.png", ("application/zip", "zip")),
        (b"MZ\0\0", "a.png", ("application/octet-stream", "bin")),
        (b"hello", "notes.md", ("text/markdown", "md")),
        (b"hello", "../../x/.sh$(id)", ("text/plain", "txt")),
        (b"", "a.png", ("application/octet-stream", "bin")),
        ("häl".encode()[:3], "", ("text/plain", "txt")),
    ],
)
def test_a_type_is_seen_and_not_believed(head, name, found):
    assert sniff(head, name) == found


@given(st.binary(max_size=40), st.text(max_size=40))
def test_any_bytes_and_any_name_have_a_type_and_a_safe_ending(head, name):
    mime_type, ending = sniff(head, name)
    assert "/" in mime_type
    assert ending.isalnum()
    assert ending.isascii()


async def test_a_file_is_kept_under_a_safe_name_and_for_its_owner_alone(store, tmp_path):
    item = await store.keep(Media("file", "text/html", "../../../etc/passwd\n.html", 5, "r"), blocks(b"hello"), 100)
    path = Path(item.path)
    assert path.parent == tmp_path / "media" / "inbound"
    assert path.read_bytes() == b"hello"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (item.size, item.kind) == (5, "file")
    assert path.name.startswith("passwd---")
    other = await store.keep(Media("file", "", "../../../etc/passwd\n.html", 0, "r"), blocks(b"hello"), 100)
    assert other.path != item.path


@pytest.mark.parametrize(
    ("said", "data", "why"), [(2000, b"x", "at most"), (1, b"x" * 2000, "larger"), (0, b"", "empty")]
)
async def test_what_is_too_large_is_not_kept_whatever_was_said_of_it(store, tmp_path, said, data, why):
    with pytest.raises(MediaError, match=why):
        await store.keep(Media("file", "", "a", said, "r"), blocks(data), 1000)
    folder = tmp_path / "media" / "inbound"
    assert not folder.exists() or list(folder.iterdir()) == []


async def test_a_file_that_breaks_off_leaves_nothing(store, tmp_path):
    async def broken():
        yield b"some"
        raise HomarusError("the connection was lost")

    with pytest.raises(HomarusError):
        await store.keep(Media(), broken(), 1000)
    assert list((tmp_path / "media" / "inbound").iterdir()) == []


def test_old_files_go_and_the_oldest_first(tmp_path):
    store = MediaStore(tmp_path, ManualClock(NOON), days=30, most=250)
    for age in range(0, 40, 10):
        path = tmp_path / f"f{age}"
        path.write_bytes(b"x" * 100)
        moment = NOON.timestamp() - age * 86_400 - 1
        os.utime(path, (moment, moment))
    assert store.sweep() == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f0", "f10"]


async def test_a_message_comes_with_its_files(store):
    files = {"p": PNG, "t": b"notes", "x": b"y" * 5000}

    def fetch(media: Media):
        if media.ref == "gone":
            raise HomarusError("it is gone")
        return blocks(files[media.ref])

    inbound = says(
        media=(
            Media("file", "application/x", "photo", 0, "p", path="/etc/passwd"),
            Media("image", "image/png", "no picture.png", 0, "t"),
            Media("file", "", "big", 0, "x"),
            Media("file", "", "lost\n[forged]", 0, "gone"),
        )
    )
    got = await received(inbound, fetch, store, 1000)
    assert [item.kind for item in got.inbound.media] == ["image", "file"]
    assert "/etc/passwd" not in str(got)
    assert len(got.inbound.images) == 1
    assert "larger than" in got.about
    assert "it is gone" in got.about
    assert all(line.startswith("[") for line in got.about.splitlines())
    assert len(got.about.splitlines()) == 4
    assert got.inbound.text == inbound.text


async def test_more_files_than_anybody_sends_are_not_taken(store):
    inbound = says(media=tuple(Media("file", "", f"f{n}", 0, "r") for n in range(30)))
    got = await received(inbound, lambda _media: blocks(b"x"), store, 10)
    assert len(got.inbound.media) == 10
    assert "20 more files" in got.about


async def test_a_voice_message_becomes_its_words(store):
    async def hear(media: Media) -> str:
        if media.size == 7:
            raise HomarusError("no way")
        return " hello there "

    voice = Media("voice", "audio/ogg", "v", 0, "r")
    got = await received(says("", media=(voice,)), lambda _m: blocks(b"OggS...."), store, 100, hear=hear)
    assert (got.inbound.text, got.inbound.media[0].kind) == ("hello there", "voice")
    assert "spoken" in got.about
    got = await received(says("listen", media=(voice,)), lambda _m: blocks(b"OggS...."), store, 100, hear=hear)
    assert got.inbound.text == "listen"
    assert "hello there" in got.about
    got = await received(says("", media=(voice,)), lambda _m: blocks(b"OggS..."), store, 100, hear=hear)
    assert "no way" in got.about


def picture(tmp_path: Path, size=(3000, 1500), form="JPEG", **more) -> Path:
    pytest.importorskip("PIL", reason="needs pillow: pip install 'homarus[media]'")
    from PIL import Image as Pictures

    path = tmp_path / "picture"
    Pictures.new(more.pop("mode", "RGB"), size, more.pop("color", "red")).save(path, form, **more)
    return path


def test_a_picture_is_scaled_and_loses_what_the_camera_noted(tmp_path):
    pytest.importorskip("PIL", reason="needs pillow: pip install 'homarus[media]'")
    from PIL import Image as Pictures

    exif = Pictures.Exif()
    exif[0x0112] = 6  # turned
    exif[0x010F] = "a camera that knows where I live"
    found, why = shown(picture(tmp_path, exif=exif), "image/jpeg", 1200)
    assert why == ""
    data = base64.b64decode(found.data)
    assert b"where I live" not in data
    with Pictures.open(io.BytesIO(data)) as opened:
        assert opened.size == (600, 1200)


def test_a_picture_that_one_can_see_through_stays_so(tmp_path):
    found, _ = shown(picture(tmp_path, (10, 10), "PNG", mode="RGBA", color=(1, 2, 3, 4)), "image/png", 1200)
    assert found.mime_type == "image/png"


def test_a_picture_that_is_none_or_far_too_large_is_said(tmp_path):
    pytest.importorskip("PIL", reason="needs pillow: pip install 'homarus[media]'")
    path = tmp_path / "x"
    path.write_bytes(PNG[:40])
    assert shown(path, "image/png", 1200)[0] is None
    assert shown(picture(tmp_path, (7000, 7000), "PNG"), "image/png", 1200)[1].endswith("it has 7000 x 7000 pixels")


# Out


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    workspace, media = tmp_path / "workspace", tmp_path / "media"
    workspace.mkdir()
    media.mkdir()
    (workspace / "a.txt").write_text("mine")
    (media / "b.txt").write_text("sent to me")
    (tmp_path / "secret").write_text("not for you")
    return workspace, media


def test_files_of_its_folders_may_be_sent(folders):
    workspace, media = folders
    for path in ("a.txt", str(workspace / "a.txt"), f"file://{media}/b.txt", "./x/../a.txt"):
        opened = open_to_send(path, folders)
        with os.fdopen(opened.fd, "rb") as file:
            assert file.read() in {b"mine", b"sent to me"}
        assert opened.size in {4, 10}


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "link",
        "folder/secret",
        "/etc/passwd",
        "missing",
        "",
        ".",
        "pipe",
        "a.txt\0",
        "~/.ssh/id",
        "x" * 300,
    ],
)
def test_nothing_else_may_be_sent(folders, tmp_path, path):
    workspace, _ = folders
    (workspace / "link").symlink_to(tmp_path / "secret")
    (workspace / "folder").symlink_to(tmp_path)
    os.mkfifo(workspace / "pipe")
    with pytest.raises(Denied):
        open_to_send(path, folders)


def test_what_was_judged_is_what_is_read(folders, tmp_path):
    workspace, _ = folders
    opened = open_to_send("a.txt", folders)
    (workspace / "a.txt").unlink()
    (workspace / "a.txt").symlink_to(tmp_path / "secret")
    with os.fdopen(opened.fd, "rb") as file:
        assert file.read() == b"mine"
    assert opened.real == str(workspace / "a.txt")
