"""`homarus agents`: roster changes keep comments, workspaces are laid out, and no file is ever deleted."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from homarus.cli.agents import command
from homarus.cli.app import App
from homarus.core.errors import ConfigError, Denied, StorageError, Unknown

COMMENTED = """// my agents
{
  agents: {
    defaults: { model: "mock/m" }, // for all
    entries: {
      main: { default: true },
      work: { identity: { name: "W" } }, // the office
    },
  },
  bindings: [
    { agentId: "work", match: { channel: "telegram", accountId: "office" } }, // desk
  ],
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".openclaw").mkdir()
    return tmp_path


def agents(home: Path, *args: str) -> Result:
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return CliRunner().invoke(command, args, obj=App(env=env), catch_exceptions=False, standalone_mode=False)


def answer(home: Path, *args: str):
    result = agents(home, *args, "--json")
    return json.loads(result.output)


def config(home: Path) -> Path:
    return home / ".openclaw" / "openclaw.json"


def test_the_list_of_an_empty_home_is_the_main_agent(home):
    assert answer(home, "list") == [
        {
            "id": "main",
            "default": True,
            "name": "",
            "emoji": "",
            "workspace": str(home / ".openclaw" / "workspace"),
            "exists": False,
            "model": "",
            "bindings": [],
        }
    ]
    assert "(not there yet)" in agents(home, "list").output
    assert not config(home).exists()


def test_the_list_says_who_answers_where(home):
    config(home).write_text(COMMENTED)
    text = agents(home, "list").output
    assert "main *" in text
    assert "telegram account office" in text
    assert "mock/m" in text


def test_adding_the_first_agent_keeps_main_as_the_default(home):
    done = answer(home, "add", "Work Desk", "--name", "Otto", "--emoji", "🦉", "--model", "builtin/notebook")
    assert done["id"] == "work-desk"
    workspace = home / ".openclaw" / "workspace-work-desk"
    assert done["workspace"] == str(workspace)
    assert "BOOTSTRAP.md" in done["created"]
    assert "- Name: Otto\n" in (workspace / "IDENTITY.md").read_text()
    main, work = answer(home, "list")
    assert (main["id"], main["default"]) == ("main", True)
    assert (work["id"], work["name"], work["emoji"], work["model"]) == ("work-desk", "Otto", "🦉", "builtin/notebook")
    assert not (home / ".openclaw" / "workspace").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("../evil",), "'../evil' is no usable name"),
        (("Käthe 🦞",), "is no usable name"),
        (("x" * 65,), "is no usable name"),
        (("b", "--model", "nosuch/x"), "there is no provider 'nosuch'"),
        (("b", "--workspace", "/"), "/ holds keys, a whole home"),
        (("b", "--workspace", "~"), "holds keys, a whole home"),
        (("b", "--workspace", "~/.openclaw"), "holds keys, a whole home"),
        (("b", "--workspace", "~/.ssh/b"), "holds keys, a whole home"),
    ],
)
def test_an_agent_that_cannot_be_is_refused_before_anything_is_written(home, args, said):
    before = sorted(home.rglob("*"))
    with pytest.raises(Unknown, match=re.escape(said)):
        agents(home, "add", *args)
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(
    "args",
    [
        ("delete", "", "--yes"),
        ("add", "b", "--workspace", ""),
        ("add", "b", "--model", " "),
        ("bind", "main", "telegram", "--peer", ""),
        ("bind", "main", "telegram", "--account", ""),
        ("unbind", "main", "telegram", "--peer", ""),
    ],
)
def test_a_name_that_is_empty_means_nobody_and_nothing(home, args):
    before = sorted(home.rglob("*"))
    with pytest.raises(click.BadParameter, match="empty"):
        agents(home, *args)
    assert sorted(home.rglob("*")) == before


def test_adding_keeps_every_comment(home):
    config(home).write_text(COMMENTED)
    agents(home, "add", "b", "--workspace", "~/b")
    text = config(home).read_text()
    for comment in ("// my agents", "// for all", "// the office", "// desk"):
        assert comment in text
    assert (home / "b" / "AGENTS.md").exists()
    assert '"~/b"' in text
    assert config(home).with_name("openclaw.json.bak").read_text() == COMMENTED


@pytest.mark.parametrize("name", ["work", "WORK", "main"])
def test_an_agent_cannot_be_added_twice(home, name):
    config(home).write_text(COMMENTED)
    with pytest.raises(ConfigError, match="already"):
        agents(home, "add", name)
    assert config(home).read_text() == COMMENTED


