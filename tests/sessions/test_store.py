import json
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime

import pytest
from tests.fixtures.homes import snapshot, unpack
from tests.sessions.lines import header, jsonl, says, user

from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import CountingIds, ManualClock, SystemIds, epoch_ms
from homarus.core.errors import ConfigError, Locked, StorageError, Unknown
from homarus.core.messages import Assistant, Text, User
from homarus.core.routes import SessionKey
from homarus.sessions.home import SessionHome
from homarus.sessions.log import Form, identify, load_branch
from homarus.sessions.places import Called, Kind, Place, archived_as, visit
from homarus.sessions.settings import ResetPolicy, SessionSettings
from homarus.sessions.store import SessionStore

NOW = datetime(2026, 5, 1, 9, 0, tzinfo=UTC)
MAIN = SessionKey.parse("main")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "agents" / "main" / "sessions"


def store(folder, ids=None):
    return SessionStore(folder, "main", clock=ManualClock(NOW), ids=ids or CountingIds(), main_key="main")


def talk(sessions, key, *texts):
    with sessions.open_writer(key, cwd="/w") as writer:
        for text in texts:
            writer.append_message(User((Text(text),)))
            writer.append_message(Assistant((Text(f"re {text}"),)))


def texts(sessions, key):
    with sessions.open_writer(key) as writer:
        return [message.text for message in writer.history()]


def test_a_new_session_has_its_row_before_its_transcript(folder):
    sessions = store(folder)
    with sessions.open_writer(MAIN, cwd="/w") as writer:
        row = json.loads((folder / "sessions.json").read_text())["agent:main:main"]
        assert row["sessionId"] == writer.session_id
        assert row["sessionFile"] == str(writer.path)
        assert not writer.path.exists()
    assert sessions.find(MAIN).entry.session_started_at == 1777626000000


def test_two_processes_that_make_the_same_session_make_one(folder):
    class Meanwhile(CountingIds):
        """Another process makes the session between our look and our row."""

        def uuid(self):
            talk(store(folder, CountingIds(500)), MAIN, "theirs")
            return super().uuid()

    assert texts(store(folder, Meanwhile()), MAIN) == ["theirs", "re theirs"]
    assert len(list(folder.glob("*.jsonl"))) == 1


@pytest.mark.parametrize("ending", ["reset", "delete"])
@pytest.mark.parametrize("name", ["main", "agent:main:explicit:notes"])
def test_a_session_that_starts_over_between_the_look_and_the_lock_is_opened_where_it_is_now(folder, name, ending):
    key = SessionKey.parse(name)
    if ending == "delete" and key.is_main:
        pytest.skip("the main session cannot be deleted")
    talk(store(folder), key, "old")

    class Slow(SessionStore):
        """Looks, and comes to the lock when another process has ended the conversation."""

        ended = False

        def find(self, key):
            found = super().find(key)
            if not self.ended:
                self.ended = True
                ended = getattr(store(folder, CountingIds(500)), ending)(key)
                if ending == "reset":
                    ended.close()
            return found

    slow = Slow(folder, "main", clock=ManualClock(NOW), ids=CountingIds(900), main_key="main")
    talk(slow, key, "new")
    assert texts(store(folder), key) == ["new", "re new"]
    assert len(list(folder.glob("*.jsonl"))) == 1, "nothing grows where the old one was"


def test_nobody_opens_the_old_place_before_the_index_names_the_new_one(folder):
    talk(store(folder), MAIN, "old")
    seen = []

    watched = store(folder, CountingIds(500))
    replace = watched.index.replace

    def replaced(*args):
        with pytest.raises(Locked):
            store(folder, CountingIds(900)).open_writer(MAIN)
        seen.append(True)
        return replace(*args)

    watched.index.replace = replaced
    watched.reset(MAIN).close()
    assert seen
    assert texts(store(folder), MAIN) == []


def test_the_same_key_is_the_same_conversation(folder):
    talk(store(folder), MAIN, "one")
    talk(store(folder, CountingIds(500)), MAIN, "two")
    assert texts(store(folder), MAIN) == ["one", "re one", "two", "re two"]
    assert len(list(folder.glob("*.jsonl"))) == 1


