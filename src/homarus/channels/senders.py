"""Who is meant by an entry of a list. Pure.

An entry is a platform's stable id, with or without the name of its channel before it, `accessGroup:<name>`, or `*`. A
name that people choose themselves counts only where the settings say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from homarus.channels.settings import AccessGroup
from homarus.core.messages import Inbound

ANYBODY = "*"
_GROUP = "accessgroup:"
_KINDS = ("user:", "id:", "dm:")
# Where two ids that differ in case are two people.
_CASED = frozenset({"matrix"})


class Person(Struct, frozen=True):
    """A sender as lists see them."""

    channel: str
    id: str
    names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    groups: Mapping[str, AccessGroup] = {}
    by_name: bool = False

    @property
    def by_id(self) -> Person:
        """Return the same person without names and groups: what makes an owner must name nobody else."""
        return Person(self.channel, self.id, aliases=self.aliases)


def person_of(
    inbound: Inbound, *, aliases: tuple[str, ...], groups: Mapping[str, AccessGroup], by_name: bool = False
) -> Person:
    names = (inbound.handle, inbound.sender_name) if by_name else ()
    return Person(inbound.channel, inbound.sender, tuple(filter(None, names)), aliases, groups, by_name)


def listed(person: Person, entries: Any) -> str:
    """Return the entry that lets a person in, `*` only where no other does; nothing where none does.

    A list by channel (`{"telegram": […], "*": […]}`) is read as the original's `commands` block has it.
    """
    if isinstance(entries, Mapping):
        entries = entries.get(person.channel, entries.get(ANYBODY))
    found = [str(entry).strip() for entry in _items(entries)]
    for entry in found:
        if entry != ANYBODY and _names(person, entry):
            return entry
    return ANYBODY if ANYBODY in found else ""


def _items(entries: Any) -> Iterable[str | int]:
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return ()
    return [entry for entry in entries if isinstance(entry, str | int) and not isinstance(entry, bool)]


def _names(person: Person, entry: str, *, nested: bool = False) -> bool:
    if entry.lower().startswith(_GROUP):
        group = person.groups.get(entry[len(_GROUP) :].strip())
        if nested or group is None or group.type != "message.senders":
            return False
        members = (*group.members.get(person.channel, ()), *group.members.get(ANYBODY, ()))
        return any(_names(person, str(member).strip(), nested=True) for member in _items(members) if member != ANYBODY)
    plain = _plain(person, entry)
    if person.id and plain and _same(person, plain, person.id):
        return True
    return person.by_name and any(_same(person, plain.lstrip("@"), name.lstrip("@")) for name in person.names)


def _plain(person: Person, entry: str) -> str:
    for prefix in (person.channel, *person.aliases):
        if entry.lower().startswith(f"{prefix.lower()}:"):
            entry = entry[len(prefix) + 1 :].strip()
            break
    for kind in _KINDS:
        if entry.lower().startswith(kind):
            return entry[len(kind) :].strip()
    return entry


def _same(person: Person, one: str, other: str) -> bool:
    return bool(one) and (one == other if person.channel in _CASED else one.casefold() == other.casefold())
