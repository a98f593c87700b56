"""web_fetch and web_search: pages and results as text, marked as what they are: words of strangers.

Search engines are data: how each is asked, and how its answer is read. The connections are `net.egress`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import msgspec
from msgspec import Struct

from homarus.core.errors import ToolError
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.core.tools import Risk
from homarus.net.trust import SYSTEM, Trust
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said, spec

if TYPE_CHECKING:
    from homarus.net.egress import Egress, Fetched

_TEXTUAL = (
    "text/",
    "application/json",
    "application/xml",
    "application/xhtml",
    "application/javascript",
    "application/rss",
    "application/atom",
)
_MAX_LINKS = 1_000
_CHARSET = late(r"charset=[\"']?([\w-]{1,40})")
# What Python can decode and no page is written in.
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"})
# Every repetition has an end: an answer of the wrong kind must not cost more than one of the right kind.
_RESULT = late(
    r'<a[^<>]{1,500}class="result__a"[^<>]{1,500}href="([^"]{1,2000})"[^<>]{0,500}>(.{0,2000}?)</a>', re.DOTALL
)
_SNIPPET = late(r'class="result__snippet"[^<>]{0,500}>(.{0,1500}?)</(?:a|div|td)>', re.DOTALL)
_TAGS = late(r"<[^<>]*>")
MAX_FIELD, MAX_HITS = 20_000, 50

FETCH = spec("web_fetch")
SEARCH = spec("web_search")


class SearchSettings(Struct, frozen=True, rename="camel"):
    """`tools.web.search`. Without a provider, SearXNG is used where its address is set, else Brave with a key, else DuckDuckGo."""

    enabled: bool = True
    provider: str = ""
    api_key: Any = ""
    base_url: str = ""
    max_results: int = 5
    timeout_seconds: float = 20.0


class FetchSettings(Struct, frozen=True, rename="camel"):
    enabled: bool = True
    max_chars: int = 20_000
    max_response_bytes: int = 2_000_000
    max_redirects: int = 5
    timeout_seconds: float = 30.0
    user_agent: str = "Mozilla/5.0 (compatible; homarus)"


class WebSettings(Struct, frozen=True, rename="camel"):
    """`tools.web`."""

    search: SearchSettings = SearchSettings()
    fetch: FetchSettings = FetchSettings()

    @classmethod
    def disabled(cls) -> WebSettings:
        return cls(SearchSettings(enabled=False), FetchSettings(enabled=False))


def fetch_tool(settings: FetchSettings, egress: Egress | None = None, *, trust: Trust = SYSTEM) -> Tool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        from homarus.net.addresses import parse_url
        from homarus.net.egress import Egress, Limits
        from homarus.tools.target import address_of, full_url, names

        url = full_url(arguments["url"])
        parse_url(url)
        limits = Limits(
            settings.max_response_bytes, settings.timeout_seconds, settings.max_redirects, elsewhere=not context.taint
        )
        page = await (egress or Egress(trust=trust)).fetch(
            url,
            headers={"user-agent": settings.user_agent, "accept": "text/html,text/plain;q=0.9,*/*;q=0.5"},
            limits=limits,
            cancel=context.cancel,
            heard=lambda: context.taint.add(FETCH.name),
        )
        # A large page takes a second; nobody else waits for it.
        text = await asyncio.to_thread(as_text, page)
        if names(context.said, address_of(url)):
            context.links.update(await asyncio.to_thread(_links, page, url))
        room = min(arguments.get("maxChars", settings.max_chars), settings.max_chars)
        cut = len(text) > room or page.truncated
        body = text[:room] + ("\n[cut here]" if cut else "")
        head = "" if page.status < 400 else f"The server answered {page.status}.\n"
        marked = _marked(context, body, page.url)
        return said(head + marked, status=page.status, url=page.url, truncated=cut)

    return Tool(spec=FETCH, risk=Risk.READ, run=run, group="web", taints=True, aliases={"max_chars": "maxChars"})


def search_tool(
    engine: SearchEngine, count: int, seconds: float, egress: Egress | None = None, *, trust: Trust = SYSTEM
) -> Tool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        from homarus.net.egress import Egress, Limits

        client = egress or Egress(own=frozenset({engine.own} if engine.own else ()), trust=trust)
        number = min(arguments.get("count", count), 10)
        url, headers = engine.request(arguments["query"][:400], number)
        limits = Limits(2_000_000, seconds, elsewhere=not context.taint)
        page = await client.fetch(url, headers=headers, limits=limits, cancel=context.cancel)
        if page.status >= 400:
            raise ToolError(
                f"the search engine ({engine.name}) answered {page.status}", cure="try later, or another query"
            )
        hits = (await asyncio.to_thread(engine.parse, page.body))[:number]
        if not hits:
            return said(f"Nothing found by {engine.name}.", results=0)
        rows = [f"{at}. {hit.title}\n{hit.url}\n{hit.text}".strip() for at, hit in enumerate(hits, 1)]
        return said(_marked(context, "\n\n".join(rows), f"web search ({engine.name})"), results=len(hits))

    return Tool(
        spec=SEARCH, risk=Risk.READ, run=run, group="web", taints=True, aliases={"q": "query", "limit": "count"}
    )


def _marked(context: ToolContext, text: str, source: str) -> str:
    from homarus.tools.untrusted import wrapped

    return wrapped(text, source, context.ids.uuid()[:8])


def as_text(page: Fetched) -> str:
    """Return what a page says, or raise when it is no text at all."""
    kind = page.content_type
    if not kind.startswith(_TEXTUAL) and kind and b"\0" in page.body[:1000]:
        raise ToolError(f"{page.url} is {kind.partition(';')[0]}, not text", cure="fetch a page, not a file")
    text, html = _decoded(page)
    if html:
        from homarus.tools.htmltext import readable

        title, body = readable(text)
        return f"{title}\n\n{body}".strip() if title else body
    return text


def _decoded(page: Fetched) -> tuple[str, bool]:
    """Return a page as text, and whether that is HTML."""
    kind = page.content_type
    found = _CHARSET.search(kind)
    wanted = found[1].replace("-", "_") if found else ""
    try:
        text = page.body.decode(wanted if wanted and wanted not in _NO_CHARSETS else "utf-8", "replace")
    except (LookupError, UnicodeError):
        text = page.body.decode("utf-8", "replace")
    return text, "html" in kind or (not kind and "<html" in text[:500].lower())


def _links(page: Fetched, named: str) -> set[str]:
    """Return the links of a page that stay on the host that was named."""
    from homarus.tools.htmltext import links
    from homarus.tools.target import address_of

    text, html = _decoded(page)
    host, found = urlsplit(named).hostname, set()
    for link in links(text)[:_MAX_LINKS] if html else ():
        try:
            address = address_of(urljoin(page.url, link))
            if address and urlsplit(address).hostname == host:
                found.add(address)
        except ValueError:
            continue
    return found


class Hit(Struct, frozen=True):
    title: str
    url: str
    text: str = ""


class SearchEngine(Struct, frozen=True):
    """A search engine: a request for a query, and the results in an answer."""

    name: str
    request: Callable[[str, int], tuple[str, dict[str, str]]]
    parse: Callable[[bytes], list[Hit]]
    # `host:port` that may be reached although it is not public: the owner's own search engine.
    own: str = ""


def engine_for(provider: str, *, api_key: str = "", base_url: str = "") -> SearchEngine:
    """Return the engine that the settings ask for; without a name the best one that is set up."""
    name = provider.lower() or ("searxng" if base_url else "brave" if api_key else "duckduckgo")
    if name == "searxng" and base_url:
        return _searxng(base_url.rstrip("/"))
    if name == "brave" and api_key:
        return _brave(api_key)
    return _duckduckgo()


def _searxng(base: str) -> SearchEngine:
    parts = urlsplit(base)
    port = parts.port or (443 if parts.scheme == "https" else 80)

    def request(query: str, _count: int) -> tuple[str, dict[str, str]]:
        return f"{base}/search?{urlencode({'q': query, 'format': 'json'})}", {"accept": "application/json"}

    return SearchEngine(
        "searxng", request, _json_hits("results", "title", "url", "content"), f"{parts.hostname}:{port}"
    )


def _brave(key: str) -> SearchEngine:
    def request(query: str, count: int) -> tuple[str, dict[str, str]]:
        url = f"https://api.search.brave.com/res/v1/web/search?{urlencode({'q': query, 'count': count})}"
        return url, {"accept": "application/json", "x-subscription-token": key}

    return SearchEngine("brave", request, _json_hits("web.results", "title", "url", "description"))


def _duckduckgo() -> SearchEngine:
    def request(query: str, _count: int) -> tuple[str, dict[str, str]]:
        return f"https://html.duckduckgo.com/html/?{urlencode({'q': query})}", {
            "user-agent": "Mozilla/5.0 (compatible; homarus)"
        }

    return SearchEngine("duckduckgo", request, _duckduckgo_hits)


def _json_hits(path: str, title: str, url: str, text: str) -> Callable[[bytes], list[Hit]]:
    def parse(body: bytes) -> list[Hit]:
        try:
            found = msgspec.json.decode(body)
        except ValueError:
            return []
        for step in path.split("."):
            found = found.get(step) if isinstance(found, dict) else None
        rows = found if isinstance(found, list) else []
        return [
            _hit(row.get(title), row.get(url), row.get(text)) for row in rows if isinstance(row, dict) and row.get(url)
        ]

    return parse


def _duckduckgo_hits(body: bytes) -> list[Hit]:
    from homarus.tools.htmltext import plain

    page = body.decode("utf-8", "replace")
    texts = [found[1] for found in islice(_SNIPPET.finditer(page), MAX_HITS)]
    hits = []
    for at, found in enumerate(islice(_RESULT.finditer(page), MAX_HITS)):
        url, title = found[1], found[2]
        parts = urlsplit(plain(url))
        real = parse_qs(parts.query).get("uddg", [plain(url)])[0]
        hits.append(_hit(title, real, texts[at] if at < len(texts) else ""))
    return hits


def _hit(title: object, url: object, text: object) -> Hit:
    return Hit(_plain(title, 200), single_line(str(url), 500), _plain(text, 500))


def _plain(text: object, limit: int) -> str:
    from homarus.tools.htmltext import plain

    return single_line(plain(_TAGS.sub("", str(text or "")[:MAX_FIELD])), limit)
