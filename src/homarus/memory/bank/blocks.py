"""Generated regions in pages that people edit: text outside is kept byte for byte, and so is a region that somebody changed.

    <!-- reflect:begin id=current hash=3f1c… -->
    - written by the program
    <!-- reflect:end -->

The hash is that of the region as it was written. Where it does not fit any more, a person edited the region: then the
edit stays and is handed back as evidence. Pure; who writes the file is the caller's matter.
"""

from __future__ import annotations

import re
from hashlib import sha256

from msgspec import Struct

END = "<!-- reflect:end -->"
_REGION = re.compile(
    r"^<!-- reflect:begin id=(?P<id>[\w.-]+) hash=(?P<hash>[0-9a-f]*) -->\n(?P<body>.*?)^<!-- reflect:end -->$\n?",
    re.MULTILINE | re.DOTALL,
)


class Refreshed(Struct, frozen=True):
    """A page with its region brought up to date; or as it was, with the lines that a person wrote there."""

    text: str
    edited: str = ""

    @property
    def kept(self) -> bool:
        """Say whether the region belongs to a person now."""
        return bool(self.edited)


def refresh(page: str, name: str, body: str) -> Refreshed:
    """Put a region's new body into a page, at its place or at the end. A second call with the same body changes nothing."""
    region = _render(name, body)
    found = next((match for match in _REGION.finditer(page) if match["id"] == name), None)
    if found is None:
        lead = "" if not page or page.endswith("\n\n") else "\n" if page.endswith("\n") else "\n\n"
        return Refreshed(page + lead + region)
    if _digest(found["body"]) != found["hash"]:
        return Refreshed(page, edited=found["body"] or "\n")
    return Refreshed(page[: found.start()] + region + page[found.end() :])


def is_generated(page: str, line: int) -> bool:
    """Say whether a line (from 1) stands in a region that nobody edited: what the program wrote is no evidence."""
    start = 0
    for _ in range(line - 1):
        start = page.find("\n", start) + 1
        if not start:
            return False
    return any(
        match.start() <= start < match.end() and _digest(match["body"]) == match["hash"]
        for match in _REGION.finditer(page)
    )


def _render(name: str, body: str) -> str:
    # What looks like one of our own marks inside a body must not end the region.
    clean = "".join(line + "\n" for line in body.replace("<!-- reflect:", "<!-- reflect\u200b:").splitlines())
    return f"<!-- reflect:begin id={name} hash={_digest(clean)} -->\n{clean}{END}\n"


def _digest(body: str) -> str:
    return sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:12]
