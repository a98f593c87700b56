"""`python -m bench.fit_asks`: learn to tell a question without its mark from a line that tells something, and write the weights down.

Learnt from what the people of bench/notebook_people ask and tell and from the short notes beside them; files that end in 05 are kept apart to judge by.
To take a note for a question is the worse mistake: a line that tells counts as much as several questions. Wants scikit-learn, which the
project itself does not need; a minute.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from bench.bench_notebook import PEOPLE, people
from homarus.models.notebook import asks

WRITTEN = Path(asks.__file__).with_name("asks.json")
SHORT = PEOPLE.with_name("notebook_short.txt")
SELDOM = 4  # times that a sign must occur
STRICT = 0.5  # the less, the fewer signs count
TELLS = 4.0  # what a line that tells counts beside a question
LIMITS = (asks.MAYBE, asks.SURE)


def lines(*, judge: bool) -> tuple[list[str], list[str]]:
    """Return what is asked and what is told, to learn from or to judge by."""
    asked, told = [], []
    for path in sorted(PEOPLE.glob("*.txt")):
        if path.stem.endswith("05") is judge:
            for person in people(path):
                asked += [*(question for question, _ in person.asked), *person.never]
                told += [line for line in person.told if not line.rstrip().endswith("?")]
    short = SHORT.read_text(encoding="utf-8").splitlines()
    told += [line for at, line in enumerate(short) if (at % 10 == 5) is judge]
    return asked, told


def main() -> None:
    random.seed(1)
    asked, told = lines(judge=False)
    told = [line.rstrip(".") if random.random() < 0.4 else line for line in told]
    seen = Counter(sign for line in asked + told for sign in asks.signs(line))
    known = {sign: at for at, sign in enumerate(sign for sign, times in seen.items() if times >= SELDOM)}

    def rows(texts: list[str]) -> Any:
        at, ends = [], [0]
        for text in texts:
            at += [known[sign] for sign in asks.signs(text) if sign in known]
            ends.append(len(at))
        return csr_matrix((np.ones(len(at)), at, ends), shape=(len(texts), len(known)))

    model = LogisticRegression(l1_ratio=1, C=STRICT, solver="liblinear", class_weight={0: TELLS, 1: 1.0})
    model.fit(rows(asked + told), [1] * len(asked) + [0] * len(told))
    weights = {sign: round(float(model.coef_[0][at]), 2) for sign, at in known.items()}
    kept = {"": round(float(model.intercept_[0]), 2)} | {
        sign: weights[sign] for sign in sorted(weights) if weights[sign]
    }
    WRITTEN.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    asks.weights.cache_clear()
    print(f"{len(kept)} signs")
    for name, texts in zip(("asked", "told"), lines(judge=True), strict=True):
        found = sorted(map(asks.asks, texts))
        shares = ", ".join(f"{sum(one >= least for one in found) / len(found):.2%} from {least}" for least in LIMITS)
        print(f"{name}, of {len(texts)}: {shares}")


if __name__ == "__main__":
    main()
