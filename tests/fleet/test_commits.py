"""Homes write and go on; what they say waits for the rows. Postgres is stopped and killed under them."""

import asyncio
import json
import signal
import time
from pathlib import Path

import pytest
from tests.fleet.homes import taken
from tests.fleet.model import ModelServer
from tests.fleet.postgres import Postgres, running
from tests.fleet.test_worker import made, said, until, working

from homarus.core.errors import Fenced
from homarus.fleet.commits import Commits
from homarus.fleet.database import Database
from homarus.fleet.rows import HomeVolume


def volumes(
    database: Database, folder: Path, count: int, lost: list[str] | None = None, **given: float
) -> list[HomeVolume]:
    commits, told = Commits(database, **given), lost if lost is not None else []
    made = []
    for number in range(count):
        lease = taken(database, f"h{number}", f"w{number}")
        made.append(
            HomeVolume(database, lease, folder, commits=commits, lost=lambda home=lease.home: told.append(home))
        )
    return made


def lines(database: Database, home: str) -> list[bytes]:
    found = database.rows("select bytes from line where home = $1 order by path, at", home)
    return [bytes(row["bytes"]) for row in found]


def written(volume: HomeVolume, count: int, path: str = "log") -> list[bytes]:
    """Append lines that must be durable."""
    pieces = [f"{volume.lease.home} {number:03d}\n".encode() for number in range(count)]
    for number, piece in enumerate(pieces):
        volume.append(path, number * len(piece), piece, 0o600, durable=True)
    return pieces


def test_lines_of_many_homes_are_all_there_in_order(database, tmp_path):
    homes = volumes(database, tmp_path, 5)
    wanted = [written(each, 40) for each in homes]

    async def all_durable() -> None:
        await asyncio.gather(*(each.durable() for each in homes))

    asyncio.run(all_durable())
    assert [lines(database, each.lease.home) for each in homes] == wanted
    assert [row["n"] for row in database.rows("select count(*) as n from file group by home")] == [1] * 5


def eventually(true) -> None:
    ends = time.monotonic() + 60
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_what_was_written_until_somebody_waits_is_one_commit(database, tmp_path):
    mine, other = volumes(database, tmp_path, 2, soon=3600)
    wanted = written(mine, 2)
    mine.append("log", sum(map(len, wanted)), b"by the way\n", 0o600, durable=False)
    written(other, 1)
    assert lines(database, "h0") == []
    asyncio.run(mine.durable())
    assert lines(database, "h0") == [*wanted, b"by the way\n"]
    assert [row["n"] for row in database.rows("select count(distinct xmin::text) as n from line")] == [1]
    assert lines(database, "h1") == []  # nobody waits for it yet
    asyncio.run(other.durable())
    assert len(lines(database, "h1")) == 1


def test_nobody_waits_for_a_file_that_need_not_last(database, tmp_path):
    (mine,) = volumes(database, tmp_path, 1, soon=3600)
    path = tmp_path / "counts.json"
    path.write_bytes(b"{}")
    with path.open("rb") as file:
        mine.put("counts.json", file.fileno(), durable=False)
        asyncio.run(mine.durable())
        assert database.rows("select 1 from file") == []
        written(mine, 1)
        asyncio.run(mine.durable())
    assert [row["path"] for row in database.rows("select path from file order by path")] == ["counts.json", "log"]


def test_what_nobody_waits_for_goes_by_itself(database, tmp_path):
    (mine,) = volumes(database, tmp_path, 1)
    wanted = written(mine, 2)
    eventually(lambda: lines(database, "h0") == wanted)


