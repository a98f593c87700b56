"""Modules that are loaded, and services that are made, when they are first used: a turn does little of what it could do.

Static checkers are shown a plain import of such a module, so types and layers hold as for any other:

    if TYPE_CHECKING:
        from homarus.tools import textedit
    else:
        textedit = later("homarus.tools.textedit")
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import TypeVar, cast

T = TypeVar("T")
_one_at_a_time = Lock()


class _Later(ModuleType):
    """Stands for a module until something of it is asked for, and then hands out what it has."""

    def __getattr__(self, name: str) -> object:
        found = getattr(import_module(self.__name__), name)
        setattr(self, name, found)  # the second time it is here
        return found


def later(name: str) -> ModuleType:
    """Return a module that is imported with its first use. Not for what every turn uses: then a plain import is cheaper."""
    return _Later(name)


class _Postponed(ModuleType):
    """Stands among the loaded modules for one that others import and hardly anybody uses; its first use loads it."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._real(), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._real(), name, value)

    def _real(self) -> ModuleType:
        with _one_at_a_time:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        return import_module(self.__name__)


def postpone(*names: str) -> None:
    """Let the next import of each of these modules, by anybody, wait until something of it is used; packages of parts are loaded.

    For a command that answers once and must start quickly. Whoever uses such a module does not notice; only a module that is
    not there at all would not be missed before its first use.
    """
    postponed = [name for name in names if name not in sys.modules]
    for name in postponed:
        sys.modules[name] = _Postponed(name)
    for name in postponed:
        package, _, part = name.rpartition(".")
        if package:
            setattr(import_module(package), part, sys.modules[name])


class _Made:
    """Stands for a service until something is asked of it."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self._made: object = None

    def __getattr__(self, name: str) -> object:
        if self._made is None:
            self._made = self._make()
        found = getattr(self._made, name)
        if callable(found):
            self.__dict__[name] = found  # the second time it is here; what is no method may be another then
        return found


def made_later(make: Callable[[], T]) -> T:
    """Return a service that is made with the first thing it is asked for. Its methods can be called, nothing else."""
    return cast("T", _Made(make))
