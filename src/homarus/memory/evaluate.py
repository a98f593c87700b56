"""Measure recall without a judge: each question names the lines that hold its answer; are they in what we return?

Every returned line is charged a quarter of its characters, in order, until the budget is spent; so a system that returns
much text pays for it. Reads LoCoMo's JSON (each dialog turn becomes a line of a daily note) and our own small format.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from homarus.core.clock import Clock, SystemClock
from homarus.core.errors import ConfigError
from homarus.memory.memory import Memory
from homarus.memory.results import Hit

BUDGETS = (500, 1000, 2000)
DEPTH = 120
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
SAMPLE = Path(__file__).parent / "data" / "sample.json"
_FORMATS = ("%I:%M %p on %d %B, %Y", "%I:%M %p on %d %B %Y")
Evidence = frozenset[tuple[str, int]]


class Question(Struct, frozen=True):
    text: str
    group: str
    evidence: Evidence


class Notebook(Struct, frozen=True):
    name: str
    files: dict[str, list[str]]
    questions: list[Question]


def load(path: Path | None = None) -> list[Notebook]:
    """Read a data set; without a path the small one that comes with the package."""
    try:
        data = json.loads((path or SAMPLE).read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ConfigError(f"{path} is no JSON: {problem}", cure="give a LoCoMo-format file") from problem
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise ConfigError(f"{path} holds no list of conversations", cure="give a LoCoMo-format file")
    return [_conversation(item) if "conversation" in item else _own(item) for item in data]


def _own(item: dict[str, Any]) -> Notebook:
    questions = [
        Question(q["question"], q.get("group", "all"), frozenset((path, line) for path, line in q["evidence"]))
        for q in item["questions"]
    ]
    return Notebook(item["name"], item["files"], questions)


def _conversation(item: dict[str, Any]) -> Notebook:
    """Render a conversation as daily notes, one line per turn; questions without usable evidence are left out."""
    talk = item["conversation"]
    days: dict[str, list[tuple[datetime, int]]] = {}
    for number in range(1, 1 + sum(key.endswith("_date_time") for key in talk)):
        if talk.get(f"session_{number}"):
            when = _moment(talk[f"session_{number}_date_time"])
            days.setdefault(when.strftime("%Y-%m-%d"), []).append((when, number))
    files: dict[str, list[str]] = {}
    where: dict[str, tuple[str, int]] = {}
    for day, sessions in sorted(days.items()):
        path = f"memory/{day}.md"
        lines = files[path] = [f"# {day}"]
        for when, number in sorted(sessions):
            lines += ["", f"## Session {number} ({when.strftime('%H:%M')})"]
            for turn in talk[f"session_{number}"]:
                text = _flat(turn.get("text"))
                caption = _flat(turn.get("blip_caption"))
                text = f"{text} [image: {caption}]".strip() if caption else text
                lines.append(f"- {turn['speaker']}: {text}")
                where[_dialog(turn["dia_id"])] = (path, len(lines))
    questions = []
    for q in item["qa"]:
        found = re.findall(r"D:?(\d+):(\d+)", " ".join(map(str, q.get("evidence") or [])))
        evidence = frozenset(where[key] for a, b in found if (key := f"D{int(a)}:{int(b)}") in where)
        if q["category"] in CATEGORIES and evidence:
            questions.append(Question(_flat(q["question"]), CATEGORIES[q["category"]], evidence))
    return Notebook(str(item.get("sample_id", "conversation")), files, questions)


def _moment(text: str) -> datetime:
    for form in _FORMATS:
        try:
            return datetime.strptime(text.strip(), form)  # noqa: DTZ007 - the data has no zone, and only the day counts
        except ValueError:
            continue
    raise ConfigError(f"'{text}' is no session date", cure="LoCoMo writes '1:56 pm on 8 May, 2023'")


def _dialog(text: str) -> str:
    return re.sub(r"^D(\d+):0*(\d+)$", lambda m: f"D{int(m[1])}:{int(m[2])}", text)


def _flat(text: Any) -> str:
    return " ".join(str(text or "").split())


def recall_within(hits: Sequence[Hit], evidence: Evidence, files: dict[str, list[str]], budget: int) -> float:
    """Return the share of evidence lines seen when every returned line is paid for, in order."""
    spent = 0
    got: set[tuple[str, int]] = set()
    for hit in hits:
        lines = files.get(hit.path, [])
        for number in range(hit.start_line, min(hit.end_line, len(lines)) + 1):
            spent += (len(lines[number - 1]) + 1 + 3) // 4
            if spent > budget:
                return len(got) / len(evidence)
            if (hit.path, number) in evidence:
                got.add((hit.path, number))
    return len(got) / len(evidence)


def score(memory: Memory, question: Question, files: dict[str, list[str]]) -> dict[str, float]:
    out: dict[str, float] = {}
    for budget in BUDGETS:
        answer = memory.recall(question.text, k=DEPTH, budget_tokens=budget)
        out[f"recall@{budget}tok"] = recall_within(answer.hits, question.evidence, files, budget)
    ranks = [
        rank
        for rank, place in enumerate(_places(memory.ranking(question.text, DEPTH)), 1)
        if place in question.evidence
    ]
    for k in (5, 10, 20):
        out[f"recall@{k}"] = sum(rank <= k for rank in ranks) / len(question.evidence)
    out["mrr"] = 1 / ranks[0] if ranks else 0.0
    return out


def _places(hits: Sequence[Hit]) -> Iterator[tuple[str, int]]:
    for hit in hits:
        yield hit.path, hit.start_line


def run(
    path: Path | None = None,
    *,
    provider: str = "auto",
    limit: int | None = None,
    clock: Clock | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    models: Path | None = None,
) -> dict[str, Any]:
    clock = clock or SystemClock()
    notebooks = load(path)
    total = sum(len(book.questions[:limit]) for book in notebooks)
    rows: list[tuple[str, dict[str, float]]] = []
    times: list[float] = []
    lines = 0
    name = ""
    for book in notebooks:
        with tempfile.TemporaryDirectory(prefix="homarus-bench-") as folder:
            write(book, Path(folder))
            with Memory.open(folder, provider=provider, clock=clock, models=models) as memory:
                memory.sync()
                lines += memory.status().lines
                name = " ".join(memory.identity).strip()
                for question in book.questions[:limit]:
                    started = clock.monotonic()
                    memory.recall(question.text, k=DEPTH)
                    times.append((clock.monotonic() - started) * 1000)
                    rows.append((question.group, score(memory, question, book.files)))
                    if progress:
                        progress(len(rows), total, book.name)
    groups = {"all": [row for _, row in rows]}
    for group, row in rows:
        groups.setdefault(group, []).append(row)
    times.sort()
    return {
        "provider": name,
        "lines": lines,
        "p50_ms": times[len(times) // 2] if times else 0.0,
        "groups": {group: _mean(found) for group, found in groups.items() if found},
    }


def write(book: Notebook, folder: Path) -> None:
    for path, lines in book.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {"n": len(rows), **{key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}}
