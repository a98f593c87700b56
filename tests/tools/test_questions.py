"""What a person is shown before saying yes, and what a yes covers: exactly that, there, once, and only for a while."""

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.tools.calling import text_of
from tests.tools.context import context
from tests.tools.test_hostile import Place

from homarus.core.cancel import Cancel
from homarus.core.clock import CountingIds, ManualClock
from homarus.core.errors import Denied, ToolError
from homarus.core.messages import ToolCall, ToolResult
from homarus.core.routes import SessionKind, named_session
from homarus.sandbox.process import available
from homarus.sandbox.resolve import is_owners_variable
from homarus.sandbox.spec import Access, Backend, SandboxSpec
from homarus.tools.approval import Approvals, Nobody, Request
from homarus.tools.command import Plan, make_plan, may_last
from homarus.tools.exec_settings import ExecSettings
from homarus.tools.execute import execute
from homarus.tools.gate import rule_subject
from homarus.tools.shown import MAX_ASKED, visible
from homarus.tools.tool import ToolContext


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        ("# harmless\ntouch made", "# harmless ⏎ touch made"),
        ("ls\r\ntouch made", "ls ⏎ touch made"),
        ("ls\rtouch made", "<U+000D>"),
        ("echo a\u2028touch made", "<U+2028>"),
        ("ls" + " " * 900 + "; touch made", "ls ; touch made"),
        ("ls" + "\t" * 900 + "; touch made", "ls ; touch made"),
        ("echo " + "x" * 5_000 + "; touch made", "; touch made"),
        ("echo \u202etxt.exe; touch made", "<U+202E>"),
        ("touch \u2066made\u2069", "<U+2066>made<U+2069>"),
        ("touch ma\u200bde", "ma<U+200B>de"),
        ("touch ma\u00adde", "ma<U+00AD>de"),
        ("touch \u3164 made", "<U+3164>"),
        ("touch \u2800 made", "<U+2800>"),
        ("touch m\u0430de", "m<U+0430>de"),
        ("touch mad\u03b5", "mad<U+03B5>"),
        ("touch \uff4dade", "<U+FF4D>ade"),
        ("touch \U0001d5fade", "<U+1D5FA>de"),
        ("touch made\U000e0041", "made<U+E0041>"),
        ("touch m\u0336ade", "m<U+0336>ade"),
        ("touch\u00a0made", "touch<U+00A0>made"),
        ("echo \x1b[2K\x1b[1A; touch made", "<U+001B>[2K<U+001B>[1A; touch made"),
        ("echo \x08\x08\x08ls; touch made", "<U+0008>"),
        ("touch 'größe и цена'", "touch 'größe и цена'"),
    ],
)
async def test_a_question_hides_nothing(tmp_path: Path, command: str, seen: str) -> None:
    place = Place(tmp_path)
    await place.call("exec", command=command)
    (request,) = place.owner.asked
    assert seen in request.summary
    assert "\n" not in request.summary
    assert "".join(char for char in request.summary if not char.isprintable()) == ""
    assert request.details["whole"] == visible(command)
    if len(command) > 2_000 and "x" * 100 in command:
        assert "more characters" in request.summary


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ({"command": 'sh -c "$X"', "env": {"X": "touch made; #"}}, "X='touch made; #' sh -c \"$X\""),
        ({"command": "touch made", "workdir": ".."}, "in {top}: touch made"),
        ({"command": "touch made", "workdir": "inner"}, "in {ws}/inner: touch made"),
    ],
)
async def test_a_question_shows_what_else_decides(tmp_path: Path, arguments: dict[str, Any], seen: str) -> None:
    place = Place(tmp_path)
    (place.context.workspace / "inner").mkdir()
    await place.call("exec", **arguments)
    assert seen.format(top=tmp_path, ws=place.context.workspace) in place.owner.asked[0].summary


