"""Which lines of the notes were asked for, when and by what words: what a night's dreaming goes by. Never part of an answer.

One JSONL file beside the index. It cannot be made again from the notes, and it may be lost: then nothing is promoted for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, ValidationError, convert

from homarus.core.errors import StorageError
from homarus.memory.results import Hit
from homarus.memory.terms import content_words, stem
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.jsonl import alone_with, append_shared, read_lines

FILE, MAX_BYTES, MAX_HITS = ".memory/recalls.jsonl", 1 << 20, 10
_log = logging.getLogger(__name__)


class Signal(Struct, frozen=True):
    """One line that answered one question. The words of both are kept as fingerprints only."""

    day: int
    query: str
    path: str
    text: str
    score: float


def fingerprint(text: str) -> str:
    return sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def note(workspace: Path, query: str, hits: Iterable[Hit], day: int) -> None:
    """Remember what a question brought up. It must never cost an answer: a failure is logged."""
    words = fingerprint(" ".join(sorted({stem(word) for word in content_words(query)})) or query)
    rows = [
        Signal(day, words, hit.path, fingerprint(line), round(hit.score, 4))
        for hit in list(hits)[:MAX_HITS]
        if hit.source == "memory" and not hit.origin
        for line in hit.text.splitlines()
        if line.strip()
    ]
    path = workspace / FILE
    try:
        ensure_dir(path.parent)
        append_shared(path, *rows, durable=False)
        if path.stat().st_size > MAX_BYTES:
            with alone_with(path):
                whole = path.read_bytes()
                write_atomic(path, whole[whole.find(b"\n", len(whole) // 2) + 1 :], lasting=False)
    except (StorageError, OSError) as problem:
        _log.warning("what was asked could not be noted: %s", problem)


def read(workspace: Path, since: int) -> Iterator[Signal]:
    path = workspace / FILE
    if not path.exists():
        return
    for line in read_lines(path):
        try:
            signal = convert(line.value, Signal)
        except ValidationError:
            continue
        if signal.day >= since:
            yield signal
