"""`homarus channels`, `pairing`, `message` and `directory`, as a person and as a program use them."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.helpers import configure

from homarus.channels.manager import Status
from homarus.channels.pairing import PairingStore
from homarus.cli.chat_home import _connected
from homarus.cli.main import run
from homarus.cli.output import Output
from homarus.core.clock import SystemClock


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(list(arguments)) == code
    return "".join(capsys.readouterr())


def data(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def config(home: Path) -> Any:
    return json.loads((home / ".openclaw" / "openclaw.json").read_text())


def test_an_account_is_added_changed_switched_off_and_removed(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(own_home, "{}")
    assert "telegram" in output(capsys, "channels")
    told = data(capsys, "channels", "add", "telegram", "--token", "$TOKEN", "--owner", "42")
    assert told["keys"] == ["botToken"]
    assert config(own_home)["channels"]["telegram"] == {"enabled": True, "botToken": "$TOKEN"}
    assert config(own_home)["commands"]["ownerAllowFrom"] == ["telegram:42"]
    data(capsys, "channels", "add", "telegram", "--dm-policy", "allowlist", "--allow-from", "42")
    (row,) = [each for each in data(capsys, "channels", "list")["channels"] if each["id"] == "telegram"]
    assert row["accounts"][0]["dmPolicy"] == "allowlist"
    data(capsys, "channels", "remove", "telegram")
    assert config(own_home)["channels"]["telegram"]["enabled"] is False
    data(capsys, "channels", "remove", "telegram", "--delete")
    assert "telegram" not in config(own_home).get("channels", {})


def test_an_account_is_named_and_never_a_path(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(own_home, "{}")
    irc = ("channels", "add", "irc", "--set", "host=i.example", "--set", "nick=crab")
    kept = own_home / ".openclaw" / "homarus" / "channels" / "irc" / "old" / "login"
    kept.parent.mkdir(parents=True)
    kept.write_text("secret")
    for name in ("..", "../..", "../x", "a:b", "🦞", "x" * 65):
        for command in (
            irc,
            ("channels", "logout", "irc"),
            ("channels", "login", "irc"),
            ("channels", "remove", "irc"),
        ):
            output(capsys, *irc) if command[1] == "remove" else None
            assert f"'{name[:39]}" in output(capsys, *command, "--account", name, code=1)
    assert kept.exists() and config(own_home)["channels"] == {
        "irc": {"enabled": True, "host": "i.example", "nick": "crab"}
    }
    assert "empty" in output(capsys, *irc, "--account", "", code=2)
    assert "empty" in output(capsys, *irc, "--allow-from", "ann", "--allow-from", "", code=2)
    assert "forgotten" in output(capsys, "channels", "logout", "irc", "--account", "old")
    assert not kept.parent.exists()
    for command in (("logout", "irc"), ("login", "irc"), ("explain", "irc", "--from", "ann")):
        assert "there are: default" in output(capsys, "channels", *command, "--account", "old", code=1)


def test_a_second_account_leaves_the_first_one(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(own_home, "{}")
    output(capsys, "channels", "add", "telegram", "--token", "$ONE")
    output(capsys, "channels", "add", "telegram", "--token", "$TWO", "--account", "Work Desk")
    (row,) = [each for each in data(capsys, "channels", "list")["channels"] if each["id"] == "telegram"]
    assert [(each["accountId"], each["enabled"]) for each in row["accounts"]] == [
        ("default", True),
        ("work-desk", True),
    ]
    assert config(own_home)["channels"]["telegram"]["botToken"] == "$ONE"


def test_what_is_wrong_is_said_with_a_cure(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(own_home, "{}")
    assert "there are:" in output(capsys, "channels", "add", "telegraph", code=1)
    assert "needs host" in output(capsys, "channels", "add", "irc", "--json", code=2)
    assert "its keys:" in output(capsys, "channels", "add", "telegram", "--set", "nosuch=1", code=2)
    assert "no botToken yet: homarus channels add telegram --set" in output(capsys, "channels", "add", "telegram")
    output(capsys, "channels", "remove", "telegram", "--delete")
    assert "no gateway serves" in output(capsys, "channels", "status", code=1)
    assert "no account" in output(capsys, "channels", "remove", "irc", code=1)
    assert "--channel" in output(capsys, "message", "send", "-t", "42", "-m", "hi", code=2)
    assert "nothing to send" in output(capsys, "message", "send", "-t", "telegram:42", code=2)
    assert "no account" in output(capsys, "message", "send", "-t", "telegram:42", "-m", "hi", code=78)


def test_why_somebody_is_heard_is_explained(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = {"telegram": {"botToken": "x", "dmPolicy": "allowlist", "allowFrom": ["42"]}}
    configure(own_home, json.dumps({"channels": rules}))
    found = data(capsys, "channels", "explain", "telegram", "--from", "42")
    assert (found["outcome"], found["trust"], found["session"]) == ("heard", "paired", "agent:main:main")
    found = data(capsys, "channels", "explain", "telegram", "--from", "43", code=1)
    assert found["reason"] == "allowFrom: not in allowFrom"
    assert "✗" in output(capsys, "channels", "explain", "telegram", "--from", "42", "--group", "g", code=1)


def test_strangers_are_let_in_or_not(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(own_home, '{"channels": {"telegram": {"botToken": "x"}}}')
    store = PairingStore(own_home / ".openclaw" / "credentials", SystemClock())
    assert "Nobody waits" in output(capsys, "pairing")
    asked = store.request("telegram", "default", "9", {"name": "\x1b[31mEve"})
    other = store.request("telegram", "default", "10", {})
    assert asked is not None
    assert other is not None
    shown = output(capsys, "pairing", "list")
    assert asked[0].code in shown
    assert "\x1b" not in shown
    told = data(capsys, "pairing", "approve", "telegram", asked[0].code, "--owner")
    assert told["id"] == "9"
    assert config(own_home)["commands"]["ownerAllowFrom"] == ["telegram:9"]
    assert store.approved("telegram") == {"9"}
    data(capsys, "pairing", "reject", "telegram", other[0].code)
    assert data(capsys, "pairing", "list", "telegram") == {"requests": []}
    data(capsys, "pairing", "revoke", "telegram", "9")
    assert store.approved("telegram") == frozenset()
    assert "nobody" in output(capsys, "pairing", "approve", "telegram", "ABCDEFGH", code=1).lower()


def test_a_dry_run_sends_nothing(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(own_home, "{}")
    assert data(capsys, "message", "send", "-t", "irc:#home", "-m", "tea", "--dry-run")["dryRun"]


def test_status_and_doctor_name_accounts_that_cannot_be_served(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(own_home, '{"channels": {"irc": {"enabled": true}}}')
    (row,) = data(capsys, "status")["channels"]
    assert (row["channel"], row["account"], row["on"]) == ("irc", "default", True)
    assert "host" in row["problem"]
    assert "channel  irc/default" in output(capsys, "status")
    capsys.readouterr()
    run(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    assert any(each["checkId"] == "channels" and "host" in each["message"] for each in found)


async def typed(home: Path, answers: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Run a command at a terminal where somebody answers each question, and return its code and all it said."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "homarus", *arguments]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=theirs, stdout=pipe, stderr=asyncio.subprocess.STDOUT, env=env, start_new_session=True
    )
    said, left = "", dict(answers)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            while more := await process.stdout.read(4096):
                said += more.decode()
                for question in [question for question in left if question in said]:
                    os.write(ours, f"{left.pop(question)}\n".encode())
            return await process.wait(), said
    finally:
        os.close(theirs)
        os.close(ours)
        if process.returncode is None:
            process.kill()


async def test_a_token_is_asked_for_tried_and_kept_for_its_owner_alone(own_home: Path) -> None:
    pytest.importorskip("aiogram", reason="needs aiogram: pip install 'homarus[telegram]'")
    from tests.channels.telegram.bot_api import TOKEN, serving

    configure(own_home, "{}")
    async with serving() as api:
        add = ("channels", "add", "telegram", "--set", f"apiRoot={api.base}")
        wrong = TOKEN.replace("fake", "FAKE")
        code, said = await typed(own_home, {"botToken: ": wrong, "[y/N]: ": "n"}, *add)
        assert code == 1 and "does not take it" in said and "BotFather" in said
        assert wrong not in said
        assert "telegram" not in config(own_home).get("channels", {}), "what does not work is not kept unasked"
        code, said = await typed(own_home, {"botToken: ": TOKEN}, *add)
        assert code == 0 and "LobsterBot" in said, said
        assert TOKEN not in said
    assert config(own_home)["channels"]["telegram"]["botToken"] == TOKEN
    file = own_home / ".openclaw" / "openclaw.json"
    assert file.stat().st_mode & 0o077 == 0


async def test_a_code_to_scan_is_shown_without_a_gateway(capsys: pytest.CaptureFixture[str]) -> None:
    class Manager:
        looked = 0

        def connected(self, *_: str) -> Any:
            self.looked += 1
            return object() if self.looked > 3 else None

    class Board:
        manager = Manager()

        def status(self) -> list[Any]:
            return [Status("whatsapp", "default", enabled=True, running=True, last_error="scan the code")]

    drawn = iter(["", "█▀▄ one", "█▀▄ two"])
    await _connected(Board(), "whatsapp", "default", Output(color=False, env={}), lambda: next(drawn))  # type: ignore[arg-type]
    told = capsys.readouterr().err
    assert "█▀▄ one" in told and "█▀▄ two" in told and told.count("scan the code") == 1
