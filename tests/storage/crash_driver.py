"""Run one storage scenario in a child again and again: killed at every system call, or with every call failing once.

Called by test_crash.py as its own process; prints one JSON report. A scenario sets a folder up, acts in the child, and
judges what is left: an empty list means that nothing was lost and that the next operation works.
"""

import errno
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from ptrace import ENTRY, FILE_CALLS, CannotTrace, Traced

from homarus.core.errors import StorageError
from homarus.storage.atomic import backup, create_new, ensure_dir, move_aside, sweep_temps, write_atomic
from homarus.storage.boundary import Root
from homarus.storage.jsonl import JsonlWriter, read_lines
from homarus.storage.locks import OwnerLock, holder
from homarus.storage.sqlite import open_database, transaction

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OLD, NEW = b"old" * 1000, b"new content" * 20000
REFUSED, DONE, LEAKED = 3, 0, 4
SCHED_YIELD = 24  # the child's sign that the operation begins and ends; the number is x86_64's, as FILE_CALLS are


class Scenario:
    """Replace a file. The other scenarios change what differs."""

    def setup(self, folder: Path) -> None:
        write_atomic(folder / "f", OLD)

    def act(self, folder: Path, acknowledge: Callable[[], None]) -> None:
        write_atomic(folder / "f", NEW)
        acknowledge()

    def judge(self, folder: Path, acknowledged: int) -> list[str]:
        found = read(folder / "f")
        wanted = (NEW,) if acknowledged else (OLD, NEW)
        return [] if found in wanted else [f"neither old nor new: {found!r:.60}"]

    def again(self, folder: Path) -> list[str]:
        """What must work after the crash, and leave nothing behind but its result."""
        sweep_temps(folder)
        write_atomic(folder / "f", b"afterwards")
        rest = [name for name in os.listdir(folder) if name.startswith(".homarus")]
        return [f"left behind: {rest}"] if rest or read(folder / "f") != b"afterwards" else []


class Create(Scenario):
    def setup(self, folder: Path) -> None:
        pass

    def judge(self, folder: Path, acknowledged: int) -> list[str]:
        found = read(folder / "f")
        return [] if found == NEW or (found is None and not acknowledged) else [f"half a file: {found!r:.60}"]


class CreateNew(Create):
    def act(self, folder: Path, acknowledge: Callable[[], None]) -> None:
        assert create_new(folder / "f", NEW)
        acknowledge()


class ThroughLink(Scenario):
    def setup(self, folder: Path) -> None:
        (folder / "real").mkdir()
        write_atomic(folder / "real" / "target", OLD)
        (folder / "f").symlink_to("real/target")


class RootWrite(Scenario):
    def act(self, folder: Path, acknowledge: Callable[[], None]) -> None:
        with Root(folder) as root:
            root.write("f", NEW)
        acknowledge()


class MakeFolders(Scenario):
    def setup(self, folder: Path) -> None:
        pass

    def act(self, folder: Path, acknowledge: Callable[[], None]) -> None:
        ensure_dir(folder / "a" / "b" / "c")
        acknowledge()

    def judge(self, folder: Path, acknowledged: int) -> list[str]:
        return [] if not acknowledged or (folder / "a/b/c").is_dir() else ["the folder is missing"]

    def again(self, folder: Path) -> list[str]:
        ensure_dir(folder / "a" / "b" / "c")
        return []


class MoveAside(Scenario):
    def act(self, folder: Path, acknowledge: Callable[[], None]) -> None:
        move_aside(folder / "f", "corrupt", NOW)
        acknowledge()

    def judge(self, folder: Path, acknowledged: int) -> list[str]:
        names = os.listdir(folder)
        kept = [read(folder / name) for name in names] == [OLD]
        moved = names != ["f"]
        return [] if kept and (moved or not acknowledged) else [f"not exactly one whole copy: {names}"]


class Backup(Scenario):
    def setup(self, folder: Path) -> None:
        for content in (b"1", b"2", b"3"):
            write_atomic(folder / "f", content)
            backup(folder / "f", keep=4)
        write_atomic(folder / "f", b"4")

    def act(self, folder: Path, acknowledge: Callable[[], None]) -> None:
        backup(folder / "f", keep=4)
        acknowledge()

    def judge(self, folder: Path, acknowledged: int) -> list[str]:
        copies = {read(path) for path in folder.glob("f.bak*")}
        problems = [] if read(folder / "f") == b"4" else ["the file itself is damaged"]
        problems += [] if {b"1", b"2", b"3"} <= copies else [f"a copy is lost: {copies}"]
        return problems + ([] if read(folder / "f.bak") == b"4" or not acknowledged else ["no new copy"])


