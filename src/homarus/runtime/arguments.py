"""What a program gave wrongly, refused before anything is done: a `TypeError` names what it must be, a `HomarusError` the cure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from homarus.core.errors import HomarusError, Unknown
from homarus.core.messages import Image
from homarus.core.text import printable
from homarus.runtime.client import RunOptions


def is_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return value


def words(value: object, *, beside: bool = False) -> str:
    """Return what shall be said; nothing at all only where something goes along `beside` it."""
    text = is_text("text", value)
    if not beside and not printable(text).strip():
        raise HomarusError("the text is empty", cure="say something, or give images")
    return text


def session_name(value: object) -> str:
    """Return the name of a session. What is cut off or skipped in it would make it another program's session."""
    text = is_text("session", value)
    if not text.strip():
        raise Unknown("the name of the session is empty", cure="name one, or leave it out: then it is 'main'")
    if printable(text) != text or "\n" in text:
        raise Unknown(f"session {text!r} holds control characters", cure="give a name on one line, with .strip()")
    return text


def state_folder(value: object) -> str:
    """Return where a home is, absolute."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"home must be a path, not {type(value).__name__}")
    text = os.fspath(value)
    if not isinstance(text, str):
        raise TypeError("home must be a path of text, not of bytes")
    if not text.strip() or "\0" in text:
        cure = "name a state folder such as ~/.openclaw ('.' is the current one), or leave it out"
        raise HomarusError(f"home={text!r} is no folder", cure=cure)
    return str(Path(text).expanduser().absolute())


def environment(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise TypeError(f"env must be a mapping such as os.environ, not {type(value).__name__}")
    for name, text in value.items():
        is_text("a name in env", name)
        is_text(f"env[{name!r}]", text)
    return dict(value)


def functions(value: object) -> list[Callable[..., Any]]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"tools must be a list of functions, not {type(value).__name__}: write tools=[…]")
    return list(value)


def pictures(value: object) -> tuple[Image, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"images must be a list of Image(…), not {type(value).__name__}")
    given = tuple(value)
    for each in given:
        if not isinstance(each, Image):
            raise TypeError(f"images must hold Image(…) alone, not {type(each).__name__}")
    return given


def checked(options: RunOptions) -> RunOptions:
    """Return how a message is sent if every part of it can be."""
    try:
        options = msgspec.convert(asdict(options), RunOptions)
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).replace("null", "None").partition(" - at `$.")
        raise TypeError(f"{where.rstrip('`') or 'options'}: {what}") from None
    seconds = options.seconds
    if seconds is not None and not (isfinite(seconds) and seconds >= 0):
        cure = "give a number above 0; 0 sets no limit, and None the limit of the home"
        raise HomarusError(f"seconds={seconds} is no limit", cure=cure)
    return options
