"""Approvals: exact objects, one answer, an end for everything, and no where nobody can answer."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from homarus.core.cancel import Cancel
from homarus.core.clock import CountingIds, ManualClock, SystemClock, SystemIds
from homarus.core.errors import Cancelled, Denied
from homarus.tools.approval import RULE_MS, Approvals, Decision, Nobody, Request


class Someone:
    """Somebody is there, and hears of each question."""

    def __init__(self) -> None:
        self.heard: list[Request] = []

    def reachable(self, request: Request) -> bool:
        return True

    async def announce(self, request: Request) -> None:
        self.heard.append(request)


class Says(Someone):
    """Somebody who answers as soon as the question is put."""

    def __init__(self, book: Approvals, decision: Decision) -> None:
        super().__init__()
        self._book, self._decision = book, decision

    async def announce(self, request: Request) -> None:
        self._book.decide(request.id, self._decision, "test")


def request(book: Approvals, **changes: object) -> Request:
    fields: dict[str, object] = {
        "digest": "d1", "kind": "exec", "subject": "ls", "summary": "ls", "reason": "host", "agent_id": "main", "session": "s",
    }  # fmt: skip
    return book.new_request(**{**fields, **changes})


async def opened(book: Approvals) -> None:
    """Wait until a question stands in the book."""
    while not book.read().pending:
        await asyncio.sleep(0.005)


@pytest.fixture
def book(tmp_path: Path) -> Approvals:
    return Approvals(tmp_path / "homarus" / "approvals.json", SystemClock(), SystemIds())


async def test_nobody_there_means_no_at_once(book: Approvals, tmp_path: Path) -> None:
    assert await book.ask(request(book), Nobody(), Cancel()) == "deny"
    assert not (tmp_path / "homarus" / "approvals.json").exists()


@pytest.mark.parametrize("decision", ["allow-once", "deny"])
async def test_an_answer_from_another_process(book: Approvals, tmp_path: Path, decision: str) -> None:
    other = Approvals(tmp_path / "homarus" / "approvals.json", SystemClock(), SystemIds())
    asked = request(book)
    waiting = asyncio.create_task(book.ask(asked, Someone(), Cancel()))
    await opened(other)
    assert other.read().pending[0] == asked
    other.decide(asked.id, decision, "cli")  # type: ignore[arg-type]
    assert await waiting == decision
    assert book.read().pending == ()
    with pytest.raises(Denied, match="no open question"):
        other.decide(asked.id, "allow-once", "cli")


async def test_an_answer_to_something_else_is_no_answer(book: Approvals) -> None:
    asked = request(book, digest="other")
    one = asyncio.create_task(book.ask(asked, Someone(), Cancel()))
    await opened(book)
    book.decide(asked.id, "allow-once", "cli")
    assert await one == "allow-once"
    again = Request(**{name: getattr(asked, name) for name in asked.__struct_fields__} | {"digest": "changed"})
    assert book._answer_to(again) is None


async def test_a_question_expires(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    book = Approvals(tmp_path / "a.json", clock, CountingIds())
    asked = request(book)
    assert await book.ask(asked, Someone(), Cancel()) == "deny"  # this clock moves on while somebody waits for it
    assert book.now() >= asked.expires_ms
    with pytest.raises(Denied):
        book.decide(asked.id, "allow-once", "late")


async def test_stopping_the_turn_withdraws_the_question(book: Approvals) -> None:
    cancel = Cancel()
    waiting = asyncio.create_task(book.ask(request(book), Someone(), cancel))
    await opened(book)
    cancel.cancel("stop")
    with pytest.raises(Cancelled):
        await waiting
    assert book.read().pending == ()


async def test_a_lasting_rule_is_used_revoked_and_forgotten(tmp_path: Path) -> None:
    start = datetime(2026, 5, 1, tzinfo=UTC)
    clock = ManualClock(start)
    book = Approvals(tmp_path / "a.json", clock, CountingIds())

    async def always(subject: str, lasting: bool) -> None:
        asked = request(book, subject=subject, lasting=lasting)
        assert await book.ask(asked, Says(book, "allow-always"), Cancel()) == "allow-always"

    await always("ls #1", lasting=True)
    assert book.permitted("exec", "ls #1", "main")
    assert not book.permitted("exec", "ls #2", "main")
    assert not book.permitted("exec", "ls #1", "other")
    assert not book.permitted("host", "ls #1", "main")
    with pytest.raises(Denied, match="once only"):
        await always("sh", lasting=False)
    later = Approvals(tmp_path / "a.json", ManualClock(start + timedelta(milliseconds=2 * RULE_MS)), CountingIds())
    assert not later.permitted("exec", "ls #1", "main")
    book.revoke(book.read().rules[0].id)
    assert not book.permitted("exec", "ls #1", "main")


def test_a_damaged_book_allows_nothing_and_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"rules": [{"kind": "exec"')
    book = Approvals(path, SystemClock(), SystemIds())
    assert book.read().rules == ()
    assert [item.name for item in tmp_path.iterdir() if ".damaged." in item.name]


async def test_a_book_that_others_hold_for_a_while_is_waited_for(tmp_path: Path) -> None:
    """With two hundred processes at once a write waits in line; it fails only when somebody never lets go."""
    path = tmp_path / "approvals.json"
    program = (
        "import sys, time, datetime, pathlib\n"
        "from homarus.storage.locks import OwnerLock\n"
        "now = datetime.datetime.now(datetime.UTC)\n"
        "with OwnerLock.acquire(pathlib.Path(sys.argv[1]), purpose='approvals', now=now):\n"
        "    print('held', flush=True); time.sleep(3)\n"
    )
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, f"{path}.lock", stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None and await holder.stdout.readline() == b"held\n"
    book = Approvals(path, SystemClock(), SystemIds())
    assert await book.ask(request(book), Says(book, "allow-once"), Cancel()) == "allow-once"
    assert await holder.wait() == 0
