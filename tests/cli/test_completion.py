"""Completion in the shells themselves: the script is loaded and asked, as a person's Tab key would."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from homarus.cli import complete
from homarus.cli.shells import Typed, typed, written
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock
from homarus.models.access import Models

# What each shell is told to do.
BASH = """
eval "$(homarus completion bash)"
ask() { COMP_WORDS=("$@"); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; _homarus_completion homarus "${!#}"; echo "${COMPREPLY[*]}"; }
ask homarus se; ask homarus config ""; ask homarus completion z; ask homarus --pro; ask homarus sessions show --js
"""
FISH = """
homarus completion fish | source
for words in "homarus se" "homarus config " "homarus completion z" "homarus --pro" "homarus sessions show --js"
    echo (complete -C $words | string replace -r "\t.*" "")
end
complete -C "homarus sess"
"""
EXPECTED = [
    {"setup", "sessions", "security"},
    {"edit", "file", "get", "patch", "schema", "set", "unset", "validate"},
    {"zsh"},
    {"--profile"},
    {"--json"},
]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    script = tmp_path / "bin" / "homarus"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom homarus.__main__ import main\nsys.exit(main())\n")
    script.chmod(0o755)
    modules = os.pathsep.join(part for part in sys.path if part)
    return {"HOME": str(tmp_path), "PATH": f"{script.parent}:{os.environ['PATH']}", "PYTHONPATH": modules}


def output(line: list[str], env: dict[str, str]) -> list[str]:
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@needs("bash")
def test_bash(env: dict[str, str]):
    assert [set(line.split()) for line in output(["bash", "--norc", "-c", BASH], env)] == EXPECTED


@needs("fish")
def test_fish(env: dict[str, str]):
    *answers, described = output(["fish", "--no-config", "-c", FISH], env)
    assert [set(line.split()) for line in answers] == EXPECTED
    assert described == "sessions\tlist, read, search and look after conversations"


@needs("zsh")
def test_zsh_loads_it_with_and_without_its_own_completion(env: dict[str, str]):
    check = "[[ ${_comps[homarus]} == _homarus_completion ]] || exit 3"
    for before in ("", "autoload -Uz compinit; compinit -u;"):
        output(["zsh", "-f", "-c", f'{before} eval "$(homarus completion zsh)"; {check}'], env)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(shell: str, env: dict[str, str]):
    text = "\n".join(output(["homarus", "completion", shell], env))
    assert "_HOMARUS_COMPLETE" in text


def test_zsh_is_answered(env: dict[str, str]):
    asked = {"_HOMARUS_COMPLETE": "zsh_complete", "COMP_WORDS": "homarus se", "COMP_CWORD": "1"}
    assert output(["homarus"], env | asked) == [
        *("plain", "setup", "create what is missing: folder, configuration, workspace"),
        *("plain", "sessions", "list, read, search and look after conversations"),
        *("plain", "security", "what in this home is open to others, and how to close it"),
    ]


def test_names_are_offered_without_importing_the_commands(env: dict[str, str]):
    code = "import sys; from homarus.cli.main import run; run([]); print(*sys.modules, file=sys.stderr)"
    asked = {"_HOMARUS_COMPLETE": "bash_complete", "COMP_WORDS": "homarus ", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env | asked, capture_output=True, text=True, check=True)
    assert "plain,doctor" in done.stdout
    assert not {"homarus.cli.home", "homarus.cli.sessions", "msgspec"} & set(done.stderr.split())


@pytest.fixture
def lived_in(env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    state = tmp_path / ".openclaw"
    folder = state / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    (state / "openclaw.json").write_text('{ agents: { list: [ { id: "main" }, { id: "work" } ] } }')
    ident = "4f0c2a91-0000-4000-8000-000000000001"
    rows = {
        "agent:main:main": {"sessionId": "aaaaaaaa-0000-4000-8000-000000000001", "updatedAt": 3},
        "agent:main:explicit:garden": {"sessionId": "garden", "updatedAt": 2, "label": "the garden"},
        "agent:main:telegram:direct:42": {"sessionId": ident, "updatedAt": 1},
    }
    (folder / "sessions.json").write_text(json.dumps(rows))
    away = {"type": "session_info", "id": "b", "parentId": None, "timestamp": "", "key": "agent:main:trip"}
    (folder / "5e0c2a91-0000-4000-8000-000000000001.jsonl.deleted.2026-05-01T09-00-00.000Z").write_text(
        json.dumps(away)
    )
    return env


# What is typed, and what is offered: all of it, or what must be among it.
LIVE = [
    ("sessions show ", {"main", "garden", "4f0c2a91", "5e0c2a91"}),
    ("sessions show th", {"the garden"}),
    ("sessions show THE", {"the garden"}),
    ("sessions show 4f0c", {"4f0c2a91"}),
    ("sessions show 4f0c2a91-0", {"4f0c2a91-0000-4000-8000-000000000001"}),
    (
        "sessions show ag",
        {"agent:main:main", "agent:main:explicit:garden", "agent:main:telegram:direct:42"},
    ),
    ("agent --session=th", {"the garden"}),
    ("agent --thinking hi", {"high"}),
    ("configure keys --provider anth", {"anthropic"}),
    ("cron add --thinking=m", {"minimal", "medium", "max"}),
    ("sessions resume 5e", {"5e0c2a91"}),
    ("sessions resume tr", {"trip"}),
    ("agent --session th", {"the garden"}),
    ("agent --session ", {"main", "garden", "4f0c2a91"}),
    ("agent --session g", {"garden"}),
    ("chat --session agent:main:ex", {"agent:main:explicit:garden"}),
    ("agents bind w", {"work"}),
    ("agent --agent ", {"main", "work"}),
    ("models set builtin/", {"builtin/notebook"}),
    ("agent --model openai/gpt-5.5", {"openai/gpt-5.5"}),
    ("config get agents.defaults.compaction.reserveTokensF", {"agents.defaults.compaction.reserveTokensFloor"}),
    ("config set agents.defaults.memoryS", {"agents.defaults.memorySearch", "agents.defaults.memorySearch.provider"}),
]


def asked(line: str, env: dict[str, str]) -> set[str]:
    words = f"homarus {line}"
    count = len(words.split(" ")) - 1
    question = {"_HOMARUS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    return {answer.partition(",")[2] for answer in output(["homarus"], env | question)}


@pytest.mark.parametrize(("line", "offered"), LIVE)
def test_what_lives_in_this_home_is_offered(line: str, offered: set[str], lived_in: dict[str, str]):
    found = asked(line, lived_in)
    assert offered <= found and (line.startswith("config") or found == offered)


class Served(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"data": [{"id": "small", "max_model_len": 4096}]}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_models_of_this_machine_are_offered(lived_in: dict[str, str], tmp_path: Path):
    path = tmp_path / ".openclaw" / "openclaw.json"
    path.write_text(
        """{ agents: { defaults: { model: "vllm/mine" } }, models: { providers: { vllm: { baseUrl: "http://127.0.0.1:9/v1" } } } }"""
    )
    assert asked("models set vl", lived_in) == {"vllm/mine"}, "what is set now, also while its server is down"
    with ThreadingHTTPServer(("127.0.0.1", 0), Served) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path.write_text(path.read_text().replace(":9/", f":{server.server_port}/"))
        models = Models(load_config(resolve_paths(lived_in), lived_in), lived_in, clock=SystemClock())
        models.server_seconds = 60.0
        offered = [name for name, _ in complete._served(models)]
        server.shutdown()
    assert "vllm/small" in offered


def test_a_home_that_is_broken_offers_nothing_and_says_nothing(lived_in: dict[str, str], tmp_path: Path):
    (tmp_path / ".openclaw" / "openclaw.json").write_text("{ broken")
    (tmp_path / ".openclaw" / "agents" / "main" / "sessions" / "sessions.json").write_text("[[[")
    assert asked("agent --session ", lived_in) <= {"", "main"}
    assert asked("sessions show ", lived_in) <= {"", "main", "5e0c2a91"}, "an archive needs no index"
    before = sorted(tmp_path.rglob("*"))
    asked("config get ", lived_in)
    assert sorted(tmp_path.rglob("*")) == before


BASH_LIVE = """
eval "$(homarus completion bash)"
COMP_WORDS=(homarus sessions show g); COMP_LINE="homarus sessions show g"; COMP_POINT=${#COMP_LINE}; _homarus_completion homarus g; echo "${COMPREPLY[*]}"
"""
FISH_LIVE = """
homarus completion fish | source
complete -C "homarus sessions show g" | string replace -r "\\t.*" ""
"""


@pytest.mark.parametrize(
    ("shell", "script"),
    [("bash", BASH_LIVE), ("fish", FISH_LIVE)],
)
def test_the_shells_themselves_offer_a_session(shell: str, script: str, lived_in: dict[str, str]):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    flag = "--norc" if shell == "bash" else "--no-config"
    assert output([shell, flag, "-c", script], lived_in) == ["garden"]


@pytest.mark.parametrize(
    ("line", "breaks", "expected"),
    [
        ("homarus a b", " :=", Typed(["homarus", "a", "b"])),
        ("homarus a ", " :=", Typed(["homarus", "a", ""])),
        ("homarus '' x", " :=", Typed(["homarus", "", "x"])),
        (r"homarus my\ kit", " :=", Typed(["homarus", "my kit"])),
        ("homarus agent:main:k", " :=", Typed(["homarus", "agent:main:k"], "", "agent:main:")),
        (r"homarus agent\:main", " :=", Typed(["homarus", "agent:main"])),
        ("homarus 'a:b c", " :=", Typed(["homarus", "a:b c"], "'")),
        ('homarus --x="a:b \\$c \\d', " :=", Typed(["homarus", "--x=a:b $c \\d"], '"', "--x=")),
        ("homarus --x='a:b'", " :=", Typed(["homarus", "--x=a:b"], "", "--x=")),
        ("homarus a:b", " ", Typed(["homarus", "a:b"])),
    ],
)
def test_a_line_of_bash_is_read_as_bash_reads_it(line: str, breaks: str, expected: Typed):
    assert typed(line, breaks) == expected


@pytest.mark.parametrize("quote", ["", "'", '"'])
@pytest.mark.parametrize("name", ["my kitchen: big", "Tom's $5 `shed` & co", '~a\\b "c" *', "Küche;x"])
def test_what_is_written_for_bash_is_read_back_as_it_was(name: str, quote: str):
    assert typed(f"homarus {quote}{written(name, quote)}{quote}", " ").words == ["homarus", name]


# What a shell at a terminal is told first: its completion, and a key that shows the line as it stands.
AT_A_TERMINAL = {
    "bash": """eval "$(homarus completion bash)"; bind -x '"\\C-xd": printf "\\n{{%s}}\\n" "$READLINE_LINE"'""",
    "zsh": """eval "$(homarus completion zsh)"; dump() { print -r -- $'\\n'"{{$BUFFER}}" }; zle -N dump; bindkey '^Xd' dump""",
}
START = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
# What stands in the line before Tab, and behind it.
TABS = [
    ("homarus sessions show th", r"homarus sessions show the\ garden:\ big "),
    ("homarus sessions show 'th", "homarus sessions show 'the garden: big' "),
    ('homarus sessions show "the g', 'homarus sessions show "the garden: big" '),
    ("homarus sessions show agent:main:tel", "homarus sessions show agent:main:telegram:direct:42 "),
    ("homarus sessions show 4f0c", "homarus sessions show 4f0c2a91 "),
    (r"homarus chat --session the\ garden:", r"homarus chat --session the\ garden:\ big "),
    ("homarus agent --session=gar", "homarus agent --session=garden "),
    (r"homarus agent --session=the\ garden:", r"homarus agent --session=the\ garden:\ big "),
    ("homarus agent --model=builtin/n", "homarus agent --model=builtin/notebook "),
    ("homarus agent --thinking hi", "homarus agent --thinking high "),
    ("homarus --config=.openc", "homarus --config=.openclaw/"),
    ("cd /; homarus sessi", "cd /; homarus sessions "),
    ("~/bin/homarus sessi", "~/bin/homarus sessions "),
]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_at_a_terminal(shell: str, lived_in: dict[str, str], tmp_path: Path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    index = tmp_path / ".openclaw" / "agents" / "main" / "sessions" / "sessions.json"
    index.write_text(index.read_text().replace("the garden", "the garden: big"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    env = lived_in | {"TERM": "xterm", "LANG": "C.UTF-8"}
    with subprocess.Popen(
        START[shell], env=env, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        os.write(ours, f"{AT_A_TERMINAL[shell]}; echo rea''dy\n".encode())
        seen(ours, "ready\r?\n")
        found = []
        for before, _ in TABS:
            os.write(ours, f"\x15{before}\t\x18d".encode())
            found.append((before, seen(ours, r"\{\{(.*)\}\}\r?\n")))
        process.kill()
    os.close(ours)
    assert found == TABS


def seen(terminal: int, pattern: str) -> str:
    """Read what a terminal shows until a pattern comes; return what its group holds."""
    text = b""
    while not (match := re.search(pattern, text.decode("utf-8", "replace"))):
        assert select.select([terminal], [], [], 60)[0], text
        text += os.read(terminal, 65536)
    return match[match.lastindex or 0]


@needs("fish")
def test_fish_is_given_whole_words(lived_in: dict[str, str]):
    lines = ["agent --session=th", "sessions show 'the g", "agent --thinking hi", "sessions show agent:main:tel"]
    script = "homarus completion fish | source\n" + "\n".join(f'complete -C "homarus {line}"' for line in lines)
    found = [each.split("\t")[0] for each in output(["fish", "--no-config", "-c", script], lived_in)]
    assert found == ["--session=the garden", "the garden", "high", "agent:main:telegram:direct:42"]


@needs("bash")
def test_a_program_that_fails_leaves_the_line_alone(env: dict[str, str], tmp_path: Path):
    broken = tmp_path / "other" / "homarus"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    broken.chmod(0o755)
    script = BASH_LIVE.replace("_homarus_completion homarus", f"_homarus_completion {broken}")
    assert output(["bash", "--norc", "-c", script], env) == [""]
