"""What a fleet says of itself, and where its homes are."""

from collections.abc import Iterable

from homarus.core.errors import StorageError
from homarus.fleet.directory import Directory
from homarus.fleet.homes import remove
from homarus.fleet.objects import Folder, Store
from homarus.fleet.placement import Mail, Placement
from homarus.fleet.settings import Fleet
from homarus.fleet.status import examine, homes, metrics, status, usage, workers


async def test_homes_are_counted_as_they_come_and_go(database):
    placement = Placement(database, "w1")
    await placement.join("http://10.0.0.1:1")
    lives = "update worker set beat = clock_timestamp() + interval '1 hour'"  # however slow this machine is
    for name in ("a", "b", "c", "a"):
        await placement.add(name, "t")
    database.rows("insert into home (home) select 'x' || n from generate_series(1, 7) n")
    remove(database, None, "b")
    assert status(database)["homes"] == database.rows("select count(*) as n from home")[0]["n"] == 9
    await placement.take("a")
    await placement.beat()
    database.rows(lives)
    found = status(database)
    assert (found["held"], found["free"], found["workers"][0]["homes"]) == (1, 8, 1)
    database.rows("update worker set beat = clock_timestamp() - interval '1 minute'")
    found = status(database)
    assert (found["held"], found["free"], found["workers"][0]["alive"]) == (0, 9, False)
    assert "homarus_fleet_homes 9\n" in metrics(found)
    assert [row["home"] for row in homes(database, begins="x", limit=3)] == ["x1", "x2", "x3"]
    assert usage(database, "a") == {"files": 0, "bytes": 0}
    assert workers(database)[0]["draining"] is False


async def test_the_edge_finds_homes_with_what_they_may_use(database):
    placement = Placement(database, "w1")
    await placement.join("http://10.0.0.1:1")
    await placement.add("ada")
    directory = Directory(database, Fleet(), ttl=3600)
    assert await directory.find("nobody") is None
    assert (await directory.find("ada")).address == ""
    await placement.take("ada")
    database.rows("""update home set quota = '{"uploadBytes": 5}'""")
    place = await directory.find("ada")
    assert (place.address, place.quota.upload_bytes) == ("http://10.0.0.1:1", 5)
    database.rows("update worker set beat = clock_timestamp() - interval '1 day'")
    assert (await directory.find("ada")).address == ""


async def test_a_flood_of_web_hooks_fills_one_box_only(database):
    placement, directory = Placement(database, "w1"), Directory(database, Fleet())
    await placement.add("ada")
    await placement.add("bob")
    assert await directory.leave("ada", "k", b"1") and await directory.leave("ada", "k", b"2")
    database.rows("insert into mail (home, key, body) select 'ada', 'x' || n, 'b' from generate_series(1, 1000) n")
    assert not await directory.leave("ada", "new", b"1")
    assert await directory.leave("bob", "new", b"1")
    assert not await directory.leave("nobody", "new", b"1")
    assert [letter.body for letter in await Mail(database).of("bob")] == [b"1"]


def test_a_store_that_takes_nothing_is_found(database, tmp_path):
    class Shut(Folder):
        async def put(self, key: str, pieces: Iterable[bytes]) -> None:
            raise StorageError(f"cannot write {key}", cure="let the workers write there")

    def bad(fleet: Fleet, objects: Folder) -> list[str]:
        store = Store(objects)
        try:
            return [each.what for each in examine(fleet, database, store) if each.state in {"bad", "warn"}]
        finally:
            store.close()

    place = tmp_path / "objects"
    fleet = Fleet(secret="s" * 32, objects=str(place))
    assert any("is no folder yet" in what for what in bad(fleet, Folder(place)))
    assert not place.exists()
    place.mkdir()
    usual = bad(fleet, Folder(place))
    assert not any("objects" in what for what in usual)
    assert list(place.iterdir()) == []  # the trial is gone
    (found,) = set(bad(fleet, Shut(place))) - set(usual)
    assert found.startswith("cannot write doctor-")
