"""Which certificates are trusted: the system's, or a file that the usual variables name; the environment is read at the edge."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from homarus.net.errors import Refused

if TYPE_CHECKING:
    import ssl


class Trust(Struct, frozen=True):
    """A file or folder in place of the system's certificates, and a file on top of either; with the variables' names."""

    instead: str = ""
    instead_by: str = ""
    extra: str = ""

    def context(self) -> ssl.SSLContext:
        """Return the TLS context; making one reads the certificate store (15 ms) and is paid once per process."""
        return _context(self)

    def fresh_context(self) -> ssl.SSLContext:
        """Return a context that nobody shares, for a connection that shows a certificate of its own."""
        return _context.__wrapped__(self)


SYSTEM = Trust()


def trust_from(env: Mapping[str, str]) -> Trust:
    """Read SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE (the first that is set), and NODE_EXTRA_CA_CERTS."""
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    name = next((name for name in names if env.get(name, "").strip()), "")
    return Trust(env.get(name, "").strip(), name, env.get("NODE_EXTRA_CA_CERTS", "").strip())


@lru_cache(8)
def _context(trust: Trust) -> ssl.SSLContext:
    import ssl

    if trust.instead:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    elif sys.platform in {"darwin", "win32"}:
        # There the system's certificates are in no file that OpenSSL reads.
        import truststore

        context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        import httpcore2

        context = httpcore2.default_ssl_context()
    for text, name in ((trust.instead, trust.instead_by), (trust.extra, "NODE_EXTRA_CA_CERTS")):
        try:
            if text and Path(text).is_dir():
                context.load_verify_locations(capath=text)
            elif text:
                context.load_verify_locations(cafile=text)
        except (OSError, ssl.SSLError) as problem:
            raise Refused(f"{name} names {text}, which holds no certificates", f"correct or unset {name}") from problem
    return context