@pytest.mark.parametrize(
    "more", [{"action": "submit", "data": "touch made"}, {"action": "send-keys", "keys": ["touch made", "Enter"]}]
)
async def test_a_question_shows_what_would_be_typed(tmp_path: Path, more: dict[str, Any]) -> None:
    place = Place(tmp_path)
    place.owner.answer = "allow-once"
    result = await execute(ToolCall("c", "exec", {"command": "cat", "background": True}), place.box, place.context)
    place.owner.answer = "deny"
    call = ToolCall("d", "process", {"sessionId": (result.details or {})["sessionId"], **more})
    await execute(call, place.box, place.context)
    await place.manager.aclose()
    assert "touch made" in place.owner.asked[-1].summary


async def test_what_nobody_can_read_is_not_asked(tmp_path: Path) -> None:
    place = Place(tmp_path)
    text = await place.call("exec", command="echo " + "x" * MAX_ASKED + "; touch made")
    assert "more than anybody reads" in text
    assert place.owner.asked == []


Change = Callable[[Path], object]


def _swap(name: str, target: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).rename(folder / "old")
        (folder / name).symlink_to(folder / target if not target.startswith("/") else target)

    return change


DRIFTS: list[tuple[str, dict[str, Any], Change]] = [
    ("./f", {}, lambda ws: (ws / "f").write_text("#!/bin/sh\ntouch made #\n")),
    ("sh f", {}, lambda ws: (ws / "f").write_text("touch made #\n")),
    ("sh <f", {}, lambda ws: (ws / "f").write_text("touch made #\n")),
    ("cat f|sh", {}, lambda ws: (ws / "f").write_text("touch made #\n")),
    ("./f", {}, _swap("f", "other")),
    ("./tool made", {}, lambda ws: ((ws / "tool").unlink(), (ws / "tool").symlink_to("/usr/bin/touch"))),
    ("touch inner/made", {}, _swap("inner", "away")),
    ("touch made", {"workdir": "inner"}, _swap("inner", "away")),
    ("cp f fresh", {}, lambda ws: (ws / "fresh").symlink_to(ws / "made")),
    ("cp f dangling", {}, lambda ws: ((ws / "dangling").unlink(), (ws / "dangling").symlink_to(ws / "made"))),
    ("sh big", {}, lambda ws: os.truncate(ws / "big", (16 << 20) + 11)),
    ("cat f", {}, lambda ws: ((ws / "f").unlink(), os.mkfifo(ws / "f"))),
    ("sh --init-file=f", {}, lambda ws: (ws / "f").write_text("touch made #\n")),
]


@pytest.mark.parametrize(("command", "more", "change"), DRIFTS, ids=[f"{n}-{d[0]}" for n, d in enumerate(DRIFTS)])
async def test_what_changes_while_a_question_is_open_is_not_run(
    tmp_path: Path, command: str, more: dict[str, Any], change: Change
) -> None:
    """What was approved is what runs: another content, another link or another folder under the same name is not it."""
    place = Place(tmp_path)
    ws = place.context.workspace
    for name in ("inner", "away"):
        (ws / name).mkdir()
    (ws / "other").write_text("#!/bin/sh\ntouch made\n")
    (ws / "other").chmod(0o755)
    (ws / "tool").symlink_to("/usr/bin/true")
    (ws / "dangling").symlink_to(ws / "nowhere")
    with (ws / "big").open("wb") as big:
        big.truncate((16 << 20) + 10)

    class Changes:
        def reachable(self, request: Request) -> bool:
            return True

        async def announce(self, request: Request) -> None:
            change(ws)
            place.book.decide(request.id, "allow-once", "test")

    place.gate._approver = Changes()
    text = await place.call("exec", command=command, **more)
    assert "not what was approved" in text, text
    assert not list(ws.rglob("made"))


