"""The chain of models of a turn: overrides, fallbacks, strictness, images."""

from __future__ import annotations

import pytest

from homarus.core.errors import ConfigError
from homarus.models.ref import build_names
from homarus.models.select import Choice, Override, chain, choice

NAMES = build_names({"a/one": {"alias": "first"}, "a/two": {}}, ("b/three",))
FULL = {"model": {"primary": "a/one", "fallbacks": ["a/two", "b/three", "a/one"]}}


def keys(raw: dict[str, object], **options: object) -> list[str]:
    return [ref.key for ref in chain(raw, NAMES, **options).models]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a/one", Choice("a/one")),
        ({"primary": "a/one"}, Choice("a/one")),
        ({"primary": "a/one", "fallbacks": []}, Choice("a/one", ())),
        ({"primary": "a/one", "fallbacks": ["x/y", 3]}, Choice("a/one", ("x/y",))),
        (None, Choice()),
        (7, Choice()),
    ],
)
def test_forms_of_the_setting(value: object, expected: Choice):
    assert choice(value) == expected


def test_configured_chain_has_no_doubles():
    assert keys(FULL) == ["a/one", "a/two", "b/three"]
    assert keys({"model": "first"}) == ["a/one"]
    assert chain({"model": "first"}, NAMES).strict


@pytest.mark.parametrize("raw", [{}, {"model": "auto"}, {"model": {"primary": "auto"}}])
def test_nothing_configured_leaves_it_to_auto(raw: dict[str, object]):
    found = chain(raw, NAMES)
    assert (found.models, found.source) == ((), "auto")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (Override("b/three"), ["b/three"]),
        (Override("b/three", "auto"), ["b/three", "a/two", "a/one"]),
        (Override("x/new", "cron"), ["x/new", "a/two", "b/three", "a/one"]),
        (Override("x/new", "cron", ()), ["x/new"]),
        (Override("x/new", "cron", ("b/three",)), ["x/new", "b/three"]),
        (Override("first@work"), ["a/one"]),
    ],
)
def test_overrides(override: Override, expected: list[str]):
    assert keys(FULL, override=override) == expected


def test_a_pinned_profile_rides_on_the_ref():
    assert chain(FULL, NAMES, override=Override("first@work")).primary.profile == "work"


def test_the_allowlist_stops_overrides_but_not_the_default():
    raw = {**FULL, "modelPolicy": {"allow": ["a/two"]}}
    assert keys(raw) == ["a/one", "a/two", "b/three"]
    assert keys(raw, override=Override("a/one")) == ["a/one"]
    assert keys(raw, override=Override("a/two")) == ["a/two"]
    with pytest.raises(ConfigError, match="b/three"):
        keys(raw, override=Override("b/three"))


def test_images_go_to_a_model_that_sees():
    raw = {**FULL, "imageModel": {"primary": "b/three", "fallbacks": ["a/two"]}}
    blind = {"images": True, "sees": lambda ref: ref.key != "a/one"}
    assert keys(raw, **blind) == ["b/three", "a/two"]
    assert keys(raw, images=True) == ["a/one", "a/two", "b/three"]
    assert keys(FULL, **blind) == ["a/one", "a/two", "b/three"]


def test_one_bad_fallback_does_not_take_the_others_with_it():
    found = chain({"model": {"primary": "a/one", "fallbacks": ["/", "b/three"]}}, NAMES)
    assert [ref.key for ref in found.models] == ["a/one", "b/three"]
    assert any("no model" in warning for warning in found.warnings)
    with pytest.raises(ConfigError):
        chain({"model": {"primary": "/"}}, NAMES)
