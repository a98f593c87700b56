"""Real MCP servers, each in a turn: what people install first. What is not installed is skipped, with its package's name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scenarios.home import House
from tests.scenarios.script import Line

from homarus.core.clock import SystemClock
from homarus.core.messages import ToolResult

pytest.importorskip("mcp", reason="needs the package mcp")
pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::ResourceWarning")]
PLACES = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
SERVERS = {
    # program, its package, arguments, the call, what its answer holds
    "time": ("mcp-server-time", "mcp-server-time (PyPI)", [], ("get_current_time", {"timezone": "UTC"}), "UTC"),
    "git": ("mcp-server-git", "mcp-server-git (PyPI)", [], ("git_status", {"repo_path": "{folder}"}), "No commits yet"),
    "fetch": ("mcp-server-fetch", "mcp-server-fetch (PyPI)", [], ("fetch", {"url": "http://127.0.0.1:9/"}), "127.0.0.1"),
    "files": ("mcp-server-filesystem", "@modelcontextprotocol/server-filesystem (npm)", ["{folder}"],
              ("read_text_file", {"path": "{folder}/note.txt"}), "the boiler"),
    "memory": ("mcp-server-memory", "@modelcontextprotocol/server-memory (npm)", [], ("read_graph", {}), "entities"),
    "everything": ("mcp-server-everything", "@modelcontextprotocol/server-everything (npm)", [],
                   ("get-sum", {"a": 2, "b": 40}), "42"),
}  # fmt: skip


@pytest.mark.parametrize("name", SERVERS)
async def test_a_real_server_in_a_turn(name: str, tmp_path: Path) -> None:
    program, package, arguments, (tool, given), expected = SERVERS[name]
    path = shutil.which(program, path=PLACES)
    if path is None:
        pytest.skip(f"needs {package}")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "note.txt").write_text("the boiler was serviced")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    filled = {key: value.format(folder=folder) if isinstance(value, str) else value for key, value in given.items()}
    server = {"command": path, "args": [each.format(folder=folder) for each in arguments]}
    server["env"] = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl"), "PATH": PLACES}
    config = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}, "mcp": {"servers": {name: server}}}
    home = House(tmp_path, Line(calls=((f"{name}__{tool}", filled),)), "done", config=config)
    async with home.agent(clock=SystemClock()) as agent:
        assert (await agent.ask("go")).text == "done"
    (result,) = (message for message in home.model.requests[-1].messages if isinstance(message, ToolResult))
    assert expected in result.text, result.text


def test_the_official_inspector_sees_this_home_as_a_server(tmp_path: Path) -> None:
    inspector = shutil.which("mcp-inspector", path=PLACES)
    if inspector is None:
        pytest.skip("needs @modelcontextprotocol/inspector (npm)")
    env = {"HOME": str(tmp_path), "PATH": PLACES, "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [inspector, "--cli", sys.executable, "-m", "homarus", "mcp", "serve", "--method", "tools/list"]
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert "conversations_list" in done.stdout, done.stderr
