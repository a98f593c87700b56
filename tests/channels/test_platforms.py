"""What holds for every platform that comes with the program, looked at from outside."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import homarus.channels
from homarus.channels.discovery import lacks, load_entry, manifests
from homarus.channels.settings import account_of, check
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.delivery.format.dialects import DIALECTS

DOCS = Path(__file__).parent.parent.parent / "docs" / "channels"
LIBRARIES = {
    "aiogram",
    "aiohttp",
    "hikari",
    "slack_sdk",
    "neonize",
    "nio",
    "imapclient",
    "slixmpp",
    "httpcore2",
    "uvicorn",
}
_LOOK = """
import sys
from pathlib import Path
import homarus.channels
from homarus.channels.discovery import load_entry, manifests
class Host:
    account, folder, commands = "default", Path({folder!r}), {{}}
    settings = {{"botToken": "1:x", "appToken": "x", "token": "x", "account": "+1", "phoneNumberId": {number!r}}}
load_entry(manifests()[{name!r}])(Host())
print(" ".join(sorted(name.partition(".")[0] for name in sys.modules)))
"""


@pytest.mark.parametrize(
    ("name", "number"),
    [("telegram", ""), ("discord", ""), ("slack", ""), ("signal", ""), ("whatsapp", ""), ("whatsapp", "42")],
)
def test_no_library_is_imported_before_an_account_starts(tmp_path: Path, name: str, number: str) -> None:
    if lacks(manifests()[name])[0]:
        pytest.skip(" ".join(lacks(manifests()[name])))
    script = _LOOK.format(folder=str(tmp_path), name=name, number=number)
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert LIBRARIES & set(shown.stdout.split()) == set()


@pytest.mark.parametrize("name", sorted(manifests()))
def test_a_manifest_names_what_is_there(name: str) -> None:
    manifest = manifests()[name]
    assert manifest.place.dialect in DIALECTS
    if not lacks(manifest)[0]:
        assert callable(load_entry(manifest))
    for key, setting in manifest.settings.items():
        assert setting.help, key
        looks_secret = key.lower().endswith(("token", "secret", "password"))
        assert setting.secret or not looks_secret, key


@pytest.mark.parametrize("name", ["telegram", "discord", "slack", "signal", "whatsapp"])
def test_every_key_of_a_manifest_is_used(name: str) -> None:
    folder = Path(homarus.channels.__path__[0]) / name
    source = "".join(path.read_text() for path in (*folder.glob("*.py"), folder.parent / "support.py"))
    assert [key for key in manifests()[name].settings if f'"{key}"' not in source and f"'{key}'" not in source] == []


def test_whatsapp_gives_no_codes_to_strangers_unless_the_owner_wants_it(tmp_path: Path) -> None:
    def policy(name: str, block: str) -> str:
        env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}
        (tmp_path / "openclaw.json").write_text(f'{{"channels": {{"{name}": {block}}}}}')
        config = inspect_config(resolve_paths(env), env)
        return account_of(config, manifests()[name], "default", env).settings.dm_policy

    assert policy("whatsapp", "{}") == "allowlist"
    assert policy("whatsapp", '{"dmPolicy": "pairing"}') == "pairing"
    assert policy("whatsapp", '{"accounts": {"default": {}}}') == "allowlist"
    assert policy("telegram", "{}") == "pairing"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_there_is_a_page_for_each_platform_and_for_what_needs_none(page: Path) -> None:
    assert page.stem in {*manifests(), "terminal", "webchat"}


@pytest.mark.parametrize("page", [DOCS / f"{name}.md" for name in sorted(manifests())], ids=lambda page: page.stem)
def test_what_a_page_shows_can_be_written_as_it_stands(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```json5\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}
        env |= dict.fromkeys(re.findall(r"\$\{(\w+)\}", block), "x")
        (tmp_path / "openclaw.json").write_text(block)
        config = inspect_config(resolve_paths(env), env)
        check(config)
        assert config.unusable is None
        assert [str(problem) for problem in config.problems if "no effect" in problem.message] == []
        assert [str(problem) for problem in config.problems if problem.severity == "error"] == []


@pytest.mark.parametrize("name", sorted(manifests()))
def test_a_page_says_how_to_set_it_up_what_its_limits_are_and_what_to_do_when_it_does_not_work(name: str) -> None:
    text, place = (DOCS / f"{name}.md").read_text(), manifests()[name].place
    assert re.search(r"^1\. ", text.replace("   ", ""), re.MULTILINE), "steps"
    assert f"{place.limit:,}" in text
    assert not place.media or f"{place.media_bytes // 1_000_000} MB" in text
    assert "## When it does not work" in text


@pytest.mark.parametrize(
    "place",
    [
        "irc.connection:IrcSettings",
        "matrix.session:MatrixSettings",
        "email.servers:EmailSettings",
        "xmpp.session:XmppSettings",
    ],
)
def test_a_manifest_and_the_type_of_its_block_name_the_same_keys(place: str) -> None:
    name = place.partition(".")[0]
    for library in manifests()[name].needs:
        pytest.importorskip(library, reason=f"needs homarus[{name}]")
    module, _, kind = place.partition(":")
    block = getattr(importlib.import_module(f"homarus.channels.{module}"), kind)
    read = {field.encode_name for field in msgspec.structs.fields(block)}
    assert read - {"mediaMaxMb"} == set(manifests()[name].settings) - {"mediaMaxMb"}
    needed = {field.encode_name for field in msgspec.structs.fields(block) if field.required}
    assert needed == {key for key, setting in manifests()[name].settings.items() if setting.required}
