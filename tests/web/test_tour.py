"""A walk through every view, in light and dark, on a desktop and a phone: no hurdle that axe finds, and the pictures of the documentation.

AXE_CORE names `axe.min.js` of the npm package axe-core; PICTURES=1 renews docs/pictures.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import Site
from tests.web.test_chat import fresh, say
from tests.web.test_views import VIEWS, go

pytestmark = pytest.mark.live
AXE = os.environ.get("AXE_CORE", "")
PICTURES = Path(__file__).parents[2] / "docs/pictures"
SHOWN = {
    "chat": "chat",
    "context": "context",
    "memory/opinions": "memory",
    "cost": "cost",
    "config/gateway": "settings",
}
KEPT = {*(f"desktop-light-{name}" for name in ("chat", "question", "context", "memory", "settings")), "desktop-dark-cost",
        "phone-light-menu", "phone-light-question", "phone-dark-chat"}  # fmt: skip
RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}"


def picture(page: Any, name: str) -> None:
    if os.environ.get("PICTURES") and name in KEPT:
        PICTURES.mkdir(exist_ok=True)
        page.mouse.move(0, 0)
        page.screenshot(path=PICTURES / f"{name}.png")


def hurdles(page: Any) -> list[str]:
    found = page.evaluate(f"axe.run(document, {RULES})")["violations"]
    serious = [each for each in found if each["impact"] in {"serious", "critical"}]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in serious]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 820), (390, 844)], ids=["desktop", "phone"])
def test_the_tour(calm: Site, size: tuple[int, int], scheme: str) -> None:
    if not AXE:
        pytest.skip("AXE_CORE names no axe.min.js of the npm package axe-core")
    context = calm.context(*size, color_scheme=scheme, bypass_csp=True)  # axe itself is no part of the page
    page = calm.page(context=context)
    name = f"{'phone' if size[0] < 500 else 'desktop'}-{scheme}"
    if size[0] < 500:
        page.click("button.menu")
        page.wait_for_selector(".frame.open")
        page.wait_for_timeout(400)
        picture(page, f"{name}-menu")
        page.keyboard.press("Escape")
        made = page.evaluate("import('./js/wire.js').then(({wire}) => wire.call('sessions.create', {}))")
        go(page, f"chat/{made['key']}")
    else:
        fresh(page)
    page.evaluate(Path(AXE).read_text())
    say(page, "stream a plan for the weekend, please")
    page.wait_for_selector("footer >> text=script/model")
    say(page, "approve the command")
    page.wait_for_selector(".question")
    assert hurdles(page) == []
    picture(page, f"{name}-question")
    page.click(".question >> text=Yes, once")
    page.wait_for_selector("text=You said: approve the command")
    page.locator(".fold.tool summary").last.click()
    key = page.evaluate("location.hash.slice(7)")
    for view in VIEWS:
        go(page, view.replace("context", f"context/{key}") if view != "chat" else f"chat/{key}")
        page.wait_for_selector("main h1, main textarea.say")
        page.wait_for_timeout(700)
        assert hurdles(page) == [], view
        if view in SHOWN:
            picture(page, f"{name}-{SHOWN[view]}")
