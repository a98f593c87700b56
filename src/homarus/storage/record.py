"""One JSON record as bytes and back. Encoding never loses a record to an odd string; decoding never raises."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()
_BOM = b"\xef\xbb\xbf"


def encode(record: Any) -> bytes:
    """Return compact JSON in UTF-8 on one line. Half of a surrogate pair becomes U+FFFD: it has no UTF-8 form."""
    try:
        return _encoder.encode(record)
    except UnicodeEncodeError:
        return _encoder.encode(_mend(msgspec.to_builtins(record)))


def decode(raw: bytes) -> tuple[Any, str]:
    try:
        return _decoder.decode(raw), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = str(error)
    # JavaScript writes half surrogates as escapes, and Python writes NaN: valid records to their writers.
    try:
        return _mend(json.loads(raw.removeprefix(_BOM).decode("utf-8"))), ""
    except (ValueError, RecursionError):
        return None, problem


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_mend(key): _mend(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mend(item) for item in value]
    return value
