"""Foreign words in every place that shows some: they stay words, and a question shows what would run and nothing else.

The browser ignores the page's policy here, so that whatever became markup would really run and leave its mark in `window.pwned`.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.web.conftest import Site, until
from tests.web.serve import COMMANDS, HOSTILE, ODD
from tests.web.test_chat import fresh, go, say

TRAPS = (
    "main img:not(.picture), main script, main iframe, main style, main object, main [onerror], main [onload], [srcdoc]"
)
CALL = "([method, params]) => import('./js/wire.js').then(({wire}) => wire.call(method, params))"


def call(page: Any, method: str, **params: Any) -> Any:
    return page.evaluate(CALL, [method, params])


def opened(site: Site, where: str = "") -> Any:
    """Open the page where scripts may run; whatever happens then is the page's own fault."""
    return site.page(where, context=site.context(bypass_csp=True))


def harmless(page: Any, *shown: str) -> None:
    """Wait until words stand there as they were written, and see that nothing came of them."""
    for text in shown:
        until(page, f"document.querySelector('home-app').innerText.includes({json.dumps(text)})")
    # The code of a QR picture, icons and charts are the page's own; none of them carries a handler.
    assert page.evaluate(f"[...document.querySelectorAll({json.dumps(TRAPS)})].map((el) => el.outerHTML)") == []
    assert page.evaluate(
        "[...document.querySelectorAll('a')].every((el) => !/^(javascript|data|vbscript):/i.test(el.href))"
    )
    assert page.evaluate("window.pwned") is None


PLACES = {
    "the answer": ("chat/agent:main:explicit:odd", "<script>window.pwned=1</script>"),
    "a session's label in the chat": ("chat/agent:main:explicit:odd", "<img src=x onerror='window.pwned=10'>"),
    "a session's label in the list": ("sessions", "<img src=x onerror='window.pwned=10'>"),
    "a note's name": ("memory/note", ODD.format(24, 25)),
    "a skill": ("skills", ODD.format(32, 33)),
    "a model": ("agents", ODD.format(22, 23)),
    "what may always run": ("agents", "ls <img src=x onerror=window.pwned=13>"),
    "names of devices and nodes": ("devices", ODD.format(36, 37)),
    "a line of the log": ("health/logs", ODD.format(34, 35)),
}


@pytest.mark.parametrize("place", PLACES)
def test_it_stays_words_as(calm: Site, place: str) -> None:
    where, text = PLACES[place]
    page = opened(calm, f"#/{where}")
    harmless(page, text)


def test_it_stays_words_as_a_note_and_its_edit(calm: Site) -> None:
    page = opened(calm, "#/memory/note")
    page.click(f"a:text-is({json.dumps(f'memory/{ODD.format(24, 25)}.md')})")
    harmless(page, ODD.format(26, 27), ODD.format(28, 29))
    page.click("main >> text=Edit")
    assert ODD.format(28, 29) in page.input_value("textarea.editor")
    harmless(page)


def test_it_stays_words_as_what_a_tool_gave_back(calm: Site) -> None:
    page = opened(calm)
    fresh(page)
    say(page, "look at it")
    page.wait_for_selector("text=You said: look at it")
    page.locator(".fold.tool summary").last.click()
    harmless(page, "<svg onload=window.pwned=30><script>window.pwned=31</script></svg>", "parent.pwned=6")
    say(page, HOSTILE)
    page.wait_for_selector(".message footer >> text=script/model")
    harmless(page)


def test_it_stays_words_as_files_that_are_dropped_and_pasted(calm: Site) -> None:
    page = opened(calm)
    fresh(page)
    name = "<img src=x onerror=window.pwned=40>.svg"
    drop = """([name, text, kind]) => {
        const data = new DataTransfer();
        data.items.add(new File([text], name, { type: "image/svg+xml" }));
        const place = document.querySelector(kind === "drop" ? ".chat" : "textarea.say");
        const event = kind === "drop" ? new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }) : new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
        place.dispatchEvent(event);
    }"""
    for kind in ("drop", "paste"):
        page.evaluate(drop, [name, "<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=41'/>", kind])
    page.wait_for_selector(".files li >> nth=1")
    harmless(page, name)
    say(page, "what is it")
    page.wait_for_selector("text=You said: what is it")
    page.wait_for_selector(".bubble .chip >> nth=1")
    harmless(page)


def test_it_stays_words_as_a_job_and_its_outcome(calm: Site) -> None:
    page = opened(calm)
    told = {"kind": "agentTurn", "message": ODD.format(44, 45)}
    when = {"kind": "cron", "expr": "0 8 1 1 *"}
    job = call(
        page, "cron.add", name=ODD.format(42, 43), schedule=when, payload=told, sessionTarget="isolated", enabled=True
    )
    call(page, "cron.run", id=job["id"], mode="force")
    go(page, "automation")
    page.wait_for_selector(".chip.ok >> text=ok")
    harmless(page, ODD.format(42, 43), ODD.format(44, 45))
    call(page, "cron.remove", id=job["id"])


def test_it_stays_words_as_a_setting_and_its_difference(calm: Site) -> None:
    page = opened(calm, "#/config/models")
    page.wait_for_selector("summary >> text=This section as JSON")
    page.click("summary >> text=This section as JSON")
    assert ODD.format(22, 23) in page.input_value("textarea.editor")
    page.fill("input[type=search]", "userTimezone")
    page.fill("[aria-label='agents.defaults.userTimezone']", ODD.format(46, 47))
    page.press("[aria-label='agents.defaults.userTimezone']", "Tab")
    page.click("text=Review and save")
    page.wait_for_selector(".diff .added")
    assert ODD.format(46, 47) in page.inner_text(".diff")
    assert page.locator("dialog img, dialog svg").count() == 0
    harmless(page)


def test_it_stays_words_as_the_name_of_an_agent_and_in_the_palette(calm: Site) -> None:
    page = opened(calm, "#/sessions")
    page.wait_for_selector("main table")
    page.keyboard.press("Control+k")
    page.keyboard.type("pwned=10")
    page.wait_for_selector(".palette li >> text=<img src=x onerror='window.pwned=10'>")
    assert page.locator(".palette img").count() == 0
    harmless(page)


@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_a_question_shows_exactly_what_would_run(calm: Site, number: int) -> None:
    page = opened(calm)
    fresh(page)
    say(page, "hostile words first")
    page.wait_for_selector(".message footer >> text=script/model")
    say(page, f"run {number}")
    card = page.wait_for_selector(".question")
    shown = page.evaluate("document.querySelector('.question .exact').textContent")
    assert COMMANDS[number] in {plain(shown), shown}
    # Nobody draws a second card, a second answer, or hides one.
    assert page.locator(".question").count() == page.locator(".question .primary").count() == 1
    assert card.is_visible() and page.locator(".question .exact").is_visible()
    assert not re.search(
        "[\u200b-\u200f\u202a-\u202e\u2066-\u2069\u00ad\x00-\x08\x0b-\x1f\x7f\U000e0000-\U000e007f]", shown
    )
    harmless(page)
    page.click(".question .danger")
    page.wait_for_selector(".question", state="detached")


def plain(shown: str) -> str:
    """Return what a card stands for: ends of lines and signs without a shape are written out in it."""
    return re.sub(r"<U\+([0-9A-F]+)>", lambda found: chr(int(found[1], 16)), shown.replace(" ⏎ ", "\n"))
