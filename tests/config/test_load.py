from __future__ import annotations

import json
import os
from typing import Annotated

import msgspec
import pytest
from tests.fixtures.homes import HOMES, unpack

from homarus.config.load import last_good_path, load_config, refuse_lost, remember_good
from homarus.config.paths import resolve_paths
from homarus.config.write import Operation, change
from homarus.core.errors import ConfigError


class Inner(msgspec.Struct, frozen=True, rename="camel"):
    max_chars: int = 3


class Named(msgspec.Struct, frozen=True):
    id: str
    size: int = 0


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    idle_minutes: Annotated[int, msgspec.Meta(ge=0)] = 60
    enabled: bool = True
    inner: Inner = Inner()
    by_name: dict[str, Inner] = {}
    items: tuple[Named, ...] = ()
    deny: list[str] = []
    maybe: Inner | None = None


class Strict(msgspec.Struct, frozen=True):
    on: bool = True
    mode: str = "open"

    @classmethod
    def disabled(cls) -> Strict:
        return cls(on=False)


class Holder(msgspec.Struct, frozen=True):
    part: Strict = Strict()
    other: int = 1


# Files


def test_missing_file_is_an_empty_configuration(home) -> None:
    config = home.load()
    assert (config.raw, config.problems) == ({}, [])
    assert [agent.id for agent in config.agents] == ["main"]
    assert config.default_agent.id == "main"


@pytest.mark.parametrize("text", ["{ a: ", "[1]", "5", "{} {}", "\x00", "{ a: 1e999 }"])
def test_an_unusable_file_is_a_problem_with_its_line(home, text: str) -> None:
    config = home.load("\n\n" + text)
    assert config.raw == {}
    [problem] = config.problems
    assert (problem.severity, problem.file) == ("error", str(home.file))
    assert problem.cure
    assert home.file.read_text() == "\n\n" + text


@pytest.mark.parametrize("path", ["/", "/dev/null/x", "/" + "x" * 5000, "/proc/self/mem"])
def test_odd_places_do_not_stop_the_program(home, path: str) -> None:
    config = home.load(None, OPENCLAW_CONFIG_PATH=path)
    assert config.raw == {}
    assert [agent.id for agent in config.agents] == ["main"]


def test_a_circle_of_links_is_a_problem(home) -> None:
    home.file.symlink_to(home.file)
    assert home.load().problems[0].severity == "error"


def test_a_folder_a_pipe_and_a_giant_are_problems(home) -> None:
    home.file.mkdir()
    assert home.load().problems[0].severity == "error"
    home.file.rmdir()
    os.mkfifo(home.file)
    assert home.load().problems[0].severity == "error"
    home.file.unlink()
    assert "larger" in home.load(b"{}" + b" " * 3_000_000).problems[0].message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_a_problem(home) -> None:
    home.write("{ a: 1 }").chmod(0)
    assert home.load().problems[0].severity == "error"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_closed_folder_is_no_missing_file(home) -> None:
    home.write("{ a: 1 }")
    home.folder.chmod(0)
    try:
        assert home.load().problems[0].severity == "error"
    finally:
        home.folder.chmod(0o700)


def test_the_last_good_content_stands_in_for_a_broken_file(home) -> None:
    config = home.load('{ a: 1, b: { $include: "b.json5" } }')
    home.write("{ c: 2 }", "b.json5")
    config = home.load('{ a: 1, b: { $include: "b.json5" }, name: "${NAME}" }', NAME="x")
    assert remember_good(config, explicit=True)
    assert "${NAME}" in last_good_path(home.paths).read_text()
    broken = '{ a: 2, b: { $include: "b.json5" }, name: "${NAME}"'
    config = home.load(broken)
    assert (config.get("a"), config.get("b.c"), config.get("name")) == (1, 2, "x")
    assert config.fallback == last_good_path(home.paths)
    assert [p.severity for p in config.problems] == ["error", "warning"]
    assert config.problems[0].line == 1
    assert not remember_good(config, explicit=True)
    assert home.file.read_text() == broken


def kept(home) -> object:
    """The content that is kept, without the lines that say whose it is and how it was written."""
    return json.loads(last_good_path(home.paths).read_text().split("\n", 2)[2])


