"""Cut a note into overlapping chunks with exact line ranges, as OpenClaw does. Pure; knows no Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from msgspec import Struct

CHARS_PER_TOKEN = 4
SMALLEST_CHUNK = 32


class Chunk(Struct, frozen=True):
    """A piece of a file: 1-based, inclusive lines, and the text that stands there."""

    start_line: int
    end_line: int
    text: str
    hash: str


def decode(data: bytes) -> str:
    """Return a note's text: UTF-8, UTF-16 with its mark, or what older Windows programs wrote.

    A note whose last character is still being written stays UTF-8; what fits nothing shows as replacement marks.
    """
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return data.decode("utf-16", "replace")
    text = data.decode("utf-8", "replace")
    if "\ufffd" not in text:
        return text
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as problem:
        torn = problem.start >= len(data) - 3
        if not torn and all(char <= "\x7f" or char == "\ufffd" for char in text) and b"\0" not in data:
            return data.decode("cp1252", "replace")
    return text


def split_lines(text: str) -> list[str]:
    """Return the lines as an editor numbers them: CRLF or LF, no byte-order mark, no empty line after the last newline."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def chunk_lines(lines: list[str], *, tokens: int = 400, overlap: int = 80) -> list[Chunk]:
    """Cut greedily at `tokens * 4` characters and carry back whole lines of at least `overlap * 4` characters.

    A line longer than a chunk is cut into slices that all keep its number. Every line is in at least one chunk, and no
    range ends after the last line.
    """
    return chunk_numbered(enumerate(lines, 1), tokens=tokens, overlap=overlap)


def chunk_numbered(lines: Iterable[tuple[int, str]], *, tokens: int = 400, overlap: int = 80) -> list[Chunk]:
    """Cut lines that bring their numbers with them, as the messages of a transcript do."""
    limit, carry = max(SMALLEST_CHUNK, tokens * CHARS_PER_TOKEN), max(0, overlap) * CHARS_PER_TOKEN
    chunks: list[Chunk] = []
    buffer: list[tuple[int, str]] = []
    size = 0
    for number, line in lines:
        for start in range(0, max(1, len(line)), limit):
            piece = line[start : start + limit]
            if buffer and size + len(piece) + 1 > limit:
                chunks.append(_emit(buffer))
                buffer = _carry(buffer, carry)
                size = sum(len(text) + 1 for _, text in buffer)
            buffer.append((number, piece))
            size += len(piece) + 1
    if buffer and any(text.strip() for _, text in buffer):
        chunks.append(_emit(buffer))
    return [chunk for chunk in chunks if chunk.text.strip()]


def _emit(buffer: list[tuple[int, str]]) -> Chunk:
    text = "\n".join(piece for _, piece in buffer)
    return Chunk(
        start_line=buffer[0][0],
        end_line=buffer[-1][0],
        text=text,
        hash=sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
    )


def _carry(buffer: list[tuple[int, str]], wanted: int) -> list[tuple[int, str]]:
    """Return the tail to repeat: whole lines until their sum reaches `wanted`, the one that crosses it included."""
    kept: list[tuple[int, str]] = []
    size = 0
    for number, piece in reversed(buffer):
        if size >= wanted:
            break
        kept.insert(0, (number, piece))
        size += len(piece) + 1
    return kept