def test_named_sessions_and_topics_have_telling_files(folder):
    sessions = store(folder)
    talk(sessions, SessionKey.parse("agent:main:explicit:notes"), "x")
    talk(sessions, SessionKey.parse("agent:main:telegram:group:-1:topic:7"), "y")
    talk(sessions, SessionKey.parse("agent:main:slack:channel:c:thread:17.5"), "z")
    names = sorted(path.name for path in folder.glob("*.jsonl"))
    assert "notes.jsonl" in names
    assert sum("-topic-7.jsonl" in name for name in names) == 1
    assert sum("-topic-17.5.jsonl" in name for name in names) == 1


def test_an_id_cannot_leave_the_folder(folder):
    sessions = store(folder)
    for bad in ("../x", "a/b", ".hidden"):
        with pytest.raises(ConfigError):
            sessions.open_writer(SessionKey.parse(f"agent:main:explicit:{bad}"))
    folder.mkdir(parents=True)
    (folder / "sessions.json").write_text(
        json.dumps({"agent:main:main": {"sessionId": "s", "sessionFile": "/etc/passwd.jsonl"}})
    )
    assert sessions.find(MAIN).place.path == folder / "s.jsonl"


def test_a_moved_home_still_finds_its_transcripts(folder):
    folder.mkdir(parents=True)
    (folder / "abc.jsonl").write_bytes(jsonl(header("abc"), user("a", None), says("b", "a")))
    (folder / "sessions.json").write_text(
        json.dumps(
            {
                "agent:main:main": {
                    "sessionId": "abc",
                    "sessionFile": "/old/home/agents/main/sessions/abc.jsonl",
                    "updatedAt": 5,
                }
            }
        )
    )
    assert texts(store(folder), MAIN) == ["a", "b"]


def test_reset_keeps_choices_and_archives_the_transcript(folder):
    sessions = store(folder)
    talk(sessions, MAIN, "one")
    sessions.update(MAIN, thinking_level="high", compaction_count=3)
    old = sessions.find(MAIN)
    with sessions.reset(MAIN) as writer:
        fresh = sessions.find(MAIN)
        assert fresh.place.path == writer.path
    assert fresh.entry.session_id != old.entry.session_id
    assert (fresh.entry.thinking_level, fresh.entry.compaction_count) == ("high", 0)
    archive = folder / f"{old.entry.session_id}.jsonl.reset.2026-05-01T09-00-00.000Z"
    assert archive.exists() and not old.place.path.exists()
    assert [place.path for place in sessions.archives()] == [archive]
    assert texts(sessions, MAIN) == []
    with sessions.reset(SessionKey.parse("agent:main:explicit:never")) as writer:
        assert writer.session_id == "never"


def test_a_session_whose_time_is_up_starts_over_when_somebody_talks(folder):
    sessions = store(folder)
    daily = SessionSettings(reset=ResetPolicy(mode="daily"))
    assert sessions.overdue(MAIN, daily, UTC) is None
    talk(sessions, MAIN, "one")
    old = sessions.find(MAIN).entry.session_id
    assert sessions.overdue(MAIN, daily, UTC) is None
    sessions.clock.advance(86_400)
    sessions.update(MAIN, last_heartbeat_text="ok")  # bookkeeping keeps nothing alive
    assert sessions.overdue(MAIN, SessionSettings(), UTC) is None
    assert sessions.overdue(MAIN, daily, UTC) == "daily"
    sessions.reset(MAIN).close()
    assert sessions.find(MAIN).entry.started_by == "reset"
    assert sessions.find(MAIN).entry.session_id != old
    assert sessions.overdue(MAIN, daily, UTC) is None


def test_a_row_without_moments_has_the_age_of_its_header(folder):
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_bytes(jsonl(header("s"), user("a", None)))
    (folder / "sessions.json").write_text(
        json.dumps({"agent:main:main": {"sessionId": "s", "updatedAt": 1777626000000}})
    )
    idle = SessionSettings(reset=ResetPolicy(mode="idle", idle_minutes=59))
    assert store(folder).overdue(MAIN, idle, UTC) == "idle"  # the header is from 08:00, and it is 09:00


def test_a_busy_session_is_not_reset(folder):
    sessions = store(folder)
    with sessions.open_writer(MAIN) as writer:
        writer.append_message(User((Text("x"),)))
        with pytest.raises(Locked):
            sessions.reset(MAIN)
    assert texts(sessions, MAIN) == ["x"]


