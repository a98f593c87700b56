"""The command line's door: what it prints, what it imports, and how it fails."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from tests.cli.tree import WITHOUT_JSON, every_command

from homarus import __version__
from homarus.cli.group import Group
from homarus.cli.main import cli, run
from homarus.cli.output import Output, width
from homarus.cli.table import COMMANDS, OPTIONS, page


def test_version_imports_almost_nothing() -> None:
    code = "import sys; sys.argv = ['homarus', '--version']; from homarus.__main__ import main; main(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    version, modules = done.stdout.splitlines()
    assert version == f"homarus {__version__}"
    assert not {"click", "msgspec", "json", "re", "typing"} & set(modules.split())


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from homarus.cli.main import run; run(['--help']); "
        "print('MODULES', *[m for m in sys.modules if m.startswith('homarus')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split("MODULES", 1)[1].split())
    assert loaded <= {
        "homarus",
        "homarus.cli",
        "homarus.cli.main",
        "homarus.cli.app",
        "homarus.cli.failures",
        "homarus.cli.group",
        "homarus.cli.output",
        "homarus.cli.table",
        "homarus.core",
        "homarus.core.patterns",
        "homarus.core.text",
    }


def test_help_is_the_same_page_with_and_without_the_parser(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert capsys.readouterr().out.strip() == page().strip()
    options = {name for param in cli.params for name in param.opts if name.startswith("--")}
    assert all(any(name in line for line in OPTIONS) for name in options)


def test_help_by_the_door_imports_no_parser() -> None:
    code = (
        "import sys; sys.argv = ['homarus', '--help']; from homarus.__main__ import main; main(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"click", "msgspec", "json", "re", "typing"} & set(done.stdout.splitlines()[-1].split())


def test_the_log_level_is_obeyed(tmp_path: Path) -> None:
    code = (
        "import sys, logging; from homarus.cli.main import run; run(sys.argv[1:]); logging.getLogger('x').info('seen')"
    )
    for level, seen in (("info", True), ("error", False)):
        line = [sys.executable, "-c", code, "--log-level", level, "config", "file"]
        done = subprocess.run(
            line, capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(tmp_path)}
        )
        assert ("seen" in done.stderr) is seen


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_that_loads(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert "Usage: homarus" in capsys.readouterr().out


def test_every_command_and_every_option_says_what_it_is_for() -> None:
    options = [
        (path, each) for path, command in every_command() for each in command.params if isinstance(each, click.Option)
    ]
    assert [path for path, command in every_command() if not command.help] == []
    assert [(path, each.opts) for path, each in options if not each.help and not each.hidden] == []


def test_every_command_that_prints_data_takes_json() -> None:
    without = {path for path, command in every_command() if not any("--json" in param.opts for param in command.params)}
    assert without == WITHOUT_JSON


def test_the_bare_name_of_a_group_is_its_most_useful_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, entry in COMMANDS.items():
        group = cli.get_command(click.Context(cli), name)
        if not isinstance(group, click.Group):
            continue
        assert isinstance(group, Group), f"{entry.module}: use homarus.cli.group.Group"
        assert run([name]) == 0
        alone = capsys.readouterr().out
        assert run([name, group.default or "--help"]) == 0
        assert alone.splitlines()[0] == capsys.readouterr().out.splitlines()[0]
        if group.default:
            assert run([name, "--json"]) == 0
            json.loads(capsys.readouterr().out)


def test_a_wrong_command_of_a_group_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    for line, hint in ((["sessions", "lst"], "Did you mean 'homarus sessions list'?"), (["config", "q"], "There are:")):
        assert run(line) == 2
        err = capsys.readouterr().err
        assert hint in err
        assert err.count("\n") == 1


def test_a_wrong_command_is_a_usage_error_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["no-such-command"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("homarus: no command 'no-such-command'")
    assert err.count("\n") == 1


def test_a_wrong_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--no-such-option"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_tables_align_numbers_right_and_wide_characters_by_cells(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(color=False, env={})
    out.table([["a", 5, True], ["記憶", 12_345, None]], ["name", "size", "on"])
    assert capsys.readouterr().out == "name    size  on\na          5  yes\n記憶  12,345  -\n"
    assert width("\x1b[31mred\x1b[0m") == 3


@pytest.mark.parametrize("columns", [40, 60, 200])
def test_a_table_fits_a_terminal_and_a_pipe_gets_all_of_it(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = [("agent:main:explicit:" + "a" * 40, "fb4fc7fb", "日本語" * 9, 1_234_567), ("main", "12345678", None, 5)]

    class Stream(io.StringIO):
        def __init__(self, terminal: bool) -> None:
            super().__init__()
            self._terminal = terminal

        def isatty(self) -> bool:
            return self._terminal

    shown, piped = Stream(True), Stream(False)
    for stream in (shown, piped):
        Output(out=stream, err=stream, color=False, env={}).table(rows, ("session", "id", "label", "tokens"))
    lines = shown.getvalue().splitlines()
    assert max(map(width, lines)) <= max(columns, 16 + 8 + 16 + 9 + 6), "no narrower than can be recognised"
    assert all("fb4fc7fb" in text and "1,234,567" in text for text in (lines[1], piped.getvalue()))
    assert (len(lines) > 3) == (columns < 200)
    for text in (shown.getvalue(), piped.getvalue()):
        assert (text.count("日"), text.count("a" * 10) >= 1) == (9, True), "nothing is lost"
    assert "a" * 40 in piped.getvalue() and "日本語" * 9 in piped.getvalue()


def test_json_output_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    Output(color=False, env={}).json({"a": ["ü", 1]})
    assert json.loads(capsys.readouterr().out) == {"a": ["ü", 1]}


def test_json_has_no_infinities(capsys: pytest.CaptureFixture[str]) -> None:
    Output(color=False, env={}).json({"a": [float("inf"), {"b": float("nan")}, 1.5]})
    assert json.loads(capsys.readouterr().out) == {"a": [None, {"b": None}, 1.5]}


def test_colours_need_a_terminal_and_consent(capsys: pytest.CaptureFixture[str]) -> None:
    assert Output(color=True, env={}).style("x", "red") == "x"
    assert Output(color=True, env={"FORCE_COLOR": "1"}).style("x", "red") == "\x1b[31mx\x1b[0m"
    assert Output(color=True, env={"FORCE_COLOR": "1", "NO_COLOR": ""}).style("x", "red") == "x"
    assert Output(color=False, env={"FORCE_COLOR": "1"}).style("x", "red") == "x"


def test_the_program_is_named_as_it_can_be_called_here(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    script = tmp_path / ".venv" / "bin" / "homarus"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nfrom homarus.cli.main import run\nsys.exit(run(sys.argv[1:]))\n"
    )
    script.chmod(0o755)
    env = {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}

    def shown(path: str, cwd: Path) -> str:
        line = [str(script)]
        return subprocess.run(
            line, env={**env, "PATH": path}, cwd=cwd, capture_output=True, text=True, check=True
        ).stdout

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "  .venv/bin/homarus onboard" in shown("/usr/bin", tmp_path)
    assert f"  {script} onboard" in shown("/usr/bin", elsewhere)
    assert "  homarus onboard" in shown(str(script.parent), tmp_path)


def test_what_waits_for_the_end_of_the_process_still_runs() -> None:
    code = (
        "import atexit, sys; sys.argv = ['homarus', 'nonsense']; atexit.register(lambda: print('last words'));"
        " from homarus.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "last words\n")
    assert "nonsense" in done.stderr


def test_a_thread_that_still_works_is_waited_for() -> None:
    code = (
        "import sys, threading, time; sys.argv = ['homarus', 'nonsense'];"
        " threading.Thread(target=lambda: (time.sleep(0.3), print('done'))).start();"
        " from homarus.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "done\n")


REFUSED = [
    (1, "sessions", "delete", "main"),
    (1, "sessions", "show", "agent::x"),
    (1, "sessions", "list", "--agent", "nobody"),
    (1, "sessions", "usage", "--agent", "nobody"),
    (1, "sessions", "search", "lamp", "--agent", "nobody"),
    (2, "agents", "add", ""),
    (1, "agents", "add", "main"),
    (1, "agents", "delete", "main", "--yes"),
    (1, "agents", "unbind", "main", "telegram"),
    (1, "models", "pull", "nope"),
    (1, "models", "set", "nope/x"),
    (1, "mcp", "probe", "nope"),
    (1, "memory", "explain", "cat", "nofile#L1"),
    (1, "--profile", "a b", "status"),
    (2, "agents", "bind", "main", ""),
    (2, "mcp", "add", "", "--", "true"),
    (2, "sessions", "search", " "),
    (2, "sessions", "show", "main", "--last", "-3"),
    (2, "sessions", "tail", "main", "-n", "-1"),
    (2, "sessions", "usage", "--days", "-1"),
    (2, "memory", "search", ""),
    (2, "memory", "recall", " "),
    (2, "memory", "retain", ""),
    (2, "memory", "search", "cat", "--min-score", "-1"),
    (2, "system", "event", ""),
    (2, "agent", "hi", "--timeout", "-1"),
    (2, "models", "test", "--timeout", "0"),
]


@pytest.mark.parametrize("line", REFUSED, ids=lambda line: " ".join(line[1:]))
def test_what_cannot_be_is_refused_as_what_the_caller_must_mend(
    line: tuple[Any, ...], own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, *words = line
    assert run(words) == code
    said = capsys.readouterr()
    assert said.err.startswith("homarus: ") and said.err.count("\n") == 1 and said.out == ""


def test_every_option_that_takes_a_number_says_from_where_on() -> None:
    numbers = {
        f"{' '.join(path)} {param.opts[0]}": param.type
        for path, command in every_command()
        for param in command.params
        if isinstance(param.type, click.types.IntParamType | click.types.FloatParamType)
    }
    open_ended = [name for name, kind in numbers.items() if getattr(kind, "min", None) is None]
    assert len(numbers) > 10 and open_ended == []
