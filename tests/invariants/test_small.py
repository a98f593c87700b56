"""The core stays small: few distributions, and no address of a package index in a lock."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NOT_INSTALLED_FOR_USERS = {"pip", "flit-core"}


def test_the_core_has_at_most_26_distributions() -> None:
    lock = (ROOT / "requirements" / "core.lock").read_text()
    names = set(re.findall(r"^([a-z0-9.-]+)==", lock, re.MULTILINE)) - NOT_INSTALLED_FOR_USERS
    assert {"click", "msgspec"} <= names
    assert len(names) + 1 <= 26


def test_locks_are_hashed_and_name_no_index() -> None:
    for lock in (ROOT / "requirements").glob("*.lock"):
        text = lock.read_text()
        assert not re.search(r"https?://|--(?:extra-)?index-url|--find-links", text)
        pins = text.count("==")
        assert pins
        assert text.count("--hash=sha256:") >= pins
