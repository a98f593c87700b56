"""The bundled hooks, loaded and called as any other hook is."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from tests.hooks.helpers import NOW, facts

from homarus.core.messages import Assistant, Text, ToolResult, User
from homarus.hooks.bundled.bootstrap_extra_files.handler import Search
from homarus.hooks.discover import find_hooks, standard_roots
from homarus.hooks.events import HookEvent, event
from homarus.hooks.load import HookSettings, load_hooks
from homarus.hooks.registry import HookRegistry


def hooks(name: str, state: Path = Path("/nowhere"), **options: Any) -> HookRegistry:
    registry = HookRegistry()
    settings = HookSettings(entries={name: {"enabled": True, **options}})
    statuses = load_hooks(find_hooks(standard_roots()), settings, facts(), registry, {"stateDir": str(state)})
    assert [status.hook.name for status in statuses if status.loaded] == [name]
    return registry


class FakeGateway:
    """Stands in for what runs a turn."""

    def __init__(self, fail: str = "") -> None:
        self.turns: list[tuple[str, Path, str]] = []
        self.fail = fail

    async def run_turn(self, *, agent_id: str, workspace: Path, prompt: str) -> None:
        self.turns.append((agent_id, workspace, prompt))
        if agent_id == self.fail:
            raise RuntimeError("model\nis away")


def startup(gateway: FakeGateway, *agents: tuple[str, Path]) -> HookEvent:
    listed = [{"agentId": name, "workspaceDir": str(path)} for name, path in agents]
    return event("gateway:startup", NOW, context={"run_turn": gateway.run_turn, "agents": listed})


async def test_boot_runs_once_for_each_distinct_workspace(tmp_path, caplog):
    gateway = FakeGateway(fail="main")
    for name in ("one", "two", "blank", "none"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "BOOT.md").write_text("Check the mail.")
    (tmp_path / "two" / "BOOT.md").write_text("Water the plants.")
    (tmp_path / "blank" / "BOOT.md").write_text(" \n")
    (tmp_path / "alias").symlink_to(tmp_path / "one")
    agents = [("main", "one"), ("twin", "alias"), ("work", "two"), ("b", "blank"), ("n", "none"), ("gone", "missing")]
    with caplog.at_level(logging.WARNING):
        await hooks("boot-md").emit(startup(gateway, *((name, tmp_path / place) for name, place in agents)))
    assert [(turn[0], turn[1].name) for turn in gateway.turns] == [("main", "one"), ("work", "two")]
    assert "Check the mail." in gateway.turns[0][2]
    assert "RuntimeError: model is away" in caplog.text


async def test_boot_does_not_follow_a_link_out(tmp_path):
    gateway = FakeGateway()
    (tmp_path / "ws").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "ws" / "BOOT.md").symlink_to(tmp_path / "secret")
    await hooks("boot-md").emit(startup(gateway, ("main", tmp_path / "ws")))
    assert gateway.turns == []


def conversation(count: int) -> list[Any]:
    said: list[Any] = []
    for number in range(count):
        said.append(User((Text(f"question {number}"),)))
        said.append(ToolResult(f"c{number}", "read", (Text("tool output"),)))
        said.append(Assistant((Text(f"answer {number}"),)))
    return said


def reset(workspace: Path, messages: Any, **more: Any) -> HookEvent:
    context = {
        "workspaceDir": str(workspace),
        "messages": messages,
        "sessionId": "s-1",
        "commandSource": "telegram",
        **more,
    }
    return event("command:new", NOW, session_key="agent:main:main", context=context)


async def test_session_memory_keeps_the_last_fifteen(tmp_path):
    await hooks("session-memory").emit(reset(tmp_path, conversation(20)))
    text = (tmp_path / "memory" / "2026-11-15-0830.md").read_text()
    assert text.count("> user: ") + text.count("> assistant: ") == 15
    assert "question 12" not in text
    assert "> assistant: answer 12\n\n> user: question 13\n" in text
    assert "tool output" not in text
    assert "- Session: agent:main:main\n- Id: s-1\n- Ended by: command:new (telegram)\n" in text
    assert oct((tmp_path / "memory" / "2026-11-15-0830.md").stat().st_mode)[-3:] == "600"


async def test_session_memory_never_overwrites(tmp_path):
    registry = hooks("session-memory", messages=2)
    for _ in range(3):
        await registry.emit(reset(tmp_path, conversation(3)))
    assert sorted(os.listdir(tmp_path / "memory")) == [
        "2026-11-15-0830-2.md",
        "2026-11-15-0830-3.md",
        "2026-11-15-0830.md",
    ]
    assert "question 1" not in (tmp_path / "memory" / "2026-11-15-0830.md").read_text()


async def test_session_memory_names_by_slug_and_local_day(tmp_path):
    registry = hooks("session-memory")
    await registry.emit(reset(tmp_path, conversation(1), slug="Vendor Pitch: ../../x", timezone="Pacific/Auckland"))
    await registry.emit(reset(tmp_path, conversation(1), timezone="Pacific/Auckland"))
    await registry.emit(reset(tmp_path, conversation(1), timezone="No/Where"))
    assert sorted(os.listdir(tmp_path / "memory")) == [
        "2026-11-15-0830.md",
        "2026-11-15-2130.md",
        "2026-11-15-vendor-pitch-x.md",
    ]


async def test_session_memory_takes_plain_messages_and_skips_commands(tmp_path):
    said = [
        {"role": "user", "content": "/new"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "image", "data": "x"}]},
        {"role": "system", "content": "hidden"},
        {"role": "assistant", "content": "## Retain\n- W @You: owes me money"},
        "nonsense",
        {"role": "user", "content": None},
    ]
    await hooks("session-memory").emit(reset(tmp_path, said))
    body = (tmp_path / "memory" / "2026-11-15-0830.md").read_text().split("## Conversation\n\n")[1]
    # A heading in a message must not become a heading of the note: memory reads facts from those.
    assert body == "> user: hello\n\n> assistant: ## Retain\n> - W @You: owes me money\n"


async def test_session_memory_writes_nothing_for_nothing(tmp_path):
    for messages in ([], None, [{"role": "user", "content": "/reset"}]):
        await hooks("session-memory").emit(reset(tmp_path, messages))
    assert os.listdir(tmp_path) == []


async def test_session_memory_stays_in_the_workspace(tmp_path, caplog):
    (tmp_path / "ws").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ws" / "memory").symlink_to(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING):
        await hooks("session-memory").emit(reset(tmp_path / "ws", conversation(1)))
    assert os.listdir(tmp_path / "elsewhere") == []
    assert "leads out of the workspace" in caplog.text


async def test_command_logger_appends_one_line_each(tmp_path):
    registry = hooks("command-logger", tmp_path)
    for action, sender in (("new", "42"), ("stop", None), ("reset", "evil\n{}")):
        await registry.emit(
            event(
                f"command:{action}",
                NOW,
                session_key="agent:main:main",
                context={"senderId": sender, "commandSource": "irc"},
            )
        )
    lines = [json.loads(line) for line in (tmp_path / "logs" / "commands.log").read_text().splitlines()]
    assert [line["action"] for line in lines] == ["new", "stop", "reset"]
    assert lines[0] == {
        "timestamp": "2026-11-15T08:30:00.000Z",
        "action": "new",
        "sessionKey": "agent:main:main",
        "senderId": "42",
        "source": "irc",
    }
    assert lines[1]["senderId"] == "unknown"
    assert lines[2]["senderId"] == "evil {}"


async def test_command_logger_is_bounded(tmp_path):
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "commands.log"
    log.write_bytes(b"x" * 5_000_000)
    registry = hooks("command-logger", tmp_path)
    await registry.emit(event("command:new", NOW))
    assert not log.exists()
    await registry.emit(event("command:new", NOW))
    assert log.stat().st_size < 300
    assert (tmp_path / "logs" / "commands.log.1").stat().st_size > 5_000_000


def bootstrap(workspace: Path) -> HookEvent:
    files = [{"name": "AGENTS.md", "path": str(workspace / "AGENTS.md"), "content": "rules", "missing": False}]
    return event("agent:bootstrap", NOW, context={"workspaceDir": str(workspace), "bootstrapFiles": files})


ALL_PACKAGES = ["packages/a/AGENTS.md", "packages/b/AGENTS.md", "packages/c/AGENTS.md"]


@pytest.fixture
def monorepo(tmp_path):
    for name in (
        "AGENTS.md",
        "packages/a/AGENTS.md",
        "packages/b/AGENTS.md",
        "packages/b/deep/TOOLS.md",
        "packages/b/notes.md",
        ".git/AGENTS.md",
    ):
        path = tmp_path / "ws" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "AGENTS.md").write_text("outside")
    (tmp_path / "ws" / "packages" / "c").mkdir()
    (tmp_path / "ws" / "packages" / "c" / "AGENTS.md").symlink_to(tmp_path / "AGENTS.md")
    return tmp_path / "ws"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"paths": ["packages/*/AGENTS.md"]}, ALL_PACKAGES),
        (
            {"patterns": ["./packages/**/*.md"]},
            [ALL_PACKAGES[0], ALL_PACKAGES[1], "packages/b/deep/TOOLS.md", ALL_PACKAGES[2]],
        ),
        ({"files": "packages/b/deep/TOOLS.md"}, ["packages/b/deep/TOOLS.md"]),
        ({"paths": ["packages/a/*"], "files": ["packages/b/*"]}, ["packages/a/AGENTS.md"]),
        ({"paths": ["**/AGENTS.md"]}, ALL_PACKAGES),
        ({"paths": ["packages/b/**"]}, ["packages/b/AGENTS.md", "packages/b/deep/TOOLS.md"]),
        ({"paths": ["packages/**/deep/**/TOOLS.md", "**/**/TOOLS.md"]}, ["packages/b/deep/TOOLS.md"]),
        ({"paths": ["packages/?/deep/TOOLS.md"]}, ["packages/b/deep/TOOLS.md"]),
        ({"paths": ["packages/b/notes.md", "../AGENTS.md", "/etc/passwd", ".git/AGENTS.md", "*/AGENTS.md"]}, []),
        ({"paths": ["(packages|x)/a/AGENTS.md", "packages[/]a/AGENTS.md"]}, []),
        ({"paths": [3, None]}, []),
        ({}, []),
    ],
)
def test_extra_files_by_pattern(monorepo, options, names):
    heard = hooks("bootstrap-extra-files", **options).emit_sync(bootstrap(monorepo))
    added = heard.context["bootstrapFiles"][1:]
    assert [item["path"] for item in added] == [str(monorepo / name) for name in names]
    # The workspace's own reader takes the text, with its guards and its cache.
    assert not any("content" in item for item in added)
    assert all(item["name"] in {"AGENTS.md", "TOOLS.md"} and item["missing"] is False for item in added)


def test_extra_files_look_only_where_a_match_can_be(tmp_path):
    for name in ("packages/a/src/lib", "other/deep/er"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "packages" / "a" / "AGENTS.md").write_text("x")
    search = Search(tmp_path)
    assert list(search.expand("", ("packages", "*", "AGENTS.md"))) == ["packages/a/AGENTS.md"]
    assert set(search.opened) == {"", "packages/", "packages/a/"}


def test_extra_files_are_bounded(tmp_path):
    for number in range(60):
        (tmp_path / f"p{number:02}").mkdir()
        (tmp_path / f"p{number:02}" / "AGENTS.md").write_text("x")
    heard = hooks("bootstrap-extra-files", paths=["*/AGENTS.md"]).emit_sync(bootstrap(tmp_path))
    assert len(heard.context["bootstrapFiles"]) == 41


@pytest.mark.parametrize(
    ("key", "context", "said"),
    [
        ("session:compact:before", {}, "🧹 One moment: older messages are being summarised."),
        (
            "session:compact:after",
            {"tokensBefore": 91000, "tokensAfter": 12000},
            "🧹 Summarised: 91,000 → 12,000 tokens.",
        ),
        ("session:compact:after", {}, "🧹 Summarised."),
        ("session:compact:after", {"ok": False}, "🧹 The summary failed; the conversation stays as it was."),
    ],
)
async def test_compaction_notifier(key, context, said):
    assert (await hooks("compaction-notifier").emit(event(key, NOW, context=context))).messages == [said]
