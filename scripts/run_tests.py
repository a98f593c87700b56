"""Run all tests, or say that they have passed already on exactly these files, this Python and these tools.

A full green run leaves a stamp in the virtual environment. Its key is a hash over the content of everything that the
tests can see, so one changed byte runs them again. A partial run, a failed one and one during which a file changed leave
no stamp, and `--force` looks at none: what this script says was passed, was passed.

Tests that wait for real processes can fail on a machine that is busy with all the others. So the failures of a whole run,
if they are very few, run once more, alone. One that passes then is named as unsteady, leaves no stamp, and wants a cure.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STAMP = ".tested"
# More failures than this are no accident of a busy machine.
MOST_UNSTEADY = 3
# What the tools of this project make; everything else in the tree counts, tracked or not, so that no git is needed.
GENERATED = (
    ".git",
    ".venv",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    ".import_linter_cache",
    "htmlcov",
    "build",
    "dist",
    "site",
    "bench/results",
)
# Programs and variables on which a test's way depends: a sandbox that is there or not, a shell that completes or not.
PROGRAMS = ("bwrap", "docker", "git", "bash", "zsh", "fish", "rg", "strace")
VARIABLES = ("HOMARUS_", "OPENCLAW_", "PYTEST_", "HYPOTHESIS_", "PYTHON", "LC_", "LANG", "TZ")


class Count:
    """A pytest plugin that counts; with several workers it hears of all their tests in the first process."""

    def __init__(self) -> None:
        self.passed = 0
        self.skipped = 0
        self.failed: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count a test by its call, or by its set-up when that skipped it."""
        self.passed += report.when == "call" and report.passed
        self.skipped += report.when in {"setup", "call"} and report.skipped
        if report.failed:
            self.failed[report.nodeid] = None


def files(root: Path) -> Iterator[Path]:
    """Yield every file of the tree that no tool made, in one order on every machine."""
    for folder, names, found in os.walk(root):
        here = Path(folder).relative_to(root).as_posix().removeprefix("./")
        names[:] = sorted(n for n in names if n not in GENERATED and f"{here}/{n}" not in GENERATED)
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        for name in sorted([*found, *links]):
            # In a second work tree of git, `.git` is a file.
            if name not in GENERATED and not name.endswith((".pyc", ".pyo")) and not name.startswith(".coverage"):
                yield Path(folder) / name


def of_the_tree(root: Path) -> str:
    """Return a hash over names, kinds, permissions and contents of all files."""
    total = hashlib.sha256()
    for path in files(root):
        state = path.lstat()
        if stat.S_ISLNK(state.st_mode):
            content = os.fsencode(path.readlink())
        elif stat.S_ISREG(state.st_mode):
            content = path.read_bytes()
        else:
            content = b""
        name = os.fsencode(path.relative_to(root))
        total.update(b"%d %o %d\n" % (len(name), state.st_mode & 0o170111, len(content)))
        total.update(name + content)
    return total.hexdigest()


def of_the_machine(env: Mapping[str, str]) -> str:
    """Return a hash over what lies outside of the tree: Python, installed packages, system, programs, variables."""
    # Their folders carry name and version; reading a hundred files for the same would take longer than all the rest.
    packages = sorted(found.name for path in sys.path if path for found in Path(path).glob("*.dist-info"))
    programs = []
    for name in PROGRAMS:
        found = shutil.which(name, path=env.get("PATH"))
        programs.append([name, found, Path(found).stat().st_mtime_ns if found else None])
    variables = sorted((name, value) for name, value in env.items() if name.startswith(VARIABLES))
    facts = [sys.version, sys.executable, platform.platform(), os.getuid(), packages, programs, variables]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def key(root: Path, env: Mapping[str, str]) -> str:
    """Return what must be equal for a result to count again."""
    return f"{of_the_tree(root)}-{of_the_machine(env)}"


def read_stamp(path: Path, wanted: str) -> dict[str, Any] | None:
    """Return what the last full green run left, if it was on exactly this; a damaged stamp is none."""
    try:
        found = json.loads(path.read_bytes())
        return found if found["key"] == wanted and found["passed"] > 0 and found["at"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_stamp(path: Path, wanted: str, count: Count, seconds: float) -> None:
    """Leave a stamp, whole or not at all."""
    at = datetime.now().astimezone().isoformat(" ", "seconds")
    record = {"key": wanted, "passed": count.passed, "skipped": count.skipped, "at": at, "seconds": round(seconds)}
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")
    temporary.replace(path)


def stamp_path(env: Mapping[str, str]) -> Path | None:
    """Return where the stamp lies: in the virtual environment, and nowhere without one or with options from outside."""
    if sys.prefix == sys.base_prefix or env.get("PYTEST_ADDOPTS"):
        return None
    return Path(sys.prefix) / STAMP


def only_unsteady(failed: Sequence[str]) -> bool:
    """Run what failed among all the others once more, alone, and say whether it passes then."""
    print(f"\n{len(failed)} failed; once more, alone:", *failed, sep="\n  ", flush=True)
    again = subprocess.run([sys.executable, "-m", "pytest", "-n", "0", "-m", "not deep", *failed], check=False)
    if again.returncode == 0:
        print("UNSTEADY: passed alone, failed beside the others. Find the cause:", *failed, sep="\n  ", flush=True)
    return again.returncode == 0


def run(arguments: Sequence[str], stamp: Path | None, env: Mapping[str, str], *, whole: bool) -> int:
    """Run pytest; keep a stamp of a whole green run on files that stayed as they were, and drop it on any failure."""
    import pytest

    count = Count()
    wanted = key(ROOT, env) if stamp and whole else ""
    if stamp and whole:
        stamp.unlink(missing_ok=True)
    began = time.monotonic()
    code = int(pytest.main(list(arguments), plugins=[count]))
    if stamp and code != 0:
        stamp.unlink(missing_ok=True)
    if code == pytest.ExitCode.TESTS_FAILED and whole and 0 < len(count.failed) <= MOST_UNSTEADY:
        return 0 if only_unsteady(list(count.failed)) else code
    if stamp and code == 0 and whole and count.passed:
        if key(ROOT, env) == wanted:
            write_stamp(stamp, wanted, count, time.monotonic() - began)
        else:
            print("files changed during the run, so the next `make test` runs the tests again")
    return code


def main(arguments: Sequence[str]) -> int:
    """Run the tests with these pytest arguments (`--force`, `-n WORKERS`), or report what an equal run said."""
    rest = list(arguments)
    force = "--force" in rest
    if force:
        rest.remove("--force")
    workers = [rest.pop(0), rest.pop(0)] if rest[:1] == ["-n"] else []
    whole = not rest
    os.chdir(ROOT)
    env = dict(os.environ)
    stamp = stamp_path(env)
    known = read_stamp(stamp, key(ROOT, env)) if stamp and whole and not force else None
    if known:
        print(
            f"{known['passed']:,} tests passed ({known['skipped']} skipped) on exactly these files at {known['at']}, "
            f"in {known['seconds']} s;\nnothing has changed since: run them again with `make test FORCE=1`"
        )
        return 0
    # A worker that has nothing left takes tests from the other, so that no long one at the end is waited for alone.
    spread = ["--dist", "worksteal"] if workers else []
    return run([*workers, *spread, "-m", "not deep", *rest], stamp, env, whole=whole)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
