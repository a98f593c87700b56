"""Each recipe of docs/library.md runs alone, with nothing but the first lines of the page in front of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.examples import python_script, recipes

import homarus

PAGE = Path(__file__).parent.parent.parent / "docs" / "library.md"
RECIPES = recipes(PAGE)


def test_there_are_more_than_ten():
    assert len(RECIPES) > 10


@pytest.mark.parametrize("found", RECIPES, ids=[f"line {found[-1].line}" for found in RECIPES])
def test_it_runs_as_it_stands(found, tmp_path):
    program = f"exec(compile({python_script(found)!r}, {str(PAGE)!r}, 'exec'), {{'__name__': '__main__'}})"
    env = {
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(homarus.__file__).parent.parent),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