def test_a_home_that_was_taken_away_is_refused_and_the_others_are_not(server, database, tmp_path):
    lost: list[str] = []
    homes = volumes(database, tmp_path, 3, lost)
    server.signal(signal.SIGSTOP)  # so that all of it is committed together
    try:
        for each in homes:
            written(each, 3)
    finally:
        server.signal(signal.SIGCONT)
    asyncio.run(homes[0].durable())
    database.rows("update lease set epoch = epoch + 1, worker = 'thief' where home = 'h1'")
    for each in homes:
        each.append("more", 0, b"more\n", 0o600, durable=True)
    with pytest.raises(Fenced, match="another worker"):
        asyncio.run(homes[1].durable())
    for each in (homes[0], homes[2]):
        asyncio.run(each.durable())
        assert lines(database, each.lease.home)[-1] == b"more\n"
    assert b"more\n" not in lines(database, "h1")
    eventually(lambda: lost == ["h1"])
    assert homes[1].fenced
    with pytest.raises(Fenced):
        homes[1].append("more", 5, b"again\n", 0o600, durable=True)


def test_what_the_database_cannot_hold_ends_its_home_alone(server, database, tmp_path):
    homes = volumes(database, tmp_path, 3)
    server.signal(signal.SIGSTOP)
    try:
        for each in homes:
            written(each, 2, "a\0b" if each is homes[1] else "log")
    finally:
        server.signal(signal.SIGCONT)
    with pytest.raises(Fenced, match="given up"):
        asyncio.run(homes[1].durable())
    for each in (homes[0], homes[2]):
        asyncio.run(each.durable())
        assert len(lines(database, each.lease.home)) == 2


@pytest.fixture
def own():
    with running() as made:
        yield made


class Away:
    """Postgres away and back, as a machine that hangs or one that lost its power."""

    def __init__(self, server: Postgres, killed: bool) -> None:
        self._server, self._killed = server, killed

    def begin(self) -> None:
        self._server.kill() if self._killed else self._server.signal(signal.SIGSTOP)

    def end(self) -> None:
        self._server.start() if self._killed else self._server.signal(signal.SIGCONT)


def rested(home) -> bool:
    """Say whether nothing of a home is on its way to the rows, nor will be by itself."""
    return home.gateway.runtime.index_flusher._timer is None and not home.volume.waits and home.volume.calm is not None


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
async def test_a_worker_goes_on_without_postgres_and_says_nothing_that_is_not_kept(own, killed, tmp_path):
    model, away = ModelServer(), Away(own, killed)
    with Database(own.dsn()) as database:
        database.migrate()
        for home in ("ada", "bob"):
            await made(database, home, model, tmp_path)
        async with working(database, "one", tmp_path / "one") as one:
            await until(lambda: len(one.worker.held) == 2)
            async with one.client("ada") as ada, one.client("bob") as bob:
                await said(ada, "word1")
                await said(bob, "word2")
                await until(lambda: rested(one.worker.open["bob"]))
                await asyncio.to_thread(away.begin)
                try:
                    waiting = asyncio.ensure_future(said(ada, "word3"))
                    volume = one.worker.open["ada"].volume
                    await until(lambda: volume._behind.needed > volume._behind.done)
                    for number in range(20):  # who needs no row is answered
                        found = await bob.call("chat.history", {"sessionKey": "main", "limit": 1 + number})
                        assert found["messages"]
                    assert not waiting.done() and not model.asked["word3"]
                finally:
                    await asyncio.to_thread(away.end)
                assert (await waiting)["status"] == "ok"
                assert (await said(bob, "word4"))["status"] == "ok"
                found = await ada.call("chat.history", {"sessionKey": "main"})
            assert json.dumps(found["messages"]).count("re: word3") == 1
        assert model.asked["word3"] == model.asked["word4"] == 1
    model.close()


async def test_lines_wait_for_a_server_that_comes_back_and_count_once(own, tmp_path):
    with Database(own.dsn()) as database:
        database.migrate()
        (volume,) = await asyncio.to_thread(volumes, database, tmp_path, 1)
        own.kill()
        pieces = written(volume, 100)
        ready = asyncio.ensure_future(volume.durable())
        assert volume._behind.done == 0
        await asyncio.to_thread(own.start)
        await ready
        assert lines(database, "h0") == pieces
