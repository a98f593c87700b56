"""A model that thinks for 20 ms and costs next to nothing: `python -m bench.fleet_model` prints its port."""

from __future__ import annotations

import asyncio
import json

SECONDS = 0.02
_PARTS = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Noted, thank you."}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}},
]
_HEAD = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_BODY = "".join(f"data: {json.dumps(_HEAD | part)}\n\n" for part in _PARTS).encode() + b"data: [DONE]\n\n"
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            await asyncio.sleep(SECONDS)
            writer.write(_ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
