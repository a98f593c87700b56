"""Attempts that need the kernel's own calls, made by one program inside of a sandbox. It prints what got through.

It is not imported by the tests: they hand its text to an interpreter inside. The numbers of the calls are those of x86_64.
Arguments: a folder outside with a file `secret`, a process outside, and the workspace's socket that is served outside.
"""

import ctypes
import fcntl
import glob
import mmap
import os
import resource
import socket
import struct
import sys

out, victim, served, isolated = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "bwrap"
libc = ctypes.CDLL(None, use_errno=True)
tried, through = [], []


def c(*args):
    found = libc.syscall(*args)
    return found if found >= 0 else -ctypes.get_errno()


def attempt(name, call, *args):
    """Note an attempt; it got through if the call returns something true, and not if it fails."""
    tried.append(name)
    try:
        if call(*args):
            through.append(name)
    except (OSError, ValueError, OverflowError):
        pass


def reaches(*args):
    """Say whether a call is looked at by the kernel at all: what is closed ends with EPERM or ENOSYS."""
    return c(*args) not in (-1, -38)


def opens(path, flags=os.O_RDONLY):
    os.close(os.open(path, flags | os.O_NONBLOCK))
    return True


def writes(path, data):
    return os.write(os.open(path, os.O_WRONLY), data) > 0