def test_a_name_of_nothing_is_refused(home):
    with pytest.raises(click.UsageError):
        agents(home, "add", "---")


def test_sharing_a_workspace_is_warned_of(home):
    result = agents(home, "add", "b", "--workspace", "~/.openclaw/workspace")
    assert "mix their memories" in result.output


def test_deleting_takes_entry_and_bindings_and_leaves_the_files(home):
    config(home).write_text(COMMENTED)
    workspace = home / ".openclaw" / "workspace-work"
    workspace.mkdir()
    (workspace / "MEMORY.md").write_text("dear")
    assert answer(home, "delete", "work", "--yes") == {
        "deleted": "work",
        "kept": [str(workspace)],
        "trash": [],
        "default": None,
    }
    assert [agent["id"] for agent in answer(home, "list")] == ["main"]
    text = config(home).read_text()
    assert "telegram" not in text
    assert "// for all" in text
    assert (workspace / "MEMORY.md").read_text() == "dear"


def test_purging_moves_the_folders_to_the_trash(home):
    config(home).write_text(COMMENTED)
    state = home / ".openclaw"
    (state / "workspace-work").mkdir()
    (state / "workspace-work" / "MEMORY.md").write_text("dear")
    (state / "agents" / "work" / "sessions").mkdir(parents=True)
    (state / "agents" / "work" / "sessions" / "a.jsonl").write_text("{}\n")
    moved = [Path(path) for path in answer(home, "delete", "work", "--yes", "--purge")["trash"]]
    assert [path.name for path in moved] == ["workspace", "agent"]
    assert all(path.is_relative_to(state / "trash") for path in moved)
    assert (moved[0] / "MEMORY.md").read_text() == "dear"
    assert (moved[1] / "sessions" / "a.jsonl").exists()
    assert not (state / "workspace-work").exists()


@pytest.mark.parametrize("workspace", ["~", "~/.openclaw", "~/.openclaw/workspace", "~/.."])
def test_purging_never_takes_along_what_belongs_to_others(home, workspace):
    entries = {"main": {"default": True}, "work": {"workspace": workspace}}
    config(home).write_text(json.dumps({"agents": {"entries": entries}}))
    (home / ".openclaw" / "workspace").mkdir()
    before = config(home).read_text()
    with pytest.raises(Denied, match="lies in it"):
        agents(home, "delete", "work", "--yes", "--purge")
    assert config(home).read_text() == before
    assert (home / ".openclaw" / "workspace").is_dir()


@pytest.mark.parametrize("spelling", ["entries", "list"])
def test_the_heir_of_the_default_agent_keeps_its_own_home(home, spelling):
    text = COMMENTED.replace('model: "mock/m"', 'model: "mock/m", workspace: "~/common"')
    if spelling == "list":
        text = (
            text.replace("entries: {", "list: [")
            .replace("main: {", '{ id: "main",')
            .replace("work: {", '{ id: "work",')
        )
        text = text.replace("// the office\n    },", "// the office\n    ],")
    config(home).write_text(text)
    assert answer(home, "delete", "main", "--yes")["default"] == "work"
    (work,) = answer(home, "list")
    assert (work["default"], work["workspace"]) == (True, str(home / ".openclaw" / "workspace-work"))


def test_the_last_agent_stays(home):
    for document in ("{}", "{ agents: { entries: { main: {} } } }"):
        config(home).write_text(document)
        with pytest.raises(ConfigError, match="the only agent"):
            agents(home, "delete", "main", "--yes", "--purge")
        assert config(home).read_text() == document


def test_deleting_what_is_not_there_is_refused(home):
    with pytest.raises(ConfigError, match="no agent 'ghost'"):
        agents(home, "delete", "ghost", "--yes")


def test_without_somebody_to_ask_deleting_needs_a_yes(home):
    config(home).write_text(COMMENTED)
    with pytest.raises(click.UsageError, match="--yes"):
        agents(home, "delete", "work")
    assert config(home).read_text() == COMMENTED


