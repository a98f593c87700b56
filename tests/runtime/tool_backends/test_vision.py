"""The image tool with scripted models that see, fail, or are not there."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House
from tests.scenarios.script import Line

from homarus.core.errors import ModelError, ModelFailure
from homarus.core.messages import Image, ToolResult, Trust, User
from homarus.core.routes import main_session

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def house(folder: Path, *lines: Line | str, **defaults: Any) -> House:
    return House(folder, *lines, config={"agents": {"defaults": defaults}})


async def look(made: House, **arguments: Any) -> ToolResult:
    async with made.agent() as agent:
        made.workspace.mkdir(parents=True, exist_ok=True)
        (made.workspace / "p.png").write_bytes(PNG)
        (made.workspace / "t.png").write_text("no picture")
        return await agent.client.call_tool(main_session("main"), "image", arguments, Trust.OWNER)


async def test_the_image_model_looks(tmp_path: Path) -> None:
    made = house(tmp_path, "a grey dot", imageModel="script/eyes")
    result = await look(made, image="p.png", prompt="what is it?")
    assert result.text == "a grey dot"
    (asked,) = made.model.requests
    assert asked.model == "eyes"
    (message,) = asked.messages
    assert isinstance(message, User)
    assert message.text == "what is it?"
    assert [part.data for part in message.parts if isinstance(part, Image)] == [base64.b64encode(PNG).decode()]
    # What a picture says was not written by the owner.
    assert (result.details or {})["tainted"]


async def test_the_next_image_model_is_asked_when_one_fails(tmp_path: Path) -> None:
    failed = Line("", error=ModelError(ModelFailure.MODEL_NOT_FOUND, "gone"))
    made = house(tmp_path, failed, "seen", imageModel={"primary": "script/eyes", "fallbacks": ["script/spare"]})
    assert (await look(made, image="p.png")).text == "seen"
    assert [request.model for request in made.model.requests] == ["eyes", "spare"]


async def test_a_failure_is_told(tmp_path: Path) -> None:
    failed = Line("", error=ModelError(ModelFailure.MODEL_NOT_FOUND, "gone"))
    result = await look(house(tmp_path, failed, failed, imageModel="script/eyes"), image="p.png")
    assert result.is_error
    assert "image model failed" in result.text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "'image' is missing"),
        ({"image": "t.png"}, "no image"),
        ({"image": "gone.png"}, "does not exist"),
        ({"image": "/etc/passwd"}, "outside of what this session may read"),
        ({"image": "../../openclaw.json"}, "outside of what this session may read"),
        ({"image": "http://127.0.0.1/x.png"}, "private network"),
        ({"image": "file:///etc/passwd"}, "does not exist"),
        ({"image": "http://169.254.169.254/latest"}, "private network"),
    ],
)
async def test_what_cannot_be_looked_at(tmp_path: Path, arguments: dict[str, Any], expected: str) -> None:
    made = house(tmp_path, "never", imageModel="script/eyes")
    result = await look(made, **arguments)
    assert result.is_error
    assert expected in result.text
    assert made.model.requests == []


async def test_without_a_model_that_sees_there_is_no_image_tool(tmp_path: Path) -> None:
    result = await look(house(tmp_path), image="p.png")
    assert "there is no tool 'image'" in result.text


async def test_an_agent_whose_own_model_sees_needs_no_other(tmp_path: Path) -> None:
    made = House(
        tmp_path,
        "seen",
        config={
            "models": {
                "providers": {
                    "script": {
                        "baseUrl": "http://127.0.0.1:1",
                        "apiKey": "k",
                        "models": [{"id": "model", "input": ["text", "image"]}],
                    }
                }
            },
        },
    )
    assert (await look(made, image="p.png")).text == "seen"
    assert json.loads((made.state / "openclaw.json").read_text())
