from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from homarus.config.load import inspect_config, last_good_path
from homarus.config.redact import MARKER
from homarus.config.write import FileChange, Operation, Planner, change, introduced, write
from homarus.core.errors import ConfigError


def plan(home, *operations: Operation) -> tuple[FileChange, ...]:
    return Planner(inspect_config(home.paths, home.env), home.env).changes(operations)


def put(home, path: tuple, value: object) -> tuple[FileChange, ...]:
    return change(inspect_config(home.paths, home.env), home.env, [Operation("set", path, value)])


def test_a_change_is_written_with_a_backup_and_remembered(home) -> None:
    home.write("{ a: 1 } // note\n").chmod(0o640)
    put(home, ("a",), 2)
    assert home.file.read_text() == "{ a: 2 } // note\n"
    assert home.file.stat().st_mode & 0o777 == 0o600
    assert (home.folder / "openclaw.json.bak").stat().st_mode & 0o777 == 0o600
    assert (home.folder / "openclaw.json.bak").read_text() == "{ a: 1 } // note\n"
    assert '"a": 2' in last_good_path(home.paths).read_text()
    assert last_good_path(home.paths).stat().st_mode & 0o777 == 0o600


def test_a_missing_file_is_made_private(home) -> None:
    home.folder.joinpath("x").mkdir()
    put(home, ("gateway", "port"), 5)
    assert home.file.read_text() == '{\n  "gateway": {\n    "port": 5\n  }\n}\n'
    assert home.file.stat().st_mode & 0o777 == 0o600


def test_nothing_is_written_for_what_is_so_already(home) -> None:
    home.write("{ a: 0x10 }")
    before = home.snapshot()
    assert put(home, ("a",), 16) == ()
    assert home.snapshot() == before


def test_planning_writes_nothing(home) -> None:
    home.write("{ a: 1 }")
    before = home.snapshot()
    [planned] = plan(home, Operation("set", ("b", "c"), 1))
    assert planned.after == b"{ a: 1, b: { c: 1 } }"
    assert home.snapshot() == before


def test_a_patch_merges_removes_and_replaces(home) -> None:
    home.write('{\n  a: { x: 1, y: 2 }, // a\n  b: [1, 2],\n  c: "s",\n}\n')
    [planned] = plan(
        home, Operation("patch", (), {"a": {"x": None, "z": {"k": 1, "n": None}}, "b": [3], "c": None, "d": None})
    )
    assert planned.after.decode() == "{\n  a: { y: 2, z: { k: 1 } }, // a\n  b: [3],\n}\n"


def test_the_marker_keeps_the_old_secret(home) -> None:
    home.write('{ gateway: { auth: { token: "keep-me", mode: "token" } } }')
    [planned] = plan(home, Operation("patch", (), {"gateway": {"auth": {"token": MARKER, "mode": "none"}}}))
    assert b'token: "keep-me", mode: "none"' in planned.after
    with pytest.raises(ConfigError, match="marker"):
        plan(home, Operation("set", ("hooks", "token"), MARKER))


def test_a_file_that_changed_meanwhile_is_left_alone(home) -> None:
    home.write("{ a: 1 }")
    config = home.load()
    changes = Planner(config, home.env).changes([Operation("set", ("a",), 2)])
    home.write("{ a: 3 }")
    with pytest.raises(ConfigError, match="changed since"):
        write(config, home.env, changes)
    assert home.file.read_text() == "{ a: 3 }"
    home.file.unlink()
    with pytest.raises(ConfigError, match="changed since"):
        write(config, home.env, changes)
    assert not home.file.exists()


def test_a_broken_file_is_not_edited(home) -> None:
    home.write("{ a: 1\n b: 2 }")
    before = home.snapshot()
    with pytest.raises(ConfigError, match=r"openclaw.json:2: a comma .* nothing was written"):
        put(home, ("a",), 2)
    assert home.snapshot() == before


@pytest.mark.parametrize("text", [b"", b"  \n", b"// only a comment\n", b"\xef\xbb\xbf", b'{ a: "caf\xe9", b: 1 }'])
def test_a_file_that_may_have_lost_its_content_is_not_filled(home, text: bytes) -> None:
    home.write(text)
    with pytest.raises(ConfigError, match=r"openclaw.json:1: .*nothing was written"):
        put(home, ("a",), 1)
    assert home.file.read_bytes() == text


def test_a_value_that_is_no_text_is_refused(home) -> None:
    home.write("{ a: 1 }")
    for value in ("\ud800", "\udcff"):
        with pytest.raises(ConfigError):
            put(home, ("a",), value)
    assert home.file.read_text() == "{ a: 1 }"


def test_a_link_stays_a_link(home, tmp_path: Path) -> None:
    real = home.write("{ a: 1 }", "dotfiles/openclaw.json5")
    home.file.symlink_to(real)
    put(home, ("a",), 2)
    assert home.file.is_symlink()
    assert real.read_text() == "{ a: 2 }"


# Included files


def test_a_key_is_changed_in_the_file_that_owns_it(home) -> None:
    part = home.write("// agents\n{ defaults: { a: 1 } }\n", "agents.json5")
    home.write('{ agents: { $include: "agents.json5" }, b: 1 }')
    put(home, ("agents", "defaults", "a"), 2)
    assert part.read_text() == "// agents\n{ defaults: { a: 2 } }\n"
    put(home, ("agents", "defaults", "new"), {"k": 1})
    assert "new: { k: 1 }" in part.read_text()
    put(home, ("agents", "other"), 1)
    assert "other: 1" in part.read_text()
    put(home, ("c",), 3)
    assert home.file.read_text() == '{ agents: { $include: "agents.json5" }, b: 1, c: 3 }'
    assert (home.folder / "agents.json5.bak").exists()


