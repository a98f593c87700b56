"""Fit weights on some notebooks and measure them on others: a linear softmax over the candidates of each question.

Few parameters, a weak pull towards zero, and nothing chosen by looking at the questions that are measured. Packing here is
the plain rule (best value for its price, skip what does not fit); `homarus memory bench` also merges and collapses lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bench.memory.collect import Asked

BUDGETS = (500, 1000, 2000)
AROUND = ((400, 450, 500, 550, 600, 700), (850, 1000, 1200))  # tokens; one budget alone is too coarse to climb on
FAR, LEAD = 0.004, 200
STEPS, RATE, PULL, SHARPNESS, MISSES = 70, 0.12, 2e-3, 4.0, 12


def fit(questions: Sequence[Asked], names: Sequence[str]) -> dict[str, float]:
    """Return the weights under which the evidence of these questions is likeliest to stand first."""
    signals, evidence, absent = _padded([asked for asked in questions if asked.evidence.any()], names)
    wanted = evidence / evidence.sum(1, keepdims=True)
    weights = np.full(len(names), 0.3, dtype=np.float32)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):  # Adam
        scores = SHARPNESS * (signals @ weights) + absent
        chances = np.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        slope = SHARPNESS * np.einsum("nk,nkf->f", chances - wanted, signals) / len(signals) + 2 * PULL * weights
        mean = 0.9 * mean + 0.1 * slope
        square = 0.999 * square + 0.001 * slope * slope
        weights = weights - RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return dict(zip(names, map(float, weights), strict=True))


def climb(
    questions: Sequence[Asked], names: Sequence[str], start: Mapping[str, float], price: float
) -> dict[str, float]:
    """Return weights moved step by step from `start` as long as recall around 500 tokens, and a little less at 1,000, rises.

    Notebooks count alike whatever their number of questions, questions with several lines once more, and to go far costs.
    """
    start = {name: weight for name, weight in start.items() if all(name in asked.names for asked in questions)}
    signals, evidence, absent = _padded(questions, list(start))
    costs = np.full(evidence.shape, 1e6, dtype=np.float32)
    for at, asked in enumerate(questions):
        costs[at, : len(asked.costs)] = asked.costs
    base = signals @ np.array(list(start.values()), dtype=np.float32) + absent - price * np.log(costs)
    lead = np.argsort(-base, axis=1)[:, :LEAD]
    base, costs, evidence = (np.take_along_axis(part, lead, 1) for part in (base, costs, evidence))
    own = np.take_along_axis(signals[:, :, [list(start).index(name) for name in names]], lead[:, :, None], 1)
    totals = np.array([asked.total for asked in questions])
    origin = np.array([start[name] for name in names], dtype=np.float32)
    parts = [np.array([asked.source == one for asked in questions]) for one in sorted({a.source for a in questions})]

    def value(weights: np.ndarray) -> float:
        order = np.argsort(-(base + own @ (weights - origin)), axis=1, kind="stable")
        spent = np.cumsum(np.take_along_axis(costs, order, 1), 1)
        found = np.take_along_axis(evidence, order, 1)
        low, high = (
            np.mean([(found * (spent <= budget)).sum(1) / totals for budget in budgets], axis=0) for budgets in AROUND
        )
        each = [
            (2 * low[part] + high[part]).mean() / 3
            + (0.3 * low[part & (totals > 1)].mean() if (part & (totals > 1)).any() else 0)
            for part in parts
        ]
        return float(np.mean(each) - FAR * np.sum(((weights - origin) / np.maximum(0.3, np.abs(origin))) ** 2))

    weights, best = origin, value(origin)
    for step in (0.2, 0.2, 0.1, 0.1, 0.05, 0.05):
        for at in range(len(names)):
            for move in (step, -step):
                other = weights.copy()
                other[at] += move
                if (reached := value(other)) > best + 1e-5:
                    weights, best = other, reached
                    break
    return dict(zip(names, map(float, weights), strict=True))


def _padded(questions: Sequence[Asked], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    longest = max(len(asked.costs) for asked in questions)
    signals = np.zeros((len(questions), longest, len(names)), dtype=np.float32)
    evidence = np.zeros((len(questions), longest), dtype=np.float32)
    absent = np.full((len(questions), longest), -1e9, dtype=np.float32)
    for at, asked in enumerate(questions):
        count = len(asked.costs)
        signals[at, :count] = asked.signals[:, [asked.names.index(name) for name in names]]
        evidence[at, :count] = asked.evidence
        absent[at, :count] = 0
    return signals, evidence, absent


def measure(asked: Asked, weights: Mapping[str, float], price: float) -> list[float]:
    """Return recall within each budget, recall in the first ten lines, and the reciprocal rank."""
    names = [name for name in asked.names if weights.get(name)]
    scores = asked.signals[:, [asked.names.index(name) for name in names]] @ np.array(
        [weights[name] for name in names], dtype=np.float32
    )
    order = np.argsort(-(scores - price * np.log(asked.costs)), kind="stable")
    found = [_within(asked, order, budget) for budget in BUDGETS]
    ranks = np.nonzero(asked.evidence[np.argsort(-scores, kind="stable")])[0]
    return [*found, float((ranks < 10).sum() / asked.total), float(1 / (ranks[0] + 1)) if len(ranks) else 0.0]


def _within(asked: Asked, order: np.ndarray, budget: int) -> float:
    spent = got = missed = 0
    for at in order:
        if spent + asked.costs[at] > budget:
            missed += 1
            if missed >= MISSES:
                break
            continue
        spent += asked.costs[at]
        got += bool(asked.evidence[at])
    return float(got / asked.total)


def left_out(
    books: Mapping[str, Sequence[Asked]], fitted_on: Callable[[list[Asked]], dict[str, float]], price: float
) -> tuple[dict[str, list[list[float]]], dict[str, float]]:
    """Measure each notebook with weights fitted on all the others; also return the mean of those weights."""
    results, fitted = {}, []
    for name, questions in books.items():
        weights = fitted_on([asked for other, found in books.items() if other != name for asked in found])
        fitted.append(weights)
        results[name] = [measure(asked, weights, price) for asked in questions]
    return results, {name: sum(weights[name] for weights in fitted) / len(fitted) for name in fitted[0]}