def test_delete_archives_and_main_cannot_be_deleted(folder):
    sessions = store(folder)
    key = SessionKey.parse("agent:main:explicit:b")
    talk(sessions, key, "x")
    place = sessions.delete(key)
    assert place.path.name.startswith("b.jsonl.deleted.")
    assert sessions.find(key) is None
    assert sessions.delete(key) is None
    with pytest.raises(ConfigError):
        sessions.delete(MAIN)


def test_fork_copies_the_branch_and_leaves_the_source_alone(folder):
    sessions = store(folder)
    talk(sessions, MAIN, "one", "two")
    source = sessions.find(MAIN).place
    before = source.path.read_bytes()
    with visit(source) as opened:
        from homarus.sessions.log import load_branch

        second = list(load_branch(opened))[1].id
    whole = sessions.fork(source, "copy", label="mine")
    part = sessions.fork(source, at=second)
    talk(sessions, whole.key, "three")
    assert texts(sessions, whole.key)[-2:] == ["three", "re three"]
    assert texts(sessions, part.key) == ["one", "re one"]
    assert source.path.read_bytes() == before
    assert json.loads(whole.place.path.read_text().splitlines()[0])["parentSession"] == source.session_id
    assert whole.title == "mine"
    with pytest.raises(ConfigError, match="already"):
        sessions.fork(source, "copy")
    with pytest.raises(ConfigError, match="no entry"):
        sessions.fork(source, at="nope")


def test_transcripts_without_a_row_are_shown_when_asked_or_when_nothing_else_is(folder):
    folder.mkdir(parents=True)
    (folder / "lost.jsonl").write_bytes(jsonl(header("lost"), user("a", None)))
    sessions = store(folder)
    assert [info.name for info in sessions.list()] == ["agent:main:explicit:lost"]
    talk(sessions, MAIN, "x")
    assert [info.name for info in sessions.list()] == ["agent:main:main"]
    assert len(sessions.list(orphans=True)) == 2
    talk(sessions, SessionKey.parse("agent:main:explicit:lost"), "more")
    assert texts(sessions, SessionKey.parse("agent:main:explicit:lost")) == ["amore", "re more"]


def home_of(home):
    return SessionHome(
        home.state / "agents", clock=ManualClock(datetime(2026, 12, 1, tzinfo=UTC)), ids=CountingIds(), main_key="main"
    )


@pytest.mark.parametrize("name", ["openclaw-2026.6.11", "openclaw-2026.9.6"])
def test_real_homes_list_and_continue(tmp_path, name):
    home = unpack(name, tmp_path)
    sessions = home_of(home)
    before = snapshot(home.root)
    assert [info.name for info in sessions.list()] == ["agent:main:main", "agent:main:explicit:fixture-two"]
    assert sessions.resolve("fixture-two").entry.model == "mock-model"
    assert snapshot(home.root) == before
    with sessions.store("main").open_writer(MAIN) as writer:
        said = [message.text for message in writer.history()]
        assert said[0] == "hello there" and said[-2] == "thanks, ünïcödé 日本語 🦞" and len(said) == 12
        writer.append_message(User((Text("and on"),)))
    after = snapshot(home.root)
    untouched = {path for path in before if after.get(path, ("",))[-1] == before[path][-1]}
    changed = set(before) - untouched
    assert all("/sessions" in path or path.endswith(("main", "agents")) for path in changed), changed
    with sessions.store("main").open_writer(MAIN) as writer:
        assert writer.history()[-1].text == "and on"
    info = home_of(home).store("main").find(MAIN)
    assert info.place.kind is Kind.FILE
    if name.endswith("9.6"):
        assert info.entry.imported_from["sessionId"] == "efea1de0-e039-420f-9455-600d19cdf2c7"
        assert json.loads(info.place.path.read_text().splitlines()[0])["version"] == 3
        assert len(info.place.path.read_text().splitlines()) == 24


