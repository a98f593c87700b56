"""Which entries of a transcript form the active branch, however the file came to be. Pure: entries in, entries out.

`walk_tail` reads from the newest line and stops early; it gives up on anything unusual. `Nodes.resolve` sees the whole
file and always answers: a lost line costs that line alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from homarus.sessions.entry import (
    IMAGE_TURNS,
    Compaction,
    Entry,
    Leaf,
    MessageEntry,
    Reset,
    UnknownEntry,
    has_images,
    without_images,
)


class Tail(Struct, frozen=True):
    """The newest part of a branch, oldest entry first. `complete` says that the context needs nothing older."""

    entries: tuple[Entry, ...]
    complete: bool = True


_ANY: Any = object()  # "whichever entry comes next", where an id is looked for


def is_canonical(entry: Entry) -> bool:
    """Say whether an entry moves the end of the branch to itself."""
    return not entry.side and not isinstance(entry, Leaf | UnknownEntry)


def walk_tail(newest_first: Iterable[Entry], *, limit: int) -> Tail | None:
    """Follow the branch from its end to where the context begins, or return None when only the whole file can tell.

    Where no boundary comes sooner, entries that weigh about `limit` are kept; the cut is then at a user's turn.
    """
    want: Any = _ANY
    chain: list[Entry] = []
    newest = ""  # the id of the end of the branch
    size, boundary, turns = 0, 0, Turns()
    seen: set[str] = set()
    aside: set[str] = set()  # the parents of what stands off the branch
    seek: str | None = None  # the first entry that the boundary keeps
    source = iter(newest_first)
    for entry in source:
        seen.add(entry.id)
        if newest and entry.parent_id == newest:
            return None  # a child stands before its parent: the lines were moved about
        if want is _ANY and not isinstance(entry, Leaf) and not is_canonical(entry):
            continue
        if want is not _ANY and entry.id != want:
            if isinstance(entry, Reset):
                return None  # a branch around a reset
            if is_canonical(entry):
                aside.add(entry.parent_id or "")
            continue
        if isinstance(entry, Leaf):
            if not entry.target:
                return None
            want = entry.target
            continue
        newest = newest or entry.id
        user = turns.see(entry)
        chain.append(without_images(entry) if turns.count >= IMAGE_TURNS and has_images(entry) else entry)
        size += entry.weight
        if seek is None and isinstance(entry, Compaction | Reset):
            seek, boundary, size = entry.first_kept, len(chain), 0
            if not seek:
                return Tail(tuple(reversed(chain)))
        elif entry.id == seek:
            return Tail(tuple(reversed(chain)))
        if size >= limit and (user or size >= 2 * limit):
            # A boundary that keeps more than a window can hold keeps nothing.
            return Tail(tuple(reversed(chain[:boundary] if seek else chain)), complete=False)
        want = entry.parent_id if entry.linked else _ANY
        if want is None:
            break
    lost = want is not _ANY and want is not None  # the parent of the oldest entry is not in the file
    if (lost and aside) or any(is_canonical(entry) for entry in source) or not aside <= seen:
        return None
    # What was to be kept is not there: nothing before the boundary is shown.
    return Tail(tuple(reversed(chain[:boundary] if seek else chain)))


class Turns:
    """Counts the turns of a branch that is read from its end."""

    def __init__(self) -> None:
        self.count = 0
        self._asked = False

    def see(self, entry: Entry) -> bool:
        """Take the next older entry, and say whether a turn begins with it."""
        if not isinstance(entry, MessageEntry):
            return False
        if entry.role == "user":
            self._asked = True
            return True
        if self._asked:
            self._asked = False
            self.count += 1
        return False


def forget_old_images(branch: list[Entry]) -> list[Entry]:
    """Return a branch that holds the pictures of its newest turns only."""
    if not any(has_images(entry) for entry in branch):
        return branch
    turns, kept = Turns(), list(branch)
    for place in range(len(kept) - 1, -1, -1):
        turns.see(kept[place])
        if turns.count >= IMAGE_TURNS:
            kept[place] = without_images(kept[place])
    return kept


class Node(Struct):
    """What navigation needs to know of one entry; the entry itself stays on disk."""

    index: int
    first: int
    """The place of the first line with this id: a line may stand in the file twice."""
    id: str
    parent: str | None
    time: int
    offset: int
    canonical: bool
    linked: bool
    kind: type[Entry]
    size: int
    user: bool
    side: bool
    target: str = ""
    keep: str = ""


def cut(path: list[Node], limit: int) -> tuple[list[Node], bool]:
    """Return what the context needs of a settled branch, and whether nothing of it was left out: as `walk_tail` does."""
    size = 0
    for place in range(len(path) - 1, -1, -1):
        node = path[place]
        if node.kind in {Compaction, Reset}:
            start = next((i for i in range(place) if node.keep and path[i].id == node.keep), place)
            heavy = sum(kept.size for kept in path[start:place]) >= 2 * limit
            return path[place if heavy else start :], not heavy
        size += node.size
        if size >= (limit if node.user else 2 * limit):
            return path[place:], place == 0
    return path, True


class Nodes:
    """Every entry of one file in file order, as nodes."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.nodes: list[Node] = []
        self.by_id: dict[str, Node] = {}
        time = 0
        for entry in entries:
            time = entry.time or time
            index = len(self.nodes)
            earlier = self.by_id.get(entry.id)
            node = Node(
                index=index,
                first=earlier.first if earlier else index,
                id=entry.id,
                parent=entry.parent_id,
                time=time,
                offset=entry.offset,
                canonical=is_canonical(entry),
                linked=entry.linked,
                kind=type(entry),
                size=entry.weight,
                user=isinstance(entry, MessageEntry) and entry.role == "user",
                side=entry.side,
                target=entry.target if isinstance(entry, Leaf) else "",
                keep=entry.first_kept if isinstance(entry, Compaction | Reset) else "",
            )
            self.nodes.append(node)
            self.by_id[entry.id] = node

    def resolve(self) -> list[Node]:
        leaf, moved = self._link()
        self._attach_orphans()
        if leaf is None:
            return []
        path = self._path(leaf if moved else self._descend(leaf))
        return [node for node in path if node.kind is not Leaf]

    def _link(self) -> tuple[Node | None, bool]:
        """Settle each parent that the file itself gives, and return the end of the branch and whether it was moved there."""
        leaf: Node | None = None
        moved = False
        reset: set[str] = set()  # the latest reset and what hangs on it: no marker leads behind it
        self.orphans: list[Node] = []
        for node in self.nodes:
            if self.by_id[node.id] is not node:
                # A second copy of the line stands further down; what hangs on it may stand before that.
                if node.parent in reset:
                    reset.add(node.id)
                continue
            known = self.by_id.get(node.parent) if node.parent else None
            orphan = node.kind is not Leaf and known is None and (bool(node.parent) or not node.linked)
            if node.kind is Leaf:
                target = self.by_id.get(node.target)
                valid = target is not None and target.first < node.index and (not reset or target.id in reset)
                node.parent = node.target if valid else node.parent if known else leaf.id if leaf else None
                if valid and target:
                    leaf, moved = target, True
            elif orphan:
                self.orphans.append(node)
            if node.kind is Reset:
                reset = {node.id}
            elif reset and (orphan or node.parent in reset):
                reset.add(node.id)
            if node.canonical:
                leaf, moved = node, False
        return leaf, moved

    def _attach_orphans(self) -> None:
        """Hang an entry whose parent is gone on the newest entry that is older than it, by time, then by place."""
        if not self.orphans:
            return
        alive = [node for node in self.nodes if self.by_id[node.id] is node and node.kind is not Leaf]
        order = sorted(alive, key=lambda node: (node.time, node.index))
        ranks = [(node.time, node.index) for node in order]
        groups = _Groups(alive, self.by_id)
        children = self._children(alive)
        for orphan in sorted(self.orphans, key=lambda node: (node.time, node.index)):
            own = groups.find(orphan.id)
            at = bisect_left(ranks, (orphan.time, orphan.index)) - 1
            while at >= 0 and groups.find(order[at].id) == own:
                at -= 1
            if at < 0:
                orphan.parent = None
                continue
            best = order[at]
            seen = {best.id}
            while later := [c for c in children.get(best.id, ()) if c.time <= orphan.time and c.id not in seen]:
                if groups.find(later[-1].id) == own:
                    break
                best = later[-1]
                seen.add(best.id)
            orphan.parent = best.id
            children.setdefault(best.id, []).append(orphan)
            groups.join(own, groups.find(best.id))

    def _children(self, alive: list[Node]) -> dict[str, list[Node]]:
        children: dict[str, list[Node]] = {}
        for node in alive:
            if node.parent in self.by_id:
                children.setdefault(self._real(node.parent), []).append(node)
        return children

    def _real(self, ident: str) -> str:
        seen: set[str] = set()
        while (node := self.by_id[ident]).kind is Leaf and node.parent in self.by_id and ident not in seen:
            seen.add(ident)
            ident = node.parent
        return ident

    def _descend(self, leaf: Node) -> Node:
        """Go on to what hangs on the last line; only lines that were moved about can have anything there."""
        links = [
            n for n in self.nodes if (n.canonical or n.kind is UnknownEntry) and self.by_id[n.id] is n and not n.side
        ]
        children = self._children(links)
        seen = {leaf.id}
        while below := [c for c in children.get(leaf.id, ()) if c.id not in seen]:
            leaf = below[-1]
            seen.add(leaf.id)
        return leaf

    def _path(self, leaf: Node) -> list[Node]:
        path: list[Node] = []
        seen: set[str] = set()
        node: Node | None = leaf
        while node is not None and node.id not in seen:
            seen.add(node.id)
            path.append(node)
            node = self.by_id.get(node.parent) if node.parent else None
        return path[::-1]


class _Groups:
    """Which nodes hang together: a union-find over the links that exist."""

    def __init__(self, nodes: list[Node], by_id: dict[str, Node]) -> None:
        self._up = {
            node.id: node.parent if node.parent is not None and node.parent in by_id else node.id
            for node in by_id.values()
        }
        for node in nodes:
            self.find(node.id)

    def find(self, ident: str) -> str:
        path: list[str] = []
        seen: set[str] = set()
        while (above := self._up[ident]) != ident and ident not in seen:
            seen.add(ident)
            path.append(ident)
            ident = above
        for passed in path:
            self._up[passed] = ident
        self._up[ident] = ident
        return ident

    def join(self, group: str, other: str) -> None:
        self._up[group] = other
