"""Python types as JSON: what a model is told of them, and how a value that it gave becomes one of them.

msgspec does it for dataclasses, structs, typed dicts, enums, lists …; pydantic does it for whatever holds something of its
own and, where it is installed, for what msgspec does not know. It is imported for these alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from homarus.core.errors import HomarusError
from homarus.core.text import single_line

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_CURE = "take a dataclass, a msgspec struct, a typed dict or a pydantic model whose annotations can be read"
_MORE = "; with `pip install pydantic` also paths, unions of dataclasses and what else pydantic knows"
_REF = "#/$defs/"


class Forms:
    """Some types, each under a name: their JSON `schemas`, the `shared` definitions that these refer to, their values."""

    def __init__(self, hints: Mapping[str, Any], *, where: str = "") -> None:
        self._where = where
        self._hints = dict(hints)
        self._adapters: dict[str, TypeAdapter[Any]] = {}  # of the types that pydantic reads
        self._inside: dict[type, TypeAdapter[Any]] = {}  # of pydantic's types in those that msgspec reads
        for name, hint in hints.items():
            self._sort_in(name, hint)
        self.schemas, self.shared = self._described()

    def convert(self, name: str, value: Any) -> Any:
        """Return what some JSON means as that type; raises `ValueError` that tells a model what is wrong."""
        try:
            if name in self._adapters:
                return _validated(self._adapters[name], value)
            foreign = partial(_validated_inside, self._inside)
            return msgspec.convert(value, self._hints[name], str_keys=True, dec_hook=foreign)
        except (ValueError, RecursionError) as problem:
            raise ValueError(single_line(str(problem), 400)) from None

    def plain(self, name: str, value: Any) -> Any:
        """Return the JSON that means a value of that type; raises `ValueError` where there is none."""
        try:
            if name in self._adapters:
                plain = self._adapters[name].dump_python(value, mode="json", warnings="error")
            else:
                plain = msgspec.json.decode(msgspec.json.encode(value, enc_hook=_plain))
        except (TypeError, RecursionError) as problem:
            raise ValueError(str(problem)) from None
        self.convert(name, plain)
        return plain

    def _sort_in(self, name: str, hint: Any) -> None:
        """Find out who reads a type; raises `HomarusError` for one that nobody can read."""
        foreign: list[Any] = []
        try:
            parts = list(_parts(hint))
            foreign = [part for part in parts if _is_pydantic(part)]
            if foreign and not any(isinstance(part, type) and issubclass(part, msgspec.Struct) for part in parts):
                self._adapters[name] = _adapter(hint)
                return
            for part in foreign:
                if not isinstance(part, type) or is_dataclass(part):
                    raise TypeError(f"{part!r} is pydantic's, and a msgspec struct does not look at it")
                self._inside[part] = _adapter(part)
            known = partial(_looked_up, {kind: {"type": "object"} for kind in self._inside})
            msgspec.json.schema_components([hint], schema_hook=known)
        except (TypeError, NameError, AttributeError, RuntimeError) as problem:
            adapter = None if isinstance(problem, NameError) or foreign else _adapter_or_none(hint)
            if adapter is None:
                raise self._untold(name, hint, problem) from None
            self._adapters[name] = adapter

    def _untold(self, name: str, hint: Any, problem: Exception) -> HomarusError:
        # Where msgspec only says that a hook of ours might know the type, there is nothing to add.
        why = "" if "schema_hook" in str(problem) else f" ({single_line(str(problem), 200)})"
        where = f"{self._where}: '{name}': " if self._where else ""
        kind = getattr(hint, "__name__", hint) if isinstance(hint, type) else hint
        tried = sys.modules.get("pydantic") or isinstance(problem, NameError)
        cure = _CURE if tried else _CURE + _MORE
        return HomarusError(f"{where}a model cannot be told about the type {kind}{why}", cure=cure)

    def _described(self) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        theirs, more = self._by_pydantic()
        own = {name: hint for name, hint in self._hints.items() if name not in self._adapters}
        found, shared = msgspec.json.schema_components(
            own.values(), schema_hook=partial(_looked_up, theirs), ref_template=_REF + "{name}"
        )
        return {**dict(zip(own, found, strict=True)), **{name: theirs[name] for name in self._adapters}}, shared | more

    def _by_pydantic(self) -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
        wanted: list[tuple[Any, Literal["validation"], TypeAdapter[Any]]]
        wanted = [(key, "validation", adapter) for key, adapter in [*self._adapters.items(), *self._inside.items()]]
        if not wanted:
            return {}, {}
        from pydantic import TypeAdapter

        # Both may know a type of the same name, so theirs carry a mark.
        found, shared = TypeAdapter.json_schemas(wanted, ref_template=_REF + "{model}_")
        return {key: schema for (key, _), schema in found.items()}, {
            f"{name}_": each for name, each in shared.get("$defs", {}).items()
        }


def whole(schema: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with what it refers to, the outermost object written out: providers want one there."""
    name = schema.get("$ref", "").removeprefix(_REF)
    found = {**shared[name], **{key: value for key, value in schema.items() if key != "$ref"}} if name else dict(schema)
    found.pop("title", None)
    rest = {key: value for key, value in shared.items() if key != name or _refers([found, shared], name)}
    return {**found, "$defs": rest} if rest else found


