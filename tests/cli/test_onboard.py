import asyncio
import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.cli.test_models import QUIET, running
from tests.models.servers import Answer

from homarus.admin.choices import NOTEBOOK, model_choices
from homarus.cli.main import run
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock


def homarus(home: Path, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), **more}
    return subprocess.run(
        [sys.executable, "-m", "homarus", *args], env=env, capture_output=True, text=True, check=False
    )


def test_onboarding_without_questions_makes_a_home_and_keeps_it(tmp_path: Path) -> None:
    done = homarus(tmp_path, "onboard", "--non-interactive", "--model", "builtin/notebook")
    assert done.returncode == 0, done.stderr
    config = tmp_path / ".openclaw" / "openclaw.json"
    before = config.read_bytes()
    assert b"builtin/notebook" in before
    again = homarus(tmp_path, "configure", "--non-interactive")
    assert again.returncode == 0, again.stderr
    assert "builtin/notebook" in again.stdout
    assert config.read_bytes() == before


def test_status_of_a_new_and_of_a_set_up_home(tmp_path: Path) -> None:
    assert "homarus setup" in homarus(tmp_path, "status").stdout
    assert list(tmp_path.iterdir()) == []
    homarus(tmp_path, "setup")
    status = json.loads(homarus(tmp_path, "status", "--json").stdout)
    (agent,) = status["agents"]
    assert (agent["id"], agent["model"], agent["workspaceExists"], agent["sessions"]) == ("main", NOTEBOOK, True, 0)
    assert status["errors"] == 0


def test_homarus_alone_is_a_friendly_start(tmp_path: Path) -> None:
    assert "homarus onboard" in homarus(tmp_path).stdout
    homarus(tmp_path, "setup")
    assert "homarus chat" in homarus(tmp_path).stdout


def test_a_key_in_the_environment_is_found(tmp_path: Path) -> None:
    for variables, taken in (({}, NOTEBOOK), ({"ANTHROPIC_API_KEY": "k"}, "anthropic/")):
        env = {"HOME": str(tmp_path), **variables}
        config = load_config(resolve_paths(env), env)
        choices = asyncio.run(model_choices(config, env, SystemClock()))
        assert choices[0].ref == "auto"
        assert f"now {taken}" in choices[0].why
        assert any(choice.ref.startswith(taken) for choice in choices[1:])
        assert NOTEBOOK in [choice.ref for choice in choices]
        # Who has no key sees who sells one, at which price.
        sold = {choice.ref.partition("/")[0]: choice.why for choice in choices if "asked for next" in choice.why}
        assert ("anthropic" in sold) == (not variables) and "per million tokens" in sold["openai"]


def test_a_model_file_without_what_runs_it_is_offered_with_the_cure_and_never_said_to_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".openclaw/models").mkdir(parents=True)
    (tmp_path / ".openclaw/models/tiny.gguf").write_bytes(b"GGUF")
    env = {"HOME": str(tmp_path)}
    choices = asyncio.run(model_choices(load_config(resolve_paths(env), env), env, SystemClock()))
    assert ["homarus[local]" in each.why for each in choices if each.ref == "local/tiny"] == [True]
    assert run(["onboard", "--model", "local/tiny", "--non-interactive"]) == 0
    told = "".join(capsys.readouterr())
    assert "is to answer" in told and "homarus[local]" in told and "Say hello" not in told
    assert run(["status"]) == 0 and "homarus[local]" in capsys.readouterr().out


