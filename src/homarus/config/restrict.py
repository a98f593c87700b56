"""Which settings restrict what may happen, and the slips in them that must stop the program. Pure.

A restriction that cannot be read must never turn into "no restriction". Inside a block its class sees to that
(`disabled()`); here is what a class cannot see: a value in the way of a whole block, and a block under a mistyped name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from homarus.config.blocks import SHAPES
from homarus.config.keypath import KeyPath, lookup
from homarus.config.view import Config

Fault = tuple[KeyPath, str, str]

# A key restricts if one of these stands in its path.
_WORDS = frozenset(
    {
        *("tools", "sandbox", "approvals", "commands", "elevated", "subagents", "agentToAgent", "modelPolicy"),
        *("allow", "alsoAllow", "deny", "allowlist", "allowBundled", "allowFrom", "groupAllowFrom", "ownerAllowFrom"),
        *("dmPolicy", "groupPolicy", "sendPolicy"),
    }
)


def restricts(path: KeyPath) -> bool:
    """Say whether a key takes part in deciding what may happen; credentials and variables for programs do not."""
    from homarus.config.redact import is_secret_key

    names = [step for step in path if isinstance(step, str)]
    return bool(_WORDS.intersection(names)) and "env" not in names and not is_secret_key(names[-1])


def faults(config: Config) -> Iterator[Fault]:
    """Yield what must be mended before anything runs on this configuration."""
    for name, (kind, words) in SHAPES.items():
        path = tuple(name.split("."))
        for document in (config.raw, config.document):
            value: Any = lookup(document, path)
            if value is not None and not isinstance(value, kind):
                yield path, f"must be {words}", "nothing in it counts until then"
                break
