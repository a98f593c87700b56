"""Which hooks the configuration lets run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from homarus.hooks.discover import Hook, Source
from homarus.hooks.load import HookLoad, HookSettings, is_wanted


def hook(source: Source, name: str = "h", key: str = "") -> Hook:
    return Hook(name, key or name, source, Path("/x"))


ON, OFF, NAMED = {"enabled": True}, {"enabled": False}, {}


@pytest.mark.parametrize(
    ("source", "settings", "wanted"),
    [
        (Source.BUNDLED, HookSettings(), False),
        (Source.BUNDLED, HookSettings(enabled=True), False),
        (Source.BUNDLED, HookSettings(entries={"h": ON}), True),
        (Source.BUNDLED, HookSettings(entries={"h": NAMED}), True),
        (Source.BUNDLED, HookSettings(entries={"h": OFF}), False),
        (Source.BUNDLED, HookSettings(enabled=False, entries={"h": ON}), False),
        (Source.MANAGED, HookSettings(), False),
        (Source.MANAGED, HookSettings(enabled=True), True),
        (Source.MANAGED, HookSettings(load=HookLoad(("/hooks",))), True),
        (Source.MANAGED, HookSettings(enabled=True, entries={"h": OFF}), False),
        (Source.MANAGED, HookSettings(enabled=True, entries={"other": ON}), False),
        (Source.MANAGED, HookSettings(enabled=True, entries={"other": NAMED}), False),
        (Source.MANAGED, HookSettings(enabled=True, entries={"other": OFF}), True),
        (Source.MANAGED, HookSettings(entries={"h": ON}), True),
        (Source.EXTRA, HookSettings(entries={"other": ON}), True),
        (Source.EXTRA, HookSettings(entries={"h": OFF}), False),
        (Source.PLUGIN, HookSettings(), True),
        (Source.PLUGIN, HookSettings(enabled=False), False),
        (Source.WORKSPACE, HookSettings(enabled=True), False),
        (Source.WORKSPACE, HookSettings(enabled=True, entries={"h": NAMED}), False),
        (Source.WORKSPACE, HookSettings(entries={"h": ON}), True),
        (Source.WORKSPACE, HookSettings(enabled=False, entries={"h": ON}), False),
        (Source.WORKSPACE, HookSettings(entries={"h": {"enabled": "yes"}}), False),
        (Source.BUNDLED, HookSettings(entries={"h": {"enabled": 1}}), False),
    ],
)
def test_the_ruling(source, settings, wanted):
    assert is_wanted(hook(source), settings)[0] is wanted


def test_an_entry_is_found_by_key_or_name():
    settings = HookSettings(entries={"key-h": ON})
    assert is_wanted(hook(Source.BUNDLED, "h", "key-h"), settings) == (True, "enabled")
    assert is_wanted(hook(Source.BUNDLED, "key-h", "other"), settings) == (True, "enabled")


def test_the_block_as_it_stands_in_a_file():
    text = b'{"enabled": true, "entries": {"a": {"enabled": true, "paths": ["x"]}}, "load": {"extraDirs": ["~/h"]}, "installs": {}}'
    settings = msgspec.json.decode(text, type=HookSettings)
    assert settings.entries["a"]["paths"] == ["x"]
    assert settings.load.extra_dirs == ("~/h",)


def test_a_damaged_block_runs_nothing():
    assert not is_wanted(hook(Source.PLUGIN), HookSettings.disabled())[0]
