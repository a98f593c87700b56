"""The cache keeps what was used last and never passes its limits."""

import pytest

from homarus.storage.cache import BoundedCache


def test_the_least_recently_used_entry_goes_first():
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert "b" not in cache
    assert (cache.get("a"), cache.get("b"), cache.get("c"), cache.get("b", 9)) == (1, None, 3, 9)


def test_bytes_are_bounded_and_counted():
    cache: BoundedCache[int, bytes] = BoundedCache(100, max_bytes=10, size_of=len)
    for number in range(50):
        cache.put(number, b"xxxx")
        assert cache.bytes <= 10
    assert len(cache) == 2
    cache.put(49, b"y")
    assert cache.bytes == 5


def test_a_value_over_the_limit_is_not_kept_and_leaves_no_stale_one():
    cache: BoundedCache[str, bytes] = BoundedCache(3, max_bytes=4, size_of=len)
    cache.put("a", b"old")
    cache.put("a", b"far too long")
    assert cache.get("a") is None
    assert (len(cache), cache.bytes) == (0, 0)


def test_pop_and_clear():
    cache: BoundedCache[str, bytes] = BoundedCache(3, max_bytes=40, size_of=len)
    cache.put("a", b"one")
    cache.put("b", b"two")
    assert cache.pop("a") == b"one"
    assert cache.pop("a") is None
    assert cache.bytes == 3
    cache.clear()
    assert (len(cache), cache.bytes) == (0, 0)


@pytest.mark.parametrize("arguments", [{"max_entries": 0}, {"max_entries": 1, "max_bytes": 5}])
def test_limits_that_limit_nothing_are_refused(arguments):
    with pytest.raises(ValueError, match="at least one"):
        BoundedCache(**arguments)
