import json
import sqlite3
from contextlib import closing

import pytest
from tests.fixtures.homes import unpack
from tests.sessions.lines import compress, entry, header, jsonl, result, says, user

from homarus.sessions.places import Kind, Place
from homarus.sessions.search import FILE, SessionSearch, snippet


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "t").mkdir()
    return tmp_path / "t"


def put(folder, name, *rows):
    path = folder / f"{name}.jsonl"
    path.write_bytes(jsonl(header(name), *rows))
    return Place("main", name, Kind.FILE, path)


def find(folder, places, text, **more):
    with SessionSearch(folder.parent / FILE) as index:
        index.refresh(places)
        return [hit.entry_id for hit in index.find(text, **more)]


def test_words_phrases_prefixes_and_any(folder):
    place = put(
        folder,
        "s",
        user("a", None, "Call the plumber on Monday"),
        says("b", "a", "The Plumber's call is noted, Crème brûlée"),
        user("c", "b", "nothing here"),
    )
    assert find(folder, [place], "the plumber")[0] == "a"
    assert set(find(folder, [place], "plumber")) == {"a", "b"}
    assert find(folder, [place], "creme brulee") == ["b"]
    assert set(find(folder, [place], "plumb")) == {"a", "b"}
    assert find(folder, [place], "nothing whatsoever") == ["c"]
    assert find(folder, [place], '"; DROP TABLE docs; --') == []
    assert find(folder, [place], "  ") == []


def test_the_conversations_that_hold_beginnings_of_all_words_each_once_and_the_newest_first(folder):
    places = [
        put(folder, "old", user("a", None, "the red lamp"), says("b", "a", "a red lamp it is")),
        put(folder, "new", user("c", None, "lamps that are red", timestamp="2027-01-01T00:00:00.000Z")),
        put(folder, "other", user("d", None, "red wine"), user("e", "d", "東京駅で")),
    ]
    with SessionSearch(folder.parent / FILE) as index:
        index.refresh(places)

        def held(text, agents=("main",)):
            return [hit.session_id for hit in index.conversations(text, agents=agents)]

        assert held("re lam") == ["new", "old"] and held("red", agents=("work",)) == []
        assert held("東京駅") == held("東") == ["other"] and held("lamp zeppelin") == held(" ?! ") == []
        assert index.conversations("re lam", agents=["main"])[0].place == str(places[1].path)


def test_scripts_without_spaces(folder):
    place = put(
        folder,
        "s",
        user("a", None, "明日の会議は東京駅で午後三時"),
        user("b", "a", "ภาษาไทยง่ายนิดเดียว"),
        user("c", "b", "no"),
    )
    for text in ("東京駅", "会議", "東", "午後三時"):
        assert find(folder, [place], text) == ["a"], text
    assert find(folder, [place], "ง่าย") == ["b"]
    assert find(folder, [place], "100%") == []


def test_tool_results_only_when_asked(folder):
    place = put(
        folder,
        "s",
        user("a", None),
        says("b", "a", calls=("1",)),
        result("r", "b", "1", "secretword"),
        entry("compaction", "k", "r", summary="summaryword", firstKeptEntryId="r"),
    )
    assert find(folder, [place], "secretword") == []
    assert find(folder, [place], "secretword", roles=("tool",)) == ["r"]
    assert find(folder, [place], "summaryword") == ["k"]


def test_it_catches_up_with_what_was_appended_and_no_more(folder):
    place = put(folder, "s", user("a", None, "alpha"))
    with SessionSearch(folder.parent / FILE) as index:
        assert index.refresh([place]) == 1
        assert index.refresh([place]) == 0
        with place.path.open("ab") as file:
            file.write(jsonl(user("b", "a", "beta"))[:-1])  # not finished yet
        assert index.refresh([place]) == 0
        with place.path.open("ab") as file:
            file.write(b"\n" + jsonl(user("c", "b", "gamma")))
        assert index.refresh([place]) == 2
        assert index.count() == 3


def test_what_is_gone_is_forgotten_and_what_changed_is_read_anew(folder):
    one, two = put(folder, "one", user("a", None, "alpha")), put(folder, "two", user("b", None, "alpha"))
    assert set(find(folder, [one, two], "alpha")) == {"a", "b"}
    assert find(folder, [one], "alpha") == ["a"]
    put(folder, "one", user("x", None, "omega"))
    assert find(folder, [one], "alpha") == []
    assert find(folder, [one], "omega") == ["x"]
    one.path.unlink()
    assert find(folder, [], "omega") == []


def test_a_deleted_or_damaged_index_is_built_again(folder):
    place = put(folder, "s", user("a", None, "alpha"))
    index = folder.parent / FILE
    assert find(folder, [place], "alpha") == ["a"]
    for name in folder.parent.glob(f"{FILE}*"):
        name.unlink()
    assert find(folder, [place], "alpha") == ["a"]
    with closing(sqlite3.connect(index)) as db, db:
        db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    data = bytearray(index.read_bytes())
    data[4096 : len(data) - 1000] = b"\xff" * (len(data) - 5096)
    index.write_bytes(bytes(data))
    place.path.write_bytes(place.path.read_bytes() + jsonl(user("b", "a", "beta")))
    assert find(folder, [place], "beta") == ["b"]
    assert find(folder, [place], "alpha") == ["a"]


def test_archives_flat_files_and_databases(folder, tmp_path):
    packed = folder / "z.jsonl.reset.2026-01-01T00-00-00.000Z.zst"
    packed.write_bytes(compress(jsonl(header("z"), user("a", None, "packedword"))))
    flat = folder / "f.jsonl"
    flat.write_text(json.dumps({"role": "user", "content": "flatword"}))
    home = unpack("openclaw-2026.9.6", tmp_path)
    database = home.state / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    places = [
        Place("main", "z", Kind.ARCHIVE, packed),
        Place("main", "f", Kind.FILE, flat),
        Place("main", "fixture-two", Kind.DATABASE, database),
    ]
    assert find(folder, places, "packedword") == ["a"]
    assert len(find(folder, places, "flatword")) == 1
    assert find(folder, places, "run something") == ["8dd699b1-a2b1-47ba-a95a-cf93118d1bf4"]
    with SessionSearch(folder.parent / FILE) as index:
        assert index.refresh(places) == 0


def test_snippets_show_the_place():
    text = "x " * 200 + "the needle " + "y " * 200
    assert "needle" in snippet(text, "needle") and len(snippet(text, "needle")) < 170
    assert snippet("a\n\tb", "zzz") == "a b"
