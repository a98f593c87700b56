"""Send a result to a web address that stands in a job. One that a model wrote there leads to the public internet only."""

from __future__ import annotations

import asyncio
from typing import Any

from homarus.core.errors import HomarusError, ToolError
from homarus.core.text import single_line
from homarus.net.addresses import is_public, parse_url
from homarus.net.client import HttpClient
from homarus.net.egress import resolve_name
from homarus.net.errors import HttpError
from homarus.storage.record import encode

SECONDS = 30.0


async def post(url: str, body: dict[str, Any], token: str, *, own: bool) -> str:
    """Post a JSON object and return why that failed, or nothing. With `own` the owner chose the address."""
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    client = HttpClient(choose=None if own else _public)
    try:
        if not own:
            parse_url(url)
        async with asyncio.timeout(SECONDS):
            response = await client.request("POST", url, headers=headers, body=[encode(body)])
            await response.close()
    except TimeoutError:
        return f"no answer within {SECONDS:g} s"
    except (HttpError, HomarusError, ValueError) as problem:
        return single_line(str(problem), 300)
    finally:
        await client.aclose()
    return "" if response.status < 300 else f"the server answered {response.status}"


async def _public(host: str, port: int) -> str:
    try:
        found = await resolve_name(host, port)
    except (OSError, UnicodeError):
        found = []
    if not found or not all(is_public(address) for address in found):
        raise ToolError(
            f"{single_line(host, 100)} is not on the public internet", cure="the owner may set such an address"
        )
    return found[0]
