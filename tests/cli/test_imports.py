"""What each command imports when it is really at work, and that a new command cannot slip past this list."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from tests.cli.tree import WITHOUT_JSON, every_command

from homarus.cli.main import cli
from homarus.cli.table import COMMANDS

# The parser, records, JSON5 and YAML. Everything else that is installed must be asked for by a row below.
LIGHT = {"click", "msgspec", "pyjson5", "yaml"}
# Not ours: msgspec takes it where it is there, the others come with an environment's start.
AMBIENT = {"typing_extensions", "_distutils_hack", "_virtualenv", "pkg_resources", "coverage", "pytest_cov"}
# Recall by meaning: what `auto` takes when the extra is installed, as it is for development.
VECTORS = frozenset({"numpy", "tokenizers", "wordllama", "onnxruntime", "safetensors"})
# The server, what its HTTP stands on, two that starlette and uvicorn take where they are there, and the HTTP client, which
# the gateway loads before anybody waits for it and which takes HTTP/2 along where that is installed.
SERVER = frozenset(
    {"starlette", "uvicorn", "websockets", "anyio", "h11", "idna", "sniffio", "python_multipart", "watchfiles"}
) | {"httpcore2", "socksio", "truststore", "h2", "hpack", "hyperframe"}
# The library that speaks to MCP servers, and what it brings along.
MCP = frozenset(
    {
        "_cffi_backend", "annotated_types", "anyio", "backports", "cryptography", "httpx2", "idna", "mcp", "mcp_types",
        "opentelemetry", "pydantic", "pydantic_core", "python_multipart", "sniffio", "sse_starlette", "starlette",
        "typing_inspection", "uvicorn", "watchfiles",
    }
)  # fmt: skip


class Row(NamedTuple):
    """One command line at work, and what it may import beyond LIGHT because it uses it."""

    line: str
    uses: frozenset[str] = frozenset()
    code: int = 0
    text: str = ""


# In this order, in one home: what a row makes, a later one reads.
ROWS = [
    Row("setup --non-interactive"),
    Row("onboard --non-interactive"),
    Row("configure --non-interactive"),
    Row("agent -m 'Remember that the gate code is 4711.'"),
    Row("agent -m 'What is the gate code?'", VECTORS),
    Row("chat --plain", text="status\n"),
    Row("demo", VECTORS | SERVER),
    Row("dashboard --no-open", SERVER, code=1),
    Row("config file"),
    Row("config get"),
    Row("config set session.reset.mode daily"),
    Row("config patch", text="{ session: { reset: { atHour: 5 } } }"),
    Row("config unset session.reset"),
    Row("config validate"),
    Row("config schema"),
    Row("config edit"),
    Row("agents add work"),
    Row("agents bind work telegram"),
    Row("agents set-identity work --name Ada"),
    Row("agents list"),
    Row("agents unbind work telegram"),
    Row("agents delete work --yes"),
    Row("hooks list"),
    Row("hooks check"),
    Row("hooks info session-memory"),
    Row("hooks enable session-memory"),
    Row("hooks disable session-memory"),
    Row("mcp add small false"),
    Row("mcp list"),
    Row("mcp show small"),
    Row("mcp probe small", MCP, code=1),
    Row("mcp logout small"),
    Row("mcp login small", code=78),
    Row("mcp remove small"),
    Row("mcp serve", MCP | {"rich"}),
    Row("acp", code=1),
    Row("models list"),
    Row("models status"),
    Row("models set builtin/notebook"),
    Row("models test"),
    Row("models aliases add n builtin/notebook"),
    Row("models aliases list"),
    Row("models aliases remove n"),
    Row("models pull no-such-model", code=1),
    Row("plugins new dice"),
    Row("plugins install dice"),
    Row("plugins list"),
    Row("plugins info dice"),
    Row("plugins enable dice"),
    Row("plugins doctor"),
    Row("plugins disable dice"),
    Row("plugins remove dice"),
    Row("gateway status", code=1),
    Row("gateway stop", code=1),
    Row("gateway restart", code=1),
    Row("gateway call health", code=1),
    Row("gateway uninstall"),  # before there is a service: nothing is asked of the machine's supervisor
    Row("gateway install --no-start"),
    Row("health", code=1),
    Row("logs"),
    Row("status"),
    Row("doctor"),
    Row("backup create b.tar.gz"),
    Row("backup verify b.tar.gz"),
    Row("backup restore b.tar.gz", code=1),
    Row("security audit"),
    Row("prompt"),
    Row("context list"),
    Row("context detail"),
    Row("context map"),
    Row("sessions list"),
    Row("sessions show"),
    Row("sessions check"),
    Row("sessions cleanup --dry-run"),
    Row("sessions export"),
    Row("sessions fork main other"),
    Row("sessions rename other second"),
    Row("sessions resume second"),
    Row("sessions delete second"),
    Row("sessions import"),
    Row("sessions repair main"),
    Row("sessions search gate"),
    Row("sessions tail"),
    Row("sessions usage"),
    Row("memory search gate --provider none"),
    Row("memory search gate", VECTORS),
    Row("memory recall gate --provider none"),
    Row("memory recall gate", VECTORS),
    Row("memory index", VECTORS),
    Row("memory rebuild", VECTORS),
    Row("memory reflect", VECTORS),
    # It says which vectors are in use, and they are in use only if they load.
    Row("memory retain 'W: The gate code is 4711.'", VECTORS),
    Row("memory dream", VECTORS),
    Row("memory timeline --entity gate", VECTORS, code=1),
    Row("memory graph --to graph.html", VECTORS),
    Row("memory promote", VECTORS),
    Row("memory forget ^nothing", VECTORS, code=1),
    Row("memory undo", VECTORS),
    Row("memory status", VECTORS),
    Row("memory doctor", VECTORS),
    Row("memory explain gate USER.md#L1", VECTORS),
    Row("memory bench --limit 1", VECTORS),
    Row("memory get USER.md"),
    Row("memory export-minilm --to minilm", code=1),
    Row("approvals list"),
    Row("approvals show a1", code=1),
    Row("approvals allow a1", code=1),
    Row("approvals deny a1", code=1),
    Row("approvals revoke a1", code=1),
    Row("channels list"),
    Row("channels status", code=1),
    Row("channels add telegram --token $T"),
    Row("channels explain telegram --from 1", code=1),
    Row("channels login irc", code=78),
    Row("channels logout irc"),
    Row("channels remove telegram --delete"),
    Row("pairing list"),
    Row("pairing approve telegram X", code=1),
    Row("pairing reject telegram X", code=1),
    Row("pairing revoke telegram X", code=1),
    Row("message send -t irc:#a -m hi --dry-run"),
    Row("message react -t irc:#a --message-id 1 --emoji x", code=78),
    Row("message edit -t irc:#a --message-id 1 -m x", code=78),
    Row("message delete -t irc:#a --message-id 1", code=78),
    Row("message poll -t irc:#a --question q --option a --option b", code=78),
    Row("directory irc", code=78),
    Row("devices list"),
    Row("devices approve", code=1),
    Row("devices reject r1", code=1),
    Row("devices remove d1", code=1),
    Row("devices rename d1 phone", code=1),
    Row("devices revoke d1", code=1),
    Row("nodes list"),
    *(
        Row(f"nodes {line}", code=1)
        for line in ("describe n", "approve", "reject r", "remove n", "rename n x", "invoke n x")
    ),
    *(
        Row(f"fleet {line}", code=78)  # without a database: what speaks to one is tested where there is one
        for line in (
            "init",
            "status",
            "workers",
            "homes",
            "add h",
            "invite h",
            "import h .",
            "export h out",
            "remove h",
            "quota h",
            "move h w",
            "drain w",
            "doctor",
            "worker",
            "edge",
        )
    ),
    Row("gateway run --bind custom", SERVER, code=78),  # no address: it stops where it would begin to listen
    Row("sandbox explain"),
    Row("sandbox probe"),
    Row("skills list"),
    Row("skills info memory-curator"),
    Row("skills check"),
    Row("skills install .openclaw/workspace/made-skill"),
    Row("skills audit"),
    Row("skills approve made-skill"),
    Row("skills update made-skill"),
    Row("skills remove made-skill"),
    Row("cron add 'look at the gate' --every 2h --name gate"),
    Row("cron list"),
    Row("cron edit gate --every 3h"),
    Row("cron disable gate"),
    Row("cron enable gate"),
    Row("cron run gate", VECTORS),
    Row("cron runs gate"),
    Row("cron status"),
    Row("cron rm gate"),
    Row("system event 'the gate is open'"),
    Row("system heartbeat last"),
    Row("system heartbeat disable"),
    Row("system heartbeat enable"),
    Row("system presence"),
    Row("completion bash"),
]


def words(line: str) -> list[str]:
    """Return a line's words; quotes keep words together."""
    return [quoted or plain for quoted, plain in re.findall(r"'([^']*)'|(\S+)", line)]


