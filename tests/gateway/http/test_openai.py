"""OpenAI's own client library against the gateway: chat, streams, functions, responses, models, errors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import TOKEN, Served, served
from tests.scenarios.home import House, until
from tests.scenarios.script import Line

from homarus.core.errors import ModelError, ModelFailure
from homarus.core.messages import Assistant, ToolResult, User

openai = pytest.importorskip("openai", reason="needs the openai package (make setup)")
ON = {"gateway": {"http": {"endpoints": {"chatCompletions": {"enabled": True}, "responses": {"enabled": True}}}}}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place",
        "parameters": {"type": "object", "properties": {"city": {"anyOf": [{"type": "string"}]}}},
    },
}
MODEL = "openclaw"


@pytest.fixture
async def home(tmp_path: Path):
    async with served(House(tmp_path, config=ON)) as found:
        yield found


def client(home: Served, token: str = TOKEN, **more: Any) -> Any:
    more.setdefault("max_retries", 0)
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{home.port}/v1", api_key=token, timeout=120, **more)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def test_a_plain_answer_with_its_tokens(home: Served) -> None:
    async with client(home) as api:
        made = await api.chat.completions.create(model=MODEL, messages=[user("hello")])
    assert made.choices[0].message.content == "answer 1"
    assert (made.choices[0].finish_reason, made.object, made.model) == ("stop", "chat.completion", MODEL)
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (100, 10)
    assert home.house.model.prompts == ["hello"]


async def test_a_stream_says_its_text_once_and_hides_what_is_not_for_people(home: Served) -> None:
    home.house.model.lines = [Line("let me look", calls=(("session_status", {}),)), Line("<think>hm</think>fine")]
    async with client(home) as api:
        stream = await api.chat.completions.create(
            model=MODEL, messages=[user("hello")], stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "let me look\n\nfine"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage.total_tokens == 220


async def test_what_was_said_before_is_the_models_history(home: Served) -> None:
    earlier = [
        {"role": "system", "content": "Speak like a sailor."},
        user("what is the weather in Bern?"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Bern"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "rain"},
        {"role": "assistant", "content": "It rains."},
    ]
    async with client(home) as api:
        await api.chat.completions.create(model=MODEL, messages=[*earlier, user("and tomorrow?")])
    request = home.house.model.requests[0]
    kinds = [type(message) for message in request.messages]
    assert kinds == [User, Assistant, ToolResult, Assistant, User]
    assert request.messages[2].text == "rain"
    assert "Speak like a sailor." in request.messages[-1].context
    async with client(home) as api:
        await api.chat.completions.create(model=MODEL, messages=[user("who am I?")])
    assert len(home.house.model.requests[1].messages) == 1, "a request is a conversation of its own"


async def test_functions_of_the_caller_are_called_by_the_caller(home: Served) -> None:
    home.house.model.lines = [Line(calls=(("get_weather", {"city": "Bern"}),)), Line("Rain in Bern.")]
    question = [user("what is the weather in Bern?")]
    async with client(home) as api:
        first = await api.chat.completions.create(model=MODEL, messages=question, tools=[WEATHER], user="ann")
        call = first.choices[0].message.tool_calls[0]
        assert first.choices[0].finish_reason == "tool_calls"
        assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Bern"})
        said = [
            *question,
            first.choices[0].message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "rain"},
        ]
        second = await api.chat.completions.create(model=MODEL, messages=said, tools=[WEATHER], user="ann")
    assert second.choices[0].message.content == "Rain in Bern."
    assert "rain" in home.house.model.prompts[1]
    roles = [type(message) for message in home.house.model.requests[1].messages]
    assert roles == [User, Assistant, ToolResult, User], "the same user goes on in the same session"


async def test_a_call_that_is_demanded_is_the_only_tool_and_its_absence_an_error(home: Served) -> None:
    chosen = {"type": "function", "function": {"name": "get_weather"}}
    async with client(home) as api:
        with pytest.raises(openai.InternalServerError, match="called none of the tools") as failed:
            await api.chat.completions.create(
                model=MODEL, messages=[user("hello")], tools=[WEATHER], tool_choice=chosen
            )
        assert failed.value.status_code == 502
        request = home.house.model.requests[0]
        assert ([tool.name for tool in request.tools], request.tool_choice) == (["get_weather"], "get_weather")
        await api.chat.completions.create(model=MODEL, messages=[user("hello")], tools=[WEATHER], tool_choice="none")
        assert "get_weather" not in {tool.name for tool in home.house.model.requests[1].tools}


async def test_a_stream_of_calls(home: Served) -> None:
    home.house.model.lines = [
        Line("I ask.", calls=(("get_weather", {"city": "Bern"}), ("get_weather", {"city": "Ulm"})))
    ]
    async with client(home) as api:
        stream = await api.chat.completions.create(
            model=MODEL, messages=[user("weather?")], tools=[WEATHER], stream=True
        )
        chunks = [chunk.choices[0] async for chunk in stream]
    calls = [call for chunk in chunks for call in chunk.delta.tool_calls or ()]
    assert [(call.index, json.loads(call.function.arguments)["city"]) for call in calls] == [(0, "Bern"), (1, "Ulm")]
    assert chunks[-1].finish_reason == "tool_calls"


async def test_a_response_and_the_one_that_follows_it(home: Served) -> None:
    async with client(home) as api:
        first = await api.responses.create(model=MODEL, input="hello", instructions="Be brief.")
        assert (first.output_text, first.status, first.usage.total_tokens) == ("answer 1", "completed", 110)
        second = await api.responses.create(model=MODEL, input="go on", previous_response_id=first.id)
        assert second.output_text == "answer 2"
        assert len(home.house.model.requests[1].messages) == 3
        with pytest.raises(openai.NotFoundError):
            await api.responses.create(model=MODEL, input="go on", previous_response_id="resp_of_somebody")


async def test_a_response_as_a_stream_of_events_in_order(home: Served) -> None:
    tool = {"type": "function", **WEATHER["function"]}
    home.house.model.lines = [Line("I ask.", calls=(("get_weather", {"city": "Bern"}),)), Line("Rain.")]
    async with client(home) as api:
        stream = await api.responses.create(model=MODEL, input="weather?", tools=[tool], stream=True)
        events = [event async for event in stream]
        kinds = [event.type.removeprefix("response.") for event in events]
        assert kinds == [
            *("created", "in_progress", "output_item.added", "content_part.added", "output_text.delta"),
            *("output_text.done", "content_part.done", "output_item.done", "output_item.added"),
            *("function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "completed"),
        ]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        done = events[-1].response
        output = [{"type": "function_call_output", "call_id": done.output[1].call_id, "output": "rain"}]
        second = await api.responses.create(model=MODEL, input=output, previous_response_id=done.id, tools=[tool])
        assert second.output_text == "Rain."
        assert "Result of" in home.house.model.prompts[1]


async def test_agents_are_models(home: Served) -> None:
    async with client(home) as api:
        names = [model.id async for model in api.models.list()]
        assert names == ["openclaw", "openclaw/default", "openclaw/main"]
        assert (await api.models.retrieve("openclaw/main")).owned_by == "openclaw"
        with pytest.raises(openai.NotFoundError):
            await api.models.retrieve("gpt-5")
        with pytest.raises(openai.BadRequestError, match="openclaw/<agent>"):
            await api.chat.completions.create(model="gpt-5", messages=[user("hello")])


async def test_who_has_no_secret_gets_nothing(home: Served) -> None:
    async with client(home, "wrong") as api:
        for call in (
            api.models.list(),
            api.chat.completions.create(model=MODEL, messages=[user("hello")]),
            api.responses.create(model=MODEL, input="hello"),
            api.embeddings.create(model=MODEL, input="hello"),
        ):
            with pytest.raises(openai.AuthenticationError):
                await call
    assert home.house.model.requests == []


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "not empty"),
        ([{"role": "assistant", "content": "hi"}], "last message"),
        ([user("  ")], "empty"),
        ([{"role": "wizard", "content": "x"}], "role"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://10.0.0.1/x.png"}}]}],
            "fetched",
        ),
        ([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], "input_audio"),
        ([user("/config set tools.allow []")], "missing scope"),
    ],
)
async def test_what_cannot_be_answered_is_refused_with_a_reason(home: Served, messages: Any, words: str) -> None:
    async with client(home) as api:
        with pytest.raises(openai.APIStatusError) as failed:
            await api.chat.completions.create(model=MODEL, messages=messages)
    assert failed.value.status_code in {400, 403}
    assert words in failed.value.message
    assert home.house.model.requests == []


async def test_sessions_of_the_program_itself_are_closed(home: Served) -> None:
    async with client(home) as api:
        for name in ("agent:main:subagent:x", "cron:x", "agent:main:hook:y"):
            with pytest.raises(openai.BadRequestError):
                await api.chat.completions.create(
                    model=MODEL, messages=[user("hi")], extra_headers={"x-openclaw-session-key": name}
                )
        await api.chat.completions.create(
            model=MODEL, messages=[user("hi")], extra_headers={"x-openclaw-session-key": "main"}
        )
    assert home.house.row("agent:main:main")


async def test_a_model_that_fails_is_an_error_that_no_client_tries_again(home: Served) -> None:
    broken = Line(error=ModelError(ModelFailure.AUTH, "no such key"))
    home.house.model.lines = [broken] * 8
    async with client(home, max_retries=2) as api:
        with pytest.raises(openai.InternalServerError):
            await api.chat.completions.create(model=MODEL, messages=[user("hello")])
        asked = len(home.house.model.requests)
        with pytest.raises(openai.APIError):
            async for _ in await api.chat.completions.create(model=MODEL, messages=[user("hello")], stream=True):
                pass
        assert len(home.house.model.requests) == 2 * asked
        kinds = [e.type async for e in await api.responses.create(model=MODEL, input="hello", stream=True)]
        assert kinds[-1] == "response.failed"


async def test_a_caller_who_leaves_takes_the_turn_along(home: Served) -> None:
    home.house.model.hold()
    async with client(home) as api:
        stream = await api.chat.completions.create(model=MODEL, messages=[user("hello")], stream=True)
        await home.house.model.entered.wait()
        await stream.close()
        await until(lambda: home.house.model.active == 0)
        plain = asyncio.ensure_future(api.chat.completions.create(model=MODEL, messages=[user("hello")]))
        await until(lambda: home.house.model.active == 1)
        plain.cancel()
        await until(lambda: home.house.model.active == 0)


async def test_endpoints_are_off_until_the_owner_turns_them_on(tmp_path: Path) -> None:
    async with served(House(tmp_path)) as home, client(home) as api:
        with pytest.raises(openai.NotFoundError, match=r"gateway.http.endpoints.chatCompletions.enabled"):
            await api.chat.completions.create(model=MODEL, messages=[user("hello")])
        with pytest.raises(openai.NotFoundError, match="responses"):
            await api.responses.create(model=MODEL, input="hello")
        assert [model.id async for model in api.models.list()]


async def test_settings_that_change_nothing_are_named(home: Served) -> None:
    async with client(home) as api:
        raw = await api.chat.completions.with_raw_response.create(
            model=MODEL, messages=[user("hello")], temperature=0.1, seed=1
        )
    assert raw.headers["x-homarus-ignored"] == "seed, temperature"


async def test_vectors_come_from_the_memorys_embedder(home: Served) -> None:
    pytest.importorskip("wordllama", reason="needs homarus[memory]")
    async with client(home) as api:
        made = await api.embeddings.create(model=MODEL, input=["a cat", "a dog"])
        plain = await api.embeddings.create(model=MODEL, input="a cat", encoding_format="float")
    assert len(made.data) == 2
    assert made.data[0].embedding == pytest.approx(plain.data[0].embedding)


async def test_requests_leave_nothing_behind_in_memory(home: Served) -> None:
    async with home.client(scopes=("operator.read", "operator.write", "operator.approvals")), client(home) as api:
        for _ in range(3):
            await api.chat.completions.create(model=MODEL, messages=[user("hello")])
        assert home.gateway.feed._attending == {}
        assert home.gateway.client.home.toolkit.approvers._here == {}
