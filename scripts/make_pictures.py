"""Make the pictures of the documentation: real commands in a throw-away home, drawn as SVG.

    python scripts/make_pictures.py [FOLDER]        # default: docs/pictures

Four still pictures, and a recording whose lines appear when they did. No script, no font file and no request in any of them.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
COLUMNS = 100
TYPED_SECONDS = 1.2  # how long a command stands there before its answer
LONGEST_SECONDS = 2.5  # a pause of a recording that says nothing
REST_SECONDS = 4.0  # how long the last frame stays

# In this order, in one home: what one makes, the next one shows.
PICTURES = {
    "first-steps": (
        "homarus setup",
        "homarus agent 'Remember that the spare key hangs behind the barometer.'",
        "homarus agent 'Where is the spare key?'",
    ),
    "sessions": (
        "homarus sessions rename main 'at home'",
        "homarus sessions",
        "homarus sessions search barometer",
    ),
    "memory": ("homarus memory search 'spare key' --provider none",),
    "status": ("homarus status", "homarus models"),
}
RECORDING = ("first-steps", "memory")

Shown = tuple[str, str, float]  # a command, what it printed, and how long it took


def run(line: str, home: Path) -> Shown:
    """Run one command of this program and return what a person would see of it."""
    inherited = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG", "TMPDIR") if name in os.environ}
    env = {**inherited, "HOME": str(home), "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "PYTHONUTF8": "1"}
    started = time.monotonic()
    argv = [sys.executable, "-m", *shlex.split(line)]
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"'{line}' ended with {done.returncode}: {done.stderr}")
    return line, (done.stderr + done.stdout).replace(str(home), "~").rstrip(), time.monotonic() - started


def screen(shown: list[Shown]) -> tuple[Console, list[float]]:
    """Draw commands with their answers; return the screen and the moment at which each of its lines appears."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    moments: list[float] = []
    now = 0.0
    for line, answer, seconds in shown:
        for text, pause in (
            (Text.assemble(("$ ", "bold green"), (line, "bold")), TYPED_SECONDS),
            (Text.from_ansi(answer + "\n"), min(seconds, LONGEST_SECONDS)),
        ):
            moments += [now] * len(console.render_lines(text))
            console.print(text)
            now += pause
    return console, [*moments, now]


def drawn(console: Console, name: str) -> str:
    svg = console.export_svg(title="homarus", theme=MONOKAI, unique_id=name, clear=False)
    # The font would be fetched from somebody; every system has one that will do.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def recorded(svg: str, moments: list[float], name: str) -> str:
    """Let each line of a picture appear at its moment, again and again."""
    whole = moments[-1] + REST_SECONDS
    styles = [
        f"@keyframes {name}-{number} {{ 0%, {moment / whole:.2%} {{ opacity: 0 }} {moment / whole + 0.0001:.2%}, 100% {{ opacity: 1 }} }}"
        for number, moment in enumerate(moments[:-1])
        if moment
    ]

    def timed(match: re.Match[str]) -> str:
        number = int(match[1])
        if not (number < len(moments) - 1 and moments[number]):
            return match[0]
        return f'{match[0]} style="animation: {name}-{number} {whole:.1f}s step-end infinite"'

    svg = re.sub(rf'<text class="{name}-[^"]*"[^>]*?clip-path="url\(#{name}-line-(\d+)\)"', timed, svg)
    return svg.replace("</style>", "\n".join(styles) + "\n</style>", 1)


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    told: dict[str, list[Shown]] = {}
    with tempfile.TemporaryDirectory(prefix="homarus-pictures-") as home:
        for name, lines in PICTURES.items():
            told[name] = [run(line, Path(home)) for line in lines]
    for name, shown in told.items():
        (folder / f"{name}.svg").write_text(drawn(screen(shown)[0], name), encoding="utf-8")
    console, moments = screen([each for name in RECORDING for each in told[name]])
    (folder / "recording.svg").write_text(recorded(drawn(console, "recording"), moments, "recording"), encoding="utf-8")
    print(f"{len(told) + 1} pictures in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