def at_work(rows: list[Row], home: Path) -> list[dict[str, object]]:
    """Run the rows in this home, without a key, a proxy or a name from outside."""
    home.mkdir()
    made = home / ".openclaw/workspace/made-skill"
    made.mkdir(parents=True)
    (made / "SKILL.md").write_text("---\nname: made-skill\ndescription: Made for a test.\n---\nDo nothing.\n")
    table = home / "rows.json"
    table.write_text(json.dumps([[words(row.line), row.text] for row in rows]))
    env = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG", "TMPDIR") if name in os.environ}
    env |= {"HOME": str(home), "EDITOR": "true", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    driver = Path(__file__).with_name("import_driver.py")
    done = subprocess.run(
        [sys.executable, str(driver), str(table)], env=env, cwd=home, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def called(line: str) -> tuple[str, ...]:
    """Return the words of a line that name its command."""
    group: click.Command | None = cli
    path: tuple[str, ...] = ()
    for word in words(line):
        group = group.get_command(click.Context(group), word) if isinstance(group, click.Group) else None
        if group is None:
            break
        path = (*path, word)
    return path


def test_every_command_has_a_row():
    there = {called(row.line) for row in ROWS}
    assert [" ".join(path) for path, _ in every_command() if path not in there] == [], (
        "say in ROWS how these are called"
    )


# Two homes, so that two workers share the work: what is said first is what both need.
FIRST = [row for row in ROWS if row.line.startswith(("setup", "agent -m"))]
NOTES = [row for row in ROWS if row.line.startswith("memory")]


@pytest.mark.parametrize(
    "rows", [[*FIRST, *NOTES], [row for row in ROWS if row not in NOTES]], ids=["notes", "all else"]
)
def test_no_command_at_work_imports_what_it_does_not_use(rows: list[Row], tmp_path: Path):
    wrong = []
    for row, result in zip(rows, at_work(rows, tmp_path / "home"), strict=True):
        if result["code"] != row.code:
            wrong.append(f"{row.line}: ended with {result['code']}, not {row.code}: {result['out']}")
        extra = set(result["modules"]) - LIGHT - AMBIENT - row.uses
        if extra:
            wrong.append(f"{row.line}: imports {', '.join(sorted(extra))}")
    assert wrong == []


def test_json_is_json_and_nothing_else(tmp_path: Path):
    talk = [Row("setup --json"), Row("agent -m 'Remember that the gate code is 4711.' --json")]
    rows = [Row(f"{row.line} --json", text=row.text) for row in ROWS if not row.uses and not row.code]
    rows = [*talk, *(row for row in rows if called(row.line) not in WITHOUT_JSON and called(row.line) != ("agent",))]
    wrong = []
    for row, result in zip(rows, at_work(rows, tmp_path / "home"), strict=True):
        lines = str(result["out"]).splitlines() if called(row.line) == ("sessions", "tail") else [result["out"]]
        try:
            assert [json.loads(str(line)) for line in lines]
        except (ValueError, AssertionError):
            wrong.append(f"{row.line}: ended with {result['code']} and printed {result['out']}")
    assert wrong == []


def test_the_rows_would_notice(tmp_path: Path):
    (result,) = at_work([Row("memory search gate")], tmp_path / "home")
    assert "click" in result["modules"]
    pytest.importorskip("wordllama")
    assert "numpy" in result["modules"], "a search by meaning uses vectors, and the list shows it"


def test_help_of_a_command_imports_no_library_at_all(tmp_path: Path):
    rows = [Row(f"{name} --help") for name in COMMANDS]
    results = at_work(rows, tmp_path / "home")
    assert {row.line: result["modules"] for row, result in zip(rows, results, strict=True)} == {
        row.line: [name for name in result["modules"] if name in {"click", "msgspec"} | AMBIENT]
        for row, result in zip(rows, results, strict=True)
    }
