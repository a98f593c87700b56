"""The recipes of docs/library.md are typed as the page says, each alone: no complaint of mypy --strict, and none of pyright."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.examples import python_script, recipes

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def folder(tmp_path):
    """A file for each recipe, named after its line in the page."""
    for found in recipes(ROOT / "docs" / "library.md"):
        (tmp_path / f"line_{found[-1].line}.py").write_text(python_script(found))
    return tmp_path


def test_mypy_has_nothing_to_say(folder):
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--follow-imports=silent",  # it is about the recipes; what they import is checked elsewhere
        f"--cache-dir={folder}",
        *map(str, sorted(folder.glob("*.py"))),
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed")
def test_pyright_has_nothing_to_say(folder):
    # No recipe uses all that the first lines of the page bring.
    (folder / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "reportUnusedImport": false, "extraPaths": ["%s"]}' % (ROOT / "src")
    )
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
