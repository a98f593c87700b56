"""Real MCP servers, each in a turn: what people install first. What is not installed is skipped, with its package's name."""

import asyncio
import os
import shutil
import subprocess
import sys
import urllib.request
from asyncio.subprocess import PIPE, STDOUT
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


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (["--method", "tools/list"], "conversations_list"),
        (["--method", "tools/call", "--tool-name", "memory_search", "--tool-arg", "query=boiler"], "serviced in March"),
        (["--method", "resources/list"], "homarus://conversations"),
        (["--method", "resources/read", "--uri", "homarus://memory/MEMORY.md"], "serviced in March"),
    ],
)
def test_the_official_inspector_sees_this_home_as_a_server(tmp_path: Path, question: list[str], expected: str) -> None:
    inspector = shutil.which("mcp-inspector", path=PLACES)
    if inspector is None:
        pytest.skip("needs @modelcontextprotocol/inspector (npm)")
    notes = tmp_path / ".openclaw" / "workspace"
    notes.mkdir(parents=True)
    (notes / "MEMORY.md").write_text("The boiler was serviced in March.\n")
    line = [inspector, "--cli", sys.executable, "-m", "homarus", "mcp", "serve", *question]
    done = subprocess.run(line, env=environment(tmp_path), capture_output=True, text=True, timeout=120, check=False)
    assert expected in done.stdout, done.stderr


def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": PLACES, "PYTHONPATH": os.pathsep.join(sys.path)}


# A server that signs people in and gives tokens for two seconds only.
ASKS_TO_SIGN_IN = """
import asyncio, socket
from fastmcp import FastMCP
from fastmcp.server.auth.providers import in_memory
from mcp.server.auth.settings import ClientRegistrationOptions

in_memory.DEFAULT_ACCESS_TOKEN_EXPIRY_SECONDS = 2
listening = socket.create_server(("127.0.0.1", 0))
base = f"http://127.0.0.1:{listening.getsockname()[1]}"
auth = in_memory.InMemoryOAuthProvider(base_url=base, client_registration_options=ClientRegistrationOptions(enabled=True))
server = FastMCP("private", auth=auth)

@server.tool(annotations={"readOnlyHint": True, "openWorldHint": False})
def secret() -> str:
    return "the key hangs in the hall"

print(base, flush=True)
asyncio.run(server.run_http_async(show_banner=False, sockets=[listening], log_level="error"))
"""


async def test_a_server_of_fastmcp_that_asks_people_to_sign_in(tmp_path: Path) -> None:
    program = shutil.which("fastmcp", path=PLACES)
    if program is None:
        pytest.skip("needs fastmcp (PyPI)")
    (tmp_path / "server.py").write_text(ASKS_TO_SIGN_IN)
    homarus = [sys.executable, "-m", "homarus", "mcp"]
    ask = Line(calls=(("far__secret", {}),))
    server = await asyncio.create_subprocess_exec(
        Path(program).parent / "python",
        tmp_path / "server.py",
        stdout=PIPE,
        env={"PATH": PLACES, "HOME": str(tmp_path)},
    )
    try:
        assert server.stdout is not None
        base = (await server.stdout.readline()).decode().strip()
        config = {
            "agents": {"defaults": {"sandbox": {"mode": "off"}}},
            "mcp": {"servers": {"far": {"url": f"{base}/mcp"}}},
        }
        home = House(tmp_path, ask, "done", ask, "again", config=config)
        env = environment(tmp_path)
        probe = await asyncio.create_subprocess_exec(*homarus, "probe", "far", env=env, stdout=PIPE, stderr=STDOUT)
        assert b"homarus mcp login far" in (await probe.communicate())[0]
        signing = await asyncio.create_subprocess_exec(*homarus, "login", "far", env=env, stdout=PIPE, stderr=PIPE)
        assert signing.stderr is not None
        told = (await signing.stderr.readline()).decode()
        await asyncio.to_thread(lambda: urllib.request.urlopen(told[told.index("http") :].strip(), timeout=60).read())
        assert b"signed in to far" in (await signing.communicate())[0]
        async with home.agent(clock=SystemClock()) as agent:
            assert (await agent.ask("go")).text == "done"
            await asyncio.sleep(3)  # its token is over by now
            assert (await agent.ask("go")).text == "again"
        first, second = (message for message in home.model.requests[-1].messages if isinstance(message, ToolResult))
        assert "in the hall" in first.text
        assert "in the hall" in second.text
    finally:
        server.kill()
        await server.wait()
