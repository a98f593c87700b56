"""What is offered as answering was called first: model servers by their address, with keys, slow ones and broken ones."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.cli.test_models import QUIET
from tests.cli.test_onboard import at_a_terminal, homarus, piped, plain

from homarus.config.load import load_config
from homarus.config.paths import resolve_paths

LISTED = {"data": [{"id": "one", "max_model_len": 8192}, {"id": "embed-x"}, {"id": "two"}]}


class Host(BaseHTTPRequestHandler):
    """A model server: what it lists is open or wants the key, and so is what it answers, unless it only fails."""

    key = ""
    open_list = False
    fails = False
    slow = 0.0
    asked: list[str]

    def do_GET(self) -> None:
        if not self.path.startswith("/v1/"):
            self._say(404, "{}")
        elif self.open_list or self._may():
            self._say(200, json.dumps(LISTED))

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(sent["model"])
        time.sleep(self.slow)
        if self.fails:
            self._say(500, '{"error": {"message": "boom"}}')
        elif self._may():
            piece = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
            self._say(200, f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n", "text/event-stream")

    def _may(self) -> bool:
        if self.key and self.headers["authorization"] != f"Bearer {self.key}":
            self._say(401, '{"error": {"message": "bad key"}}')
            return False
        return True

    def _say(self, status: int, body: str, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def hosting(**how: object) -> Iterator[tuple[str, type[Host]]]:
    """Serve such a host; yields its address without `/v1`, and the class, by which it may be changed."""
    kind = type("Hosted", (Host,), {**how, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", kind
        server.shutdown()


def settings(home: Path, key: str) -> object:
    return load_config(resolve_paths({"HOME": str(home)}), {"HOME": str(home)}).get(key)


def doctor(home: Path) -> dict[str, str]:
    found = json.loads(homarus(home, "doctor", "--json").stdout)["findings"]
    (models,) = [each for each in found if each["checkId"] == "models"]
    return models


@pytest.mark.parametrize("below", ["", "/v1", "/v1/"])
def test_a_server_of_ones_own_is_taken_by_its_address(tmp_path: Path, below: str) -> None:
    with hosting() as (address, host):
        says = [
            ("files live?", b"\r"),
            ("as provider/model", f"{address}{below}\r".encode()),
            ("Which of them?", b"two\r"),
        ]
        code, text = at_a_terminal(tmp_path, "onboard", says=says)
    assert code == 0 and "own/two answers now" in plain(text), text
    assert host.asked == ["two"], "what is said to answer was called, once"
    assert settings(tmp_path, "agents.defaults.model.primary") == "own/two"
    models = [{"id": "one", "contextWindow": 8192}, {"id": "two"}]
    assert settings(tmp_path, "models.providers.own") == {"baseUrl": f"{address}/v1", "models": models}


def test_a_server_that_lists_models_and_answers_nothing_is_not_said_to_answer(tmp_path: Path) -> None:
    with hosting(fails=True) as (address, host):
        says = [
            ("files live?", b"\r"),
            ("as provider/model", f"{address}/v1\r".encode()),
            ("Which of them?", b"\r"),
            ("boom", b""),
            ("Use it all the same?", b"\r"),
            ("Which one, then?", b"builtin/notebook\r"),
        ]
        before = time.monotonic()
        code, text = at_a_terminal(tmp_path, "onboard", says=says)
        assert code == 0 and "builtin/notebook answers now" in plain(text), text
        assert host.asked == ["one"] and time.monotonic() - before < 30, "it is not tried again and again"
        assert settings(tmp_path, "models.providers") is None, "nothing of it was taken over"

        says = [
            ("as provider/model", f"{address}\r".encode()),
            ("Which of them?", b"\r"),
            ("Use it all the same?", b"yes\r"),
        ]
        code, text = at_a_terminal(tmp_path, "configure", "model", says=says)
        assert code == 0 and "own/one is to answer" in plain(text) and "answers now" not in plain(text), text
        # What is known of it is not forgotten by the next command.
        later = homarus(tmp_path, "configure", "--sandbox", "off")
        assert "own/one is to answer" in later.stdout and "boom" in later.stderr
        assert json.loads(homarus(tmp_path, "configure", "--json").stdout)["tried"] is False
        assert "own/one is to answer" in homarus(tmp_path, "models").stdout
        assert (
            "own/one is to answer" in (told := homarus(tmp_path, "models", "set", "own/one").stdout) and "boom" in told
        )
        assert "boom" in homarus(tmp_path, "status").stdout
        found = doctor(tmp_path)
        assert found["severity"] == "warning" and "it failed: boom" in found["message"]
        assert "homarus models test own/one" in found["cure"]

        host.fails = False
        assert homarus(tmp_path, "models", "test").returncode == 0
        assert doctor(tmp_path)["severity"] == "ok" and "own/one last answered" in doctor(tmp_path)["message"]
        assert "own/one answers for" in homarus(tmp_path, "models").stdout
        told = homarus(tmp_path, "configure", "--sandbox", "all").stdout
        assert "It last answered" in told and "answers now" not in told


def test_a_server_that_wants_a_key_is_asked_with_one(tmp_path: Path) -> None:
    with hosting(key="sk-right-4711") as (address, _host):
        says = [
            ("files live?", b"\r"),
            ("as provider/model", f"{address}/v1\r".encode()),
            ("wants a key", b""),
            ("Its key", b"sk-wrong-4711\r"),
            ("does not accept this key", b""),
            ("Its key", b"sk-right-4711\r"),
            ("Which of them?", b"\r"),
        ]
        code, text = at_a_terminal(tmp_path, "onboard", says=says)
        assert code == 0 and "own/one answers now" in plain(text), text
        assert "sk-right" not in text and "sk-wrong" not in text
        assert "sk-right" not in (tmp_path / ".openclaw" / "openclaw.json").read_text()
        assert homarus(tmp_path, "agent", "hello").stdout == "Hi\n"
        # Its address is known with its key from then on.
        says = [("as provider/model", f"{address}/v1\r".encode()), ("Which of them?", b"two\r")]
        code, text = at_a_terminal(tmp_path, "configure", "model", says=says)
        assert code == 0 and "own/two answers now" in plain(text) and "Its key" not in text, text


def test_a_server_of_this_machine_that_wants_a_key_is_offered(tmp_path: Path) -> None:
    with hosting(key="sk-right-4711") as (address, _host):
        (tmp_path / ".openclaw").mkdir()
        here = QUIET | {"lmstudio": {"baseUrl": f"{address}/v1"}}
        (tmp_path / ".openclaw" / "openclaw.json").write_text(json.dumps({"models": {"providers": here}}))
        says = [
            ("as provider/model", b"3\r"),
            ("Its key", b"sk-right-4711\r"),
            ("Which of them?", b"\r"),
        ]
        code, text = at_a_terminal(tmp_path, "onboard", says=says)
        assert code == 0 and "own/one answers now" in plain(text), text
        assert f"3  {address}/v1  a server there wants a key" in plain(text) and "No model runs" not in plain(text)


def test_without_its_key_another_model_is_asked_for(tmp_path: Path) -> None:
    with hosting(key="sk-right-4711") as (address, _host):
        says = [
            ("files live?", b"\r"),
            ("as provider/model", f"{address}\r".encode()),
            ("Its key", b"\r"),
            ("tells nobody without a key", b"builtin/notebook\r"),
        ]
        code, text = at_a_terminal(tmp_path, "onboard", says=says)
    assert code == 0 and "builtin/notebook answers now" in plain(text), text
    assert settings(tmp_path, "models.providers") is None


def test_a_server_that_lists_its_models_to_anybody_may_want_a_key_for_their_answers(tmp_path: Path) -> None:
    with hosting(key="sk-right-4711", open_list=True) as (address, _host):
        says = [
            ("files live?", b"\r"),
            ("as provider/model", f"{address}/v1\r".encode()),
            ("Which of them?", b"\r"),
            ("own wants a key", b""),
            ("Your key for own", b"sk-right-4711\r"),
        ]
        code, text = at_a_terminal(tmp_path, "onboard", says=says)
        assert code == 0 and "own/one answers now" in plain(text), text
        assert homarus(tmp_path, "agent", "hello").stdout == "Hi\n"


def test_a_server_that_takes_its_time_is_not_waited_for(tmp_path: Path) -> None:
    with hosting(slow=30.0) as (address, _host):
        says = [
            ("files live?", b"\r"),
            ("as provider/model", f"{address}/v1\r".encode()),
            ("Which of them?", b"\r"),
            ("Trying own/one with one short request", b""),
            ("no answer within", b""),
            ("Use it all the same?", b"yes\r"),
        ]
        code, text = at_a_terminal(tmp_path, "onboard", says=says)
        assert code == 0 and "own/one is to answer" in plain(text) and "being loaded" in plain(text), text
        assert "no answer within" in doctor(tmp_path)["message"]


def test_what_was_not_called_is_not_said_to_answer(tmp_path: Path) -> None:
    with hosting() as (address, host):
        mine = {"mine": {"baseUrl": f"{address}/v1", "models": [{"id": "one"}]}}
        (tmp_path / ".openclaw").mkdir()
        (tmp_path / ".openclaw" / "openclaw.json").write_text(json.dumps({"models": {"providers": mine}}))
        done = homarus(tmp_path, "onboard", "--non-interactive", "--model", "mine/one")
        assert "mine/one is to answer" in done.stdout and "homarus models test mine/one" in done.stdout
        found = doctor(tmp_path)
        assert found["severity"] == "info" and "nobody has asked it yet" in found["message"]
        assert host.asked == [], "neither a set-up without questions nor the doctor calls a model"
        assert homarus(tmp_path, "agent", "hello").stdout == "Hi\n"
        assert doctor(tmp_path)["severity"] == "ok"
        # Enter keeps what is set and answered last, and costs nothing.
        before = len(host.asked)
        code, text = at_a_terminal(tmp_path, "configure", "model", says=[("as provider/model", b"\r")])
        assert code == 0 and "It last answered" in plain(text) and len(host.asked) == before, text


def test_a_failing_key_that_was_kept_is_remembered(tmp_path: Path) -> None:
    with hosting(key="sk-right-4711", open_list=True) as (address, _host):
        mine = {"mine": {"baseUrl": f"{address}/v1", "apiKey": "${MINE_KEY}", "models": [{"id": "one"}]}}
        (tmp_path / ".openclaw").mkdir()
        (tmp_path / ".openclaw" / "openclaw.json").write_text(json.dumps({"models": {"providers": mine}}))
        says = [("as provider/model", b"mine/one\r"), ("not shown", b"sk-wrong\r"), ("all the same?", b"yes\r")]
        code, text = at_a_terminal(tmp_path, "onboard", says=says)
        assert code == 0 and "mine/one is to answer" in plain(text), text
        for line in (["configure", "--sandbox", "off"], ["onboard", "--non-interactive"]):
            done = homarus(tmp_path, *line)
            assert "answers now" not in done.stdout and "does not accept this key" in done.stderr, line
        assert "does not accept this key" in doctor(tmp_path)["message"]
        assert piped(tmp_path, "sk-right-4711", "mine").returncode == 0
        assert doctor(tmp_path)["severity"] == "ok"