class Append(Scenario):
    """Three durable appends, each acknowledged; what was acknowledged is there, and at most one more."""

    start = b'{"n":-2}\n{"n":-1}\n'

    def setup(self, folder: Path) -> None:
        (folder / "log").write_bytes(self.start)

    def act(self, folder: Path, acknowledge: Callable[[], None]) -> None:
        with JsonlWriter.open(folder / "log") as log:
            for number in range(3):
                log.append({"n": number, "text": "x" * 500})
                acknowledge()

    def judge(self, folder: Path, acknowledged: int) -> list[str]:
        numbers = self.numbers(folder)
        count = len(numbers) - 2
        whole = numbers == list(range(-2, count)) and acknowledged <= count <= acknowledged + 1
        return [] if whole else [f"acknowledged {acknowledged}, found {numbers}"]

    def numbers(self, folder: Path) -> list[int]:
        if not (folder / "log").exists():
            return []
        return [line.value["n"] for line in read_lines(folder / "log") if line.value is not None]

    def again(self, folder: Path) -> list[str]:
        before = self.numbers(folder)
        with JsonlWriter.open(folder / "log") as log:
            log.append({"n": 99})
        return [] if self.numbers(folder) == [*before, 99] else ["the log does not append again"]


class AppendNew(Append):
    def setup(self, folder: Path) -> None:
        pass

    def judge(self, folder: Path, acknowledged: int) -> list[str]:
        numbers = self.numbers(folder)
        whole = numbers == list(range(len(numbers))) and acknowledged <= len(numbers) <= acknowledged + 1
        return [] if whole else [f"acknowledged {acknowledged}, found {numbers}"]


class AppendAfterTear(Append):
    start = Append.start + b'{"n":7,"text":"cut he'

    def judge(self, folder: Path, acknowledged: int) -> list[str]:
        kept = (folder / "log").read_bytes().startswith(self.start)
        return super().judge(folder, acknowledged) + ([] if kept else ["the torn bytes are gone"])


class Database(Scenario):
    """One transaction of fifty rows: all or none, and the file is never taken for damaged."""

    schema = "CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)"

    def open(self, folder: Path):
        return open_database(folder / "d.db", schema=self.schema, version=1, rebuild=False, synchronous="FULL")

    def setup(self, folder: Path) -> None:
        self.open(folder).close()

    def act(self, folder: Path, acknowledge: Callable[[], None]) -> None:
        with closing(self.open(folder)) as conn:
            with transaction(conn):
                conn.executemany("INSERT INTO t VALUES (?, ?)", [(n, "x" * 200) for n in range(50)])
            acknowledge()

    def judge(self, folder: Path, acknowledged: int) -> list[str]:
        conn = self.open(folder)
        count = conn.execute("SELECT count(*) FROM t").fetchone()[0]
        conn.close()
        return [] if count == 50 or (count == 0 and not acknowledged) else [f"{count} of 50 rows"]

    def again(self, folder: Path) -> list[str]:
        conn = self.open(folder)
        with transaction(conn):
            conn.execute("INSERT INTO t VALUES (999, 'after')")
        conn.close()
        return []


class DatabaseNew(Database):
    def setup(self, folder: Path) -> None:
        pass


class Lock(Scenario):
    def setup(self, folder: Path) -> None:
        pass

    def act(self, folder: Path, acknowledge: Callable[[], None]) -> None:
        with OwnerLock.acquire(folder / "l.lock", purpose="test", now=NOW):
            acknowledge()

    def judge(self, folder: Path, acknowledged: int) -> list[str]:
        return [] if holder(folder / "l.lock") is None else ["the lock outlived its process"]

    def again(self, folder: Path) -> list[str]:
        OwnerLock.acquire(folder / "l.lock", purpose="test", now=NOW).release()
        return [] if os.listdir(folder) == [] else [f"left behind: {os.listdir(folder)}"]


class NaiveReplace(Scenario):
    """What must be caught: a file written in place."""

    def act(self, folder: Path, acknowledge: Callable[[], None]) -> None:
        (folder / "f").write_bytes(NEW)
        acknowledge()


class NaiveAppend(Append):
    """What must be caught: a log that glues the next record to a torn line."""

    start = AppendAfterTear.start

    def act(self, folder: Path, acknowledge: Callable[[], None]) -> None:
        for number in range(3):
            with (folder / "log").open("ab") as log:
                log.write(b'{"n":%d}\n' % number)
            acknowledge()


