"""MiniLM as a reader: question and line go through it together. Made by `homarus memory export-minilm`; runs on ONNX Runtime.

The small reader is heard as well, on the lines that fit best: the two err on other questions, and together they are right more often.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from homarus.models.notebook.gloss import english
from homarus.models.notebook.reader import Reader, SmallReader

# The number rises with each new `data/reader.safetensors`: the verdicts in weights.json hold for that reader and no other.
MODEL, TOKENIZER = "reader-5.onnx", "tokenizer.json"
VECTORS = "minilm-int8.onnx"
MAX_TOKENS = 96
MOST = 24  # lines
THREADS = 2
SECOND = 0.4  # how much the small reader's word counts beside MiniLM's


def reader_in(models: Path | None) -> Reader:
    """Return the best reader there is: MiniLM where its file and its runtime are, else the small one."""
    folder = models / "minilm" if models else None
    if folder and (folder / MODEL).is_file() and find_spec("onnxruntime") and find_spec("tokenizers"):
        return MiniLMReader(folder)
    return SmallReader()


def lacking(models: Path) -> str:
    """Say why MiniLM does not read although its vectors are there; empty where it does, or was never made."""
    folder = models / "minilm"
    if not (folder / VECTORS).is_file() or not (find_spec("onnxruntime") and find_spec("tokenizers")):
        return ""
    if not (folder / MODEL).is_file():
        return f"{folder / MODEL} is not there: the notebook answers fewer questions without it"
    return "" if MiniLMReader(folder).name == "minilm" else f"{folder / MODEL} cannot be opened"


def together(sure: Sequence[float], second: Sequence[float]) -> list[float]:
    """Return what MiniLM says of each line, moved by the small reader's word on the first ones. Of the others it is taken to think no
    better than of the worst of those."""
    least = min(second)
    return [mine + SECOND * (second[at] if at < len(second) else least) for at, mine in enumerate(sure)]


class MiniLMReader:
    """Opens its file at the first question; one that cannot be opened leaves the reading to the small one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        return "minilm" if self._opened else SmallReader.name

    @property
    def most(self) -> int:
        return MOST if self._opened else SmallReader.most

    def read(self, question: str, lines: Sequence[str]) -> list[float]:
        second = SmallReader().read(question, lines if self._opened is None else lines[: SmallReader.most])
        if self._opened is None or not lines:
            return second
        import numpy as np

        session, tokenizer = self._opened
        asked = english(question)
        found = tokenizer.encode_batch([(asked, english(line)) for line in lines])
        feeds = {
            "input_ids": np.array([each.ids for each in found], dtype=np.int64),
            "attention_mask": np.array([each.attention_mask for each in found], dtype=np.int64),
            "token_type_ids": np.array([each.type_ids for each in found], dtype=np.int64),
        }
        sure = [float(value) for value in session.run(None, feeds)[0][:, 0]]
        return together(sure, second)

    @cached_property
    def _opened(self) -> tuple[Any, Any] | None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.log_severity_level = 3
        try:
            model = str(self._folder / MODEL)
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            tokenizer = Tokenizer.from_file(str(self._folder / TOKENIZER))
        except Exception:  # noqa: BLE001 - the libraries raise what they like for a damaged file
            return None
        tokenizer.enable_truncation(MAX_TOKENS)
        tokenizer.enable_padding()
        return session, tokenizer
