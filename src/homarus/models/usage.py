"""From the token counts that a provider reports to usage with money. Pure."""

from __future__ import annotations

from homarus.core.messages import Cost, Usage
from homarus.models.info import Price

MILLION = 1_000_000


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
    return Usage(
        input=usage.input, output=usage.output, cache_read=usage.cache_read, cache_write=usage.cache_write, cost=cost
    )


def added(first: Usage, second: Usage) -> Usage:
    a, b = first.cost, second.cost
    return Usage(
        input=first.input + second.input,
        output=first.output + second.output,
        cache_read=first.cache_read + second.cache_read,
        cache_write=first.cache_write + second.cache_write,
        cost=Cost(
            input=a.input + b.input,
            output=a.output + b.output,
            cache_read=a.cache_read + b.cache_read,
            cache_write=a.cache_write + b.cache_write,
        ),
    )
