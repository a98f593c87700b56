"""The process in which a plugin runs apart: `worker.py FOLDER FILE:FUNCTION`. Standard library only; it starts in a sandbox.

It reads requests from standard input and writes answers to standard output, one JSON object a line (JSON-RPC 2.0). What the
plugin prints goes to standard error.
"""

import asyncio
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any


class Api:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.tools: dict[str, Any] = {}

    def tool(self, name: str, function: Any) -> None:
        self.tools[name] = function

    def provider(self, name: str, factory: Any, **_: Any) -> None:
        raise RuntimeError("only tools run apart from the program")

    context_engine = memory = channel = hook = provider


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
    result = function(params["arguments"])
    return str(asyncio.run(result) if inspect.iscoroutine(result) else result)


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)
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
                answer["result"] = answered(api, request["params"])
        except BaseException as problem:  # noqa: BLE001 - also what calls sys.exit has failed, and the next call comes
            answer["error"] = {"code": -32000, "message": f"{type(problem).__name__}: {problem}"[:2_000]}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
