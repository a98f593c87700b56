"""Our page, a second tab of it and the original's page on one session: all three show the same. `make test-live` says what it needs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.live import test_openclaw_clients as clients
from tests.live.test_openclaw_clients import REPLY, TOKEN, Home
from tests.web.conftest import Site, until
from tests.web.test_chat import say, texts

from bench import mock_model
from homarus.web import FOLDER

pytestmark = clients.pytestmark


def both(home: Home) -> None:
    """Let the gateway serve the original's page, and ours beside it."""
    file = home.folder / ".openclaw/openclaw.json"
    document = json.loads(file.read_text())
    root = home.folder / "pages"
    shutil.copytree(document["gateway"]["controlUi"]["root"], root)
    shutil.copytree(FOLDER, root / "ours")
    document["gateway"]["controlUi"]["root"] = str(root)
    file.write_text(json.dumps(document))


def test_our_page_twice_and_the_originals_stay_in_step(browser: Any, tmp_path: Path) -> None:
    with mock_model.serving() as model:
        home = Home(tmp_path, model)
        both(home)
        with home.serving():
            _in_step(Site(browser, home.port, home.folder))


def _in_step(site: Site) -> None:
    theirs = site.context().new_page()
    theirs.goto(f"{site.address}#token={TOKEN}")
    context = site.context()
    pages = [context.new_page(), context.new_page()]
    for page in pages:
        page.goto(f"{site.address}ours/index.html#token={TOKEN}")
        page.wait_for_selector("nav.side")
        page.evaluate("location.hash = '#/chat/agent:main:main'")
        page.wait_for_selector("textarea.say:not([disabled])")
    before = len(texts(pages[0], ".message.user .bubble"))
    box = theirs.locator("textarea[placeholder]").first
    box.fill("said over there")
    theirs.keyboard.press("Enter")
    for page in pages:
        page.wait_for_selector(".bubble:text-is('said over there')")
        page.wait_for_selector(f".message.assistant .prose >> text={REPLY}")
        page.wait_for_selector(".live", state="detached")
    say(pages[0], "said over here")
    pages[1].wait_for_selector(".bubble:text-is('said over here')")
    until(theirs, "document.body.innerText.includes('said over here')")
    for page in pages:
        page.wait_for_selector(".live", state="detached")
        assert texts(page, ".message.user .bubble")[before:] == ["said over there", "said over here"]
    said = [line["id"] for line in pages[0].evaluate("document.querySelector('chat-view').lines")]
    assert said == [line["id"] for line in pages[1].evaluate("document.querySelector('chat-view').lines")]
    assert len(said) == len(set(said))
    for text in ("said over there", "said over here"):  # the original reads its history again after each turn
        until(theirs, f"document.body.innerText.split('{text}').length === 2")
    site.tidy()
