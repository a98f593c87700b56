import json
import os

import pytest
from tests.sessions.lines import compress, entry, header, jsonl, result, says, user

from homarus.core.errors import StorageError
from homarus.core.messages import Assistant, Text, ToolResult, User
from homarus.sessions.log import Form, identify, load_branch, load_tail, opened, read_entries, session_id_of
from homarus.sessions.view import project, visible


def put(tmp_path, data, name="s1.jsonl"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def texts(path):
    return [m.text for m in project(visible(load_tail(identify(path)).entries))]


def test_version_1_gets_ids_parents_and_its_kept_entry(tmp_path):
    rows = [
        {"type": "session", "id": "old", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/"},
        *(
            {"type": "message", "timestamp": "2025-01-01T00:00:01.000Z", "message": {"role": "user", "content": t}}
            for t in "abc"
        ),
        {
            "type": "compaction",
            "timestamp": "2025-01-01T00:00:02.000Z",
            "summary": "S",
            "firstKeptEntryIndex": 3,
            "tokensBefore": 9,
        },
        {"type": "message", "message": {"role": "user", "content": "d"}},
    ]
    path = put(tmp_path, jsonl(*rows))
    assert identify(path).form is Form.OLD
    found = list(read_entries(identify(path)))
    assert len({e.id for e in found}) == 5
    assert [e.parent_id for e in found] == [None, *(e.id for e in found[:-1])]
    assert texts(path)[1:] == ["c", "d"]


def test_version_2_hook_messages_become_custom(tmp_path):
    row = entry("message", "h", None, message={"role": "hookMessage", "content": "note"})
    path = put(tmp_path, jsonl(header(version=2), row))
    found = next(iter(read_entries(identify(path))))
    assert (found.role, found.body["customType"]) == ("custom", "hook")
    assert texts(path) == ["note"]


@pytest.mark.parametrize("version", [3, 4])
def test_versions_3_and_4_are_read_as_they_are(tmp_path, version):
    path = put(tmp_path, jsonl(header(version=version), user("a", None), says("b", "a")))
    assert identify(path).form is Form.TREE
    assert texts(path) == ["a", "b"]


def test_header_alone_and_nothing_at_all(tmp_path):
    assert texts(put(tmp_path, jsonl(header()))) == []
    assert identify(put(tmp_path, b"")).form is Form.EMPTY
    assert identify(tmp_path / "none.jsonl").form is Form.EMPTY
    assert identify(put(tmp_path, b"garbage\n{\n")).form is Form.CORRUPT


def test_flat_form_with_tools(tmp_path):
    rows = [
        {"role": "user", "content": "How?", "timestamp": "2026-04-15T10:01:00Z"},
        {"role": "tool", "name": "read_file", "input": {"path": "/a"}, "timestamp": "2026-04-15T10:01:05Z"},
        {"role": "tool_result", "name": "read_file", "content": "...", "timestamp": "2026-04-15T10:01:05Z"},
        {"role": "assistant", "content": "So.", "timestamp": "2026-04-15T10:01:09Z"},
    ]
    said = project(visible(load_tail(identify(put(tmp_path, jsonl(*rows)))).entries))
    assert [type(m) for m in said] == [User, Assistant, ToolResult, Assistant]
    assert said[1].calls[0].id == said[2].call_id == "call_1"
    assert said[1].calls[0].arguments == {"path": "/a"}
    assert said[3].timestamp == 1776247269000


def test_flat_calls_side_by_side_pair_by_order_and_name(tmp_path):
    rows = [
        {"role": "tool", "name": "a", "input": {}},
        {"role": "tool", "name": "b", "input": {}},
        {"role": "tool_result", "name": "b", "content": "B"},
        {"role": "tool_result", "name": "a", "content": "A"},
    ]
    said = project(visible(load_tail(identify(put(tmp_path, jsonl(*rows)))).entries))
    assert [c.name for c in said[0].calls] == ["a", "b"]
    assert [(m.call_id, m.text) for m in said[1:]] == [("call_2", "B"), ("call_1", "A")]


def test_flat_form_with_turns(tmp_path):
    row = {"turn": 1, "role": "assistant", "content": "回應內容", "timestamp": "2026-03-29T19:05:00Z", "tools": []}
    found = next(iter(read_entries(identify(put(tmp_path, jsonl(row))))))
    assert found.message == Assistant((Text("回應內容"),), timestamp=1774811100000)
    assert found.body["details"] == {"turn": 1, "tools": []}


def test_a_torn_last_line_is_skipped(tmp_path):
    whole = jsonl(header(), user("a", None), says("b", "a"))
    assert texts(put(tmp_path, whole[:-9])) == ["a"]


def test_damaged_lines_give_back_what_is_whole_in_them(tmp_path):
    a, b, c = (jsonl(row) for row in (user("a", None), says("b", "a"), user("c", "b")))
    assert texts(put(tmp_path, jsonl(header()) + a + b"\0" * 512 + b + c)) == ["a", "b", "c"]
    assert texts(put(tmp_path, jsonl(header()) + a + b[:40] + c)) == ["a", "c"]
    assert texts(put(tmp_path, jsonl(header()) + a[:-1] + b + c)) == ["a", "b", "c"]
    assert texts(put(tmp_path, b"\xef\xbb\xbf" + (jsonl(header()) + a + b).replace(b"\n", b"\r\n"))) == ["a", "b"]


def test_a_lost_header_does_not_lose_the_conversation(tmp_path):
    path = put(tmp_path, b'{"type":"sess\n' + jsonl(user("a", None), says("b", "a")))
    assert identify(path).form is Form.HEADLESS
    assert texts(path) == ["a", "b"]


def test_spellings_of_content_and_calls(tmp_path):
    rows = [
        user("u", None) | {"message": {"role": "user", "content": "plain"}},
        entry(
            "message",
            "a",
            "u",
            message={
                "role": "assistant",
                "content": [
                    {"type": "toolUse", "id": "1", "name": "x", "input": {"k": 1}},
                    {"type": "functionCall", "id": "2", "name": "y", "arguments": "{}"},
                ],
            },
        ),
        entry(
            "message",
            "r",
            "a",
            message={
                "role": "toolResult",
                "toolUseId": "1",
                "toolName": "x",
                "content": {"type": "text", "text": "one"},
            },
        ),
        entry("message", "s", "r", message={"role": "assistant", "content": "done"}),
    ]
    said = project(visible(load_tail(identify(put(tmp_path, jsonl(header(), *rows)))).entries))
    assert [c.arguments for c in said[1].calls] == [{"k": 1}, {}]
    assert (said[2].call_id, said[2].text, said[3].text) == ("1", "one", "done")


def test_calls_that_a_cut_stream_left_incomplete_are_none(tmp_path):
    blocks = [
        {"type": "toolCall", "id": "1", "name": "x"},
        {"type": "toolCall", "id": "2", "name": "x", "arguments": {}, "partialJson": '{"a": 1'},
        {"type": "toolCall", "id": "3", "name": "x", "arguments": {"a": 1}, "partialArgs": '{"a": 1}'},
        {"type": "toolCall", "id": "4", "name": "x", "arguments": '{"a'},
    ]
    row = entry("message", "a", None, message={"role": "assistant", "content": blocks})
    said = project(visible(load_tail(identify(put(tmp_path, jsonl(header(), row)))).entries))
    assert [c.id for c in said[0].calls] == ["3"]


def test_roles_that_become_words_of_the_user(tmp_path):
    rows = [
        entry(
            "message",
            "b",
            None,
            message={"role": "bashExecution", "command": "ls", "output": "a\n```\nb", "exitCode": 2},
        ),
        entry(
            "message",
            "x",
            "b",
            message={"role": "bashExecution", "command": "pw", "output": "", "excludeFromContext": True},
        ),
        entry("custom_message", "c", "x", customType="p", content=[{"type": "text", "text": "hey"}], display=True),
        entry("branch_summary", "s", "c", fromId="z", summary="tried it"),
    ]
    shell, note, branch = project(visible(load_tail(identify(put(tmp_path, jsonl(header(), *rows)))).entries))
    assert "````\na\n```\nb\n````" in shell.text and "exit code 2" in shell.text
    assert note.text == "hey"
    assert "<summary>\ntried it\n</summary>" in branch.text


def test_volatile_text_joins_the_message_it_rode_on(tmp_path):
    def ride(ident, parent, text):
        return entry(
            "custom_message", ident, parent, customType="openclaw.runtime-context", content=text, display=False
        )

    rows = [user("u", None), ride("x", "u", "it is monday"), says("a", "x"), ride("y", "a", "nobody's")]
    said = project(visible(load_tail(identify(put(tmp_path, jsonl(header(), *rows)))).entries))
    assert [m.text for m in said] == ["u", "a"]
    assert said[0].context == "it is monday"


def test_archives_packed_and_plain(tmp_path):
    data = jsonl(header(), user("a", None), says("b", "a"))
    packed = put(tmp_path, compress(data), "s1.jsonl.reset.2026-05-01T08-00-00.000Z.zst")
    with opened(packed) as source:
        assert [e.id for e in load_branch(source)] == ["a", "b"]
        place = source.path
    assert not place.exists()
    assert os.listdir(tmp_path) == [packed.name]
    broken = put(tmp_path, compress(data)[:-9], "s2.jsonl.zst")
    with pytest.raises(StorageError, match="cannot unpack"), opened(broken):
        pass


@pytest.mark.parametrize(
    ("name", "ident"),
    [
        ("abc.jsonl", "abc"),
        ("abc-topic-7.jsonl", "abc"),
        ("abc.jsonl.reset.2026-01-01T00-00-00.000Z", "abc"),
        ("abc.jsonl.deleted.x.zst", "abc"),
    ],
)
def test_the_id_in_a_file_name(tmp_path, name, ident):
    assert session_id_of(tmp_path / name) == ident


def test_a_large_file_is_read_from_its_tail_only(tmp_path):
    filler = "x" * 2000
    rows = [user(f"n{i}", f"n{i - 1}" if i else None, filler) for i in range(2000)]
    rows += [entry("compaction", "k", "n1999", summary="S", firstKeptEntryId="n1999"), user("z", "k")]
    path = put(tmp_path, jsonl(header(), *rows))
    with path.open("r+b") as file:  # a hole where nobody should look
        file.seek(1000)
        file.write(b"\xff" * 1_000_000)
    assert [e.id for e in load_tail(identify(path)).entries] == ["n1999", "k", "z"]


def test_the_whole_branch_streams_in_order(tmp_path):
    rows = [user("a", None), says("b", "a"), user("side", "a"), user("c", "b")]
    path = put(tmp_path, jsonl(header(), *rows))
    assert [e.id for e in load_branch(identify(path))] == ["a", "b", "c"]
    swapped = put(tmp_path, jsonl(header(), rows[3], rows[1], rows[0]), "s2.jsonl")
    assert [e.id for e in load_branch(identify(swapped))] == ["a", "b", "c"]


def test_nothing_is_lost_of_what_is_not_understood(tmp_path):
    row = entry("message", "a", None, message={"role": "user", "content": "x", "novel": {"b": [1, None]}}, extra="é")
    data = json.dumps(row, separators=(", ", ": ")).encode() + b"\n"
    path = put(tmp_path, jsonl(header()) + data)
    assert next(iter(read_entries(identify(path)))).raw == data[:-1]


def test_results_of_one_turn(tmp_path):
    rows = [user("u", None), says("a", "u", calls=("1",)), result("r", "a", "1")]
    said = project(visible(load_tail(identify(put(tmp_path, jsonl(header(), *rows)))).entries))
    assert said[2].parts == (Text("r"),)
