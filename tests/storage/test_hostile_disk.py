"""Full disk, read-only folder, no permission, a storm of signals: refused with a cure, and nothing half-written."""

import os
import stat


def test_a_full_disk_keeps_the_old_content_and_leaves_nothing(run_child):
    run_child("""
        mount_tmpfs(folder, b"size=256k")
        write_atomic(folder / "f", b"old" * 1000)
        log = JsonlWriter.open(folder / "log")
        log.append({"n": 1})
        before = sorted(os.listdir(folder))

        error = refused(write_atomic, folder / "f", b"x" * 1_000_000)
        assert "full" in error.cure and str(folder / "f") in error.message
        assert (folder / "f").read_bytes() == b"old" * 1000

        refused(create_new, folder / "g", b"x" * 1_000_000)
        refused(log.append, {"n": 2, "pad": "x" * 1_000_000})
        refused(log.append_many, [{"n": 2}, {"n": 3, "pad": "x" * 1_000_000}])
        assert (folder / "log").read_bytes() == b'{"n":1}\\n'
        assert sorted(os.listdir(folder)) == before

        log.append({"n": 2})
        assert [line.value["n"] for line in read_lines(folder / "log")] == [1, 2]
    """)


def test_a_full_disk_and_a_torn_tail(run_child):
    run_child("""
        mount_tmpfs(folder, b"size=256k")
        (folder / "log").write_bytes(b'{"n":1}\\n{"n":2')
        log = JsonlWriter.open(folder / "log")
        refused(log.append, {"pad": "x" * 1_000_000})
        assert (folder / "log").read_bytes() == b'{"n":1}\\n{"n":2'
        log.append({"n": 3})
        assert (folder / "log").read_bytes() == b'{"n":1}\\n{"n":2\\n{"n":3}\\n'
    """)


def test_a_full_disk_and_a_backup(run_child):
    run_child("""
        mount_tmpfs(folder, b"size=220k")
        write_atomic(folder / "f", b"1" * 50_000)
        backup(folder / "f")
        write_atomic(folder / "f", b"2" * 100_000)
        refused(backup, folder / "f")
        assert (folder / "f.bak").read_bytes() == b"1" * 50_000
        assert sorted(os.listdir(folder)) == ["f", "f.bak"]
    """)


def test_a_full_disk_and_a_transaction(run_child):
    run_child("""
        mount_tmpfs(folder, b"size=600k")
        conn = open_database(folder / "d.db", schema="CREATE TABLE t (a)", version=1)
        with transaction(conn):
            conn.execute("INSERT INTO t VALUES (1)")
        def fill():
            with transaction(conn):
                conn.executemany("INSERT INTO t VALUES (?)", [("x" * 1000,)] * 2000)
        refused(fill)
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (1,)
        with transaction(conn):
            conn.execute("INSERT INTO t VALUES (2)")
        conn.close()
    """)


def test_a_full_disk_and_a_lock(run_child):
    run_child("""
        mount_tmpfs(folder, b"size=64k,nr_inodes=20")
        filler = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(filler, b"x" * 512)
        except OSError:
            pass
        error = refused(OwnerLock.acquire, folder / "l.lock", purpose="test", now=NOW)
        assert "full" in error.cure
        assert os.listdir(folder) == ["filler"]
        os.ftruncate(filler, 0)
        OwnerLock.acquire(folder / "l.lock", purpose="test", now=NOW).release()
    """)


def test_a_limit_on_file_size(run_child):
    run_child("""
        write_atomic(folder / "f", b"old")
        log = JsonlWriter.open(folder / "log")
        log.append({"n": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        refused(write_atomic, folder / "f", b"x" * 6000)
        refused(log.append, {"pad": "x" * 6000})
        assert (folder / "f").read_bytes() == b"old"
        assert (folder / "log").read_bytes() == b'{"n":1}\\n'
        assert sorted(os.listdir(folder)) == ["f", "log"]
    """)


def test_dev_full_and_other_devices_are_refused_and_stay(run_child):
    run_child("""
        for device in ("/dev/full", "/dev/null"):
            refused(write_atomic, Path(device), b"x")
            refused(JsonlWriter.open, Path(device))
            refused(lambda: list(read_lines(Path(device))))
            assert stat.S_ISCHR(os.stat(device).st_mode)
    """)


def test_a_read_only_file_system(run_child):
    run_child("""
        libc = mount_tmpfs(folder, b"size=1m")
        write_atomic(folder / "f", b"old")
        (folder / "log").write_bytes(b'{"n":1}\\n')
        open_database(folder / "d.db", schema="CREATE TABLE t (a)", version=1).close()
        rdonly, remount = 1, 32
        if libc.mount(b"none", os.fsencode(folder), None, rdonly | remount, None):
            sys.exit(77)
        for action in (
            lambda: write_atomic(folder / "f", b"new"),
            lambda: create_new(folder / "g", b"new"),
            lambda: ensure_dir(folder / "a" / "b"),
            lambda: move_aside(folder / "f", "x", NOW),
            lambda: backup(folder / "f"),
            lambda: JsonlWriter.open(folder / "log"),
            lambda: OwnerLock.acquire(folder / "l.lock", purpose="test", now=NOW),
            lambda: open_database(folder / "new.db", schema="CREATE TABLE t (a)", version=1),
            lambda: open_database(folder / "d.db", schema="CREATE TABLE t (a)", version=2),
        ):
            refused(action)
        assert create_new(folder / "f", b"new") is False
        assert [line.value for line in read_lines(folder / "log")] == [{"n": 1}]
        assert open_readonly(folder / "d.db").execute("SELECT count(*) FROM t").fetchone() == (0,)
        with Root(folder) as root:
            assert root.read("f", max_bytes=10).data == b"old"
    """)