def test_what_is_set_now_is_offered_first(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    config = load_config(resolve_paths(env), env)
    assert asyncio.run(model_choices(config, env, SystemClock(), "x/y"))[0].ref == "x/y"


def at_a_terminal(home: Path, *args: str, says: dict[str, bytes] | list[tuple[str, bytes]]) -> tuple[int, str]:
    """Run a command on a terminal and type what is said as soon as its question is there; return code and all text."""
    ours, theirs = pty.openpty()
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"}
    line = [sys.executable, "-m", "homarus", *args]
    with subprocess.Popen(line, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        seen, heard, questions = b"", 0, says if isinstance(says, list) else list(says.items())
        ready = select.poll()
        ready.register(ours, select.POLLIN)
        while True:
            if not ready.poll(60_000):
                process.kill()  # it waits for something that was not said
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the terminal is gone with the last that had it open
                break
            if not piece:
                break
            seen += piece
            if b"\x1b[6n" in piece:
                os.write(ours, b"\x1b[1;1R")  # where the cursor is, asked by the line editor
            if questions and questions[0][0].encode() in seen[heard:]:
                # The same question may come again: only what is seen from here on counts for the next one.
                heard = len(seen)
                os.write(ours, questions.pop(0)[1])
        code = process.wait(timeout=60)
    os.close(ours)
    return code, seen.decode("utf-8", "replace")


def test_the_questions_at_a_terminal(tmp_path: Path) -> None:
    code, text = at_a_terminal(tmp_path, "onboard", says={"files live?": b"\r", "as provider/model": b"2\r"})
    assert code == 0, text
    written = (tmp_path / ".openclaw" / "openclaw.json").read_text()
    assert f'primary: "{NOTEBOOK}"' in written, "2 is the second choice"
    assert (tmp_path / ".openclaw" / "workspace" / "AGENTS.md").exists()


def test_leaving_the_questions_makes_nothing(tmp_path: Path) -> None:
    code, text = at_a_terminal(tmp_path, "onboard", says={"files live?": b"\x03"})
    assert code == 130
    assert "homarus: stopped" in text
    assert list(tmp_path.iterdir()) == []


class Sold(BaseHTTPRequestHandler):
    """A server that sells words to whoever has the right key."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        right = self.headers["authorization"] == "Bearer sk-right-4711"
        piece = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
        piece |= {"usage": {"prompt_tokens": 1000, "completion_tokens": 10}}
        body = f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n" if right else '{"error": {"message": "bad key"}}'
        self.send_response(200 if right else 401)
        self.send_header("content-type", "text/event-stream" if right else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Path]:
    """A home whose configuration names a model server that wants a key."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Sold) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / ".openclaw").mkdir()
        (tmp_path / ".openclaw" / "openclaw.json").write_text(
            f"""{{ models: {{ providers: {{ shop: {{ baseUrl: "http://127.0.0.1:{server.server_port}/v1", apiKey: "${{SHOP_API_KEY}}",
            models: [{{ id: "big", cost: {{ input: 3, output: 15 }} }}] }} }} }} }}"""
        )
        yield tmp_path
        server.shutdown()


def test_a_key_is_asked_hidden_tried_and_kept_for_nobody_else(shop: Path) -> None:
    asked = "not shown"
    says = [
        ("as provider/model", b"shop/big\r"),
        (asked, b"sk-wrong\r"),
        ("all the same?", b"\r"),
        (asked, b"sk-right-4711\r"),
    ]
    code, text = at_a_terminal(shop, "onboard", says=says)
    assert code == 0, text
    assert "sk-right" not in text and "sk-wrong" not in text
    assert "$3 in, $15 out" in text and "shop does not accept this key" in text and "It works" in text
    assert "shop/big answers now" in plain(text)
    (kept,) = (shop / ".openclaw").rglob("auth-profiles.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_text())["profiles"]["shop:default"]["key"] == "sk-right-4711"
    assert "sk-right" not in (shop / ".openclaw" / "openclaw.json").read_text()
    for turn in (1, 2):
        assert homarus(shop, "agent", "hello").stdout == "Hi\n"
        (session,) = json.loads(homarus(shop, "sessions", "--json").stdout)["sessions"]
        assert session["estimatedCostUsd"] == pytest.approx(turn * (1000 * 3 + 10 * 15) / 1e6)


def test_without_a_key_it_says_so_and_a_pipe_brings_one(shop: Path) -> None:
    done = homarus(shop, "onboard", "--non-interactive", "--model", "shop/big")
    assert "no key for shop" in done.stderr and "Say hello" not in done.stdout
    assert "no key for shop: run 'homarus configure keys'" in homarus(shop, "status").stdout
    status = json.loads(homarus(shop, "status", "--json").stdout)
    assert "no key for shop" in status["agents"][0]["modelProblem"]
    env = {"HOME": str(shop), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-m", "homarus", "configure", "keys", "--provider", "shop"]
    piped = subprocess.run(line, env=env, input="sk-right-4711\n", capture_output=True, text=True, check=True)
    assert "shop/big answers now" in piped.stdout
    assert "no key" not in homarus(shop, "status").stdout


def piped(home: Path, key: str, provider: str) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-m", "homarus", "configure", "keys", "--provider", provider]
    return subprocess.run(line, env=env, input=f"{key}\n", capture_output=True, text=True, check=False)


def test_a_key_from_a_pipe_is_tried_and_a_wrong_one_is_not_kept(shop: Path) -> None:
    assert piped(shop, "sk-right-4711", "shop").returncode == 0
    refused = piped(shop, "sk-wrong", "shop")
    assert refused.returncode == 78 and "shop does not accept this key" in refused.stderr
    (kept,) = (shop / ".openclaw").rglob("auth-profiles.json")
    assert json.loads(kept.read_text())["profiles"]["shop:default"]["key"] == "sk-right-4711"
    assert "did you mean openai?" in piped(shop, "k", "opnai").stderr


def test_a_key_that_could_not_be_tried_is_kept_and_not_said_to_work(shop: Path) -> None:
    config = shop / ".openclaw" / "openclaw.json"
    config.write_text(re.sub(r"http://127.0.0.1:\d+", "http://127.0.0.1:9", config.read_text()))
    homarus(shop, "configure", "--model", "shop/big")
    done = piped(shop, "sk-right-4711", "shop")
    assert done.returncode == 0 and "is kept in" in done.stderr and "nothing listens on 127.0.0.1:9" in done.stderr
    assert "shop/big is to answer" in done.stdout


def test_a_wrong_key_that_is_kept_all_the_same_does_not_answer(shop: Path) -> None:
    says = [("as provider/model", b"shop/big\r"), ("not shown", b"sk-wrong\r"), ("all the same?", b"yes\r")]
    code, text = at_a_terminal(shop, "onboard", says=says)
    assert code == 0, text
    assert "shop/big is to answer" in plain(text) and "answers now" not in plain(text)
    again = [("replace?", b"shop\r"), ("not shown", b"sk-right-4711\r")]
    code, text = at_a_terminal(shop, "configure", "keys", says=again)
    assert code == 0 and "Keys are there for: shop" in text and "shop/big answers now" in plain(text), text


def test_a_model_that_is_set_and_cannot_be_is_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw" / "openclaw.json").write_text('{ agents: { defaults: { model: "nopro/xyz" } } }')
    says = [("as provider/model", b"\r"), ("no provider 'nopro'", NOTEBOOK.encode() + b"\r")]
    code, text = at_a_terminal(tmp_path, "configure", "model", says=says)
    assert code == 0 and f"{NOTEBOOK} answers now" in plain(text), text


def test_every_model_of_a_server_on_this_machine_is_offered(tmp_path: Path) -> None:
    with running(Answer([json.dumps({"data": [{"id": "one"}, {"id": "embed-x"}, {"id": "two"}]}).encode()])) as server:
        (tmp_path / ".openclaw").mkdir()
        providers = QUIET | {"lmstudio": {"baseUrl": f"{server.url}/v1"}}
        (tmp_path / ".openclaw" / "openclaw.json").write_text(json.dumps({"models": {"providers": providers}}))
        env = {"HOME": str(tmp_path)}
        choices = asyncio.run(model_choices(load_config(resolve_paths(env), env), env, SystemClock()))
    assert [each.ref for each in choices if each.ref.startswith("lmstudio/")] == ["lmstudio/one", "lmstudio/two"]


def test_configure_asks_for_each_thing_and_enter_keeps_it(tmp_path: Path) -> None:
    homarus(tmp_path, "setup")
    before = (tmp_path / ".openclaw" / "openclaw.json").read_bytes()
    says = {"files live?": b"\r", "as provider/model": b"\r", "replace?": b"\r"}
    code, text = at_a_terminal(
        tmp_path, "configure", says=says | {"platform do you want": b"\r", "commands run?": b"\r"}
    )
    assert code == 0, text
    assert "Channels: none is configured" in text
    code, text = at_a_terminal(
        tmp_path, "configure", "channels", says={"platform do you want": b"telegram\r", "botToken": b"12:ab\r"}
    )
    assert code == 0, text
    assert "12:ab" not in text and "12:ab" in (tmp_path / ".openclaw" / "openclaw.json").read_text()
    code, text = at_a_terminal(tmp_path, "configure", "sandbox", says={"commands run?": b"off\r"})
    assert code == 0 and 'mode: "off"' in (tmp_path / ".openclaw" / "openclaw.json").read_text(), text
    slips = [
        ("platform do you want", b"telegrm\r"),
        ("no platform 'telegrm'", b"\r"),
        ("commands run?", b"of\r"),
        ("no sandbox mode", b"all\r"),
    ]
    first = [
        ("files live?", b"\r"),
        ("as provider/model", b"\r"),
        ("replace?", b"opnai\r"),
        ("no provider 'opnai'", b"\r"),
    ]
    code, text = at_a_terminal(tmp_path, "configure", says=[*first, *slips])
    assert code == 0 and "xmpp (Enter: none)" in plain(text), text
    assert 'mode: "all"' in (tmp_path / ".openclaw" / "openclaw.json").read_text(), (
        "a slip is asked again, and the rest too"
    )
    assert b"auto" in before or 'primary: "auto"' in (tmp_path / ".openclaw" / "openclaw.json").read_text()


def test_a_slip_in_a_models_name_is_said_at_once(tmp_path: Path) -> None:
    done = homarus(tmp_path, "onboard", "--non-interactive", "--model", "notebok")
    assert done.returncode == 1 and "did you mean builtin/notebook" in done.stderr
    assert list(tmp_path.iterdir()) == []


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_without_any_model_on_this_machine_it_says_how_to_get_one_and_asks_again_for_what_is_not_there(
    tmp_path: Path,
) -> None:
    homarus(tmp_path, "setup")
    says = [
        ("as provider/model", b"local/nothing.gguf\r"),
        ("no local model", b"http://127.0.0.1:9/v1\r"),
        ("does not say which models", NOTEBOOK.encode() + b"\r"),
    ]
    config = tmp_path / ".openclaw" / "openclaw.json"
    config.write_text(json.dumps({"models": {"providers": QUIET}}))
    code, text = at_a_terminal(tmp_path, "configure", "model", says=says)
    assert code == 0, text
    told = " ".join(plain(text).split())
    assert "No model runs on this machine yet" in told and "Ollama" in told and "homarus models pull" in told
    assert ".openclaw/models" in told and "http://host:port/v1" in told
    assert json.loads(config.read_text())["agents"]["defaults"]["model"]["primary"] == NOTEBOOK


def test_what_cannot_be_sent_as_a_key_is_refused_and_the_old_one_stays(shop: Path) -> None:
    assert piped(shop, "sk-right-4711", "shop").returncode == 0
    for key in ("sk-\x01\x02", "ключ", "a\x7fb"):
        refused = piped(shop, key, "shop")
        assert refused.returncode == 78 and "no request can carry" in refused.stderr
    (kept,) = (shop / ".openclaw").rglob("auth-profiles.json")
    assert json.loads(kept.read_text())["profiles"]["shop:default"]["key"] == "sk-right-4711"


def test_what_a_channel_needs_is_asked_first_and_enter_says_so(tmp_path: Path) -> None:
    homarus(tmp_path, "setup")
    before = (tmp_path / ".openclaw" / "openclaw.json").read_bytes()
    says = [("platform do you want", b"irc\r"), ("host:", b"\r"), ("IRC needs host; Ctrl-C leaves", b"\x03")]
    code, text = at_a_terminal(tmp_path, "configure", "channels", says=says)
    assert code != 0 and "password" not in text, text
    assert (tmp_path / ".openclaw" / "openclaw.json").read_bytes() == before


def test_a_new_session_is_said_and_one_that_was_put_away_goes_on(tmp_path: Path) -> None:
    homarus(tmp_path, "setup")
    said = homarus(tmp_path, "agent", "--session", "gardn", "Remember that the roses are red.")
    assert "new session agent:main:gardn" in said.stderr
    assert "new session" not in homarus(tmp_path, "agent", "--session", "gardn", "hello").stderr
    homarus(tmp_path, "agent", "--session", "gardn", "/name The Garden")
    assert "new session" not in homarus(tmp_path, "agent", "--session", "the garden", "hello").stderr
    homarus(tmp_path, "agent", "--session", "gardn", "/new")
    listed = json.loads(homarus(tmp_path, "sessions", "--all", "--json").stdout)
    assert [session["label"] for session in listed["sessions"]] == [None]
    assert [archive["label"] for archive in listed["archives"]] == ["The Garden"]
    # The list is offered, newest first; what was put away comes after what is there.
    code, text = at_a_terminal(
        tmp_path, "sessions", "resume", says=[("which session", b"\x1b[B\r"), ("/help", b"\x04")]
    )
    assert code == 0, text
    assert "The Garden (put away)" in plain(text) and "the roses are red" in plain(text)
    labels = {each["label"] for each in json.loads(homarus(tmp_path, "sessions", "--json").stdout)["sessions"]}
    assert labels == {None, "The Garden"}
