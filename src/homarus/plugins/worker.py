"""The process in which a plugin runs apart: `worker.py FOLDER FILE:FUNCTION`. Standard library only; it starts in a sandbox.

It reads requests from standard input and writes answers to standard output, one JSON object a line (JSON-RPC 2.0). What the
plugin prints goes to standard error.
"""

import asyncio
import inspect
import json
import os
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Api:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.tools: dict[str, Any] = {}
        self.hooks: list[tuple[int, str, Any]] = []

    def tool(self, name: str, function: Any) -> None:
        self.tools[name] = function

    def hook(self, name: str, function: Any, *, order: int = 0) -> None:
        self.hooks.append((order, name, function))

    def provider(self, name: str, factory: Any, **_: Any) -> None:
        raise RuntimeError("only tools and hooks run apart from the program")

    context_engine = memory = channel = provider


@dataclass(frozen=True)
class Call:
    tool: str
    arguments: dict[str, Any]
    session_key: str = ""


@dataclass(frozen=True)
class Decision:
    block: bool = False
    reason: str = ""
    arguments: dict[str, Any] | None = None
    ask: str = ""


def pose_as_api() -> None:
    """Let `from homarus.plugins.api import Decision` work here, too: the program itself is not to be seen from this process."""
    for name in ("homarus", "homarus.plugins", "homarus.plugins.api"):
        sys.modules[name] = types.ModuleType(name)
    vars(sys.modules["homarus.plugins.api"]).update(Call=Call, Decision=Decision, PluginApi=Api)


def loaded(folder: str, entry: str, config: dict[str, Any]) -> Api:
    file, _, function = entry.partition(":")
    sys.path.insert(0, folder)
    path = Path(folder, file)
    names: dict[str, Any] = {"__name__": "plugin", "__file__": str(path)}
    exec(compile(path.read_bytes(), str(path), "exec"), names)  # noqa: S102 - that is what this process is for
    api = Api(config)
    names[function](api)
    return api


def answered(api: Api, params: dict[str, Any]) -> str:
    function = api.tools.get(params["name"])
    if function is None:
        raise KeyError(f"register() named no function for {params['name']}")
    return str(done(function(params["arguments"])))


def done(result: Any) -> Any:
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def heard(api: Api, name: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """Run the hooks of a moment in order, and return what they decided or changed."""
    functions = [function for _, each, function in sorted(api.hooks, key=lambda row: row[0]) if each == name]
    if name != "before_tool_call":
        event = types.SimpleNamespace(**given)
        for function in functions:
            done(function(event))
        return {"context": event.context, "messages": event.messages}
    arguments, asks = None, []
    for function in functions:
        found = done(function(Call(**given)))
        if found is None:
            continue
        if not isinstance(found, Decision):
            raise TypeError(f"it returned {type(found).__name__}, not a Decision")
        if found.block:
            return {"block": True, "reason": found.reason}
        if found.arguments is not None:
            arguments = given["arguments"] = found.arguments
        if found.ask:
            asks.append(str(found.ask))
    return {"arguments": arguments, "ask": "; ".join(asks)}


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)
    pose_as_api()
    api: Api | None = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            if request["method"] == "start":
                api = loaded(sys.argv[1], sys.argv[2], request["params"]["config"])
                answer["result"] = sorted(api.tools)
            else:
                assert api is not None, "start comes first"
                asked = request["params"]
                hook = request["method"] == "hook"
                answer["result"] = heard(api, asked["name"], asked["given"]) if hook else answered(api, asked)
            written = json.dumps(answer)
        except BaseException as problem:  # noqa: BLE001 - also what calls sys.exit has failed, and the next call comes
            error = {"code": -32000, "message": f"{type(problem).__name__}: {problem}"[:2_000]}
            written = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error})
        out.write(written + "\n")
        out.flush()


if __name__ == "__main__":
    main()