def test_who_talked_last_is_who_is_continued(tmp_path):
    home = unpack("openclaw-2026.9.6", tmp_path)
    sessions = home_of(home).store("main")
    talk(sessions, MAIN, "ours")
    ours = sessions.find(MAIN)
    assert ours.place.kind is Kind.FILE
    with closing(sqlite3.connect(sessions.database)) as db, db:  # a heartbeat writes the row, but nobody talked
        row = json.loads(
            db.execute("SELECT entry_json FROM session_nodes WHERE session_key = 'agent:main:main'").fetchone()[0]
        )
        later = epoch_ms(sessions.clock.now()) + 60_000
        db.execute(
            "UPDATE session_nodes SET entry_json = ? WHERE session_key = 'agent:main:main'",
            (json.dumps(row | {"updatedAt": later}),),
        )
    assert sessions.find(MAIN).place == ours.place
    with closing(sqlite3.connect(sessions.database)) as db, db:
        db.execute(
            "UPDATE session_nodes SET entry_json = ? WHERE session_key = 'agent:main:main'",
            (json.dumps(row | {"lastInteractionAt": later}),),
        )
    db.close()
    assert sessions.find(MAIN).place.kind is Kind.DATABASE
    talk(sessions, MAIN, "again")
    assert "ours" not in texts(sessions, MAIN) and "again" in texts(sessions, MAIN)
    assert ours.place.path.exists()  # nothing is lost: it is a transcript without a row now


def test_a_database_that_cannot_be_read_does_not_hide_the_rest(tmp_path, folder):
    sessions = store(folder)
    talk(sessions, MAIN, "x")
    sessions.database.parent.mkdir(parents=True)
    sessions.database.write_bytes(b"this is no database, whatever its name says" * 30)
    assert [info.name for info in sessions.list()] == ["agent:main:main"]
    assert "openclaw-agent.sqlite" in sessions.problem
    assert sessions.archives() == []
    with pytest.raises(StorageError):
        sessions.open_writer(SessionKey.parse("agent:main:explicit:new"))


def test_finding_what_a_person_means(tmp_path):
    home = SessionHome(
        tmp_path / "agents", clock=ManualClock(NOW), ids=CountingIds(), roster=["main", "work"], main_key="main"
    )
    talk(home.store("main"), MAIN, "x")
    talk(home.store("work"), SessionKey.parse("agent:work:explicit:notes"), "y")
    home.store("work").update(SessionKey.parse("agent:work:explicit:notes"), label="My Notes")
    assert home.resolve("main").name == "agent:main:main"
    assert home.resolve("my notes").agent_id == "work"
    assert home.resolve("notes", agent="work").agent_id == "work"
    assert home.resolve(home.resolve("main").entry.session_id[:36]).name == "agent:main:main"
    with pytest.raises(ConfigError, match="no session"):
        home.resolve("nothing like it")
    assert home.agents() == ["main", "work"]


def test_what_only_looks_like_a_transcript_is_none(folder):
    folder.mkdir(parents=True)
    for name in (
        "s.trajectory.jsonl",
        "s.checkpoint.0b1.jsonl",
        "s.jsonl.lock",
        "s.jsonl.flat.bak",
        "s.jsonl.corrupt.x",
    ):
        (folder / name).write_bytes(b'{"traceSchema":"openclaw-trajectory","type":"session.started","seq":1}\n')
    assert store(folder).list(orphans=True) == []
    assert identify(folder / "s.trajectory.jsonl").form is Form.CORRUPT


def test_places_know_archives(folder):
    place = Place("main", "s", Kind.DATABASE, folder / "x.sqlite")
    assert place.label == "x.sqlite#s"


def test_the_file_of_a_topic_without_a_row_has_a_name_of_its_own(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("s1.jsonl", "s1-topic-77.jsonl"):
        (folder / name).write_bytes(jsonl(header("s1"), user("a", None, name)))
    found = store(folder).list(orphans=True)
    assert sorted(info.name for info in found) == ["agent:main:explicit:s1", "agent:main:explicit:s1-topic-77"]
    topic = SessionKey.parse("agent:main:explicit:s1-topic-77")
    with store(folder).open_writer(topic) as session:
        assert session.history()[0].text == "s1-topic-77.jsonl"
        session.append_message(User((Text("more"),)))
    assert b"more" in (folder / "s1-topic-77.jsonl").read_bytes()
    assert len(store(folder).list(orphans=True)) == 2
    home = SessionHome(folder.parent.parent, clock=ManualClock(NOW), ids=CountingIds(), main_key="main")
    assert home.resolve("s1").place.path.name == "s1.jsonl"
    assert home.resolve("s1-topic-77").place.path.name == "s1-topic-77.jsonl"


def test_a_store_of_a_configuration_knows_the_name_of_the_main_session(tmp_path):
    env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}
    (tmp_path / "openclaw.json").write_text("{ session: { mainKey: 'home' } }")
    config = load_config(resolve_paths(env), env)
    clock, ids = ManualClock(NOW), CountingIds()
    sessions = SessionStore.of(config, "main", clock=clock, ids=ids)
    talk(sessions, sessions.key("home"), "hello")
    assert [info.name for info in sessions.list()] == ["agent:main:home"]
    assert SessionHome.of(config, clock=clock, ids=ids).resolve("main").key.is_main


