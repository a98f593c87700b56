"""Every view: what it shows, what it changes and how that is undone, without an error, a foreign request or a hurdle for anybody."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import Site, until
from tests.web.test_chat import fresh, go, say, texts

VIEWS = ("chat", "sessions", "context", "memory", "memory/note", "memory/people/anna", "memory/opinions", "memory/graph", "automation",
         "skills", "agents", "devices", "cost", "health", "health/doctor", "health/logs", "health/audit", "config/gateway")  # fmt: skip


def test_sessions_are_found_renamed_archived_and_deleted(calm: Site) -> None:
    page = calm.page()
    key = fresh(page)
    say(page, "about walnuts")
    page.wait_for_selector("text=You said: about walnuts")
    go(page, "sessions")
    row = page.locator("tr", has_text=key)
    row.locator("button").click()
    page.click("dialog >> text=Rename")
    page.fill("dialog input", "<b>Nuts</b>")
    page.click("dialog >> text=Save")
    page.wait_for_selector("td >> text=<b>Nuts</b>")
    page.fill("input[type=search]", "walnuts")
    page.click("text=Search in what was said")
    page.wait_for_selector(".hit >> text=walnuts")
    page.fill("input[type=search]", "nuts")
    page.locator("tr", has_text=key).locator("button").click()
    page.click("dialog >> text=Archive")
    page.locator("tr", has_text=key).wait_for(state="detached")
    page.select_option("search select", "archive")
    page.locator("tr", has_text=key).locator("button").click()
    page.click("dialog .danger")
    page.click("dialog .danger >> text=Delete")
    page.locator("tr", has_text=key).wait_for(state="detached")
    assert list((calm.state / "agents/main/sessions").glob("*.deleted*"))


def test_the_context_is_shown_and_what_a_summary_would_cut(calm: Site) -> None:
    page = calm.page("#/context/agent:main:explicit:long")
    page.wait_for_selector("text=would become a summary")
    parts = texts(page, "table.data >> nth=0 >> td:first-child")
    assert {"Instructions", "Your messages", "Answers"} <= set(parts)
    assert page.locator(".window-bar span").count() == len(parts)


def test_a_note_is_found_opened_at_its_line_edited_and_brought_back(calm: Site) -> None:
    page = calm.page("#/memory")
    page.fill("form input[type=search]", "when is the dentist")
    page.click("form >> text=Search")
    page.click(".hit a.cite >> text=memory/2026-05-01.md#L3")
    page.wait_for_selector(".here >> text=The dentist is on 8 May")
    page.click("main >> text=Edit")
    text = page.input_value("textarea.editor")
    page.fill("textarea.editor", text.replace("8 May", "9 May <script>window.pwned=12</script>"))
    page.click("form >> text=Save")
    page.wait_for_selector(".here >> text=9 May")
    note = calm.state / "workspace/memory/2026-05-01.md"
    assert "9 May" in note.read_text()
    page.click("main >> text=History")
    page.click(".menu-list button")
    page.wait_for_selector(".diff .gone >> text=8 May")
    page.click("text=Bring this version back")
    page.wait_for_selector(".here >> text=8 May")
    assert note.read_text() == text
    assert page.evaluate("window.pwned") is None


def test_opinions_have_a_curve(calm: Site) -> None:
    page = calm.page("#/memory/opinions")
    page.wait_for_selector("figure circle >> nth=1", state="attached")
    go(page, "memory/graph")
    page.wait_for_selector(".graph text >> text=Anna")


def test_a_job_is_made_run_and_deleted(calm: Site) -> None:
    page = calm.page("#/automation")
    page.click("text=New job")
    page.fill("dialog [name=name]", "<i>tea</i>")
    page.fill("dialog [name=value]", "0 8 * * 1-5")
    page.fill("dialog textarea", "say tea")
    page.click("dialog >> text=Save")
    page.wait_for_selector("td >> text=<i>tea</i>")
    page.click("text=Run now")
    page.wait_for_selector(".chip.ok >> text=ok")
    page.click("text=Switch off")
    page.wait_for_selector("text=Switch on")
    page.click("td >> text=Delete")
    page.click("dialog .danger")
    page.wait_for_selector("td >> text=Switch on", state="detached")


def test_a_setting_is_changed_after_a_look_at_the_difference_and_undone(calm: Site) -> None:
    page = calm.page("#/config/session")
    file = calm.state / "openclaw.json"
    before = json.loads(file.read_text())
    page.fill("input[type=search]", "skipbootstrap")
    page.select_option("[aria-label='agents.defaults.skipBootstrap']", "true")
    page.click("text=Review and save")
    assert any("skipBootstrap" in line for line in texts(page, ".diff .added"))
    page.click("dialog .primary")
    page.wait_for_selector(".toast >> text=Saved")
    assert json.loads(file.read_text())["agents"]["defaults"]["skipBootstrap"] is True
    page.click(".toast >> text=Undo")
    until(page, "document.querySelectorAll('.toast').length > 0")
    for _ in range(100):
        if json.loads(file.read_text()) == before:
            break
        page.wait_for_timeout(50)
    assert json.loads(file.read_text()) == before


def test_what_may_always_run_is_taken_back(calm: Site) -> None:
    page = calm.page("#/agents")
    page.wait_for_selector("td >> text=ls <img src=x")
    page.click("text=Take back")
    page.wait_for_selector("text=What may always run", state="detached")


def test_a_browser_with_the_token_alone_asks_and_is_let_in(calm: Site, token: str) -> None:
    owner = calm.page("#/devices")
    context = calm.context()
    guest = context.new_page()
    guest.goto(f"{calm.address}#token={token}")
    guest.wait_for_selector("nav.side")
    guest.evaluate("location.hash = '#/config/session'")
    guest.wait_for_selector("text=This browser may look")
    assert guest.is_disabled("text=Review and save")
    owner.wait_for_selector("text=Waiting for you")
    for _ in range(owner.locator("button:text-is('Let in')").count()):
        owner.locator("button:text-is('Let in')").first.click()
        owner.wait_for_timeout(300)
    owner.wait_for_selector("text=Waiting for you", state="detached")
    guest.click("text=Look again")
    guest.wait_for_selector("text=This browser may look", state="detached")
    assert guest.evaluate("sessionStorage.length") == 0  # it is known by its own key from now on


def test_the_palette_finds_everything_by_keyboard(calm: Site) -> None:
    page = calm.page("#/cost")
    page.wait_for_selector("h1 >> text=Cost")
    page.keyboard.press("Control+k")
    page.keyboard.type("long talk")
    page.keyboard.press("Enter")
    page.wait_for_selector(".chat-top >> text=A long talk")
    page.keyboard.press("Control+k")
    page.keyboard.type("deutsch")
    page.keyboard.press("Enter")
    page.wait_for_selector("nav >> text=Neues Gespräch")
    assert page.get_attribute("html", "lang") == "de"


def settled(page: Any) -> None:
    """Wait until a view shows what it was asked for."""
    page.wait_for_selector("main h1, main textarea.say")
    until(page, "![...document.querySelectorAll('main .empty')].some((each) => each.innerText === '…')")


# A screen at 200 % zoom has half as many pixels; 320 is the narrowest that content has to fit.
@pytest.mark.parametrize("size", [(1280, 800), (640, 400), (390, 844), (320, 640)])
def test_every_view_fits_and_nothing_goes_wrong(calm: Site, size: tuple[int, int]) -> None:
    page = calm.page(context=calm.context(*size, reduced_motion="reduce"))
    for view in VIEWS:
        go(page, view)
        settled(page)
        assert page.locator("main .problem").all_inner_texts() == [], view
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} is wider than the screen"
    assert page.evaluate("document.getAnimations().length") == 0
    assert page.evaluate("window.pwned") is None


def test_the_keyboard_reaches_everything_in_order_and_comes_back(calm: Site) -> None:
    page = calm.page("#/sessions")
    page.wait_for_selector("main table")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("main td button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    assert page.evaluate("document.activeElement.matches('main td button')")
    page.keyboard.press("?")
    page.wait_for_selector("kbd >> text=Ctrl Shift F")
    page.keyboard.press("Escape")
    page.keyboard.press("Alt+9")
    page.wait_for_selector("h1 >> text=Cost")


def test_a_skill_is_installed_from_the_page_read_and_approved(calm: Site, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "tidy.zip", "w") as file:
        file.writestr("tidy/SKILL.md", "---\nname: tidy\ndescription: Keep the desk tidy.\n---\nTidy <b>up</b>.\n")
    page = calm.page("#/skills")
    page.click("text=Install a skill")
    page.set_input_files("dialog input[type=file]", tmp_path / "tidy.zip")
    page.click("dialog >> text=Save")
    row = page.locator("tr", has_text="Keep the desk tidy.")
    row.locator(".chip >> text=in quarantine").wait_for()
    row.locator("text=Read and approve").click()
    page.wait_for_selector("dialog code >> text=Tidy <b>up</b>.")
    page.click("dialog >> text=Approve")
    row.locator(".chip >> text=ready").wait_for()
