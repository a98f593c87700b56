"""Zstandard, from the standard library where it has it (Python 3.14) and from its backport before that."""

from __future__ import annotations

import sys
from typing import Any

# A long window is allowed: archives of large transcripts are packed with one.
_MAX_WINDOW_LOG = 31


def _module() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def decompressor() -> Any:
    """Return a decompressor of one frame: `decompress(block)`, `eof` and `unused_data`."""
    zstd = _module()
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG})


def damage() -> type[Exception]:
    """Return what a damaged frame raises."""
    error: type[Exception] = _module().ZstdError
    return error


def compress(data: bytes) -> bytes:
    """Return data as one frame."""
    packed: bytes = _module().compress(data)
    return packed
