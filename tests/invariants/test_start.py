"""A start and a turn run nothing that nobody switched on, and reach no network: seen by the interpreter's own audit events."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = """
import asyncio, json, os, sys

seen = []

def audit(event, args):
    text = " ".join(map(str, args[:2])) if event != "exec" else args[0].co_filename
    if event in {"open", "import", "compile", "exec", "subprocess.Popen", "os.exec", "os.posix_spawn"} and "evil" in text:
        seen.append([event, text[:300]])
    if event in {"socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"}:
        seen.append([event, text[:200]])

sys.addaudithook(audit)
from homarus import Agent

async def main():
    async with Agent.open(env=dict(os.environ)) as agent:
        agent.client.runtime.automation.start()
        await asyncio.sleep(0)
        reached = [each for each in seen if each[0].startswith("socket") and "family=1," not in each[1]]
        await agent.ask("Remember that the key hangs in the hall.")
        # A turn may look for a model on this machine itself, and for nothing beyond it.
        print(json.dumps(reached + [each for each in seen if "127.0.0.1" not in each[1] and "family=1," not in each[1]]))

asyncio.run(main())
"""
# A gateway that starts, tells that it is up, and stops; it listens on this machine, which reaches nobody.
GATEWAY = (
    DRIVER.partition("async def main")[0]
    + """
import socket
from homarus.core.clock import SystemClock
from homarus.gateway import wire
from homarus.gateway.live import Given
from homarus.gateway.server import Gateway

async def main():
    runtime = Agent.open(env=dict(os.environ)).client.runtime
    gateway = Gateway(runtime, Given(token="a-token-that-is-long-enough-for-everybody"))
    port = socket.create_server(("127.0.0.1", 0))
    port.setblocking(False)
    server = wire.server(gateway, gateway.live.settings, None)
    serving = asyncio.ensure_future(server.serve(sockets=[port]))
    await server.up.wait()
    await gateway.start()
    for _ in range(100):
        await asyncio.sleep(0)
    await gateway.stop()
    server.should_exit = True
    await serving
    await runtime.aclose()
    print(json.dumps([each for each in seen if "family=1," not in each[1]]))

asyncio.run(main())
"""
)
EVIL = "open({mark!r}, 'a').write(__name__)\ndef register(api): pass\ndef handle(event): pass\n"


def trap(home: Path, mark: Path) -> Path:
    """Put code everywhere where code of others may lie, switched on nowhere; return a folder of installed packages."""
    state, site, code = home / ".openclaw", home / "site", EVIL.format(mark=str(mark))
    manifest = {"id": "evil", "entry": "plugin.py:register", "tools": [{"name": "x", "description": "x"}]}
    hook = (
        '---\nname: evil\ndescription: evil\nmetadata: {"openclaw": {"events": ["agent", "gateway", "command"]}}\n---\n'
    )
    skill = "---\nname: evil\ndescription: evil\n---\n"
    files = {
        "plugins/evil/homarus.plugin.json": json.dumps(manifest),
        "plugins/evil/plugin.py": code,
        "plugins/evil/evil.pth": "import evil_package",
        "extensions/evil/openclaw.plugin.json": '{"id": "evil"}',
        "extensions/evil/index.js": "require('fs').writeFileSync('evil', '')",
        "hooks/evil/HOOK.md": hook,
        "hooks/evil/handler.py": code,
        "workspace/hooks/evil/HOOK.md": hook,
        "workspace/hooks/evil/handler.py": code,
        "skills/evil/SKILL.md": skill,
        "skills/evil/scripts/evil.py": code,
    }
    for name, text in files.items():
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_text(text)
    (site / "evil_package").mkdir(parents=True)
    (site / "evil_package" / "__init__.py").write_text(code)
    (site / "evil_package" / "homarus.plugin.json").write_text(json.dumps(manifest))
    facts = site / "evil_package-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: evil-package\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[homarus.plugins]\nevil = evil_package\n[console_scripts]\nevil = evil_package:x\n"
    )
    server = {"command": "evil-server", "enabled": False}
    config = {
        "plugins": {"entries": {"evil": {"enabled": False}, "other": {"enabled": False}}},
        "mcp": {"servers": {"evil": server}},
    }
    (state / "openclaw.json").write_text(json.dumps(config))
    return site


@pytest.mark.parametrize("driver", [DRIVER, GATEWAY], ids=["turn", "gateway"])
def test_a_start_runs_nothing_that_nobody_switched_on_and_reaches_no_network(tmp_path: Path, driver: str) -> None:
    mark = tmp_path / "mark"
    site = trap(tmp_path, mark)
    path = os.pathsep.join([*filter(None, sys.path), str(site)])
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": path, "TZ": "UTC"}
    done = subprocess.run(
        [sys.executable, "-c", driver], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    # Skills are read: that is what they are for. Hooks and folders are looked at.
    looked = ("skills/evil", "hooks/evil", "SKILL.md", "HOOK.md")
    rows = [row for row in json.loads(done.stdout) if not (row[0] == "open" and row[1].split()[0].endswith(looked))]
    assert rows == []
    assert not mark.exists()
    # The trap works: listing plugins finds it, still without running it, and the program that loads it would run it.
    line = [sys.executable, "-m", "homarus", "plugins", "list", "--json"]
    listed = subprocess.run(line, env=env, capture_output=True, text=True, timeout=120, check=True)
    assert [row["state"] for row in json.loads(listed.stdout)["plugins"]] == ["off"]
    assert not mark.exists()
    subprocess.run([sys.executable, "-c", "import evil_package"], env=env, timeout=120, check=True)
    assert mark.read_text() == "evil_package"
