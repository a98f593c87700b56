"""Model references: from what a person typed to provider, model and pinned profile. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from homarus.core.errors import ConfigError, Unknown
from homarus.core.patterns import late

DEFAULT_PROVIDER = "anthropic"
NOTEBOOK = "builtin/notebook"

_SYNONYMS = {
    "z.ai": "zai", "z-ai": "zai", "x.ai": "xai", "x-ai": "xai", "moonshotai": "moonshot", "gemini": "google",
    "lm-studio": "lmstudio", "llama.cpp": "llamacpp", "llama-cpp": "llamacpp",
}  # fmt: skip
_QUOTED = late(r"""\A(.+)@(?:"([^"]+)"|'([^']+)')\Z""")
_NUMBER = late(r"\d+")
_PART_OF_NAME = late(
    r"v?\d+(?:\.\d+)*(?:-[\w.]+)?(?:\+[\w.]+)?|latest|(?:i|t)?q\d+(?:_[a-z0-9]+)*|(?:int|bf|fp|f|nf|mxfp|nvfp)\d+|\d+[-_]?bits?",
    re.IGNORECASE,
)

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
    if provider == "openrouter":
        model = model.removeprefix("openrouter/")  # its own models, written with and without the provider twice
    return ModelRef(provider, model) if slash and provider and model else None


class Resolved(Struct, frozen=True):
    """A reference and how it was found: ref, alias, unique, catalog, or default (a guess, with a warning)."""

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
    # provider/model of everything that the built-in list knows, the preferred providers first
    known: tuple[str, ...] = ()
    # provider/model of what the user's own providers say that they have
    listed: tuple[str, ...] = ()

    def resolve(self, text: str) -> Resolved:
        """Return the model that a text means; ConfigError names the text when it can mean none."""
        text = text.strip()
        found = self._exact(text)
        if found is not None:
            return found
        name, profile = split_profile(text)
        inner = self._exact(name) or self._guess(name)
        if inner is None:
            near = ", ".join(self.near(name))
            hint = f"did you mean {near}? " if near else ""
            cure = f"{hint}write provider/model, or an alias; `homarus models list --all` shows both"
            raise Unknown(f"'{text}' is no model that is known here", cure=cure)
        return Resolved(ModelRef(inner.ref.provider, inner.ref.model, profile), inner.how, inner.warning)

    def _exact(self, text: str) -> Resolved | None:
        """Return what a text names as a whole: an alias, or a model that is configured."""
        target = self.aliases.get(text.lower()) or self._openrouter(text.lower())
        ref = split_ref(target) if target else None
        if ref:
            return Resolved(ref, "alias")
        ref = split_ref(text)
        if ref is not None:
            return Resolved(ref, "ref") if ref.key in self.configured else None
        matches = [key for key in self.configured if key.partition("/")[2].lower() == text.lower()]
        exact = [key for key in matches if key.partition("/")[2] == text] or matches
        only = split_ref(exact[0]) if len(exact) == 1 else None
        return Resolved(only, "unique") if only else None

    def _openrouter(self, text: str) -> str:
        """Return what OpenRouter's colon names mean: its own router, and a free model, a configured one first."""
        if text == "openrouter:auto":
            return "openrouter/auto"
        if text != "openrouter:free":
            return ""
        free = (key for key in self.configured if key.startswith("openrouter/") and key.endswith(":free"))
        return next(free, "openrouter/free")

    def _guess(self, text: str) -> Resolved | None:
        ref = split_ref(text)
        if ref:
            return Resolved(ref, "ref", self._doubt(ref))
        if not text or "/" in text or text.startswith("@"):
            return None
        ours = sorted(self.known, key=lambda key: not key.startswith(f"{self.default_provider}/"))
        same = next((key for key in ours if key.partition("/")[2].lower() == text.lower()), "")
        if text.lower() in _FAMILIES:
            members = [key for key in self.known if _FAMILIES[text.lower()].match(key)]
            same = max(members, key=_version, default=same)
        if same and (listed := split_ref(same)):
            return Resolved(listed, "catalog")
        # A model that is newer than the list belongs to the maker of those that are called like it.
        family = text.lower().partition("-")[0] + "-"
        kin = next((key for key in ours if key.partition("/")[2].lower().startswith(family)), "")
        if not kin and (self._of(self.default_provider) or self.near(text)):
            return None
        guess = ModelRef(kin.partition("/")[0] or self.default_provider, text)
        return Resolved(guess, "default", f"'{text}' names no provider; taken as {guess.key}. Write it out to be sure.")

    def _of(self, provider: str) -> list[str]:
        """Return the models that a provider is said to have; nothing where nobody says."""
        return [key for key in (*self.known, *self.listed) if key.startswith(f"{provider}/")]

    def _doubt(self, ref: ModelRef) -> str:
        """Say that a provider whose models the user lists has none of this name."""
        if not any(key.startswith(f"{ref.provider}/") for key in self.listed) or ref.key in self._of(ref.provider):
            return ""
        there = [key for key in self.near(ref.key) if key in self.listed]
        hint = f"did you mean {there[0]}?" if there else f"add it to models.providers.{ref.provider}.models to be sure"
        return f"{ref.provider} lists no model '{ref.model}'; {hint}"

    def near(self, text: str) -> list[str]:
        """Return what a mistyped name may mean, the likeliest first."""
        import difflib

        families = [name for name, family in _FAMILIES.items() if any(map(family.match, self.known))]
        words: dict[str, list[str]] = {short: [short] for short in (*self.aliases, *families)}
        for key in dict.fromkeys((*self.known, *self.configured)):
            for word in (key.lower(), key.lower().partition("/")[2]):
                words.setdefault(word, []).append(key)
        found = difflib.get_close_matches(text.strip().lower(), words, n=3, cutoff=0.7)
        return list(dict.fromkeys(key for word in found for key in words[word]))[:3]


def _version(key: str) -> tuple[int, ...]:
    """Return the numbers in a model's name, to compare: dates do not count, and a preview comes before what it previews."""
    numbers = [int(part) for part in _NUMBER.findall(key) if len(part) < 4]
    return (*numbers, 0 if "preview" in key else 1)


def split_profile(text: str) -> tuple[str, str]:
    """Split a pinned profile off a model's name.

    What begins a part (`@preset/x`, `@cf/openai/x`), a date or version (`@20251001`, `@v1.2`) and a quantisation
    (`@q4_k_m`, `@8bit`) belong to the name; behind them a profile may still follow.
    """
    quoted = _QUOTED.match(text) if "@" in text else None
    if quoted:
        return quoted.group(1).strip(), quoted.group(2) or quoted.group(3)
    at = text.find("@", text.rfind("/") + 2)
    while at > 0:
        name, profile = text[:at].strip(), text[at + 1 :].strip()
        if not _PART_OF_NAME.fullmatch(profile.partition("@")[0]):
            return (name, profile) if name and profile else (text, "")
        at = text.find("@", at + 1)
    return text, ""


def build_names(
    models: Mapping[str, Any], configured: tuple[str, ...], default_provider: str = "", known: tuple[str, ...] = ()
) -> Names:
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
    return Names(aliases, everything, normalize_provider(default_provider) or DEFAULT_PROVIDER, known, configured)


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
