"""The recipes of docs/library.md are typed as the page says: no complaint of mypy --strict, and none of pyright."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.examples import blocks, python_script

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def recipes(tmp_path):
    path = tmp_path / "recipes.py"
    path.write_text(python_script(blocks(ROOT / "docs" / "library.md")))
    return path


def test_mypy_has_nothing_to_say(recipes):
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={recipes.parent}",
        str(recipes),
    ]
    done = subprocess.run(
        command,
        cwd=recipes.parent,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed")
def test_pyright_has_nothing_to_say(recipes):
    (recipes.parent / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "reportDuplicateImport": false, "extraPaths": ["%s"]}' % (ROOT / "src")
    )
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, str(recipes)]
    done = subprocess.run(command, cwd=recipes.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
