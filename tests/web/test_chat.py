"""Talking in a browser: streams, tools, questions, steering, branches, files, two tabs, a lost connection, hostile words."""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.web.conftest import Site, door, serving, until
from tests.web.serve import COMMAND

SAY = "textarea.say"


def say(page: Any, text: str) -> None:
    page.wait_for_selector(f"{SAY}:not([disabled])")
    page.fill(SAY, text)
    page.press(SAY, "Enter")


def fresh(page: Any) -> str:
    """Begin a conversation and return its key."""
    page.evaluate("location.hash = '#/sessions'")
    page.click("nav >> text=New conversation")
    until(page, "location.hash.startsWith('#/chat/agent')")
    page.wait_for_selector(".greeting")
    return str(page.evaluate("decodeURIComponent(location.hash.slice(7))"))


def go(page: Any, where: str) -> None:
    page.evaluate("where => { location.hash = '#/' + where }", where)


def texts(page: Any, selector: str) -> list[str]:
    return [str(text).strip() for text in page.locator(selector).all_inner_texts()]


def test_an_answer_streams_in_with_colours_and_its_thoughts_folded(calm: Site) -> None:
    page = calm.page()
    fresh(page)
    say(page, "stream it")
    page.wait_for_selector(".message.user >> text=stream it")
    page.wait_for_selector(".hl-keyword >> text=def")
    page.wait_for_selector(".message footer >> text=script/model")
    assert page.locator(".live").count() == 0
    assert page.get_attribute("text=link", "rel") == "noopener noreferrer"
    assert texts(page, ".prose td") == ["pi", "3.14"]
    assert page.get_attribute("a.cite", "href") == "#/memory/note/memory%2F2026-05-01.md%23L3"
    say(page, "think about it")
    page.wait_for_selector("text=You said: think about it")
    assert page.locator("text=First I weigh").count() == 0
    page.click("summary >> text=Thoughts")
    page.wait_for_selector("em >> text=both")


def test_tools_show_what_they_were_given_and_what_they_changed(calm: Site) -> None:
    page = calm.page()
    fresh(page)
    say(page, "tool one")
    page.wait_for_selector("text=You said: tool one")
    say(page, "tool two")
    page.wait_for_selector("text=You said: tool two")
    page.locator(".fold.tool summary").last.click()
    page.wait_for_selector(".diff .added")
    assert "<b>bold</b>" in page.inner_text(".fold.tool[open]")
    assert page.locator(".fold.tool b").count() == 0


def test_a_question_shows_exactly_what_would_run_and_is_answered_once_for_all_tabs(calm: Site) -> None:
    page = calm.page()
    other = calm.page(f"#/chat/{fresh(page)}")
    say(page, "approve this")
    for each in (page, other):
        exact = each.wait_for_selector(".question .exact").inner_text()
        assert "U+202E" in exact and "<script>window.pwned=8</script>" in exact
        assert COMMAND[0:12] in exact
    other.click(".question >> text=No")
    page.wait_for_selector(".question", state="detached")
    page.wait_for_selector(".chip.bad >> text=failed")
    say(page, "approve again")
    page.click(".question >> text=Yes, once")
    page.wait_for_selector("text=You said: approve again")
    assert texts(other, ".message.user .bubble") == ["approve this", "approve again"]
    assert page.evaluate("window.pwned") is None


def test_a_turn_is_steered_and_stopped(calm: Site) -> None:
    page = calm.page()
    fresh(page)
    say(page, "slow work")
    page.wait_for_selector(".live >> text=I need a tool")
    say(page, "mind the gap")
    page.wait_for_selector("text=You said: mind the gap")
    assert texts(page, ".message.user .bubble") == ["slow work", "mind the gap"]
    assert page.locator(".pending").count() == 0
    say(page, "hang on")
    page.wait_for_selector(".live >> text=You said: hang on")
    assert page.get_attribute(SAY, "placeholder") == "Steer the agent while it works …"
    page.click("button.stop")
    page.wait_for_selector(".live", state="detached")
    page.wait_for_selector("button >> text=Send")
    say(page, "/status")
    page.wait_for_selector(".notice.reply >> text=Model: script/model")


def test_an_earlier_message_is_said_otherwise_and_both_branches_stay(calm: Site) -> None:
    page = calm.page()
    fresh(page)
    for text in ("one", "two"):
        say(page, text)
        page.wait_for_selector(f"text=You said: {text}")
    page.locator(".message.user").last.locator("text=Edit").click()
    page.fill(".edit textarea", "three")
    page.click("text=Send as a new branch")
    page.wait_for_selector("text=You said: three")
    assert texts(page, ".message.user .bubble") == ["one", "three"]
    page.click("button[aria-label=More]")
    page.click("dialog >> text=Branches")
    page.click("dialog button >> text=two")
    page.wait_for_selector("text=You said: two")
    assert texts(page, ".message.user .bubble") == ["one", "two"]


def test_files_and_pictures_go_along(calm: Site, tmp_path: Path) -> None:
    page = calm.page()
    fresh(page)
    dot = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    (tmp_path / "dot.png").write_bytes(dot)
    (tmp_path / "<img src=x onerror=window.pwned=11>.txt").write_text("some words")
    (tmp_path / "data.bin").write_bytes(b"\0\1\2")
    page.set_input_files("input[type=file]", sorted(tmp_path.iterdir()))
    page.wait_for_selector(".files li >> nth=2")
    say(page, "look at these")
    page.wait_for_selector("text=You said: look at these")
    assert page.locator(".bubble img.picture").count() == 1
    assert [name for name in texts(page, ".bubble .chip") if "data.bin" in name]
    assert (calm.state / "workspace/uploads/data.bin").read_bytes() == b"\0\1\2"
    assert page.evaluate("window.pwned") is None