def test_a_session_that_somebody_else_writes_can_be_waited_for(folder):
    sessions = store(folder)
    writer = sessions.open_writer(MAIN)
    writer.append_message(User((Text("one"),)))
    threading.Timer(0.2, writer.close).start()
    with sessions.open_writer(MAIN, wait=30) as second:
        second.append_message(User((Text("two"),)))
    assert texts(sessions, MAIN) == ["onetwo"]


def shortest(ident: str) -> str:
    """As little of an id as is enough: four characters, or more where a number stands at its beginning."""
    return next(ident[:size] for size in range(4, 9) if size == 8 or not ident[:size].isdigit())


class LetterIds(SystemIds):
    """Ids that begin with a letter: one of digits alone could be a number that somebody gave as a name."""

    def uuid(self) -> str:
        return "e" + super().uuid()[1:]


def ids_home(tmp_path, *keys: str) -> SessionHome:
    home = SessionHome(
        tmp_path / "agents", clock=ManualClock(NOW), ids=LetterIds(), roster=["main", "work"], main_key="main"
    )
    for key in keys:
        talk(home.store(SessionKey.parse(key).agent_id), SessionKey.parse(key), "x")
    return home


def test_what_speaks_into_a_session_resolves_like_what_shows_it_and_is_stricter(tmp_path):
    home = ids_home(tmp_path, "agent:main:garden", "agent:work:explicit:notes", "agent:main:explicit:user-12")
    garden = SessionKey.parse("agent:main:garden")
    ident = home.resolve("garden").entry.session_id
    home.store("main").rename(garden, "The Garden")
    assert home.key("the garden") == home.key(ident) == home.key(ident[:8]) == garden
    assert home.key("notes") == SessionKey.parse("agent:work:explicit:notes")
    assert home.key("notes", "main") == SessionKey.parse("agent:main:notes")  # a new one: this agent has none
    # A program's name is never taken for the beginning of another; what a person types is, wherever they type it.
    short = shortest(ident)
    assert home.key("user-1") == home.key("user-1", typed=True) == SessionKey.parse("agent:main:user-1")
    assert home.key(short) == SessionKey.parse(f"agent:main:{short}")
    assert home.resolve(short).key == home.key(short, typed=True) == garden
    # A whole key is what it says, and main is main, whatever somebody called a session.
    home.store("work").update(SessionKey.parse("agent:work:explicit:notes"), label="main")  # by an older version
    assert home.key("main").is_main and home.key("agent:main:new") == SessionKey.parse("agent:main:new")


def test_a_number_is_a_name_and_not_the_beginning_of_an_id(tmp_path):
    class Numbers(SystemIds):
        def uuid(self) -> str:
            return "12345678" + super().uuid()[8:]

    home = SessionHome(tmp_path / "agents", clock=ManualClock(NOW), ids=Numbers(), main_key="main")
    garden = SessionKey.parse("agent:main:garden")
    talk(home.store("main"), garden, "x")
    assert home.key("1234567", typed=True) == SessionKey.parse("agent:main:1234567")
    assert home.key("12345678", typed=True) == home.resolve("12345678").key == garden
    with pytest.raises(Unknown):
        home.resolve("1234567")


def test_the_name_of_a_sub_agent_is_not_spoken_to(tmp_path):
    home = ids_home(tmp_path, "agent:main:subagent:1234")
    home.store("main").rename(SessionKey.parse("agent:main:subagent:1234"), "research")
    assert home.resolve("research").key.is_subagent
    assert home.key("research") == SessionKey.parse("agent:main:research")


def test_several_that_are_meant_are_an_error_that_lists_them(tmp_path):
    home = ids_home(tmp_path, "agent:main:one", "agent:work:two")
    for name in ("agent:main:one", "agent:work:two"):
        home.store(name.split(":")[1]).rename(SessionKey.parse(name), "Tea")
    for ask in (home.resolve, home.key, home.place):
        with pytest.raises(Unknown, match=r"could be any of 2: agent:.*agent:"):
            ask("tea")
    assert home.key("tea", "work") == SessionKey.parse("agent:work:two")
    with pytest.raises(Unknown, match="did you mean agent:main:one"):
        home.resolve("onee")


