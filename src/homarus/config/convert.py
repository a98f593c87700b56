"""From plain data to a typed block, losing no more than the bad value. Pure.

A value that does not fit is reported, and its key falls back to the default of the class. A class that must not run on
half of what its owner meant offers a classmethod `disabled()`: then one bad value, or one key that is nearly one of its
own, turns the whole block into that. A rule that is misspelt must not be a rule less.
"""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from homarus.config.keypath import KeyPath
from homarus.core.patterns import late

T = TypeVar("T")
Report = Callable[[KeyPath, str], None]


class Unfit(Exception):
    """This value cannot be used at all; the holder of the key falls back."""


def convert(value: Any, into: type[T], report: Report, path: KeyPath = ()) -> T:
    """Return the typed block. `report` hears of every value that was left out, by its path and the reason."""
    disabled = getattr(into, "disabled", None)
    slips = list(_slips(value, into, path)) if disabled else []
    for where, meant in slips:
        report(where, f"is no key that is known here, but '{meant}' is")
    if disabled and slips:
        return typing.cast("T", disabled())
    if _says_nothing(value, into):
        return into()
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError:
        pass
    try:
        return typing.cast("T", _salvage(value, into, report, path))
    except Unfit as problem:
        report(path, str(problem))
        return typing.cast("T", disabled()) if disabled else into()


def fails_closed(into: Any, steps: KeyPath) -> bool:
    """Say whether a bad value at this place of a block turns the block, or a part around the value, into its `disabled()`."""
    if _is_struct(into):
        types_of = {field.encode_name: field.type for field in msgspec.structs.fields(into)}
        return hasattr(into, "disabled") or bool(steps and fails_closed(types_of.get(str(steps[0])), steps[1:]))
    if typing.get_origin(into) in (dict, list, tuple):
        return bool(steps) and any(fails_closed(part, steps[1:]) for part in typing.get_args(into))
    return any(fails_closed(part, steps) for part in typing.get_args(into))


