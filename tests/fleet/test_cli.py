"""`homarus fleet` as a person types it, against a real Postgres, with real processes for worker and edge."""

import asyncio
import base64
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.test_transfer import picture

from homarus.cli.main import run
from homarus.net.client import HttpClient


@pytest.fixture
def file(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "etc" / "fleet.json"
    monkeypatch.setenv("HOMARUS_FLEET_FILE", str(place))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (
        run(["fleet", "init", "--database", dsn, "--objects", str(tmp_path / "objects"), "--domain", "agents.example"])
        == 0
    )
    settings = json.loads(place.read_text())
    settings["root"] = str(tmp_path / "homes")
    place.write_text(json.dumps(settings))
    return place


@pytest.fixture
def home(tmp_path: Path) -> Path:
    root = tmp_path / "laptop"
    (root / ".openclaw" / "workspace").mkdir(parents=True)
    (root / ".openclaw" / "openclaw.json").write_text(
        json.dumps({"gateway": {"auth": {"token": "t" * 32}}, "agents": {"defaults": {"sandbox": {"mode": "off"}}}})
    )
    (root / ".openclaw" / "workspace" / "MEMORY.md").write_text("The gate code is 4711.\n")
    (root / "large.bin").write_bytes(os.urandom(400_000))
    return root


def asked(capfd: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict:
    capfd.readouterr()
    assert run(["fleet", *words, "--json"]) == code, capfd.readouterr().err
    return json.loads(capfd.readouterr().out)


def test_a_fleet_is_looked_after_by_hand(file, home, tmp_path, capfd):
    assert file.stat().st_mode & 0o077 == 0
    assert len(json.loads(file.read_text())["secret"]) >= 24
    done = asked(capfd, "import", "ada", str(home), "--tenant", "t1")
    assert done["files"] == 5 and "agents.defaults.sandbox.mode" in done["withoutEffect"]
    asked(capfd, "add", "bob")
    assert [each["home"] for each in asked(capfd, "homes")["homes"]] == ["ada", "bob"]
    assert [each["home"] for each in asked(capfd, "homes", "--tenant", "t1")["homes"]] == ["ada"]
    assert [each["home"] for each in asked(capfd, "homes", "b")["homes"]] == ["bob"]
    found = asked(capfd, "status")
    assert (found["homes"], found["free"], found["workers"]) == (2, 2, [])
    assert asked(capfd, "quota", "ada", "files=7")["quota"]["files"] == 7
    assert asked(capfd, "quota", "ada")["used"]["bytes"] > 400_000
    assert asked(capfd, "quota", "ada", "files=")["quota"]["files"] == 100_000
    asked(capfd, "export", "ada", str(tmp_path / "out"))
    assert picture(tmp_path / "out") == picture(home)
    checks = asked(capfd, "doctor", "--deep", code=1)["checks"]  # tests run without fsync, and no worker is there
    assert {"fsync is off: what was acknowledged can be lost in a power cut", "no worker takes homes"} == {
        c["what"] for c in checks if c["state"] == "bad"
    }
    said = asked(capfd, "invite", "bob", "--minutes", "60")  # no worker is there yet: it waits for one
    assert (said["taken"], said["gatewayUrl"]) == (False, "wss://bob.agents.example")
    code = json.loads(base64.urlsafe_b64decode(said["setupCode"] + "=="))
    assert code["url"] == said["gatewayUrl"]
    assert said["link"] == f"https://bob.agents.example/#pair={code['bootstrapToken']}"
    said = asked(capfd, "invite", "bob", "--url", "ws://127.0.0.1:8080/h/bob/")
    assert (said["gatewayUrl"], said["link"]) == ("ws://127.0.0.1:8080/h/bob", None)
    capfd.readouterr()
    assert run(["fleet", "invite", "bob"]) == 0
    shown = capfd.readouterr()
    assert "https://bob.agents.example/#pair=" in shown.out and "no worker has taken it in yet" in shown.err
    asked(capfd, "remove", "ada", "--yes")
    assert [each["home"] for each in asked(capfd, "homes")["homes"]] == ["bob"]
    assert list((tmp_path / "objects").rglob("*.zst")) == []
    assert asked(capfd, "init")["steps"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["export", "nobody", "x"], "no home"),
        (["move", "nobody", "w"], "no home"),
        (["drain", "w"], "no worker"),
        (["invite", "nobody"], "no home"),
        (["invite", "No Such"], "cannot name"),
        (["invite", "nobody", "--url", "there"], "no address"),
        (["quota", "nobody"], "no home"),
        (["quota", "nobody", "speed=1"], "no quota"),
        (["remove", "nobody", "--yes"], "no home"),
        (["add", "No Such"], "cannot name"),
        (["import", "ada", "etc"], "no home"),
        (["worker", "--listen", "here"], "no address"),
        (["worker", "--listen", "127.0.0.1:99999"], "no address"),
        (["worker", "--address", "here"], "no address"),
        (["quota", "nobody", "files"], "is not said"),
        (["quota", "nobody", "files=x"], "must be a number"),
        (["quota", "nobody", "messagesPerSecond=inf"], "without end"),
    ],
)
def test_mistakes_are_told_with_their_cure(words, said, file, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()
    assert run(["fleet", *words]) != 0
    shown = capfd.readouterr().err
    assert said in shown and "(" in shown


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "no database is named"),
        ({"HOMARUS_FLEET_DATABASE": "nonsense"}, "begins with 'nonsense'"),
        ({"HOMARUS_FLEET_DATABASE": "postgresql://x:a4711/8@127.0.0.1:9/none"}, "is no number"),
        ({"HOMARUS_FLEET_DATABASE": "postgresql://x@127.0.0.1:9/none"}, "is away"),
        ({"HOMARUS_FLEET_FILE": "/nowhere/fleet.json"}, "there is no /nowhere/fleet.json"),
    ],
)
@pytest.mark.parametrize(
    "words", [["status"], ["init"], ["doctor"], ["homes", "--json"], ["worker"], ["export", "a", "b"]]
)
def test_without_a_fleet_every_command_says_what_to_do(words, variables, said, tmp_path, monkeypatch, capfd):
    pytest.importorskip("asyncpg", reason="needs asyncpg (pip install homarus[fleet])")
    for name in ("DATABASE", "FILE", "SECRET", "OBJECTS"):
        monkeypatch.delenv(f"HOMARUS_FLEET_{name}", raising=False)
    monkeypatch.setenv("HOMARUS_FLEET_SECRET", "s" * 32)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if words == ["init"] and "FILE" in "".join(variables):
        said = "no database is named"  # it would write that file
    assert run(["fleet", *words]) != 0
    shown = "".join(capfd.readouterr())
    assert said in shown and "(" in shown and "unexpected" not in shown
    assert "4711" not in shown


