import asyncio
from datetime import timedelta

import asyncpg
import pytest

from homarus.fleet.database import Database
from homarus.fleet.placement import Letter, Mail, Placement, Timers
from homarus.fleet.rows import Lease

PLACES = {"server_settings": {"search_path": "homarus"}}
APPEND = "select append_lines($1, $2, $3, array['log'], array[33152], array[$4::bigint], array[$5::bytea])"


async def alive(database: Database, name: str, **given) -> Placement:
    placement = Placement(database, name, ttl=3600.0, **given)  # nobody dies of a slow machine
    await placement.join(f"http://{name}")
    return placement


def lines(database: Database) -> list[bytes]:
    return [bytes(row["bytes"]) for row in database.rows("select bytes from line order by path, at")]


async def test_of_many_takers_one_gets_the_home(database, dsn):
    others = [Database(dsn, size=2) for _ in range(6)]
    try:
        takers = [await alive(each, f"w{number}") for number, each in enumerate(others)]
        await takers[0].add("ada")
        for round_number in range(1, 51):  # who comes in the moment of another's commit is rare
            taken = await asyncio.gather(*(each.take("ada") for each in takers))
            assert sum(lease is not None for lease in taken) == 1
            assert database.rows("select epoch from lease")[0]["epoch"] == round_number
            if round_number < 50:
                database.rows("update lease set worker = null")
        taken = await asyncio.gather(*(each.adopt(10) for each in takers))
        assert not any(taken), "whoever has it lives"
    finally:
        for each in others:
            each.close()


async def test_homes_of_a_silent_worker_are_anybodys_and_its_late_writes_nobodys(database):
    one = await alive(database, "one")
    await one.add("ada")
    lease = await one.take("ada")
    two = await alive(database, "two")
    assert await two.adopt(10) == []
    database.rows("update worker set beat = clock_timestamp() - interval '1 day' where name = 'one'")
    assert await two.adopt(10) == [Lease("ada", lease.epoch + 1, "two")]
    assert await one.beat() is not None, "it only was asleep"
    late = database.rows(APPEND, "ada", lease.epoch, "one", 0, b"late\n")
    assert [row[0] for row in late] == [False]
    assert lines(database) == []
    await one.release([lease])
    assert (await two.owner("ada")).worker == "two", "what it gives back is not its own any more"


async def test_a_question_from_before_an_outage_takes_nothing(database):
    one, two = await alive(database, "one"), await alive(database, "two")
    await one.add("ada")
    assert await one.take("ada")
    database.rows("update worker set beat = clock_timestamp() - interval '1 day'")
    assert await one.adopt(10) == [], "it has the home, however late its own beat is"
    two._heard -= timedelta(days=1)
    assert await two.adopt(10) == []
    await two.beat()
    assert len(await two.adopt(10)) == 1


async def test_a_takeover_waits_for_a_write_that_has_begun(database, dsn):
    one = await alive(database, "one")
    await one.add("ada")
    lease = await one.take("ada")
    database.rows("update worker set beat = clock_timestamp() - interval '1 day' where name = 'one'")
    two = await alive(database, "two")
    writer = await asyncpg.connect(dsn, **PLACES)
    try:
        begun = writer.transaction()
        await begun.start()
        assert await writer.fetchval(APPEND, "ada", lease.epoch, "one", 0, b"begun\n")
        assert await two.adopt(10) == [], "the commit is on its way: the home is not free yet"
        await begun.commit()
    finally:
        await writer.close()
    assert len(await two.adopt(10)) == 1
    assert lines(database) == [b"begun\n"]


