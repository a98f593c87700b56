"""Finding hooks: precedence, forms, and the things that are not hooks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.hooks.helpers import write_hook

from homarus.hooks.discover import Source, find_hooks, standard_roots

BUNDLED = ("boot-md", "bootstrap-extra-files", "command-logger", "compaction-notifier", "session-memory")


def test_the_bundled_hooks_are_sound():
    found = find_hooks(standard_roots())
    assert tuple(hook.name for hook in found.hooks) == BUNDLED
    assert found.problems == ()
    for hook in found.hooks:
        # There is no gateway yet whose start it could hear.
        assert hook.problems == () or hook.name == "boot-md"
        assert hook.handler == "handler.py"
        assert hook.description.endswith(".")
        assert hook.source is Source.BUNDLED


def test_a_stronger_place_replaces_a_weaker_one(tmp_path):
    for place in ("plugin", "extra", "managed"):
        write_hook(tmp_path / place, "command-logger")
        write_hook(tmp_path / place, f"only-{place}")
    roots = {"plugins": [tmp_path / "plugin"], "extra": [tmp_path / "extra"], "managed": tmp_path / "managed"}
    names = {hook.name: hook.source for hook in find_hooks(standard_roots(**roots)).hooks}
    assert names["command-logger"] is Source.MANAGED
    assert names["only-plugin"] is Source.PLUGIN
    del roots["managed"]
    assert find_hooks(standard_roots(**roots)).get("command-logger").source is Source.EXTRA


def test_the_workspace_only_adds_names(tmp_path):
    write_hook(tmp_path / "ws" / "hooks", "command-logger")
    write_hook(tmp_path / "ws" / "hooks", "mine")
    found = find_hooks(standard_roots(workspace=tmp_path / "ws"))
    assert found.get("mine").source is Source.WORKSPACE
    assert found.get("command-logger").source is Source.BUNDLED
    assert "cannot replace the bundled hook 'command-logger'" in found.problems[0]


def test_fields_and_legacy_metadata(tmp_path):
    write_hook(
        tmp_path,
        "h",
        metadata='clawdbot: {"events": ["command", "session:compact:*"], "hookKey": "key-h", "export": "run", "emoji": "🦀", "timeout": 5, "os": ["linux"]}',
        extra="homepage: https://example.org/h\n",
    )
    hook = find_hooks(standard_roots(managed=tmp_path)).get("key-h")
    assert (hook.name, hook.key, hook.function, hook.emoji, hook.timeout) == ("h", "key-h", "run", "🦀", 5.0)
    assert hook.events == ("command", "session:compact:*")
    assert hook.requires.os == ("linux",)
    assert hook.homepage == "https://example.org/h"
    assert hook.problems == ()


@pytest.mark.parametrize("timeout", ["-1", "0", "true", "soon", ".inf", ".nan", "[1]"])
def test_a_senseless_timeout_is_none(tmp_path, timeout):
    write_hook(tmp_path, "h", metadata=f"openclaw: {{events: [command], timeout: {timeout}}}")
    assert find_hooks(standard_roots(managed=tmp_path)).get("h").timeout is None


def test_javascript_is_listed_as_not_loadable(tmp_path):
    folder = write_hook(tmp_path, "js", code=None)
    (folder / "handler.ts").write_text("export default async () => {}")
    hook = find_hooks(standard_roots(managed=tmp_path)).get("js")
    assert hook.handler == ""
    assert hook.problems == ("handler.ts is JavaScript: not loadable here",)


def test_listing_runs_no_code(tmp_path):
    write_hook(tmp_path, "bomb", code="raise SystemExit('ran')\n")
    assert find_hooks(standard_roots(managed=tmp_path)).get("bomb").problems == ()


def test_what_is_wrong_is_said(tmp_path):
    write_hook(tmp_path, "empty", code=None, metadata="openclaw: {}")
    write_hook(tmp_path, "typo", metadata="openclaw: {events: ['comand:new']}")
    found = find_hooks(standard_roots(managed=tmp_path))
    assert found.get("empty").problems == ("it names no events", "it has no handler.py")
    assert found.get("typo").problems == ("nothing ever emits 'comand:new'",)


def test_a_folder_that_is_a_hook_itself(tmp_path):
    folder = write_hook(tmp_path, "solo")
    assert find_hooks(standard_roots(extra=[folder])).get("solo").source is Source.EXTRA


def test_a_name_comes_from_the_folder_where_the_header_has_none(tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "HOOK.md").write_bytes(b"\xff\xfe no header at all")
    (tmp_path / "not-a-hook").mkdir()
    assert [
        hook.name for hook in find_hooks(standard_roots(managed=tmp_path)).hooks if hook.source is Source.MANAGED
    ] == ["plain"]


def test_links_out_pipes_and_missing_roots(tmp_path):
    outside = write_hook(tmp_path / "outside", "evil")
    managed = tmp_path / "managed"
    managed.mkdir()
    (managed / "evil").symlink_to(outside)
    (managed / "pipe").mkdir()
    os.mkfifo(managed / "pipe" / "HOOK.md")
    (managed / "file").write_text("")
    found = find_hooks(standard_roots(managed=managed, extra=[tmp_path / "nowhere"]))
    assert {hook.name for hook in found.hooks} == set(BUNDLED)
    assert len(found.problems) == 2
    assert all("HOOK.md" in problem for problem in found.problems)


def test_the_number_of_hooks_is_bounded(tmp_path):
    for number in range(220):
        (tmp_path / f"h{number:03}").mkdir()
    found = find_hooks(standard_roots(managed=tmp_path))
    assert found.problems == (f"{tmp_path}: only the first 200 names are looked at",)


def test_the_order_is_the_same_whatever_the_disk_says(tmp_path):
    for name in ("zeta", "alpha", "mid"):
        write_hook(tmp_path, name)
    names = [hook.name for hook in find_hooks(standard_roots(managed=tmp_path)).hooks]
    assert names == sorted(names)
    assert isinstance(find_hooks(standard_roots(managed=tmp_path)).get("zeta").folder, Path)


def test_two_hooks_of_one_name_in_one_place(tmp_path):
    first = write_hook(tmp_path, "a")
    second = write_hook(tmp_path, "b")
    (second / "HOOK.md").write_text((first / "HOOK.md").read_text())
    found = find_hooks(standard_roots(managed=tmp_path))
    assert found.get("a").folder == first
    assert found.problems == (f"{second}: 'a' is already the name of {first}",)
