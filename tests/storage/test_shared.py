"""Several processes at one file or folder: each waits for its turn, none is refused, and nothing is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import homarus
from homarus.core.errors import Locked
from homarus.storage.atomic import write_atomic
from homarus.storage.jsonl import alone_with, append_shared, read_lines
from homarus.storage.locks import alone_in

PUTS = """
import sys
from pathlib import Path
from homarus.storage.jsonl import append_shared
for number in range(int(sys.argv[3])):
    append_shared(Path(sys.argv[1]), {"from": sys.argv[2], "n": number})
"""


def start(*arguments):
    env = {**os.environ, "PYTHONPATH": str(Path(homarus.__file__).parent.parent)}
    return subprocess.Popen([sys.executable, "-c", PUTS, *map(str, arguments)], env=env)


def records(path):
    return [line.value for line in read_lines(path)]


def test_nothing_is_lost_while_one_of_them_starts_the_file_over(tmp_path):
    path = tmp_path / "inbox.jsonl"
    others = [start(path, name, 40) for name in range(4)]
    seen = []
    for number in range(40):
        append_shared(path, {"from": "owner", "n": number})
        if number % 5 == 4:
            with alone_with(path):
                seen += records(path)
                write_atomic(path, b"")
    assert [other.wait() for other in others] == [0] * 4
    seen += records(path)
    for name in ("0", "1", "2", "3", "owner"):
        assert [record["n"] for record in seen if record["from"] == name] == list(range(40))


def test_a_shared_append_makes_the_file_and_mends_a_torn_end(tmp_path):
    path = tmp_path / "inbox.jsonl"
    append_shared(path, {"n": 1})
    with path.open("ab") as file:
        file.write(b'{"n": 2, "cut')
    append_shared(path, {"n": 3}, {"n": 4})
    lines = path.read_bytes().splitlines()
    assert [json.loads(lines[at])["n"] for at in (0, 2, 3)] == [1, 3, 4]
    assert path.stat().st_mode & 0o777 == 0o600


def test_waiting_for_a_folder_has_a_limit(tmp_path):
    pauses = []
    with alone_in(tmp_path), pytest.raises(Locked, match="in use"), alone_in(tmp_path, wait=1, sleep=pauses.append):
        pytest.fail("somebody else is in there")
    assert 0.9 <= sum(pauses) <= 1.1
    with alone_in(tmp_path, sleep=lambda _: pytest.fail("nobody is in there")):
        pass


def test_the_next_one_gets_the_folder_when_it_is_free(tmp_path):
    first = alone_in(tmp_path)
    first.__enter__()
    with alone_in(tmp_path, sleep=lambda _: first.__exit__(None, None, None)):
        pass