def _slips(value: Any, into: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield the keys that are nearly one of the class and none of its own, each with the one that was meant."""
    origin = typing.get_origin(into)
    if origin in (typing.Union, types.UnionType):
        for option in typing.get_args(into):
            yield from _slips(value, option, path)
    if origin is dict and isinstance(value, dict):
        for key, inner in value.items():
            yield from _slips(inner, typing.get_args(into)[1], (*path, key))
    if not isinstance(value, dict) or not _is_struct(into):
        return
    # `beside` are the keys that others read in the same object.
    known = {*into.__struct_encode_fields__, *getattr(into, "beside", ())}
    strange = value.keys() - known
    if strange:
        from homarus.config.known import is_named, near

        for key in strange:
            meant = "" if is_named((*path, key)) else near(str(key), known, taken=value)
            if meant:
                yield (*path, key), meant
    for field in msgspec.structs.fields(into):
        if isinstance(value.get(field.encode_name), dict):
            yield from _slips(value[field.encode_name], field.type, (*path, field.encode_name))


def _says_nothing(value: Any, into: Any) -> bool:
    """Say whether a block sets no key of its class, as most do: then what the class makes of nothing is all of it."""
    return (
        isinstance(value, dict)
        and _is_struct(into)
        and len(into.__struct_defaults__) == len(into.__struct_fields__)
        and not into.__struct_config__.forbid_unknown_fields
        and value.keys().isdisjoint(into.__struct_encode_fields__)
    )


def _salvage(value: Any, into: Any, report: Report, path: KeyPath) -> Any:
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as problem:
        from homarus.config.convert import reason  # most configurations are right, and start without it

        why = reason(problem, into, value)
    origin, args = typing.get_origin(into), typing.get_args(into)
    if origin is typing.Annotated:
        origin, args = typing.get_origin(args[0]), typing.get_args(args[0])
    if origin in (typing.Union, types.UnionType):
        return _salvage_union(value, args, report, path, why)
    if isinstance(into, type) and issubclass(into, msgspec.Struct) and isinstance(value, dict):
        return _salvage_struct(value, into, report, path)
    if origin is dict and isinstance(value, dict):
        return _salvage_map(value, args[1], report, path)
    if origin in (list, tuple) and isinstance(value, list) and args and _is_struct(args[0]):
        return _salvage_list(value, args[0], origin, report, path)
    if isinstance(value, str):
        # `${PORT}` gives text: a number or a flag in it is meant as one.
        try:
            return msgspec.convert(value.strip(), into, strict=False)
        except msgspec.ValidationError:
            pass
    raise Unfit(why)


def _salvage_union(value: Any, options: tuple[Any, ...], report: Report, path: KeyPath, why: str) -> Any:
    for option in options:
        fits_shape = (isinstance(value, dict) and (_is_struct(option) or typing.get_origin(option) is dict)) or (
            isinstance(value, list) and typing.get_origin(option) in (list, tuple)
        )
        if fits_shape:
            return _salvage(value, option, report, path)
    if isinstance(value, str):
        for option in options:
            if option in (int, float, bool) or typing.get_origin(option) is typing.Annotated:
                try:
                    return msgspec.convert(value.strip(), option, strict=False)
                except msgspec.ValidationError:
                    continue
    raise Unfit(why)


def _salvage_struct(value: dict[str, Any], into: Any, report: Report, path: KeyPath) -> Any:
    found: dict[str, Any] = {}
    bad = False

    def heard(where: KeyPath, reason: str) -> None:
        nonlocal bad
        bad = True
        report(where, reason)

    for field in msgspec.structs.fields(into):
        if value.get(field.encode_name) is None and not _takes_none(field.type):
            if field.required:
                raise Unfit(f"'{field.encode_name}' is missing")
            continue
        if field.encode_name not in value:
            continue
        where = (*path, field.encode_name)
        try:
            found[field.name] = _salvage(value[field.encode_name], field.type, heard, where)
        except Unfit as problem:
            if field.required:
                raise Unfit(f"'{field.encode_name}': {problem}") from None
            heard(where, str(problem))
    if bad and hasattr(into, "disabled"):
        return into.disabled()
    try:
        return into(**found)
    except (ValueError, TypeError) as problem:
        raise Unfit(str(problem)) from None


def _salvage_map(value: dict[str, Any], item: Any, report: Report, path: KeyPath) -> dict[str, Any]:
    found = {}
    for key, inner in value.items():
        try:
            found[key] = _salvage(inner, item, report, (*path, key))
        except Unfit as problem:
            report((*path, key), str(problem))
            if hasattr(item, "disabled"):
                found[key] = item.disabled()
    return found


def _salvage_list(value: list[Any], item: Any, origin: Any, report: Report, path: KeyPath) -> Any:
    # Only lists of objects lose single items. A list of plain values is one decision (an allow or deny list): all or none.
    found = []
    for index, inner in enumerate(value):
        try:
            found.append(_salvage(inner, item, report, (*path, index)))
        except Unfit as problem:
            report((*path, index), str(problem))
    return origin(found)


def _is_struct(option: Any) -> bool:
    return isinstance(option, type) and issubclass(option, msgspec.Struct)


def _takes_none(into: Any) -> bool:
    return into is Any or into is type(None) or type(None) in typing.get_args(into)


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_EXPECTED = late(r"Expected '([^']*)'(.*?)(?:, got '([^']*)')?")
_GIVEN = {
    "bool": "a flag",
    "str": "text",
    **{name: _KINDS[name] for name in ("int", "float", "array", "object", "null")},
}


def one_of(words: Iterable[str], *, also: Iterable[str] = ()) -> msgspec.Meta:
    """Return what makes a text one of these words, in any case and with space around it; `also` are taken and not offered. Empty is unset."""
    offered = tuple(words)
    pattern = "|".join(re.escape(word) for word in (*offered, *also))
    return msgspec.Meta(
        pattern=f"(?i)^(\\s*({pattern})\\s*)?$", description=f"one of {', '.join(offered)}", extra={"words": offered}
    )


def reason(problem: msgspec.ValidationError, into: Any, value: Any = None) -> str:
    text = str(problem).split(" - at `")[0].replace("`", "'")
    names = [name for name in dict.fromkeys(_choices(into)) if name]
    if text.startswith("Invalid enum value"):
        chosen = text.removeprefix("Invalid enum value ")
        return (
            f"{chosen} is none of {', '.join(names)}{did_you_mean(value, names)}"
            if names
            else f"{chosen} is not known here"
        )
    match = _EXPECTED.fullmatch(text)
    if "matching regex" in text:
        return f"must be {' or '.join(_described(into)) or 'written differently'}{did_you_mean(value, names)}"
    if match is None:
        return text
    kinds = [_KINDS.get(kind, kind) for kind in match[1].split(" | ")]
    wanted = " or ".join(dict.fromkeys(kinds)) + match[2]
    meant = did_you_mean(value, ("true", "false")) if "bool" in match[1] else ""
    return f"must be {wanted}" + (f", not {_GIVEN.get(match[3], match[3])}" if match[3] else "") + meant


def did_you_mean(value: Any, names: Collection[str]) -> str:
    """Return the end of a sentence that says which of the names a mistyped word most likely means; empty where none is near."""
    from homarus.config.known import near

    if not isinstance(value, str):
        return ""
    # A word that only goes on where a name ends (`lowish`) is further from it than a slip.
    begins = sorted((name for name in names if len(name) > 2 and value.strip().lower().startswith(name)), key=len)
    found = near(value, names) or next(reversed(begins), "")
    return f"; did you mean '{found}'?" if found else ""


def _described(into: Any) -> Iterator[str]:
    """Yield what texts that must look a certain way are, in the words of their owner."""
    if typing.get_origin(into) is typing.Annotated:
        yield from (
            meta.description for meta in into.__metadata__ if isinstance(meta, msgspec.Meta) and meta.description
        )
    for part in typing.get_args(into):
        yield from _described(part)


def _choices(into: Any) -> Iterator[str]:
    if isinstance(into, type) and issubclass(into, enum.Enum):
        yield from (str(member.value) for member in into)
    elif typing.get_origin(into) is typing.Literal:
        yield from map(str, typing.get_args(into))
    elif typing.get_origin(into) is typing.Annotated:
        yield from (word for meta in into.__metadata__ for word in (meta.extra or {}).get("words", ()))
    elif typing.get_origin(into) is not dict:
        for part in typing.get_args(into):
            yield from _choices(part)
