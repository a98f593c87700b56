"""`python -m bench.fit_small`: teach the notebook's reader that needs nothing but Python, on bench/notebook_people, and write it down.

`--go-on` starts from what it has learnt so far. Wants what `bench.fit_reader` wants; an hour on one core.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
import torch.nn.functional as fn
from msgspec import Struct
from torch import nn

from bench.fit_reader import Asked, MiniLM, everybody, loss_of, questions, show, tokenizer
from homarus.models.notebook import reader
from homarus.models.notebook.pieces import pieces, vocabulary

WRITTEN = Path(reader.__file__).with_name("reader.bin")
LINES, QUESTIONS = 5, 64  # lines of a question, questions of a step
CHUNK = 50 * QUESTIONS


class Row(Struct):
    """A question with some lines, in pieces, and which of them answers it (their number: none)."""

    question: tuple[int, ...]
    lines: list[tuple[int, ...]]
    answer: int


def row(asked: Asked) -> Row:
    """Return a question with the line that answers, three of the nearest others, and one that is a little farther."""
    near = [at for at in asked.order[:13] if at != asked.answer]
    lines = [] if asked.answer is None else [asked.answer]
    lines += random.sample(near[:5], min(3, len(near[:5])))
    lines += random.sample(near[5:], min(LINES - len(lines), len(near[5:])))
    answer = len(lines) if asked.answer is None else 0
    return Row(pieces(asked.question), [pieces(asked.person.told[at]) for at in lines], answer)


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
            (self.asked, asked, met, there, reader.ASKED_SIZE),
            (self.told, told, back, here, reader.TOLD_SIZE),
        ):
            beside = torch.cat([own, found, own * found, (own - found).abs()], -1)
            compared = fn.relu(part(self.drop(beside))) * mask[..., None]
            seen += [compared.sum(1) / size, compared.amax(1)]
        both = fn.relu(self.both(self.drop(torch.cat(seen, -1))))
        return self.verdict(self.drop(both)).squeeze(-1)

    def scored(self, group: list[Row]) -> Any:
        asked = [one.question for one in group for _ in one.lines]
        return self(
            _ids(asked, reader.MOST_ASKED), _ids([line for one in group for line in one.lines], reader.MOST_TOLD)
        )

    @torch.no_grad()
    def take(self, path: Path) -> None:
        """Go on from what was written before."""
        head, _, body = path.read_bytes().partition(b"\n")
        parts, at = {}, 0
        for name, height, width, scale in msgspec.json.decode(head):
            values = np.frombuffer(body[at : at + height * width], np.int8).reshape(height, width) * scale
            parts[name], at = torch.from_numpy(values.astype(np.float32)), at + height * width
        self.words.copy_(parts["words"])
        self.around.weight.copy_(torch.cat([parts[name] for name in ("before", "here", "after")], 1))
        self.around.bias.copy_(parts["here base"][0])
        self.own.weight.copy_(parts["asks"])
        self.kinds.copy_(torch.cat([parts["asks base"], parts["tells base"]]))
        for name in ("look", "asked", "told", "both", "verdict"):
            layer = getattr(self, name)
            layer.weight.copy_(parts[name])
            layer.bias.copy_(parts[f"{name} base"][0])

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
    base, known = MiniLM(0).eval(), tokenizer().get_vocab()
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


def teach(rows: list[Row], model: Small, minutes: float, *, go_on: bool) -> None:
    """Learn for so long, each step with questions of like length; the rate rises at first and falls to nothing."""
    rows = [one for one in rows if len(one.lines) == LINES]
    others = [value for name, value in model.named_parameters() if name != "words"]
    most = (3e-4, 1e-3) if go_on else (6e-4, 2e-3)
    step = torch.optim.AdamW([{"params": [model.words], "weight_decay": 0.0}, {"params": others}], weight_decay=0.01)
    began, done, losses = time.time(), 0, []
    end = began + 60 * minutes
    while True:
        random.shuffle(rows)
        for start in range(0, len(rows) - CHUNK + 1, CHUNK):
            near = sorted(rows[start : start + CHUNK], key=lambda one: len(one.question) + max(map(len, one.lines)))
            groups = [near[at : at + QUESTIONS] for at in range(0, len(near), QUESTIONS)]
            random.shuffle(groups)
            for group in groups:
                left = (end - time.time()) / (60 * minutes)
                if left <= 0:
                    model.eval()
                    return
                for each, rate in zip(step.param_groups, most, strict=True):
                    each["lr"] = rate * min(1.0, (1 - left) / 0.03, left)
                loss = loss_of(model.scored(group).view(len(group), LINES), [one.answer for one in group])
                step.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                step.step()
                done += 1
                losses.append(loss.item())
                if done % 500 == 0:
                    mean = sum(losses[-500:]) / 500
                    print(f"{done} steps: {mean:.3f}, {time.time() - began:.0f} s of {60 * minutes:.0f}", flush=True)


@torch.inference_mode()
def judge(model: Small) -> None:
    """Show how it does on the people that nobody learnt from."""
    asked = questions(everybody()[1], MiniLM(0).eval(), tokenizer(), others=False)
    lines = [one.order[: reader.SmallReader.most] for one in asked]
    found: list[float] = []
    for one, those in zip(asked, lines, strict=True):
        told = [pieces(one.person.told[at]) for at in those]
        found += model.scored([Row(pieces(one.question), told, 0)]).flatten().tolist()
    show(asked, found, lines)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--minutes", type=float, default=60)
    given.add_argument("--go-on", action="store_true", help="start from what it has learnt so far")
    given.add_argument("--size", type=int, default=64, help="numbers of a word")
    given.add_argument("--width", type=int, default=96)
    asked_for = given.parse_args()
    torch.set_num_threads(1)
    random.seed(1)
    torch.manual_seed(1)
    rows = [row(one) for one in questions(everybody()[0], MiniLM(0).eval(), tokenizer(), others=True)]
    model = Small(first_words(asked_for.size), asked_for.width, 0.1)
    if asked_for.go_on:
        model.take(WRITTEN)
    teach(rows, model, asked_for.minutes, go_on=asked_for.go_on)
    model.write(WRITTEN)
    judge(model)


if __name__ == "__main__":
    main()