def test_the_copy_follows_the_file_and_what_it_includes(home) -> None:
    home.write("{ c: 2 }", "b.json5")
    text = '{ b: { $include: "b.json5" } }'
    assert remember_good(home.load(text), explicit=True)
    assert not remember_good(home.load())
    home.write("{ c: 3 }", "b.json5")
    os.utime(home.folder / "b.json5", (1, 1))  # as a copy from a backup has it
    assert remember_good(home.load())
    assert kept(home) == {"b": {"c": 3}}
    assert remember_good(home.load("{ d: 4 }"))
    assert kept(home) == {"d": 4}


def test_every_load_of_a_hand_written_file_is_remembered_once_homarus_works_here(home) -> None:
    home.write('{ tools: { deny: ["exec"] } }')
    load_config(home.paths, home.env)
    assert list(home.snapshot()) == ["openclaw.json"]
    home.paths.own_dir.mkdir()
    load_config(home.paths, home.env)
    assert kept(home) == {"tools": {"deny": ["exec"]}}
    home.write('{ tools: { deny: ["exec", "web_fetch"] } }')
    load_config(home.paths, home.env)
    home.write('{ tools: { deny: ["exec", "web_fetch" } }')
    heard = []
    config = load_config(home.paths, home.env, notify=heard.append)
    assert config.get("tools.deny") == ["exec", "web_fetch"]
    assert [(p.severity, p.line) for p in heard] == [("error", 1), ("warning", 0)]
    assert kept(home) == {"tools": {"deny": ["exec", "web_fetch"]}}


def test_the_copy_of_another_file_stands_in_for_nothing(home) -> None:
    assert remember_good(home.load("{ a: 1 }"), explicit=True)
    home.write("{ a: ", "other.json")
    home.env["OPENCLAW_CONFIG_PATH"] = str(home.folder / "other.json")
    assert home.load().raw == {}
    with pytest.raises(ConfigError, match=r"other.json:1: .*ends"):
        load_config(home.paths, home.env)


def test_a_backup_never_stands_in(home) -> None:
    home.write("{ a: 1 }", "openclaw.json.bak")
    assert home.load("{ a: ").raw == {}
    with pytest.raises(ConfigError, match=r"openclaw.json:1: "):
        load_config(home.paths, home.env)


def test_the_copy_that_openclaw_kept_stands_in_where_there_is_none_of_ours(home) -> None:
    home.write("{ a: 1 }", "openclaw.json.last-good")
    assert home.load("{ a: ").get("a") == 1
    assert home.load("").get("a") == 1
    home.paths.own_dir.mkdir()
    last_good_path(home.paths).write_text("{ also broken")
    assert home.load("{ a: ").raw == {}
    last_good_path(home.paths).unlink()
    home.write("{ also broken", "openclaw.json.last-good")
    assert home.load("{ a: ").raw == {}


def test_a_file_that_went_missing_is_replaced_by_its_last_content_and_by_nothing_else(home) -> None:
    assert remember_good(home.load("{ a: 1 }"), explicit=True)
    home.file.unlink()
    config = load_config(home.paths, home.env)
    assert config.get("a") == 1
    assert "is missing; the last good content stands in" in config.problems[0].message
    for work in (
        lambda: refuse_lost(home.paths, home.env),
        lambda: change(config, home.env, [Operation("set", ("b",), 1)]),
    ):
        with pytest.raises(ConfigError, match=r"is missing, .*nothing was written"):
            work()
    assert not home.file.exists()


def test_a_named_file_that_is_not_there_is_no_fresh_start(home) -> None:
    home.env["OPENCLAW_CONFIG_PATH"] = str(home.folder / "typo.json")
    with pytest.raises(ConfigError, match="there is no such file"):
        load_config(home.paths, home.env)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "// all gone",
        b"{ a: '\xff' }",
        "{ a: { $include: 'gone.json5' } }",
        "{ tools: 5 }",
        "{ agents: [] }",
        "{ agents: { list: 5 } }",
        "{ agents: { list: [ 5 ] } }",
        "{ agents: { entries: { main: 'x' } } }",
        "{ agents: { defaults: [] } }",
        "{ channels: [] }",
        '{ tools: { deny: ["${NOT_SET}"] } }',
        '{ tools: { exec: { mode: "${NOT_SET}" } } }',
        '{ agents: { list: [ { id: "main", sandbox: { mode: "${NOT_SET}" } } ] } }',
        '{ channels: { telegram: { allowFrom: ["${NOT_SET}"] } } }',
    ],
)
def test_nothing_runs_on_a_file_whose_rules_cannot_be_read(home, text: str | bytes) -> None:
    home.write(text)
    with pytest.raises(ConfigError) as caught:
        load_config(home.paths, home.env)
    assert "openclaw.json:1" in str(caught.value)
    assert caught.value.cure


