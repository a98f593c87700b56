"""What kind of failure a model call ended with, read from status, headers and body. Pure; the order of the rules matters.

A kind decides who acts next (wait, rotate, compact, stop), so a wrong one costs money or loses a turn. The words are data
(`failures.toml`), and each has the messages of real servers in the tests.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from homarus.core.errors import ModelError, ModelFailure
from homarus.core.patterns import late
from homarus.core.text import single_line

F = ModelFailure
TIMEOUT_STATUSES = frozenset({408, 409, 410, 425, 499, 504, 522, 524})
# A longer text is a reply or a page that mentions money, not a complaint about it; a status that it names still counts.
LONG = 512
_LEADING = late(
    r"\s*(?:error:?\s+)?(?:http\s*)?(?:status(?: code)?[:= ]+)?([45]\d\d)\b(?!\s*(?:tokens|items|records))",
    re.IGNORECASE,
)
_NAMED = late(
    r"[\"'](?:status|code|status_?code|http_?code)[\"']\s*:\s*[\"']?([45]\d\d)\b|\(?\bhttp[ /]*(?:1\.1 )?([45]\d\d)\b"
    r"|\b(?:status|error)(?: code)?\s*[:=]?\s*([45]\d\d)\b|\b(?:got|returned|received)(?: an?)? ([45]\d\d)\b(?! (?:records|items))",
    re.IGNORECASE,
)
_CEILING = late(r"limit:?\s*([\d,_]+).{0,60}?requested:?\s*([\d,_]+)", re.IGNORECASE | re.DOTALL)
_LIMITED = late(r"rate[_ -]?limit", re.IGNORECASE)
_REFRESHED = late(r"quota.{0,80}(?:refresh|rolling)", re.IGNORECASE)
# What a text says counts where the status leaves it open: a 500 that holds the word "forbidden" is no key's fault.
_RULES: tuple[tuple[ModelFailure, frozenset[int | None], str], ...] = (
    (F.REFUSAL, frozenset({400, 403, 422, 451, None}), "refused"),
    (F.AUTH_PERMANENT, frozenset({400, 401, 403, None}), "gone"),
    (F.FORMAT, frozenset({400, 422, None}), "format"),
    (F.MODEL_NOT_FOUND, frozenset({400, 403, 404, 422, None}), "no_model"),
    (F.OVERLOADED, frozenset({404}), "overloaded"),
    (F.AUTH, frozenset({400, 404, 410, 422, None}), "auth"),
)


@functools.cache
def _words() -> dict[str, re.Pattern[str]]:
    tables = tomllib.loads(Path(__file__).with_name("failures.toml").read_text("utf-8"))
    return {
        name: re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE | re.DOTALL)
        for name, patterns in tables.items()
    }


def _says(name: str, text: str) -> bool:
    return _words()[name].search(text) is not None


def classify(status: int | None, text: str) -> ModelFailure:
    """Return the kind of a failure from its HTTP status (None for a broken connection) and its message."""
    status = _status(status, text)
    if _over_ceiling(text):
        return F.REQUEST_TOO_LARGE
    if _says("tpm", text):
        return F.RATE_LIMIT
    refused = _says("reasoning", text) and _says("unsupported", text)
    if status in {400, 404, 422, None} and (refused or _says("thinking_blocks", text)):
        return F.THINKING_LEVEL
    if status == 402:
        shared = _REFRESHED.search(text) or (_says("share", text) and not _says("money", text))
        return F.RATE_LIMIT if shared else F.BILLING
    if status in {400, 422, 500, None} and _says("again", text):
        return F.UNKNOWN
    if len(text) <= LONG and _says("billing", text):
        # An offer of more credits beside a plain rate limit is advertising.
        windowed = _says("windows", text) and status in {403, 429, 503, None}
        return F.RATE_LIMIT if (windowed or _LIMITED.search(text)) and not _says("money", text) else F.BILLING
    small = _says("small_window", text)
    windowed = status in {403, 503, None} and _says("windows", text)
    if status == 429 or windowed or (status != 401 and _says("rate", text)):
        return F.RATE_LIMIT
    if not small and status not in {401, 403} and (status == 413 or _says("overflow", text)):
        return F.CONTEXT_OVERFLOW
    return _rest(status, text, small=small)


def _rest(status: int | None, text: str, *, small: bool) -> ModelFailure:
    for kind, statuses, words in _RULES:
        if status in statuses and _says(words, text):
            return kind
    if status in {401, 403}:
        return F.AUTH
    if status == 407:
        return F.UNREACHABLE
    if status == 529 or _says("overloaded", text):
        return F.OVERLOADED
    if status in TIMEOUT_STATUSES:
        return F.TIMEOUT
    if status is not None and status >= 500:
        return F.SERVER
    if status == 404 or _says("no_model", text):
        return F.MODEL_NOT_FOUND
    if _says("no_connection", text):
        return F.NO_CONNECTION
    if _says("timeout", text):
        return F.TIMEOUT
    if _says("server", text):
        return F.SERVER
    if small or (status in {400, 422} and not text.strip()):
        return F.UNKNOWN  # no word about what was wrong, so most likely something on the way
    return F.FORMAT if status in {400, 405, 415, 422} or _says("format", text) else F.UNKNOWN


def _status(status: int | None, text: str) -> int | None:
    """Return the status that counts: one that a stream or a library reports inside its text stands for a missing one."""
    if status is not None and status >= 400:
        return status
    found = _LEADING.match(text) or _NAMED.search(text)
    return int(next(group for group in found.groups() if group)) if found else None


def _over_ceiling(text: str) -> bool:
    found = _CEILING.search(text)
    if not found or not _says("ceiling_topic", text):
        return False
    limit, requested = (int(re.sub(r"\D", "", group) or 0) for group in found.groups())
    return requested > limit


CURES: Mapping[ModelFailure, str] = {
    F.AUTH: "check the API key; `homarus models status` shows which one is used",
    F.AUTH_PERMANENT: "this key was revoked or its account is disabled: put in another one",
    F.BILLING: "top up the account at the provider, or choose another model",
    F.RATE_LIMIT: "wait, or add a second key or a fallback model",
    F.MODEL_NOT_FOUND: "`homarus models list` shows known models; check the spelling and the account's access",
    F.CONTEXT_OVERFLOW: "`/compact` shortens the conversation, `/new` starts another",
    F.REQUEST_TOO_LARGE: "this account's limit per request is below this conversation: `/compact`, or another model",
    F.TIMEOUT: "check the network, and whether the server runs",
    F.NO_CONNECTION: "check the address, the network, and whether the server runs",
}


def failure(
    status: int | None, text: str, *, where: str, headers: Mapping[str, str] | None = None, now: datetime | None = None
) -> ModelError:
    page = _PAGE.match(text)
    # A web page comes from something on the way: its words say nothing about the model.
    kind = classify(status, "" if page else text)
    if status == 400 and not text.strip() and where.startswith("cerebras/"):
        kind = F.CONTEXT_OVERFLOW  # this provider says nothing more about it
    said = single_line(_stripped(text) if page else text, 400) or "no message"
    code = f" (HTTP {status})" if status else ""
    wait = retry_after(headers or {}, text, now)
    return ModelError(kind, f"{where}: {said}{code}", status=status, retry_after=wait, cure=CURES.get(kind, ""))


_PAGE = late(r"\s*(?:<!doctype html|<html|<head|<body|<\?xml)", re.IGNORECASE)
_WORD = late(r"\S{12,}")
_KEY_LIKE = late(r"[\w.:+/=-]{12,}")


def _stripped(page: str) -> str:
    title = re.search(r"<title>(.*?)</title>", page, re.IGNORECASE | re.DOTALL)
    if title:
        return title[1]
    return re.sub(r"<(?:style|script).*?</(?:style|script)>|<[^>]{0,200}>", " ", page, flags=re.DOTALL)


def hidden(text: str, secrets: Iterable[str]) -> str:
    """Return what a server said without the secrets that it was sent, as they are or encoded, and without what looks like one."""
    from base64 import b64encode
    from urllib.parse import quote

    from homarus.config.redact import MARKER, redact_text
    from homarus.core.redact import redacted

    for secret in secrets:
        if len(secret) >= 6:
            for form in {secret, quote(secret, safe=""), b64encode(secret.encode()).decode()}:
                text = text.replace(form, MARKER)
    text = redacted(text, MARKER)
    for pattern in (_WORD, _KEY_LIKE):  # with what is written around a key, and without
        text = pattern.sub(lambda found: redact_text(found[0]), text)
    return text


def body_text(body: bytes) -> str:
    """Return what an error body says, whichever of the usual shapes it has; anything else is returned as text."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body.decode("utf-8", "replace")
    return error_text(value)