def test_an_invitation_is_drawn_on_a_terminal(file, capfd):
    asked(capfd, "add", "bob")
    ours, theirs = os.openpty()
    with open(ours, "rb", buffering=0) as screen:
        words = [sys.executable, "-m", "homarus", "fleet", "invite", "bob"]
        with subprocess.Popen(words, stdout=theirs, stderr=subprocess.DEVNULL) as shown:
            os.close(theirs)
            drawn = b""
            with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
                while piece := screen.read(65536):
                    drawn += piece
        assert shown.returncode == 0
    assert "█▀" in drawn.decode() and b"#pair=" in drawn


def test_a_database_that_refuses_is_told_and_no_file_is_left(server, tmp_path, monkeypatch, capfd):
    place = tmp_path / "etc" / "fleet.json"
    monkeypatch.setenv("HOMARUS_FLEET_FILE", str(place))
    for address in (server.dsn("nowhere"), server.dsn().replace("homarus@", "stranger@")):
        assert run(["fleet", "init", "--database", address]) != 0
        shown = capfd.readouterr().err
        assert "cannot be used" in shown and "postgresql://user" in shown
        assert not place.exists()
    assert run(["fleet", "init", "--database", server.dsn()]) == 0
    assert place.stat().st_mode & 0o077 == 0


