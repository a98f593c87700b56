"""Many changes of the configuration at once: each is applied, none is refused."""

import os
import subprocess
import sys
from pathlib import Path

import homarus
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths

CHANGE = """
import os, sys
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.config.write import Operation, change
config = load_config(resolve_paths(os.environ), os.environ)
print("ready", flush=True)
sys.stdin.readline()
change(config, os.environ, [Operation("set", ("env", "vars", sys.argv[1]), sys.argv[1])])
"""


def test_twelve_processes_each_set_a_key(home):
    home.write("{ env: { vars: { FIRST: 'x' } } }")
    env = {**os.environ, **home.env, "PYTHONPATH": str(Path(homarus.__file__).parent.parent)}
    names = [f"KEY_{number}" for number in range(12)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([sys.executable, "-c", CHANGE, name], env=env, **pipes) for name in names]
    assert [process.stdout.readline() for process in running] == ["ready\n"] * len(names)
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        process.communicate()
    assert [process.returncode for process in running] == [0] * len(names)
    written = load_config(resolve_paths(env), env).get("env.vars")
    assert written == {"FIRST": "x", **{name: name for name in names}}