SCENARIOS: dict[str, Scenario] = {
    "replace": Scenario(),
    "create": Create(),
    "create_new": CreateNew(),
    "through_link": ThroughLink(),
    "root_write": RootWrite(),
    "make_folders": MakeFolders(),
    "move_aside": MoveAside(),
    "backup": Backup(),
    "append": Append(),
    "append_new": AppendNew(),
    "append_after_tear": AppendAfterTear(),
    "database": Database(),
    "database_new": DatabaseNew(),
    "lock": Lock(),
    "naive_replace": NaiveReplace(),
    "naive_append": NaiveAppend(),
}


def read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


class Run:
    """One child on one fresh folder, and what it managed to acknowledge through a pipe."""

    def __init__(self, scenario: Scenario, work: Path) -> None:
        self.scenario = scenario
        self.folder = work / "run"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        scenario.setup(self.folder)
        self.read_end, write_end = os.pipe()
        self.write_end = write_end
        self.traced = Traced(self._child)
        os.close(write_end)

    def _child(self) -> int:
        before = len(os.listdir("/proc/self/fd"))
        code = DONE
        os.sched_yield()
        try:
            self.scenario.act(self.folder, lambda: os.write(self.write_end, b"."))
        except StorageError:
            code = REFUSED
        os.sched_yield()
        return LEAKED if len(os.listdir("/proc/self/fd")) != before else code

    def acknowledged(self) -> int:
        count = len(os.read(self.read_end, 1000))
        os.close(self.read_end)
        return count

    def file_calls(self) -> Iterator[str]:
        """Step on and yield the name of each file call of the operation while the child stands at its entry."""
        marks = 0
        while (info := self.traced.step()) is not None and marks < 2:
            if info.op != ENTRY:
                continue
            marks += info.number == SCHED_YIELD
            name = FILE_CALLS.get(info.number)
            if marks == 1 and name and info.arguments[0] != self.write_end:
                yield name

    def judge(self) -> list[str]:
        return self.scenario.judge(self.folder, self.acknowledged()) + self.scenario.again(self.folder)


def kill_everywhere(scenario: Scenario, work: Path, every: int, first: int) -> dict:
    """Kill at each `every`-th stop (entries and exits of calls count apart) until a run reaches its end."""
    kills, problems, stop = 0, [], first
    while True:
        run = Run(scenario, work)
        steps = 0
        while steps < stop and run.traced.step() is not None:
            steps += 1
        ended = run.traced.status is not None
        run.traced.kill()
        kills += not ended
        problems += [f"stop {stop}: {problem}" for problem in run.judge()]
        if ended:
            return {"kills": kills, "stops": steps, "problems": problems}
        stop += every


def fail_everywhere(scenario: Scenario, work: Path, code: int) -> dict:
    """Let the n-th file call of the operation fail, for every n."""
    failures, problems, target = [], [], 1
    while True:
        run = Run(scenario, work)
        name = next(itertools.islice(run.file_calls(), target - 1, None), None)
        if name is not None:
            run.traced.fail(code)
        exit_code = run.traced.finish()
        if name is None:
            run.judge()
            return {"failures": len(failures), "calls": failures, "problems": problems}
        failures.append(name)
        where = f"{errno.errorcode[code]} at call {target} ({name})"
        problems += [f"{where}: {problem}" for problem in run.judge()]
        # A call that was kept from closing does leave its descriptor open.
        if exit_code not in (DONE, REFUSED) and not (exit_code == LEAKED and name == "close"):
            problems.append(f"{where}: exit code {exit_code}, neither done nor refused")
        target += 1


def list_calls(scenario: Scenario, work: Path) -> dict:
    """Name the file calls of one undisturbed run, in order."""
    run = Run(scenario, work)
    names = list(run.file_calls())
    run.traced.finish()
    run.acknowledged()
    return {"calls": names}


def main() -> int:
    mode, name, work, *rest = sys.argv[1:]
    scenario, folder = SCENARIOS[name], Path(work)
    warm = folder / "warm"  # the first run imports; the measured ones only act
    warm.mkdir()
    scenario.setup(warm)
    scenario.act(warm, lambda: None)
    scenario.judge(warm, 0)
    try:
        if mode == "kill":
            report = kill_everywhere(scenario, folder, int(rest[0]), int(rest[1]))
        elif mode == "fail":
            report = fail_everywhere(scenario, folder, getattr(errno, rest[0]))
        else:
            report = list_calls(scenario, folder)
    except CannotTrace as error:
        report = {"skip": str(error)}
    sys.stdout.write(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
