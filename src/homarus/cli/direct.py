"""`homarus agent -m TEXT` without the command line's parser. Scripts ask like this over and over, and the parser costs
more than reading the configuration, the prompt and the session together.

Only plain words are understood here. Whatever else there is, right or wrong, is for the parser.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from homarus.cli import streams
from homarus.cli.app import App
from homarus.cli.failures import guarded
from homarus.cli.once import Asked, answer

_VALUES = {"-m": "text", "--message": "text", "--agent": "agent_id", "--session": "session", "--model": "model"}
_FLAGS = {"--json": "as_json", "--stream": "stream"}
# Where these are set the parser has more to do than to parse.
_SPECIAL = ("_HOMARUS_COMPLETE", "OPENCLAW_LOG_LEVEL")


def understood(args: Sequence[str], env: Mapping[str, str]) -> Asked | None:
    """Return what was asked for, or None where the parser must have a look at it."""
    if args[:1] != ["agent"] or any(env.get(name) for name in _SPECIAL):
        return None
    given: dict[str, Any] = {}
    words = iter(args[1:])
    for word in words:
        if word in _FLAGS:
            given[_FLAGS[word]] = True
        elif word in _VALUES and not (value := next(words, "-")).startswith("-"):
            given[_VALUES[word]] = value
        else:
            return None
    if not given.get("text", "").strip():
        return None
    return Asked(options={"model": given.pop("model", "")}, **given)


def run(args: Sequence[str]) -> int | None:
    """Answer a message and return the exit code; None where nothing was done and the parser is to take over."""
    env = dict(os.environ)
    asked = understood(args, env)
    if asked is None:
        return None
    streams.prepare()
    return streams.settle(guarded(lambda: answer(App(env=env), asked)))
