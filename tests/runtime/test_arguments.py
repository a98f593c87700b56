"""What a program gives wrongly is refused before anything is done, with what it must be or with the cure."""

import os
from pathlib import Path

import pytest

import homarus
from homarus import Agent, HomarusError, Image, RunOptions, ScriptedModel
from homarus.core.errors import Unknown


@pytest.fixture
def env(tmp_path):
    return {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}


WRONG = [
    ({"seconds": -1}, HomarusError, "seconds=-1.*0 sets no limit"),
    ({"seconds": float("nan")}, HomarusError, "seconds=nan"),
    ({"seconds": float("inf")}, HomarusError, "seconds=inf"),
    ({"seconds": "5"}, TypeError, "seconds: Expected `float . None`, got `str`"),
    ({"seconds": True}, TypeError, "seconds: .*`bool`"),
    ({"seconds": 10**400}, TypeError, "seconds: .*out of range"),
    ({"instructions": 5}, TypeError, "instructions must be a str, not int"),
    ({"session": 5}, TypeError, "session must be a str, not int"),
    ({"session": ""}, Unknown, "session is empty.*'main'"),
    ({"session": "a/b\n"}, Unknown, r"'a/b\\n' holds control characters.*strip"),
    ({"session": "agent:nosuch:main"}, Unknown, "no agent 'nosuch'.*agents are: main"),
    ({"agent": 5}, TypeError, "agent must be a str, not int"),
    ({"text": ""}, HomarusError, "text is empty.*say something"),
    ({"text": " \x00\n"}, HomarusError, "text is empty"),
    ({"text": b"hello"}, TypeError, "text must be a str, not bytes"),
    ({"home": ""}, HomarusError, "home='' is no folder.*~/.openclaw"),
    ({"home": "a\0b"}, HomarusError, "is no folder"),
    ({"home": 5}, TypeError, "home must be a path, not int"),
    ({"env": {"A": 1}}, TypeError, r"env\['A'\] must be a str, not int"),
    ({"env": "A=1"}, TypeError, "env must be a mapping"),
    ({"tools": print}, TypeError, r"tools must be a list.*tools=\[…\]"),
    ({"model": ScriptedModel}, TypeError, "the class ScriptedModel itself"),
    ({"output_type": "City"}, HomarusError, "cannot be told about the type City"),
]


@pytest.mark.parametrize(("given", "kind", "said"), WRONG)
def test_ask(env, tmp_path, monkeypatch, given, kind, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=said):
        homarus.ask(**{"text": "hello", "env": env, "model": ScriptedModel("hi"), **given})
    assert list(tmp_path.iterdir()) == []  # nothing was made, in the current folder neither


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"images": "photo.png"}, "images must be a list of Image"),
        ({"images": [Path("photo.png")]}, "images must hold Image.* alone, not PosixPath"),
        ({"options": {}}, "options must be RunOptions.*not dict"),
        ({"options": RunOptions(message_id=17)}, "message_id: Expected `str`, got `int`"),
        ({"options": RunOptions(needs=[5])}, "needs"),
        ({"thinking": 5}, "thinking must be a str, not int"),
        ({"model": ScriptedModel("hi")}, "model must be a str, not ScriptedModel"),
    ],
)
async def test_a_message(env, given, said):
    async with Agent.open(env=env, model=ScriptedModel("hi")) as agent:
        with pytest.raises(TypeError, match=said):
            await agent.ask("hello", **given)
        with pytest.raises(TypeError, match=said):
            agent.run("hello", **given)
        assert (await agent.ask("hello")).text == "hi"


async def test_what_an_open_agent_is_given(env):
    async with Agent.open(env=env, model=ScriptedModel("hi", "a picture")) as agent:
        for wrong, kind in (("", HomarusError), (5, TypeError)):
            with pytest.raises(kind):
                agent.steer(wrong)
            with pytest.raises(kind):
                await agent.send(wrong)
            with pytest.raises(kind):
                agent.session(wrong)
        with pytest.raises(TypeError, match="listener must be a function"):
            agent.listen(5)
        with pytest.raises(Unknown, match="no agent 'nosuch'"):
            agent.session("agent:nosuch:main")
        with pytest.raises(HomarusError, match="seconds=-1"):
            await agent.send("hello", options=RunOptions(seconds=-1))
        assert (await agent.ask("hello", seconds=0)).text == "hi"
        picture = Image(
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
            "image/png",
        )
        assert (await agent.ask("", images=[picture])).text == "a picture"


async def test_a_gateway_is_not_asked_for_what_cannot_be(env):
    with pytest.raises(Unknown, match="control characters"):
        await Agent.connect("ws://127.0.0.1:9", session="a\n", env=env)