def as_json(value: Any) -> Any:
    """Return what stands for a value that msgspec cannot write: a model's fields, or its text."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no JSON")


def _refers(schema: Any, name: str) -> bool:
    if isinstance(schema, dict):
        return schema.get("$ref") == _REF + name or any(_refers(each, name) for each in schema.values())
    return isinstance(schema, list) and any(_refers(each, name) for each in schema)


def _looked_up(schemas: Mapping[Any, dict[str, Any]], kind: type) -> dict[str, Any]:
    if kind not in schemas:
        raise NotImplementedError
    return dict(schemas[kind])


def _adapter(hint: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    found: TypeAdapter[Any] = TypeAdapter(hint)
    found.json_schema()  # some types can be checked and not be told
    return found


def _adapter_or_none(hint: Any) -> TypeAdapter[Any] | None:
    try:
        return _adapter(hint)
    except Exception:  # noqa: BLE001 - it is not installed, or it does not know the type, which it says in many ways
        return None


def _validated_inside(adapters: Mapping[type, TypeAdapter[Any]], kind: type, value: Any) -> Any:
    return _validated(adapters[kind], value)


def _validated(adapter: TypeAdapter[Any], value: Any) -> Any:
    try:
        return adapter.validate_json(msgspec.json.encode(value))
    except ValueError as problem:
        raise ValueError(_words(problem)) from None


def _words(problem: Exception) -> str:
    """Return what is wrong with a value; pydantic's own words come with an address for each."""
    errors = getattr(problem, "errors", None)
    if errors is None:
        return str(problem)
    return "; ".join(": ".join(filter(None, (".".join(map(str, it["loc"])), it["msg"]))) for it in errors())


def _is_pydantic(part: Any) -> bool:
    """Say whether only pydantic knows what a type, or what is written beside one, means."""
    if hasattr(part, "__get_pydantic_core_schema__") or hasattr(part, "__pydantic_validator__"):
        return True
    kind = part if isinstance(part, type) else type(part)
    return kind.__module__.partition(".")[0] in {"pydantic", "annotated_types"}


def _parts(hint: Any) -> Iterator[Any]:
    """Yield a type and all that it is made of, with what is written beside it in `Annotated`."""
    waiting, seen = [hint], dict[int, Any]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        yield part
        waiting += [*get_args(part), *filter(None, [get_origin(part), getattr(part, "__supertype__", None)])]
        if isinstance(part, type) and not _is_pydantic(part):
            fields = (
                is_dataclass(part) or is_typeddict(part) or issubclass(part, msgspec.Struct) or hasattr(part, "_fields")
            )
            waiting += get_type_hints(part, include_extras=True).values() if fields else ()
