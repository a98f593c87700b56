"""A model without a model, in a process of its own: markers in the newest message say which tools it calls.

`[[tools:N]]` makes it read `NOTES.md` N times, one call after another, `[[exec:N]]` makes it run `true` N times;
`[[wait:S]]` makes it wait S seconds first; then, and to everything else, it answers with a sentence. `[[say:WORD]]` makes that
sentence name each word that it has not said yet, and the number of the answer. It speaks chat completions over a stream.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

_MARK = re.compile(r"\[\[(tools|exec):(\d+)\]\]")
_SAY = re.compile(r"\[\[say:([\w-]+)\]\]")
_WORD = re.compile(r"[\w-]+")
_ANSWERS = itertools.count(1)
_WAIT = re.compile(rb"\[\[wait:([\d.]+)\]\](?!.*\"role\": ?\"user\")", re.DOTALL)


def answer(body: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Return the events of one reply."""
    messages = body["messages"]
    last = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=0)
    mark = _MARK.search(_text(messages[last]))
    done = sum(message["role"] == "tool" for message in messages[last + 1 :])
    usage = {"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 9, "total_tokens": 909}}
    if mark is None or done >= int(mark[2]) or not body.get("tools"):
        words = [{"index": 0, "delta": {"content": part}} for part in ("All is well, ", _noted(messages))]
        return [*({"choices": [word]} for word in words), _end("stop"), usage]
    reads = mark[1] == "tools"
    # The calls differ, so that no guard against going in circles is measured.
    arguments = {"path": "NOTES.md", "offset": done + 1, "limit": 5} if reads else {"command": f"true {done + 1}"}
    function = {"name": "read" if reads else "exec", "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
    return [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}}]},
        _end("tool_calls"),
        usage,
    ]


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _noted(messages: list[dict[str, Any]]) -> str:
    asked = [word for each in messages if each["role"] == "user" for word in _SAY.findall(_text(each))]
    if not asked:
        return "and noted for later."
    said = {word for each in messages if each["role"] == "assistant" for word in _WORD.findall(_text(each))}
    fresh = dict.fromkeys(word for word in asked if word not in said)
    return f"noted {' '.join(fresh)} as no-{next(_ANSWERS)}." if fresh else "and noted for later."


def _end(reason: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    number = 0
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            size = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")), 0)
            data = await reader.readexactly(size)
            body = msgspec.json.decode(data or b"{}")  # quickly: what the model takes is not what is measured
            if wait := _WAIT.search(data):
                await asyncio.sleep(float(wait[1]))
            number += 1
            events = answer(body, number) if "messages" in body else []
            data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
            kind = b"content-type: text/event-stream\r\n"
            writer.write(b"HTTP/1.1 200 OK\r\n" + kind + b"content-length: %d\r\n\r\n" % len(data) + data)
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):  # whoever asked is gone
        writer.close()


@contextmanager
def serving() -> Iterator[int]:
    """Run the model in a process of its own and return its port."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        try:
            yield int(child.stdout.readline())
        finally:
            child.communicate("")


async def main() -> None:
    """Serve until the one who started this is gone; the first line printed is the port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