@pytest.mark.skipif(not available(Backend.BWRAP), reason="needs bubblewrap")
async def test_nothing_in_a_sandbox_changes_what_was_approved_for_the_host(tmp_path: Path) -> None:
    """A script that changes to and fro would be read at the right moment; one that grows is read while it runs."""
    place = Place(tmp_path)
    place.owner.answer = "allow-once"
    ws = place.context.workspace
    caged = replace(place.context, sandbox=SandboxSpec(Backend.BWRAP, str(ws)))

    async def start(command: str, where: ToolContext) -> ToolResult:
        return await execute(ToolCall("c", "exec", {"command": command, "background": True}), place.box, where)

    async def end(result: ToolResult) -> None:
        call = ToolCall("k", "process", {"action": "kill", "sessionId": (result.details or {})["sessionId"]})
        await execute(call, place.box, place.context)

    (ws / "f").write_text("sleep 60\n")
    flipping = await start("while :; do echo 'touch made' > g; mv g f; echo sleep 60 > g; mv g f; done", caged)
    await asyncio.sleep(0.2)
    text = text_of(await start("sh f", place.context))
    assert "could change" in text or "not what was approved" in text
    await end(flipping)
    (ws / "f").write_text("sleep 60\n")
    running = await start("sh f", place.context)
    assert "could change" in text_of(await start("echo 'touch made' >> f", caged))
    read_only = replace(caged, sandbox=SandboxSpec(Backend.BWRAP, str(ws), Access.RO))
    await end(await start("sleep 60", read_only))
    await end(running)
    assert (await start("true", caged)).details
    await place.manager.aclose()
    assert not (ws / "made").exists()


def test_a_lasting_rule_holds_for_one_folder_alone(tmp_path: Path) -> None:
    """`rm -r build` here says nothing of another `build`."""
    ctx = context(tmp_path)
    for name in ("a", "b"):
        (ctx.workspace / name).mkdir()
    subjects = {rule_subject(make_plan(ctx, {"command": "ls build", "workdir": name}, {})) for name in ("a", "b", ".")}
    assert len(subjects) == 3


def test_a_lasting_rule_is_one_agents(tmp_path: Path) -> None:
    book = Approvals(tmp_path / "book.json", ManualClock(datetime(2026, 5, 1, tzinfo=UTC)), CountingIds())
    request = book.new_request(
        digest="d", kind="exec", subject="ls #1", summary="ls", reason="", agent_id="one", session="s", lasting=True
    )
    with book._changing() as found:
        book._write(replace(found, pending=(request,)))
    book.decide(request.id, "allow-always", "test")
    assert book.permitted("exec", "ls #1", "one")
    assert not book.permitted("exec", "ls #1", "two")
    assert not book.permitted("exec", "ls #2", "one")
    assert not book.permitted("host", "ls #1", "one")
    with pytest.raises(Denied, match="no open question"):
        book.decide(request.id, "allow-once", "test")


async def test_a_question_lasts_as_long_as_configured_and_no_longer(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    book = Approvals(tmp_path / "book.json", clock, CountingIds())
    fields = {
        "digest": "d",
        "kind": "exec",
        "subject": "",
        "summary": "ls",
        "reason": "",
        "agent_id": "a",
        "session": "s",
    }
    times = [book.new_request(seconds=seconds, **fields) for seconds in (0, 5, 10**9, -1)]
    assert [request.expires_ms - request.created_ms for request in times] == [120_000, 5_000, 1_800_000, 120_000]
    assert await book.ask(times[0], Nobody(), Cancel()) == "deny"
    place = Place(tmp_path)
    place.gate._settings = lambda _: ExecSettings(approval_timeout_sec=7)
    await place.call("exec", command="touch made")
    assert place.owner.asked[0].expires_ms - place.owner.asked[0].created_ms == 7_000


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit", ".git/config", ".GIT/config", "sub/.git/config", "a/../.git/config", ".git", "hooks/mine/handler.py",
        "hooks/mine/HOOK.md", "Hooks/x/Handler.py", "link/config", "hooks/handler.py",
    ],
)  # fmt: skip
async def test_what_is_run_outside_is_asked_of_the_owner_too(tmp_path: Path, path: str) -> None:
    """A hook that an agent writes is a command on the host that waits for its moment."""
    place = Place(tmp_path, sandbox=SandboxSpec(Backend.BWRAP, str(tmp_path / "ws")))
    (place.context.workspace / ".git").mkdir()
    (place.context.workspace / "link").symlink_to(".git")
    assert (await place.call("write", path=path, content="evil")).startswith("Denied")
    assert len(place.owner.asked) == 1
    assert os.listdir(place.context.workspace / ".git") == []
    assert not (await place.call("write", path="src/hooks/useThing.ts", content="fine")).startswith("Denied")