def test_a_name_belongs_to_one_session_and_stays_with_its_conversation(tmp_path):
    home = ids_home(tmp_path, "agent:main:main", "agent:main:other")
    store = home.store("main")
    before = store.find(MAIN)
    store.rename(MAIN, "  Tea   talk ")
    assert store.find(MAIN).title == "Tea talk" and store.find(MAIN).entry.updated_at == before.entry.updated_at
    with pytest.raises(Unknown, match="agent:main:main is called"):
        store.rename(SessionKey.parse("agent:main:other"), "tea TALK")
    store.reset(MAIN, by="new").close()
    assert store.find(MAIN).title == ""
    (archive,) = store.archives()
    assert archived_as(archive) == Called("Tea talk", "agent:main:main")
    assert home.place("tea talk") == home.place(shortest(archive.session_id)) == archive
    with visit(archive) as source:  # the name hides nothing of what was said
        assert [entry.type for entry in load_branch(source)][-2:] == ["message", "session_info"]
    store.rename(SessionKey.parse("agent:main:other"), "Tea talk")
    assert store.delete(SessionKey.parse("agent:main:other")) in store.archives()
    with pytest.raises(Unknown, match="could be any of 2"):
        home.place("tea talk")


def test_the_id_of_what_was_put_away_is_no_name_for_a_new_session(tmp_path):
    home = ids_home(tmp_path, "agent:main:main", "agent:main:trip")
    home.store("main").reset(MAIN, by="new")
    (archive,) = home.archives()
    for word in (archive.session_id, archive.session_id[:8]):
        with pytest.raises(Unknown, match=f"was put away .'homarus sessions resume {archive.session_id[:8]}'"):
            home.key(word)
    again = home.revive(archive)
    assert home.key(archive.session_id) == home.key(archive.session_id[:8]) == again.key
    assert again.name.endswith("-again") and home.revive(archive).name == again.name
    assert home.key("user-1") == SessionKey.parse("agent:main:user-1")  # a new name is none of an archive


def test_what_was_deleted_keeps_its_key_and_gets_it_back(tmp_path):
    home = ids_home(tmp_path, "agent:main:trip", "agent:main:explicit:notes", "agent:main:telegram:direct:42")
    store = home.store("main")
    trip, notes, chat = (store.delete(store.key(key)) for key in ("trip", "explicit:notes", "telegram:direct:42"))
    assert archived_as(trip) == Called("", "agent:main:trip")
    assert home.place("trip") == home.place("agent:main:trip") == trip and home.place("notes") == notes
    assert home.title(trip) == "trip"
    assert home.key("trip") == SessionKey.parse("agent:main:trip")  # the name is free for a new session meanwhile
    assert home.revive(trip).name == "agent:main:trip" and home.revive(trip).place == home.place("trip")
    assert home.revive(chat).name.endswith("-again")  # the chat itself begins anew
    talk(store, store.key("explicit:notes"), "others")
    assert home.revive(notes).name == "agent:main:explicit:notes-again"
    assert home.place("notes") == store.find(store.key("explicit:notes")).place  # what lives comes first
    store.delete(store.key("trip"))
    with pytest.raises(Unknown, match="could be any of 2"):
        home.place("trip")


def test_what_cannot_be_appended_to_is_put_away_as_it_is(folder):
    folder.mkdir(parents=True)
    old, sessions = b'{"role":"user","content":"flat"}\n', store(folder)
    (folder / "old.jsonl").write_bytes(old)
    archive = sessions.delete(SessionKey.parse("agent:main:explicit:old"))
    assert archive.path.read_bytes() == old and [path.name for path in folder.glob("*.bak")] == []


def test_a_transcript_without_a_row_can_be_deleted_and_one_in_a_database_cannot(folder, tmp_path):
    old = unpack("openclaw-2026.9.6", tmp_path)
    kept = next(info for info in home_of(old).list() if info.place.kind is Kind.DATABASE and not info.key.is_main)
    with pytest.raises(Unknown, match="only read"):
        home_of(old).store("main").delete(kept.key)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lost.jsonl").write_bytes(jsonl(header("lost"), user("a", None, "hello")))
    sessions = store(folder)
    assert sessions.delete(SessionKey.parse("agent:main:explicit:lost")) in sessions.archives()
    assert not (folder / "lost.jsonl").exists()
