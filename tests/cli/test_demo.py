"""`homarus demo` needs nothing, shows the real thing, and leaves nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path


def test_the_demo_needs_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    env = {
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TMPDIR": str(tmp_path / "tmp"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "homarus", "demo"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "memory_retain" in done.stdout
    assert re.search(r"Your notes say: .*behind the barometer.*\(memory/[0-9-]+\.md#L\d+\)", done.stdout)
    served = done.stdout.partition("/v1/chat/completions")[2]
    assert "behind the barometer" in served.partition("What is on disk")[0]
    assert ".jsonl" in done.stdout
    assert os.listdir(tmp_path / "tmp") == []
    assert not (tmp_path / "home").exists()
