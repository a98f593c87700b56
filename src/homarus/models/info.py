"""What is known about a model and about the place it is reached at: values only, filled from the catalogue and the user."""

# No postponed annotations: these types are read at every start, and as texts each would have to be compiled for that.

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.messages import Cost, Usage

UNKNOWN_WINDOW = 200_000
MILLION = 1_000_000


class Price(Struct, frozen=True, rename="camel"):
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    # Some models cost more for a request whose prompt is longer than this.
    above: int = 0
    long: "Price | None" = None


class Quirks(Struct, frozen=True, rename="camel", kw_only=True):
    """How one server differs from the plain protocol. Data, so that a new server needs no code; `compat` overrides it."""

    max_tokens_field: str = "max_tokens"
    # Whether `stream_options.include_usage` is understood; where it is not, some servers refuse the request.
    supports_usage_in_streaming: bool = True
    # How the thinking level travels: effort, openrouter, thinking (an on/off object), thinking+effort, qwen, or none.
    thinking_format: str = "none"
    # The field in which earlier reasoning goes back, always or (empty) never: a rule that changed between turns
    # would change the bytes of the history and cost the provider's cache.
    replay_reasoning: str = ""
    # any, mistral (exactly nine letters and digits) or alnum.
    tool_call_ids: str = "any"
    # Send `prompt_cache_key`, so that requests of one session reach the same cache.
    cache_key: bool = False
    # Put Anthropic's cache markers into chat-completion messages, for models whose name starts with one of these.
    cache_markers_for: tuple[str, ...] = ()
    # A user message may not follow a tool result directly (Mistral): a one-word assistant message goes between.
    bridge_after_tool: bool = False
    # Two user messages may not follow each other (chat templates of some local models): they go out as one.
    alternate_roles: bool = False
    supports_tools: bool = True
    # The model's reasoning cannot be told from its answer: it is asked to put both between tags.
    reasoning_tags: bool = False
    # What the server's own models carry in front of their names, which people leave out (`openrouter/auto`).
    own_models: str = ""


class ModelInfo(Struct, frozen=True, rename="camel", kw_only=True):
    """One model as the catalogue and the user's configuration describe it."""

    provider: str
    id: str
    name: str = ""
    context_window: int = UNKNOWN_WINDOW
    # The user's cap on what is actually filled; never more than the window.
    context_tokens: int | None = None
    max_output: int = 8_192
    input: tuple[str, ...] = ("text",)
    # The thinking levels the model takes, in rising order; empty when it does not reason.
    levels: tuple[str, ...] = ()
    default_level: str = ""
    # How this model takes a level: for Anthropic adaptive (an effort) or budget (a number of tokens); for chat
    # completions a thinking format that differs from its provider's.
    thinking: str = ""
    price: Price | None = None
    # Whether anybody described this model; an unknown one is used with cautious defaults.
    known: bool = True

    @property
    def window(self) -> int:
        return min(self.context_tokens, self.context_window) if self.context_tokens else self.context_window

    @property
    def sees(self) -> bool:
        return "image" in self.input

    @property
    def reasons(self) -> bool:
        return any(level != "off" for level in self.levels)


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where a model is called and with which credential. Never logged: it holds the key."""

    provider: str
    api: str
    base_url: str
    key: str = ""
    # `bearer` or `x-api-key`; without a key no header is sent.
    auth: str = "bearer"
    headers: tuple[tuple[str, str], ...] = ()
    quirks: Quirks = Quirks()
    idle_timeout: float = 120.0

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return what must not be shown, whoever says it."""
        return (self.key, *(value for _, value in self.headers))

    def __repr__(self) -> str:
        return f"Endpoint({self.provider})"


def priced(usage: Usage, price: Price | None, reported: float | None = None) -> Usage:
    """Return usage with its cost: by the price list, else the total that the provider reported itself, else nothing."""
    if price is not None:
        if price.long is not None and usage.prompt > price.above:
            price = price.long
        cost = Cost(
            input=usage.input * price.input / MILLION,
            output=usage.output * price.output / MILLION,
            cache_read=usage.cache_read * price.cache_read / MILLION,
            cache_write=usage.cache_write * price.cache_write / MILLION,
        )
    elif reported:
        prompt = usage.prompt / usage.total if usage.total else 0.0
        cost = Cost(input=reported * prompt, output=reported * (1 - prompt))
    else:
        return usage
    return replace(usage, cost=cost)
