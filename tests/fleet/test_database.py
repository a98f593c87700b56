import asyncio
import socket

import pytest
from tests.fleet.postgres import running

from homarus.core.errors import ConfigError, StorageError
from homarus.fleet.database import Database
from homarus.fleet.schema import VERSION


def test_tables_are_made_once_and_can_be_asked_for_again(dsn):
    with Database(dsn) as first, Database(dsn) as second:
        with pytest.raises(ConfigError, match="no tables"):
            first.check()
        assert first.migrate() == list(range(1, VERSION + 1))
        assert second.migrate() == []
        second.check()
        assert second.rows("select count(*) as count from lease")[0]["count"] == 0


def test_a_program_that_is_too_old_for_the_tables_does_not_start(database):
    database.rows("insert into schema_version values (999, 999)")
    for act in (database.check, database.migrate):
        with pytest.raises(ConfigError, match="newer program"):
            act()


async def test_whoever_awaits_is_not_held_up(database):
    assert [row["n"] for row in await database.ask("select n from generate_series(1, $1::int) n", 3)] == [1, 2, 3]


def test_a_host_that_says_nothing_does_not_keep_us_from_the_next():
    with socket.create_server(("127.0.0.1", 0)) as silent, running() as server:
        places = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{server.port}"
        with Database(f"postgresql://homarus@{places}/postgres") as database:
            assert database.rows("select 1 as n")[0]["n"] == 1


async def test_a_crowd_that_waits_for_a_server_knocks_one_at_a_time():
    knocks = 0

    async def shut(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal knocks
        knocks += 1
        writer.close()

    door = await asyncio.start_server(shut, "127.0.0.1", 0)
    port = door.sockets[0].getsockname()[1]
    with Database(f"postgresql://homarus@127.0.0.1:{port}/postgres") as database:
        crowd = [database.ask("select 1", patience=1.0) for _ in range(200)]
        told = await asyncio.gather(*crowd, return_exceptions=True)
    door.close()
    assert all(isinstance(each, StorageError) for each in told)
    # Each of them alone would have knocked at least five times in that second; however long it took, a pause follows each.
    assert 0 < knocks < 200


def test_a_mistake_in_a_statement_is_not_repeated(database):
    import asyncpg

    with pytest.raises(asyncpg.UndefinedTableError):
        database.rows("select * from nothing")


def test_a_killed_server_is_waited_for_and_a_dead_one_is_told():
    with running() as server, Database(server.dsn()) as database:
        database.migrate()
        database.rows("insert into home (home) values ('ada')")
        server.kill()
        with pytest.raises(StorageError, match="is away"):
            database.rows("select 1", patience=0.2)
        server.start()
        assert [row["home"] for row in database.rows("select home from home")] == ["ada"]
