"""The plugins of docs/writing-plugins.md, exactly as they stand there: written, installed, switched on and used."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.chat import CONFIG, Platform, served
from tests.scenarios.home import House, merge, until
from tests.scenarios.script import Line

from homarus.cli.main import run
from homarus.core.clock import SystemClock
from homarus.core.messages import ToolResult
from homarus.runtime.switchboard import Switchboard
from homarus.sandbox.process import available
from homarus.sandbox.spec import Backend

PAGE = Path(__file__).parents[2] / "docs" / "writing-plugins.md"
FILES = re.findall(r"<!-- not run: it is the file (\S+) -->\n```\w+\n(.*?)```", PAGE.read_text(), re.DOTALL)
OFF = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}}


def installed(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: Line | str, inside: bool = True, **config: Any
) -> House:
    """Write a plugin of the page, install it as a person would, and return its home."""
    home = House(folder, *lines, config=merge(OFF, config))
    monkeypatch.setenv("HOME", str(folder))
    for path, text in FILES:
        if path.startswith(f"{name}/"):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)
    assert run(["plugins", "install", str(folder / name)]) == 0
    assert run(["plugins", "enable", name, *(["--in-process"] if inside else [])]) == 0
    assert run(["plugins", "doctor"]) == 0
    return home


def results(home: House) -> list[str]:
    return [message.text for message in home.model.requests[-1].messages if isinstance(message, ToolResult)]


@pytest.mark.parametrize("inside", [True, False])
async def test_the_tool(inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not inside and not available(Backend.BWRAP):
        pytest.skip("needs bubblewrap (apt install bubblewrap)")
    call = Line(calls=(("count_words", {"text": "an old silent pond"}),))
    home = installed("haiku", tmp_path, monkeypatch, call, "four", inside=inside)
    async with home.agent() as agent:
        assert (await agent.ask("count")).text == "four"
    assert "\n4 words\n" in results(home)[0]


async def test_the_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"agents": {"defaults": {"model": "parrot/grey"}}}
    home = installed(
        "parrot", tmp_path, monkeypatch, **config, plugins={"entries": {"parrot": {"config": {"word": "hm"}}}}
    )
    async with home.agent() as agent:
        assert (await agent.ask("hello")).text.endswith("hello, hm!")


async def test_the_context_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = installed("goldfish", tmp_path, monkeypatch, plugins={"slots": {"contextEngine": "goldfish"}})
    async with home.agent() as agent:
        await agent.ask("first")
        await agent.ask("second")
    assert [len(request.messages) for request in home.model.requests] == [1, 1]
    assert "second" in home.model.prompts[-1]


async def test_the_memory_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Line(calls=(("memory_search", {"query": "name of the cat"}),))
    home = installed("grep", tmp_path, monkeypatch, search, "Ada", plugins={"slots": {"memory": "grep"}})
    (home.workspace / "memory").mkdir(parents=True)
    (home.workspace / "memory" / "diary.md").write_text("# Diary\nThe cat is called Ada.\n")
    async with home.agent() as agent:
        await agent.ask("what is the cat called?")
    assert "The cat is called Ada." in results(home)[0]
    assert '"provider":"grep"' in results(home)[0]


async def test_the_chat_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loft = tmp_path / "loft"
    (loft / "in").mkdir(parents=True)
    channels = {"pigeon": {"folder": str(loft), "dmPolicy": "allowlist", "allowFrom": ["ada"]}}
    home = installed("pigeon", tmp_path, monkeypatch, "hello, Ada", channels=channels)
    for name in ("ada", "mallory"):
        (loft / "in" / f"{name}.txt").write_text("hello")
    async with home.agent() as agent:
        board = Switchboard(agent.client)
        board.join()
        try:
            await board.start()
            await until(lambda: bool(list(loft.glob("out/*.txt"))) and not list(loft.glob("in/*.txt")))
        finally:
            await board.aclose()
            agent.client.runtime.outlet = None
    assert {path.name: path.read_text() for path in loft.glob("out/*")} == {"ada.txt": "hello, Ada"}


def test_the_page_has_a_manifest_and_code_for_every_edge() -> None:
    manifests = [json.loads(text) for path, text in FILES if path.endswith(".json")]
    edges = {edge for manifest in manifests for edge in ("tools", "providers", "contextEngines", "memory", "channels") if edge in manifest}  # fmt: skip
    assert len(edges) == len(manifests) == 5


@pytest.mark.parametrize("inside", [True, False])
async def test_the_guard(inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not inside and not available(Backend.BWRAP):
        pytest.skip("needs bubblewrap (apt install bubblewrap)")
    call = Line(calls=(("exec", {"command": "rm -f x"}),))
    lines = (call, "not deleted", "the card is 4111 1111 1111 1111", "noon")
    free = {"tools": {"exec": {"mode": "full"}}}
    home = installed("careful", tmp_path, monkeypatch, *lines, inside=inside, **merge(CONFIG, free))
    home.clock, chat = SystemClock(), Platform()  # type: ignore[assignment]
    async with home.agent() as agent, served(agent, chat):
        assert (await agent.ask("delete x")).text == "not deleted"
        assert "the plugin careful wants you to be asked: it deletes files" in results(home)[0]
        await chat.says("the number?")
        await until(lambda: len(home.model.requests) == 3 and agent.client.runtime.lanes.idle)
        await chat.says("the time?")
        await chat.sees(1)
    assert chat.texts == ["noon"]
