"""What each way of failing means. A message is sent again after a 429, and when it never went out at all."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from homarus.core.errors import DeliveryError, DeliveryFailure
from homarus.core.text import single_line

# Close codes of the gateway that come back however often one connects.
FATAL = {
    4004: "the token is wrong or was reset: copy a new one from the Bot page of the developer portal",
    4014: "turn on 'Message Content Intent' on the Bot page of the developer portal",
}


PACE_SECONDS = 30.0
# The address of an answer to a tap holds a key to it.
_ADDRESS = re.compile(r"(?: for)? https?://\S+")


async def paced(call: Callable[[], Awaitable[Any]]) -> Any:
    """Make a request when Discord's rules of pace allow it. hikari knows them, and refuses too early ones unsent."""
    import hikari

    while True:
        try:
            return await call()
        except hikari.RateLimitTooLongError as early:
            # One without a limit is Discord's own answer: that is for the outbox.
            if early.limit is None or early.retry_after > PACE_SECONDS:
                raise
            await asyncio.sleep(max(0.05, float(early.retry_after)))


@contextlib.contextmanager
def explained(*, once: bool = False) -> Iterator[None]:
    """Turn failures of hikari into `DeliveryError`. `once`: it must not happen twice, so what is in doubt stays so."""
    import aiohttp
    import hikari

    try:
        yield
    except (hikari.HikariError, aiohttp.ClientError, TimeoutError) as problem:
        raise _explain(problem, once=once) from None
    except (KeyError, ValueError, TypeError) as problem:  # hikari could not read what Discord answered
        kind = DeliveryFailure.UNKNOWN if once else DeliveryFailure.REFUSED
        raise DeliveryError(kind, f"discord: an answer that cannot be read ({type(problem).__name__})") from None


def _explain(problem: Exception, *, once: bool) -> DeliveryError:
    import aiohttp
    import hikari

    said = getattr(problem, "message", "") or str(problem) or type(problem).__name__
    what = single_line(f"discord: {_ADDRESS.sub('', said)}")
    match problem:
        case hikari.RateLimitTooLongError():
            what = "discord: too many requests"
            return DeliveryError(DeliveryFailure.RATE_LIMIT, what, retry_after=max(0.0, float(problem.retry_after)))
        case hikari.GatewayServerClosedConnectionError() if problem.code in FATAL:
            return DeliveryError(DeliveryFailure.REFUSED, what, cure=FATAL[problem.code])
        case hikari.GatewayError():
            return DeliveryError(DeliveryFailure.TRANSIENT, what)
        case hikari.UnauthorizedError():
            return DeliveryError(DeliveryFailure.REFUSED, what, cure=FATAL[4004])
        case hikari.ForbiddenError():
            cure = "give the bot's role the right to do this in that channel; a person may have closed direct messages"
            return DeliveryError(DeliveryFailure.REFUSED, what, cure=cure)
        case hikari.HTTPResponseError() if int(problem.status) == 429:  # not Discord itself, but what stands before it
            return DeliveryError(DeliveryFailure.RATE_LIMIT, "discord: too many requests", retry_after=60.0)
        case hikari.HTTPResponseError() if int(problem.status) == 503:  # "not now": nothing was done
            return DeliveryError(DeliveryFailure.TRANSIENT, what)
        case hikari.HTTPResponseError() if int(problem.status) < 500:
            return DeliveryError(DeliveryFailure.REFUSED, what)
    never_out = isinstance(problem.__cause__, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    if never_out or not once:
        return DeliveryError(DeliveryFailure.TRANSIENT, what)
    return DeliveryError(DeliveryFailure.UNKNOWN, f"{what} (it may have arrived)")


def poll_of(poll: Any) -> Any:
    import hikari

    made = hikari.impl.PollBuilder(question_text=poll.question, allow_multiselect=poll.multiple)
    for option in poll.options:
        made.add_answer(text=option)
    return made
