"""web_fetch and web_search: pages and results as text, marked as what they are: words of strangers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from homarus.core.errors import ToolError
from homarus.core.later import later
from homarus.core.patterns import late
from homarus.core.tools import Risk, ToolSpec
from homarus.tools.settings import FetchSettings
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

if TYPE_CHECKING:
    from homarus.net import addresses
    from homarus.net import egress as fetching
    from homarus.tools import target, untrusted
    from homarus.tools.searching import Backend, Hit
else:
    addresses = later("homarus.net.addresses")
    target = later("homarus.tools.target")
    untrusted = later("homarus.tools.untrusted")
    fetching = later("homarus.net.egress")


_TEXTUAL = (
    "text/",
    "application/json",
    "application/xml",
    "application/xhtml",
    "application/javascript",
    "application/rss",
    "application/atom",
)
_CHARSET = late(r"charset=[\"']?([\w-]{1,40})")
# What Python can decode and no page is written in.
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"})

FETCH = ToolSpec(
    name="web_fetch",
    order=110,
    summary="read a web page",
    description="Fetch a public web page as text.",
    parameters={
        "type": "object",
        "properties": {"url": {"type": "string"}, "maxChars": {"type": "integer", "minimum": 100}},
        "required": ["url"],
    },
)
SEARCH = ToolSpec(
    name="web_search",
    order=100,
    summary="search the web",
    description="Search the web; returns titles, addresses and snippets.",
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1},
            "count": {"type": "integer", "minimum": 1, "maximum": 10},
        },
        "required": ["query"],
    },
)


def fetch_tool(egress: fetching.Egress, settings: FetchSettings) -> Tool:
    """Return web_fetch."""

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        url = target.full_url(arguments["url"])
        addresses.parse_url(url)
        headers = {"user-agent": settings.user_agent, "accept": "text/html,text/plain;q=0.9,*/*;q=0.5"}
        held = fetching.Limits(
            settings.max_response_bytes,
            settings.timeout_seconds,
            settings.max_redirects,
            elsewhere=not context.taint,
        )
        page = await egress.fetch(
            url, headers=headers, limits=held, cancel=context.cancel, heard=lambda: context.taint.add(FETCH.name)
        )
        # A large page takes a second; nobody else waits for it.
        text = await asyncio.to_thread(as_text, page)
        room = min(arguments.get("maxChars", settings.max_chars), settings.max_chars)
        cut = len(text) > room or page.truncated
        body = text[:room] + ("\n[cut here]" if cut else "")
        head = "" if page.status < 400 else f"The server answered {page.status}.\n"
        return said(
            head + untrusted.wrapped(body, page.url, context.ids.uuid()[:8]),
            status=page.status,
            url=page.url,
            truncated=cut,
        )

    return Tool(spec=FETCH, risk=Risk.READ, run=run, group="web", taints=True, aliases={"max_chars": "maxChars"})


def search_tool(egress: fetching.Egress, backend: Backend, count: int, seconds: float) -> Tool:
    """Return web_search."""

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        number = min(arguments.get("count", count), 10)
        url, headers = backend.request(arguments["query"][:400], number)
        page = await egress.fetch(
            url, headers=headers, limits=fetching.Limits(2_000_000, seconds), cancel=context.cancel
        )
        if page.status >= 400:
            raise ToolError(
                f"the search engine ({backend.name}) answered {page.status}", cure="try later, or another query"
            )
        hits = (await asyncio.to_thread(backend.parse, page.body))[:number]
        if not hits:
            return said(f"Nothing found by {backend.name}.", results=0)
        text = "\n\n".join(f"{at}. {_line(hit)}" for at, hit in enumerate(hits, 1))
        return said(untrusted.wrapped(text, f"web search ({backend.name})", context.ids.uuid()[:8]), results=len(hits))

    return Tool(
        spec=SEARCH, risk=Risk.READ, run=run, group="web", taints=True, aliases={"q": "query", "limit": "count"}
    )


def as_text(page: fetching.Fetched) -> str:
    """Return what a page says, or raise when it is no text at all."""
    kind = page.content_type
    if not kind.startswith(_TEXTUAL) and kind and b"\0" in page.body[:1000]:
        raise ToolError(f"{page.url} is {kind.partition(';')[0]}, not text", cure="fetch a page, not a file")
    found = _CHARSET.search(kind)
    wanted = found[1].replace("-", "_") if found else ""
    try:
        text = page.body.decode(wanted if wanted and wanted not in _NO_CHARSETS else "utf-8", "replace")
    except (LookupError, UnicodeError):
        text = page.body.decode("utf-8", "replace")
    if "html" in kind or (not kind and "<html" in text[:500].lower()):
        from homarus.tools.htmltext import readable

        title, body = readable(text)
        return f"{title}\n\n{body}".strip() if title else body
    return text


def _line(hit: Hit) -> str:
    return f"{hit.title}\n{hit.url}\n{hit.text}".strip()