def test_a_folder_without_permission(run_child):
    run_child("""
        with public_folder() as folder:
            drop_rights()
            drop = folder / "drop"
            drop.mkdir()
            write_atomic(drop / "f", b"old")
            log = JsonlWriter.open(drop / "log")
            log.append({"n": 1})
            drop.chmod(0o555)
            for action in (
                lambda: write_atomic(drop / "f", b"new"),
                lambda: create_new(drop / "g", b"new"),
                lambda: ensure_dir(drop / "a"),
                lambda: move_aside(drop / "f", "x", NOW),
                lambda: OwnerLock.acquire(drop / "l.lock", purpose="test", now=NOW),
                lambda: open_database(drop / "d.db", schema="CREATE TABLE t (a)", version=1),
            ):
                assert "chmod" in refused(action).cure
            assert sorted(os.listdir(drop)) == ["f", "log"]
            log.append({"n": 2})

            drop.chmod(0o000)
            refused(lambda: list(read_lines(drop / "log")))
            refused(log.append, {"n": 3})
            refused(Root(folder).listdir, "drop")

            drop.chmod(0o755)
            assert (drop / "f").read_bytes() == b"old"
            assert len((drop / "log").read_bytes().splitlines()) == 2
            (drop / "f").chmod(0o000)
            with Root(drop) as root:
                found = root.read("f", max_bytes=10)
            assert (found.kind, found.reason) == ("io", "Permission denied")
    """)


def test_a_file_of_another_owner_keeps_owner_and_group(run_child):
    run_child("""
        if os.geteuid() != 0:
            sys.exit(77)
        with public_folder() as folder:
            path = folder / "f"
            path.write_bytes(b"old")
            path.chmod(0o640)
            os.chown(path, 1234, 4321)
            write_atomic(path, b"new")
            found = path.stat()
            assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o640)

            drop_rights()
            write_atomic(path, b"newer")
            found = path.stat()
            assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (65534, 0o600), "a stranger's group must gain no right"
    """)


def test_permissions_do_not_depend_on_the_umask(run_child):
    folder = run_child("""
        os.umask(0o777)
        ensure_dir(folder / "a" / "b", mode=0o700)
        write_atomic(folder / "a" / "f", b"x", mode=0o644)
        create_new(folder / "a" / "g", b"x", mode=0o640)
        JsonlWriter.open(folder / "a" / "log", mode=0o600).close()
    """)
    modes = {name: stat.S_IMODE((folder / "a" / name).stat().st_mode) for name in os.listdir(folder / "a")}
    assert modes == {"b": 0o700, "f": 0o644, "g": 0o640, "log": 0o600}


def test_a_storm_of_signals(run_child):
    """EINTR at any point, thousands of times a second: every operation still ends whole."""
    run_child("""
        storms = 0
        def count(*_):
            global storms
            storms += 1
        signal.signal(signal.SIGALRM, count)
        signal.siginterrupt(signal.SIGALRM, True)
        signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
        log = JsonlWriter.open(folder / "log")
        root = Root(folder)
        for number in range(200):
            write_atomic(folder / "f", b"%d" % number * 50_000)
            log.append({"n": number, "pad": "x" * 50_000})
            found = root.read("f", max_bytes=1 << 20)
            assert found.kind == "ok" and found.data == b"%d" % number * 50_000, found.reason
            with OwnerLock.acquire(folder / "l.lock", purpose="test", now=NOW):
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert storms > 100, storms
        assert [line.value["n"] for line in read_lines(folder / "log")] == list(range(200))
        assert sorted(os.listdir(folder)) == ["f", "log"]
    """)


def test_an_exception_out_of_a_signal_handler(run_child):
    """Ctrl-C in the middle: the operation is undone or complete, and no temp file stays."""
    run_child("""
        class Stop(Exception):
            pass
        def stop(*_):
            raise Stop
        signal.signal(signal.SIGALRM, stop)
        log = JsonlWriter.open(folder / "log")
        stops, kept = 0, 0
        for number in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00002 + number % 40 * 0.00002)
                write_atomic(folder / "f", b"%04d" % number * 2000)
                log.append({"n": number})
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Stop:
                stops += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if (folder / "f").exists():
                content = (folder / "f").read_bytes()
                assert content == content[:4] * 2000
        assert stops > 20, stops
        lines = list(read_lines(folder / "log"))
        assert all(line.value is not None for line in lines), [line.raw for line in lines if line.value is None]
        sweep_temps(folder)
        assert set(os.listdir(folder)) <= {"f", "log"}, os.listdir(folder)
    """)


def test_no_descriptors_left(run_child):
    run_child("""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        write_atomic(folder / "f", b"old")
        resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        assert "ulimit -n" in refused(write_atomic, folder / "f", b"new").cure
        refused(JsonlWriter.open, folder / "log")
        os.close(held.pop())
        refused(write_atomic, folder / "f", b"new")
        assert (folder / "f").read_bytes() == b"old" if not os.close(held.pop()) else False
        write_atomic(folder / "f", b"new")
        assert os.listdir(folder) == ["f"]
    """)
