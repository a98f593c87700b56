"""The notebook as a model: real tool calls, honest answers, and the same contract as every provider."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock
from homarus.core.errors import ModelFailure
from homarus.core.events import TextDelta
from homarus.core.messages import Assistant, Message, StopReason, Text, ToolCall, ToolResult, User
from homarus.core.prompt import SystemPrompt
from homarus.core.tools import ToolSpec
from homarus.models.notebook import evidence
from homarus.models.notebook.evidence import lines, parse, strike
from homarus.models.notebook.reader import SmallReader
from homarus.models.notebook.summary import AUDITED, identifiers, summarize, wants_summary
from homarus.models.notebook.turn import next_step
from homarus.models.notebook.words import say
from homarus.models.provider import ModelRequest, Stop
from homarus.models.providers.notebook import NotebookProvider

NOTHING_FOUND = say("unknown", german=False)
NOW = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)


def tool(name: str, *required: str, **properties: object) -> ToolSpec:
    shapes = {key: value if isinstance(value, dict) else {"type": value} for key, value in properties.items()}
    return ToolSpec(name, name, {"type": "object", "properties": shapes, "required": list(required)})


RETAIN = tool("memory_retain", "text", text="string", kind="string")
RECALL = tool("memory_recall", "query", query="string", k="integer")
SEARCH = tool("memory_search", "query", query="string")
READ, LS = tool("read", "path", path="string"), tool("ls", path="string")
WRITE, EDIT = (
    tool("write", path="string", content="string"),
    tool("edit", path="string", oldText="string", newText="string"),
)
GREP = tool("grep", "pattern", pattern="string", path="string")
STATUS = tool("session_status")
ALL = (RETAIN, RECALL, SEARCH, READ, LS, WRITE, EDIT, GREP, STATUS)


class Talk:
    """A conversation with scripted tools."""

    def __init__(self, *tools: ToolSpec, **results: str) -> None:
        self.tools = tools
        self.results = results
        self.messages: list[Message] = []
        self.calls: list[ToolCall] = []

    def say(self, text: str, context: str = "") -> str:
        self.messages.append(User((Text(text),), context=context))
        for _ in range(40):
            step = next_step(self.messages, self.tools, "", NOW)
            self.messages.append(Assistant((*([Text(step.text)] if step.text else []), *step.calls)))
            if not step.calls:
                return step.text
            self.calls += step.calls
            for call in step.calls:
                found = self.results.get(call.name, "no result scripted")
                wrong = found.startswith("error:")
                self.messages.append(
                    ToolResult(call.id, call.name, (Text(found.removeprefix("error:")),), is_error=wrong)
                )
        raise AssertionError("the notebook never came to an end")

    @property
    def ran(self) -> list[tuple[str, dict[str, object]]]:
        return [(call.name, call.arguments) for call in self.calls]


def test_what_it_is_told_is_kept_and_cited():
    talk = Talk(*ALL, memory_retain="Kept as fact ab12 in memory/2026-11-15.md#L3")
    assert (
        talk.say("Remember that the gate code is 4711.") == "Noted: “the gate code is 4711.” (memory/2026-11-15.md#L3)"
    )
    assert talk.ran == [("memory_retain", {"text": "the gate code is 4711."})]


def test_it_speaks_the_memory_tools_own_form():
    retain = tool("memory_retain", "text", text="string", kind={"type": "string", "enum": ["world", "opinion"]})
    talk = Talk(retain, RECALL, memory_retain='{"status":"ok","path":"memory/2026-11-15.md","line":7,"id":"ab"}')
    assert talk.say("Peter prefers short replies.") == "Noted: “Peter prefers short replies.” (memory/2026-11-15.md#L7)"
    assert talk.ran == [("memory_retain", {"text": "Peter prefers short replies.", "kind": "opinion"})]
    broken = Talk(
        retain,
        RECALL,
        memory_retain='{"status":"error","error":"the note is read-only"}',
        memory_recall='{"items":[],"error":"no index"}',
    )
    assert broken.say("remember x is y") == "I could not keep that: the note is read-only"
    assert broken.say("what is x?") == "I could not look that up: no index"
    found = '{"results":[{"path":"m.md","startLine":3,"endLine":4,"snippet":"Tea is out.\\nMilk too.\\n\\nSource: m.md#L3-L4","source":"memory","citation":"m.md#L3-L4"}]}'
    assert Talk(SEARCH, memory_search=found).say("is tea out?") == "Your notes say: “Tea is out.” (m.md#L3)"


def test_questions_are_answered_with_quotes_and_citations():
    found = json.dumps({"results": [
        {"path": "memory/2026-11-01.md", "startLine": 4, "endLine": 4, "snippet": "- W: The gate code is 4711."},
        {"path": "memory/2026-10-01.md", "startLine": 9, "endLine": 9, "snippet": "Bought milk."},
    ]})  # fmt: skip
    talk = Talk(*ALL, memory_search=found)
    assert talk.say("What is the gate code?") == "Your notes say: “The gate code is 4711.” (memory/2026-11-01.md#L4)"
    assert talk.ran[0] == ("memory_search", {"query": "What is the gate code?"})
    assert "pin" in str(talk.ran[1]), "the second search uses other words"


def test_nothing_found_is_said_and_nothing_invented():
    talk = Talk(*ALL, memory_search='{"results": []}')
    assert talk.say("Who was my first teacher?") == NOTHING_FOUND
    other = Talk(*ALL, memory_search="Bought milk. (memory/2026-10-01.md#L9)")
    assert other.say("Who was my first teacher?") == NOTHING_FOUND


def test_search_and_grep_stand_in_for_recall():
    searched = Talk(SEARCH, memory_search="The bin goes out on Friday.\nSource: memory/x.md#L2-L3")
    assert "(memory/x.md#L2-L3)" in searched.say("when does the bin go out?")
    recalled = Talk(RECALL, memory_recall="Rex is the dog (memory/a.md#L1)")
    assert "Rex" in recalled.say("what is the dog called?")
    grepped = Talk(GREP, grep="memory/2026-11-01.md#L4: The plumber is called Joe")
    assert "Joe" in grepped.say("who is the plumber?")
    assert grepped.ran[0] == ("grep", {"pattern": "plumber", "path": "."})


def test_several_things_at_once():
    talk = Talk(*ALL, memory_retain="memory/2026-11-15.md#L1", memory_search="Rex is the dog (memory/a.md#L1)")
    said = talk.say("My cat is called Tom. What is my dog called?")
    assert [name for name, _ in talk.ran][:2] == ["memory_retain", "memory_search"]
    assert "Noted: “My cat is called Tom.” (memory/2026-11-15.md#L1)" in said
    assert "Rex is the dog" in said


def test_files_time_and_status():
    talk = Talk(
        *ALL,
        read="line one\nline two",
        ls="AGENTS.md\nmemory/",
        session_status="Model: builtin/notebook\nTime: Sunday 09:30 CET",
    )
    assert talk.say("read MEMORY.md") == "MEMORY.md:\n\nline one\nline two"
    assert talk.say("list files in memory") == "memory:\n\nAGENTS.md\nmemory/"
    assert talk.say("what time is it?") == "Time: Sunday 09:30 CET"
    assert talk.say("status") == "Model: builtin/notebook\nTime: Sunday 09:30 CET"
    assert [name for name, _ in talk.ran] == ["read", "ls", "session_status", "session_status"]
    assert Talk().say("what time is it?") == "It is Sunday, 2026-11-15 08:30 UTC by this machine's clock."


def test_a_long_file_is_cut_and_says_so():
    text = Talk(READ, read="\n".join(f"line {i}" for i in range(500))).say("read big.txt")
    assert "line 79" in text
    assert "line 80" not in text
    assert "500 lines in all" in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("remember the milk", "nothing was stored"),
        ("where is the key?", "no memory or search tool"),
        ("read A.md", "not offered"),
        ("ls", "not offered"),
        ("status", "No status tool"),
    ],
)
def test_a_missing_tool_is_named(text: str, says: str):
    assert says in Talk().say(text)


def test_failures_are_passed_on():
    talk = Talk(
        *ALL, memory_retain="error:the disk is full", read="error:no such file", memory_search="error:index locked"
    )
    assert talk.say("remember x is y") == "I could not keep that: the disk is full"
    assert talk.say("read A.md") == "I could not read A.md: no such file"
    assert talk.say("where is x?") == "I could not look that up: index locked"


def test_help_says_what_it_is_and_how_to_connect_a_model():
    said = Talk(*ALL).say("which model are you?")
    assert "not a language model" in said
    for way in ("ANTHROPIC_API_KEY", "Ollama", "homarus models pull", "homarus models set"):
        assert way in said
    assert "notebook" in Talk().say("hello")


def test_programs_get_their_tokens():
    talk = Talk(*ALL)
    assert talk.say("Check HEARTBEAT.md and reply HEARTBEAT_OK if nothing is due.") == "HEARTBEAT_OK"
    assert talk.say("Pre-compaction memory flush: store durable notes, or reply NO_REPLY.") == "NO_REPLY"
    assert talk.calls == []


def test_without_a_memory_tool_a_bullet_goes_into_todays_note():
    fresh = Talk(READ, WRITE, EDIT, read="error:no such file", write="wrote 40 bytes")
    assert fresh.say("remember that tea is out", context="Date: 2026-12-24 (Europe/Berlin)") == "Noted: “tea is out”"
    assert fresh.ran == [
        ("read", {"path": "memory/2026-12-24.md"}),
        ("write", {"path": "memory/2026-12-24.md", "content": "## Retain\n- tea is out\n"}),
    ]
    kept = Talk(READ, WRITE, EDIT, read="# Day\n\n## Retain\n- older\n", edit="ok")
    kept.say("remember that tea is out")
    assert kept.ran[1] == (
        "edit",
        {"path": "memory/2026-11-15.md", "oldText": "## Retain", "newText": "## Retain\n- tea is out"},
    )
    odd = Talk(READ, WRITE, EDIT, read="## Retain\n\n## Retain\n")
    assert "nothing was stored" in odd.say("remember that tea is out")
    assert len(odd.ran) == 1, "a note that could lose something is left alone"


def test_two_lines_without_a_memory_tool_are_written_one_after_the_other():
    talk = Talk(READ, WRITE, EDIT, read="error:no such file", write="wrote")
    talk.say("tea is out\nmilk is out")
    assert [name for name, _ in talk.ran] == ["read", "write", "read", "write"]


def test_a_tool_that_needs_more_than_we_know_is_not_called():
    picky = tool("memory_retain", "text", "secret", text="string", secret="string")
    assert "nothing was stored" in Talk(picky).say("remember x is y")
    chosen = tool("memory_retain", "content", "kind", content="string", kind={"type": "string", "enum": ["W", "B"]})
    talk = Talk(chosen, memory_retain="ok")
    talk.say("remember x is y")
    assert talk.ran == [("memory_retain", {"content": "x is y", "kind": "W"})]


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_message_and_any_result_come_to_an_end(text: str, result: str):
    names = ("memory_retain", "memory_recall", "read", "ls", "session_status", "write", "edit")
    for tools in (ALL, (READ, WRITE, EDIT), ()):
        talk = Talk(*tools, **dict.fromkeys(names, result))
        assert isinstance(talk.say(text), str)
        assert len(talk.calls) <= 8


# --- evidence --------------------------------------------------------------------------------------------------------


def found(result: str) -> list[tuple[str, str]]:
    return [(line.text, line.source) for line in lines(result)]


def test_lines_from_json_and_text():
    assert found('{"items":[{"content":"A b c","source":"m.md#L2"}]}') == [("A b c", "m.md#L2")]
    assert found('[{"text":"t","path":"m.md","line":7}]') == [("t", "m.md#L7")]
    assert found("- Ada likes tea (memory/a.md#L3)\nnoise") == [("Ada likes tea", "memory/a.md#L3")]
    assert found("first line\nsecond line\nSource: m.md#L1-L2") == [
        ("first line", "m.md#L1"),
        ("second line", "m.md#L2"),
    ]
    assert found("") == found("nothing cited") == found("[1, 2]") == []


def test_a_line_of_a_note_is_read_with_its_marks():
    line = parse(
        "- W(t=2025,sup=memory/a.md#L4) @Ann @{Big Ben}: Ann lives here. <!-- origin: web_fetch -->", "m.md#L9"
    )
    assert (line.text, line.replaces, line.struck, line.todo) == ("Ann lives here.", "memory/a.md#L4", False, False)
    assert parse("- W: ~~Ann lives here.~~", "").struck
    assert (
        strike("- O(c=0.9) @Ann: Ann likes tea. <!-- origin: web -->")
        == "- O(c=0.9) @Ann: ~~Ann likes tea.~~ <!-- origin: web -->"
    )
    assert parse(strike("- W: " + "long " * 200), "").struck
    assert parse("- [x] buy milk", "").struck
    assert parse("- [ ] buy milk", "").todo
    assert parse("- Todo: buy milk", "").todo
    assert parse("W: 5 kg", "").text == "5 kg"
    assert parse("- B vitamins help", "").text == "vitamins help"


def test_advice_for_the_model_and_empty_fields_are_no_facts():
    for text, source in (
        ("- Name:", "USER.md#L6"),
        ("How they like to be answered, when not to disturb them.", "USER.md#L14"),
        ("- Name: _(to be chosen together)_", "IDENTITY.md#L7"),
        ("# Ann", "memory/a.md#L1"),
    ):
        assert found(json.dumps({"text": text, "citation": source})) == []
    assert found(json.dumps({"text": "- Name: Ann", "citation": "USER.md#L6"})) == [("Name: Ann", "USER.md#L6")]


def answer(question, results):
    return evidence.answer(question, results, SmallReader())


def test_the_line_that_matters_is_quoted_and_cited():
    note = json.dumps({"text": "# Notes\nBought milk\nThe boiler was serviced in May", "citation": "m.md#L10-L12"})
    said = answer("when was the boiler serviced?", [note])
    assert said == "Your notes say: “The boiler was serviced in May” (m.md#L12)"
    many = json.dumps([{"text": f"The boiler was serviced on {i} May", "path": "m.md", "line": i} for i in range(1, 9)])
    assert answer("when was the boiler serviced?", [many]).count("“") == 2


def test_a_replaced_line_is_shown_as_former():
    notes = json.dumps([
        {"text": "- W: Ann lives in Graz.", "citation": "memory/2026-01-01.md#L4"},
        {"text": "- W(sup=memory/2026-01-01.md#L4): Actually Ann lives in Vienna.", "citation": "memory/2026-02-01.md#L4"},
    ])  # fmt: skip
    assert answer("Where does Ann live?", [notes]) == (
        "Your notes say: “Actually Ann lives in Vienna.” (memory/2026-02-01.md#L4)\n"
        "Before: “Ann lives in Graz.” (memory/2026-01-01.md#L4)"
    )
    assert answer("Wo wohnt Ann?", [notes]).startswith("In deinen Notizen steht: „Actually Ann lives in Vienna.“")


words = st.text(alphabet="abcde fgh.,-", min_size=1, max_size=30)


@given(st.lists(st.tuples(words, st.integers(1, 99)), max_size=5), words)
def test_every_quote_stands_in_the_result_word_for_word(rows: list[tuple[str, int]], question: str):
    said = answer(question, [json.dumps([{"text": text, "path": "m.md", "line": line} for text, line in rows])])
    sources = [" ".join(text.split()) for text, _ in rows]
    for part in re.split("[“„](?=.*[”“] \\(m)", said)[1:]:
        quoted, _, cited = re.split("([”“] \\(m.md#L)", part, maxsplit=1)
        assert any(quoted in source for source in sources)
        assert int(cited.split(")")[0]) in {line for _, line in rows}


# --- summary ---------------------------------------------------------------------------------------------------------

CONVERSATION = """<conversation>
[User]: We decided to use SQLite for the cache. Never delete files in /data/archive.
[Assistant]: Agreed, going with SQLite. Next I need to add an index to src/store.py.
[Assistant tool calls]: read(path="src/store.py")
[Tool result]: class Store: pass
[Assistant]: The index is in commit 4f2a9c1.
[User]: Please also check https://example.com/spec and mail ada@example.com by 2026-12-01.
</conversation>"""
ASKED = "Summarise under these headings:\n" + "\n".join(f"## {name}" for name in AUDITED)


def test_summary_has_the_audited_headings_and_what_must_survive():
    assert wants_summary(ASKED, CONVERSATION)
    text = summarize(ASKED, CONVERSATION)
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(AUDITED)
    for exact in (
        "/data/archive",
        "src/store.py",
        "4f2a9c1",
        "https://example.com/spec",
        "ada@example.com",
        "2026-12-01",
    ):
        assert exact in text.split("## Exact identifiers")[1]
    assert "SQLite" in text.split("## Decisions")[1].split("## ")[0]
    assert "Never delete files" in text.split("## Constraints/Rules")[1].split("## ")[0]
    assert "Please also check https://example.com/spec" in text.split("## Pending user asks")[1].split("## ")[0]
    assert summarize(ASKED, CONVERSATION) == text


def test_summary_takes_other_headings_and_an_earlier_summary():
    other = "Summarise the conversation.\n## Goal\n## Progress\n## Next Steps\n## Critical Context"
    text = summarize(other, CONVERSATION)
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
        "Goal",
        "Progress",
        "Next Steps",
        "Critical Context",
    ]
    earlier = "<previous-summary>\n## Decisions\n- Postgres was ruled out.\n</previous-summary>\n"
    assert "Postgres was ruled out." in summarize(ASKED, earlier + CONVERSATION)


def test_summary_of_nothing():
    assert "- None noted." in summarize(ASKED, "<conversation>\n[User]: hi\n</conversation>")
    assert not wants_summary("", "summarise my day")
    assert identifiers("nothing here") == []


@given(
    st.lists(
        st.sampled_from(["[User]: ", "[Assistant]: ", "[Tool result]: ", "x/y.py ", "must ", "\n", "## Goal\n", "é "]),
        max_size=40,
    )
)
def test_any_conversation_is_summarised(pieces: list[str]):
    text = summarize(ASKED, "[User]: start\n" + "".join(pieces))
    assert all(f"## {name}" in text for name in AUDITED)


# --- the provider ----------------------------------------------------------------------------------------------------


async def play(request: ModelRequest, cancel: Cancel | None = None) -> tuple[str, Stop]:
    provider = NotebookProvider(clock=ManualClock(NOW))
    events = [event async for event in provider.stream(request, cancel=cancel or Cancel())]
    assert isinstance(events[-1], Stop)
    assert sum(isinstance(event, Stop) for event in events) == 1
    return "".join(event.text for event in events if isinstance(event, TextDelta)), events[-1]


def request(text: str, **changes: object) -> ModelRequest:
    return ModelRequest("notebook", SystemPrompt("system"), (User((Text(text),)),), **changes)  # type: ignore[arg-type]


async def test_it_streams_and_stops_once():
    said, stop = await play(request("help"))
    assert said == stop.message.text
    assert stop.message.stop_reason is StopReason.STOP
    assert (stop.message.provider, stop.message.model) == ("builtin", "notebook")
    assert stop.message.usage.cost.total == 0
    assert stop.message.usage.total > 0


async def test_it_makes_tool_calls():
    said, stop = await play(request("remember x is y", tools=ALL))
    assert said == ""
    assert stop.message.stop_reason is StopReason.TOOL_USE
    assert stop.message.calls[0].name == "memory_retain"
    _, bound = await play(request("remember x is y", tools=ALL, tool_choice="none"))
    assert bound.message.calls == ()


async def test_it_summarises_when_asked_to_compact():
    _, stop = await play(ModelRequest("notebook", SystemPrompt(ASKED), (User((Text(CONVERSATION),)),)))
    assert stop.message.text.startswith("## Decisions")


async def test_it_stops_and_refuses_what_it_cannot_do():
    cancel = Cancel()
    cancel.cancel("user")
    _, stop = await play(request("help"), cancel)
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.ABORTED
    assert stop.message.stop_reason is StopReason.ABORTED
    _, schema = await play(request("fill", response_schema={"type": "object"}))
    assert schema.error is not None
    assert schema.error.kind is ModelFailure.FORMAT
    assert "no language model" in schema.error.message
    assert "homarus models set" in schema.error.cure
    for choice in ("required", "my_tool"):
        _, forced = await play(request("use it", tools=ALL, tool_choice=choice))
        assert forced.error is not None
        assert "cannot be made to call a tool" in forced.error.message


async def test_an_abort_in_the_middle_keeps_what_was_said():
    cancel = Cancel()
    provider = NotebookProvider(clock=ManualClock(NOW))
    said = ""
    async for event in provider.stream(request("help"), cancel=cancel):
        if isinstance(event, TextDelta):
            said += event.text
            cancel.cancel("enough")
        else:
            assert isinstance(event, Stop)
            assert event.message.text == said
            assert event.message.stop_reason is StopReason.ABORTED
