"""What a short command must not load: what only a chat, a search by meaning or another provider needs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

# Each of these costs a command more than the work it does.
HEAVY = {
    "prompt_toolkit",
    "rich",
    "pygments",
    "numpy",
    "onnxruntime",
    "wordllama",
    "pydantic_ai",
    "xllamacpp",
    "watchfiles",
}

# Of our own: what answers commands, judges calls of tools, and changes the configuration.
LATER = {
    f"homarus.{name}"
    for name in (
        "commands.table",
        "tools.gate",
        "config.write",
        "runtime.operations",
        "plugins",
        "gateway",
    )
}


class _Model(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        events = [{"choices": [{"index": 0, "delta": {"content": "All is well."}, "finish_reason": "stop"}]}]
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    Thread(target=server.serve_forever, daemon=True).start()
    provider = {"baseUrl": f"http://127.0.0.1:{server.server_port}/v1", "apiKey": "k", "models": [{"id": "m"}]}
    config = {"agents": {"defaults": {"model": "near/m"}}, "models": {"providers": {"near": provider}}}
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw" / "openclaw.json").write_text(json.dumps(config))
    yield tmp_path
    server.shutdown()
    server.server_close()


def loaded_by(home: Path, *words: str) -> tuple[str, set[str]]:
    """Return what a command printed, and the packages that it had loaded by its end, with every module of ours."""
    code = (
        "import sys; from homarus.__main__ import main; sys.argv[0] = 'homarus'; main(); "
        "print('LOADED', *{name if name.startswith('homarus.') else name.partition('.')[0] for name in sys.modules})"
    )
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-c", code, *words]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=env)
    assert done.stderr == ""
    said, _, packages = done.stdout.rpartition("LOADED")
    return said, set(packages.split())


def test_a_plain_turn_loads_nothing_heavy(home: Path) -> None:
    said, packages = loaded_by(home, "agent", "-m", "hello")
    assert said == "All is well.\n"
    assert not packages & {*HEAVY, *LATER}
    # Each costs a fifth of a millisecond. Whoever adds one here asks first whether every turn needs it.
    assert len([name for name in packages if name.startswith("homarus.")]) <= 275


def test_what_a_plain_turn_does_without_is_loaded_by_who_needs_it(home: Path) -> None:
    said, packages = loaded_by(home, "agent", "-m", "/status")
    assert "near/m" in said
    assert "homarus.commands.table" in packages


@pytest.mark.parametrize("words", [("--version",), ("--help",)])
def test_the_door_answers_without_the_parser(home: Path, words: tuple[str, ...]) -> None:
    _, packages = loaded_by(home, *words)
    assert not packages & {*HEAVY, "click", "msgspec", "asyncio"}