_SAID = [
    "message",
    "detail",
    "msg",
    "status_msg",
    "error_msg",
    "type",
    "code",
    "status_code",
    "status",
    "failed_generation",
]


def error_text(value: Any) -> str:
    if isinstance(value, list):
        value = value[0] if value else {}
    if not isinstance(value, dict):
        return str(value)
    inner = value.get("error") or value.get("base_resp") or value.get("errors") or value
    if isinstance(inner, list):
        inner = inner[0]
    if not isinstance(inner, dict):
        # Some name only the kind there and say the rest beside it.
        said = value.get("message") or value.get("detail")
        return f"{inner} · {said}" if isinstance(said, str) and said != inner else str(inner)
    parts = [inner.get(key) for key in _SAID]
    metadata = inner.get("metadata")
    if isinstance(metadata, dict):
        parts.append(metadata.get("raw"))
    texts: list[str] = []
    for part in parts:
        text = part if isinstance(part, str) else "" if part is None else msgspec.json.encode(part).decode()
        if text and text not in texts:
            texts.append(text)
    return " · ".join(texts) or msgspec.json.encode(value).decode()[:400]


_WAIT = late(
    r"(?:try again|retry|retry_?delay)\W{0,4}(?:in|after)?\W{0,4}((?:[\d.]+\s*(?:ms|milliseconds?|h|m|s|min|minutes?|hours?|seconds?)\s*)+)",
    re.IGNORECASE,
)
_SPAN = late(r"([\d.]+)\s*(ms|milli|h|min|m|s)", re.IGNORECASE)
_UNITS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def retry_after(headers: Mapping[str, str], text: str, now: datetime | None = None) -> float | None:
    """Return the seconds a server asks to wait, from its headers or from its words."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            return max(0.0, float(value) * scale)
        except ValueError:
            if value and now is not None and scale == 1.0:
                from email.utils import parsedate_to_datetime

                try:
                    return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
                except (TypeError, ValueError):
                    continue
    found = _WAIT.search(text)
    if not found:
        return None
    try:
        return sum(float(number) * _UNITS[unit.lower()] for number, unit in _SPAN.findall(found.group(1)))
    except ValueError:
        return None


def exhausted(error: ModelError) -> bool:
    """Say whether a rate limit is a used-up day, week or month: waiting a minute will not help."""
    return error.kind is F.RATE_LIMIT and _says("windows", error.message)


def about_history(error: ModelError) -> bool:
    """Say whether a server complains of reasoning in the history (an old signature), not of the level that was asked for."""
    return error.kind is F.THINKING_LEVEL and _says("thinking_blocks", error.message)
