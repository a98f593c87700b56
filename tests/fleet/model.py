"""A model server that speaks chat completions, answers what it was told last, and remembers who asked."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ModelServer:
    """Answers `re: <the newest words of the user>` after a while."""

    def __init__(self, seconds: float = 0.02, host: str = "127.0.0.1") -> None:
        self.seconds, self.asked = seconds, Counter()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["content-length"])))
                words = said(given["messages"])
                outer.asked[words] += 1
                time.sleep(outer.seconds)
                chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": given["model"]}
                delta, why = {"content": f"re: {words}"}, "stop"
                if order := ordered(given["messages"]):
                    call = {"name": "exec", "arguments": json.dumps({"command": order})}
                    delta, why = (
                        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": call}]},
                        "tool_calls",
                    )
                parts = [
                    {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}}]},
                    {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": why}]},
                    {**chunk, "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}},
                ]
                body = b"".join(f"data: {json.dumps(part)}\n\n".encode() for part in parts) + b"data: [DONE]\n\n"
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):  # whoever asked was ended meanwhile
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None: ...  # whoever asked was killed

        self._server = Server((host, 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def said(messages: list[dict]) -> str:
    """Return the marks (m12) of the newest user message, which may be several that were brought together."""
    for message in reversed(messages):
        if message["role"] == "user":
            content = message["content"]
            text = content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
            return " ".join(re.findall(r"\b(?:s|hook|word|tick|tele)\d+\b", text)) or text[-60:]
    return ""


def ordered(messages: list[dict]) -> str:
    """Return the command that the newest message orders (`run: ...`); nothing once it was run."""
    content = messages[-1]["content"] if messages[-1]["role"] == "user" else ""
    text = content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
    found = re.search(r"run: (.+)", text)
    return found[1] if found else ""


def settings(port: int, token: str, host: str = "127.0.0.1", **more: object) -> dict:
    """Return the configuration of a home that asks this server."""
    return {
        "models": {
            "providers": {
                "mock": {"baseUrl": f"http://{host}:{port}/v1", "apiKey": "none", "models": [{"id": "m"}]},
            }
        },
        "agents": {"defaults": {"model": "mock/m", "sandbox": {"mode": "off"}, "heartbeat": {"every": "0m"}}},
        "gateway": {
            "auth": {"token": token, "secretScopes": ["operator.admin", "operator.read", "operator.write"]},
            "http": {"endpoints": {"chatCompletions": {"enabled": True}}},
        },
        "memory": {"enabled": False},
        **more,
    }
