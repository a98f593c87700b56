"""Loading handlers: only wanted ones, each alone, and failures that stay with the hook that failed."""

from __future__ import annotations

import sys

import pytest
from tests.hooks.helpers import NOW, facts, write_hook

from homarus.hooks.discover import find_hooks, standard_roots
from homarus.hooks.events import event
from homarus.hooks.load import HookSettings, judge, load_handler, load_hooks
from homarus.hooks.registry import HookRegistry


def settings(*names: str) -> HookSettings:
    return HookSettings(entries={name: {"enabled": True, "word": name} for name in names})


def _hook_modules() -> set[str]:
    return {name for name in sys.modules if name.startswith("homarus_hook_")}


async def test_only_what_is_wanted_is_loaded_and_heard(tmp_path):
    code = "async def handle(event):\n    event.messages.append(event.options['word'] + event.options['stateDir'])\n"
    write_hook(tmp_path, "on", code=code)
    write_hook(tmp_path, "off", code="raise AssertionError('must not run')\n")
    registry = HookRegistry()
    found = find_hooks(standard_roots(managed=tmp_path))
    statuses = {s.hook.name: s for s in load_hooks(found, settings("on"), facts(), registry, {"stateDir": "/s"})}
    assert statuses["on"].loaded
    assert (statuses["off"].loaded, statuses["off"].reason) == (False, "not among the enabled entries")
    assert (await registry.emit(event("command:new", NOW))).messages == ["on/s"]


async def test_a_workspace_hook_without_explicit_enable_is_listed_not_run(tmp_path):
    write_hook(tmp_path / "hooks", "mine", code="raise AssertionError('must not run')\n")
    registry = HookRegistry()
    found = find_hooks(standard_roots(workspace=tmp_path))
    (status,) = (s for s in load_hooks(found, HookSettings(enabled=True), facts(), registry) if s.hook.name == "mine")
    assert not status.loaded
    assert status.reason == "a workspace hook runs only when enabled by name"
    assert registry.listeners("command:new") == ()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(1)\n", "SystemExit"),
        ("def handle(:\n", "SyntaxError"),
        ("import nothing_of_that_name\n", "ModuleNotFoundError"),
        ("x = 1\n", "no function 'handle'"),
        ("handle = 3\n", "no function 'handle'"),
        ("\0", "null bytes"),
    ],
)
async def test_a_handler_that_cannot_be_loaded_stops_no_other(tmp_path, code, said):
    write_hook(tmp_path, "bad", code=code)
    write_hook(tmp_path, "good")
    registry = HookRegistry()
    before = _hook_modules()
    found = find_hooks(standard_roots(managed=tmp_path))
    statuses = {s.hook.name: s for s in load_hooks(found, settings("bad", "good"), facts(), registry)}
    assert said in statuses["bad"].reason
    assert not statuses["bad"].on
    assert statuses["good"].loaded
    assert len((await registry.emit(event("command:new", NOW))).messages) == 1
    assert len(_hook_modules() - before) == 1


def test_modules_are_apart_and_leave_no_trace(tmp_path):
    state = "import dataclasses\ncount = 0\n@dataclasses.dataclass\nclass D:\n    x: int\ndef handle(event):\n    global count\n    count += 1\n    event.messages.append(f'{__name__} {count} {__file__}')\n"
    first, second = write_hook(tmp_path / "a", "h", code=state), write_hook(tmp_path / "b", "h", code=state)
    names = set()
    for folder in (first, second):
        hook = find_hooks(standard_roots(extra=[folder])).get("h")
        heard = event("command:new", NOW)
        load_handler(hook)(heard)
        name, count, file = heard.messages[0].split(" ", 2)
        assert (count, file) == ("1", str(folder / "handler.py"))
        names.add(name)
    assert len(names) == 2
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_handler_behind_a_link_out_is_refused(tmp_path):
    folder = write_hook(tmp_path / "hooks", "h", code=None)
    (tmp_path / "evil.py").write_text("def handle(event): pass\n")
    (folder / "handler.py").symlink_to(tmp_path / "evil.py")
    hook = find_hooks(standard_roots(managed=tmp_path / "hooks")).get("h")
    # Between listing and loading the link may have come; loading looks again.
    (folder / "handler.py").unlink()
    (folder / "handler.py").write_text("")
    hook = find_hooks(standard_roots(managed=tmp_path / "hooks")).get("h")
    (folder / "handler.py").unlink()
    (folder / "handler.py").symlink_to(tmp_path / "evil.py")
    with pytest.raises(ImportError, match="leads out"):
        load_handler(hook)


async def test_another_function_name(tmp_path):
    write_hook(
        tmp_path,
        "h",
        metadata="openclaw: {events: [command], export: run}",
        code="def run(event):\n    event.messages.append('ran')\n",
    )
    write_hook(
        tmp_path,
        "d",
        metadata="openclaw: {events: [command], export: default}",
        code="def handle(event):\n    event.messages.append('default')\n",
    )
    registry = HookRegistry()
    load_hooks(find_hooks(standard_roots(managed=tmp_path)), settings("h", "d"), facts(), registry)
    assert (await registry.emit(event("command:stop", NOW))).messages == ["default", "ran"]


def test_requirements_gate_a_wanted_hook(tmp_path):
    write_hook(tmp_path, "h", metadata="openclaw: {events: [command], requires: {bins: [git], env: [TOKEN]}}")
    hook = find_hooks(standard_roots(managed=tmp_path)).get("h")
    wanted = HookSettings(entries={"h": {"enabled": True, "env": {"TOKEN": "x"}}})
    assert judge(hook, wanted, facts(bins=("git",))).on
    status = judge(hook, wanted, facts())
    assert (status.wanted, status.able, status.reason) == (True, False, "bins: needs git on PATH")
    assert judge(hook, settings("h"), facts(bins=("git",))).reason == "env: needs TOKEN set"


def test_a_wanted_hook_without_a_handler_says_so(tmp_path):
    write_hook(tmp_path, "h", code=None)
    hook = find_hooks(standard_roots(managed=tmp_path)).get("h")
    assert judge(hook, settings("h"), facts()).reason == "it has no handler.py"
