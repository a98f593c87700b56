"""A skill that the prompt lists can be read, and its programs can be run, wherever it lies and whatever the sandbox."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House, merge
from tests.scenarios.script import Line

from homarus.core.messages import ToolResult
from homarus.sandbox.process import available
from homarus.sandbox.spec import Backend

SANDBOX = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}}
CLOSED = {"tools": {"fs": {"workspaceOnly": True}}}


def house(folder: Path, config: dict[str, Any] | None = None) -> House:
    """Make a home with a skill in every place, and one behind a link."""
    made = House(folder, config=merge({"skills": {"load": {"extraDirs": ["~/more"]}}}, config or {}))
    places = {
        "ours": made.workspace / "skills",
        "project": made.workspace / ".agents" / "skills",
        "personal": folder / ".agents" / "skills",
        "managed": made.state / "skills",
        "extra": folder / "more",
        "plugin": made.state / "plugin-skills",
        "linked": folder / "elsewhere",
    }
    for name, place in places.items():
        (place / name).mkdir(parents=True)
        (place / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: about {name}\n---\nBODY of {name}\n")
        (place / name / "run.sh").write_text(f"echo RAN {name}\n")
    (made.state / "skills" / "linked").symlink_to(places["linked"] / "linked")
    return made


async def listed_files(made: House) -> dict[str, str]:
    """Let the model hear its prompt once, and return what it lists."""
    async with made.agent() as agent:
        assert (await agent.ask("hello")).ok
    text = made.model.requests[-1].system.text
    return dict(re.findall(r"<name>(.*?)</name>.*?<location>(.*?)</location>", text, re.DOTALL))


async def call(made: House, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    made.model.lines = [Line("hello")] * len(made.model.requests) + [Line(calls=calls), Line("done")]
    async with made.agent() as agent:
        assert (await agent.ask("go")).ok
    results = [message.text for message in made.model.requests[-1].messages if isinstance(message, ToolResult)]
    return results[-len(calls) :]


@pytest.mark.parametrize("config", [{}, SANDBOX, CLOSED], ids=["sandbox", "host", "closed"])
async def test_every_listed_skill_can_be_read(tmp_path: Path, config: dict[str, Any]) -> None:
    made = house(tmp_path, config)
    files = await listed_files(made)
    assert set(files) >= {"ours", "project", "personal", "managed", "extra", "plugin", "linked", "daily-review"}
    texts = await call(made, *(("read", {"path": path}) for path in files.values()))
    for name, text in zip(files, texts, strict=True):
        assert "# Daily review" in text or "---" in text, (name, text)
        assert not text.startswith("Denied"), (name, text)
    assert "BODY of linked" in texts[list(files).index("linked")]


@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
async def test_programs_of_skills_run_in_a_sandbox_and_cannot_be_changed_there(tmp_path: Path, backend: str) -> None:
    if not available(Backend(backend)):
        pytest.skip(f"this machine has no {backend}")
    made = house(tmp_path, {"agents": {"defaults": {"sandbox": {"backend": backend}}}})
    folder = made.state / "skills" / "managed"
    ran, changed, state = await call(
        made,
        ("exec", {"command": f"sh {folder}/run.sh; sh {tmp_path}/.agents/skills/personal/run.sh"}),
        ("exec", {"command": f"echo evil > {folder}/run.sh"}),
        ("exec", {"command": f"cat {made.state}/openclaw.json"}),
    )
    assert "RAN managed\nRAN personal" in ran
    assert (folder / "run.sh").read_text() == "echo RAN managed\n", changed
    assert "script/model" not in state


async def test_a_whole_home_named_as_a_folder_of_skills_opens_nothing_more(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id").write_text("PRIVATE")
    made = House(tmp_path, config={"skills": {"load": {"extraDirs": ["~"]}}})
    texts = await call(made, ("read", {"path": "~/.ssh/id"}), ("exec", {"command": f"cat {tmp_path}/.ssh/id"}))
    assert not any("PRIVATE" in text for text in texts)


async def test_links_of_the_workspace_still_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("PRIVATE")
    made = house(tmp_path)
    (made.workspace / "skills" / "ours" / "out.txt").symlink_to(tmp_path / "secret.txt")
    texts = await call(
        made,
        ("read", {"path": "skills/ours/out.txt"}),
        ("read", {"path": "~/.openclaw/skills/linked/../../../secret.txt"}),
        ("write", {"path": "~/.openclaw/skills/managed/SKILL.md", "content": "evil"}),
    )
    assert not any("PRIVATE" in text for text in texts)
    assert "evil" not in (made.state / "skills" / "managed" / "SKILL.md").read_text()
