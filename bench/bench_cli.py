"""What the command line costs before it does anything, in CPU time against `python -c pass`."""

from __future__ import annotations

import sys

from bench.measure import Ctx, Row, against

FLOOR = "python -c pass"
TARGETS = {"--version": 1.5, "--help": 5.0}


def peers(ctx: Ctx) -> dict[str, list[str]]:
    """Return the other programs that the environment names, to be measured in the same run."""
    found = {}
    if entry := ctx.env.get("BENCH_OPENCLAW_ENTRY"):
        found["openclaw"] = [ctx.env.get("BENCH_OPENCLAW_NODE", "node"), entry]
    for name in ("nanobot", "hermes"):
        if program := ctx.env.get(f"BENCH_{name.upper()}_BIN"):
            found[name] = [program]
    return found


def run(ctx: Ctx) -> list[Row]:
    """Measure `--version` and `--help`, ours and the peers'."""
    commands = {FLOOR: [sys.executable, "-c", "pass"]}
    for option in TARGETS:
        commands[f"homarus {option}"] = [*ctx.homarus(), option]
        for name, command in peers(ctx).items():
            commands[f"{name} {option}"] = [*command, option]
    spent = ctx.programs(commands)
    floor = spent[FLOOR]
    rows = [Row(FLOOR, floor.cpu * 1e3, "ms")]
    for label, taken in spent.items():
        if label == FLOOR:
            continue
        target = TARGETS[label.split()[1]] if label.startswith("homarus") else None
        rows.append(against(label, taken.cpu, FLOOR, floor.cpu, target))
    return rows
