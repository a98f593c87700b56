"""Which package owns which block: a table of names, so that checking a configuration imports no package it does not need.

A path with `*` stands for every key there. Owners add their own line; the class holds the defaults, in one place.
"""

from __future__ import annotations

import importlib
from typing import Any

BLOCKS: dict[str, str] = {}


def load_block(path: str) -> Any:
    """Import and return the settings class of a block."""
    module, _, name = BLOCKS[path].partition(":")
    return getattr(importlib.import_module(module), name)