def test_damage_is_found(file, home, dsn, tmp_path, capfd):
    from homarus.fleet.database import Database

    asked(capfd, "import", "ada", str(home))
    with Database(dsn) as database:
        database.rows("insert into line values ('ada', '.openclaw/openclaw.json', 1, 1, 'x')")
        database.rows("insert into home (home, format) values ('half', 1000000)")
    held = next((tmp_path / "objects").rglob("*.zst"))
    held.rename(held.with_name(f"{'0' * 64}.zst"))
    said = {check["what"] for check in asked(capfd, "doctor", code=1)["checks"]}
    assert any("have a hole" in what for what in said)
    assert any("only in part" in what for what in said)
    assert any("is gone" in what for what in said) and any("no file any more" in what for what in said)


@contextlib.contextmanager
def process(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a part of the fleet and give its address when it is up."""
    started = subprocess.Popen(
        [sys.executable, "-m", "homarus", "fleet", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert started.stdout is not None
        heard = []
        for line in started.stdout:
            heard.append(line)
            if found := re.search(r" on (\S+) is up", line):
                yield started, f"http://{found[1]}"
                break
        else:
            raise AssertionError("".join(heard))
    finally:
        if started.poll() is None:
            started.send_signal(signal.SIGTERM)
            try:
                started.wait(90)
            except subprocess.TimeoutExpired:
                started.kill()
        started.wait(60)
        if started.stdout is not None:
            started.stdout.close()


def ask(url: str, **headers: str) -> tuple[int, bytes]:
    async def exchange() -> tuple[int, bytes]:
        http = HttpClient()
        reply = await http.request("GET", url, headers=headers)
        try:
            return reply.status, await reply.read(1 << 20)
        finally:
            await reply.close()
            await http.aclose()

    return asyncio.run(exchange())


def until(condition, seconds: float = 120.0):
    ends = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < ends, "it did not become so"
        time.sleep(0.1)
    return found


def test_real_processes_serve_a_home_and_hand_it_over(file, home, capfd):
    asked(capfd, "import", "ada", str(home))
    with process("edge", "--listen", "127.0.0.1:0") as (_, edge), process("worker", "--name", "one") as (one, _):
        assert until(lambda: ask(f"{edge}/h/ada/health")[0] == 200 or None)
        until(lambda: ask(f"{edge}/health", host="ada.agents.example")[0] == 200)
        until(lambda: asked(capfd, "workers")["workers"][0]["homes"] == 1)  # the count comes with its next beat
        with process("worker", "--name", "two") as (_, _address):
            asked(capfd, "move", "ada", "two")
            until(lambda: asked(capfd, "homes")["homes"][0]["worker"] == "two")
            until(lambda: ask(f"{edge}/h/ada/health")[0] == 200)
            asked(capfd, "drain", "two")
            until(lambda: asked(capfd, "homes")["homes"][0]["worker"] == "one")
            one.kill()
            asked(capfd, "drain", "two", "--off")
            until(lambda: asked(capfd, "homes")["homes"][0]["worker"] == "two")
            until(lambda: ask(f"{edge}/h/ada/health")[0] == 200)
        assert asked(capfd, "homes")["homes"][0]["worker"] is None  # it left, and nobody is there


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"database": ', "is no JSON5: Unclosed"),
        ("[]", "holds no object"),
        ('{"databse": "x"}', "unknown field `databse`"),
        ('{"database": 5}', "$.database"),
        ('{"database": "postgresql://x/y", "trustedProxies": ["my.proxy"]}', "'my.proxy' is no address"),
        (None, "cannot read"),
    ],
)
def test_a_file_of_settings_that_cannot_be_used_is_told_with_its_cure(text, said, tmp_path, capfd):
    place = tmp_path / "fleet.json"
    place.mkdir() if text is None else place.write_text(text)
    place.chmod(0o700)
    assert run(["fleet", "--file", str(place), "status"]) == 78
    shown = capfd.readouterr().err
    assert str(place) in shown or "trustedProxies" in shown
    assert said in shown and "(" in shown
