"""What kind of failure a model call ended with, read from status, headers and body. Pure; the order of the rules matters.

A kind decides who acts next (wait, rotate, compact, stop), so a wrong one costs money or loses a turn: every rule has its
real-world messages in the table test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from homarus.core.errors import ModelError, ModelFailure
from homarus.core.patterns import late
from homarus.core.text import single_line

F = ModelFailure
TIMEOUT_STATUSES = frozenset({408, 409, 410, 425, 499, 504, 522, 524})
# A body longer than this talks about something; only one that names a code is taken at its word about money.
LONG = 512


def _any(*patterns: str) -> re.Pattern[str]:
    return late("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE | re.DOTALL)


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
_CEILING_TOPIC = _any(r"request too large", r"tokens per min", r"\btpm\b", r"reduce your message size")
_TPM = _any(r"tokens per min", r"\btpm\b")
_REASONING = _any(
    r"reasoning[_ .]?effort", r"thinking[._ ]?(?:type|budget|level|config)", r"budget_tokens", r"enable_thinking",
    r"output_config", r"\beffort\b", r"extended thinking", r"adaptive thinking", r"\breasoning\b", r"thinking.{0,12}\bmode",
)  # fmt: skip
_UNSUPPORTED = _any(
    r"unsupported", r"not support", r"invalid", r"unknown", r"unrecognized", r"not allowed", r"not permitted", r"requires",
    r"must be", r"extra inputs", r"mandatory", r"cannot be (?:disabled|enabled)", r"expected one of", r"unexpected", r"required",
)  # fmt: skip
_THINKING_BLOCKS = _any(
    r"expected `?(?:redacted_)?thinking`?", r"signature.{0,20}`?thinking`? block", r"thinking.{0,40}block",
    r"reasoning_content.{0,40}(?:missing|must|required)", r"(?:missing|must|required).{0,60}reasoning_content", r"thought[_ ]signature",
)  # fmt: skip
_WINDOWS = _any(
    r"\b(?:daily|weekly|monthly|hourly|[0-9]+[- ]hour|per[- ](?:day|week|month|hour)|tokens? per day|tp[dh]|rp[dh])\b.{0,60}\b(?:limit|quota)",
    r"\b(?:limit|quota)\b.{0,40}\b(?:per (?:day|week|month)|for (?:today|this (?:day|week|month)))", r"tokens per day",
    r"usage[ _]limit", r"quota exceeded for metric", r"resource[_ ]exhausted.{0,200}retry in", r"subscription quota limit",
    r"usage.{0,30}\b(?:resets?|will reset|renew)", r"(?:每日|每周|每月|本周|本月|今日).{0,12}(?:上限|限额|额度|配额)",
)  # fmt: skip
_BILLING = _any(
    r"insufficient[_ ](?:\w+[_ ]){0,3}(?:quota|credit|balance|fund)", r"credit balance", r"payment[_ ]required", r"out of credits",
    r"exceeded your current quota", r"(?:add|purchase|buy|require\w*) (?:\w+ )?credits", r"(?:no|any) (?:remaining )?credits", r"in arrears", r"arrearage",
    r"billing", r"余额(?:不足|已用)", r"欠费", r"insufficient_user_quota", r"extra usage", r"used (?:all|up) (?:\w+ ){0,3}(?:credits|points)",
    r"spend(?:ing)? limit", r"free (?:tier|trial|quota|allocation).{0,40}(?:ended|expired|exhausted|used up)", r"overdue", r"top up",
    r"invalidsubscription", r"valid coding ?plan subscription", r"subscription (?:plan )?(?:has )?(?:expired|does not (?:yet )?include)",
    r"not available in your (?:current )?plan", r"not (?:included )?(?:in|on) (?:your )?(?:current )?plan", r"payment method", r"key limit exceeded",
    r"资源包", r"账户.{0,6}(?:停用|冻结)",
)  # fmt: skip
# With status 402: what says that money is missing, and what says that only this hour's or this team's share is used up.
_MONEY = _any(
    r"insufficient[_ ](?:\w+ )?(?:credit|quota|balance)", r"credit balance", r"add more credits", r"top up", r"plans & billing", r"hard limit",
    r"key limit exceeded", r"used (?:all|up) .{0,20}(?:credits|points)", r"extra usage",
    r"maximum allowed", r"(?:upgrade|current plan|subscription).{0,80}limit|limit.{0,80}(?:upgrade your plan|upgrade plan|current plan)",
)  # fmt: skip
_SHARE = _any(
    r"(?:daily|weekly|monthly).{0,40}(?:usage|spend(?:ing)?) limit", r"(?:daily|weekly|monthly).{0,40}limit.{0,60}reset",
    r"(?:organi[sz]ation|workspace).{0,60}limit.{0,60}(?:exceeded|reached|exhausted|period|try again)",
    r"rate[_ -]?limit", r"too many requests", r"(?:usage limit).{0,80}(?:try again|retry|temporar)",
)  # fmt: skip
_LIMITED = late(r"rate[_ -]?limit", re.IGNORECASE)
_REFRESHED = late(r"quota.{0,80}(?:refresh|rolling)", re.IGNORECASE)
_SMALL_WINDOW = _any(r"context (?:window|length|size).{0,40}(?:too small|below|minimum)", r"minimum context")
_RATE = _any(
    r"rate[_ -]?limit", r"too many (?:concurrent )?requests", r"quota (?:limit )?exceeded", r"resource[_ ]exhausted", r"throttl",
    r"requests per (?:minute|second|day|hour)", r"too many tokens.{0,60}(?:wait|retry|try again|later|per day)", r"concurren\w+ limit",
    r"model_cooldown", r"resource has been exhausted", r"exceeded.{0,20}quota", r"slow down", r"(?:reached|exceeded) .{0,30}max \w+: ",
    r"请求过于频繁", r"速率限制", r"限流", r"频率", r"(?:配额|额度)(?:不足|已用尽|已用完)", r"并发",
)  # fmt: skip
_OVERFLOW = _any(
    r"(?:prompt|input|request|message|context|conversation|history)s?(?: \w+)? (?:is |are |was )?too (?:long|large)", r"request_too_large",
    r"exceed\w*.{0,60}(?:context|prompt|input) (?:window|length|size|limit|budget)", r"(?:context|prompt|input)[ _](?:window|length|size|limit).{0,60}exceed",
    r"max\w* (?:context|prompt|input|sequence|model)[ _](?:length|size|window|tokens?|len)", r"context_length_exceeded", r"context[_ ]overflow(?:ed|:|\b)(?! (?:bug|error|issue|message))",
    r"too many (?:input |prompt )?tokens", r"token (?:count|limit).{0,40}exceed", r"exceed\w*.{0,60}token (?:count|limit)", r"model_max_prompt_tokens",
    r"token count.{0,60}(?:exceed|too large)", r"maximum number of (?:input )?tokens", r"reduce the length of", r"context the overflows",
    r"(?:larger|greater|longer) than.{0,30}context", r"range of input length", r"prompt exceeds max", r"tokens? in request more than",
    r"total tokens.{0,40}exceed", r"configured context size", r"ran out of (?:room|space).{0,40}context|context.{0,40}ran out of (?:room|space)",
    r"request exceeds the maximum size", r"context window (?:is|has|of).{0,60}(?:requested|sent|tokens)", r"trim.{0,20}(?:history|messages).{0,40}context",
    r"上下文.{0,12}(?:过长|超|压缩)|压缩上下文", r"超(?:出|过|长).{0,16}(?:长度|上下文|token)", r"(?:输入|提示词|prompt).{0,8}(?:过长|超长|超)",
)  # fmt: skip
_REFUSED = _any(
    r"content[_ ](?:policy|filter|management)", r"flagged", r"moderation", r"safety (?:system|filter|setting)", r"responsible ai", r"\brefusal\b",
    r"prohibited[_ ]content", r"(?:sensitive|inappropriate|unsafe) content", r"data_inspection", r"usage polic(?:y|ies)", r"敏感|违规内容|不合规",
)  # fmt: skip
_GONE = _any(
    r"revoked", r"(?<!model has been )(?<!model_is_)(?<!model )(?<!model_)deactivated", r"(?:key|account|organi[sz]ation|workspace|user|project)\b.{0,30}\b(?:disabled|suspended|banned|terminated|deleted)",
    r"api[_ ]key[_ ]deleted", r"permission_denied.{0,80}suspended", r"not allowed for this organi[sz]ation", r"refresh[_ ]token.{0,40}(?:reused|already been used|expired|invalid)",
    r"invalid refresh token", r"sign(?:ing)? in again", r"invalid_grant",
)  # fmt: skip
_AUTH = _any(
    r"(?:invalid|incorrect|missing|wrong|bad|unknown|no|expired)[ _-].{0,20}(?:api[_ -]?key|token|credential|x-api-key|auth)", r"api[ _-]?key.{0,20}(?:not valid|invalid|incorrect|expired|not found|missing|required)",
    r"unauthori[sz]ed", r"unauthenticated", r"authenticat(?:e|ion)", r"permission[_ ](?:error|denied)", r"insufficient permission", r"forbidden", r"missing scopes?",
    r"token (?:has |is )?(?:been )?(?:expired|invalid)", r"access denied", r"(?:extract|parse|validate|decode)\b.{0,40}\btoken", r"could not validate credentials",
    r"oauth token refresh failed", r"login fail", r"无权|认证失败|鉴权失败|密钥无效|令牌|身份验证", r"\b1113\b", r"unrecognizedclient|signaturedoesnotmatch|accessdenied",
)  # fmt: skip
_OVERLOADED = _any(
    r"overload", r"(?:at|over|no|insufficient|limited) capacity", r"capacity", r"(?:server is|too) busy", r"engine.{0,20}busy",
    r"temporarily unavailable", r"loading model", r"model is (?:currently )?loading", r"high (?:demand|load|volume)", r"api is busy", r"heavy load",
    r"(?:model\b.{0,60}\bnot|no model) (?:been )?(?:loaded|ready|running)", r"modelnotready", r"no (?:available|healthy) (?:instance|upstream|worker|channel|server)s?", r"insufficient_system_resource",
    r"繁忙|过载|负载过高|模型(?:未加载|加载中|未就绪|不可用)|无可用渠道",
)  # fmt: skip
_TIMEOUT = _any(
    r"time[d-]? ?out", r"deadline exceeded", r"connection (?:was )?(?:reset|refused|aborted|closed|error|lost|terminated)", r"socket hang up", r"disconnected",
    r"\be(?:conn(?:reset|refused|aborted)|net(?:unreach|reset|down)|host(?:unreach|down)|(?:socket)?timedout|pipe|ai_again)\b", r"\benotfound\b", r"broken pipe",
    r"network (?:error|request failed|connection|is unreachable)", r"premature", r"stream (?:ended|was closed|was aborted|closed|aborted|_?read_?error)", r"name resolution", r"no such host",
    r"fetch failed", r"service[ _]unavailable", r"without sending (?:any )?chunks?", r"(?:finish_|stop )?reason: (?:abort|error|malformed_response|network_error)\b",
    r"operation was aborted", r"^terminated$", r"^request failed$", r"provider returned error", r"\bund_err_", r"upstream.{0,20}(?:timeout|reset|connect)",
    r"网络(?:错误|异常)|请求超时|连接(?:超时|错误)|服务暂时不可用",
)  # fmt: skip
_SERVER = _any(
    r"internal[_ ](?:server[_ ])?error", r"server[_ ]error", r"bad gateway", r"upstream error", r"error occurred while processing", r"internal (?:database )?error",
    r"modelerrorexception|modelstreamerror", r"unexpected (?:internal )?error", r"内部错误|服务器(?:内部)?错误|系统(?:错误|异常)",
)  # fmt: skip
_NO_MODEL = _any(
    r"model_not_found|modelnotfound", r"(?:unknown|no such|invalid|unsupported) model", r"model.{0,120}(?:not found|not exist|is not available|not valid|not supported|unavailable for|deactivated|invalid)",
    r"not a valid model", r"no endpoints found", r"try pulling it", r"decommissioned", r"no longer (?:available|supported)", r"(?:n[o']t have|no) access to (?:the |this )?(?:model|it)", r"not found the model",
    r"model.{0,40}(?:deprecated|retired|shut down)", r"endpoint.{0,60}(?:not exist|not found|is closed)", r"模型不存在|模型.{0,8}下线", r"requested entity was not found", r"no_such_model",
)  # fmt: skip
_AGAIN = _any(
    r"tool_use_failed", r"failed to call a function", r"failed to parse (?:input|tool|function)", r"failed_generation", r"malformed_function_call",
    r"output_parse_failed", r"json_validate_failed", r"malformed (?:json|response|output)", r"model (?:output|produced).{0,40}(?:invalid|malformed|unparseable)",
)  # fmt: skip
_FORMAT = _any(r"string should match pattern", r"tool_use[._]id", r"invalid request format", r"tool call id was.{0,40}must be", r"message prefill", r"must end with a user message")  # fmt: skip


def classify(status: int | None, text: str) -> ModelFailure:
    """Return the kind of a failure from its HTTP status (None for a broken connection) and its message."""
    status = _status(status, text)
    if _over_ceiling(text):
        return F.REQUEST_TOO_LARGE
    if _TPM.search(text):
        return F.RATE_LIMIT
    if status in {400, 404, 422, None} and _reasoning(text):
        return F.THINKING_LEVEL
    if status == 402:
        shared = _REFRESHED.search(text) or (_SHARE.search(text) and not _MONEY.search(text))
        return F.RATE_LIMIT if shared else F.BILLING
    if status in {400, 422, 500, None} and _AGAIN.search(text):
        return F.UNKNOWN
    if len(text) <= LONG and _BILLING.search(text):
        # An offer of more credits beside a plain rate limit is advertising.
        windowed = _WINDOWS.search(text) and status in {403, 429, 503, None}
        return F.RATE_LIMIT if (windowed or _LIMITED.search(text)) and not _MONEY.search(text) else F.BILLING
    small = bool(_SMALL_WINDOW.search(text))
    if (
        status == 429
        or (status in {403, 503, None} and _WINDOWS.search(text))
        or (status != 401 and _RATE.search(text))
    ):
        return F.RATE_LIMIT
    if not small and status not in {401, 403} and (status == 413 or _OVERFLOW.search(text)):
        return F.CONTEXT_OVERFLOW
    return _rest(status, text, small=small)


def _rest(status: int | None, text: str, *, small: bool) -> ModelFailure:
    # What a text says counts where the status leaves it open: a 5xx page that holds the word "forbidden" is no key's fault.
    said = status is None or status < 500
    for kind, statuses, pattern in _RULES:
        if (status in statuses or (None in statuses and said and status is None)) and pattern.search(text):
            return kind
    if status in {401, 403}:
        return F.AUTH
    if status == 407:
        return F.UNREACHABLE
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
    if _SERVER.search(text):
        return F.SERVER
    if small or (status in {400, 422} and not text.strip()):
        return F.UNKNOWN  # no word about what was wrong, so most likely something on the way
    return F.FORMAT if status in {400, 405, 415, 422} or _FORMAT.search(text) else F.UNKNOWN


_RULES: tuple[tuple[ModelFailure, frozenset[int | None], re.Pattern[str]], ...] = (
    (F.REFUSAL, frozenset({400, 403, 422, 451, None}), _REFUSED),
    (F.AUTH_PERMANENT, frozenset({400, 401, 403, None}), _GONE),
    (F.FORMAT, frozenset({400, 422, None}), _FORMAT),
    (F.MODEL_NOT_FOUND, frozenset({400, 403, 404, 422, None}), _NO_MODEL),
    (F.OVERLOADED, frozenset({404}), _OVERLOADED),
    (F.AUTH, frozenset({400, 404, 410, 422, None}), _AUTH),
)


def _status(status: int | None, text: str) -> int | None:
    """Return the status that counts: one that a stream or a library reports inside its text stands for a missing one."""
    if status is not None and status >= 400:
        return status
    found = _LEADING.match(text) or _NAMED.search(text)
    return int(next(group for group in found.groups() if group)) if found else None


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
_KEY_LIKE = late(r"[\w.:+/=-]{12,}")


def _stripped(page: str) -> str:
    title = re.search(r"<title>(.*?)</title>", page, re.IGNORECASE | re.DOTALL)
    return (
        title.group(1)
        if title
        else re.sub(r"<(?:style|script).*?</(?:style|script)>|<[^>]{0,200}>", " ", page, flags=re.DOTALL)
    )


def hidden(text: str, secrets: Iterable[str]) -> str:
    """Return what a server said without the secrets that it was sent, as they are or encoded, and without what looks like one."""
    from base64 import b64encode
    from urllib.parse import quote

    from homarus.config.redact import MARKER, redact_text

    for secret in secrets:
        if len(secret) >= 6:
            for form in {secret, quote(secret, safe=""), b64encode(secret.encode()).decode()}:
                text = text.replace(form, MARKER)
    return _KEY_LIKE.sub(lambda found: redact_text(found[0]), text)


def body_text(body: bytes) -> str:
    """Return what an error body says, whichever of the usual shapes it has; anything else is returned as text."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body.decode("utf-8", "replace")
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
