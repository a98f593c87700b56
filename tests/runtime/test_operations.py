"""What a program that has the home in its own process can ask it about sessions."""

import json
from pathlib import Path

import pytest
from tests.models.servers import serving
from tests.scenarios.talker import Say, Talker, make_home, open_agent


async def test_what_a_session_cost_is_all_of_it_here_and_in_another_process(tmp_path: Path) -> None:
    async with serving(
        server=Talker(lambda _body, number: Say(f"answer {number} " + "word " * 400, tokens=1_000))
    ) as server:
        env = make_home(tmp_path, server.url)
        path = tmp_path / ".openclaw/openclaw.json"
        config = json.loads(path.read_text())
        config["models"]["providers"]["mock"]["models"][0]["cost"] = {"input": 1_000, "output": 0}
        path.write_text(json.dumps(config))
        async with open_agent(env) as agent, open_agent(env) as other:
            for number in range(6):
                await agent.ask(f"question {number}")
            for each in (agent, other):
                assert (await each.client.status(each.key)).cost == pytest.approx(6)
            assert "Compacted" in (await agent.ask("/compact")).text
            paid = len([seen for seen in server.seen if seen.method == "POST"])
            for each in (agent, other):
                assert (await each.client.status(each.key)).cost == pytest.approx(paid)
            await agent.ask("/new")
            for each in (agent, other):
                assert (await each.client.status(each.key)).cost == 0
