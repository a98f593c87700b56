"""The recipes of docs/library.md are typed as the page says: no complaint of mypy --strict, and none of pyright."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.examples import blocks, python_script

ROOT = Path(__file__).parent.parent.parent
PYRIGHT = shutil.which("basedpyright", path=str(Path(sys.executable).parent)) or shutil.which("basedpyright")


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


@pytest.mark.skipif(PYRIGHT is None, reason="pip install basedpyright (a copy of node in a wheel) would check this")
def test_pyright_has_nothing_to_say(recipes):
    (recipes.parent / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "extraPaths": ["%s"]}' % (ROOT / "src")
    )
    command = [str(PYRIGHT), "--pythonpath", sys.executable, str(recipes)]
    done = subprocess.run(command, cwd=recipes.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
