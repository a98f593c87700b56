"""`python -m bench.fit_notebook`: fit the notebook's weights to the sets of tests/models/notebook and write them down.

A case is a question with the lines that the real search finds for it. To the questions about things never told come those
about told things with the answering lines taken out: notes that speak of everything around the matter, and not of it. The
model is a logistic regression over `Match` and `Near`; whole sets are left out in turn to see how it does on words it was not
fitted to, and the least confidence that is said aloud is the one at which few of these get a false or wrong answer.
BENCH_MODELS names the folder with minilm/minilm-int8.onnx; what is not installed keeps the weights it has.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from bench.bench_notebook import SETS, Notebook, people, told
from homarus.core.messages import ToolResult
from homarus.models.notebook import evidence, match
from homarus.models.notebook.language import read
from homarus.models.notebook.match import Match, Near, Weights

WRITTEN = Path(match.__file__).with_name("weights.json")
KINDS = {"words": "none", "static": "wordllama", "model": "minilm"}
COUNTS = {"told": 1.0, "taken out": 0.5, "never": 2.0}
# What the parts should weigh as far as one can say by thinking; the sets move it, the less the larger SMOOTH is.
PRIOR = [
    *astuple(Match(1.5, -2.5, -2.0, 1.0, 0.0, 0.0, 0.0, 0.0, -3.0, 0.7, -0.8, -1.0)),
    *astuple(Near(1.0, 1.0, 4.0, 3.0)),
    -3.0,
]
SMOOTH, ROUNDS, HARD = 20.0, 2, 1
MAX_FALSE, MAX_WRONG = 0.05, 0.04
HELD_OUT = {"twelfth"}  # never fitted to, so that it goes on telling what strangers would see


class Case(Struct):
    name: str  # of the set
    kind: str
    features: Any  # a row per line
    answers: Any  # whether the line is an answer


def cases(provider: str, models: Path | None) -> list[Case]:
    import numpy as np

    found = []
    for path in sorted(path for path in SETS.glob("*.txt") if path.stem not in HELD_OUT):
        for person in people(path):
            with told(person, provider, models) as book:
                for question, wanted in [*person.asked, *((question, []) for question in person.never)]:
                    lines = _lines(book, question)
                    answers = np.array(
                        [any(word in line.text.lower() for word in wanted) for line in lines], dtype=bool
                    )
                    kept = [line for line, yes in zip(lines, answers, strict=True) if not yes]
                    kind = "told" if wanted else "never"
                    found.append(Case(path.stem, kind, _features(question, lines), answers))
                    if wanted and kept:
                        found.append(Case(path.stem, "taken out", _features(question, kept), np.zeros(len(kept), bool)))
    return found


def _lines(book: Notebook, question: str) -> list[evidence.Line]:
    """Return what the searches of a turn find, as the notebook itself gathers it."""
    book.messages.clear()
    book.say(question)
    return evidence.gathered([one.text for one in book.messages if isinstance(one, ToolResult)])


def _features(question: str, lines: Sequence[evidence.Line]) -> Any:
    import numpy as np

    pairs = [(line.text, read(line.text)) for line in lines]
    said = match.matches(read(question), pairs, match.aliases([line.text for line in lines]))
    near = match.nearness([(line.cosine or 0.0, line.bare) for line in lines])
    rows = [[*astuple(one), *astuple(close)] for one, close in zip(said, near, strict=True)]
    return np.array(rows).reshape(-1, len(PRIOR) - 1)


def logistic(rows: Any, truth: Any, counts: Any) -> Any:
    """Return one weight per column and the base, drawn to the prior, by Newton's method; columns have one scale meanwhile."""
    import numpy as np

    mean, scale = rows.mean(0), rows.std(0) + 1e-9
    unit = np.c_[(rows - mean) / scale, np.ones(len(rows))]
    pull = np.diag([*([SMOOTH] * rows.shape[1]), 1e-6])
    prior = np.r_[np.array(PRIOR[:-1]) * scale, 0.0]
    found = np.zeros(unit.shape[1])
    for _ in range(40):
        sure = 1 / (1 + np.exp(-np.clip(unit @ found, -30, 30)))
        slope = unit.T @ (counts * (sure - truth)) + pull @ (found - prior)
        found -= np.linalg.solve((unit * (counts * sure * (1 - sure))[:, None]).T @ unit + pull, slope)
    raw = found[:-1] / scale
    return np.r_[raw, found[-1] - raw @ mean]


def fit(known: Sequence[Case]) -> Any:
    """Fit to the best answer and the strongest wrong lines of each case, which are others each time the weights are better."""
    import numpy as np

    found = np.array(PRIOR)
    for _ in range(ROUNDS):
        rows, truth, counts = [], [], []
        for case in known:
            order = np.argsort(-(case.features @ found[:-1]))
            chosen = [at for at in order if not case.answers[at]][:HARD] + [at for at in order if case.answers[at]][:1]
            rows += [case.features[at] for at in chosen]
            truth += [float(case.answers[at]) for at in chosen]
            counts += [COUNTS[case.kind]] * len(chosen)
        found = logistic(np.array(rows), np.array(truth), np.array(counts))
    return found


def judged(known: Sequence[Case]) -> list[tuple[str, float, bool]]:
    """Return of each case its kind, and the confidence and truth of its best line by weights that its set had no part in."""
    found = []
    for name in sorted({case.name for case in known}):
        made = fit([case for case in known if case.name != name])
        for case in known:
            if case.name == name:
                scores = [*(case.features @ made[:-1] + made[-1]), -99.0]  # without any line nothing is said
                best = max(range(len(scores)), key=scores.__getitem__)
                found.append((case.kind, float(scores[best]), bool([*case.answers, False][best])))
    return found


def shares(found: Sequence[tuple[str, float, bool]], least: float) -> tuple[float, float, float, float]:
    """Return right and wrong of what was told, false of what was never told, and false where the answer was taken out."""

    def share(kind: str, *truths: bool) -> float:
        of = [(score, true) for name, score, true in found if name == kind]
        return sum(score >= least and true in truths for score, true in of) / max(1, len(of))

    return share("told", True), share("told", False), share("never", False), share("taken out", False)


def main() -> None:
    models = Path(os.environ["BENCH_MODELS"]) if os.environ.get("BENCH_MODELS") else None
    made: dict[str, Weights] = msgspec.json.decode(WRITTEN.read_bytes(), type=dict[str, Weights])
    for kind, provider in KINDS.items():
        if (kind == "static" and not find_spec("wordllama")) or (kind == "model" and models is None):
            continue
        known = cases(provider, models)
        found = judged(known)
        least = min(
            (score for _, score, _ in found if _allowed(shares(found, score))),
            default=max(score for _, score, _ in found),
        )
        *values, base = (round(float(value), 2) for value in fit(known))
        parts = len(Match.__struct_fields__)
        near = Near() if kind == "words" else Near(*values[parts:])
        made[kind] = Weights(Match(*values[:parts]), near, base, round(least, 2))
        print(
            kind,
            made[kind],
            "\n  right {:.1%} wrong {:.1%} false {:.1%}, taken out {:.1%}".format(*shares(found, least)),
        )
    WRITTEN.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")


def _allowed(these: tuple[float, float, float, float]) -> bool:
    return these[1] <= MAX_WRONG and these[2] <= MAX_FALSE


if __name__ == "__main__":
    main()
