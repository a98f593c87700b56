"""`homarus agent`: one message, as a program calls it."""

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.cli.screen import terminal
from tests.models.servers import Answer, choice, data, serving

from homarus.cli.agent import command
from homarus.cli.app import App
from homarus.core.clock import SystemClock, SystemIds
from homarus.core.errors import ConfigError, Unknown
from homarus.sessions.check import check_store
from homarus.sessions.store import SessionStore


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def run(home: Path, *args: str, stdin: str | None = None) -> Result:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC"}
    return CliRunner().invoke(
        command, args, obj=App(env=env), input=stdin, catch_exceptions=False, standalone_mode=False
    )


def test_it_prints_the_answer(home: Path) -> None:
    result = run(home, "-m", "Remember that Ann lives in Lisbon.")
    assert result.return_value == 0
    assert "Ann lives in Lisbon" in result.output


def test_text_comes_from_standard_input(home: Path) -> None:
    assert "owner" in run(home, "-m", "-", stdin="/whoami\n").output
    assert "owner" in run(home, stdin="/whoami\n").output


def test_json_has_the_run_the_payloads_and_the_meta(home: Path) -> None:
    done = json.loads(run(home, "-m", "what time is it?", "--json", "--session", "work").stdout)
    assert done["status"] == "ok"
    assert done["runId"]
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", done["payloads"][0]["text"])
    meta = done["meta"]
    assert meta["sessionKey"] == "agent:main:work"
    assert meta["model"] == "builtin/notebook"
    assert meta["agentMeta"]["sessionId"]
    assert meta["usage"]["total"] > 0
    assert meta["durationMs"] >= 0


def test_a_stream_shows_the_same_text(home: Path) -> None:
    whole = run(home, "-m", "hello").output
    assert run(home, "-m", "hello", "--stream").output == whole


def test_a_stream_of_json_is_one_event_a_line(home: Path) -> None:
    lines = [json.loads(line) for line in run(home, "-m", "list files", "--stream", "--json").output.splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_ended"
    assert {"tool_started", "tool_ended", "message_ended"} <= set(kinds)


@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_a_line_about_what_it_cost_is_shown_when_asked_for(home: Path, stream: tuple[str, ...]) -> None:
    assert "Usage line: full" in run(home, "-m", "/usage full").output
    last = run(home, "-m", "hello", *stream).output.splitlines()[-1]
    assert last.startswith("[")
    assert " out · " in last


def kept(home: Path) -> list[Path]:
    """Return what this home holds of conversations."""
    return [path for path in (home / ".openclaw/agents").rglob("*") if path.suffix in {".jsonl", ".json"}]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--model", "nosuch/x"), "there is no provider 'nosuch'"),
        (("--model", "nosuch"), "'nosuch' is no model that is known here"),
        (("--model", "builtin/other"), "the only built-in model is builtin/notebook"),
        (("--model", "local/nofile"), "there is no local model 'nofile'"),
        (("--model", "openai/gpt-5.5"), "no key for openai"),
        (("--model", "open/m"), "not on the list of allowed models"),
        (("--add-dir", "/"), "/ holds keys, a whole home"),
        (("--workspace", "/etc"), "/etc holds keys, a whole home"),
    ],
)
def test_a_message_that_could_not_be_answered_as_it_is_sent_is_not_kept(
    home: Path, args: tuple[str, ...], said: str
) -> None:
    (home / ".openclaw").mkdir()
    config = {
        "agents": {"defaults": {"modelPolicy": {"allow": [f"{each}/*" for each in ("nosuch", "builtin", "local", "openai")]}}},
        "models": {"providers": {"open": {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "m"}]}}},
    }  # fmt: skip
    (home / ".openclaw/openclaw.json").write_text(json.dumps(config))
    with pytest.raises(Unknown, match=re.escape(said)):
        run(home, "-m", "hi", *args)
    assert not kept(home)


@pytest.mark.parametrize("option", ["--session", "--agent", "--model"])
def test_a_name_that_is_empty_is_wrong_usage(home: Path, option: str) -> None:
    with pytest.raises(click.BadParameter, match="empty"):
        run(home, "-m", "hi", option, "")
    assert not kept(home)


