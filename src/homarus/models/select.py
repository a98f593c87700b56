"""Which models a turn may use, in which order: from settings and overrides to a chain. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from homarus.core.errors import ConfigError, Unknown
from homarus.models.ref import ModelRef, Names, allows

AUTO = "auto"


class Choice(Struct, frozen=True):
    """A model setting: the first choice and what follows it; None leaves the rest to the configuration."""

    primary: str = ""
    fallbacks: tuple[str, ...] | None = None


class Override(Struct, frozen=True):
    """A model that was asked for instead of the configured one; a person's choice is kept to, without fallbacks."""

    model: str
    # user (a person chose it), auto (an earlier fallback stored it) or cron (a scheduled job names it)
    source: str = "user"
    # An explicit list of fallbacks replaces the configured ones; an empty one means none.
    fallbacks: tuple[str, ...] | None = None


class Chain(Struct, frozen=True):
    """The models of one turn, first to last. With nothing configured it is empty, and `auto` decides."""

    models: tuple[ModelRef, ...]
    source: str
    strict: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def primary(self) -> ModelRef:
        return self.models[0]


def choice(value: Any) -> Choice:
    """Read a model setting in either of its forms: a name, or an object with primary and fallbacks."""
    if isinstance(value, str):
        return Choice(value.strip())
    if not isinstance(value, Mapping):
        return Choice()
    primary, listed = value.get("primary"), value.get("fallbacks")
    fallbacks = tuple(item for item in listed if isinstance(item, str)) if isinstance(listed, list) else None
    return Choice(primary.strip() if isinstance(primary, str) else "", fallbacks)


def chain(
    raw: Mapping[str, Any],
    names: Names,
    *,
    override: Override | None = None,
    images: bool = False,
    sees: Callable[[ModelRef], bool] = lambda _: True,
) -> Chain:
    """Return the chain of a turn from an agent's merged settings.

    An override that the allowlist forbids is Unknown; the configured default is always allowed.
    """
    configured = choice(raw.get("model"))
    if configured.primary == AUTO:
        configured = Choice("", configured.fallbacks)
    if override:
        picked = _overridden(raw, names, configured, override)
    elif configured.primary:
        picked = _build(names, [configured.primary, *(configured.fallbacks or ())], "config")
    else:
        picked = Chain((), AUTO)
    if images and picked.models and not sees(picked.primary):
        seeing = choice(raw.get("imageModel"))
        if seeing.primary:
            return _build(names, [seeing.primary, *(seeing.fallbacks or ())], "image")
    return picked


def _overridden(raw: Mapping[str, Any], names: Names, configured: Choice, override: Override) -> Chain:
    asked = names.resolve(override.model).ref
    default = names.resolve(configured.primary).ref.key if configured.primary else ""
    if asked.key != default and not allows(raw, names.resolve)(asked):
        raise Unknown(
            f"model '{asked.key}' is not on the list of allowed models",
            cure="add it to agents.defaults.modelPolicy.allow, or choose another",
        )
    if override.source == "user" or override.fallbacks == ():
        return _build(names, [override.model], override.source, strict=True)
    if override.fallbacks is not None:
        return _build(names, [override.model, *override.fallbacks], override.source)
    after = [*(configured.fallbacks or ()), *([configured.primary] if configured.primary else [])]
    return _build(names, [override.model, *after], override.source)


def _build(names: Names, texts: list[str], source: str, *, strict: bool = False) -> Chain:
    refs: dict[str, ModelRef] = {}
    warnings = []
    for position, text in enumerate(texts):
        try:
            found = names.resolve(text)
        except ConfigError as problem:
            if position == 0:
                raise
            # One bad fallback must not take the good ones with it.
            warnings.append(f"fallback {problem.message}")
            continue
        if found.warning:
            warnings.append(found.warning)
        refs.setdefault(found.ref.key, found.ref)
    return Chain(tuple(refs.values()), source, strict=strict or len(refs) == 1, warnings=tuple(warnings))
