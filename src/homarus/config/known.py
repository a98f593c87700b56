"""Every key that means something here: read by a typed block, read by hand, or known and without effect. One declaration for all.

A key that nothing reads must be named: a setting is used, or the program says that it has no effect. A test searches the
sources for a use of every field of every block; one that is not used needs its line in `no_effect.json`.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from homarus.config.blocks import BLOCKS, MORE_KEYS, load_block, load_named, path_of
from homarus.config.keypath import KeyPath, format_path

# Read one by one, without a class. What stands below such a key is its reader's business.
BY_HAND = (
    "agents.defaults.cwd",
    "agents.defaults.groupChat.mentionPatterns",
    "agents.defaults.identity.emoji",
    "agents.defaults.identity.name",
    "agents.defaults.imageMaxDimensionPx",
    "agents.defaults.name",
    "agents.defaults.skills",
    "agents.entries.*.agentDir",
    "agents.entries.*.default",
    "bindings",
    "broadcast",
    "cron.sessionRetention",
    "gateway.channelHealthCheckMinutes",
    "gateway.channelMaxRestartsPerHour",
    "gateway.channelStaleEventThresholdMinutes",
    "messages.groupChat.historyLimit",
    "messages.groupChat.mentionPatterns",
    "plugins.slots.contextEngine",
    "plugins.slots.memory",
    "session.agentToAgent.maxPingPongTurns",
)
# What programs write into the file about themselves.
NOTES = frozenset({"$schema", "meta", "wizard"})


def _no_effect() -> dict[str, str]:
    """Return what OpenClaw knows and has no effect here, with the reason: the rows of `no_effect.json`."""
    rows = msgspec.json.decode(Path(__file__).with_name("no_effect.json").read_bytes())
    return {f"{row['below']}.{key}".lstrip("."): row["why"] for row in rows for key in row["keys"]}


# A line covers everything below it that nothing else names.
NO_EFFECT = _no_effect()
# Words of other programs for the lists that hold rules.
_SYNONYMS = {
    **dict.fromkeys(("denied", "denylist", "disallow", "disallowed", "block", "blocked", "blocklist"), "deny"),
    **dict.fromkeys(("blacklist", "exclude", "excluded", "forbid", "forbidden"), "deny"),
    **dict.fromkeys(("allowed", "allowlist", "included", "permit", "permitted", "whitelist"), "allow"),
}
# Rules that may stand a level too high, by what holds them there.
_INSIDE = {
    ("tools",): frozenset({"allow", "alsoAllow", "byProvider", "deny", "elevated", "exec", "fs"}),
    ("defaults",): frozenset({"budget", "heartbeat", "modelPolicy", "sandbox", "subagents", "tools"}),
    ("agents", "defaults"): frozenset({"budget", "modelPolicy", "sandbox", "subagents"}),
    ("session",): frozenset({"dmScope", "sendPolicy"}),
}
HELD = frozenset().union(*_INSIDE.values())
TOP = frozenset({text.partition(".")[0] for text in (*BLOCKS, *BY_HAND, *NO_EFFECT)} | NOTES)


class Node(msgspec.Struct):
    """What is known at one place. `free` means that whatever stands below belongs to the reader of this key.

    What has a name of its own is still one of all: `like` is what is known of every one.
    """

    children: dict[str, Node] = {}
    free: bool = False
    reason: str = ""
    like: Node | None = None

    def child(self, key: Any) -> Node | None:
        found = self.children.get(str(key)) or self.children.get("*")
        return found or (self.like.child(key) if self.like else None)

    @property
    def names(self) -> set[str]:
        return {*self.children, *(self.like.names if self.like else ())}


class Finding(msgspec.Struct, frozen=True):
    """A key that has no effect: because it is known to have none, or because nobody knows it (`near` may be what was meant)."""

    path: KeyPath
    reason: str = ""
    near: str = ""


def known_tree(lines: Collection[str] = BLOCKS) -> Node:
    """Return what is known, from these lines of the blocks table; each costs the import of its class."""
    root = Node()
    for name in lines:
        _grow(_at(root, path_of(name)), load_block(name))
    for text in BY_HAND:
        _at(root, tuple(text.split("."))).free = True
    for text, reason in NO_EFFECT.items():
        _at(root, tuple(text.split("."))).reason = reason
    for top, place in MORE_KEYS.items():
        if any(name.startswith(f"{top}.") for name in lines):
            for text in load_named(place)():
                node = _one_of_all(root, text.split("."))
                node.free, node.reason = True, ""
    for name in NOTES:
        _at(root, (name,)).free = True
    agents = _at(root, ("agents",))
    # The rules for tools hold for everyone or for one agent, and an entry holds whatever the defaults hold.
    _at(agents, ("defaults",)).children["tools"] = _at(root, ("tools",))
    entry = _at(agents, ("entries", "*"))
    entry.children = {**_at(agents, ("defaults",)).children, **entry.children}
    return root


def without_effect(document: Any, node: Node, path: KeyPath = (), *, named: bool = False) -> Iterator[Finding]:
    """Yield every key of a canonical document that nothing reads, the outermost of each.

    With `named` the whole is said to have no effect already: then only what looks mistyped is worth a word.
    """
    if isinstance(document, list):
        for index, inner in enumerate(document):
            yield from without_effect(inner, node, (*path, index), named=named)
    if not isinstance(document, dict) or node.free:
        return
    for key, value in document.items():
        child, where = node.child(key), (*path, key)
        if child is None:
            meant = near(key, node.names, taken=document) or belongs(key, node, path)
            if meant or not named:
                yield Finding(where, near=meant)
            continue
        told = bool(child.reason) and (_holds_others(value, child) or not child.names)
        if told:
            yield Finding(where, reason=child.reason)
        yield from without_effect(value, child, where, named=named or told)


def is_named(path: KeyPath) -> bool:
    """Say whether a key, or one below it, has a line of its own in one of the tables, wherever an agent may repeat it."""
    steps = [str(step) for step in path]
    if steps[:2] == ["agents", "entries"]:
        steps[1:3] = ["defaults"]
    if steps[:3] == ["agents", "defaults", "tools"]:
        steps[:2] = []
    text = ".".join(steps)
    return any(f"{line}.".startswith(f"{text}.") for line in (*BLOCKS, *BY_HAND, *NO_EFFECT))


def near(word: str, names: Collection[str], *, taken: Collection[str] = ()) -> str:
    """Return the name that a mistyped word most likely means, or nothing; of two that are as near, one that is not `taken`."""
    plain = _plain(word)
    limit = 1 if len(plain) <= 5 else 2
    found = sorted((_distance(plain, _plain(name)), name in taken, name) for name in names if name != "*")
    if found and found[0][0] <= limit:
        return found[0][2]
    meant = _SYNONYMS.get(plain, "")
    return meant if meant in names else ""


def belongs(key: str, node: Node, path: KeyPath) -> str:
    """Return the whole path of a rule that was written one level too high, or nothing."""
    for inner, keys in _INSIDE.items():
        here: Node | None = node
        for step in inner if key in keys else ():
            here = here.child(step) if here and step in here.names else None
        if key in keys and here and key in here.names:
            return format_path((*path, *inner, key))
    return ""


def _holds_others(value: Any, node: Node) -> bool:
    """Say whether a value is more than a way to keys that are read."""
    if node.free or not node.names or not isinstance(value, dict):
        return not node.free
    children = ((node.child(key), inner) for key, inner in value.items())
    return any(child is None or _holds_others(inner, child) for child, inner in children)


# Letters of other alphabets that look like Latin ones.
_ALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0445\u0443\u0456\u0458\u0455\u0442\u043a\u043c\u0501\u04bb\u03bf\u03b1\u03bd\u0131",
    "aeopcxyijstkmdhoavi",
)


def _plain(word: str) -> str:
    if not word.isascii():
        import unicodedata

        word = "".join(char for char in unicodedata.normalize("NFKD", word.lower()) if char.isprintable()).translate(
            _ALIKE
        )
        word = "".join(char for char in word if not unicodedata.combining(char))
    return word.lower().replace("_", "").replace("-", "").replace(" ", "")


def _distance(one: str, other: str) -> int:
    """Return how many slips lie between two words: a letter too many, too few, another one, or two that changed places."""
    if abs(len(one) - len(other)) > 2:
        return 3
    rows = [list(range(len(other) + 1))]
    for i, char in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            best = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (char != wanted))
            if i > 1 and j > 1 and char == other[j - 2] and one[i - 2] == wanted:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def _at(node: Node, path: KeyPath) -> Node:
    for step in path:
        if str(step) not in node.children:
            node.children = {**node.children, str(step): Node()}
        node = node.children[str(step)]
    return node


def _one_of_all(node: Node, path: list[str]) -> Node:
    for step in path:
        if step not in node.children:
            like = node.like.child(step) if node.like else node.children.get("*")
            named = Node(free=like.free, reason=like.reason, like=like) if like else Node()
            node.children = {**node.children, step: named}
        node = node.children[step]
    return node


def _grow(node: Node, into: Any, above: tuple[Any, ...] = ()) -> None:
    for field in _fields(into):
        child = _at(node, (field.encode_name,))
        # A class that holds itself is known one level deep.
        shapes = [shape for shape in _structs(field.type) if shape[0] not in (*above, into)]
        child.free = child.free or not shapes
        for shape, named in shapes:
            _grow(_at(child, ("*",)) if named else child, shape, (*above, into))


_fields = cache(msgspec.structs.fields)


def _structs(into: Any, *, named: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yield the classes among the parts of a type, and whether they stand below names of the user's choice."""
    if isinstance(into, type) and issubclass(into, msgspec.Struct):
        yield into, named
    for part in typing.get_args(into):
        yield from _structs(part, named=named or typing.get_origin(into) is dict)
