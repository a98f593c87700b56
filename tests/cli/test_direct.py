"""`homarus agent -m TEXT` without the parser: it means the same, and it loads no more than a plain turn needs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.cli.agent import command
from homarus.cli.direct import understood

# What a turn that calls no tool has no use for. It was costly enough to be felt: a module takes about 0.2 ms.
UNUSED = {
    *("click", "gettext", "shutil", "difflib", "shlex"),
    *("homarus.agent.batch", "homarus.agent.flush", "homarus.agent.ports"),
    *("homarus.config.redact", "homarus.config.secrets", "homarus.config.write"),
    *("homarus.context.compact", "homarus.context.summarize", "homarus.context.rewrite", "homarus.context.cut"),
    *("homarus.gateway.offers.peers", "homarus.gateway.offers.views", "homarus.gateway.offers.cards"),
    *("homarus.gateway.subagents.attic", "homarus.gateway.subagents.reports", "homarus.gateway.subagents.spawning"),
    *("homarus.hooks.events", "homarus.models.arguments", "homarus.models.failover", "homarus.skills.audit"),
    *("homarus.prompt.kept", "homarus.prompt.report"),
    *("homarus.memory.memory", "homarus.memory.results", "homarus.memory.redact"),
    *("homarus.sandbox.process", "homarus.sandbox.docker", "homarus.sandbox.landlock", "homarus.sandbox.seccomp"),
    *(
        "homarus.sessions.maintenance",
        "homarus.sessions.lifecycle",
        "homarus.sessions.usage",
        "homarus.sessions.legacy",
    ),
    *("homarus.tools.approval", "homarus.tools.egress", "homarus.tools.gate", "homarus.tools.loopguard"),
    *("homarus.tools.ports", "homarus.tools.searching", "homarus.tools.target", "homarus.workspace.templates"),
    *("homarus.tools.addresses", "homarus.tools.command", "homarus.tools.globs"),
    *("homarus.tools.keys", "homarus.tools.patchtext", "homarus.tools.protected", "homarus.tools.schema"),
    *("homarus.tools.shell", "homarus.tools.textedit", "homarus.tools.untrusted"),
    *("homarus.workspace.identity", "homarus.workspace.prelude"),
}
_NAMES = (
    "-m",
    "--message",
    "--agent",
    "--session",
    "--model",
    "--thinking",
    "--timeout",
    "--mess",
    "-mhi",
    "--message=hi",
)
_WORDS = ("hello", "a b", "main", "5", "-5", "-", "--", "", " ", "--json", "--stream", "--local", "--help")
PIECES = st.one_of(
    st.tuples(st.sampled_from(_NAMES), st.sampled_from(_WORDS)),
    st.tuples(st.just("-m"), st.just("hello")),
    st.tuples(st.sampled_from(_WORDS)),
)


@given(st.lists(PIECES, max_size=4))
def test_what_it_understands_the_parser_understands_the_same(pieces: list[tuple[str, ...]]) -> None:
    words = [word for piece in pieces for word in piece]
    asked = understood(["agent", *words], {})
    if asked is None:
        return
    params = command.make_context("agent", list(words)).params
    assert (params["message"], params["agent_id"], params["session"]) == (asked.text, asked.agent_id, asked.session)
    assert (params["stream"], params["as_json"], params["model"]) == (
        asked.stream,
        asked.as_json,
        asked.options["model"],
    )
    assert params["thinking"] == ""
    assert params["timeout"] is None
    assert asked.text.strip()


def test_a_plain_message_is_understood() -> None:
    asked = understood(["agent", "--json", "-m", "hello there", "--session", "work"], {"HOME": "/home/ann"})
    assert asked is not None
    assert (asked.text, asked.session, asked.as_json, asked.stream) == ("hello there", "work", True, False)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("-m",),
        ("-m", ""),
        ("-m", "-"),
        ("-m", "-x"),
        ("-m", "hi", "there"),
        ("--help",),
        ("--thinking", "high", "-m", "hi"),
    ],
)
def test_the_rest_is_for_the_parser(words: tuple[str, ...]) -> None:
    assert understood(["agent", *words], {}) is None


def test_only_its_own_command_is_understood() -> None:
    assert understood(["chat", "-m", "hi"], {}) is None
    assert understood(["--debug", "agent", "-m", "hi"], {}) is None
    assert understood([], {}) is None


@pytest.mark.parametrize("name", ["_HOMARUS_COMPLETE", "OPENCLAW_LOG_LEVEL"])
def test_an_environment_that_asks_for_more_is_for_the_parser(name: str) -> None:
    assert understood(["agent", "-m", "hi"], {name: "debug"}) is None


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


def test_a_plain_turn_loads_only_what_it_uses(home: Path) -> None:
    code = (
        # Not part of an installation, and msgspec takes it where it is there.
        "import sys; sys.modules['typing_extensions'] = None; "
        "from homarus.__main__ import POSTPONED; from homarus.core.later import postpone; postpone(*POSTPONED); "
        "from homarus.cli import direct; code = direct.run(sys.argv[1:]); "
        "print(code, *(name for name, module in sys.modules.items() if type(module).__name__ != '_Postponed'))"
    )
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-c", code, "agent", "-m", "hello"]
    # The first turn of a home lays out its workspace; all others find it.
    for _ in range(2):
        done = subprocess.run(line, capture_output=True, text=True, check=True, env=env)
        said, modules = done.stdout.splitlines()
        assert (said, done.stderr) == ("All is well.", "")
    result, *loaded = modules.split()
    assert result == "0"
    assert (
        sorted(name for name in loaded if name.startswith(tuple(f"{top}." for top in UNUSED)) or name in UNUSED) == []
    )
