"""A document on its way to the canonical form, with the origin of everything that moved. Pure."""

from __future__ import annotations

from typing import Any

from homarus.config.keypath import KeyPath, lookup
from homarus.config.resolve import merge

GONE: Any = object()


class Draft:
    """A working copy; the document it was made from never changes."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.root: dict[str, Any] = _copy(document)
        # canonical path -> the path as it was written
        self.origins: dict[KeyPath, KeyPath] = {}
        # path as written, what is wrong, the cure
        self.notes: list[tuple[KeyPath, str, str]] = []

    def get(self, *path: str) -> Any:
        """Return the value at a path, or None."""
        return lookup(self.root, path)

    def table(self, *path: str) -> dict[str, Any]:
        """Return the object at a path, or an empty one where there is none."""
        value = lookup(self.root, path)
        return value if isinstance(value, dict) else {}

    def tables(self, *path: str) -> list[tuple[KeyPath, dict[str, Any]]]:
        """Return every object among the values of the object at a path, with its own path."""
        return [((*path, name), value) for name, value in self.table(*path).items() if isinstance(value, dict)]

    def owners(self) -> list[tuple[KeyPath, dict[str, Any]]]:
        """Return the agent defaults and every agent entry."""
        return [
            *(item for item in self.tables("agents") if item[0][1] == "defaults"),
            *self.tables("agents", "entries"),
        ]

    def channels(self) -> list[tuple[KeyPath, dict[str, Any]]]:
        """Return every channel and every account of one."""
        found = []
        for path, channel in self.tables("channels"):
            accounts = channel.get("accounts")
            found.append((path, channel))
            for name, account in accounts.items() if isinstance(accounts, dict) else ():
                if isinstance(account, dict):
                    found.append(((*path, "accounts", name), account))
        return found

    def pop(self, path: KeyPath) -> Any:
        """Take a value out of the document; `GONE` where there was none."""
        parent = lookup(self.root, path[:-1])
        return parent.pop(path[-1], GONE) if isinstance(parent, dict) else GONE

    def put(self, path: KeyPath, value: Any, origin: KeyPath) -> None:
        """Set a value and remember where it was written."""
        parent = self._parent(path)
        if parent is not None:
            parent[str(path[-1])] = value
            self.origins.setdefault(path, origin)

    def lay_under(self, path: KeyPath, value: Any, origin: KeyPath) -> None:
        """Put a value where the document says nothing of its own; objects merge, and what is there wins."""
        parent = self._parent(path)
        if parent is None:
            self.notes.append(
                (origin, "is hidden by a value that is no object", "write the newer spelling as an object")
            )
            return
        last = str(path[-1])
        parent[last] = merge(value, parent[last]) if last in parent else value
        self.origins.setdefault(path, origin)

    def move(self, old: KeyPath, new: KeyPath) -> None:
        """Move a value to its canonical place; a value that already stands there wins."""
        value = self.pop(old)
        if value is not GONE:
            self.lay_under(new, value, old)

    def _parent(self, path: KeyPath) -> dict[str, Any] | None:
        here = self.root
        for step in path[:-1]:
            inner = here.get(str(step))
            if inner is None:
                inner = here[str(step)] = {}
            if not isinstance(inner, dict):
                return None
            here = inner
        return here


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value
