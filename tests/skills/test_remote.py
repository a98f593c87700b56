"""`invocation.allowRemote: false`: whichever way a skill came in, people on a channel cannot call it, and people at the machine can."""

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import ADMIN, served
from tests.gateway.test_admin_methods import archive, upload
from tests.scenarios.home import House, merge

from homarus.cli.main import run
from homarus.core.messages import Inbound, Trust

OFF: dict[str, Any] = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}}
BODY = "Boil the water first."
TEXT = "---\nname: tea\ndescription: Makes tea.\nmetadata: {openclaw: {invocation: {allowRemote: false}}}\n---\n" + BODY


def folder_of(place: Path) -> Path:
    (place / "tea").mkdir(parents=True)
    (place / "tea" / "SKILL.md").write_text(TEXT)
    return place / "tea"


def source(way: str, place: Path) -> str:
    """Return where a skill lies that is fetched in this way."""
    folder = folder_of(place)
    if way == "zip":
        with zipfile.ZipFile(place / "tea.zip", "w") as packed:
            packed.write(folder / "SKILL.md", "tea/SKILL.md")
        return str(place / "tea.zip")
    if way == "tar":
        with tarfile.open(place / "tea.tgz", "w:gz") as tar:
            tar.add(folder, "tea")
        return str(place / "tea.tgz")
    if way == "git":
        for line in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
        ):
            subprocess.run(["git", *line], cwd=place, check=True)
        return f"file://{place}"
    return str(folder)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    for name in [name for name in os.environ if name.startswith(("OPENCLAW_", "HOMARUS_"))]:
        monkeypatch.delenv(name)
    rules = {"skills": {"install": {"allowUploadedArchives": True}}, "gateway": {"auth": {"secretScopes": list(ADMIN)}}}
    monkeypatch.setenv("HOME", str(tmp_path))
    return House(tmp_path, *["fine"] * 6, config=merge(OFF, rules))


async def asked(home: House) -> dict[tuple[str, str], bool]:
    """Call the skill in each way from each side; say where its words reached the model."""
    found = {}
    async with home.agent() as agent:
        for channel in ("terminal", "telegram", "webchat"):
            for text in ("/tea now", "/skill tea now", "make it like $tea does"):
                before = len(home.model.requests)
                inbound = Inbound(f"{channel} {text}", channel, text, sender="7", peer="7", trust=Trust.OWNER)
                if (await agent.client.take(agent.key, inbound)).item is not None:
                    await agent.client.runtime.lane(agent.key).idle()
                new = home.model.requests[before:]
                found[channel, text.split()[0]] = any(
                    BODY in message.text + getattr(message, "context", "")
                    for each in new
                    for message in each.messages[-1:]
                )
    return found


@pytest.mark.parametrize("way", ["folder", "zip", "tar", "git", "upload", "by hand"])
async def test_a_skill_for_this_machine_alone(way: str, home: House, tmp_path: Path) -> None:
    if way == "upload":
        async with served(home) as running, running.client(scopes=ADMIN) as client:
            ident = await upload(client, archive(TEXT))
            assert (await client.call("skills.install", {"source": "upload", "uploadId": ident, "slug": "tidy"}))["ok"]
    elif way == "by hand":
        folder_of(home.state / "skills")
    else:
        assert run(["skills", "install", source(way, tmp_path / "from")]) == 0
    if way != "by hand":
        assert run(["skills", "approve", "tea"]) == 0
    found = await asked(home)
    assert found == {key: key[0] == "terminal" for key in found}
    assert len(found) == 9