def born(action):
    """Run something in a child and say whether it lived to say yes."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if action() else 1)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# Calls that no command has any business making, one by one.
CLOSED = {
    "bpf": (321, 0, 0, 0), "perf_event_open": (298, 0, 0, -1, -1, 0), "userfaultfd": (323, 0), "keyctl": (250, 0, -3, 0),
    "keyctl: a session of its own": (250, 1, 0), "add_key": (248, b"user", b"x", b"y", 1, -3), "request_key": (249, b"user", b"x", 0, -3),
    "io_uring_setup": (425, 1, 0), "io_uring_enter": (426, 0, 0, 0, 0, 0, 0), "io_uring_register": (427, 0, 0, 0, 0),
    "init_module": (175, 0, 0, 0), "finit_module": (313, 0, 0, 0), "delete_module": (176, 0, 0), "kexec_load": (246, 0, 0, 0, 0),
    "kexec_file_load": (320, 0, 0, 0, 0, 0), "reboot": (169, 0, 0, 0, 0), "swapon": (167, 0, 0), "swapoff": (168, 0), "acct": (163, 0),
    "quotactl": (179, 0, 0, 0, 0), "mount": (165, b"none", b"mnt", b"tmpfs", 0, 0), "mount: bind": (165, b"/", b"mnt", 0, 4096, 0),
    "mount: remount": (165, 0, b"/", 0, 32, 0), "umount2": (166, b"/proc", 2), "pivot_root": (155, b".", b"."), "chroot": (161, b"."),
    "fsopen": (430, b"tmpfs", 0), "fsmount": (432, 0, 0, 0), "fsconfig": (431, 0, 0, 0, 0, 0), "fspick": (433, -100, b"/", 0),
    "move_mount": (429, -100, b"/", -100, b"mnt", 0), "open_tree": (428, -100, b"/", 1), "mount_setattr": (442, -100, b"/", 0, 0, 0),
    "name_to_handle_at": (303, -100, b".", 0, 0, 0), "open_by_handle_at": (304, -100, 0, 0), "fanotify_init": (300, 0, 0),
    "sethostname": (170, b"made", 4), "setdomainname": (171, b"made", 4), "settimeofday": (164, 0, 0), "clock_settime": (227, 0, 0),
    "clock_adjtime": (305, 0, 0), "adjtimex": (159, 0), "syslog": (103, 3, 0, 0), "vhangup": (153,), "iopl": (172, 3), "ioperm": (173, 0, 1, 1),
    "modify_ldt": (154, 0, 0, 0), "move_pages": (279, 1, 0, 0, 0, 0, 0), "migrate_pages": (256, 1, 0, 0, 0), "openat2": (437, -100, b".", 0, 0),
    "clone3": (435, 0, 0), "the numbers of x32": (0x40000000 | 39,),
    "typing into a terminal": (16, 0, 0x5412, b"x"), "typing into a console": (16, 0, 0x541C, b"x"),
}  # fmt: skip
for name, args in CLOSED.items():
    attempt(name, reaches, *args)
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80):
    attempt(f"unshare {flag:#x}", reaches, 272, flag)
    if flag != 0x80:
        attempt(f"clone {flag:#x}", lambda flag=flag: c(56, flag | 17, 0, 0, 0, 0) >= 0)
attempt("a child of our own parent", lambda: c(56, 0x8000 | 17, 0, 0, 0, 0) >= 0)
for name in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts", "time"):
    attempt(f"setns {name}", lambda name=name: c(308, os.open(f"/proc/self/ns/{name}", 0), 0) == 0)

# What reaches a process outside.
attempt("ptrace: attach", lambda: libc.ptrace(16, victim, 0, 0) == 0)
attempt("ptrace: seize", lambda: libc.ptrace(0x4206, victim, 0, 0) == 0)
attempt("pidfd_getfd", lambda: c(438, c(434, victim, 0), 0, 0) >= 0)
attempt("kcmp", lambda: c(312, os.getpid(), victim, 0, 0, 0) >= 0)
attempt("process_madvise", lambda: c(440, c(434, victim, 0), 0, 0, 20, 0) >= 0)
attempt("signals by a descriptor", lambda: c(424, c(434, victim, 0), 0, 0, 0) == 0)
attempt("signals to a thread", lambda: c(200, victim, 0) == 0)
attempt("queued signals", lambda: c(129, victim, 0, bytes(128)) == 0)
attempt("signals when a file is ready", lambda: isolated and fcntl.fcntl(0, fcntl.F_SETOWN, victim) == 0)
attempt("priority of everybody", lambda: not isolated and c(141, 2, 0, 19) == 0)
attempt("priority of its disk for everybody", lambda: not isolated and c(251, 3, 0, 3 << 13) == 0)
for name in ("mem", "maps", "environ", "cwd/secret", "fd/0", "root/etc/shadow", "stack", "io", "auxv", "syscall"):
    attempt(f"/proc/<pid>/{name}", opens, f"/proc/{victim}/{name}")
for name in ("oom_score_adj", "comm", "coredump_filter", "clear_refs", "timens_offsets", "uid_map", "setgroups"):
    attempt(f"writing /proc/<pid>/{name}", opens, f"/proc/{victim}/{name}", os.O_WRONLY)

# Queues and semaphores are found by guessing their numbers, and attributes of files by their paths.
for name, args in {
    "msgsnd": (69, 0, bytes(16), 1, 0o4000),
    "msgrcv": (70, 0, bytes(16), 1, 0, 0o4000),
    "semop": (65, 0, bytes(8), 1),
    "semtimedop": (220, 0, bytes(8), 1, bytes(16)),
}.items():
    attempt(name, lambda args=args: not isolated and reaches(*args))
attempt("attributes of a file outside", lambda: os.listxattr(f"{out}/secret") is not None)
attempt(
    "an attribute of a file outside",
    lambda: c(191, f"{out}/secret".encode(), b"user.x", bytes(8), 8) not in (-2, -13, -95),
)
attempt("connections of this machine", lambda: not isolated and opens("/proc/self/net/tcp"))

# More rights than it has.
attempt("less caution with the killer of memory", writes, "/proc/self/oom_score_adj", b"-1000")
attempt("capabilities", lambda: libc.capset(struct.pack("<Ii", 0x20080522, 0), b"\xff" * 24) == 0)
attempt("new privileges again", lambda: libc.prctl(38, 0, 0, 0, 0) == 0)
attempt("another user", lambda: (os.setresuid(12345, 12345, 12345), os.getuid() == 12345)[1])
attempt("another group", lambda: (os.setgroups([0, 1, 2]), True)[1])
attempt("maps of users", writes, "/proc/self/uid_map", b"0 0 1")
attempt("a higher priority", lambda: os.nice(-5) < 0)
attempt("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)) is None)
for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_CORE"):
    attempt(f"a wider {name}", lambda name=name: resource.setrlimit(getattr(resource, name), (-1, -1)) is None)

# Programs that lend their owner's rights to whoever starts them, now or later.
open("plain", "w").close()


def lends(name):
    return os.stat(name).st_mode & 0o6000


def lend(mode):
    """Try every call that gives a file this mode."""
    made = f"made-{mode:o}"
    attempt(f"chmod {mode:o}", lambda: (os.chmod("plain", mode), lends("plain"))[1])
    attempt(f"fchmod {mode:o}", lambda: (os.fchmod(os.open("plain", 0), mode), lends("plain"))[1])
    attempt(f"fchmodat2 {mode:o}", lambda: (c(452, -100, b"plain", mode, 0), lends("plain"))[1])
    attempt(f"open {mode:o}", lambda: lends(os.open(made, os.O_CREAT | os.O_WRONLY, mode)))
    attempt(f"open without a name {mode:o}", lambda: lends(os.open(".", os.O_TMPFILE | os.O_WRONLY, mode)))
    attempt(f"creat {mode:o}", lambda: lends(c(85, made.encode() + b"c", mode)))
    attempt(f"mknod {mode:o}", lambda: (os.mknod(made + "n", mode), lends(made + "n"))[1])
    attempt(f"mkdir {mode:o}", lambda: (c(83, made.encode() + b"d", mode), lends(made + "d"))[1])


for mode in (0o4755, 0o2755, 0o6777):
    lend(mode)
for kind, major, minor in ((0o60000, 8, 0), (0o60000, 254, 0), (0o20000, 1, 1), (0o20000, 5, 1)):
    attempt(
        f"a device {major}:{minor}",
        lambda k=kind, a=major, b=minor: os.mknod(f"dev{a}-{b}-{k}", k | 0o666, os.makedev(a, b)) is None,
    )

# What belongs to the system, through a descriptor for reading or by another name of it.
program = "/usr/bin/env"
before = os.stat(program)


def changed():
    now = os.stat(program)
    return (now.st_mode, now.st_mtime_ns, now.st_uid, now.st_nlink) != (
        before.st_mode,
        before.st_mtime_ns,
        before.st_uid,
        before.st_nlink,
    )


reading = os.open(program, os.O_RDONLY)
attempt("fchmod of a program", lambda: (c(91, reading, 0o1755), changed())[1])
attempt(
    "fchown of a program", lambda: (c(93, reading, -1, before.st_gid) and c(93, reading, 65534, 65534), changed())[1]
)
attempt(
    "times of a program",
    lambda: (
        c(
            280,
            reading,
            None,
            (ctypes.c_long * 4)(*divmod(before.st_atime_ns, 10**9), *divmod(before.st_mtime_ns + 1, 10**9)),
            0,
        ),
        changed(),
    )[1],
)
attempt(
    "times of a program by a path of a descriptor",
    lambda: (os.utime(f"/proc/self/fd/{reading}", ns=(before.st_atime_ns, before.st_mtime_ns + 1)), changed())[1],
)
attempt("attributes of a program", lambda: c(190, reading, b"user.homarus", b"x", 1, 0) == 0)
attempt("removed attributes of a program", lambda: c(199, reading, b"user.homarus") == 0)
attempt("flags of a program", lambda: fcntl.ioctl(reading, 0x40086602, struct.pack("l", 0x80)) == 0)
attempt("a second name of a program", lambda: os.link(program, "env") is None)
attempt(
    "a second name by a descriptor", lambda: os.link(f"/proc/self/fd/{reading}", "env2", follow_symlinks=True) is None
)
attempt("a second name by an empty path", lambda: c(265, reading, b"", -100, b"env3", 0x1000) == 0)
attempt("a program for writing by its descriptor", opens, f"/proc/self/fd/{reading}", os.O_WRONLY)
attempt(
    "a program in shared memory", lambda: mmap.mmap(reading, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
)
attempt("a program put in another's place", lambda: os.rename("plain", program) is None)
attempt("two names exchanged", lambda: c(316, -100, b"plain", -100, program.encode(), 2) == 0)

# Sockets of every kind, and what listens on this machine.
for family in range(1, 46):
    if family not in (2, 10, 16):
        attempt(
            f"sockets of family {family}",
            lambda family=family: any(c(41, family, kind, 0) >= 0 for kind in (1, 2, 3, 5)),
        )
attempt("a socket in the workspace", lambda: socket.socket(socket.AF_UNIX).connect(served) is None)
attempt("a pair of datagram sockets", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("a pair of datagram sockets that do not wait", lambda: c(53, 1, 2 | 0o4000 | 0o2000000, 0, bytes(8)) == 0)
attempt("a raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("a raw socket that writes headers", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255))
SOCKETS = ("/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/dbus/system_bus_socket",
    "/run/systemd/private", "/run/systemd/notify", "/run/systemd/journal/stdout", "/run/systemd/resolve/io.systemd.Resolve", "/run/nscd/socket", "/dev/log",
    "/run/snapd.socket", "/run/user/0/bus", "/run/user/1000/bus", "/run/user/1000/wayland-0", "/tmp/.X11-unix/X0", "\0/tmp/.X11-unix/X0", "\0/org/kernel/linux")  # fmt: skip
for path in SOCKETS:
    attempt(f"connecting to {path!r}", lambda path=path: socket.socket(socket.AF_UNIX).connect(path) is None)

# Devices, switches of the kernel, folders of other people.
for name in ("mem", "port", "kmsg", "kvm", "fuse", "vsock", "vhost-vsock", "vhost-net", "net/tun", "loop-control", "loop0", "vda", "sda", "nvme0n1",
             "mapper/control", "uinput", "input/event0", "rfkill", "watchdog", "tpm0", "console", "tty0", "tty1", "ttyS0", "snapshot", "cuse", "userfaultfd"):  # fmt: skip
    attempt(f"/dev/{name}", opens, f"/dev/{name}")
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/vm/overcommit_memory",
             "/proc/sys/fs/binfmt_misc/register", "/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled",
             "/sys/power/state", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/dev/null/x"):  # fmt: skip
    attempt(f"writing {path}", opens, path, os.O_WRONLY)
for path in ("/proc/kcore", "/proc/kmsg", "/proc/vmcore", "/sys/kernel/debug/sched", "/sys/kernel/tracing/trace", "/boot", "/root/.bashrc", "/home", "/var/log", "/var/lib",
             "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/sshd_config", "/etc/machine-id", "/etc/ssl/private", "/etc/passwd-", "/var/spool/cron", "/srv", "/mnt"):  # fmt: skip
    attempt(f"reading {path}", opens, path)
attempt("a watch on a folder outside", lambda: c(254, c(294, 0), out.encode(), 0xFFF) >= 0)
attempt("a watch on the homes", lambda: c(254, c(294, 0), b"/", 0xFFF) >= 0 and not isolated)
attempt(
    "folders that were left open", lambda: any(os.path.exists(f"/proc/self/fd/{fd}/secret") for fd in range(3, 256))
)
attempt(
    "descriptors of the first process",
    lambda: [os.readlink(p) for p in glob.glob("/proc/1/fd/*") if out in os.readlink(p)],
)


def old_calls():
    """Make a call of the 32-bit kind: another table, which a filter of numbers must not mistake for its own."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))() >= 0


def nameless():
    """Become a program that lies in memory alone: it may run, and is as closed in as any other."""
    file = os.memfd_create("cat", 0)
    with open("/bin/cat", "rb") as source:
        os.write(file, source.read())
    os.execve(file, ["cat", f"{out}/secret"], {})


attempt("calls of the 32-bit kind", born, old_calls)
attempt("a program in memory alone", born, nameless)
sys.stdout.write("\n".join([f"tried {len(tried)}", *(f"through: {name}" for name in through), ""]))
