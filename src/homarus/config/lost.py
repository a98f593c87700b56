"""Rules that a file would lose by its shape, although each line of it is right. Pure.

What is written twice, or in two spellings that differ, counts once; what a mistyped `$include` was to bring is not there
at all. Where that may have been a rule the program stops; elsewhere it says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from homarus.config.include import INCLUDE
from homarus.config.keypath import KeyPath, differing, format_path, lookup
from homarus.config.migrate import canonical
from homarus.config.misplaced import misplaced, unnamed
from homarus.config.report import Problem, Severity
from homarus.config.restrict import may_restrict
from homarus.config.view import Config

_STOPS = "nothing runs until then, because it may restrict what may happen"
_FILES = (".json", ".json5", ".jsonc")


def losses(config: Config) -> Iterator[Problem]:
    yield from _written_twice(config)
    for canonical_path, written in config.hidden:
        stops = may_restrict(canonical_path)
        file, line = config.locate(written)
        message = f"is written as {format_path(canonical_path)}, too, which says something else"
        yield _problem(
            file,
            line,
            written,
            message,
            f"keep one of them; {_STOPS if stops else 'the newer one counts'}",
            stops=stops,
        )
    mistyped = [(path, INCLUDE) for path in _includes(config.raw, ())]
    mistyped += unnamed(lookup(config.raw, ("agents", "list")))
    for path, meant in mistyped:
        yield _at(config, path, "is no key that is known here", f"did you mean '{meant}'?", stops=True)
    for path, home, stops in misplaced(config.document):
        if home and not config.is_told(path):
            yield _at(config, config.written(path), "is not read here", f"it belongs at {home}", stops=stops)
        elif not home:
            message = "is no key that is known here, so what looks like rules in it has no effect"
            yield _at(config, config.written(path), message, "move it to where it is read", stops=stops)
    for at, source in config.source.placed() if config.source else ():
        for path in (path for path in source.clashes if may_restrict(canonical((*at, *path)))):
            message = (
                "has one shape in an included file and another in what lies over it, so that nothing of the first stays"
            )
            file, line = str(source.path), source.line((*path, INCLUDE))
            yield _problem(file, line, (*at, *path), message, f"write both in one shape; {_STOPS}", stops=True)


def _at(config: Config, path: KeyPath, message: str, cure: str, *, stops: bool) -> Problem:
    file, line = config.locate(path)
    return _problem(
        file, line, path, message, f"{cure}{'; ' if cure[-1] != '?' else ' '}{_STOPS}" if stops else cure, stops=stops
    )


def _written_twice(config: Config) -> Iterator[Problem]:
    for at, source in config.source.placed() if config.source else ():
        for found in source.written_twice():
            path = (*at, *found.path)
            lost = [where for one in found.earlier for where in differing(one, found.last, path, merged=False)]
            stops = bool(lost) and any(map(_restricts, (path, *lost)))
            cure = f"make one of them; {_STOPS}" if stops else "keep one of them; the last one counts"
            yield _problem(str(source.path), found.line, path, "is written twice", cure, stops=stops)


def _problem(file: str, line: int, path: KeyPath, message: str, cure: str, *, stops: bool) -> Problem:
    severity: Severity = "error" if stops else "warning"
    return Problem(severity, file, line, format_path(path), message, cure)


def _restricts(path: KeyPath) -> bool:
    # What an include would have brought is not known.
    return INCLUDE in path or may_restrict(canonical(path))


def _includes(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the keys that were to be an include. Those that are one have been followed, and are gone."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if ("$" in key or isinstance(inner, str | list)) and _means_include(key, inner, path):
                yield (*path, key)
            yield from _includes(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _includes(inner, (*path, index))


def _means_include(key: str, value: Any, path: KeyPath) -> bool:
    names = value if isinstance(value, list) and value else [value]
    files = all(isinstance(name, str) and _is_file(name) for name in names)
    if not files and "$" not in key and key.lower() not in ("include", "includes"):
        return False
    from homarus.config.known import near

    last = key.rpartition(".")[2]
    if "$" in key:
        return last != "$schema" and (bool(near(last, (INCLUDE,))) or (files and last.startswith("$")))
    return bool(near(last, ("include",))) and all(isinstance(name, str) for name in names) and not _knows(path, key)


def _is_file(name: str) -> bool:
    return name.startswith(("./", "../")) or (name.strip().endswith(_FILES) and "://" not in name)


def _knows(path: KeyPath, key: str) -> bool:
    """Say whether a key is one of the object at a path, or may be because only its reader knows them."""
    if path[:1] == ("env",):
        return True  # the name of a variable
    from homarus.config.known import known_tree

    node = known_tree()
    path = canonical(path)
    if path[:2] == ("agents", "list"):
        path = ("agents", "entries", "*", *path[3:])
    for step in path:
        inner = node if isinstance(step, int) else node.child(step)
        if inner is None:
            return True
        node = inner
    return node.free or key in node.names
