"""What kind of failure a model call ended with, read from status, headers and body. Pure; the order of the rules matters.

A kind decides who acts next (wait, rotate, compact, stop), so a wrong one costs money or loses a turn: every rule has its
real-world messages in the table test.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from homarus.core.errors import ModelError, ModelFailure
from homarus.core.patterns import late
from homarus.core.text import single_line

F = ModelFailure
TIMEOUT_STATUSES = frozenset({408, 499, 504, 522, 524})


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE | re.DOTALL)


_CEILING = late(r"limit:?\s*([\d,_]+).{0,60}?requested:?\s*([\d,_]+)", re.IGNORECASE | re.DOTALL)
_CEILING_TOPIC = _any(r"request too large", r"tokens per min", r"\btpm\b", r"reduce your message size")
_TPM = _any(r"tokens per min", r"\btpm\b")
_REASONING = _any(
    r"reasoning[_ .]?effort", r"thinking[._ ]?(?:type|budget|level|config)", r"budget_tokens", r"enable_thinking",
    r"output_config", r"\beffort\b", r"extended thinking", r"adaptive thinking", r"\breasoning\b",
)  # fmt: skip
_UNSUPPORTED = _any(
    r"unsupported", r"not support", r"invalid", r"unknown", r"unrecognized", r"not allowed", r"not permitted",
    r"must be", r"extra inputs", r"mandatory", r"cannot be (?:disabled|enabled)", r"expected one of", r"unexpected",
)  # fmt: skip
_THINKING_BLOCKS = _any(
    r"expected `?(?:redacted_)?thinking`?", r"signature.{0,20}`?thinking`? block", r"thinking block"
)
_WINDOWS = _any(
    r"\b(?:daily|weekly|monthly|hourly|[0-9]+[- ]hour|per[- ]day|per[- ]week|per[- ]month)\b.{0,60}\b(?:limit|quota)",
    r"\b(?:limit|quota)\b.{0,40}\b(?:per (?:day|week|month)|for (?:today|this (?:day|week|month)))",
    r"usage[ _]limit", r"quota exceeded for metric", r"resource[_ ]exhausted.{0,200}retry in",
)  # fmt: skip
_BILLING = _any(
    r"insufficient[_ ](?:quota|credit|balance|fund)", r"credit balance", r"billing", r"payment[_ ]required", r"out of credits",
    r"exceeded your current quota", r"(?:add|purchase|buy|more) credits", r"no credits", r"in arrears", r"余额不足", r"欠费",
)  # fmt: skip
_SMALL_WINDOW = _any(r"context (?:window|length|size).{0,40}(?:too small|below|minimum)", r"minimum context")
_RATE = _any(
    r"rate[_ -]?limit", r"too many requests", r"quota exceeded", r"resource[_ ]exhausted", r"throttl",
    r"requests per (?:minute|second|day)", r"too many tokens.{0,60}(?:wait|retry|try again|later)", r"concurrency limit",
    r"请求过于频繁", r"速率限制", r"限流", r"频率",
)  # fmt: skip
_OVERFLOW = _any(
    r"(?:prompt|input|request|message)s?(?: \w+)? (?:is |are )?too (?:long|large)", r"request_too_large",
    r"exceed\w*.{0,60}context (?:window|length|size|limit)", r"context (?:window|length|size).{0,40}exceed",
    r"max\w* (?:context|prompt|input)[ _](?:length|size|window|tokens?)", r"context_length_exceeded", r"context overflow",
    r"too many (?:input )?tokens", r"token limit exceeded", r"exceeded model token limit", r"model_max_prompt_tokens",
    r"input token count.{0,40}exceed", r"reduce the length of", r"context the overflows", r"larger than the context",
    r"greater than the context", r"上下文.{0,8}(?:过长|超)", r"超(?:出|过).{0,12}(?:长度|上下文|token)", r"输入.{0,6}过长",
)  # fmt: skip
_REFUSED = _any(
    r"content[_ ](?:policy|filter)", r"flagged", r"moderation", r"safety (?:system|filter)", r"responsible ai",
    r"prohibited_content", r"sensitive content",
)  # fmt: skip
_GONE = _any(
    r"revoked", r"deactivated", r"(?:key|account|organi[sz]ation|workspace|user)\b.{0,30}\b(?:disabled|suspended|banned|terminated)",
    r"permission_denied.{0,80}suspended",
)  # fmt: skip
_AUTH = _any(
    r"(?:invalid|incorrect|missing|wrong|bad).{0,20}(?:api[_ -]?key|token|credential|x-api-key)", r"api key not valid",
    r"unauthori[sz]ed", r"authentication", r"no auth credentials", r"permission[_ ](?:error|denied)", r"forbidden",
    r"token (?:has )?expired", r"expired token", r"access denied",
)  # fmt: skip
_OVERLOADED = _any(
    r"overloaded", r"(?:at|over|no|insufficient) capacity", r"capacity (?:exceeded|reached|constraint)", r"server is busy",
    r"temporarily unavailable", r"loading model", r"model is (?:currently )?loading", r"high (?:demand|load)", r"繁忙", r"过载",
)  # fmt: skip
_TIMEOUT = _any(
    r"timed? ?out", r"deadline exceeded", r"connection (?:was )?(?:reset|refused|aborted|closed|error|lost)", r"socket hang up",
    r"econn(?:reset|refused|aborted)", r"broken pipe", r"network error", r"premature", r"stream ended", r"name resolution",
)  # fmt: skip
_NO_MODEL = _any(
    r"model_not_found", r"(?:unknown|no such|invalid) model", r"model.{0,120}(?:not found|not exist|is not available|not valid)",
    r"not a valid model", r"no endpoints found", r"try pulling it", r"decommissioned", r"no longer (?:available|supported)",
)  # fmt: skip


def classify(status: int | None, text: str) -> ModelFailure:
    """Return the kind of a failure from its HTTP status (None for a broken connection) and its message."""
    if _over_ceiling(text):
        return F.REQUEST_TOO_LARGE
    if _TPM.search(text):
        return F.RATE_LIMIT
    if status in {400, 404, 422, None} and _reasoning(text):
        return F.THINKING_LEVEL
    if _WINDOWS.search(text) and status in {402, 403, 429, 503, None}:
        return F.RATE_LIMIT
    if status == 402 or _BILLING.search(text):
        return F.BILLING
    small = bool(_SMALL_WINDOW.search(text))
    if status == 429 or _RATE.search(text):
        return F.RATE_LIMIT
    if not small and (status == 413 or _OVERFLOW.search(text)):
        return F.CONTEXT_OVERFLOW
    return _rest(status, text, small=small)


def _rest(status: int | None, text: str, *, small: bool) -> ModelFailure:
    if status in {400, 403, 451, None} and _REFUSED.search(text):
        return F.REFUSAL
    if status in {400, 401, 403, None} and _GONE.search(text):
        return F.AUTH_PERMANENT
    if status in {401, 403} or (status in {400, None} and _AUTH.search(text)):
        return F.AUTH
    if status == 529 or _OVERLOADED.search(text):
        return F.OVERLOADED
    if status in TIMEOUT_STATUSES:
        return F.TIMEOUT
    if status is not None and status >= 500:
        return F.SERVER
    if status == 404 or _NO_MODEL.search(text):
        return F.MODEL_NOT_FOUND
    if _TIMEOUT.search(text):
        return F.TIMEOUT
    return F.FORMAT if status in {400, 405, 409, 415, 422} and not small else F.UNKNOWN


def _over_ceiling(text: str) -> bool:
    found = _CEILING.search(text)
    if not found or not _CEILING_TOPIC.search(text):
        return False
    limit, requested = (int(re.sub(r"\D", "", group) or 0) for group in found.groups())
    return requested > limit


def _reasoning(text: str) -> bool:
    return bool(_THINKING_BLOCKS.search(text) or (_REASONING.search(text) and _UNSUPPORTED.search(text)))


CURES: Mapping[ModelFailure, str] = {
    F.AUTH: "check the API key; `homarus models status` shows which one is used",
    F.AUTH_PERMANENT: "this key was revoked or its account is disabled: put in another one",
    F.BILLING: "top up the account at the provider, or choose another model",
    F.RATE_LIMIT: "wait, or add a second key or a fallback model",
    F.MODEL_NOT_FOUND: "`homarus models list` shows known models; check the spelling and the account's access",
    F.CONTEXT_OVERFLOW: "`/compact` shortens the conversation, `/new` starts another",
    F.REQUEST_TOO_LARGE: "this account's limit per request is below this conversation: `/compact`, or another model",
    F.TIMEOUT: "check the network, and whether the server runs",
}


def failure(
    status: int | None, text: str, *, where: str, headers: Mapping[str, str] | None = None, now: datetime | None = None
) -> ModelError:
    """Return the typed error for a failed call; `where` names provider and model."""
    kind = classify(status, text)
    said = single_line(text, 400) or "no message"
    code = f" (HTTP {status})" if status else ""
    wait = retry_after(headers or {}, text, now)
    return ModelError(kind, f"{where}: {said}{code}", status=status, retry_after=wait, cure=CURES.get(kind, ""))


def body_text(body: bytes) -> str:
    """Return what an error body says, whichever of the usual shapes it has; anything else is returned as text."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return re.sub(r"<[^>]{0,200}>", " ", body.decode("utf-8", "replace"))
    return error_text(value)


_SAID = (
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
)


def error_text(value: Any) -> str:
    """Return message, type and code of an error object as one text."""
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
    return error.kind is F.RATE_LIMIT and bool(_WINDOWS.search(error.message))