async def test_a_write_that_waited_for_a_takeover_is_refused(database, dsn):
    one = await alive(database, "one")
    await one.add("ada")
    lease = await one.take("ada")
    taker = await asyncpg.connect(dsn, **PLACES)
    try:
        begun = taker.transaction()
        await begun.start()
        await taker.execute("update lease set epoch = epoch + 1, worker = 'two' where home = 'ada'")
        late = asyncio.ensure_future(database.ask(APPEND, "ada", lease.epoch, "one", 0, b"late\n"))
        for _ in range(600):  # until the write stands before the lock of the take-over
            if await taker.fetchval("select count(*) from pg_stat_activity where wait_event_type = 'Lock'"):
                break
            await asyncio.sleep(0.1)
        assert not late.done()
        await begun.commit()
        assert [row[0] for row in await late] == [False]
    finally:
        await taker.close()
    assert lines(database) == []


async def test_a_write_that_is_repeated_because_its_answer_was_lost_counts_once(database):
    one = await alive(database, "one")
    await one.add("ada")
    lease = await one.take("ada")
    for _ in range(2):
        assert database.rows(APPEND, "ada", lease.epoch, "one", 0, b"line\n")[0][0]
        assert database.rows("select move_path('ada', $1, 'one', 'log', 'old')", lease.epoch)[0][0]
    assert [row["path"] for row in database.rows("select path from line order by path")] == ["old"]
    assert lines(database) == [b"line\n"]


async def test_a_life_that_begins_again_frees_what_the_last_one_had(database):
    first = await alive(database, "one")
    await first.add("ada")
    lease = await first.take("ada")
    again = await alive(database, "one")
    assert await first.beat() is None, "its name is somebody else's"
    assert [row[0] for row in database.rows(APPEND, "ada", lease.epoch, "one", 0, b"late\n")] == [False]
    assert (await again.adopt(10))[0].epoch == lease.epoch + 2


async def test_whoever_goes_has_no_share_and_takes_none_from_its_successor(database):
    first, other = await alive(database, "one"), await alive(database, "two")
    assert await other.workers() == 2
    await first.retire()
    assert await other.workers() == 1
    again = await alive(database, "one")
    await first.retire()
    assert await other.workers() == 2
    assert not (await again.beat()).draining


async def test_an_older_program_leaves_a_newer_home_alone(database):
    one = await alive(database, "one")
    await one.add("ada")
    database.rows("update home set format = 99")
    assert await one.take("ada") is None
    assert await one.adopt(10) == []


@pytest.mark.parametrize("dead", [True, False])
async def test_a_wish_is_kept_for_a_living_worker_only(database, dead):
    one, two = await alive(database, "one"), await alive(database, "two")
    await one.add("ada")
    lease = await one.take("ada")
    await one.move("ada", "two")
    if dead:
        database.rows("update worker set beat = clock_timestamp() - interval '1 day' where name = 'two'")
    assert await one.leaving() == ([] if dead else ["ada"])
    await one.release([lease])
    assert len(await one.adopt(10)) == dead
    assert len(await two.adopt(10)) == (not dead)


async def test_timers_and_mail_are_their_owners(database):
    one = await alive(database, "one")
    timers, mail = Timers(database), Mail(database)
    for home in ("ada", "bob"):
        await one.add(home)
    lease = await one.take("ada")
    assert await timers.want(lease, -1.0)
    assert await timers.due("one") == ["ada"]
    assert await timers.due("one", ["ada"]) == []
    assert not await timers.want(Lease("ada", lease.epoch - 1, "one"), None)
    assert not await timers.want(Lease("bob", 0, "one"), 0.0)
    assert await timers.want(lease, None)
    assert await timers.due("one") == []
    for key in ("b", "a", "a"):
        assert await mail.leave(Letter("ada", key, key.encode()))
    assert not await mail.leave(Letter("eve", "a", b"")), "there is no such home"
    assert await mail.waiting("one") == ["ada"]
    assert [each.key for each in await mail.of("ada")] == ["b", "a"]
    await mail.taken(Lease("ada", lease.epoch - 1, "one"), ["a", "b"])
    assert len(await mail.of("ada")) == 2, "an old lease takes nothing away"
    await mail.taken(lease, ["b"])
    assert [each.key for each in await mail.of("ada")] == ["a"]
