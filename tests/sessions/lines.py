"""Small transcripts for tests, written line by line so that nothing of the code under test makes them."""

import json
import sys


def header(session="s1", version=3, **more):
    return {
        "type": "session",
        "version": version,
        "id": session,
        "timestamp": "2026-05-01T08:00:00.000Z",
        "cwd": "/w",
        **more,
    }


def entry(kind, ident, parent, minute=0, **fields):
    moment = f"2026-05-01T{8 + minute // 60:02d}:{minute % 60:02d}:00.000Z"
    return {"type": kind, "id": ident, "parentId": parent, "timestamp": moment, **fields}


def user(ident, parent, text=None, minute=0, **more):
    body = {"role": "user", "content": [{"type": "text", "text": text or ident}], "timestamp": 1, **more}
    return entry("message", ident, parent, minute, message=body)


def says(ident, parent, text=None, minute=0, calls=(), **more):
    blocks = [{"type": "text", "text": text or ident}]
    blocks += [{"type": "toolCall", "id": call, "name": "read", "arguments": {"path": "x"}} for call in calls]
    body = {
        "role": "assistant",
        "content": blocks,
        "stopReason": "toolUse" if calls else "stop",
        "timestamp": 1,
        **more,
    }
    return entry("message", ident, parent, minute, message=body)


def result(ident, parent, call, text=None, minute=0):
    body = {
        "role": "toolResult",
        "toolCallId": call,
        "toolName": "read",
        "content": [{"type": "text", "text": text or ident}],
        "isError": False,
        "timestamp": 1,
    }
    return entry("message", ident, parent, minute, message=body)


def jsonl(*rows):
    return b"".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for row in rows)


def compress(data):
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.compress(data)
