"""The one redactor: keys, tokens and passwords in free text become a mark, wherever the text is shown, logged or stored. Pure.

It knows three things: the formats of keys that services document (the tables below), names that announce a secret
(`"token": …`, `--password …`, `Authorization: …`), and the places of addresses where secrets stand. What merely is long and
random stays: hashes, ids, signatures of commits, images in base64. A word that must be in the text before a rule is tried
keeps a megabyte of ordinary text in the range of milliseconds.
"""

from __future__ import annotations

import re
from functools import cache, partial

from homarus.core.patterns import late

MARK = "[redacted]"

# How keys of services begin, and how many characters follow at least.
_PREFIXES = """
sk-ant-:16 sk-proj-:16 sk-svcacct-:16 sk-admin-:16 sk-or-:16 sk-lf-:16 pk-lf-:16 sk_live_:12 sk_test_:12 rk_live_:12 rk_test_:12 pk_live_:12 pk_test_:12
whsec_:16 ghp_:16 gho_:16 ghu_:16 ghs_:16 ghr_:16 github_pat_:20 glpat-:16 gldt-:16 glrt-:16 glptt-:16 glft-:16 glcbt-:16 glimt-:16 glagent-:16
gloas-:16 glsoat-:16 glffct-:16 GR1348941:16 glsa_:16 glc_:20 xoxa-:10 xoxb-:10 xoxp-:10 xoxe-:10 xoxo-:10 xoxr-:10 xoxs-:10 xoxc-:10 xoxd-:10 xoxe.xox:10
xapp-:10 AIza:30 GOCSPX-:16 ya29.:16 npm_:20! pypi-:20 hf_:20! api_org_:20 r8_:20! gsk_:16! xai-:20 pplx-:20 nvapi-:16 tvly-:12 tgp_v1_:20 csk-:20
jina_:20! lsv2_pt_:16 lsv2_sk_:16 pcsk_:16 sbp_:20! sb_secret_:16 sb_publishable_:16 napi_:20! pscale_tkn_:16 pscale_pw_:16 pscale_oauth_:16 dop_v1_:20
doo_v1_:20 dor_v1_:20 vcp_:20 nfp_:20! HRKU-:20 fo1_:20 fm1a_:20 fm1r_:20 fm2_:20 dp.pt.:16 dp.st.:16 dp.ct.:16 dp.scim.:16 dp.audit.:16 hvs.:16 hvb.:16
hvr.:16 pul-:30 lin_api_:16 lin_oauth_:16 ntn_:20 ATATT:20 ATCTT:20 ATBB:24 figd_:16 figo_:16 shpat_:16 shpca_:16 shppa_:16 shpss_:16 sq0atp-:16
sq0csp-:16 sq0idp-:16 xkeysib-:20 xsmtpsib-:20 syt_:16 sntrys_:16 sntryu_:16 NRAK-:16 NRIQ-:16 NRJS-:12 NRII-:16 dt0c01.:20 dt0s01.:20 sgp_:20!
phc_:20! phx_:20! CFPAT-:20 PMAK-:20 rubygems_:16 cio:32 oy2:40 dckr_pat_:16 dckr_oat_:16 AKCp:40 squ_:30 sqp_:30 sqa_:30 snyk_:20 CCIPAT_:16 CCIPRJ_:16
bkua_:20 rdme_:20 tfp_:20 EZAK:30 EZTK:30 shippo_live_:20 shippo_test_:20 duffel_live_:20 duffel_test_:20 rzp_live_:12 rzp_test_:12 FLWSECK_TEST-:12
FLWSECK-:12 pat-na1-:20 pat-eu1-:20 CLOJARS_:20 pnu_:20 AGE-SECRET-KEY-1:30 ops_eyJ:40 tskey-:12 AQVN:30 LTAI:16 AKID:24 ico-:30 p8e-:30 fio-u-:30
essu_:20 mdb_sa_sk_:16 sha256~:30 ddp_:20 apify_api_:20 bb_live_:16 e2b_:20! rpa_:20! sk_car_:16 fc-:20! re_:16! pa-:30! key-:30! tk-us-:30 ak-:20! as-:20!
rnd_:20! fw_:20! fw-:20! fpk_:20! fal_:20! am_:20! exa_:20! retaindb_:16 hsk-:20! mem0_:20! brv_:20! glwt-:16 glrtr-:16 BBDC-:20 secret_:30! sm_aat_:20 sm_pat_:20 sm_sat_:20 EAAA:50 EAAC:80 EAAM:80 IGQV:80 A21AA:50 access-sandbox-:30 access-production-:30
sdk-:30! mob-:30! api-:36! BSA:26! cal_live_:16 cal_test_:16 clh_:20! live_:30! test_:30! key_live_:16 key_test_:16 AQE:60! v1.0-:80 gha_:30! tgp_:20!
sk_:20! pk-:24! rk-:24! spt_:20 paycred_:20 wandb_v1_:20 ABSK:60 nai-:20! pdus+:16 u+:18! oauth:28! whsk_:16 hooks_:24! ctx7sk-:16 gw_:24! oc_:24!
"""
# Keys whose form says more than a beginning. Each needs its word in the text, in lower case.
_FORMATS = (
    ("-----begin", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:(?!-----END)[\s\S])*(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)?"),
    ("ls0tls1crudjti", r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{20,}={0,2}"),
    ("eyj", r"(?<![\w.])eyJ[\w-]{8,}\.(?:eyJ)?[\w-]{8,}(?:\.[\w-]*){0,3}"),
    ("zxlk", r"\bZXlK[A-Za-z0-9+/_-]{30,}={0,2}"),
    ("akia", r"\bAKIA[A-Z0-9]{16}\b"), ("asia", r"\bASIA[A-Z0-9]{16}\b"), ("abia", r"\bABIA[A-Z0-9]{16}\b"), ("acca", r"\bACCA[A-Z0-9]{16}\b"),
    ("sk-", r"sk-(?<!\wsk-)(?:(?=[\w-]{0,100}\d)[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{20,})"), ("re_", r"re_(?<!\wre_)[A-Za-z0-9]{6,10}_[A-Za-z0-9]{20,}"),
    ("flyv1", r"FlyV1 \S{20,}"), ("gaaaa", r"(?<![A-Za-z0-9+=_-])gAAAA[\w-]{24,}={0,2}"),
    ("sg.", r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    (":aa", r"(?<!\d)\d{6,12}:AA[\w-]{28,}"), (":", r"(?<![\w:])(?:bot)?\d{6,12}:[A-Za-z][\w-]{31,}"),
    (".", r"[A-Za-z](?<![\w.-][A-Za-z])[\w-]{22,27}\.[\w-]{6}\.[\w-]{27,}"),
    ("sk", r"\bSK[0-9a-f]{32}\b"), ("-us", r"\b[0-9a-f]{32}-us\d{1,2}\b"), ("pat", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{32,}\b"),
    (".atlasv1.", r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}"), ("q~", r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,34}"),
    ("sl.", r"\bsl\.(?:u\.)?[\w-]{100,}"), ("1//0", r"(?<![\w/])1//0[\w-]{30,}"), (":apa91b", r"\b[\w-]{11,22}:APA91b[\w-]{100,}"),
    (".eyj", r"\b[spt]k\.eyJ[\w-]{20,}\.[\w-]{10,}"), ("a3-", r"\bA3-[A-Z0-9]{6}-(?:[A-Z0-9]{5,11}-?){3,5}"),
    ("aaaaaaaa", r"\bA{20,}[\w%]{60,}"), ("!aq", r"\b00D\w{12,15}!AQ[\w.]{60,}"), ("_mmk", r"\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b"),
    ("access_token$", r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"), ("amzn.mws.", r"amzn\.mws\.[0-9a-f-]{36}"),
    ("-----begin openvpn", r"-----BEGIN OpenVPN Static key V1-----[\s\S]*?(?:-----END|\Z)"), ("t1.", r"\bt1\.[A-Z0-9a-z_-]+=?\.[\w-]{80,}={0,2}"),
    ("atlassian", r"\bAT[A-Z]{3}x[\w=-]{80,}"), ("bedrock-api-key-", r"bedrock-api-key-[A-Za-z0-9+/=]{20,}"), ("s-s4t2", r"\bs-s4t2(?:ud|af)-[0-9a-f]{64}"),
    ("eyjrijoi", r"\beyJrIjoi[A-Za-z0-9]{40,}={0,2}"), ("0.", r"(?<![\w.])0\.[0-9a-f-]{36}\.\w{30}:[\w+/=]{20,}"), ("dapi", r"\bdapi[0-9a-f]{32}(?:-\d)?\b"),
    ("pat.", r"\b[ps]at\.[\w-]{22}\.[0-9A-Za-z]{24}\.[0-9A-Za-z]{20}"), ("pmak", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
)  # fmt: skip
# A key is a run of so many characters or more without a space, and its word stands in it; but for the rules of these words.
_RUN = late(r"\S{14,}")
_SHORT = frozenset({"://", "-----begin", "-----begin openvpn", "flyv1", "atlassian", "pat."})
# Places of addresses: what is kept stands in the first group, what goes in the second.
_PLACES = (
    ("://", r"(\b[a-z][\w+.-]{1,20}://[^\s/@:\"'<>]{0,128}:)([^\s/@\"'<>]+)(?=@)"),
    ("://", r"(\b[a-z][\w+.-]{1,20}://)([0-9a-f]{32}|[\w-]{36,})(?=@)"),
    ("_gitlab_session=", r"(_gitlab_session=)(\w{20,})"), ("/bot", r"(/(?:file/)?bot)(\d{5,}:[\w-]{20,})"),
    ("hooks.slack.com", r"(hooks\.slack\.com/(?:services|workflows|triggers)/)([\w/-]{16,})"),
    ("/api/webhooks/", r"(/api/webhooks/\d+/)([\w-]{16,})"),
    ("webhook", r"(webhook(?:b2|\.office\.com/webhookb2)?/)([\w@-]{30,}(?:/[\w-]+)*)"),
    ("hooks.zapier.com", r"(hooks\.zapier\.com/hooks/catch/)([\w/]{8,})"), ("hook.", r"(\bhook\.[\w.]{0,12}make\.com/)(\w{20,})"),
    ("/with/key/", r"(/with/key/)([\w-]{10,})"), ("/bot/v2/hook/", r"(/bot/v2/hook/)([\w-]{16,})"),
    ("/hooks/", r"(/hooks/)([a-z0-9]{26}\b)"), ("genericwebhook/", r"(genericWebhook/\w+/\w+/)(\w+)"),
)  # fmt: skip

_ANNOUNCING = (
    r"passwords?|passwd|passphrase|passcode|pwd|pass|secrets?|tokens?|jwt|credentials?|api[_-]?keys?|apikeys?|access[_-]?keys?|private[_-]?keys?"
    r"|secret[_-]?keys?|sign(?:ing)?[_-]?keys?|encrypt(?:ion)?[_-]?keys?|auth[_-]?keys?|account[_-]?keys?|shared[_-]?access[_-]?keys?|master[_-]?keys?"
    r"|license[_-]?keys?|bot[_-]?keys?|secret[_-]?key[_-]?base|access[_-]?key[_-]?secret|session[_-]?cookie|card[_-]?number|cvc|cvv|auth[_-]?tag|psk"
)
_QUOTED_VALUE = (
    r"\\{0,3}\"(?:[^\"\\\n]|\\.){1,4000}?\\{0,3}\"|\\{0,3}'(?:[^'\\\n]|\\.){1,4000}?\\{0,3}'|`[^`\n]{1,4000}`"
)
_NAMED = late(
    rf"(?:[\w.\-]*[_.\-])?(?i:{_ANNOUNCING})|[\w.\-]*(?:Tokens?|Secrets?|Passwords?|Passphrase|Pass|Keys?|Credentials?)"
    r"|[A-Z0-9_]+(?:TOKEN|SECRET|PASSWORD|PASSWD|_PASS|_PWD|_KEY)"
)
# Names that only sound like one: they count tokens, or name rows of tables and keys that are public.
_PLAIN_NAME = late(
    r"(?i)(?:.*[_.-])?(?:max|min|total|prompt|completion|input|output|num|n|used|reserve|context|cached?|public|primary|foreign|sort|partition|main|session|idempotency"
    r"|row|default|by|per|stop|special|next|pad|eos|bos)[_-]?(?:tokens?|keys?|pass)|.*(?:Max|Public|Primary|Foreign|Sort|Session|Cache|Context|Reserve)(?:Tokens?|Key)"
    r"|max[A-Z]\w*|tokens"
)
_VALUE = late(rf"{_QUOTED_VALUE}|[^\s\"'`<>{{}}][^\s\"'`]*|[\"'`][^\s\"'`]{{6,}}")
# Where a name that holds one of these ends and its value begins; looked for in lower case, which is fast.
_PAIR = late(
    r"(?:pass|pwd|secret|token|jwt|credential|key|card|cvc|cvv|tag|psk)[\w-]{0,12}(\\{0,3}[\"'`]?\]?\s{0,3}(?:=>|:=|[:=])\s{0,3})"
)
_FLAG = late(
    r"--?(?<![\w-]-)(?<![\w-]--)[\w-]{0,40}?(?:pass|pwd|secret|token|key|card|credential|psk)[\w-]{0,12}(\s{1,3})(?!-)"
)
_QUERY = late(
    r"((?:[?&;]|\bbody[:=] ?\"?)(?:[\w.%-]*[_.%-])?(?:token|secret|password|passwd|pwd|pass|sig|signature|jwt|auth|authorization|credential|code|key|apikey|api_?key"
    r"|access_?key|hook_token|assertion|\w*_?token_\w+)=)([^&#\s\"'<>]+)",
    re.IGNORECASE,
)
_FORM = late(r"(?<![^\s\"'])[\w%.-]{1,60}=[^\s&\"']*(?:&[\w%.-]{1,60}=[^\s&\"']*)+")
_HEADER = late(
    r"(\b(?:[\w-]+-)?authorization\\{0,3}[\"']?\s{0,2}[:=]\s{0,4}(?:\\[nrt])*\\{0,3}[\"']?(?:[A-Za-z][\w+-]{1,30}(?:[ \t]|\\t)+(?=[^\s=]))?)"
    r"((?:[^\s\"',;=]+=(?:\\*\"(?:[^\"\\\n]|\\.)*?\\*\"|[^\s\"',;]+)?[, \t]{0,3}(?:\\[rnt])*)+(?=;|[ \t]*$|[\"'}])|[^\s\"',;)}]+)",
    re.IGNORECASE | re.MULTILINE,
)
_SIGNED = late(
    r"(\bauthorization\\{0,3}[\"']?\s{0,2}[:=]\s{0,2}\\{0,3}[\"']?(?:digest|hawk|oauth|aws4[\w-]*) )([^;\r\n]+)",
    re.IGNORECASE,
)
_COOKIE = late(
    r"(\b(?:set-)?cookie\\{0,3}[\"']?\s{0,2}[:=]\s{0,2}\\{0,3}[\"']?)([^\s\"'=;]{1,80}=[^\r\n\"']{4,}|[\w.%+/-]{16,})",
    re.IGNORECASE,
)
_NETRC = late(r"(\b(?:login\s+\S+\s+password|password)\s+)((?=\S*\d)\S{6,})(?=\s*$)", re.MULTILINE)
_USER = late(r"((?<![\w-])(?:-u|--user|--proxy-user)[ =][\"']?[^\s:\"']{1,80}:)([^\s\"']+)")
_BEARER = late(r"(\bbearer(?:\s|\\t|%20){1,3})((?=[^\s\"']*[\d._~+/-])[\w.~+/=%-]{8,})", re.IGNORECASE)
_KEY_BODY = late(r"[A-Za-z0-9+/=]{1,80}|[\w-]+: .*|-----END.*")
# What stands where a secret would and is none: a reference to one, code, a word of a sentence.
_NO_SECRET = late(
    r"\$\{?[A-Za-z_]\w*(?::?-)?\}?|\$\(.*|%[A-Z_]+%|\{\{.*|<[^>]*>?|\*{3,}|x{4,}|\.{3,}|…|null|none|nil|true|false|undefined|required|optional|string|str|bool|int"
    r"|bytes|object|any|missing|invalid|expired|empty|unset|.*\[redacted\].*|.*__openclaw_redacted__.*|(?:[a-z_]\w*\.)*[a-z_]\w*[(\[].*|(?:process|os|import\.meta)\.env.*"
    r"|(?:self|this|args|config|settings|options|params|ctx|env|req|request|response|data|result)\.\w.*|[,;:.)\]}]*",
    re.IGNORECASE,
)
# What announces a secret other than by a name and its value: words of which one must be there, and the least length.
_ANNOUNCED = (
    (("authorization",), _SIGNED, 8),
    (("authorization",), _HEADER, 8),
    (("cookie",), _COOKIE, 4),
    (("bearer",), _BEARER, 8),
    ((" -u", "--user", "--proxy-user"), _USER, 1),
    (("password",), _NETRC, 6),
    (("=",), _QUERY, 1),
)


def redacted(text: str, mark: str = MARK) -> str:
    """Return text with every secret in it replaced by the mark; what announced it stays readable."""
    lowered = text.lower()
    runs = "\n".join(_RUN.findall(lowered))  # few, in ordinary text: three hundred words are looked for in them alone
    for word in _words():
        if word in (lowered if word in _SHORT else runs):
            for pattern in _compiled(word):
                text = pattern.sub(lambda found: found[1] + mark if found.re.groups else mark, text)
    for words, announced, least in _ANNOUNCED:
        if any(word in lowered for word in words):
            text = announced.sub(partial(_announced, least=least, mark=mark), text)
    if "&" in text and "=" in text:
        text = _FORM.sub(lambda found: _QUERY.sub(rf"\g<1>{mark}", f"&{found[0]}")[1:], text)
    return _without_pairs(_without_pairs(text, _FLAG, mark), _PAIR, mark)


def _announced(found: re.Match[str], *, least: int, mark: str) -> str:
    return f"{found[1]}{mark}" if _is_value(found[2], least) else found[0]


def _without_pairs(text: str, pattern: re.Pattern[str], mark: str) -> str:
    """Hide the values of names that announce a secret."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters grow in lower case
        lowered = "".join(char.lower() if char.isascii() else char for char in text)
    out: list[str] = []
    done = 0
    for found in pattern.finditer(lowered):
        at = found.end()
        before = re.compile(r"[\w.\-%]*\Z").search(text, max(done, found.start() - 60), found.start())
        name = f"{before[0] if before else ''}{text[found.start() : found.start(1)]}".lstrip("-")
        value = (
            _VALUE.match(text, at)
            if at >= done and is_secret_name(name.replace("%5F", "_").replace("%2D", "-"))
            else None
        )
        hidden = (
            _hidden(value[0], found[1], name, mark) if value and not _of_path(text, found.start(1), value[0]) else None
        )
        if value and hidden is not None:
            out += [text[done:at], hidden]
            done = value.end()
    return "".join([*out, text[done:]]) if out else text


def _of_path(text: str, end: int, value: str) -> bool:
    """Say whether a value is the path that ends in its name, or a folder of it: `/etc/passwd: /etc is …` tells nothing new."""
    path = re.compile(r"/[^\s:=\"'`]*\Z").search(text, max(0, end - 500), end)
    return path is not None and value.startswith("/") and f"{path[0]}/".startswith(f"{value.rstrip(',;.)]}')}/")


def _hidden(value: str, separator: str, name: str, mark: str) -> str | None:
    """Return a mark in the quotes of the value; nothing if the value is no secret."""
    quotes = re.match(r"\\{0,3}[\"'`]", value)
    if quotes and value.endswith(quotes[0]):
        inner = value[quotes.end() : -quotes.end()]
        return f"{quotes[0]}{mark}{quotes[0]}" if _is_value(inner, 1) else None
    if "=" in separator and re.fullmatch(r"\d{8,}[;,]?", value):
        return mark
    assigned = "=" in separator and not separator[0].isspace()
    least = 4 if assigned or not separator.strip() else 0
    if not _is_value(value, least, strict="pass" not in name.lower()):
        return None
    tail = re.search(r"[,;)\]}]*\Z", value) if not assigned else None
    return f"{mark}{tail[0] if tail else ''}"


def redacted_lines(lines: list[str], mark: str = MARK) -> list[str]:
    """Return all lines redacted, number for number: a key of several lines leaves a mark on each."""
    if not any("-----BEGIN" in line for line in lines):
        whole = redacted("\n".join(lines), mark).split("\n")
        return whole if len(whole) == len(lines) else [redacted(line, mark) for line in lines]
    out: list[str] = []
    inside = False
    for line in lines:
        inside = inside and (not line.strip() or _KEY_BODY.fullmatch(line.strip()) is not None)
        out.append(mark if inside and line.strip() else redacted(line, mark))
        inside = (inside or ("-----BEGIN" in line and "PRIVATE KEY" in line)) and "-----END" not in line
    return out


def is_secret_name(name: str) -> bool:
    """Say whether a name in free text announces a secret: `api_key` and `botToken` do, `token_count` and `monkey` don't."""
    return _NAMED.fullmatch(name) is not None and _PLAIN_NAME.fullmatch(name) is None


def _is_value(value: str, least: int = 0, *, strict: bool = True) -> bool:
    """Say whether a value can be a secret. `least` is its least length where the form says that a value stands there."""
    bare = value.rstrip(",;.)]}")
    if _NO_SECRET.fullmatch(value) or _NO_SECRET.fullmatch(bare):
        return False
    if least:
        return len(bare) >= least
    # After a colon a sentence may follow: only what is no word of one counts.
    digit = re.search(r"\d", bare)
    mixed = (digit and re.search(r"[A-Za-z]", bare)) or re.search(r"[!#$%&*+/=?^_~]", bare[1:])
    scrambled = len(bare) >= 16 and re.search(r"[a-z].*[A-Z].*[a-z]", bare)
    return len(bare) >= 6 and bool(mixed or scrambled or (not strict and digit))


@cache
def _rules() -> tuple[tuple[str, str], ...]:
    """Return (word, pattern) of every rule. A beginning marked with `!` is also that of ordinary words."""
    rules = []
    for entry in _PREFIXES.split():
        prefix, _, size = entry.rpartition(":")
        plain = re.escape(prefix)
        # Ordinary words are short, and joined by hyphens and underscores: what follows such a beginning is one long run.
        least = size.rstrip("!")
        rest = (
            rf"(?:(?=\w{{0,100}}\d)[A-Za-z0-9]{{{least},}}|[A-Za-z0-9]{{20,}})"
            if size.endswith("!")
            else rf"[A-Za-z0-9_-]{{{least},}}"
        )
        # The beginning comes before the look at what stands in front of it, so that it is searched for as a word.
        rules.append(
            (
                prefix.lower(),
                rf"{plain}(?<![A-Za-z0-9_]{plain}){rest}(?:[.+=~][A-Za-z0-9_-]+)*={{0,2}}",
            )
        )
    return (*rules, *_FORMATS, *_PLACES)


@cache
def _words() -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word, _ in _rules()))


@cache
def _compiled(word: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for key, pattern in _rules() if key == word)
