"""Whatever bytes stand in the file: no traceback, and the file is never lost."""

from __future__ import annotations

import random

import pytest

from homarus.cli.main import run
from homarus.config.blocks import validate
from homarus.config.load import inspect_config
from homarus.config.scan import parse
from homarus.config.write import Operation, change
from homarus.core.errors import HomarusError

SEED = """// my agent
{
  "$schema": "./schema.json",
  gateway: { mode: "local", port: 18789, bind: "loopback", auth: { mode: "token", token: "${TOKEN}" } },
  agent: { workspace: "~/w", model: "a/b" }, /* old */
  agents: {
    defaults: { model: { primary: 'x/y', fallbacks: ["c/d",], }, blockStreamingChunk: "800-1200", sandbox: { mode: "all" } },
    list: [ { id: "main", default: true }, { agentId: "work", agentDir: "~/a/work", memorySearch: { k: 0x10 } } ],
  },
  "channels.whatsapp.blockStreaming": true,
  channels: { telegram: { botToken: { source: "env", id: "BOT" }, groups: { "*": { requireMention: true } } } },
  session: { idleMinutes: 5, resetByType: { dm: { mode: "idle" } } },
  messages: { queue: { mode: "steer", cap: 20, byChannel: { telegram: "collect" } }, inbound: { debounceMs: +300 } },
  secrets: { providers: { files: { source: "file", path: "~/s.json", mode: "json" } } },
  env: { vars: { TOKEN: "from-file" } },
  include: { $include: ["./part.json5"] },
  models: { providers: { mock: { baseUrl: "http://u:p@h/v1", apiKey: "sk-fixture-1", models: [ { id: "m", cost: { input: .5 } } ] } } },
}
"""
PIECES = [b"", b"{", b"}", b"[", b"]", b",", b":", b'"', b"'", b"\\", b"/", b"//", b"/*", b"*/", b"\n", b"\r", b"\x00"]
PIECES += [
    b"\xff",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"null",
    b"0x",
    b"1e999",
    b"$include",
    b"${A}",
    b"-",
    b"\\u0000",
    b"\\ud800",
]


def mutated(data: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        at = dice.randrange(len(data) + 1)
        size = dice.choice((0, 1, 1, 2, 30))
        kind = dice.randrange(6)
        if kind == 0:
            data = data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + dice.choice(PIECES) + data[at + size :]
        elif kind == 2:
            data = data[:at] + data[at + size :]
        elif kind == 3:
            data = data[:at] + data[dice.randrange(len(data) + 1) :][: size * 3] + data[at:]
        elif kind == 4:
            data = data[:at]
        else:
            data = bytes([data[at - 1] ^ (1 << dice.randrange(8))]).join((data[: at - 1], data[at:])) if at else data
    return data


def survive(home, count: int, seed: int) -> dict[str, int]:
    dice = random.Random(seed)
    home.write("{ deep: { a: 1 }, list: [1] }", "part.json5")
    seen = {"edited": 0, "refused": 0, "fallback": 0}
    for _ in range(count):
        data = mutated(SEED.encode(), dice)
        home.write(data)
        config = inspect_config(home.paths, home.env)
        validate(config)
        assert config.agents
        assert [agent.get("model") for agent in config.agents]
        assert all(str(problem) for problem in config.problems)
        seen["fallback"] += config.fallback is not None
        path, value = dice.choice(
            [
                (("gateway", "port"), 1),
                (("agents", "list", 1, "memorySearch", "k"), {"deep": [1]}),
                (("agents", "entries", "work", "model"), "n/m"),
                (("session", "reset", "idleMinutes"), 9),
                (("include", "deep", "a"), 2),
                (("brand", "new", "key"), "é"),
            ]
        )
        part = (home.folder / "part.json5").read_bytes()
        wish = Operation(dice.choice(("set", "set", "set", "unset", "patch")), path, value)
        try:
            changes = change(config, home.env, [wish])
        except HomarusError:
            assert home.file.read_bytes() == data
            assert (home.folder / "part.json5").read_bytes() == part
            seen["refused"] += 1
            continue
        for done in changes:
            assert done.path.read_bytes() == done.after
            assert done.path.with_name(done.path.name + ".bak").read_bytes() == done.before
            parse(done.after.decode("utf-8", "replace"))
        home.write(part, "part.json5")
        seen["edited"] += 1
    return seen


def test_mutated_configurations(home) -> None:
    seen = survive(home, 300, seed=1)
    assert min(seen.values()) > 20, seen


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
def test_mutated_configurations_deep(home, seed: int) -> None:
    assert sum(survive(home, 1000, seed=seed + 100).values()) >= 1000


def test_mutated_configurations_through_the_command_line(home, capsys, monkeypatch) -> None:
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    dice = random.Random(7)
    for _ in range(40):
        home.write(mutated(SEED.encode(), dice))
        for args in (["validate"], ["get"], ["set", "a.b", "1"], ["file", "--json"]):
            assert run(["config", *args]) in (0, 1, 78)
        assert home.file.exists()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        assert "unexpected failure" not in captured.err
