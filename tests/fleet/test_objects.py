"""Objects in a folder and in a bucket: the signatures are AWS's own examples, the bucket is a real server that checks them."""

import asyncio
import hashlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from homarus.core.errors import ConfigError, StorageError
from homarus.fleet import objects
from homarus.fleet.objects import Folder, Objects, Signer, Store, objects_at
from homarus.net.client import HttpClient
from homarus.storage.faults import Missing

ENV = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
SIGNER = Signer(ENV["AWS_ACCESS_KEY_ID"], ENV["AWS_SECRET_ACCESS_KEY"], "us-east-1")
THEN = datetime(2013, 5, 24, tzinfo=UTC)
HOST = "https://examplebucket.s3.amazonaws.com"


@pytest.mark.parametrize(
    ("method", "path", "body", "given", "signature"),
    [
        ("GET", "/test.txt", b"", {"Range": "bytes=0-9"}, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
        (
            "PUT",
            "/test%24file.text",
            b"Welcome to Amazon S3.",
            {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        ("GET", "/?lifecycle", b"", {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("GET", "/?max-keys=2&prefix=J", b"", {}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)  # fmt: skip
def test_signatures_are_those_of_the_published_examples(method, path, body, given, signature):
    made = SIGNER.headers(method, HOST + path, body, THEN, given)
    assert made["authorization"].endswith(f"Signature={signature}")


def stored(store: Store, data: bytes, home: str = "ada") -> str:
    name = hashlib.sha256(data).hexdigest()
    store.put(home, name, [data[:3], data[3:]])
    return name


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Store]:
    made = Store(Folder(tmp_path / "objects"))
    yield made
    made.close()


@given(data=st.binary(max_size=5000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_was_kept_comes_back(folder, data):
    assert b"".join(folder.get("ada", stored(folder, data))) == data
    assert folder.of("ada").get(hashlib.sha256(data).hexdigest()) == data


def test_damage_is_noticed(folder: Store, tmp_path: Path) -> None:
    name = stored(folder, b"lines\n" * 100)
    place = tmp_path / "objects" / "ada" / f"{name}.zst"
    whole = place.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:5] + b"\xff" + whole[6:]):
        place.write_bytes(damaged)
        with pytest.raises(StorageError, match="damaged"):
            list(folder.get("ada", name))


def test_what_is_not_there_is_said_and_names_stay_inside(folder: Store) -> None:
    with pytest.raises(Missing):
        list(folder.get("ada", "0" * 64))
    for home in ("..", "a//b", "", "a/../.."):
        with pytest.raises(StorageError, match="no name"):
            folder.put(home, "x", [b"x"])


def test_homes_share_nothing(folder: Store, tmp_path: Path) -> None:
    name = stored(folder, b"same")
    assert stored(folder, b"same", "bob") == name
    assert folder.remove_all("ada") == 1
    assert folder.of("bob").get(name) == b"same"
    with pytest.raises(Missing):
        folder.of("ada").get(name)


def test_an_address_must_name_a_store():
    for address, env in (("objects", {}), ("s3://", ENV), ("s3://b", {})):
        with pytest.raises(ConfigError):
            objects_at(address, env, HttpClient())


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Store]:
    """Return a bucket of a real server, which refuses a wrong signature."""
    python = Path(os.environ.get("HOMARUS_MOTO_VENV", Path.home() / ".cache/homarus-tests/moto")) / "bin/python"
    if not python.exists():
        pytest.skip("needs moto[s3,server] (scripts/install_programs.sh fleet)")
    env, log = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "3", "PYTHONUNBUFFERED": "1"}, tmp_path / "log"
    with log.open("wb") as out:
        words = [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        server = subprocess.Popen(words, env=env, cwd=tmp_path, stdout=out, stderr=out)
    try:
        ends = time.monotonic() + 60
        while not (found := re.search(r"Running on (http://[0-9.:]+)", log.read_text())):
            assert server.poll() is None and time.monotonic() < ends, log.read_text()
            time.sleep(0.05)
        made = Store(asyncio.run(_made(found[1])))
        yield made
        made.close()
    finally:
        server.kill()
        server.wait(60)


async def _made(url: str) -> Objects:
    """Make a user, its key and a bucket while the server asks for no signature yet; then it asks for one."""
    http = HttpClient()
    form = {"content-type": "application/x-www-form-urlencoded"}

    async def call(service: str, query: str) -> str:
        scope = f"Credential=x/20130524/us-east-1/{service}/aws4_request"
        headers = {**form, "authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=x"}
        reply = await http.request("POST", url, headers=headers, body=[query.encode()])
        try:
            return (await reply.read(100_000)).decode()
        finally:
            await reply.close()

    policy = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}'
    await call("iam", "Action=CreateUser&UserName=u&Version=2010-05-08")
    said = await call("iam", "Action=CreateAccessKey&UserName=u&Version=2010-05-08")
    await call("iam", f"Action=PutUserPolicy&UserName=u&PolicyName=p&PolicyDocument={policy}&Version=2010-05-08")
    env = {
        "AWS_ACCESS_KEY_ID": said.partition("<AccessKeyId>")[2].partition("<")[0],
        "AWS_SECRET_ACCESS_KEY": said.partition("<SecretAccessKey>")[2].partition("<")[0],
        "AWS_ENDPOINT_URL_S3": url,
    }
    made = objects_at("s3://bucket/cell 1", env, http)
    assert isinstance(made, objects.Bucket)
    await made._ask("PUT", "")
    await http.aclose()
    return made


def test_a_real_bucket_keeps_lists_and_forgets(bucket: Store) -> None:
    large = os.urandom(objects.PART * 2) + b"tail"
    names = [stored(bucket, data) for data in (b"small", b'{"a":1}\n' * 1000, large)]
    assert [b"".join(bucket.get("ada", name)) for name in names] == [b"small", b'{"a":1}\n' * 1000, large]
    stored(bucket, b"other", "bob")
    assert bucket.remove_all("ada") == 3
    assert bucket.remove_all("ada") == 0
    with pytest.raises(Missing):
        list(bucket.get("ada", names[0]))
    assert bucket.remove_all("bob") == 1


def test_a_wrong_secret_is_refused_with_its_cure(bucket: Store) -> None:
    assert isinstance(bucket.objects, objects.Bucket)
    bucket.objects._signer = Signer(bucket.objects._signer.ident, "wrong", "us-east-1")
    with pytest.raises(StorageError, match=r"403.*AWS_SECRET_ACCESS_KEY"):
        stored(bucket, b"x")


def test_a_bucket_that_is_not_there_is_told_with_its_cure(bucket: Store) -> None:
    assert isinstance(bucket.objects, objects.Bucket)
    bucket.wait(bucket.objects._ask("DELETE", ""))
    with pytest.raises(StorageError, match=r"404.*make the bucket"):
        stored(bucket, b"x")


def test_a_store_that_is_away_is_said() -> None:
    store = Store(objects_at("s3://b", {**ENV, "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}, HttpClient()))
    with pytest.raises(StorageError, match="away"):
        list(store.get("ada", "0" * 64))
    store.close()
