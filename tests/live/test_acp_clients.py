"""Other people's editors: the official libraries in Python and TypeScript drive `homarus acp` through a call, a question and a stop.

HOMARUS_NODE_MODULES names a folder `node_modules` with @agentclientprotocol/sdk and @zed-industries/agent-client-protocol.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bridges.test_acp import Editor
from tests.scenarios.home import House, until

from homarus.config.paths import resolve_paths
from homarus.plugins.manifest import FILE, Lock, fingerprint

pytest.importorskip("acp", reason="needs the package agent-client-protocol")
from acp import PROTOCOL_VERSION, spawn_agent_process, text_block

pytestmark = pytest.mark.live
MODULES = os.environ.get("HOMARUS_NODE_MODULES", "")
# A model in a plugin: it asks for a command once, then says so, and thinks for ever when it is told to.
MODEL = """
import asyncio
from homarus.core.errors import ModelError, ModelFailure
from homarus.core.events import TextDelta
from homarus.core.messages import Assistant, StopReason, Text, ToolCall, ToolResult
from homarus.models.provider import Stop

class Model:
    async def stream(self, request, *, cancel):
        last = request.messages[-1]
        if isinstance(last, ToolResult):
            yield TextDelta("made it")
            yield Stop(Assistant((Text("made it"),)))
        elif "for ever" in last.text:
            yield TextDelta("well")
            try:
                with cancel.interrupting():
                    await asyncio.sleep(3600)
            except BaseException:
                yield Stop(Assistant((Text("well"),), stop_reason=StopReason.ABORTED), ModelError(ModelFailure.ABORTED, "stopped"))
        else:
            call = ToolCall("c1", "exec", {"command": "touch made"})
            yield Stop(Assistant((call,), stop_reason=StopReason.TOOL_USE))

def register(api):
    api.provider("play", lambda ref, credential: Model())
"""
# What both libraries of TypeScript have in common: what is sent, and what the person does.
EDITOR = """
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
const acp = await import(process.argv[2]);
const seen = { updates: [], asked: [], stops: [], text: "" };
const agent = spawn(process.argv[3], ["-m", "homarus", "acp"], { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
let began = null;
const person = {
  async requestPermission(params) {
    seen.asked.push(params.toolCall.title);
    return { outcome: { outcome: "selected", optionId: params.options.find(each => each.kind === "allow_once").optionId } };
  },
  async sessionUpdate({ update }) {
    seen.updates.push(update.sessionUpdate);
    if (update.sessionUpdate === "agent_message_chunk") seen.text += update.content.text;
    if (began && update.sessionUpdate === "agent_message_chunk") began();
  },
};
async function play(send, stop) {
  const hello = await send("initialize", { protocolVersion: 1, clientCapabilities: {} });
  const { sessionId } = await send("session/new", { cwd: process.cwd(), mcpServers: [] });
  const say = text => send("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  seen.stops.push((await say("run it")).stopReason);
  const started = new Promise(done => { began = done; });
  const turn = say("think for ever");
  await started;
  await stop({ sessionId });
  seen.stops.push((await turn).stopReason);
  console.log(JSON.stringify({ ...seen, version: hello.protocolVersion }));
}
"""
ZED = """
const conn = new acp.ClientSideConnection(() => person, stream);
const names = { initialize: "initialize", "session/new": "newSession", "session/prompt": "prompt" };
await play((method, params) => conn[names[method]](params), params => conn.cancel(params));
agent.kill();
"""
SDK = """
const app = acp.client({ name: "editor" })
  .onRequest("session/request_permission", ({ params }) => person.requestPermission(params))
  .onNotification("session/update", ({ params }) => person.sessionUpdate(params));
await app.connectWith(stream, ctx => play((method, params) => ctx.request(method, params), params => ctx.notify("session/cancel", params)));
agent.kill();
"""
CLIENTS = {"@zed-industries/agent-client-protocol": ZED, "@agentclientprotocol/sdk": SDK}


def home(folder: Path) -> House:
    plugins = {"entries": {"play": {"enabled": True, "inProcess": True}}}
    rules = {"agents": {"defaults": {"model": "play/one", "sandbox": {"mode": "off"}}}, "plugins": plugins}
    made = House(folder, config=rules)
    place = made.state / "plugins" / "play"
    place.mkdir(parents=True)
    (place / FILE).write_text(json.dumps({"id": "play", "entry": "plugin.py:register", "providers": ["play"]}))
    (place / "plugin.py").write_text(MODEL)
    Lock(resolve_paths(made.env)).write("play", fingerprint(place))
    return made


def environment(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}


async def test_the_library_of_python(tmp_path: Path) -> None:
    house, editor = home(tmp_path), Editor()
    command = (sys.executable, "-m", "homarus", "acp")
    async with spawn_agent_process(editor, *command, env=environment(tmp_path)) as (conn, _process):
        await conn.initialize(protocol_version=PROTOCOL_VERSION)
        session = (await conn.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        done = await conn.prompt(session_id=session, prompt=[text_block("run it")])
        assert (done.stop_reason, editor.said()) == ("end_turn", "made it")
        assert len(editor.questions) == 1
        turn = asyncio.create_task(conn.prompt(session_id=session, prompt=[text_block("think for ever")]))
        await until(lambda: editor.said().endswith("well"))
        await conn.cancel(session_id=session)
        assert (await turn).stop_reason == "cancelled"
    assert (house.workspace / "made").exists()


@pytest.mark.parametrize("package", CLIENTS)
def test_the_libraries_of_typescript(package: str, tmp_path: Path) -> None:
    node, place = shutil.which("node"), Path(MODULES, package)
    if not (node and MODULES and place.is_dir()):
        pytest.skip(f"needs node, and HOMARUS_NODE_MODULES with {package} (npm)")
    facts: dict[str, Any] = json.loads((place / "package.json").read_text())
    house, script = home(tmp_path), tmp_path / "editor.mjs"
    script.write_text(EDITOR + CLIENTS[package])
    line = [node, str(script), (place / facts["main"]).as_uri(), sys.executable]
    done = subprocess.run(
        line, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["version"], seen["stops"], seen["text"]) == (1, ["end_turn", "cancelled"], "made itwell")
    assert len(seen["asked"]) == 1
    assert {"available_commands_update", "tool_call", "tool_call_update", "agent_message_chunk"} <= set(seen["updates"])
    assert (house.workspace / "made").exists()