def test_a_name_that_is_too_long_is_no_new_session(home: Path) -> None:
    with pytest.raises(Unknown, match="no session has a name of 500 characters"):
        run(home, "-m", "hi", "--session", "x" * 500)
    assert not kept(home)


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "1 h"])
def test_a_time_that_is_none_is_wrong_usage(home: Path, number: str) -> None:
    with pytest.raises(click.BadParameter):
        run(home, "-m", "hi", "--timeout", number)
    assert not kept(home)


@pytest.mark.parametrize("args", [("-m", ""), ("-m", "  "), ("-m", "hi", "--thinking", "much")])
def test_wrong_usage_is_said(home: Path, args: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError):
        run(home, *args)


def test_a_model_that_cannot_be_reached_is_exit_code_one(home: Path) -> None:
    (home / ".openclaw").mkdir()
    config = {"models": {"providers": {"gone": {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "m"}]}}}}
    (home / ".openclaw" / "openclaw.json").write_text(json.dumps(config))
    result = run(home, "-m", "hi", "--model", "gone/m", "--timeout", "5")
    assert result.return_value == 1


def test_an_agent_that_is_not_there_is_said(home: Path) -> None:
    with pytest.raises(ConfigError, match="there is no agent 'nobody'"):
        run(home, "-m", "hi", "--agent", "nobody")
    for session in ("agent:nobody:main", "agent:nobody:garden"):
        with pytest.raises(ConfigError, match="there is no agent 'nobody'"):
            run(home, "-m", "hi", "--session", session)
    assert not (home / ".openclaw/agents/nobody").exists()
    assert run(home, "-m", "hi", "--agent", "Main").return_value == 0


def asks(home: Path, url: str) -> None:
    """Let a home ask the server at an address."""
    (home / ".openclaw").mkdir(exist_ok=True)
    config = {
        "agents": {"defaults": {"model": "slow/m"}},
        "models": {"providers": {"slow": {"baseUrl": url, "models": [{"id": "m"}]}}},
    }
    (home / ".openclaw" / "openclaw.json").write_text(json.dumps(config))


async def started(home: Path, *words: str) -> asyncio.subprocess.Process:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "homarus", "agent", *words),
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.parametrize("words", [(), ("--json",), ("--stream",)])
@pytest.mark.parametrize("fails", [False, True])
async def test_what_an_earlier_run_left_open_is_answered_beside_the_answer(
    home: Path, words: tuple[str, ...], fails: bool
) -> None:
    old = Answer(data(choice({"content": "The old answer."}), choice({}, "stop")))
    new = Answer(data(choice({"content": "The new answer."}), choice({}, "stop")))
    refusal = Answer([b'{"error": {"message": "no such thing"}}'], status=400, chunked=False)
    async with serving(Answer(hang=True), old, refusal if fails else new) as server:
        asks(home, server.url)
        killed = await started(home, "first question")
        async with asyncio.timeout(120):
            while not server.seen:
                await asyncio.sleep(0.02)
        killed.kill()
        await killed.wait()
        process = await started(home, "second question", *words)
        said, beside = (each.decode() for each in await asyncio.wait_for(process.communicate(), 120))
    assert process.returncode == int(fails)
    assert "“first question” was waiting and is answered first:\nThe old answer.\n" in beside
    if "--json" in words:
        assert [each["text"] for each in json.loads(said)["payloads"]] == ([] if fails else ["The new answer."])
    else:
        assert said == ("" if fails else "The new answer.\n")
    (transcript,) = (home / ".openclaw/agents/main/sessions").glob("*.jsonl")
    assert "The old answer." in transcript.read_text()


def test_the_model_command_refuses_a_slip_and_says_what_is_missing(home: Path) -> None:
    (home / ".openclaw").mkdir()
    mine = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "fake-big"}]}
    config = {"agents": {"defaults": {"model": "lmx/fake-big"}}, "models": {"providers": {"lmx": mine}}}
    (home / ".openclaw" / "openclaw.json").write_text(json.dumps(config))
    assert "did you mean builtin/notebook" in run(home, "-m", "/model notebok").output
    assert "there is no provider 'nopro'" in run(home, "-m", "/model nopro/x").output
    assert "Model: lmx/fake-big (config)" in run(home, "-m", "/model").output
    told = run(home, "-m", "/model gpt-5.5").output
    assert "Model: openai/gpt-5.5." in told and "no key for openai" in told
    assert "lists no model 'bigger'" in run(home, "-m", "/model lmx/bigger").output


