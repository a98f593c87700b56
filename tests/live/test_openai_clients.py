"""Other people's clients of OpenAI's endpoints against our gateway: LangChain and LiteLLM complete a turn, plain, streamed and with a function.

HOMARUS_CLIENTS_PYTHON names the Python of a virtual environment with langchain-openai, litellm and mcp; see `make test-live`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.gateway.served import TOKEN, served
from tests.scenarios.home import House
from tests.scenarios.script import Line

pytestmark = pytest.mark.live
PYTHON = os.environ.get("HOMARUS_CLIENTS_PYTHON", "")
if not (PYTHON and Path(PYTHON).exists()):
    pytest.skip(
        "HOMARUS_CLIENTS_PYTHON names no Python with langchain-openai, litellm and mcp", allow_module_level=True
    )
ON = {"gateway": {"http": {"endpoints": {"chatCompletions": {"enabled": True}, "responses": {"enabled": True}}}}}

LANGCHAIN = """
import json, os
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="openclaw", base_url=os.environ["BASE"], api_key=os.environ["KEY"], max_retries=0, timeout=60)
plain = model.invoke([SystemMessage("Be brief."), HumanMessage("hello")])
streamed = "".join(str(chunk.content) for chunk in model.stream("hello again"))

@tool
def get_weather(city: str) -> str:
    "The weather at a place."
    return f"sunny in {city}"

asked = [HumanMessage("How is the weather in Graz?")]
call = model.bind_tools([get_weather]).invoke(asked)
result = [ToolMessage(get_weather.invoke(each["args"]), tool_call_id=each["id"]) for each in call.tool_calls]
done = model.bind_tools([get_weather]).invoke([*asked, call, *result])
print(json.dumps({"plain": plain.content, "tokens": plain.usage_metadata["total_tokens"], "streamed": streamed,
                  "calls": [each["name"] for each in call.tool_calls], "done": done.content}))
"""

LITELLM = """
import json, os
import litellm

litellm.telemetry = False
where = {"model": "openai/openclaw", "api_base": os.environ["BASE"], "api_key": os.environ["KEY"], "num_retries": 0, "timeout": 60}
plain = litellm.completion(messages=[{"role": "user", "content": "hello"}], **where)
stream = litellm.completion(messages=[{"role": "user", "content": "hello again"}], stream=True, **where)
streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
weather = {"type": "function", "function": {"name": "get_weather", "description": "The weather at a place",
           "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
asked = [{"role": "user", "content": "How is the weather in Graz?"}]
call = litellm.completion(messages=asked, tools=[weather], **where).choices[0].message
said = [{"role": "tool", "tool_call_id": each.id, "content": "sunny"} for each in call.tool_calls]
done = litellm.completion(messages=[*asked, call.model_dump(), *said], tools=[weather], **where)
print(json.dumps({"plain": plain.choices[0].message.content, "tokens": plain.usage.total_tokens, "streamed": streamed,
                  "calls": [each.function.name for each in call.tool_calls], "done": done.choices[0].message.content}))
"""


@pytest.mark.parametrize("program", [LANGCHAIN, LITELLM], ids=["langchain", "litellm"])
async def test_a_turn_a_stream_and_a_function(tmp_path: Path, program: str) -> None:
    call = Line(calls=(("get_weather", {"city": "Graz"}),))
    house = House(tmp_path, Line("first"), Line("second"), call, Line("It is sunny."), config=ON)
    async with served(house) as home:
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KEY": TOKEN, "NO_PROXY": "*"}
        # Prices are read from the package itself: nothing here asks the network.
        env |= {"BASE": f"http://127.0.0.1:{home.port}/v1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        line, options = [PYTHON, "-c", program], {"env": env, "capture_output": True, "text": True, "timeout": 180}
        done = await asyncio.to_thread(subprocess.run, line, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["plain"], found["streamed"]) == ("first", "second")
    assert (found["calls"], found["done"], found["tokens"]) == (["get_weather"], "It is sunny.", 110)
