"""Why a value does not fit, said to a person."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from homarus.config.convert import reason


class Mode(StrEnum):
    DAILY = "daily"
    IDLE = "idle"


class Inner(msgspec.Struct):
    mode: Mode


@pytest.mark.parametrize(
    ("value", "into", "said"),
    [
        ("soon", int, "must be a whole number, not text"),
        ("soon", float | None, "must be a number or null, not text"),
        (1, str, "must be text, not a whole number"),
        (1, bool, "must be true or false, not a whole number"),
        (True, int, "must be a whole number, not a flag"),
        ({}, list[str], "must be a list, not an object"),
        ([], dict[str, int], "must be an object, not a list"),
        (0, Annotated[int, msgspec.Meta(ge=1)], "must be a whole number >= 1"),
        ("", Annotated[str, msgspec.Meta(min_length=1)], "must be text of length >= 1"),
        ("never", Mode, "'never' is none of daily, idle"),
        ("never", Mode | None, "'never' is none of daily, idle"),
        ("c", Literal["", "a", "b"], "'c' is none of a, b"),
        ("c", Literal["a", "b"] | bool, "'c' is none of a, b"),
        (None, str, "must be text, not null"),
        ({}, Inner, "Object missing required field 'mode'"),
    ],
)
def test_it_is_said_in_plain_words(value: Any, into: Any, said: str):
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, into)
    assert reason(caught.value, into) == said
