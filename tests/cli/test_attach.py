"""What goes with a message: files, pictures and what comes through a pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from homarus.cli.agent import MAX_TEXT, Attached, attach
from homarus.core.errors import HomarusError

PNG = b"\x89PNG\r\n\x1a\nrest"


def test_words_alone_and_piped_text_alone_are_the_message() -> None:
    assert attach("hello", ()) == Attached("hello")
    assert attach("", (), b"hello\n") == Attached("hello")


def test_piped_text_beside_words_is_named() -> None:
    made = attach("summarise", (), b"a\nb\n")
    assert made == Attached("summarise", '<file name="standard input">\na\nb\n</file>')


@pytest.mark.parametrize("words", ["what is this", ""])
def test_a_picture_through_a_pipe_goes_as_a_picture(words: str) -> None:
    made = attach(words, (), PNG)
    assert (made.words, made.files) == (words, "")
    assert [image.mime_type for image in made.images] == ["image/png"]


@pytest.mark.parametrize(
    "data", [b"\x1f\x8b\x08\x00 an archive", bytes(100), b"caf\xe9 \x01"], ids=["archive", "zeros", "latin"]
)
@pytest.mark.parametrize("words", ["what is this", ""])
def test_other_data_through_a_pipe_is_refused(words: str, data: bytes) -> None:
    with pytest.raises(HomarusError, match="standard input is neither text nor a picture"):
        attach(words, (), data)


def test_files_are_named_and_pictures_go_as_pictures(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("the notes")
    (tmp_path / "p.png").write_bytes(PNG)
    made = attach("look", (tmp_path / "n.txt", tmp_path / "p.png"))
    assert (made.words, made.files) == ("look", f'<file name="{tmp_path}/n.txt">\nthe notes\n</file>')
    assert [image.mime_type for image in made.images] == ["image/png"]


@pytest.mark.parametrize(
    ("encoding", "said"), [("utf-8-sig", ""), ("utf-16", "UTF-16"), ("utf-32", "UTF-32"), ("latin-1", "Windows-1252")]
)
def test_a_text_in_another_encoding_is_read_and_the_model_is_told_which(
    tmp_path: Path, encoding: str, said: str
) -> None:
    path, text = tmp_path / "n.txt", "Grüße aus Köln"
    path.write_bytes(text.encode(encoding))
    note = f"[{path} was read as {said}]\n\n" if said else ""
    assert attach("look", (path,)).files == f'{note}<file name="{path}">\n{text}\n</file>'
    made = attach("", (), path.read_bytes())
    assert made == Attached(text, f"[standard input was read as {said}]" if said else "")


def test_what_cannot_be_sent_is_named(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"\xff\x00\xfe")
    (tmp_path / "large").write_text("x" * (MAX_TEXT + 1))
    for name, words in (("b", "neither text nor a picture"), ("large", "larger than"), ("gone", "cannot read")):
        with pytest.raises(HomarusError, match=words):
            attach("x", (tmp_path / name,))


def run(home: Path, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-m", "homarus", "agent", "--model", "builtin/notebook", *words]
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    return subprocess.run(line, env=env, capture_output=True, text=True, check=False, **given)


def test_a_message_needs_no_option_and_a_pipe_goes_along(tmp_path: Path) -> None:
    done = run(tmp_path, "Remember that the gate code is 4711.")
    assert (done.returncode, done.stderr) == (0, "")
    assert "4711" in done.stdout
    sent = run(tmp_path, "summarise", stdin="the boiler was serviced\n")
    assert sent.returncode == 0
    transcript = next((tmp_path / ".openclaw/agents/main/sessions").glob("*.jsonl")).read_text()
    assert '<file name=\\"standard input\\">\\nthe boiler was serviced\\n</file>' in transcript
    assert run(tmp_path, "twice", "-m", "over").returncode == 2
    assert "nothing to say" in run(tmp_path).stderr
