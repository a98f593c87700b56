"""Nobody but storage writes durable files: a module elsewhere that writes by itself must be listed here with its reason."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent / "src" / "homarus"

# Files that write something that is not durable. The list may shrink; a new line needs a reason that a reviewer accepts.
ALLOWED = {
    "admin/backup.py": "an archive is written beside its place, synced and linked into it; what is unpacked, likewise",
    "channels/media.py": "a file of a message, poured into a draft while it is fetched, synced and renamed",
    "cli/config.py": "the copy that the user's editor works on",
    "fleet/transfer.py": "a home laid out beside its place, synced and renamed into it",
    "memory/evaluate.py": "a made-up notebook in a throw-away folder",
    "plugins/health.py": "where the interpreter says who holds all threads, emptied at each start",
    "plugins/worker.py": "the pipe to the process that started it",
    "runtime/outgoing.py": "a copy of a file on its way to a chat: poured into a draft, synced and renamed",
    "sandbox/cgroups.py": "limits of a control group: files of the kernel, not of a disk",
    "sandbox/spawn.py": "a file in memory that one child reads; no disk ever has it",
    "sandbox/scratch.py": "what a command left in its private folder, on its way out",
    "skills/install.py": "a download that is looked through in a private temp folder",
    "sessions/log.py": "an unpacked transcript in a private temp folder",
    "sessions/places.py": "a transcript out of a database in a private temp folder",
}
ATTRIBUTES = {"write_text", "write_bytes", "hardlink_to"}
MODE = re.compile(r"[rbt]*[wax+][rbtwax+]*")
OF_OS = {"rename", "replace", "link", "truncate", "ftruncate", "pwrite"}


def writes(tree: ast.AST) -> list[tuple[int, str]]:
    """Return line and name of every call that writes, renames or opens for writing without storage."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name, owner = _name(node.func)
        constants = [
            value.value for value in [*node.args, *(k.value for k in node.keywords)] if isinstance(value, ast.Constant)
        ]
        mode = any(isinstance(text, str) and MODE.fullmatch(text) for text in constants)
        opens = mode and (name == "fdopen" or (name == "open" and owner != "os"))
        connects = (owner, name) == ("sqlite3", "connect") and ":memory:" not in constants
        if opens or connects or name in ATTRIBUTES or (owner == "os" and name in OF_OS):
            found.append((node.lineno, f"{owner}.{name}" if owner else name))
    return found


def _name(function: ast.expr) -> tuple[str, str]:
    if isinstance(function, ast.Attribute):
        return function.attr, function.value.id if isinstance(function.value, ast.Name) else ""
    return (function.id, "") if isinstance(function, ast.Name) else ("", "")


def test_only_storage_writes():
    problems, listed = [], set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("storage/"):
            continue
        calls = writes(ast.parse(path.read_text(encoding="utf-8")))
        if name in ALLOWED:
            listed.add(name)
        else:
            problems += [f"src/homarus/{name}:{line}: {call}: use homarus.storage" for line, call in calls]
    assert problems == []
    assert listed == set(ALLOWED), "a listed file is gone: remove its line"


def test_what_counts_as_writing():
    code = """
open("f", "w"); open("f"); open("f", "rb"); path.open("ab"); path.open(mode="r+b"); os.open(path, flags)
path.write_text("x"); os.replace(a, b); text.replace("a", "w"); sqlite3.connect(path); sqlite3.connect(":memory:")
os.write(fd, b""); stream.write("x"); path.read_text(); cache.touch()
"""
    assert [call for _, call in writes(ast.parse(code))] == [
        "open", "path.open", "path.open", "path.write_text", "os.replace", "sqlite3.connect",
    ]  # fmt: skip
