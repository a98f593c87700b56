"""One owner: at once or not at all, named in the refusal, gone with its process however that ends."""

import json
import os
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import homarus
from homarus.core.errors import Locked, StorageError
from homarus.storage.locks import OwnerLock, holder

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOLDER = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from homarus.storage.locks import OwnerLock
lock = OwnerLock.acquire(Path(sys.argv[1]), purpose="holding", now=datetime(2026, 1, 2, tzinfo=UTC))
print("held", flush=True)
time.sleep(60)
"""


def acquire(path, **options):
    return OwnerLock.acquire(path, purpose="test", now=NOW, **options)


@pytest.fixture
def other_owner(tmp_path):
    """A process that holds the lock until it is killed."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "l.lock")],
        env={**os.environ, "PYTHONPATH": str(Path(homarus.__file__).parent.parent)},
        stdout=subprocess.PIPE,
    )
    assert child.stdout.readline() == b"held\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def test_the_file_says_who_holds_it_and_goes_with_the_release(tmp_path):
    path = tmp_path / "l.lock"
    with acquire(path, extra={"port": 18789, "pid": "cannot be overridden"}) as lock:
        assert lock.held
        said = {"port": 18789, "pid": os.getpid(), "startedAt": "2026-01-02T03:04:05.000Z", "purpose": "test"}
        assert holder(path) == said == json.loads(path.read_text())
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert holder(path) is None
    assert not path.exists()
    lock.release()
    assert not lock.held


def test_the_owner_can_say_more_and_take_it_back(tmp_path):
    path = tmp_path / "x.lock"
    lock = acquire(path)
    before = holder(path)
    lock.say(doing="compacting", more="a long word")
    assert holder(path) == {**before, "doing": "compacting", "more": "a long word"}
    lock.say(doing=None, more=None)
    assert holder(path) == before
    lock.release()
    lock.say(doing="nothing any more")
    assert holder(path) is None
    assert not path.exists()


def test_the_second_owner_is_refused_at_once_with_pid_and_cure(tmp_path, other_owner):
    path = tmp_path / "l.lock"
    with pytest.raises(Locked) as caught:
        acquire(path, sleep=lambda _: pytest.fail("a living owner is not waited for"))
    assert caught.value.pid == other_owner.pid
    assert str(path) in caught.value.message
    assert "holding" in caught.value.message
    assert f"stop process {other_owner.pid}" in caught.value.cure


def test_kill_nine_frees_it(tmp_path, other_owner):
    path = tmp_path / "l.lock"
    other_owner.send_signal(signal.SIGKILL)
    other_owner.wait()
    assert path.exists()
    assert holder(path) is None
    with acquire(path):
        assert holder(path)["pid"] == os.getpid()


def test_the_same_process_cannot_own_it_twice(tmp_path):
    with acquire(tmp_path / "l.lock"), pytest.raises(Locked, match="this process"):
        acquire(tmp_path / "l.lock")


def test_waiting_gets_it_when_the_owner_lets_go(tmp_path):
    first = acquire(tmp_path / "l.lock")
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            first.release()

    with acquire(tmp_path / "l.lock", wait=10, sleep=sleep):
        assert pauses == [0.025] * 3


def test_waiting_ends(tmp_path):
    pauses = []
    with acquire(tmp_path / "l.lock"), pytest.raises(Locked):
        acquire(tmp_path / "l.lock", wait=1, sleep=pauses.append)
    assert 0.9 <= sum(pauses) <= 1.1


def test_a_process_that_only_looks_does_not_make_an_acquire_fail(tmp_path):
    """Looking takes the kernel's lock for an instant; an acquire in that instant tries again."""
    import fcntl

    path = tmp_path / "l.lock"
    path.write_text('{"pid": 999999999}')
    looker = os.open(path, os.O_RDONLY)
    fcntl.flock(looker, fcntl.LOCK_SH)
    acquire(path, sleep=lambda _: fcntl.flock(looker, fcntl.LOCK_UN)).release()
    os.close(looker)


def test_stale_or_strange_content_does_not_matter(tmp_path):
    path = tmp_path / "l.lock"
    for content in (b"", b"not json", b'{"pid": 1}', b"[1]", b"\xff" * 100_000):
        path.write_bytes(content)
        assert holder(path) is None
        with acquire(path):
            assert holder(path)["purpose"] == "test"


def test_a_removed_lock_file_does_not_make_two_owners_of_the_name(tmp_path):
    path = tmp_path / "l.lock"
    first = acquire(path)
    path.unlink()
    second = acquire(path)  # whoever removes a lock file by hand makes a second owner
    first.release()
    with pytest.raises(Locked):  # but the first one's release does not make a third
        acquire(path)
    second.release()
    assert not path.exists()


def test_a_link_or_a_folder_in_the_way_is_refused(tmp_path):
    (tmp_path / "precious").write_bytes(b"content")
    (tmp_path / "link").symlink_to("precious")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder", "missing/l.lock"):
        with pytest.raises(StorageError) as caught:
            acquire(tmp_path / name)
        assert caught.value.cure
    assert (tmp_path / "precious").read_bytes() == b"content"


def test_a_forked_child_owns_nothing(run_child):
    """Neither the child's exit, nor its release, nor its survival touches the parent's lock or outlives it."""
    run_child("""
        lock = OwnerLock.acquire(folder / "l.lock", purpose="parent", now=NOW)
        ready, go = os.pipe(), os.pipe()
        if os.fork() == 0:
            assert not lock.held
            lock.release()
            os.write(ready[1], b".")
            os.read(go[0], 1)  # outlives the parent's release
            os._exit(0)
        os.read(ready[0], 1)
        assert holder(folder / "l.lock")["pid"] == os.getpid()
        refused(OwnerLock.acquire, folder / "l.lock", purpose="again", now=NOW)
        lock.release()
        OwnerLock.acquire(folder / "l.lock", purpose="again", now=NOW).release()
        os.write(go[1], b".")
        os.wait()
    """)


def test_a_started_program_does_not_inherit_it(run_child):
    run_child("""
        import subprocess
        lock = OwnerLock.acquire(folder / "l.lock", purpose="parent", now=NOW)
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
        lock.release()
        OwnerLock.acquire(folder / "l.lock", purpose="again", now=NOW).release()
        child.communicate(b"\\n")
    """)


def test_many_processes_one_owner_at_a_time(tmp_path):
    """Everybody adds one to a number in a file, unprotected but for the lock: no addition is lost."""
    code = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from homarus.storage.locks import OwnerLock
folder = Path(sys.argv[1])
for _ in range(50):
    with OwnerLock.acquire(folder / "l.lock", purpose="count", now=datetime(2026, 1, 2, tzinfo=UTC), wait=60):
        number = int((folder / "n").read_text())
        (folder / "n").write_text(str(number + 1))
"""
    (tmp_path / "n").write_text("0")
    environment = {**os.environ, "PYTHONPATH": str(Path(homarus.__file__).parent.parent)}
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=environment) for _ in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    assert (tmp_path / "n").read_text() == "200"
