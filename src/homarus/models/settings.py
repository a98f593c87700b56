"""The `models` block of the configuration: custom providers and their models."""

# No postponed annotations: these types are read at every start, and as texts each would have to be compiled for that.

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from homarus.config.convert import one_of
from homarus.models.info import Price
from homarus.models.levels import LEVELS, WORDS


class ModelSettings(Struct, frozen=True, rename="camel", kw_only=True):
    """One model of a provider; what is left out comes from the catalogue."""

    id: str
    name: str | None = None
    reasoning: bool | None = None
    input: list[Annotated[str, one_of(("text", "image", "audio", "video"), also=("document", "pdf"))]] | None = None
    cost: Price | None = None
    context_window: int | None = None
    context_tokens: int | None = None
    max_tokens: int | None = None
    thinking_levels: list[str] | None = None
    compat: dict[str, Any] = field(default_factory=dict)


class ProviderSettings(Struct, frozen=True, rename="camel", kw_only=True):
    """One provider: a new one, or changes to one in the catalogue."""

    base_url: str | None = None
    api: str | None = None
    # Text, `${NAME}`, or a secret reference.
    api_key: Any = None
    auth: str | None = None
    auth_header: bool | None = None
    headers: dict[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    context_window: int | None = None
    timeout_seconds: float | None = None
    params: dict[str, Any] = field(default_factory=dict)
    compat: dict[str, Any] = field(default_factory=dict)
    models: list[ModelSettings] = field(default_factory=list)


class ModelsSettings(Struct, frozen=True, rename="camel", kw_only=True):
    """All of `models`. `replace` forgets the built-in catalogue, `merge` lays the user's entries over it."""

    mode: Literal["merge", "replace"] = "merge"
    providers: dict[str, ProviderSettings] = field(default_factory=dict)


# One of `levels.LEVELS`, or a word that means one, however it is spaced.
Level = Annotated[
    str,
    Meta(
        pattern=f"(?i)^\\s*({'|'.join((*LEVELS, *WORDS))}|think[ _-]hard(er|est)?|(extra|x)[ _-]high)\\s*$",
        description=f"one of {', '.join(LEVELS)}",
        extra={"words": LEVELS},
    ),
]


class AgentModelSettings(Struct, frozen=True, rename="camel"):
    """Keys of `agents.defaults` and of an agent's entry that say how it uses its models."""

    # Caps the window of every model.
    context_tokens: int | None = None
    thinking_default: Level | None = None


class OAuthClient(Struct, frozen=True, rename="camel", kw_only=True):
    """`auth.oauth.<provider>`: where logins are renewed, and as which registered program. A profile's own fields win."""

    token_url: str = ""
    client_id: str = ""
    client_secret: Any = None
    scope: str = ""


class AuthSettings(Struct, frozen=True, rename="camel", kw_only=True):
    """The `auth` block. Another agent's credentials are not used unless `inherit` says so (2026.9 shared the main agent's)."""

    inherit: bool = False
    order: dict[str, list[str]] = field(default_factory=dict)
    profiles: dict[str, dict[str, Any]] = field(default_factory=dict)
    oauth: dict[str, OAuthClient] = field(default_factory=dict)


class ModelChoice(Struct, frozen=True, rename="camel", kw_only=True):
    """`model` and `imageModel` of an agent: the first choice and what follows it; None leaves that to the configuration."""

    primary: str = ""
    fallbacks: list[str] | None = None


class ModelPolicy(Struct, frozen=True, rename="camel", kw_only=True):
    """`modelPolicy`: which models may be asked for by name; an empty one allows all."""

    allow: list[str] | None = None


class ModelEntry(Struct, frozen=True, rename="camel", kw_only=True):
    """An entry of an agent's `models` map: a short name and request settings."""

    alias: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
