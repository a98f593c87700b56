"""`make test` twice: the second time is quick where nothing changed, and never where anything did."""

import json
import os
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from scripts.run_tests import GENERATED, files, of_the_machine, of_the_tree, read_stamp

ROOT = Path(__file__).parent.parent.parent
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project without git, with a virtual environment of its own and this script."""
    root = tmp_path / "project"
    (root / "scripts").mkdir(parents=True)
    (root / "tests").mkdir()
    shutil.copy(ROOT / "scripts" / "run_tests.py", root / "scripts")
    (root / "tests" / "test_one.py").write_text(
        "def test_one():\n    assert True\n\ndef test_two():\n    assert True\n"
    )
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '-p xdist'\nmarkers = ['deep: long']\n")
    venv.create(root / ".venv", with_pip=False)
    return root


@pytest.fixture
def run(project: Path) -> Run:
    def start(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        env |= {"PYTHONPATH": sysconfig.get_path("purelib"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **more}
        line = [str(project / ".venv/bin/python"), "scripts/run_tests.py", *arguments]
        return subprocess.run(line, cwd=project, env=env, capture_output=True, text=True, check=False)

    return start


def ran(done: subprocess.CompletedProcess[str]) -> bool:
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("2 passed" in done.stdout) != ("nothing has changed" in done.stdout)
    return "2 passed" in done.stdout


def test_the_second_run_on_the_same_files_says_so_and_a_changed_one_runs(project: Path, run: Run):
    assert ran(run("-n", "0"))
    quick = run("-n", "0")
    assert not ran(quick)
    assert "2 tests passed (0 skipped) on exactly these files at 20" in quick.stdout
    assert "FORCE=1" in quick.stdout
    assert ran(run("--force", "-n", "0"))
    assert not ran(run())
    (project / "notes.txt").write_text("a file that no version control knows")
    assert ran(run())
    stamp = project / ".venv" / ".tested"
    stamp.write_text(stamp.read_text()[:-9])
    assert ran(run()), "a damaged stamp is none"
    assert ran(run(HOMARUS_NEW="1")), "a variable that tests may read counts"


def test_a_failure_is_never_forgotten(project: Path, run: Run):
    assert ran(run())
    test = project / "tests" / "test_one.py"
    green = test.read_text()
    test.write_text(green.replace("True", "False", 1))
    for _ in range(2):
        red = run()
        assert (red.returncode, "1 failed" in red.stdout) == (1, True)
    test.write_text(green)
    assert ran(run()), "the stamp of before the failure is gone"
    # The same files, and a part of them fails by chance: the whole runs again.
    assert run("tests/no_such_file.py").returncode != 0
    assert ran(run())


FAILS_ONCE = """import pathlib, pytest

@pytest.mark.parametrize("n", range({count}))
def test_unsteady(n):
    been = pathlib.Path({folder!r}, str(n))
    there = been.exists()
    been.touch()
    assert there
"""


def test_what_fails_only_beside_the_others_is_named_and_leaves_no_stamp(project: Path, run: Run, tmp_path: Path):
    (project / "tests" / "test_unsteady.py").write_text(FAILS_ONCE.format(count=3, folder=str(tmp_path)))
    unsteady = run()
    assert (unsteady.returncode, "UNSTEADY" in unsteady.stdout) == (0, True), unsteady.stdout
    assert not (project / ".venv" / ".tested").exists()


def test_many_failures_are_no_accident(project: Path, run: Run, tmp_path: Path):
    (project / "tests" / "test_unsteady.py").write_text(FAILS_ONCE.format(count=4, folder=str(tmp_path)))
    assert run().returncode == 1


def test_a_part_of_the_tests_and_foreign_options_leave_no_stamp(project: Path, run: Run):
    assert "1 passed" in run("-k", "two").stdout
    assert "1 passed" in run(PYTEST_ADDOPTS="-k two").stdout
    assert ran(run())
    assert "1 passed" in run("-k", "two").stdout, "asked for a part, a part runs"
    assert not ran(run())


def test_files_that_change_during_a_run_leave_no_stamp(project: Path, run: Run):
    (project / "tests" / "test_three.py").write_text(
        "from pathlib import Path\n\ndef test_three():\n    with Path('log.txt').open('a') as log:\n        log.write('x')\n"
    )
    for _ in range(2):
        done = run()
        assert "3 passed" in done.stdout
        assert "files changed during the run" in done.stdout


def test_every_byte_name_link_and_permission_of_the_tree_counts(tmp_path: Path):
    (tmp_path / "src").mkdir()
    file = tmp_path / "src" / "a.py"
    file.write_text("x = 1\n")
    seen = {of_the_tree(tmp_path)}

    def changed() -> bool:
        before = len(seen)
        seen.add(of_the_tree(tmp_path))
        return len(seen) > before

    assert not changed()
    file.write_text("x = 2\n")
    assert changed()
    file.chmod(0o755)
    assert changed()
    file.rename(file.with_name("b.py"))
    assert changed()
    (tmp_path / "link").symlink_to("src")
    assert changed()
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("elsewhere")
    assert changed()
    os.mkfifo(tmp_path / "pipe")
    assert changed(), "and a pipe is not waited for"
    (tmp_path / "src" / os.fsdecode(b"\xff.md")).touch()
    assert changed()
    for name in ["__pycache__", ".venv", "bench"]:
        (tmp_path / "src" / name).mkdir()
    (tmp_path / "src" / "__pycache__" / "a.pyc").write_bytes(b"1")
    (tmp_path / "src" / ".venv" / "x").write_bytes(b"1")
    assert not changed()


def test_the_machine_counts_too():
    assert of_the_machine({"PATH": "/bin"}) == of_the_machine({"PATH": "/bin", "EDITOR": "vi"})
    assert of_the_machine({"PATH": "/bin"}) != of_the_machine({"PATH": "/bin", "OPENCLAW_HOME": "/x"})
    assert of_the_machine({"PATH": "/bin"}) != of_the_machine({"PATH": "/nothing-here"})


def test_nothing_that_belongs_to_the_project_is_left_out():
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    assert set(GENERATED) <= ignored | {".git"}
    seen = {path.relative_to(ROOT).as_posix() for path in files(ROOT)}
    assert {"Makefile", "pyproject.toml", "requirements/dev.lock", "src/homarus/__main__.py", ".ci/run"} <= seen


def test_the_check_before_landing_always_runs_them():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert "make test FORCE=1" in lines


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"key": "k"}', '{"key": "k", "passed": 0, "at": "now"}'])
def test_a_stamp_that_proves_nothing_is_none(text: str, tmp_path: Path):
    path = tmp_path / "stamp"
    path.write_text(text)
    assert read_stamp(path, "k") is None
    assert read_stamp(tmp_path / "missing", "k") is None
    path.write_text(json.dumps({"key": "k", "passed": 3, "skipped": 0, "at": "today", "seconds": 1}))
    assert read_stamp(path, "k")
    assert read_stamp(path, "other") is None
