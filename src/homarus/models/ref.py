"""Model references: from what a person typed to provider, model and pinned profile. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from homarus.core.errors import ConfigError
from homarus.core.patterns import late

DEFAULT_PROVIDER = "anthropic"
NOTEBOOK = "builtin/notebook"

_SYNONYMS = {
    "z.ai": "zai",
    "z-ai": "zai",
    "x.ai": "xai",
    "x-ai": "xai",
    "moonshotai": "moonshot",
    "gemini": "google",
    "lm-studio": "lmstudio",
    "llama.cpp": "llamacpp",
    "llama-cpp": "llamacpp",
}
_QUOTED = late(r"""\A(.+)@(?:"([^"]+)"|'([^']+)')\Z""")

# Short names that work without being configured, as long as a model of that family is.
_FAMILIES = {
    "opus": late(r"anthropic/.*opus"),
    "sonnet": late(r"anthropic/.*sonnet"),
    "haiku": late(r"anthropic/.*haiku"),
    "gpt-mini": late(r"openai/gpt-.*(?:mini|terra|luna)"),
    "gpt": late(r"openai/gpt-(?!.*(?:mini|nano|terra|luna))"),
    "gemini-flash": late(r"google/gemini-.*flash(?!-lite)"),
    "gemini": late(r"google/gemini-(?!.*flash)"),
}


class ModelRef(Struct, frozen=True):
    """One model at one provider, with the auth profile that was pinned to it, if any."""

    provider: str
    model: str
    profile: str = ""

    @property
    def key(self) -> str:
        """Return `provider/model`, the form in which models stand in configuration and transcripts."""
        return f"{self.provider}/{self.model}"

    def __str__(self) -> str:
        return self.key


@lru_cache(256)
def normalize_provider(text: str) -> str:
    """Return a provider id in its one spelling."""
    name = text.strip().lower()
    return _SYNONYMS.get(name, name)


def split_ref(text: str) -> ModelRef | None:
    """Split at the first slash; an empty side makes no reference."""
    provider, slash, model = text.strip().partition("/")
    provider, model = normalize_provider(provider), model.strip()
    return ModelRef(provider, model) if slash and provider and model else None


class Resolved(Struct, frozen=True):
    """A reference and how it was found: ref, alias, unique or default (a guess, with a warning)."""

    ref: ModelRef
    how: str
    warning: str = ""


class Names(Struct, frozen=True):
    """What a short name can mean in one configuration."""

    # alias in lower case -> provider/model
    aliases: Mapping[str, str] = {}
    # provider/model of everything that is configured or in the catalogue of a configured provider
    configured: tuple[str, ...] = ()
    default_provider: str = DEFAULT_PROVIDER

    def resolve(self, text: str) -> Resolved:
        """Return the model that a text means; ConfigError names the text when it can mean none."""
        text = text.strip()
        found = self._find(text)
        if found is not None and found.how != "default":
            return found
        name, profile = self._split_profile(text)
        inner = self._find(name) if profile else found
        if inner is None:
            raise ConfigError(
                f"'{text}' is no model", cure="write provider/model, or an alias; `homarus models list` shows both"
            )
        return Resolved(ModelRef(inner.ref.provider, inner.ref.model, profile), inner.how, inner.warning)

    def _split_profile(self, text: str) -> tuple[str, str]:
        quoted = _quoted(text)
        if quoted:
            return quoted.group(1), quoted.group(2) or quoted.group(3)
        at = text.rfind("@")
        while at > 0:
            left, right = text[:at], text[at + 1 :].strip()
            if right and self._find(left) is not None:
                return left, right
            at = text.rfind("@", 0, at)
        return text, ""

    def _find(self, text: str) -> Resolved | None:
        if not text.strip() or _quoted(text):
            return None
        target = self.aliases.get(text.strip().lower())
        ref = split_ref(target) if target else None
        if ref:
            return Resolved(ref, "alias")
        if "/" in text:
            ref = split_ref(text)
            # `provider/model@profile` also reads as a model whose name holds an @; only a known one is taken so.
            if ref is None or ("@" in ref.model and ref.key not in self.configured):
                return None
            return Resolved(ref, "ref")
        if "@" in text:
            return None
        matches = [key for key in self.configured if key.partition("/")[2] == text.strip()]
        if len(matches) == 1:
            ref = split_ref(matches[0])
            return Resolved(ref, "unique") if ref else None
        guess = ModelRef(self.default_provider, text.strip())
        return Resolved(guess, "default", f"'{text}' names no provider; taken as {guess.key}. Write it out to be sure.")


def build_names(models: Mapping[str, Any], configured: tuple[str, ...], default_provider: str = "") -> Names:
    """Return the names of a configuration from its `agents.defaults.models` map and its configured models."""
    aliases: dict[str, str] = {}
    keys: list[str] = []
    unnamed: list[str] = []
    for text, entry in models.items():
        ref = split_ref(text)
        if ref is None:
            continue
        keys.append(ref.key)
        alias = entry.get("alias") if isinstance(entry, dict) else None
        if isinstance(alias, str) and alias.strip():
            aliases.setdefault(alias.strip().lower(), ref.key)
        else:
            unnamed.append(ref.key)
    for short, family in _FAMILIES.items():
        member = next((key for key in unnamed if family.match(key)), None)
        if member and short not in aliases:
            aliases[short] = member
    everything = tuple(dict.fromkeys([*keys, *configured]))
    return Names(aliases, everything, normalize_provider(default_provider) or DEFAULT_PROVIDER)


def allows(raw: Mapping[str, Any], resolve: Callable[[str], Resolved]) -> Callable[[ModelRef], bool]:
    """Return the allowlist of an agent's settings as a question. `modelPolicy` wins where it exists, even empty."""
    if "modelPolicy" in raw:
        policy = raw["modelPolicy"]
        listed = policy.get("allow") if isinstance(policy, dict) else None
        entries = [item for item in listed if isinstance(item, str)] if isinstance(listed, list) else []
    else:
        models = raw.get("models")
        entries = list(models) if isinstance(models, dict) else []
    if not entries:
        return lambda _: True
    exact: set[str] = set()
    prefixes: list[str] = []
    for entry in entries:
        if entry.strip().endswith("*"):
            prefixes.append(_prefix(entry))
        else:
            try:
                exact.add(resolve(entry).ref.key)
            except ConfigError:
                continue
    return lambda ref: ref.key in exact or any(ref.key.startswith(prefix) for prefix in prefixes)


def _prefix(entry: str) -> str:
    start = entry.strip().rstrip("*")
    provider, slash, model = start.partition("/")
    return f"{normalize_provider(provider)}/{model}" if slash else start.lower()


def _quoted(text: str) -> re.Match[str] | None:
    return _QUOTED.match(text) if "@" in text else None
