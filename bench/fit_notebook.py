"""`python -m bench.fit_notebook`: fit the notebook's weights and write them down.

How well a line fits by its words is fitted to the sets of tests/models/notebook. A case is a question with the lines that the real search finds for it. Beside the questions about things never told stand
those about told things with the answering lines taken out (notes that speak of everything around the matter, and not of
it) and some of other people's, asked elsewhere. The model is a logistic regression over `Match`; whole sets are left out
in turn to see how it does on words it was not fitted to, and the least confidence that is said aloud is the one at which
few of these get a false or wrong answer. Beside it, for comparison: the nearest line by its cosine alone.
How much that counts beside what a reader says, and the least sum that is said aloud, is taken from five sets whose words
neither the thesaurus nor the weights know.
BENCH_MODELS names the folder with minilm/minilm-int8.onnx; what is not installed keeps the weights it has.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from bench.bench_notebook import SETS, Notebook, people, told
from homarus.core.messages import ToolResult
from homarus.models.notebook import evidence, match
from homarus.models.notebook.match import Match, Verdict, Weights

WRITTEN = Path(match.__file__).with_name("weights.json")
KINDS = {"words": "none", "static": "wordllama", "model": "minilm"}
COUNTS = {"told": 1.0, "taken out": 0.5, "never": 4.0, "elsewhere": 0.1}
START = Match(found=1.0, cosine=1.0)  # what the first round takes for the strongest lines
SMOOTH, ROUNDS, ELSEWHERE = 5.0, 3, 10
MAX_FALSE, MAX_WRONG = 0.05, 0.04
SETTLED = 100.0
# What a verdict goes by: neither the words and the weights of a fit nor the readers know these.
STRANGE = ("twentyfirst", "twentysecond", "twentythird", "twentyfifth", "twentysixth")
# Not fitted to, so that they go on telling what strangers would see.
HELD_OUT = {
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
    "twentieth",
    "twentyfourth",
    "twentyseventh",
    "twentyeighth",
}
SHARES = (0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.4, 2.0)  # of a line's fit beside a reader's word, to try
ALLOWED = (0.03, 0.05, 0.08)  # of the things never told
FIELDS = Match.__struct_fields__


class Case(Struct):
    name: str  # of the set
    kind: str
    features: Any  # a row per line
    answers: Any  # whether the line is an answer


Judged = list[tuple[str, float, bool]]  # of each case its kind, and the confidence and truth of its best line


def cases(provider: str, models: Path | None) -> Iterator[Case]:
    sets = {path.stem: people(path) for path in sorted(SETS.glob("*.txt")) if path.stem not in {*STRANGE, *HELD_OUT}}
    chance = Random(1)
    for name, persons in sets.items():
        others = [question for other in sets if other != name for one in sets[other] for question, _ in one.asked]
        for person in persons:
            with told(person, provider, models) as book:
                for question, wanted in person.asked:
                    lines = _lines(book, question)
                    right = [any(word in line.text.lower() for word in wanted) for line in lines]
                    yield _case(name, "told", question, lines, right)
                    yield _case(
                        name, "taken out", question, [x for x, yes in zip(lines, right, strict=True) if not yes]
                    )
                for question in person.never:
                    yield _case(name, "never", question, _lines(book, question))
                for question in chance.sample(others, ELSEWHERE):
                    yield _case(name, "elsewhere", question, _lines(book, question))


def _lines(book: Notebook, question: str) -> list[evidence.Line]:
    """Return what the searches of a turn find, as the notebook itself gathers it."""
    book.messages.clear()
    book.say(question)
    return evidence.gathered([one.text for one in book.messages if isinstance(one, ToolResult)])


def read_cases(provider: str, models: Path | None) -> Iterator[Case]:
    """Return the fit of the lines that are read for each question of the strange sets, and what the reader says."""
    for name in STRANGE:
        for person in people(SETS / f"{name}.txt"):
            with told(person, provider, models) as book:
                for question, wanted in [*person.asked, *((question, []) for question in person.never)]:
                    yield _read_case(name, question, wanted, book)


def _read_case(name: str, question: str, wanted: list[str], book: Notebook) -> Case:
    import numpy as np

    found = _lines(book, question)
    results = [one.text for one in book.messages if isinstance(one, ToolResult)]
    lines = evidence.judged(question, found, evidence.vectors(results), book.reader)
    # What settles a line beside fit and reading does so whatever these weigh.
    rows = [(one.fits, one.reads + SETTLED * (one.full + one.stated - 2 * one.another)) for one in lines]
    right = [any(word in one.line.text.lower() for word in wanted) for one in lines]
    kind = "told" if wanted else "never"
    return Case(name, kind, np.array(rows).reshape(-1, 2), np.array(right, dtype=bool))


def _case(name: str, kind: str, question: str, lines: list[evidence.Line], right: Sequence[bool] = ()) -> Case:
    import numpy as np

    rows = [astuple(one) for one in evidence.compared(question, lines)]
    return Case(
        name, kind, np.array(rows).reshape(-1, len(FIELDS)), np.array(right or [False] * len(lines), dtype=bool)
    )


def logistic(rows: Any, truth: Any, counts: Any) -> Any:
    """Return one weight per column and the base, by Newton's method; columns have one scale meanwhile."""
    import numpy as np

    mean, scale = rows.mean(0), rows.std(0) + 1e-9
    unit = np.c_[(rows - mean) / scale, np.ones(len(rows))]
    pull = np.diag([*([SMOOTH] * rows.shape[1]), 1e-6])
    found = np.zeros(unit.shape[1])
    for _ in range(25):
        sure = 1 / (1 + np.exp(-np.clip(unit @ found, -30, 30)))
        slope = unit.T @ (counts * (sure - truth)) + pull @ found
        found -= np.linalg.solve((unit * (counts * sure * (1 - sure))[:, None]).T @ unit + pull, slope)
    raw = found[:-1] / scale
    return np.r_[raw, found[-1] - raw @ mean]


