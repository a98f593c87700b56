"""Thinking levels: their names, the words people use for them, and what a model that lacks one gets instead; and speed, where
a provider sells it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max", "ultra")

WORDS = {
    "none": "off", "on": "low", "enable": "low", "enabled": "low", "think": "minimal", "min": "minimal",
    "thinkhard": "low", "thinkharder": "medium", "mid": "medium", "med": "medium", "harder": "medium",
    "ultrathink": "high", "thinkhardest": "high", "highest": "high", "extrahigh": "xhigh", "auto": "adaptive",
}  # fmt: skip

# Strength, for finding the nearest level: `adaptive` leaves the depth to the model, which then thinks about as much as `high`.
_STRENGTH = {"off": 0, "minimal": 1, "low": 2, "medium": 3, "high": 4, "adaptive": 4, "xhigh": 5, "max": 6, "ultra": 7}

# Rough budgets for models that take a number of tokens instead of a level.
BUDGETS = {
    "minimal": 1_024, "low": 4_096, "medium": 10_240, "high": 20_480, "adaptive": 20_480, "xhigh": 32_768,
    "max": 49_152, "ultra": 65_536,
}  # fmt: skip


def parse_level(text: str) -> str | None:
    """Return the level that a word means, or None; spaces, dashes and underscores do not matter."""
    word = text.strip().lower()
    if word in LEVELS:
        return word
    flat = word.replace(" ", "").replace("_", "").replace("-", "")
    return flat if flat in LEVELS else WORDS.get(flat)


def nearest(level: str, supported: Iterable[str]) -> str:
    """Return the supported level that comes closest; thinking that was asked for never silently becomes `off`."""
    options = [option for option in supported if option in _STRENGTH]
    if level in options:
        return level
    if level == "off":
        # A model that cannot stop thinking gets its weakest level.
        return min(options, key=_STRENGTH.__getitem__, default="off")
    thinking = [option for option in options if option != "off"]
    if not thinking:
        return "off"
    wanted = _STRENGTH.get(level, _STRENGTH["medium"])
    return min(thinking, key=lambda option: (abs(_STRENGTH[option] - wanted), -_STRENGTH[option]))


def weaker(level: str, supported: Iterable[str]) -> str | None:
    """Return what to try after a model refused this level: the next lower one, then `off`, then saying nothing (empty).

    None means that there is nothing left to drop.
    """
    if not level:
        return None
    below = [option for option in supported if _STRENGTH.get(option, 0) < _STRENGTH.get(level, 0)]
    if below:
        return max(below, key=_STRENGTH.__getitem__)
    return "" if level == "off" else "off"


# What each provider calls the queue that is served first, and the one that is not.
_TIERS = {"openai": {"on": "priority", "off": "default"}, "anthropic": {"on": "auto", "off": "standard_only"}}


def sells_speed(provider: str) -> bool:
    """Say whether a provider can be asked to answer before others."""
    return provider in _TIERS


def speed(provider: str, wish: str) -> str:
    """Return the service tier to ask a provider for; nothing for `auto`, and nothing where there is no choice."""
    return _TIERS.get(provider, {}).get(wish, "")
