"""A served home lives: it takes changed settings over, finishes what runs, starts anew, writes down who did what."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import TOKEN, Served, served
from tests.ports import own_port
from tests.scenarios.home import House, merge, until

from homarus.core.clock import SystemClock
from homarus.gateway.live import Given
from homarus.gateway.logs import JsonLines, Ledger, Tail, read_ledger, read_log
from homarus.gateway.metrics import MAX_NAMES, Metrics
from homarus.gateway.server import Gateway, serve

httpx = pytest.importorskip("httpx2")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short path: the name of a Unix socket holds a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="homarus-") as folder:
        yield Path(folder)


@pytest.fixture
async def home(tmp_path: Path):
    async with served(House(tmp_path)) as found:
        yield found


def change(house: House, more: dict[str, Any]) -> None:
    path = house.state / "openclaw.json"
    path.write_text(json.dumps(merge(json.loads(path.read_text()), more)))


async def test_what_each_turn_reads_is_taken_over(home: Served) -> None:
    async with home.client() as client:
        await client.call("agent", {"message": "one", "idempotencyKey": "r1"})
        await until(lambda: len(home.house.model.requests) == 1)
        assert "session_status" in {tool.name for tool in home.house.model.requests[0].tools}
        change(home.house, {"tools": {"deny": ["session_status"]}})
        await client.event("config.changed")
        await client.call("agent", {"message": "two", "idempotencyKey": "r2"})
        await until(lambda: len(home.house.model.requests) == 2)
        assert "session_status" not in {tool.name for tool in home.house.model.requests[1].tools}
    assert not home.gateway.life.restarts


async def test_a_skill_that_is_switched_off_is_gone_with_the_next_turn(home: Served) -> None:
    skill = home.house.workspace / "skills" / "tea" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tea\ndescription: Brew tea.\n---\nBoil water.\n")

    async with home.client() as client:
        seen = []
        for number, off in enumerate((False, True, False)):
            change(home.house, {"skills": {"entries": {"tea": {"enabled": not off}}}})
            assert home.gateway.life.changed() in {"hot", "none"}
            await client.call("agent", {"message": f"say {number}", "idempotencyKey": f"r{number}"})
            await until(lambda: len(home.house.model.requests) == len(seen) + 1)
            seen.append("Brew tea." in str(home.house.model.requests[-1].system))
    assert seen == [True, False, True]


async def test_a_file_that_cannot_be_used_changes_nothing_and_is_named(
    home: Served, caplog: pytest.LogCaptureFixture
) -> None:
    path = home.house.state / "openclaw.json"
    before = home.gateway.client.home.config.document
    path.write_text("{ broken")
    for _ in range(2):
        assert home.gateway.life.changed() == "none"
    assert caplog.text.count("the last good content stands in for it") <= 1
    assert f"{path}:1" in caplog.text
    path.write_text(json.dumps({"tools": {"deny": 7}}))
    assert home.gateway.life.changed() == "none"
    assert "is not used" in caplog.text and "tools.deny" in caplog.text
    path.write_text(json.dumps({"gateway": {"auth": {"secretScope": ["operator.read"]}}}))
    assert home.gateway.life.changed() == "none"
    assert "gateway.auth.secretScope: is no key that is known here (did you mean 'secretScopes'?" in caplog.text
    now = home.gateway.client.home.config.document
    assert now is before


async def test_a_second_block_that_would_take_rules_away_is_not_taken_over_and_is_named(
    home: Served, caplog: pytest.LogCaptureFixture
) -> None:
    path = home.house.state / "openclaw.json"
    change(home.house, {"gateway": {"auth": {"secretScopes": ["operator.read"]}}})
    home.gateway.life.changed()
    path.write_text(f"{path.read_text().rstrip()[:-1]}, gateway: {{}} }}")
    assert home.gateway.life.changed() == "none"
    assert f"{path}:1: gateway: is written twice" in caplog.text and "is not used" in caplog.text
    assert home.gateway.live.settings.auth.secret_scopes == ("operator.read",)


async def test_any_other_change_takes_a_fresh_start_and_waits_for_what_runs(home: Served) -> None:
    gate = home.house.model.hold()
    async with home.client() as client:
        ident = await client.send("agent", {"message": "begin", "idempotencyKey": "r1"})
        await client.response(ident)
        await home.house.model.entered.wait()
        change(home.house, {"env": {"vars": {"TEA": "green"}}})
        assert home.gateway.life.changed() == "restart"
        ended = asyncio.ensure_future(home.gateway.life.ended())
        await until(lambda: bool(home.gateway.stopping))
        async with httpx.AsyncClient(trust_env=False) as http:
            assert (await http.get(f"http://127.0.0.1:{home.port}/readyz", timeout=120)).status_code == 503
        assert not ended.done()
        gate.set()
        assert (await client.response(ident))["payload"]["status"] == "ok", "the turn was finished"
        await ended
        await home.gateway.stop()
        assert "restartExpectedMs" in await client.event("shutdown")
        assert (await client.closed())[0] == 1012


async def test_asked_twice_it_does_not_wait(home: Served) -> None:
    home.house.model.hold()
    async with home.client() as client:
        await client.call("agent", {"message": "begin", "idempotencyKey": "r1"})
        await home.house.model.entered.wait()
        home.gateway.life.stop()
        ended = asyncio.ensure_future(home.gateway.life.ended())
        await asyncio.sleep(0)
        assert not ended.done()
        home.gateway.life.stop()
        await asyncio.wait_for(ended, 120)


async def test_who_did_what_is_in_the_ledger_and_what_was_said_is_not(home: Served) -> None:
    async with home.client() as client:
        ident = await client.send("agent", {"message": "my secret plan", "idempotencyKey": "r1"})
        assert [(await client.response(ident))["payload"]["status"] for _ in range(2)] == ["accepted", "ok"]
        await client.ask("config.patch", {"raw": "{}", "baseHash": "x"})
        await client.call("health")
    async with home.socket() as stranger:
        await stranger.connect("wrong")
    folder = home.gateway.client.home.config.paths.own_dir / "audit"
    rows = read_ledger(folder, 100)
    seen = {(row["what"], row.get("method", ""), row.get("outcome", "")) for row in rows}
    assert {("call", "agent", "allowed"), ("call", "config.patch", "FORBIDDEN"), ("started", "", "")} <= seen
    assert {"connected", "refused", "run"} <= {row["what"] for row in rows}
    assert not any(row.get("method") == "health" for row in rows)
    text = "".join(path.read_text() for path in folder.iterdir())
    assert "secret plan" not in text
    assert "wrong" not in text
    assert all(path.stat().st_mode & 0o77 == 0 for path in folder.iterdir())


async def test_figures_need_a_credential_and_hold_no_content(home: Served) -> None:
    async with home.client() as client, httpx.AsyncClient(trust_env=False, timeout=120) as http:
        ident = await client.send("agent", {"message": "my secret plan", "idempotencyKey": "r1"})
        await client.response(ident)
        await client.response(ident)
        address = f"http://127.0.0.1:{home.port}/metrics"
        assert (await http.get(address)).status_code == 401
        text = (await http.get(address, headers={"Authorization": f"Bearer {TOKEN}"})).text
    assert 'homarus_run_completed_total{outcome="ok"} 1' in text
    assert 'homarus_model_tokens_total{kind="input",provider="script"} 100' in text
    assert "# TYPE homarus_connections gauge\nhomarus_connections 1" in text
    assert "secret plan" not in text


def test_the_number_of_names_is_bounded() -> None:
    metrics = Metrics()
    for number in range(MAX_NAMES + 50):
        metrics.add("tool_execution_total", tool=f'na"me\n{number}')
    found = metrics._counts["tool_execution_total"]
    assert len(found) == MAX_NAMES + 1
    assert found[(("tool", "other"),)] == 50


def test_the_log_holds_no_secrets_no_control_characters_and_not_too_much(tmp_path: Path) -> None:
    handler = JsonLines(tmp_path / "gateway.log")
    logger = logging.getLogger("tests.gateway.log")
    logger.addHandler(handler)
    logger.propagate = False
    secret = "sk-ant-" + "a1b2c3d4" * 6
    logger.warning("key %s\n\x1b[31mforged %s", secret, "x" * 20_000)
    rows, place = read_log(tmp_path / "gateway.log", 10)
    assert len(rows) == 1
    assert "a1b2c3d4" not in rows[0]["message"]
    assert "\x1b" not in rows[0]["message"]
    assert "\n" not in rows[0]["message"]
    assert len(rows[0]["message"]) < 5_000
    logger.error("next")
    assert [row["message"] for row in read_log(tmp_path / "gateway.log", 10, place)[0]] == ["next"]
    assert (tmp_path / "gateway.log").stat().st_mode & 0o77 == 0
    (tmp_path / "gateway.log").replace(tmp_path / "moved")
    logger.error("anew")
    assert [row["message"] for row in read_log(tmp_path / "gateway.log", 10)[0]] == ["anew"]
    (tmp_path / "moved").unlink()
    for _ in range(12_000):
        logger.warning("y" * 4_000)
    logger.removeHandler(handler)
    handler.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("gateway.log", "gateway.log.1", "gateway.log.2", "gateway.log.3")
    ]


def test_whoever_follows_the_log_misses_nothing_when_another_file_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "gateway.log"
    tail, seen, said = Tail(lambda: path), list[str](), list[str]()

    def say(text: str, *, cut: bool = False) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"message": text}) + ("" if cut else "\n"))
        said.append(text)

    def look() -> None:
        seen.extend(row["message"] for row in tail.more())

    look()
    say("first")
    look()
    say("half", cut=True)
    look()
    assert seen == ["first"]
    with path.open("a") as file:
        file.write("\n")
    say("last of the old")
    path.replace(tmp_path / "gateway.log.1")
    say("a much longer line than all that the old file held together")
    say("second of the new")
    look()
    path.write_text("")  # as a program that rotates by emptying does
    look()
    say("after")
    look()
    tail.close()
    assert seen == said


def test_old_days_of_the_ledger_go(tmp_path: Path) -> None:
    (tmp_path / "2020-01-01.jsonl").write_text("{}\n")
    Ledger(tmp_path, SystemClock()).note("started")
    assert [row["what"] for row in read_ledger(tmp_path, 10)] == ["started"]
    assert len(list(tmp_path.iterdir())) == 1


def command(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "homarus", *words], env=env, capture_output=True, text=True, timeout=120, check=False
    )


def test_one_process_serves_a_home_starts_anew_and_stops(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    assert command(env, "gateway", "status").returncode == 1
    server = subprocess.Popen(
        [sys.executable, "-m", "homarus", "gateway", "run", "--port", "0"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        while "serving" not in (line := server.stdout.readline()):
            assert line, server.stderr and server.stderr.read()
        facts = json.loads(command(env, "gateway", "status", "--json").stdout)
        assert (facts["running"], facts["answers"], facts["pid"]) == (True, True, server.pid)
        second = command({**env, "INVOCATION_ID": "x"}, "gateway", "run", "--port", "0")
        assert second.returncode == 78
        assert f"pid {server.pid}" in second.stderr
        said = command(env, "agent", "remember that the key is under the mat")
        assert said.returncode == 0, said.stderr
        assert json.loads(command(env, "health", "--json").stdout)["ok"]
        assert command(env, "gateway", "restart").returncode == 0
        again = json.loads(command(env, "gateway", "status", "--json").stdout)
        assert (again["pid"], again["since"] != facts["since"]) == (server.pid, True)
        while "serving" not in (line := server.stdout.readline()):
            assert line, server.stderr and server.stderr.read()
        assert facts["port"] > 0
        assert f"port {again['port']} " in line
        audit = command(env, "logs", "--audit", "--json").stdout
        assert '"home.run"' in audit
        assert command(env, "gateway", "stop").returncode == 0
        assert server.wait(60) == 0
        assert command(env, "gateway", "stop").returncode == 1
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGKILL)
        server.communicate()


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.gateway.served import served
from tests.scenarios.home import House

async def main() -> None:
    house = House(Path(sys.argv[1]))
    house.model.hold()
    async with served(house) as home, home.client() as client:
        await client.call("chat.send", {"sessionKey": "main", "message": "are you there?", "idempotencyKey": "r1"})
        await house.model.entered.wait()
        print("held", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_what_a_kill_left_unanswered_is_answered_by_the_next_start(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, str(tmp_path), env=env, stdout=asyncio.subprocess.PIPE
    )
    assert first.stdout is not None
    try:
        async with asyncio.timeout(240):
            assert (await first.stdout.readline()).strip() == b"held"
    finally:
        first.kill()
        await first.wait()
    async with served(House(tmp_path)) as home, home.client() as client:
        await until(lambda: len(home.house.model.requests) == 1)
        assert home.house.model.prompts == ["are you there?"]
        await until(lambda: not home.gateway.runtime.lanes.busy)
        seen = (await client.call("chat.history", {"sessionKey": "main"}))["messages"]
        assert [message["role"] for message in seen] == ["user", "assistant"], "it is there once, with its answer"


@pytest.mark.parametrize("free", [True, False])
async def test_any_port_is_the_one_from_before_while_that_is_free(tmp_path: Path, free: bool) -> None:
    before, seen = own_port(), list[int]()
    house = House(tmp_path, config={"gateway": {"auth": {"token": TOKEN}}})

    def ready(gateway: Gateway) -> None:
        lock = gateway.client.home.config.paths.own_dir / "gateway.lock"
        seen.extend((gateway.port, json.loads(lock.read_text())["port"]))
        gateway.life.stop()

    with contextlib.nullcontext() if free else socket.create_server(("127.0.0.1", before)):
        async with asyncio.timeout(120):
            runtime = house.agent(clock=SystemClock()).client.runtime
            assert not await serve(runtime, Given(port=0, before=before), ready=ready)
    assert seen[0] == seen[1] > 0, "the lock names the port that it is"
    assert (seen[0] == before) is free
