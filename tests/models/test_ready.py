"""What keeps a model from answering: said with its cure, and never guessed."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.models.servers import Answer, serving
from tests.models.test_access import open_models
from tests.models.test_gguf import PAIRS, head

from homarus.core.errors import ConfigError, Unknown
from homarus.models.access import Models, can_run_files
from homarus.models.ready import check_asked, check_choice, missing
from homarus.models.ref import ModelRef


def lacks(models: Models, text: str) -> str:
    return missing(models, models.config.default_agent, ModelRef(*text.split("/", 1)))


def own(url: str) -> dict[str, object]:
    return {"models": {"providers": {"lmx": {"baseUrl": url, "apiKey": "k", "models": [{"id": "fake-big"}]}}}}


async def test_a_server_on_this_machine_must_run(tmp_path: Path):
    async with serving(Answer()) as server:
        models, url = open_models(tmp_path, own(server.url)), server.url
        assert lacks(models, "lmx/fake-big") == ""
    said = lacks(models, "lmx/fake-big")
    assert said.startswith(f"nothing listens on {urlsplit(url).netloc}:") and "models.providers.lmx.baseUrl" in said


def test_a_server_that_is_too_busy_to_take_a_connection_is_there(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        place = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(place)
        assert lacks(open_models(tmp_path, own(f"http://127.0.0.1:{place[1]}/v1")), "lmx/fake-big") == ""
        for each in waiting:
            each.close()


def test_what_cannot_be_an_address_is_named(tmp_path: Path):
    assert lacks(open_models(tmp_path, own("notaurl")), "lmx/fake-big").startswith("'notaurl' is no http address")


def test_a_provider_that_is_not_there_is_not_said_to_lack_a_key(tmp_path: Path):
    models = open_models(tmp_path)
    assert "there is no provider 'nopro'" in lacks(models, "nopro/xyz")
    assert "did you mean openai/gpt-5.5?" in lacks(models, "opnai/gpt-5.5")
    assert "no key for openai: run 'homarus configure keys'" in lacks(models, "openai/gpt-5.5")
    assert lacks(models, "builtin/notebook") == ""
    assert "there is no model 'builtin/other'" in lacks(models, "builtin/other")


def test_a_model_file_must_be_there_and_be_one(tmp_path: Path):
    models = open_models(tmp_path)
    assert "there is no local model 'tiny'" in lacks(models, "local/tiny")
    folder = models.config.paths.models_dir
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(b"nothing of the kind")
    assert "tiny.gguf is no GGUF file" in lacks(models, "local/tiny")
    (folder / "tiny.gguf").write_bytes(head(*PAIRS))
    assert (lacks(models, "local/tiny") == "") == can_run_files()


@pytest.mark.parametrize("text", ["nopro/xyz", "lmx/fake-bgi"])
def test_a_choice_with_a_slip_is_refused(tmp_path: Path, text: str):
    models = open_models(tmp_path, own("http://127.0.0.1:9/v1"))
    with pytest.raises(ConfigError, match=r"no provider|did you mean lmx/fake-big"):
        check_choice(models, ModelRef(*text.split("/", 1)))


@pytest.mark.parametrize("text", ["openai/gpt-99-nova", "local/still-to-be-fetched", "lmx/another", "builtin/notebook"])
def test_a_choice_that_is_only_new_is_taken(tmp_path: Path, text: str):
    check_choice(open_models(tmp_path, own("http://127.0.0.1:9/v1")), ModelRef(*text.split("/", 1)))


def test_a_model_that_a_message_names_must_be_able_to_answer(tmp_path: Path):
    models = open_models(tmp_path, own("http://127.0.0.1:9/v1"))
    agent = models.config.default_agent
    check_asked(models, agent, "lmx/fake-big")  # its server may be back by then
    check_asked(models, agent, "builtin/notebook")
    check_asked(models, agent, "openai/gpt-5.5", keys=False)  # another process may have one
    for text, cure in (
        ("openai/gpt-5.5", "homarus configure keys"),
        ("nopro/xyz", "models.providers.nopro.baseUrl"),
        ("builtin/other", "builtin/notebook"),
        ("nonsense-that-nobody-makes", "provider/model"),
    ):
        with pytest.raises(Unknown) as wrong:
            check_asked(models, agent, text)
        assert cure in wrong.value.cure
