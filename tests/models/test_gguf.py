"""GGUF heads and the models folder."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.errors import ConfigError
from homarus.models.gguf import GgufInfo, NotGguf, find_models, locate, read_info


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def head(*pairs: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(pairs)) + b"".join(pairs)


PAIRS = (
    text("general.architecture") + struct.pack("<I", 8) + text("llama"),
    text("some.flag") + struct.pack("<I?", 7, True),
    text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc"),
    text("scores") + struct.pack("<IIQ", 9, 6, 3) + struct.pack("<fff", 1, 2, 3),
    text("llama.context_length") + struct.pack("<II", 4, 8192),
    text("general.name") + struct.pack("<I", 8) + text("Tiny"),
    text("tokenizer.chat_template") + struct.pack("<I", 8) + text("{{ x }}"),
)


def test_facts(tmp_path: Path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(head(*PAIRS) + b"weights")
    assert read_info(path) == GgufInfo("Tiny", "llama", 8192, has_template=True)
    path.write_bytes(head())
    assert read_info(path) == GgufInfo("tiny")


@pytest.mark.parametrize(
    "data", [b"", b"GGUF", b"GGML" + bytes(40), head(*PAIRS)[:80], head(PAIRS[0], version=1), b"GGUF" + b"\xff" * 20]
)
def test_other_files(tmp_path: Path, data: bytes):
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    with pytest.raises(NotGguf):
        read_info(path)


@given(cut=st.integers(0, len(head(*PAIRS)) - 1))
def test_a_cut_head_is_never_believed(tmp_path_factory: pytest.TempPathFactory, cut: int):
    path = tmp_path_factory.mktemp("g") / "x.gguf"
    path.write_bytes(head(*PAIRS)[:cut])
    with pytest.raises(NotGguf):
        read_info(path)


def test_folder(tmp_path: Path):
    assert find_models(None) == find_models(tmp_path / "none") == []
    for age, name in enumerate(
        ["old.gguf", "new.gguf", "big-00001-of-00002.gguf", "big-00002-of-00002.gguf", "x.part"]
    ):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    assert [path.name for path in find_models(tmp_path)] == ["big-00001-of-00002.gguf", "new.gguf", "old.gguf"]
    assert locate("new", tmp_path) == locate("new.gguf", tmp_path) == tmp_path / "new.gguf"
    assert locate(str(tmp_path / "old.gguf"), None) == tmp_path / "old.gguf"
    for name in ("nope", "../new", "/etc/nope"):
        with pytest.raises(ConfigError, match="no local model"):
            locate(name, tmp_path)
