"""Nothing changes under a command that somebody was asked about, whichever process would change it."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from homarus.core.errors import ToolError
from homarus.sandbox.claims import Claims, Kind

TAKE = "import sys; from pathlib import Path; from homarus.sandbox.claims import Claims\nc = Claims(Path(sys.argv[1])).take(sys.argv[2], [sys.argv[3]], 'other')\nprint('taken', flush=True); sys.stdin.read()"


def test_what_is_in_the_way_of_what(tmp_path: Path) -> None:
    claims = Claims(tmp_path)

    def both(one: Kind, other: Kind, first: str = "/w", second: str = "/w") -> bool:
        held = claims.take(one, [first], "first")
        try:
            claims.take(other, [second], "second").release()
        except ToolError:
            return False
        finally:
            held.release()
        return True

    assert both("shared", "shared")
    assert both("host", "host")
    for one, other in (("host", "shared"), ("host", "alone"), ("alone", "shared"), ("alone", "alone")):
        assert not both(one, other)  # type: ignore[arg-type]
        assert not both(other, one)  # type: ignore[arg-type]
    assert both("host", "shared", "/w", "/w2")
    assert not both("host", "shared", "/w/a", "/w")
    assert not both("host", "shared", "/w", "/w/a/b")
    assert not both("shared", "host", "/", "/w/a")
    assert Claims().take("host", ["/w"], "nothing").release() is None


def test_a_claim_of_another_process_counts_until_that_ends(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    other = subprocess.Popen(
        [sys.executable, "-c", TAKE, str(tmp_path), "host", "/w"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "taken\n"
    with pytest.raises(ToolError, match="'other' was allowed"):
        claims.take("shared", ["/w/f"], "writing")
    other.kill()
    other.wait()
    claims.take("shared", ["/w/f"], "writing").release()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    other.stdout.close()
    assert other.stdin is not None
    other.stdin.close()


async def test_many_at_once(tmp_path: Path) -> None:
    """Of a hundred that want a folder for themselves, one has it at a time."""
    claims, inside, most = Claims(tmp_path), 0, 0

    def work() -> int:
        nonlocal inside, most
        try:
            held = claims.take("alone", ["/w"], "w")
        except ToolError:
            return 0
        inside += 1
        most = max(most, inside)
        inside -= 1
        held.release()
        return 1

    done = await asyncio.gather(*(asyncio.to_thread(work) for _ in range(100)))
    assert sum(done) >= 1
    assert most == 1
