"""Every example of README and docs/ runs: Python as it stands, commands with the output that the page shows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.examples import Block, blocks, commands, matches, python_script

import homarus

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]


@pytest.fixture
def environment(tmp_path):
    """An empty home and folder, and a `homarus` on the path that is the code under test."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "tmp").mkdir()
    script = tmp_path / "bin" / "homarus"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m homarus "$@"\n')
    script.chmod(0o755)
    return {
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),  # a reader's folder stays; ours goes with the test
        "PATH": f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(homarus.__file__).parent.parent),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "TZ": "UTC",
    }


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_examples_of(page, tmp_path, environment):
    found = blocks(page)
    script = python_script(found)
    if script.strip():
        program = f"exec(compile({script!r}, {str(page)!r}, 'exec'), {{'__name__': '__main__'}})"
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=tmp_path / "work",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{page}: {done.stderr}"
    for line, command, expected in commands(found):
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path / "work",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{page}:{line}: $ {command}\n{done.stdout}{done.stderr}"
        if expected.strip():
            assert matches(expected, done.stdout), (
                f"{page}:{line}: $ {command}\nsays:\n{done.stdout}\npage:\n{expected}"
            )


PAGE = """
# A page

```python
first = 1
```

<!-- not run: needs a printer -->
```python
print_on_paper()
```

text between

<!-- not run: needs a printer -->

text that keeps the comment away

```python
assert first == 1
```

```console
$ homarus --version   # the fast path
homarus ...
$ make something
made
$ homarus config \\
>   get a.b
$ homarus status
one
two
```
"""


def test_what_is_run_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    found = blocks(page)
    script = python_script(found).splitlines()
    assert [number for number, line in enumerate(script, 1) if line] == [5, 20]
    assert "print_on_paper()" not in script
    assert [(command, expected) for _, command, expected in commands(found)] == [
        ("homarus --version   # the fast path", "homarus ..."),
        ("homarus config get a.b", ""),
        ("homarus status", "one\ntwo"),
    ]
    assert page.read_text().splitlines()[commands(found)[2].line - 1] == "$ homarus status"


def test_an_ellipsis_matches_anything_and_nothing_else_does():
    assert matches("a ... c\n", "a b c \n")
    assert matches("...\nend", "1\n2\nend\n")
    assert not matches("a.c", "abc")
    assert not matches("a", "a\nb")


def test_an_exclusion_needs_a_reason(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: -->\n```python\nx = 1\n```\n")
    assert blocks(page) == [Block("python", "x = 1\n", 3)]