def test_after_a_lost_connection_no_line_is_missing_and_none_is_there_twice(calm: Site) -> None:
    context = calm.context()
    page = calm.page(context=context)
    key = fresh(page)
    other = calm.page(f"#/chat/{key}", context=context, link="")
    say(page, "before")
    page.wait_for_selector("text=You said: before")
    context.set_offline(True)
    for each in (page, other):  # a browser that is offline keeps its sockets, so they are cut
        each.evaluate("import('./js/wire.js').then(({wire}) => wire.again())")
    page.wait_for_selector("text=Connection lost")
    say(page, "while away")
    page.wait_for_selector("text=waits for the connection")
    calm.problems.clear()  # a browser notes on its console that it could not connect
    context.set_offline(False)
    for each in (page, other):
        each.wait_for_selector("text=You said: while away")
        assert texts(each, ".message.user .bubble") == ["before", "while away"]
        assert texts(each, ".message.assistant .prose") == ["You said: before", "You said: while away"]
    calm.problems[:] = [each for each in calm.problems if "ERR_INTERNET_DISCONNECTED" not in each]


def test_a_gateway_that_is_killed_in_the_middle_of_a_line_loses_and_doubles_nothing(browser: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="h") as short, door() as way:
        folder = Path(short)
        with serving(folder) as (way.target, process):
            site = Site(browser, way.port, folder)
            page = site.page(context=site.context())
            key = fresh(page)
            other = site.page(f"#/chat/{key}", context=site.contexts[0], link="")
            say(page, "before")
            page.wait_for_selector("text=You said: before")
            say(page, "crawl along")
            for each in (page, other):
                each.wait_for_selector(".live h3:text-is('A plan')")
            process.kill()
            process.wait()
        for each in (page, other):
            each.wait_for_selector("text=Connection lost")
        say(page, "while away")
        page.wait_for_selector("text=waits for the connection")
        with serving(folder) as (way.target, process):
            for each in (page, other):
                each.wait_for_selector("text=You said: while away")
                each.wait_for_selector(".live", state="detached")
                assert texts(each, ".message.user .bubble") == ["before", "crawl along", "while away"]
                assert each.locator(".prose h3:text-is('A plan')").count() == 1
                assert texts(each, ".message.assistant .prose")[-1] == "You said: while away"
            said = [line["id"] for line in page.evaluate("document.querySelector('chat-view').lines")]
            assert len(said) == len(set(said))
            site.tidy()


def test_what_a_summary_replaced_can_be_read_searched_and_reached(calm: Site) -> None:
    page = calm.page("#/chat/agent:main:explicit:summed")
    page.wait_for_selector("text=early answer 299")
    page.wait_for_selector("summary >> text=Older messages were summarised here")
    until(page, "document.querySelector('chat-view').entries.length === 601")
    page.evaluate("document.querySelector('long-list').scrollTop = 0")
    page.wait_for_selector(".bubble:text-is('early word 0')")
    page.click("button.to-end")
    page.wait_for_selector("text=early answer 299")
    page.press("body", "Control+Shift+F")
    page.fill("search input", "early word 123")
    page.wait_for_selector(".bubble:text-is('early word 123')")
    go(page, "sessions")
    page.fill("main input[type=search]", "early word 45")
    page.click("text=Search in what was said")
    page.locator(".hit", has_text="early").locator("a").first.click()
    page.wait_for_selector(".bubble:text-is('early word 45')")


def test_hostile_words_stay_words(calm: Site) -> None:
    page = calm.page("#/chat/agent:main:explicit:odd")
    page.wait_for_selector("text=<script>window.pwned=1</script>")
    assert page.locator(".prose script, .prose iframe, .prose svg, .prose style, .prose img").count() == 0
    links = [page.get_attribute(f".prose a >> nth={at}", "href") for at in range(page.locator(".prose a").count())]
    assert [link for link in links if not link.startswith("https://evil.example/")] == []  # a picture is a link to it
    assert "<img src=x onerror='window.pwned=10'>" in texts(page, ".chat-top h1")
    assert page.evaluate("window.pwned") is None


def test_a_conversation_of_five_thousand_messages_is_read_in_parts(calm: Site) -> None:
    page = calm.page("#/chat/agent:main:explicit:long")
    page.wait_for_selector("text=answer 2499")
    until(page, "document.querySelector('chat-view').entries.length === 5000")
    assert page.locator(".long-row").count() < 60
    page.press("body", "Control+Shift+F")
    page.fill("search input", "question 1234")
    page.wait_for_selector("search >> text=1 found")
    page.wait_for_selector(".bubble >> text=question 1234")


def test_the_token_is_typed_once_and_leaves_the_address(calm: Site, token: str) -> None:
    page = calm.context().new_page()
    page.goto(calm.address)
    page.fill("input[type=password]", "wrong")
    page.click("text=Connect")
    page.wait_for_selector("text=That is not the gateway's token.")
    page.goto(f"{calm.address}#token={token}")
    page.reload()
    page.wait_for_selector("nav.side")
    assert token not in page.url and token not in json.dumps(page.evaluate("Object.entries(localStorage)"))
