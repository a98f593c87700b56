"""The files of the page: small, complete in both languages, as their list says, and served with a policy that forbids the rest."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from starlette.testclient import TestClient
from tests.gateway.served import TOKEN
from tests.scenarios.home import House

from homarus.gateway.live import Given
from homarus.gateway.server import Gateway
from homarus.web import FOLDER

MOST = 200_000
SCRIPTS = sorted((FOLDER / "js").glob("*.js"))


def test_our_script_and_style_are_small() -> None:
    own = [*SCRIPTS, FOLDER / "style.css", FOLDER / "index.html"]
    assert sum(path.stat().st_size for path in own) <= MOST
    assert (FOLDER / "js/base.js").read_text().count("\n") <= 150


def test_no_text_can_become_markup() -> None:
    for path in SCRIPTS:
        code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        assert not re.search(
            r"\.(innerHTML|outerHTML|insertAdjacentHTML|srcdoc)\b|document\.write|\beval\(|new Function", code
        ), path


def test_every_text_has_its_german() -> None:
    german = set(re.findall(r'^  "((?:[^"\\]|\\.)*)": "', (FOLDER / "js/words.js").read_text(), re.MULTILINE))
    said = {text for path in SCRIPTS for text in re.findall(r'\bt\("((?:[^"\\]|\\.)*)"', path.read_text())}
    assert said - german == set()
    assert german - said == set()


def test_what_others_wrote_is_listed_with_its_digest() -> None:
    listed = (FOLDER / "vendor/README.md").read_text()
    for path in (FOLDER / "vendor").glob("*.js"):
        assert f"`{path.name}`" in listed and hashlib.sha256(path.read_bytes()).hexdigest() in listed, path.name


async def test_it_is_served_with_a_strict_policy(tmp_path: Path) -> None:
    gateway = Gateway(House(tmp_path).agent().client.runtime, Given(token=TOKEN))
    client = TestClient(gateway)
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe-inline" not in policy and "connect-src 'self'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|style=", page.text)
    assert client.get("/js/app.js").headers["content-type"].startswith(("text/javascript", "application/javascript"))
    assert client.get("/", headers={"if-none-match": page.headers["etag"]}).status_code == 304
    assert client.get("/sessions").text == page.text
    for lost in ("/js/none.js", "/../__init__.py", "/%2e%2e/__init__.py", "/v1/nothing"):
        assert client.get(lost).status_code == 404, lost
    await gateway.runtime.aclose()
