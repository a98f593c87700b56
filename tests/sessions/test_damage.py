"""Any transcript, damaged in any way: it loads, its history is valid, it can be continued, and nothing readable is lost."""

import json
import random
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.sessions.lines import entry, header, jsonl, result, says, user
from tests.sessions.provider_rules import check_anthropic, check_both, check_openai

from homarus.core.clock import CountingIds, ManualClock
from homarus.core.messages import Assistant, Text, User
from homarus.sessions.check import check_place
from homarus.sessions.entry import NEWEST_READABLE
from homarus.sessions.export import render
from homarus.sessions.log import identify, load_branch, read_entries
from homarus.sessions.places import Kind, Place
from homarus.sessions.repair import OPENAI, STRICT, repair
from homarus.sessions.writer import SessionWriter

CLOCK = datetime(2026, 5, 1, 9, 0, tzinfo=UTC)


class Story:
    """A random transcript. A plain one is a single line of talk; others have branches, boundaries and oddities."""

    def __init__(self, rng: random.Random, plain: bool) -> None:
        self.rng = rng
        self.plain = plain
        self.rows = [header(version=rng.choice([3, 3, 3, 4]))]
        self.leaf: str | None = None
        self.count = 0
        for _ in range(rng.randrange(0, 7)):
            self.turn()

    def add(self, make, *args, **more):
        self.count += 1
        ident = f"e{self.count}"
        minute = self.count if self.rng.random() < 0.8 else max(0, self.count - 1)
        self.rows.append(make(ident, self.leaf, *args, minute=minute, **more))
        self.leaf = ident

    def turn(self):
        rng = self.rng
        self.add(user)
        if rng.random() < 0.3:
            self.add(
                lambda i, p, minute: entry(
                    "custom_message", i, p, minute, customType="openclaw.runtime-context", content="ctx"
                )
            )
        for _ in range(rng.randrange(0, 3)):
            calls = rng.sample(["c1", "c2", "c3", "c4"], rng.randrange(1, 4))  # ids come again in later turns
            self.add(says, calls=calls)
            for call in rng.sample(calls, len(calls)):
                self.add(result, call)
        if rng.random() < 0.9:
            self.add(says, stopReason=rng.choice(["stop", "stop", "error", "aborted", "length"]))
        if not self.plain and rng.random() < 0.4:
            self.oddity()

    def oddity(self):
        rng = self.rng
        ids = [row["id"] for row in self.rows[1:]]
        kind = rng.choice(["compaction", "reset", "leaf", "branch", "novelty", "label", "side"])
        if kind == "compaction":
            self.add(
                lambda i, p, minute: entry(
                    "compaction",
                    i,
                    p,
                    minute,
                    summary=f"S{i}",
                    firstKeptEntryId=rng.choice([*ids, "?"]),
                    tokensBefore=1,
                )
            )
        elif kind == "reset":
            self.add(lambda i, p, minute: entry("reset", i, p, minute, reason="new"))
        elif kind == "leaf":
            target = rng.choice([*ids, "?"])
            self.add(lambda i, p, minute: entry("leaf", i, p, minute, targetId=target))
        elif kind == "branch":
            self.leaf = rng.choice([*ids, None])
        elif kind == "label":
            self.add(lambda i, p, minute: entry("label", i, p, minute, targetId=rng.choice(ids), label="x"))
        else:
            self.add(lambda i, p, minute: entry("novelty", i, p, minute, appendMode="side"))


def damage(data: bytes, rng: random.Random) -> tuple[bytes, bool]:
    """Return the damaged bytes, and whether a line now says something else while it still can be read."""
    forged = False
    for _ in range(rng.randrange(0, 4)):
        lines = data.splitlines(keepends=True)
        place = rng.randrange(len(lines)) if lines else 0
        match rng.choice(["cut", "drop", "double", "swap", "shuffle", "flip", "zeros", "glue", "half", "garbage"]):
            case "cut":
                data = data[: rng.randrange(len(data) + 1)]
                continue
            case "drop":
                lines[place : place + rng.randrange(1, 4)] = []
            case "double" if lines:
                lines.insert(rng.randrange(len(lines) + 1), lines[place])
            case "swap" if len(lines) > 1:
                other = rng.randrange(len(lines))
                lines[place], lines[other] = lines[other], lines[place]
            case "shuffle":
                rng.shuffle(lines)
            case "flip" if lines and lines[place]:
                at = rng.randrange(len(lines[place]))
                lines[place] = lines[place][:at] + bytes([rng.randrange(256)]) + lines[place][at + 1 :]
                forged = forged or parses(lines[place])
            case "zeros" if lines:
                lines[place] = b"\0" * rng.randrange(1, 600) + lines[place]
            case "glue" if lines:
                lines[place] = lines[place].rstrip(b"\n")
            case "half" if lines:
                lines[place] = lines[place][: rng.randrange(len(lines[place]) + 1)]
            case "garbage":
                lines.insert(
                    place,
                    rng.choice(
                        [b"null\n", b"[]\n", b"{}\n", b'{"type":1,"id":2}\n', b'"x"\n', rng.randbytes(30) + b"\n"]
                    ),
                )
        data = b"".join(lines)
    return data, forged


