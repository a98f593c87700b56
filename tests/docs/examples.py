"""Finding the runnable examples of a page, and comparing what a command said with what the page shows."""

import re
from pathlib import Path
from typing import NamedTuple

from scripts.build_docs import markdown

NOT_RUN = re.compile(r"<!--\s*not run:\s*(\S.*?)\s*-->", re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line of the page where the text begins."""

    language: str
    text: str
    line: int


class Command(NamedTuple):
    """A command of a console block and the output shown under it (empty: not compared)."""

    line: int
    command: str
    expected: str


def blocks(page: Path) -> list[Block]:
    """Return the blocks to be run, without those that a comment directly above excludes with a reason."""
    found = []
    previous = None
    for token in markdown().parse(page.read_text(encoding="utf-8")):
        if token.type == "fence":
            excluded = previous is not None and previous.type == "html_block" and NOT_RUN.search(previous.content)
            if not excluded:
                words = token.info.split()
                found.append(Block(words[0] if words else "", token.content, token.map[0] + 2))
        previous = token
    return found


def python_script(found: list[Block]) -> str:
    """Return the Python blocks of a page as one program whose line numbers are those of the page."""
    lines: list[str] = []
    for block in found:
        if block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


def recipes(page: Path) -> list[list[Block]]:
    """Return each Python block of a page behind the first one, which all share."""
    first, *others = [block for block in blocks(page) if block.language == "python"]
    return [[first, other] for other in others]


def commands(found: list[Block]) -> list[Command]:
    """Return the commands of console blocks that call homarus; others (`$ make …`) are shown, not run."""
    result = []
    for block in found:
        if block.language != "console":
            continue
        current: tuple[int, str] | None = None
        shown: list[str] = []
        for number, text in enumerate([*block.text.splitlines(), "$"], block.line):
            if current is not None and current[1].endswith("\\"):
                current = (current[0], current[1][:-1] + text.removeprefix(">").strip())
            elif text.startswith("$"):
                if current is not None and current[1].startswith("homarus "):
                    result.append(Command(*current, "\n".join(shown)))
                current, shown = (number, text.removeprefix("$").strip()), []
            else:
                shown.append(text)
    return result


def matches(expected: str, actual: str) -> bool:
    """Whether the output is as shown; `...` stands for anything, and space at line ends does not count."""
    pattern = re.escape("\n".join(line.rstrip() for line in expected.strip().splitlines()))
    text = "\n".join(line.rstrip() for line in actual.strip().splitlines())
    return re.fullmatch(pattern.replace(re.escape("..."), ".*?"), text, re.DOTALL) is not None
