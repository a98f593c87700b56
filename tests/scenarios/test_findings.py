"""What new people tried and stumbled over, one test each, through the program as they have it: none of it comes back."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.screen import terminal
from tests.cli.test_chat_terminal import CTRL_C, CTRL_D, CTRL_L, CTRL_R, ESCAPE, PNG, STATUS, echo, hanging, home, typed
from tests.scenarios.talker import Say, make_home

import homarus
from homarus import Agent, ScriptedModel

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ("--model", "builtin/notebook")


def run(folder: Path, *words: str, given: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    everything = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), **env}
    said: dict[str, Any] = {"input": given} if given is not None else {"stdin": subprocess.DEVNULL}
    line = [sys.executable, "-m", "homarus", *words]
    return subprocess.run(line, env=everything, capture_output=True, text=True, check=False, **said)


def configure(folder: Path, text: str) -> Path:
    path = folder / ".openclaw" / "openclaw.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def notes(folder: Path) -> str:
    return "".join(path.read_text() for path in (folder / ".openclaw/workspace/memory").glob("*.md"))


def test_01_a_bracket_deleted_from_the_configuration_gives_back_no_tool(tmp_path: Path) -> None:
    path = configure(tmp_path, '{ tools: { deny: ["exec"] }, agents: { defaults: { workspace: "~/mine" } } }')
    assert run(tmp_path, "agent", "hello", *NOTEBOOK).returncode == 0
    path.write_text(path.read_text().replace("]", ""))
    shown = run(tmp_path, "prompt")
    assert "last good" in shown.stderr and "- read:" in shown.stdout and "- exec:" not in shown.stdout
    assert not (tmp_path / ".openclaw/workspace").exists(), "no second workspace in the default place"
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    configure(fresh, '{ tools: { deny: ["exec" } }')
    assert run(fresh, "agent", "hello", *NOTEBOOK).returncode == 78


def test_02_a_sentence_with_a_date_is_one_note(tmp_path: Path) -> None:
    for text in ("Jonas wurde geboren am 2. Mai 2015 in Graz.", "We fly on Dec. 3. from Vienna."):
        assert "Not" in run(tmp_path, "agent", text, *NOTEBOOK).stdout
    assert notes(tmp_path).count("\n- ") == 2
    assert "2. Mai 2015 in Graz." in notes(tmp_path) and "Dec. 3. from Vienna." in notes(tmp_path)


def test_03_a_long_paste_is_kept_whole(tmp_path: Path) -> None:
    pasted = "\n".join(f"line {number} of the minutes" for number in range(61))
    assert "61 lines" in run(tmp_path, "agent", *NOTEBOOK, given=pasted).stdout
    assert pasted in notes(tmp_path)


def test_04_a_message_without_an_option_takes_along_what_is_piped(tmp_path: Path) -> None:
    assert run(tmp_path, "agent", "summarise", *NOTEBOOK, given="the boiler was serviced\n").returncode == 0
    (log,) = (tmp_path / ".openclaw/agents/main/sessions").glob("*.jsonl")
    assert "summarise" in log.read_text() and "the boiler was serviced" in log.read_text()


async def test_05_a_second_terminal_and_a_one_shot_beside_an_open_chat(tmp_path: Path) -> None:
    async with home(tmp_path) as house, house.chat() as first:
        await first.until("a new session", STATUS)
        first.type("hello\r")
        await first.until("answer to hello")
        async with terminal(house.env, "agent", "beside it") as once:
            assert await once.ended() == 0
            assert "answer to beside it" in once.text and "lock" not in once.text
        await first.until("› beside it")
        async with house.chat() as second, terminal(house.env, "agent", "-m", "/pin The gate code is 4711") as pin:
            await second.until("› beside it", STATUS)
            second.type("from the second\r")
            await first.until("answer to from the second")
            assert await pin.ended() == 0 and "lock" not in pin.text + second.text
            first.type("and now?\r")
            await second.until("answer to and now?")
        assert "The gate code is 4711" in json.dumps(house.server.seen[-1].body)


def test_06_a_session_is_called_by_name_and_a_slip_is_said(tmp_path: Path) -> None:
    run(tmp_path, "agent", "--session", "trip", "Remember that the tent is green.", *NOTEBOOK)
    run(tmp_path, "sessions", "rename", "trip", "Summer trip")
    for name in ("summer trip", json.loads(run(tmp_path, "sessions", "--json").stdout)["sessions"][0]["sessionId"][:8]):
        assert "new session" not in run(tmp_path, "agent", "--session", name, "hello", *NOTEBOOK).stderr, name
    slip = run(tmp_path, "agent", "--session", "tripp", "hello", *NOTEBOOK).stderr
    assert "new session agent:main:tripp (did you mean " in slip
    shown = run(tmp_path, "sandbox", "explain", "--session", "Summer trip", "--json")
    assert json.loads(shown.stdout)["backend"]
    assert run(tmp_path, "sandbox", "explain", "--session", "sumer trip").returncode != 0


def test_07_settings_that_nothing_reads_are_named(tmp_path: Path) -> None:
    configure(
        tmp_path,
        '{ talk: { voiceId: "x" }, gateway: { tailscale: { mode: "serve" } }, channels: { irc: { host: "localhost", nick: "me" } },'
        ' cron: { enabled: true }, session: { reset: { mode: "daily" } }, nonsense: { a: 1 } }',
    )
    said = json.loads(run(tmp_path, "config", "validate", "--json").stdout)
    named = {problem["key"]: problem["message"] for problem in said["problems"]}
    assert "no effect" in named["talk"] and "no effect" in named["gateway.tailscale"] and "nonsense" in named
    assert not any(key.startswith(("channels", "cron", "session")) for key in named), "what is read is not named"
    assert "not set up yet" in run(tmp_path, "agents", "bind", "main", "telegram").stdout
    assert "main answers on irc" in run(tmp_path, "agents", "bind", "main", "irc").stdout


LOOK_UPS = """
import sys
def hook(event, args):
    if event == "socket.getaddrinfo":
        with open({to!r}, "a") as file:
            print(args[0], file=file)