@pytest.mark.parametrize(("typed", "gone"), [("n", False), ("y", True)])
def test_at_a_terminal_it_asks(home, typed, gone):
    config(home).write_text(COMMENTED)
    ours, theirs = pty.openpty()
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    os.write(ours, f"{typed}\n".encode())
    done = subprocess.run(
        [sys.executable, "-m", "homarus", "agents", "delete", "work"],
        stdin=theirs,
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert "Delete agent 'work'?" in done.stdout
    assert done.returncode == (0 if gone else 130)
    assert (len(answer(home, "list")) == 1) == gone


def test_binding_and_unbinding(home):
    config(home).write_text(COMMENTED)
    done = answer(home, "bind", "work", "Discord", "--account", "a", "--peer", "channel:99")
    match = {"channel": "discord", "accountId": "a", "peer": {"kind": "channel", "id": "99"}}
    assert done == {"agentId": "work", "match": match, "changed": True, "inEffect": False}
    said = agents(home, "bind", "work", "irc").output
    assert "it is written down, but irc is not set up yet" in said, "what nothing serves is not promised"
    agents(home, "unbind", "work", "irc")
    with pytest.raises(ConfigError, match=r"there is no channel 'telegrm' here \(did you mean 'telegram'\?"):
        agents(home, "bind", "work", "telegrm")
    assert answer(home, "bind", "work", "discord", "--account", "a", "--peer", "channel:99")["changed"] is False
    with pytest.raises(ConfigError, match="is bound to 'work'"):
        agents(home, "bind", "main", "discord", "--account", "a", "--peer", "channel:99")
    assert answer(home, "list")[1]["bindings"] == [{"channel": "telegram", "accountId": "office"}, match]
    assert answer(home, "unbind", "work", "discord") == {"agentId": "work", "removed": 1}
    assert answer(home, "unbind", "work", "--all") == {"agentId": "work", "removed": 1}
    assert answer(home, "list")[1]["bindings"] == []
    with pytest.raises(ConfigError, match="nothing is bound"):
        agents(home, "unbind", "work", "--all")


def test_binding_in_a_home_without_a_configuration(home):
    assert answer(home, "bind", "main", "telegram")["changed"]
    assert answer(home, "list")[0]["bindings"] == [{"channel": "telegram"}]


@pytest.mark.parametrize("peer", ["99", "planet:9", "group:"])
def test_a_peer_needs_a_kind_and_an_id(home, peer):
    with pytest.raises(click.UsageError, match="KIND:ID"):
        agents(home, "bind", "main", "discord", "--peer", peer)


def test_unbinding_needs_a_channel_or_all(home):
    for words in (["unbind", "main"], ["unbind", "main", "telegram", "--all"]):
        with pytest.raises(click.UsageError, match="--all"):
            agents(home, *words)


def test_identity_is_one_line_of_the_record(home):
    config(home).write_text(COMMENTED)
    workspace = home / ".openclaw" / "workspace-work"
    workspace.mkdir()
    record = "# Me\n\n- **Name:** Old\n- Hobby: chess\n\nSome text.\n"
    (workspace / "IDENTITY.md").write_text(record)
    done = answer(home, "set-identity", "work", "--name", "Otto", "--vibe", "dry, exact")
    assert (workspace / "IDENTITY.md").read_text() == record.replace("Old", "Otto").replace(
        "- Hobby: chess\n", "- Hobby: chess\n- Vibe: dry, exact\n"
    )
    assert done["changed"] == [str(workspace / "IDENTITY.md"), str(config(home))]
    text = config(home).read_text()
    assert '"Otto"' in text
    assert "dry" not in text
    assert "// the office" in text


def test_identity_can_be_told_where_to_go(home):
    assert answer(home, "set-identity", "--emoji", "🦞", "--where", "config")["changed"] == [str(config(home))]
    assert not (home / ".openclaw" / "workspace").exists()
    assert answer(home, "set-identity", "--name", "Ada", "--where", "file")["changed"] == [
        str(home / ".openclaw" / "workspace" / "IDENTITY.md")
    ]
    (main,) = answer(home, "list")
    assert (main["name"], main["emoji"]) == ("Ada", "🦞")


def test_identity_does_not_follow_a_link_out_of_the_workspace(home, tmp_path):
    workspace = home / ".openclaw" / "workspace"
    workspace.mkdir()
    (tmp_path / "other").write_text("- Name: x\n")
    (workspace / "IDENTITY.md").symlink_to(tmp_path / "other")
    with pytest.raises(StorageError, match="is not edited"):
        agents(home, "set-identity", "--name", "Ada")
    assert (tmp_path / "other").read_text() == "- Name: x\n"


def test_identity_without_a_value_is_a_mistake(home):
    with pytest.raises(click.UsageError, match="what to change"):
        agents(home, "set-identity")
