"""Walks through the page on a desktop and a phone: everything one does there, and no hurdle that axe finds in light and dark.

axe.min.js of the npm package axe-core comes with `scripts/install_programs.sh`; AXE_CORE names another. PICTURES=1 renews docs/pictures.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import SIZES, Site, serving, until
from tests.web.serve import TALK
from tests.web.test_chat import go, say
from tests.web.test_views import VIEWS, settled

CACHE = Path(os.environ.get("HOMARUS_TEST_TOOLS") or Path.home() / ".cache/homarus-tests/npm")
AXE = Path(os.environ.get("AXE_CORE") or CACHE / "node_modules/axe-core/axe.min.js")
PICTURES = Path(__file__).parents[2] / "docs/pictures"
SHOWN = {
    "chat": "chat",
    "context": "context",
    "memory/opinions": "memory",
    "cost": "cost",
    "config/gateway": "settings",
}
KEPT = {*(f"desktop-light-{name}" for name in ("talk", "chat", "question", "context", "memory", "settings")), "desktop-dark-cost", "desktop-dark-talk",
        "phone-light-menu", "phone-light-question", "phone-dark-chat"}  # fmt: skip
RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}"


def picture(page: Any, name: str) -> None:
    if os.environ.get("PICTURES") and name in KEPT:
        PICTURES.mkdir(exist_ok=True)
        page.mouse.move(0, 0)
        page.wait_for_timeout(400)
        page.screenshot(path=PICTURES / f"{name}.png")


def hurdles(page: Any) -> list[str]:
    if not AXE.is_file():
        return []
    found = page.evaluate(f"axe.run(document, {RULES})")["violations"]
    serious = [each for each in found if each["impact"] in {"serious", "critical"}]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in serious]


def begin(page: Any) -> str:
    """Begin a conversation as one does on a screen of any size."""
    if page.locator("button.menu").is_visible():
        page.click("button.menu")
        page.wait_for_selector(".frame.open")
    page.click("nav >> text=New conversation")
    until(page, "location.hash.startsWith('#/chat/agent')")
    page.wait_for_selector(".greeting")
    return str(page.evaluate("decodeURIComponent(location.hash.slice(7))"))


@SIZES
def test_everything_one_does(calm: Site, size: tuple[int, int]) -> None:
    page = calm.page(context=calm.context(*size))
    _talk(page)
    _note(page, calm)
    _job(page)
    _setting(page, calm)
    _pair(page, calm)


def _talk(page: Any) -> None:
    begin(page)
    say(page, "stream a plan, please")
    page.wait_for_selector(".message footer >> text=script/model")
    say(page, "slow work")
    page.wait_for_selector(".live")
    say(page, "mind the gap")
    page.wait_for_selector("text=You said: mind the gap")
    say(page, "hang on")
    page.wait_for_selector(".live >> text=You said: hang on")
    page.click("button.stop")
    page.wait_for_selector(".live", state="detached")
    say(page, "approve the command")
    page.click(".question >> text=Yes, once")
    page.wait_for_selector("text=You said: approve the command")
    page.wait_for_selector(".fold.tool .chip.ok >> nth=-1")
    say(page, "approve another")
    page.click(".question .danger")
    page.wait_for_selector(".fold.tool .chip.bad")
    page.wait_for_selector("text=You said: approve another")
    assert page.locator(".question, .pending").count() == 0


def _note(page: Any, site: Site) -> None:
    file = site.state / "workspace/MEMORY.md"
    before = file.read_text()
    go(page, "memory/note/MEMORY.md")
    page.click("main >> text=Edit")
    page.fill("textarea.editor", before + "\nThe gate is green.\n")
    page.click("form >> text=Save")
    page.wait_for_selector(".prose >> text=The gate is green.")
    assert "The gate is green." in file.read_text()
    page.click(".toast >> text=Undo")
    page.wait_for_selector(".prose >> text=The gate is green.", state="detached")
    assert file.read_text() == before


def _job(page: Any) -> None:
    go(page, "automation")
    page.click("text=New job")
    page.fill("dialog [name=name]", "a tour")
    page.fill("dialog [name=value]", "0 8 * * 1-5")
    page.fill("dialog textarea", "say tea")
    page.click("dialog >> text=Save")
    row = page.locator("tr", has_text="a tour").first
    row.locator("text=Run now").click()
    row.locator(".chip.ok").wait_for()
    row.locator("button.danger").click()
    page.click("dialog .danger")
    page.locator("tr", has_text="Run now").wait_for(state="detached")


def _setting(page: Any, site: Site) -> None:
    file = site.state / "openclaw.json"
    before = json.loads(file.read_text())
    go(page, "config/session")
    page.fill("input[type=search]", "skipbootstrap")
    page.select_option("[aria-label='agents.defaults.skipBootstrap']", "true")
    page.click("text=Review and save")
    page.wait_for_selector(".diff .added")
    page.click("dialog .primary")
    page.click(".toast:has-text('skipBootstrap') >> text=Undo")
    until(page, "document.querySelector('config-view').state.config.agents.defaults.skipBootstrap === undefined")
    assert json.loads(file.read_text()) == before


def _pair(page: Any, site: Site) -> None:
    go(page, "devices")
    page.wait_for_selector("h2 >> text=Paired")
    known = page.locator("td >> text=setup-code").count()
    page.click("text=Invite a device")
    page.wait_for_selector(".qr path", state="attached")
    code = page.inner_text("dialog pre").strip()
    offer = json.loads(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)))
    page.click("dialog >> text=Close")
    site.page(context=site.context(), link=f"#pair={offer['bootstrapToken']}")
    go(page, "health")
    go(page, "devices")
    page.locator("td >> text=setup-code").nth(known).wait_for()
    page.locator("tr", has_text="setup-code").last.locator("button.danger").click()
    page.click("dialog .danger")


def test_a_talk_looks_as_in_the_readme(browser: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="h") as short, serving(Path(short), "plain") as (port, _process):
        site = Site(browser, port, Path(short))
        page = site.page(context=site.context(1280, 800, color_scheme="light"))
        begin(page)
        for number, said in enumerate(TALK):
            say(page, said)
            page.wait_for_selector(f".message footer >> text=script/model >> nth={number}")
        page.wait_for_selector("text=Shall I remind you")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            picture(page, f"desktop-{scheme}-talk")
        assert site.problems == []
        site.tidy()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@SIZES
def test_no_view_has_a_hurdle(calm: Site, size: tuple[int, int], scheme: str) -> None:
    if not AXE.is_file() and not os.environ.get("PICTURES"):
        pytest.skip("needs the npm package axe-core: scripts/install_programs.sh installs it where npm is")
    page = calm.page(context=calm.context(*size, color_scheme=scheme, bypass_csp=True))  # axe is no part of the page
    name = f"{'phone' if size[0] < 500 else 'desktop'}-{scheme}"
    if size[0] < 500:
        page.click("button.menu")
        page.wait_for_selector(".frame.open")
        picture(page, f"{name}-menu")
        page.keyboard.press("Escape")
    key = begin(page)
    if AXE.is_file():
        page.evaluate(AXE.read_text())
    say(page, "stream a plan for the weekend, please")
    page.wait_for_selector("footer >> text=script/model")
    say(page, "approve the command")
    page.wait_for_selector(".question")
    assert hurdles(page) == []
    picture(page, f"{name}-question")
    page.click(".question >> text=Yes, once")
    page.wait_for_selector("text=You said: approve the command")
    say(page, "tool with a list of what to take along")
    page.wait_for_selector("text=You said: tool with a list")
    page.locator(".fold.tool summary").last.click()
    for view in VIEWS:
        go(page, {"context": f"context/{key}", "chat": f"chat/{key}"}.get(view, view))
        settled(page)
        assert hurdles(page) == [], view
        if view in SHOWN:
            picture(page, f"{name}-{SHOWN[view]}")
    page.keyboard.press("?")
    page.wait_for_selector("dialog kbd")
    assert hurdles(page) == []