@pytest.mark.parametrize("stream", [(), ("--stream",)])
async def test_a_pipe_is_told_on_standard_error_that_a_model_is_asked_again(
    home: Path, stream: tuple[str, ...]
) -> None:
    broken, well = Answer([b"out of order"], status=500), Answer(data(choice({"content": "Hello"}, "stop")))
    async with serving(broken, well) as server:
        asks(home, server.url)
        process = await started(home, "hi", *stream)
        out, err = await asyncio.wait_for(process.communicate(), 60)
    assert err.decode() == "homarus: slow/m: server error; trying again in 1 s\n"
    assert out.decode() == "Hello\n"


async def until_in(folder: Path, text: str) -> None:
    """Wait until a file below a folder holds a text."""
    async with asyncio.timeout(120):
        while not any(text in path.read_text() for path in folder.rglob("*") if path.is_file()):
            await asyncio.sleep(0.02)


async def test_an_interrupt_takes_back_what_another_program_has_not_taken_yet(home: Path) -> None:
    async with serving(Answer(data(choice({"content": "Once"}), end=False), hang=True)) as server:
        asks(home, server.url)
        first = await started(home, "the first", "--stream")
        assert first.stdout is not None
        await asyncio.wait_for(first.stdout.read(4), 120)
        second = await started(home, "the second")
        await until_in(home / ".openclaw/homarus", "the second")
        second.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(second.communicate(), 60)
        first.send_signal(signal.SIGINT)
        await first.communicate()
    assert second.returncode == 130
    assert err.decode().splitlines()[-1] == "homarus: stopped"
    assert not any("the second" in path.read_text() for path in (home / ".openclaw").rglob("*.json*"))


async def test_an_interrupt_takes_back_what_waits_behind_the_turn_of_another_program(home: Path) -> None:
    async with serving(Answer(data(choice({"content": "Once"}), end=False), hang=True)) as server:
        asks(home, server.url)
        env = {"HOME": str(home), "PATH": os.environ["PATH"]}
        async with terminal(env, "agent", "the first", "--stream") as first:  # as a person is there, it takes letters
            await first.until("Once")
            second = await started(home, "the second", "--json")
            await until_in(home / ".openclaw/homarus", "the second")
            letters = home / ".openclaw/homarus/letters"
            async with asyncio.timeout(120):
                while any(letters.glob("*.json")):
                    await asyncio.sleep(0.02)
            second.send_signal(signal.SIGINT)
            out, err = await asyncio.wait_for(second.communicate(), 60)
    assert second.returncode == 130
    assert err.decode().splitlines()[-1] == "homarus: stopped"
    assert json.loads(out)["status"] == "aborted"
    assert not any("the second" in path.read_text() for path in (home / ".openclaw/agents").rglob("*.json*"))


async def test_an_interrupt_stops_cleanly_and_keeps_what_was_said(home: Path) -> None:
    pieces = data(choice({"content": "Once upon a time"}), end=False)
    async with serving(Answer(pieces, hang=True)) as server:
        asks(home, server.url)
        process = await started(home, "-m", "tell me", "--stream")
        assert process.stdout is not None
        begun = await asyncio.wait_for(process.stdout.read(4), 120)
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), 60)
        await asyncio.sleep(0)
    assert process.returncode == 130
    assert (begun + out).decode().startswith("Once upon")
    assert err.decode() == "homarus: stopped\n"
    folder = home / ".openclaw/agents/main/sessions"
    store = SessionStore(folder, "main", clock=SystemClock(), ids=SystemIds(), main_key="main")
    assert [finding for finding in check_store(store) if finding.severity == "error"] == []
    (transcript,) = folder.glob("*.jsonl")
    last = [json.loads(line) for line in transcript.read_text().splitlines()][-1]
    assert last["message"]["stopReason"] == "aborted"
