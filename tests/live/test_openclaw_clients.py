"""The unmodified clients of the npm package `openclaw` against our gateway. `make test-live` says what they need.

OPENCLAW_NODE_MODULES names a folder with the npm packages node@24, openclaw@2026.9.6 and playwright-core.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.ports import own_port

from bench import mock_model
from homarus.gateway.methods import table

MODULES = os.environ.get("OPENCLAW_NODE_MODULES", "")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        not (MODULES and Path(MODULES, "openclaw").is_dir()),
        reason="OPENCLAW_NODE_MODULES names no folder with the npm package openclaw",
    ),
]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
TOKEN = "a-token-that-is-long-enough-for-everybody"
REPLY = "All is well"
HERE = Path(__file__).parent


class Home:
    """Our gateway with a mock model, and the original's clients beside it."""

    def __init__(self, folder: Path, model: int) -> None:
        self.folder = folder
        self.port = 0
        provider = {"baseUrl": f"http://127.0.0.1:{model}/v1", "api": "openai-completions", "apiKey": "x"}
        models = [{"id": "m", "name": "Mock", "contextWindow": 128_000}]
        scopes = [f"operator.{name}" for name in ("admin", "pairing", "approvals", "questions")]
        page = str(Path(MODULES, "openclaw/dist/control-ui"))
        gateway = {"auth": {"token": TOKEN, "secretScopes": scopes}, "controlUi": {"root": page}}
        document = {
            "agents": {"defaults": {"model": "mock/m"}},
            "models": {"providers": {"mock": {**provider, "models": models}}},
            "gateway": gateway,
        }
        state = folder / ".openclaw"
        state.mkdir()
        (state / "openclaw.json").write_text(json.dumps(document))

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{MODULES}/.bin{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder / "theirs"),
            "OPENCLAW_STATE_DIR": str(self.folder / "theirs/state"),
            "OPENCLAW_CONFIG_PATH": str(self.folder / "client.json"),
            "NO_COLOR": "1",
            "TERM": "xterm-256color",
        }

    @contextmanager
    def serving(self) -> Iterator[None]:
        env = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
        # Changed settings may start it anew, and its clients look for it where it was.
        line = [sys.executable, "-m", "homarus", "gateway", "run", "--port", str(own_port())]
        process = subprocess.Popen(line, env=env, stdout=subprocess.PIPE, text=True)
        assert process.stdout
        try:
            self.port = next(int(said.split(" port ")[1].split()[0]) for said in process.stdout if " port " in said)
            theirs = {"url": f"ws://127.0.0.1:{self.port}", "token": TOKEN}
            client = {"mode": "remote", "port": self.port, "remote": theirs, "auth": {"mode": "token", "token": TOKEN}}
            (self.folder / "client.json").write_text(json.dumps({"gateway": client}))
            wait_for(lambda: self.get("/startupz"))
            yield
        finally:
            process.terminate()
            process.communicate(timeout=120)
            assert process.returncode == 0

    def get(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def client(self, *words: str) -> str:
        line = ["node", f"{MODULES}/openclaw/openclaw.mjs", *words]
        done = subprocess.run(line, env=self.env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{words}: {done.stderr[-800:]} {done.stdout[-400:]}"
        return done.stdout

    def call(self, method: str, params: Any = None) -> Any:
        more = [] if params is None else ["--params", json.dumps(params)]
        return json.loads(self.client("gateway", "call", method, "--json", *more))

    def refusal(self, method: str, params: Any) -> str:
        """Return why the gateway does not do something."""
        line = ["gateway", "call", method, "--json", "--params", json.dumps(params)]
        whole = ["node", f"{MODULES}/openclaw/openclaw.mjs", *line]
        done = subprocess.run(whole, env=self.env, capture_output=True, text=True, timeout=600)
        assert done.returncode, f"{method}: {done.stdout[-400:]}"
        return (done.stderr + done.stdout)[-800:]


def wait_for(condition: Any, seconds: float = 300) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not come"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with mock_model.serving() as model:
        found = Home(tmp_path_factory.mktemp("home"), model)
        with found.serving():
            yield found


def test_the_command_line(home: Home) -> None:
    assert json.loads(home.client("health", "--json"))["ok"] is True
    assert json.loads(home.client("status", "--json"))
    assert json.loads(home.client("gateway", "probe", "--json"))
    assert REPLY in home.client("agent", "--agent", "main", "-m", "hello")
    told = json.loads(home.client("agent", "--agent", "main", "-m", "hello again", "--json"))
    assert REPLY in told["result"]["payloads"][0]["text"]


class Terminal:
    """A program inside tmux, as a person sees it."""

    def __init__(self, home: Home) -> None:
        self._tmux = ["tmux", "-L", f"homarus-live-{os.getpid()}"]
        line = f"node {MODULES}/openclaw/openclaw.mjs tui"
        settings = [f"{key}={value}" for key, value in home.env.items()]
        subprocess.run(
            [*self._tmux, "new-session", "-d", "-x", "120", "-y", "50", "env", *settings, "sh", "-c", line], check=True
        )

    def shows(self, text: str, seconds: float = 300) -> None:
        wait_for(lambda: text in self.screen, seconds)

    @property
    def screen(self) -> str:
        return subprocess.run([*self._tmux, "capture-pane", "-p"], capture_output=True, text=True).stdout

    def type(self, *keys: str) -> None:
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False)


@pytest.mark.skipif(not shutil.which("tmux"), reason="the Debian package tmux is missing")
def test_the_terminal_page_shows_history_sends_and_stops(home: Home) -> None:
    home.client("agent", "--agent", "main", "-m", "said before")
    terminal = Terminal(home)
    try:
        terminal.shows("gateway connected")
        terminal.shows("said before")
        terminal.type("hello from the terminal", "Enter")
        wait_for(lambda: REPLY in terminal.screen.partition("hello from the terminal")[2])
        terminal.type("[[wait:120]] take your time", "Enter")
        wait_for(lambda: home.call("sessions.describe", {"key": "agent:main:main"})["session"]["hasActiveRun"])
        terminal.type("Escape")
        terminal.shows("abort")
        assert home.call("sessions.describe", {"key": "agent:main:main"})["session"]["hasActiveRun"] is False
    finally:
        terminal.end()


@pytest.mark.skipif(not CHROMIUM, reason="the Debian package chromium is missing")
def test_the_page_for_browsers(home: Home) -> None:
    tabs = ["/sessions", "/usage", "/config", "/agents"]
    tabs += ["/cron"] if "cron.list" in table() else []
    script = [
        str(HERE / "openclaw/page.mjs"),
        f"http://127.0.0.1:{home.port}",
        TOKEN,
        "hello from the page",
        REPLY,
        *tabs,
    ]
    env = {**home.env, "OPENCLAW_NODE_MODULES": MODULES, "CHROMIUM": CHROMIUM}
    done = subprocess.run(["node", *script], env=env, capture_output=True, text=True, timeout=300)
    found = json.loads(done.stdout)
    assert (found["errors"], found["reply"], found["stuck"]) == ([], True, False)
    assert {tab: seen["banners"] for tab, seen in found["tabs"].items()} == {tab: [] for tab in tabs}
    assert "agent:main:main" in found["tabs"]["/sessions"]["text"]


def test_an_editor_drives_the_agent(home: Home) -> None:
    """`openclaw acp` is a client of the gateway that editors start."""
    line = ["node", f"{MODULES}/openclaw/openclaw.mjs", "acp"]
    with subprocess.Popen(line, env=home.env, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdin
        assert process.stdout
        heard: list[dict[str, Any]] = []

        def ask(ident: int, method: str, params: dict[str, Any]) -> Any:
            assert process.stdin
            assert process.stdout
            request = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
            process.stdin.write(f"{json.dumps(request)}\n")
            process.stdin.flush()
            for said in process.stdout:
                frame = json.loads(said)
                heard.append(frame)
                if frame.get("id") == ident:
                    return frame["result"]
            raise AssertionError("the bridge ended")

        watch = threading.Timer(120, process.kill)
        watch.start()
        try:
            ask(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            session = ask(2, "session/new", {"cwd": str(home.folder), "mcpServers": []})["sessionId"]
            prompt = [{"type": "text", "text": "hello from the editor"}]
            assert ask(3, "session/prompt", {"sessionId": session, "prompt": prompt})["stopReason"] == "end_turn"
        finally:
            watch.cancel()
            process.terminate()
    chunks = [each["params"]["update"] for each in heard if each.get("method") == "session/update"]
    text = "".join(each["content"]["text"] for each in chunks if each["sessionUpdate"] == "agent_message_chunk")
    assert REPLY in text


def test_a_node_is_let_in_and_does_what_it_is_told(home: Home) -> None:
    """`openclaw node run` offers commands of its machine; two approvals later it is asked for one."""

    def ours(*words: str) -> Any:
        env = {"HOME": str(home.folder), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
        line = [sys.executable, "-m", "homarus", *words, "--json"]
        done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def node() -> subprocess.Popen[bytes]:
        line = [f"{MODULES}/openclaw/openclaw.mjs", "node", "run", "--host", "127.0.0.1", "--port", str(home.port)]
        env = home.env | {"OPENCLAW_GATEWAY_TOKEN": TOKEN}
        return subprocess.Popen(["node", *line], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wanting() -> list[str]:
        return [wish["requestId"] for wish in ours("devices", "list")["pending"] if wish.get("role") == "node"]

    first = node()
    try:
        wait_for(wanting)
        ours("devices", "approve", wanting()[0])
    finally:
        first.kill()
        first.wait()
    second = node()
    try:
        wait_for(lambda: ours("nodes", "list")["pending"])
        approved = ours("nodes", "approve")["node"]
        assert "system.which" in approved["commands"]
        assert not [name for name in approved["commands"] if name.startswith(("file.", "dir.", "workspace."))]
        found = ours("nodes", "invoke", approved["nodeId"], "system.which", '{"bins": ["sh", "no-such-program"]}')
        assert list(found["payload"]["bins"]) == ["sh"]
        assert home.call("node.invoke", {**ORDER, "nodeId": approved["nodeId"]})["payload"]["bins"]
        assert home.call("exec.approvals.node.get", {"nodeId": approved["nodeId"]})["file"]["version"] == 1
        assert "connected" in home.client("nodes", "status")
        ours("nodes", "remove", approved["nodeId"])
    finally:
        second.kill()
        second.wait()


ORDER = {"command": "system.which", "params": {"bins": ["sh"]}, "timeoutMs": 10_000, "idempotencyKey": "live"}


def test_gateway_call_reaches_every_method(home: Home) -> None:
    """Each method with the parameters that the original's own schemas name, by the original's own client."""
    main, own = {"sessionKey": "agent:main:main"}, {"key": "agent:main:live"}
    state, rules = home.call("config.get"), home.call("exec.approvals.get")
    home.call("chat.send", {**main, "message": "first", "idempotencyKey": "live-0"})
    home.call("agent.wait", {"runId": "live-0", "timeoutMs": 20_000})
    entry = home.call("chat.history", {**main, "limit": 5})["messages"][-1]["__openclaw"]["id"]
    schedule, payload = {"kind": "every", "everyMs": 3_600_000}, {"kind": "systemEvent", "text": "look around"}
    job = {"name": "live", "schedule": schedule, "sessionTarget": "main", "wakeMode": "next-heartbeat"}
    made = home.call("cron.add", {**job, "payload": payload})["id"]
    calls: dict[str, Any] = {
        "health": None,
        "status": {"includeChannelSummary": False},
        "system-presence": None,
        "logs.tail": {"limit": 10, "maxBytes": 1000},
        "channels.status": {"probe": False, "timeoutMs": 1000},
        "config.get": {},
        "config.schema": {},
        "config.schema.lookup": {"path": "gateway.auth"},
        "config.patch": {"raw": '{"ui": {"assistant": {"name": "Clawd"}}}', "baseHash": state["hash"]},
        "models.list": {"view": "configured"},
        "models.authStatus": {},
        "agents.list": {},
        "agents.create": {"name": "Live One", "emoji": "🦞", "model": "mock/m"},
        "agents.update": {"agentId": "live-one", "name": "Second", "model": None},
        "agents.delete": {"agentId": "live-one", "deleteFiles": True},
        "agents.files.list": {"agentId": "main"},
        "agents.files.get": {"agentId": "main", "name": "AGENTS.md"},
        "agents.files.set": {"agentId": "main", "name": "USER.md", "content": "# Me\n"},
        "agent.identity.get": {"agentId": "main"},
        "skills.status": {"agentId": "main"},
        "skills.update": {"skillKey": "live", "enabled": False, "env": {"A": "b"}},
        "memory.search": {"query": "me"},
        "doctor.memory.status": {},
        "tools.catalog": {"agentId": "main"},
        "tools.effective": main,
        "tools.invoke": {"name": "session_status", "args": {}, **main},
        "commands.list": {"agentId": "main", "scope": "text", "includeArgs": False},
        "chat.history": {**main, "limit": 200},
        "chat.startup": main,
        "chat.metadata": main,
        "chat.message.get": {**main, "messageId": entry},
        "chat.send": {**main, "message": "hello", "deliver": False, "idempotencyKey": "live-1"},
        "agent.wait": {"runId": "live-1", "timeoutMs": 20_000},
        "chat.abort": main,
        "sessions.list": {"limit": 5, "includeDerivedTitles": True, "includeLastMessage": True},
        "sessions.create": {**own, "label": "live"},
        "sessions.patch": {**own, "label": "renamed", "thinkingLevel": None},
        "sessions.describe": own,
        "sessions.get": own,
        "sessions.send": {**own, "message": "hello", "idempotencyKey": "live-2"},
        "sessions.abort": own,
        "sessions.steer": {**own, "message": "hello again", "idempotencyKey": "live-3"},
        "sessions.preview": {"keys": ["agent:main:main"], "limit": 3, "maxChars": 80},
        "sessions.resolve": own,
        "sessions.search": {"query": "hello", "limit": 3},
        "sessions.fork": {**main, "entryId": entry},
        "sessions.rewind": {**main, "entryId": entry},
        "sessions.usage": {"range": "7d"},
        "usage.cost": {},
        "usage.status": {},
        "sessions.compact": own,
        "sessions.reset": {**own, "reason": "reset"},
        "sessions.delete": {**own, "deleteTranscript": True},
        "sessions.cleanup": {"allAgents": True, "enforce": False},
        "device.pair.list": {},
        "device.pair.setupCode": {},
        "node.list": {},
        "node.pair.list": {},
        "cron.status": {},
        "cron.list": {"includeDisabled": True, "limit": 50, "offset": 0},
        "cron.get": {"id": made},
        "cron.update": {"id": made, "patch": {"enabled": False}},
        "cron.run": {"id": made, "mode": "if-enabled"},
        "cron.runs": {"id": made, "limit": 5},
        "cron.remove": {"id": made},
        "wake": {"mode": "next-heartbeat", "text": "something happened"},
        "set-heartbeats": {"enabled": True},
        "last-heartbeat": {},
        "sessions.branches.list": main,
        "chat.inject": {**main, "message": "a note", "label": "live"},
        "exec.approval.list": {},
        "exec.approval.request": {"command": "true", "commandArgv": ["true"], "cwd": None, "timeoutMs": 1000},
        "openclaw.approval.list": {},
        "exec.approvals.get": {},
        "exec.approvals.set": {"file": {"version": 1, "defaults": {}, "agents": {}}, "baseHash": rules["hash"]},
        "plugin.approval.list": {},
        "question.list": {},
        "tasks.list": {},
        "tasks.cancel": {"taskId": "none"},
        "audit.list": {"limit": 5},
        "update.status": {},
        "system.info": {},
        "system-event": {"text": "a live client", "mode": "cli", "reason": "test", "wake": False},
        "sessions.subscribe": {},
        "sessions.messages.subscribe": {"key": "agent:main:main"},
        "sessions.messages.unsubscribe": {"key": "agent:main:main"},
        "themes.list": {},
    }
    failed = {}
    for method, params in calls.items():
        try:
            home.call(method, params)
        except AssertionError as problem:
            failed[method] = str(problem)[:300]
    assert failed == {}
    assert sorted(set(table()) - set(calls) - set(GHOSTS) - APART) == []


# Asked for something that is not there: the parameters are understood, and the answer says what is missing.
GHOST, NOBODY = {"requestId": "ghost"}, {"channel": "telegram", "to": "@nobody", "idempotencyKey": "live-nobody"}
RULES: dict[str, Any] = {"version": 1, "defaults": {}, "agents": {}}
GHOSTS: dict[str, Any] = {
    "device.pair.approve": GHOST,
    "device.pair.reject": GHOST,
    "device.pair.remove": {"deviceId": "ghost"},
    "device.pair.rename": {"deviceId": "ghost", "label": "Phone"},
    "device.token.rotate": {"deviceId": "ghost", "role": "operator", "scopes": ["operator.read"]},
    "device.token.revoke": {"deviceId": "ghost", "role": "operator"},
    "node.describe": {"nodeId": "ghost"},
    "node.pair.approve": GHOST,
    "node.pair.reject": GHOST,
    "node.pair.remove": {"nodeId": "ghost"},
    "node.rename": {"nodeId": "ghost", "displayName": "Desk"},
    "node.invoke": {"nodeId": "ghost", **ORDER},
    "exec.approvals.node.get": {"nodeId": "ghost"},
    "exec.approvals.node.set": {"nodeId": "ghost", "file": RULES},
    "exec.approval.get": {"id": "ghost"},
    "exec.approval.resolve": {"id": "ghost", "decision": "deny"},
    "exec.approval.waitDecision": {"id": "ghost"},
    "tasks.get": {"taskId": "ghost"},
    "channels.start": {"channel": "telegram", "accountId": "default"},
    "channels.stop": {"channel": "telegram"},
    "channels.logout": {"channel": "telegram"},
    "web.login.start": {"channel": "whatsapp", "force": False, "timeoutMs": 1000, "verbose": False},
    "web.login.wait": {"channel": "whatsapp", "timeoutMs": 1000},
    "send": {**NOBODY, "message": "hello", "silent": True},
    "poll": {**NOBODY, "question": "tea?", "options": ["yes", "no"], "maxSelections": 1},
    "message.action": {
        "channel": "telegram",
        "action": "send",
        "params": {"to": "@nobody", "message": "hello"},
        "idempotencyKey": "live-action",
        "senderIsOwner": True,
        "requesterAccountId": "default",
    },
    # Uploads are off unless the settings allow them.
    "skills.upload.begin": {"kind": "skill-archive", "slug": "live", "sizeBytes": 10},
    "skills.upload.chunk": {"uploadId": "ghost", "offset": 0, "dataBase64": "aGVsbG8="},
    "skills.upload.commit": {"uploadId": "ghost"},
    "skills.install": {"source": "upload", "uploadId": "ghost", "slug": "live"},
    "config.set": {"raw": "{}", "baseHash": "stale"},
    "config.apply": {"raw": "{}", "baseHash": "stale", "note": "live"},
    # What nodes say is not for operators.
    "node.invoke.result": {"id": "ghost", "nodeId": "ghost", "ok": True},
    "node.event": {"event": "node.presence.alive"},
    "node.skills.update": {"skills": []},
    "node.pluginTools.update": {"tools": []},
    "node.runnerInventory.update": {"capacity": {"total": 1, "available": 1}},
    "skills.bins": {},
}
# What ends the gateway, what is called before the others or gives two answers, and our own programs' methods.
APART = {"gateway.restart.request", "cron.add", "agent", "directory.list"}
APART |= {name for name in table() if name.startswith(("home.", "page."))}


def test_what_is_not_there_is_told_and_its_parameters_are_understood(home: Home) -> None:
    misread = {}
    for method, params in GHOSTS.items():
        words = home.refusal(method, params)
        if any(sign in words for sign in ("params", "unexpected property", "unknown method", "internal error")):
            misread[method] = words
    assert misread == {}