def test_a_missing_variable_of_a_credential_stops_nothing(home) -> None:
    home.write(
        """{ gateway: { auth: { token: "${NONE}" } }, tools: { web: { search: { apiKey: "${NONE}" } } },
            agents: { defaults: { sandbox: { docker: { env: { A: "${NONE}" } } } } } }"""
    )
    assert {p.severity for p in load_config(home.paths, home.env).problems} == {"warning"}


def test_remembering_makes_nothing_in_a_home_that_is_not_ours(home) -> None:
    config = home.load("{ a: 1 }")
    assert not remember_good(config)
    assert list(home.snapshot()) == ["openclaw.json"]
    home.paths.own_dir.mkdir()
    assert remember_good(config)
    assert not remember_good(config)


@pytest.mark.parametrize("name", HOMES)
def test_a_real_home_is_read_without_changing_a_byte(name: str, tmp_path) -> None:
    real = unpack(name, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    config = load_config(resolve_paths(real.env), real.env)
    assert config.problems == []
    assert config.default_agent.get("model.primary") == "mock/mock-model"
    assert config.default_agent.get("workspace") == str(real.workspace)
    assert config.get("gateway.port") == 18955
    assert config.secret("models.providers.mock.apiKey") == "sk-fixture"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_bytes_that_are_no_text_are_an_error_at_their_line(home) -> None:
    config = home.load(b'{\n a: "caf\xe9", b: 1 }')
    assert [(p.severity, p.line) for p in config.problems] == [("error", 2)]


def test_problems_are_told_as_they_are_found(home) -> None:
    home.write("{ session: { enabled: 3 } }")
    heard = []
    config = load_config(home.paths, home.env, notify=heard.append)
    assert heard == []
    config.block("session", Settings)
    assert [problem.key for problem in heard] == ["session.enabled"]


def test_the_hash_follows_every_file(home) -> None:
    home.write("{}", "part.json5")
    one = home.load('{ a: { $include: "part.json5" } }').hash
    assert home.load().hash == one
    home.write("{ b: 1 }", "part.json5")
    assert home.load().hash != one


# Blocks


def test_a_bad_value_falls_back_alone(load) -> None:
    config = load(
        """{ thing: {
               idleMinutes: "soon", enabled: false, inner: { maxChars: "7" }, deny: ["a", 5],
               byName: { a: 5, b: { maxChars: 1 } },
               items: [ { id: "x", size: "big" }, { size: 1 }, { id: "y" } ],
               maybe: { maxChars: [] },
             } }"""
    )
    found = config.block("thing", Settings)
    assert found == Settings(
        enabled=False, inner=Inner(7), by_name={"b": Inner(1)}, items=(Named("x"), Named("y")), maybe=Inner()
    )
    assert {(p.key, p.line) for p in config.problems} == {
        ("thing.idleMinutes", 2),
        ("thing.deny", 2),
        ("thing.byName.a", 3),
        ("thing.items[0].size", 4),
        ("thing.items[1]", 4),
        ("thing.maybe.maxChars", 5),
    }
    assert all(p.file.endswith("openclaw.json") and p.cure and p.severity == "error" for p in config.problems)


@pytest.mark.parametrize("value", ["5", "[]", "'x'"])
def test_a_block_that_is_no_object_falls_back_whole(load, value: str) -> None:
    config = load(f"{{ thing: {value} }}")
    assert config.block("thing", Settings) == Settings()
    assert [p.key for p in config.problems] == ["thing"]


def test_null_is_not_set(load) -> None:
    config = load("{ thing: { idleMinutes: null, inner: null }, x: null }")
    assert config.block("thing", Settings) == Settings()
    assert (config.get("x", 5), config.problems) == (5, [])


def test_a_block_that_cannot_run_on_half_of_it_is_disabled(load) -> None:
    config = load("{ x: { mode: 5 }, y: 5, z: { part: { mode: 5 }, other: 2 } }")
    assert config.block("x", Strict) == Strict(on=False)
    assert config.block("y", Strict) == Strict(on=False)
    assert config.block("z", Holder) == Holder(part=Strict(on=False), other=2)
    assert [p.key for p in config.problems] == ["x.mode", "y", "z.part.mode"]


def test_numbers_and_flags_from_variables(load) -> None:
    config = load('{ thing: { idleMinutes: "${N}", enabled: "${F}" } }', N="5", F="false")
    assert config.block("thing", Settings) == Settings(idle_minutes=5, enabled=False)
    assert config.problems == []


def test_problems_are_recorded_once_and_where_they_were_written(load) -> None:
    config = load("{\n agents: {\n  defaults: { inner: { maxChars: 'x' } },\n  list: [ { id: 'a' }, { id: 'b' } ] } }")
    for agent in (*config.agents, *config.agents):
        assert agent.block("inner", Inner) == Inner()
    assert [(p.key, p.line) for p in config.problems] == [("agents.defaults.inner.maxChars", 3)]


# Agents


def test_agents_merge_defaults_with_their_entry(load) -> None:
    config = load(
        """{ agents: { defaults: { model: {primary: "a/b", fallbacks: ["c/d"]}, inner: {maxChars: 9}, thinkingDefault: "low" },
             list: [ {id: "Work Bot", model: "x/y", thinkingDefault: null}, {agentId: "home", default: true, inner: {}} ] } }"""
    )
    work, home = config.agents
    assert (work.id, work.default, work.get("model")) == ("work-bot", False, {"primary": "x/y", "fallbacks": []})
    assert work.get("thinkingDefault") is None
    assert (home.id, home.get("model.fallbacks"), home.block("inner", Inner)) == ("home", ["c/d"], Inner(9))
    assert config.default_agent is home
    assert config.agent("WORK BOT") is work
    assert config.agent("stranger").get("thinkingDefault") == "low"


def test_two_agents_never_share_a_folder_of_credentials(load) -> None:
    config = load(
        """{ agents: { list: [
               { id: "a", agentDir: "~/x" },
               { id: "b", agentDir: "~/x/" },
               { id: "c", agentDir: "~/.openclaw/agents/c" } ] } }"""
    )
    assert [agent.id for agent in config.agents] == ["a", "c"]
    [problem] = config.problems
    assert (problem.severity, problem.line, problem.key) == ("error", 3, "agents.list[1].agentDir")


def test_of_two_default_agents_the_first_counts(load) -> None:
    config = load("{ agents: { entries: { a: {}, b: { default: true }, c: { default: true } } } }")
    assert config.default_agent.id == "b"
    assert [p.key for p in config.problems] == ["agents.entries.c.default"]


def test_an_odd_roster_still_has_one_agent(load) -> None:
    for text in ("{ agents: 5 }", "{ agents: { list: 5, entries: [] } }", "{ agents: { list: [] , defaults: 7 } }"):
        assert [agent.id for agent in load(text).agents] == ["main"]


# Environment


def test_a_bad_variable_is_reported_by_its_name(load) -> None:
    config = load("{ gateway: { port: 5 } }", OPENCLAW_GATEWAY_PORT="many")
    assert config.get("gateway.port") == 5
    assert [(p.file, p.key) for p in config.problems] == [("environment", "OPENCLAW_GATEWAY_PORT")]


def test_a_variable_that_is_no_text_can_still_be_shown(load) -> None:
    assert load('{ a: "x${RAW}" }', RAW="\udcff").get("a") == "x\ufffd"


def test_a_missing_variable_is_reported_at_its_line(load) -> None:
    config = load('{\n gateway: {\n  auth: { token: "${NOT_SET_HERE}" } } }')
    assert config.get("gateway.auth.token") is None
    [problem] = config.problems
    assert (problem.severity, problem.line, problem.key) == ("warning", 3, "gateway.auth.token")
    assert "NOT_SET_HERE" in problem.message