def parses(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def intact(data: bytes) -> set[str]:
    """The ids of the messages whose whole line can be read."""
    found = set()
    for line in data.split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and row.get("type") == "message" and isinstance(row.get("id"), str):
            found.add(row["id"])
    return found


def follow(data: bytes, folder: Path, *, plain: bool, forged: bool = False) -> None:
    path = folder / "s1.jsonl"
    path.write_bytes(data)
    if forged and identify(path).header.version > NEWEST_READABLE:
        return  # now it says that it is of a version to come, and is only read
    readable = intact(data)
    known = {e.id for e in read_entries(identify(path))}
    assert readable <= known
    plain = plain and not forged
    if plain:
        assert readable <= {e.id for e in load_branch(identify(path))}
    before = None
    for number in range(2):
        with SessionWriter(path, "s1", clock=ManualClock(CLOCK), ids=CountingIds(1000 * number + 1)) as session:
            if plain:
                assert readable <= {e.id for e in session.branch}
            history = session.history(STRICT)
            check_both(history)
            assert repair(history, STRICT) == history
            check_openai(session.history(OPENAI))
            assert before is None or forged or history == before
            for said in (User((Text(f"new {number}"),)), Assistant((Text(f"answer {number}"),))):
                session.append_message(said, durable=False)
                check_openai(session.history(OPENAI))
                check_anthropic(session.history(STRICT))
            before = session.history(STRICT)
            assert before[-1].text.endswith(f"answer {number}")
    kept = [p.read_bytes() for p in folder.iterdir()]
    assert any(content == data or content.startswith(data.removesuffix(b"\n")) for content in kept)


def one_case(seed: int) -> None:
    rng = random.Random(seed)
    plain = rng.random() < 0.6
    data, forged = damage(jsonl(*Story(rng, plain).rows), rng)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        follow(data, Path(folder), plain=plain, forged=forged)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**63))
@example(157_226_541_419_635_776)  # a line doubled behind a reset, and a marker that leads to what hangs on it
def test_a_damaged_transcript_goes_on(seed):
    one_case(seed)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(25))
def test_twenty_five_thousand_damaged_transcripts(part):
    for seed in range(part * 1000, (part + 1) * 1000):
        try:
            one_case(seed)
            one_older_case(seed, "v1" if seed % 2 else "flat")
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def older(rows, form):
    """The same talk as version 1 wrote it, or without any header."""
    if form == "v1":
        first = {name: value for name, value in rows[0].items() if name != "version"}
        return [first, *({k: v for k, v in row.items() if k not in {"id", "parentId"}} for row in rows[1:])]
    return [
        {"role": row["message"]["role"], "content": row["message"]["content"][0]["text"], "timestamp": row["timestamp"]}
        for row in rows[1:]
        if row["type"] == "message" and row["message"]["role"] in {"user", "assistant"}
    ]


def words(data: bytes) -> set[str]:
    """What the readable lines of an older file say."""
    found = set()
    for line in data.split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            content = row.get("message", row).get("content") if isinstance(row.get("message", row), dict) else None
            text = content[0].get("text") if isinstance(content, list) and content else content
            if isinstance(text, str):
                found.add(text)
    return found


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**63), st.sampled_from(["v1", "flat"]))
def test_a_damaged_older_transcript_goes_on_too(seed, form):
    one_older_case(seed, form)


def one_older_case(seed: int, form: str) -> None:
    rng = random.Random(seed)
    data, forged = damage(jsonl(*older(Story(rng, plain=True).rows, form)), rng)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder, "s1.jsonl")
        path.write_bytes(data)
        said = words(data)
        with SessionWriter(path, "s1", clock=ManualClock(CLOCK), ids=CountingIds()) as session:
            check_both(session.history())
            if not forged:
                assert said <= {text for e in session.branch for text in words(json.dumps(e.data).encode())}
            session.append_message(User((Text("new"),)), durable=False)
            live = session.history()
            check_both(live)
        with SessionWriter(path, "s1", clock=ManualClock(CLOCK), ids=CountingIds(500)) as session:
            assert forged or session.history() == live


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["a", "b", "", "user", "toolCall", "c1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "role", "content", "text", "id", "name"]), inner, max_size=4)
    ),
    max_leaves=8,
)
KINDS = [
    "session",
    "message",
    "compaction",
    "reset",
    "leaf",
    "label",
    "custom",
    "custom_message",
    "branch_summary",
    "novel",
]
NAMES = [
    "id",
    "parentId",
    "timestamp",
    "message",
    "version",
    "targetId",
    "firstKeptEntryId",
    "summary",
    "customType",
    "content",
    "appendMode",
    "role",
]
shapeless = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(KINDS) | anything,
    st.dictionaries(st.sampled_from(NAMES), anything, max_size=6),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(shapeless, max_size=6), st.booleans())
def test_lines_of_any_shape_go_on(rows, with_header):
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder, "s1.jsonl")
        path.write_bytes(jsonl(*([header()] if with_header else []), *rows))
        if identify(path).header.version > NEWEST_READABLE:
            return
        list(check_place(Place("main", "s1", Kind.FILE, path)))
        render(identify(path).header, load_branch(identify(path)), "md", title="x")
        with SessionWriter(path, "s1", clock=ManualClock(CLOCK), ids=CountingIds()) as session:
            check_both(session.history())
            session.append_message(User((Text("new"),)), durable=False)
            check_both(session.history())


def test_cut_at_every_byte():
    rng = random.Random(7)
    data = jsonl(*Story(rng, plain=True).rows)
    for end in range(0, len(data) + 1, max(1, len(data) // 150)):
        with tempfile.TemporaryDirectory() as folder:
            follow(data[:end], Path(folder), plain=True)