@pytest.mark.parametrize("access", [Access.NONE, Access.RW])
async def test_a_narrower_session_has_no_business_with_a_wider_command(tmp_path: Path, access: Access) -> None:
    place = Place(tmp_path)
    place.owner.answer = "allow-once"
    result = await execute(ToolCall("c", "exec", {"command": "cat", "background": True}), place.box, place.context)
    ident = (result.details or {})["sessionId"]
    child = replace(
        place.context,
        session=named_session("main", SessionKind.SUBAGENT, "x"),
        sandbox=SandboxSpec(Backend.BWRAP, str(tmp_path / "ws"), access),
    )
    for action in ("poll", "log", "kill", "clear", "remove", "write"):
        call = ToolCall("d", "process", {"action": action, "sessionId": ident, "data": "x"})
        assert "may do more than this session" in text_of(await execute(call, place.box, child)), action
    assert ident not in text_of(await execute(ToolCall("e", "process", {"action": "list"}), place.box, child))
    assert ident in text_of(await execute(ToolCall("f", "process", {"action": "list"}), place.box, place.context))
    await place.manager.aclose()


@pytest.mark.parametrize(
    "name",
    [
        "GIT_TRACE", "GIT_TRACE2_EVENT", "GIT_EXTERNAL_DIFF", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SSL_NO_VERIFY",
        "git_dir", "PERL5SHELL", "PERL_UNICODE", "LUA_PATH_5_4", "LUA_INIT_5_4", "DOTNET_STARTUP_HOOKS", "CORECLR_PROFILER", "OPENSSL_CONF", "OPENSSL_ENGINES",
        "JAVA_HOME", "MAVEN_ARGS", "RSYNC_CONNECT_PROG", "RIPGREP_CONFIG_PATH", "LESSKEY", "LESSSECURE", "MANOPT", "KUBECONFIG", "AWS_CONFIG_FILE", "CLOUDSDK_PYTHON",
        "ANSIBLE_CONFIG", "APT_CONFIG", "PYTEST_PLUGINS", "GCC_EXEC_PREFIX", "CC", "SHELL", "SSH_AUTH_SOCK", "GTK_MODULES", "VIMINIT", "AWKLIBPATH", "BASH_LOADABLES_PATH",
        "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "HOMEBREW_PREFIX", "RUSTUP_TOOLCHAIN", "MALLOC_TRACE",
    ],
)  # fmt: skip
def test_a_model_does_not_choose_tools_keys_and_services(tmp_path: Path, name: str) -> None:
    assert is_owners_variable(name)
    with pytest.raises(ToolError, match="cannot be set"):
        make_plan(context(tmp_path), {"command": "ls", "env": {name: "x"}}, {})
    for fine in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_DATE", "TZ", "LC_ALL", "COLUMNS", "DEBUG", "NODE_ENV", "CI"):
        assert not is_owners_variable(fine)


def _plan(tmp_path: Path, *argv: str) -> Plan:
    return replace(make_plan(context(tmp_path), {"command": "ls"}, {}), pipeline=(argv,))


@pytest.mark.parametrize(
    "program",
    [
        "/usr/bin/vim.basic", "/usr/bin/vim.tiny", "/usr/bin/view", "/usr/bin/editor", "/usr/bin/pager", "/usr/bin/ldd", "/usr/bin/x86_64", "/usr/bin/setarch",
        "/usr/bin/perl5.36.0", "/usr/bin/python3.11", "/usr/bin/python3.11-config", "/usr/bin/x86_64-linux-gnu-gcc-12", "/usr/bin/gcc-12", "/usr/bin/git-shell", "/usr/bin/lua5.4",
        "/usr/bin/zless", "/usr/bin/dpkg-deb", "/usr/bin/apt-get", "/usr/sbin/service", "/usr/bin/original-awk", "/usr/local/bin/homarus", "/usr/bin/../../tmp/ls", "/tmp/ls", "/usr/lib/../../tmp/x",
        "/lib64/ld-linux-x86-64.so.2", "/usr/bin/busybox", "/usr/bin/rbash",
    ],
)  # fmt: skip
def test_no_program_with_another_name_is_allowed_for_good(tmp_path: Path, program: str) -> None:
    assert may_last(_plan(tmp_path, "/usr/bin/cat", "x"))
    assert not may_last(_plan(tmp_path, program, "x"))


