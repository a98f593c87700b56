"""Bytes that are no text at all: whoever reads JSON from a file or a wire survives them as any other damage."""

import ast
from pathlib import Path

import pytest

from homarus.core.clock import SystemClock, SystemIds
from homarus.gateway.devices import Devices
from homarus.tools.approval import Approvals

SOURCE = Path(__file__).parents[2] / "src" / "homarus"
NO_TEXT = b'{"pending":{"\xff\xfe":1}}'
# msgspec raises its own error for JSON that is malformed, and Python's for bytes that are no UTF-8: both are ValueErrors.
MALFORMED, BOTH = (
    {"DecodeError", "MsgspecError"},
    {"ValueError", "UnicodeError", "UnicodeDecodeError", "UnicodeEncodeError"},
)


def half_caught(tree: ast.AST) -> list[int]:
    """Return the lines of handlers that know malformed JSON, and not bytes that are no text."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            names = {part.attr for part in ast.walk(node.type) if isinstance(part, ast.Attribute)}
            names |= {part.id for part in ast.walk(node.type) if isinstance(part, ast.Name)}
            if names & MALFORMED and not names & BOTH:
                found.append(node.lineno)
    return found


def test_nobody_knows_only_half_of_what_can_be_wrong():
    found = {
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        for line in half_caught(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert not found, f"catch ValueError there: {sorted(found)}"


def test_half_is_seen():
    code = "try:\n  a()\nexcept (OSError, msgspec.DecodeError):\n  pass\ntry:\n  b()\nexcept ValueError:\n  pass\n"
    assert half_caught(ast.parse(code)) == [3]


@pytest.mark.parametrize("kind", [Devices, Approvals])
def test_a_book_of_rights_that_is_no_text_gives_none_and_is_kept(kind: type, tmp_path: Path):
    path = tmp_path / "book.json"
    path.write_bytes(NO_TEXT)
    book = kind(path, SystemClock(), SystemIds()).read()
    assert not book.pending
    assert [kept.read_bytes() for kept in tmp_path.iterdir() if ".damaged." in kept.name] == [NO_TEXT]
