"""The bench runner: finds its measurements, divides by the floor of the same run, and says what was missed."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from bench.__main__ import names
from bench.measure import Ctx, Row, against
from bench.report import document, table

from bench import bench_notebook, fit_notebook

ROOT = Path(__file__).parent.parent.parent


def ctx(tmp_path, runs=3):
    return Ctx(tmp_path, {"PATH": "/usr/bin:/bin"}, runs)


def test_every_measurement_says_what_it_is():
    found = names()
    assert {"cli", "storage"} <= set(found)
    assert all(first.endswith(".") for first in found.values())


def test_calls_alternate_and_the_first_round_does_not_count(tmp_path):
    order = []
    ticks = iter(range(1000))
    taken = ctx(tmp_path).calls(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, number=2, clock=lambda: float(next(ticks))
    )
    assert "".join(order) == "aabb" * 4
    assert taken == {"a": 0.5, "b": 0.5}


def test_programs_are_measured_and_a_failing_one_is_not(tmp_path):
    spent = ctx(tmp_path).programs({"pass": [sys.executable, "-c", "pass"]})
    assert 0 < spent["pass"].cpu < 10
    with pytest.raises(SystemExit, match="ended with 3"):
        ctx(tmp_path).run([sys.executable, "-c", "raise SystemExit(3)"])


def test_the_notebook_is_measured_on_what_people_told_it(tmp_path):
    (tmp_path / "own.txt").write_text(
        "= Ann\n> The spare key hangs in the shed.\n? Where is the spare key? => shed\n- Who painted the shed?\n"
    )
    rows = {row.item: row.value for row in bench_notebook.run(Ctx(tmp_path, {"BENCH_SETS": str(tmp_path)}))}
    assert rows["own set, none: right"] == 100.0
    assert rows["own set, none: wrong"] == rows["own set, none: never told, answered"] == 0.0


def test_weights_are_fitted_to_what_tells_answers_from_others():
    np = pytest.importorskip("numpy", reason="the [memory] extra is not installed")
    width = len(fit_notebook.FIELDS)
    rows = [[1.0] * width, [0.0] * width] * 40
    made = fit_notebook.logistic(np.array(rows), np.array([1.0, 0.0] * 40), np.ones(80))
    sure, unsure = (np.array(row) @ made[:-1] + made[-1] for row in rows[:2])
    assert sure > 1 and unsure < -1


def test_rows_read_well():
    rows = [
        against("fast", 0.0000025, "floor", 0.000001, 3.0),
        against("slow", 2.0, "floor", 1.0, 1.5),
        Row("floor", 1, "s"),
    ]
    assert [row.missed for row in rows] == [False, True, False]
    lines = table(rows).splitlines()
    assert lines[2] == "fast   2.5 µs  floor    2.50×  ≤ 3×"
    assert lines[3].endswith("≤ 1.5×  MISSED")
    found = msgspec.json.decode(document(rows, "2026-01-02T03:04:05+00:00"))
    assert found["rows"][1]["ratio"] == 2.0
    assert found["machine"]["python"]


def test_the_command_line(tmp_path):
    def bench(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "bench", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert "cli" in bench("--list").stdout
    assert bench("nonsense").returncode == 2
    rows = json.loads(bench("cli", "--json", "--runs", "1").stdout)["rows"]
    assert {"homarus --version", "homarus --help"} <= {row["item"] for row in rows}