def fit(known: Sequence[Case]) -> Any:
    """Fit to the best answer and the strongest wrong line of each case, which are others each time the weights are better."""
    import numpy as np

    found = np.array([*astuple(START), 0.0])
    for _ in range(ROUNDS):
        rows, truth, counts = [], [], []
        for case in known:
            order = np.argsort(-(case.features @ found[:-1]))
            chosen = [at for at in order if not case.answers[at]][:1] + [at for at in order if case.answers[at]][:1]
            rows += [case.features[at] for at in chosen]
            truth += [float(case.answers[at]) for at in chosen]
            counts += [COUNTS[case.kind]] * len(chosen)
        found = logistic(np.array(rows), np.array(truth), np.array(counts))
    return found


def judged(known: Sequence[Case], learn: Callable[[Sequence[Case]], Any] = fit) -> Judged:
    """Judge each case by weights that its set had no part in."""
    found = []
    for name in sorted({case.name for case in known}):
        made = learn([case for case in known if case.name != name])
        for case in known:
            if case.name == name:
                scores = [*(case.features @ list(made[:-1]) + made[-1]), -99.0]  # without any line nothing is said
                best = max(range(len(scores)), key=scores.__getitem__)
                found.append((case.kind, float(scores[best]), bool([*case.answers, False][best])))
    return found


def shares(found: Judged, least: float) -> dict[str, float]:
    """Return right and wrong of what was told, and false of each kind that was not."""
    made = {}
    for kind in COUNTS:
        said = [(score >= least, true) for name, score, true in found if name == kind]
        for truth in (True, False):
            made[f"{kind} {truth}"] = sum(aloud and true == truth for aloud, true in said) / max(1, len(said))
    return {"right": made["told True"], "wrong": made["told False"], **{k: made[f"{k} False"] for k in [*COUNTS][1:]}}


def drawn(found: Judged, most: float = MAX_FALSE) -> float:
    """Return the least confidence at which few of the things never told are answered, and few of the others wrongly."""
    scores = sorted({score for _, score, _ in found})

    def allowed(least: float) -> bool:
        these = shares(found, least)
        return these["wrong"] <= MAX_WRONG and these["never"] <= most

    return scores[min(bisect_left(scores, True, key=allowed), len(scores) - 1)]


def show(name: str, found: Judged) -> None:
    """Print what one gets for each share of the things never told that may be answered."""
    for most in (0.02, 0.05, 0.1, 0.15, 0.2):
        these = " ".join(f"{key} {value:.1%}" for key, value in shares(found, drawn(found, most)).items())
        print(f"  {name}: {these}", flush=True)


def alone(*names: str) -> Callable[[Sequence[Case]], Any]:
    """Return a rule that weighs nothing but these, all alike."""
    import numpy as np

    return lambda _: np.array([*(float(name in names) for name in FIELDS), 0.0])


def fits(known: list[Case]) -> Weights:
    found = judged(known)
    *values, base = (round(float(value), 2) for value in fit(known))
    show("by these parts", found)
    show("by the cosine alone", judged(known, alone("cosine")))
    show("by cosine and words", judged(known, alone("cosine", "found")))
    return Weights(Match(*values), base, round(drawn(found), 2))


def answers(known: list[Case]) -> Verdict:
    def by(share: float, reads: float = 1.0) -> Judged:
        return judged(known, lambda _: (share, reads, 0.0))

    def right(found: Judged) -> float:
        return sum(shares(found, drawn(found, most))["right"] for most in ALLOWED)

    best = max(SHARES, key=lambda share: right(by(share)))
    show("by fit and reader", by(best))
    show("by the fit alone", by(1.0, 0.0))
    show("by the reader alone", by(0.0))
    return Verdict(best, round(drawn(by(best)), 2))


def main() -> None:
    """`fits` and `answers` do one part; the second wants the first."""
    wanted = sys.argv[1:] or ["fits", "answers"]
    models = Path(os.environ["BENCH_MODELS"]) if os.environ.get("BENCH_MODELS") else None
    made = match.table()
    there = {"words": models is None, "static": models is None and find_spec("wordllama"), "model": models}
    for kind, provider in KINDS.items():
        if not there[kind]:
            continue
        if "fits" in wanted:
            made.fits[kind] = fits(list(cases(provider, models)))
            print(kind, made.fits[kind])
        if "answers" in wanted:
            name = "minilm" if kind == "model" else kind
            made.answers[name] = answers(list(read_cases(provider, models)))
            print(name, made.answers[name])
        WRITTEN.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")


if __name__ == "__main__":
    main()
