"""One server for all tests of a process, and a fresh database for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.fleet.postgres import Postgres, running

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    with running("-c", "fsync=off") as made:
        yield made


@pytest.fixture
def dsn(server: Postgres) -> str:
    """Return the address of an empty database."""
    name = f"fleet{next(_numbers)}"
    server.sql(f"create database {name}")
    return server.dsn(name)


@pytest.fixture
def database(dsn: str):
    """Return a database with the tables of a fleet."""
    from homarus.fleet.database import Database

    with Database(dsn) as made:
        made.migrate()
        yield made
