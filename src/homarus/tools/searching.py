"""Search engines as data: how each is asked and how its answer is read. Nothing here opens a connection."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
from msgspec import Struct

from homarus.core.patterns import late
from homarus.core.text import single_line

# Every repetition has an end: an answer of the wrong kind must not cost more than one of the right kind.
_RESULT = late(
    r'<a[^<>]{1,500}class="result__a"[^<>]{1,500}href="([^"]{1,2000})"[^<>]{0,500}>(.{0,2000}?)</a>', re.DOTALL
)
_SNIPPET = late(r'class="result__snippet"[^<>]{0,500}>(.{0,1500}?)</(?:a|div|td)>', re.DOTALL)
_TAGS = late(r"<[^<>]*>")
MAX_FIELD, MAX_HITS = 20_000, 50


class Hit(Struct, frozen=True):
    """One result."""

    title: str
    url: str
    text: str = ""


class Backend(Struct, frozen=True):
    """A search engine: a request for a query, and the results in an answer."""

    name: str
    request: Callable[[str, int], tuple[str, dict[str, str]]]
    parse: Callable[[bytes], list[Hit]]
    # `host:port` that may be reached although it is not public: the owner's own search engine.
    own: str = ""


def backend_for(provider: str, *, api_key: str = "", base_url: str = "") -> Backend:
    """Return the engine that the settings ask for; without a name the best one that is set up."""
    name = provider.lower() or ("searxng" if base_url else "brave" if api_key else "duckduckgo")
    if name == "searxng" and base_url:
        return _searxng(base_url.rstrip("/"))
    if name == "brave" and api_key:
        return _brave(api_key)
    return _duckduckgo()


def _searxng(base: str) -> Backend:
    parts = urlsplit(base)
    port = parts.port or (443 if parts.scheme == "https" else 80)

    def request(query: str, _count: int) -> tuple[str, dict[str, str]]:
        return f"{base}/search?{urlencode({'q': query, 'format': 'json'})}", {"accept": "application/json"}

    return Backend("searxng", request, _json_hits("results", "title", "url", "content"), f"{parts.hostname}:{port}")


def _brave(key: str) -> Backend:
    def request(query: str, count: int) -> tuple[str, dict[str, str]]:
        url = f"https://api.search.brave.com/res/v1/web/search?{urlencode({'q': query, 'count': count})}"
        return url, {"accept": "application/json", "x-subscription-token": key}

    return Backend("brave", request, _json_hits("web.results", "title", "url", "description"))


def _duckduckgo() -> Backend:
    def request(query: str, _count: int) -> tuple[str, dict[str, str]]:
        return f"https://html.duckduckgo.com/html/?{urlencode({'q': query})}", {
            "user-agent": "Mozilla/5.0 (compatible; homarus)"
        }

    return Backend("duckduckgo", request, _duckduckgo_hits)


def _json_hits(path: str, title: str, url: str, text: str) -> Callable[[bytes], list[Hit]]:
    def parse(body: bytes) -> list[Hit]:
        try:
            found = msgspec.json.decode(body)
        except msgspec.DecodeError:
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
    # Its table of names costs a millisecond, and most turns search nothing.
    from homarus.tools.htmltext import plain

    return single_line(plain(_TAGS.sub("", str(text or "")[:MAX_FIELD])), limit)
