"""A thousand skills on disk: listing them cold and warm, what a turn pays, and that order and limits hold."""

from __future__ import annotations

import random
from pathlib import Path

from bench.measure import Ctx, Row, against
from homarus.hooks.manifest import Facts
from homarus.skills.discover import SkillRoot, Source
from homarus.skills.gate import Gate
from homarus.skills.library import SkillLibrary
from homarus.skills.listing import render
from homarus.skills.settings import SkillLimits, SkillSettings
from homarus.skills.snapshot import Snapshots, build

SKILLS = 1_000
SOURCES = (Source.WORKSPACE, Source.PROJECT, Source.PERSONAL, Source.MANAGED, Source.EXTRA)
# CPU milliseconds on a machine of two shared cores.
COLD_LIMIT, WARM_LIMIT = 100.0, 3.0
# The forms that skills come in: one line of JSON, nested YAML, the open format, a folded description.
HEADERS = (
    'metadata: {{"openclaw":{{"emoji":"🐙","requires":{{"bins":["gh"],"env":["TOKEN_{n}"]}},"primaryEnv":"TOKEN_{n}"}}}}\n',
    'metadata:\n  openclaw:\n    emoji: "🦀"\n    requires:\n      anyBins: ["git", "hg"]\n      env: ["HOME"]\n',
    "license: MIT\ncompatibility: Needs git\nmetadata:\n  author: somebody\n  version: '1.0'\nallowed-tools: Bash(git:*) Read\n",
    "homepage: https://example.org/{n}\nuser-invocable: true\n",
)
BODY = "Use the tool with care, then `read` the result and check it against what was asked.\n" * 30


def run(ctx: Ctx) -> list[Row]:
    """Measure listing, gating and rendering, and check what must hold."""
    folder = ctx.folder("skills")
    roots = _write(folder)
    env = {"HOME": "/home/ada", "PATH": ""}
    facts = Facts("linux", env, lambda name: name in {"git", "gh"}, lambda _: None)
    gate = Gate(SkillSettings(), facts)
    library = SkillLibrary()
    snapshots = Snapshots(library, str(folder))
    stored = snapshots.for_turn(None, roots, gate).to_json()
    files = [skill.file for skill in library.load(roots).skills]

    def cold() -> None:
        Snapshots(SkillLibrary(), str(folder)).for_turn(None, roots, gate)

    def bare() -> None:
        for file in files:
            with open(file, "rb") as handle:
                handle.read()

    taken = ctx.calls({"cold": cold, "bare": bare})
    taken |= ctx.calls(
        {"warm": lambda: library.load(roots), "turn": lambda: snapshots.for_turn(stored, roots, gate)}, number=5
    )
    taken |= ctx.calls({"render": lambda: build(library.load(roots).skills, gate, SkillLimits(), str(folder))})
    return [
        _limit("1,000 skills to a prompt, cold", taken["cold"], COLD_LIMIT),
        _limit("1,000 skills listed, warm", taken["warm"], WARM_LIMIT),
        _limit("1,000 skills, what a turn pays", taken["turn"], WARM_LIMIT),
        against("1,000 skills to a prompt, cold", taken["cold"], "open and read of the same files", taken["bare"]),
        against("gates and rendering alone", taken["render"], "open and read of the same files", taken["bare"]),
        *_holds(roots, gate, str(folder)),
    ]


def _limit(item: str, seconds: float, limit: float) -> Row:
    return Row(item, seconds * 1e3, "ms", f"{limit:g} ms of CPU", seconds * 1e3 / limit, 1.0)


def _write(folder: Path) -> tuple[SkillRoot, ...]:
    order = list(range(SKILLS))
    random.Random(1).shuffle(order)
    for number in order:
        place = folder / SOURCES[number % len(SOURCES)].value / f"skill-{number:04}"
        place.mkdir(parents=True)
        header = HEADERS[number % len(HEADERS)].format(n=number)
        text = f"---\nname: skill-{number:04}\ndescription: Does the thing number {number}. Use it when asked for thing {number}.\n{header}---\n\n{BODY}"
        (place / "SKILL.md").write_text(text)
    return tuple(SkillRoot(source, str(folder / source.value)) for source in SOURCES)


def _holds(roots: tuple[SkillRoot, ...], gate: Gate, home: str) -> list[Row]:
    limits = SkillLimits()
    skills = SkillLibrary().load(roots).skills
    prompts = {build(SkillLibrary().load(roots).skills, gate, limits, home).prompt for _ in range(3)}
    shuffled = random.Random(2).sample(skills, len(skills))
    same = render(shuffled, limits, home) == render(skills, limits, home)
    (prompt,) = prompts
    return [
        Row(
            "different prompts from the same skills",
            len(prompts) + (not same),
            "prompt",
            "one",
            float(len(prompts) + (not same)),
            1.0,
        ),
        Row("skills loaded", len(skills), "skill", "200 of each of 5 sources", len(skills) / 1_000, 1.0),
        Row("skills in the prompt", prompt.count("<skill>"), "skill", "150", prompt.count("<skill>") / 150, 1.0),
        Row("characters in the prompt", len(prompt), "char", "30,000", len(prompt) / 30_000, 1.0),
    ]