sys.addaudithook(hook)
"""


def test_08_without_a_network_the_answer_comes_soon_and_says_why(tmp_path: Path) -> None:
    provider = '{ baseUrl: "http://no-such-host.invalid/v1", apiKey: "k", models: [{ id: "m" }] }'
    configure(
        tmp_path, f'{{ models: {{ providers: {{ far: {provider} }} }}, agents: {{ defaults: {{ model: "far/m" }} }} }}'
    )
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch/sitecustomize.py").write_text(LOOK_UPS.format(to=str(tmp_path / "asked")))
    done = run(tmp_path, "agent", "hello", PYTHONPATH=os.pathsep.join((str(tmp_path / "watch"), *sys.path)))
    assert done.returncode == 1 and "there is no host no-such-host.invalid" in done.stderr
    asked = (tmp_path / "asked").read_text().count("no-such-host.invalid")
    assert 1 <= asked <= 2, "not the ten tries of a server that may come back"


async def test_09_a_file_named_with_an_at_sign_goes_along(tmp_path: Path) -> None:
    here = tmp_path / "project"
    here.mkdir()
    (here / "plan.txt").write_text("paint the fence\n")
    async with home(tmp_path) as house, house.chat(cwd=here) as screen:
        await screen.until("a new session", STATUS)
        screen.type("what is in @plan.txt ?\r")
        await screen.until("answer to")
        screen.type("and in @pla.txt ?\r")
        await screen.until("there is no file pla.txt here")
        await screen.until("answer to and in @pla.txt")
    assert "paint the fence" in house.said[0]


async def test_10_a_mistyped_command_is_no_message(tmp_path: Path) -> None:
    async with home(tmp_path) as house, house.chat() as screen:
        await screen.until("a new session", STATUS)
        screen.type("/stauts\r")
        await screen.until("There is no command /stauts", "/status")
        screen.type("//etc is a folder\r")
        await screen.until("answer to /etc is a folder")
    assert len(house.said) == 1


def test_11_a_model_is_found_by_its_name_and_a_slip_is_refused(tmp_path: Path) -> None:
    assert "openai" in run(tmp_path, "agent", "hello", "--model", "gpt-5").stderr
    refused = run(tmp_path, "models", "set", "notebok")
    assert refused.returncode != 0 and "notebook" in refused.stderr


def test_12_the_library_says_what_it_has() -> None:
    assert "Agent" in dir(homarus) and set(homarus.__all__) <= set(dir(homarus))
    assert (Path(homarus.__file__).parent / "py.typed").exists()
    # What a type checker sees, which does not run the look-up: every name of __all__ is imported in the text.
    source = ast.parse(Path(homarus.__file__).read_text())
    seen = {alias.name for node in ast.walk(source) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(homarus.__all__) <= seen
    for function in (homarus.ask, Agent.open, Agent.ask, Agent.run, Agent.session):
        for parameter in inspect.signature(function).parameters.values():
            assert parameter.kind is not parameter.VAR_KEYWORD, f"{function.__qualname__}: each keyword has its name"
            assert parameter.name == "self" or parameter.annotation not in (parameter.empty, "Any"), parameter


async def test_13_tools_instructions_typed_answers_and_sessions_in_a_program(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    model = ScriptedModel(("double", {"number": 21}), "42", '{"answer": 42}')
    async with Agent.open(env=env, model=model, instructions="Be brief.") as agent:

        @agent.tool
        def double(number: int) -> int:
            """Return twice the number."""
            return 2 * number

        assert (await agent.ask("what is twice 21?")).text == "42"
        assert await agent.session("other").ask("again", output_type=dict[str, int])
    assert "Be brief." in repr(model.requests[0])
    inside = homarus.ask("inside a running loop", env=env, model=ScriptedModel("it works"))
    assert inside.text == "it works"


async def test_14_a_message_that_was_not_heard_comes_back(tmp_path: Path) -> None:
    def rule(body: Any, number: int) -> Say:
        return hanging("thinking aloud") if "slow" in typed(body) else echo(body, number)

    async with home(tmp_path, rule) as house, house.chat() as screen:
        await screen.until("a new session", STATUS)
        screen.type("slow\r")
        await screen.until("thinking aloud")
        screen.type("and the price\r")
        await screen.until("› and the price")
        screen.type(ESCAPE)
        await screen.until("■ stopped")
        screen.type(" please\r")
        await screen.until("answer to and the price please")


def test_15_a_window_too_small_is_named_with_the_size_of_the_prompt(tmp_path: Path) -> None:
    make_home(tmp_path, "http://127.0.0.1:9/v1", window=1_000)
    said = run(tmp_path, "agent", "hello").stderr
    assert re.search(r"take about [\d,]+ tokens, and the model's window has 1,000", said) and "tools.allow" in said
    shown = json.loads(run(tmp_path, "context", "--json").stdout)
    assert "1000" in json.dumps(shown)
    sizes = []
    for window in (4_096, 200_000):
        make_home(tmp_path, "http://127.0.0.1:9/v1", window=window)
        sizes.append(len(run(tmp_path, "prompt").stdout))
    assert sizes[0] < 0.7 * sizes[1]


async def test_16_one_answer_at_a_terminal_shows_its_tools_and_reads_well(tmp_path: Path) -> None:
    def rule(_body: Any, number: int) -> Say:
        return Say("all **done**") if number else Say(calls=(("ls", {"path": "."}),))

    async with home(tmp_path, rule) as house, terminal(house.env, "agent", "look") as screen:
        await screen.until("⏺ ls .", "all done")
        assert await screen.ended() == 0


async def test_17_setting_up_asks_for_the_key_and_does_not_show_it(tmp_path: Path) -> None:
    async with terminal(
        {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}, "onboard", "--model", "openai/gpt-5"
    ) as screen:
        await screen.until("files live?")
        screen.type("\r")
        await screen.until("key for openai", "not shown")
        screen.type("\r")
        await screen.until("openai/gpt-5 is to answer", "no key")
        assert await screen.ended() == 0
    assert "Say hello" not in screen.text


def test_18_a_typing_mistake_in_the_configuration_is_named_and_kept(tmp_path: Path) -> None:
    path = configure(
        tmp_path, '{ modles: {}, agents: { defaults: { thinkingDefault: "lowish", heartbeat: { every: "2x" } } } }'
    )
    text = run(tmp_path, "config", "validate", "--json").stdout
    assert "did you mean 'models'" in text
    assert "must be one of off, minimal" in text and "must be a duration such as 30m" in text
    assert run(tmp_path, "config", "set", "ui.assistant.name", "Hal").returncode == 0
    assert "modles" in path.read_text()


def test_19_orders_are_no_notes_and_the_newest_fact_wins(tmp_path: Path) -> None:
    for text in ("list my todos", "undo", "Vergiss das.", "Maria lives in Graz.", "actually Maria moved to Vienna"):
        run(tmp_path, "agent", text, *NOTEBOOK)
    assert "list my todos" not in notes(tmp_path) and "Vergiss" not in notes(tmp_path)
    said = run(tmp_path, "agent", "Where does Maria live?", *NOTEBOOK).stdout
    assert "Vienna" in said.splitlines()[0] and "Before:" in said
    run(tmp_path, "agent", "forget that Maria moved to Vienna", *NOTEBOOK)
    assert "~~" in notes(tmp_path), "struck through, and still there"


def test_20_the_prompt_that_is_shown_has_the_pins(tmp_path: Path) -> None:
    run(tmp_path, "agent", "hello", *NOTEBOOK)
    run(tmp_path, "agent", "/pin the deadline is Friday", *NOTEBOOK)
    assert "the deadline is Friday" in run(tmp_path, "prompt", "--turn").stdout


async def test_21_compacting_by_hand_is_done(tmp_path: Path) -> None:
    def rule(body: Any, _number: int) -> Say:
        asked = "tell me 4" in json.dumps(body) and "## Open TODOs" in json.dumps(body)
        headings = ("Decisions", "Open TODOs", "Constraints/Rules", "Pending user asks", "Exact identifiers")
        return Say("\n".join(f"## {name}\n- tell me 4, tell me 5" for name in headings) if asked else "word " * 300)

    async with home(tmp_path, rule, contextTokens=32_000) as house:
        await house.talked("main", *(f"tell me {number}" for number in range(6)))
        async with house.chat(size=(100, 40)) as screen:
            await screen.until("messages so far", STATUS)
            screen.type("/compact\r")
            await screen.until("Compacted:")


async def test_22_a_conversation_goes_on_and_its_name_stays_with_it(tmp_path: Path) -> None:
    async with home(tmp_path) as house:
        await house.talked("main", "about the boiler", "/name boiler")
        async with house.chat("--resume") as screen:
            await screen.until("Go on with which session?", "about the boiler")
            screen.type("\r")
            await screen.until("› about the boiler", "answer to about the boiler")
            screen.type("/new\r")
            await screen.until("A new session begins")
            screen.type(CTRL_D)
            assert await screen.ended() == 0
    listed = json.loads(run(tmp_path, "sessions", "--all", "--json").stdout)
    assert not listed["sessions"][0]["label"] and listed["archives"][0]["label"] == "boiler"
    again = run(tmp_path, "sessions", "resume", listed["archives"][0]["sessionId"][:8], "--json")
    assert json.loads(again.stdout)["key"]


async def test_23_edits_show_as_diffs_and_the_line_is_a_good_one(tmp_path: Path) -> None:
    words = " ".join(f"wording{number:03d}" for number in range(20))
    steps = (
        Say(calls=(("write", {"path": "poem.txt", "content": "one\ntwo"}),)),
        Say(calls=(("edit", {"path": "poem.txt", "oldText": "two", "newText": "2\n3"}),)),
        Say("done"),
    )

    def rule(body: Any, number: int) -> Say:
        return hanging(words) if "slow" in typed(body) else steps[number]

    def is_clean(width: int) -> Callable[[list[str]], bool]:
        def clean(lines: list[str]) -> bool:
            at = next((place for place, line in enumerate(lines) if "wording000" in line), 0)
            filled = width - len(" wording000") < len(lines[at]) <= width  # it was drawn anew for this width
            whole = all(sum(word in line for line in lines) == 1 for word in words.split())
            return filled and whole and sum("mock/loop" in line for line in lines) == 1

        return clean

    async with home(tmp_path, rule, sandbox={"mode": "off"}) as house:
        house.describe(cost={"input": 3, "output": 15}, input=["text", "image"])
        (tmp_path / "shot.png").write_bytes(PNG)
        async with house.chat(size=(90, 40)) as screen:
            await screen.until("a new session", STATUS)
            screen.type("Write It\r")
            await screen.until("+2 −0", "+2 −1", "-two", "done", "$0.")
            assert (screen.color_of("-two"), screen.color_of("+3")) == ("red", "green")
            screen.type(f"{CTRL_R}write it")
            await screen.until("i-search", "Write It")
            screen.type(CTRL_C)
            await screen.until(gone="i-search")
            screen.type(f"slow \x1b[200~{tmp_path}/shot.png\x1b[201~\r")
            await screen.until("↑", "wording019", when=is_clean(90))
            for columns in (60, 75):
                screen.resize(columns, 40)
                await screen.until(when=is_clean(columns))
            screen.type(CTRL_L)
            await screen.until(when=is_clean(75))
    assert "image_url" in house.said[-1]


def test_24_the_prompt_does_not_promise_the_program_inside_the_sandbox(tmp_path: Path) -> None:
    make_home(tmp_path, "http://127.0.0.1:9/v1", sandbox={"mode": "all"})
    inside = run(tmp_path, "prompt").stdout
    assert "You cannot run `homarus` here, the user can" in inside
    make_home(tmp_path, "http://127.0.0.1:9/v1", sandbox={"mode": "off"})
    outside = run(tmp_path, "prompt").stdout
    assert "You cannot run `homarus`" not in outside and "`homarus doctor` finds what is wrong" in outside


def test_25_what_a_newcomer_reads_and_asks_first(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    use = readme.partition("## Use it")[2].partition("\n## ")[0]
    assert "pipx install" in use and "docs/tutorial.md" in use and "make setup" not in use
    pictures = re.findall(r"!\[[^\]]+\]\((docs/pictures/[\w-]+\.svg)\)", readme)
    assert len(pictures) == 5 and all((ROOT / picture).exists() for picture in pictures)
    assert run(tmp_path, "memory", "explain", "memory/2026-01-01.md#L1", "the gate code").returncode != 0
    configure(tmp_path, '{ agents: { defaults: { model: "openai/gpt-5" } } }')
    status = run(tmp_path, "status")
    assert "key" in status.stdout + status.stderr
    run(tmp_path, "agent", "Remember that the gate code is 4711.", *NOTEBOOK)
    exported = run(tmp_path, "sessions", "export", "main").stdout
    assert "gate code" in exported and "INTERNAL_CONTEXT" not in exported
    complete = {"_HOMARUS_COMPLETE": "bash_complete"}
    for line, offered in (
        ("sessions show ", "main"), ("agent --agent ", "main"), ("models set buil", "builtin/notebook"), ("config get agents.defaults.mod", "agents.defaults.model"),
    ):  # fmt: skip
        words = f"homarus {line}"
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert offered in run(tmp_path, **complete, **asked).stdout, line


async def test_25_what_was_spent_is_in_the_list_of_sessions(tmp_path: Path) -> None:
    async with home(tmp_path) as house:
        house.describe(cost={"input": 3, "output": 15})
        spent = []
        for text in ("one", "two"):
            await house.talked("main", text)
            listed = json.loads((tmp_path / ".openclaw/agents/main/sessions/sessions.json").read_text())
            spent.append(listed["agent:main:main"]["estimatedCostUsd"])
    assert 0 < spent[0] < spent[1]