# Ways to name what runs, of which a text says too little. Each runs `sub/x.sh`, or what stands beside it.
WAYS = [
    "cd sub && sh x.sh", "sh sub/*.sh", "f=sub/x.sh; sh $f", "make -C sub", "cd sub && python3 -m x", ". sub/x.sh", "run-parts --regex . sub/parts", "sh -c 'sh sub/x.sh'",
    "git -C sub x", "find sub -name x.sh -exec sh {} ';'", "ls sub/x.sh | xargs sh", "cat sub/x.s* | sh", "env sh sub/x.sh", "sh < sub/x.sh", "cd sub; ./x.sh", "sh $(echo sub/x.sh)",
    "sh sub/../sub/x.sh", "bash -c 'source sub/x.sh'", "eval sh sub/x.sh",
]  # fmt: skip
EVIL = "touch ../made made\n"


@pytest.mark.parametrize("command", WAYS)
@pytest.mark.parametrize("when", ["asked", "running"])
async def test_what_was_approved_is_what_runs_however_it_is_named(tmp_path: Path, command: str, when: str) -> None:
    place = Place(tmp_path)
    ws = place.context.workspace
    caged = [
        replace(place.context, sandbox=SandboxSpec(backend, str(ws)))
        for backend in (Backend.BWRAP, Backend.LANDLOCK)
        if available(backend)
    ]
    (ws / "sub" / "parts").mkdir(parents=True)
    files = {
        "x.sh": "sleep 0.1\n", "x.py": "", "Makefile": "all:\n\tsleep 0.1\n", "parts/x": "#!/bin/sh\n", ".git/config": "[core]\nbare=false\n",
        ".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/x": "",
    }  # fmt: skip
    for name, text in files.items():
        (ws / "sub" / name).parent.mkdir(parents=True, exist_ok=True)
        (ws / "sub" / name).write_text(text)
        (ws / "sub" / name).chmod(0o755)
    refused = []

    async def change() -> None:
        for where in caged:
            for line in (f"echo '{EVIL}' > sub/x.sh", "echo evil > sub/x.py; echo evil > sub/Makefile; mv sub old"):
                call = ToolCall("e", "exec", {"command": line})
                refused.append(text_of(await execute(call, place.box, where)))
        for tool, arguments in (
            ("write", {"path": "sub/x.sh", "content": EVIL}),
            ("edit", {"path": "sub/x.sh", "oldText": "sleep", "newText": "touch made; sleep"}),
            ("apply_patch", {"input": "*** Begin Patch\n*** Delete File: sub/x.sh\n*** End Patch"}),
            ("write", {"path": "sub/Makefile", "content": f"all:\n\t{EVIL}"}),
        ):
            refused.append(text_of(await execute(ToolCall("w", tool, arguments), place.box, place.context)))

    class Changes:
        def reachable(self, request: Request) -> bool:
            return True

        async def announce(self, request: Request) -> None:
            if when == "asked":
                await change()
            place.book.decide(request.id, "allow-once", "test")

    place.gate._approver = Changes()
    call = ToolCall("c", "exec", {"command": f"sleep 0.3; {command}" if when == "running" else command, "yieldMs": 0})
    await execute(call, place.box, place.context)
    if when == "running":
        await change()
    assert len(refused) == 4 + 2 * len(caged)
    assert all("could change" in text for text in refused), refused
    await place.manager.aclose()
    assert not list(ws.rglob("made"))
    assert (ws / "sub" / "x.sh").read_text() == files["x.sh"]
    # Afterwards everything goes on.
    assert "Replaced" in await place.call("write", path="sub/x.sh", content="true\n")