def test_of_several_files_the_one_that_decides_is_changed(home) -> None:
    one, two = home.write("{ x: 1, y: 1 }", "one.json5"), home.write("{ y: 2 }", "two.json5")
    home.write('{ s: { $include: ["one.json5", "two.json5"], z: 3 } }')
    put(home, ("s", "y"), 5)
    put(home, ("s", "x"), 4)
    put(home, ("s", "new"), 6)
    assert (one.read_text(), two.read_text()) == ("{ x: 4, y: 1 }", "{ y: 5 }")
    assert home.load().get("s") == {"x": 4, "y": 5, "z": 3, "new": 6}


def test_an_include_is_never_flattened(home) -> None:
    home.write("{ x: 1 }", "one.json5")
    home.write('{ s: { $include: "one.json5" } }')
    before = home.snapshot()
    with pytest.raises(ConfigError, match="included file"):
        put(home, ("s",), {"x": 2})
    assert home.snapshot() == before


def test_what_cannot_be_changed_alone_is_refused(home) -> None:
    home.write("{ x: 1, l: [1] }", "one.json5")
    home.write('{ s: { $include: "one.json5", x: 2, l: [2] } }')
    before = home.snapshot()
    with pytest.raises(ConfigError, match="without changing something else"):
        change(home.load(), home.env, [Operation("unset", ("s", "x"))])
    with pytest.raises(ConfigError):
        put(home, ("s", "l", 0), 9)
    assert home.snapshot() == before


# Spellings


def test_a_key_is_changed_under_the_name_it_has_in_the_file(home) -> None:
    home.write('{ session: { idleMinutes: 5 }, agents: { list: [ { id: "work", model: "a/b" } ] } }')
    put(home, ("session", "reset", "idleMinutes"), 9)
    put(home, ("agents", "entries", "work", "model"), "c/d")
    put(home, ("agents", "entries", "work", "workspace"), "~/w")
    assert home.file.read_text() == (
        '{ session: { idleMinutes: 9 }, agents: { list: [ { id: "work", model: "c/d", workspace: "~/w" } ] } }'
    )
    change(home.load(), home.env, [Operation("unset", ("session", "reset", "idleMinutes"))])
    assert home.load().get("session.reset.idleMinutes") is None


def test_a_setting_of_one_agent_never_changes_the_defaults(home) -> None:
    home.write('{ agents: { defaults: { model: "a/b" }, entries: { work: {} } } }')
    put(home, ("agents", "entries", "work", "model"), "c/d")
    config = home.load()
    assert config.get("agents.defaults.model.primary") == "a/b"
    assert config.agent("work").get("model.primary") == "c/d"


# Checks


def test_a_change_that_adds_an_error_is_refused(home) -> None:
    home.write('{ secrets: { providers: { p: { source: "env" } } } }')
    before = home.snapshot()
    with pytest.raises(ConfigError, match=r"secrets\.providers\.p"):
        put(home, ("secrets", "providers", "p", "source"), "nowhere")
    assert home.snapshot() == before


def test_an_old_error_does_not_stop_another_change(home) -> None:
    home.write("{ secrets: 5, a: 1 }")
    config = home.load()
    changes = Planner(config, home.env).changes([Operation("set", ("a",), 2)])
    assert introduced(config, home.env, changes) == []


def test_of_many_writers_at_once_nobody_loses(home) -> None:
    home.write("{ env: { vars: {} } }")
    stale = inspect_config(home.paths, home.env)

    def work(number: int) -> None:
        change(stale, home.env, [Operation("set", ("env", "vars", f"K{number}"), str(number))])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    config = home.load()
    assert config.problems == []
    assert config.get("env.vars") == {f"K{number}": str(number) for number in range(12)}


def test_what_was_worked_out_from_an_older_list_is_refused(home) -> None:
    home.write('{ bindings: [ { agentId: "a" } ] }')
    stale = inspect_config(home.paths, home.env)
    put(home, ("bindings",), [])
    wish = Operation("set", ("bindings", 0, "agentId"), "b")
    with pytest.raises(ConfigError, match="changed since it was read"):
        change(stale, home.env, [wish])
    with pytest.raises(ConfigError, match="changed since it was read"):
        change(stale, home.env, [Operation("set", ("bindings",), [{"agentId": "c"}])])
    row = {"agentId": "main", "match": {"channel": "irc"}}
    change(stale, home.env, [Operation("set", ("bindings",), [row])], literal=True)
    assert home.load().get("bindings") == [row]


def test_old_copies_with_keys_become_private(home) -> None:
    home.write("{ env: { vars: { A: 'x' } } }")
    older = home.write("{}", "openclaw.json.bak.1")
    older.chmod(0o644)
    put(home, ("env", "vars", "A"), "y")
    put(home, ("env", "vars", "A"), "z")
    assert {path.stat().st_mode & 0o777 for path in home.folder.glob("openclaw.json*")} == {0o600}


def test_a_warning_that_a_change_brings_is_told(home) -> None:
    home.write("{ env: {} }")
    heard = []
    change(home.load(), home.env, [Operation("set", ("modles",), {})], notify=heard.append)
    assert [(problem.key, problem.cure) for problem in heard] == [("modles", "did you mean 'models'?")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_changes_nothing(home) -> None:
    home.write("{ a: 1 }")
    home.folder.chmod(0o500)
    try:
        with pytest.raises(Exception, match="cannot"):
            put(home, ("a",), 2)
        assert home.file.read_text() == "{ a: 1 }"
    finally:
        home.folder.chmod(0o700)
