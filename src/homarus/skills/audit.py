"""Look through a skill's text for what malicious skills have done. Pure; it flags for a person and never acts.

A finding is a reason to read the skill before using it, no proof. Honest skills do show `curl … | sh` at times.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from homarus.core.patterns import late
from homarus.skills.header import INVISIBLE, visible

MAX_FINDINGS = 20
_BLOB = 160
# Every repetition is bounded: the text may have been written to make a search slow.
_FETCH = r"(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod)\b"
_SHELL = r"(?:\S{0,60}/)?(?:env\s{1,9})?(?:(?:ba|z|da|k|fi)?sh|python[\d.]{0,5}|perl|ruby|node|iex|invoke-expression|osascript)\b"
_REST = r"[^\n]{0,300}"
_FILES = ("soul.md", "memory.md", "agents.md", "identity.md", "heartbeat.md", "tools.md", "user.md", "openclaw.json", "exec.mode", "mcp.servers")  # fmt: skip
_ENDS = "|".join(f"(?<={re.escape(file)})" for file in _FILES)
_AGENTS_OWN = late(rf"\.(?:md|json|mode|servers)(?:{_ENDS})")
# The name of a rule, what a text must hold for it to be looked for (words, or a pattern that begins with a rare character,
# which is as quick), and what it looks for.
_RULES: tuple[tuple[str, tuple[str | re.Pattern[str], ...], re.Pattern[str]], ...] = (
    (
        "pipe-to-shell",
        ("curl", "wget", "iex", "invoke-", "urlopen", "requests.get"),
        late(
            rf"{_FETCH}[^\n|]{{0,300}}\|\s{{0,9}}(?:sudo\s{{1,9}}(?:-\S{{1,20}}\s{{1,9}}){{0,3}})?{_SHELL}"
            rf"|(?:\beval\b|\b{_SHELL}\s{{1,9}}(?:-\w{{1,9}}\s{{1,9}}){{0,3}})[\s\"']{{0,9}}(?:<\(|\$\(|`)\s{{0,9}}{_FETCH}"
            rf"|\biex\b[\s(]{{0,9}}{_FETCH}"
            r"|\b(?:exec|eval)\s{0,9}\([^\n]{0,200}(?:urlopen|requests\.get)",
            re.IGNORECASE,
        ),
    ),
    (
        "decode-and-run",
        ("base64", "b64d", "xxd", "fromhex", "fromcharcode", "rot13", "\\x"),
        late(
            rf"(?:base64\s{{1,9}}(?:-d|--decode)|xxd\s{{1,9}}-r)[^\n|]{{0,300}}\|\s{{0,9}}(?:sudo\s{{1,9}})?{_SHELL}"
            rf"|\b(?:eval|exec)\b{_REST}(?:b64decode|base64\s{{1,9}}(?:-d|--decode))|frombase64string"
            rf"|\b(?:eval|exec)\b{_REST}(?:fromhex|fromcharcode|rot13)"
            rf"|\b(?:printf|echo)\b[^\n|]{{0,40}}(?:\\x[0-9a-f]{{2}}){{4}}[^\n|]{{0,300}}\|\s{{0,9}}{_SHELL}",
            re.IGNORECASE,
        ),
    ),
    (
        "password-archive",
        ("passw", "pwd", " -p"),
        late(
            rf"\bunzip\b{_REST}\s-P\s{{0,9}}\S|\b7z[ar]?\b{_REST}\s-p\S|\bunrar\b{_REST}\s-p\S"
            r"|(?i:password[- ]protected[^\n]{0,40}(?:zip|archive|7z|rar))"
            r"|(?i:(?:zip|7z|rar|archive)[^\n]{0,60}\b(?:password|passwd|pwd)\s?(?:is|:|=))"
        ),
    ),
    (
        "steers-the-agent",
        (
            "ignore",
            "disregard",
            "do not",
            "never",
            "don't",
            "without asking",
            "without telling",
            "without confirm",
            "secretly",
            "<!--",
            "override",
            "precedence",
            "priority over",
            "approve",
        ),
        late(
            r"(?:ignore|disregard)\s{1,9}(?:all\s|any\s|the\s|your\s){0,3}(?:previous|prior|earlier|other|above|safety|system)"
            r"|(?:do\s{1,9}not|don't|never)\s{1,9}(?:tell|inform|mention|show|ask)\s[^\n]{0,40}\b(?:user|owner|human|them)\b"
            r"|without\s{1,9}(?:asking|telling|confirm\w{0,9}|informing)\b|\bsecretly\b"
            r"|<!--\s{0,9}(?:to\s|for\s)?(?:the\s)?(?:assistant|agent|ai|model|llm|system|claude)\s{0,3}[:,]"
            r"|\b(?:system|developer|admin)\s{1,9}override\b"
            r"|(?:priority|precedence)\s{1,9}over\s[^\n]{0,40}(?:user|owner|instruction|polic|rules)"
            r"|/approve\s{1,9}(?:once|always)|\bapprove\b[^\n]{0,30}\byourself\b",
            re.IGNORECASE,
        ),
    ),
    (
        "reads-secrets",
        (
            late(r"\.(?:ssh|aws|env|gnupg|json(?<=openclaw\.json))"),
            "keychain",
            "phrase",
            "wallet",
            "cookies",
            "credentials",
            "printenv",
            "environ",
            "private key",
            "chrome",
            "firefox",
        ),
        late(
            r"(?:~|\$HOME|/root|/home/\S{1,40})/\.(?:ssh|aws|gnupg|kube|docker|netrc|config/gcloud|openclaw/(?:credentials|\.env|openclaw\.json))"
            r"|\bid_(?:rsa|ed25519)\b|security\s{1,9}(?:find|dump)-|\b(?:printenv|env)\s{0,9}\|"
            r"|(?:login\s|web\s)?data\b[^\n]{0,40}\bcookies\b|wallet\.dat|metamask|\bdict\(os\.environ\)"
            r"|(?:cat|cp|tar|zip|read|open)\b[^\n]{0,60}(?:openclaw\.json|\.env\b)"
            r"|(?:\.config/google-chrome|\.mozilla/firefox|Google/Chrome/(?:User|Default)|Application Support/(?:Google/Chrome|Firefox))"
            r"|(?:ask|enter|paste|send|provide|type|give)\b[^\n]{0,60}\b(?:seed phrase|recovery phrase|private key)",
            re.IGNORECASE,
        ),
    ),
    (
        "sends-away",
        (
            late(r"\.sh(?<=transfer\.sh)"),
            late(r"_(?:key|token)"),
            "dig $(",
            "webhook",
            "requestbin",
            "ngrok",
            "pastebin",
            "@",
            "sendbeacon",
            "/dev/tcp",
            "discord",
            "telegram",
            "oast",
            "![",
            "nslookup",
        ),
        late(
            rf"\b(?:curl|wget)\b{_REST}(?:\s-F\s{{0,9}}\S{{0,40}}=@|\s(?:-d|--data\S{{0,12}}|--post-file|-T|--upload-file)\s{{0,9}}=?[\"']?[@$/~])"
            r"|webhook\.site|requestbin|\bngrok\b|transfer\.sh|oast\.\w{2,4}|discord(?:app)?\.com/api/webhooks|api\.telegram\.org/bot"
            r"|!\[[^\]\n]{0,80}\]\(https?://[^)\s]{0,200}[?&][^)\s]{0,80}[{<$]"
            r"|\b(?:nslookup|dig)\b[^\n]{0,80}(?:\$\(|`\s{0,9}\w)"
            r"|https?://[^\s\"']{0,200}\$\{?(?:OPENAI|ANTHROPIC|AWS|AZURE|GITHUB|GH|OPENCLAW|HOMARUS|GEMINI)_\w{0,30}",
            re.IGNORECASE,
        ),
    ),
    (
        "reverse-shell",
        ("/dev/tcp", "mkfifo", "nc ", "ncat", "socat", "pty.spawn"),
        late(
            r"/dev/tcp/|\bmkfifo\b|\b(?:nc|ncat|netcat)\b[^\n]{0,60}\s-(?:e|c)\b|socat\b[^\n]{0,80}exec:|pty\.spawn",
            re.IGNORECASE,
        ),
    ),
    (
        "stays-on-the-machine",
        (
            "crontab",
            "launchctl",
            "launchagents",
            "systemctl",
            "bashrc",
            "zshrc",
            "profile",
            "authorized_keys",
            "autostart",
            "git config",
        ),
        late(
            r"\bcrontab\b|launchctl\s{1,9}(?:load|bootstrap)|LaunchAgents|systemctl\s[^\n]{0,30}enable|authorized_keys"
            r"|>>\s{0,9}\S{0,40}\.(?:bashrc|zshrc|profile|bash_profile)|config/autostart"
            r"|git\s{1,9}config\s[^\n]{0,30}(?:core\.(?:hookspath|sshcommand|fsmonitor)|credential\.helper|alias\.\S{1,40}\s{1,9}[\"']?!)",
            re.IGNORECASE,
        ),
    ),
    (
        "changes-the-agent",
        (
            _AGENTS_OWN,
            "sandbox",
            "s install",
            "approvals",
            "dangerously",
            "clawhub",
            "skills add",
            "mcp add",
        ),
        late(
            r"(?:append|add|write|insert|echo|edit|replace|overwrite|put|>>)[^\n]{0,80}\b(?:SOUL|MEMORY|AGENTS|IDENTITY|HEARTBEAT|USER|TOOLS)\.md"
            r"|(?:sandbox\S{0,20}mode|exec\S{0,9}mode)[^\n]{0,20}\b(?:off|full)\b|approvals\s{1,9}allow|--dangerously"
            r"|(?:edit|write|change|patch|set)[^\n]{0,40}openclaw\.json"
            r"|\bclawhub\S{0,20}\s{1,9}(?:install|update|sync)|\bskills\s{1,9}(?:add|install)\s|\bplugins\s{1,9}install\s"
            r"|(?:add|put|write|set)\b[^\n]{0,40}\bmcp\.servers|\bmcp\s{1,9}add\s",
            re.IGNORECASE,
        ),
    ),
    (
        "run-this-first",
        (
            late(r"\.(?:dmg|exe|pkg|msi|zip|scr|command|rar|7z|iso)"),
            "prerequisite",
            "chmod +x",
            "npm i",
            "pip install",
            "install -g",
        ),
        late(
            r"https?://\S{1,200}\.(?:dmg|exe|pkg|msi|scr|command|zip|rar|7z|iso)\b"
            r"|\b(?:curl|wget)\b[^\n]{0,200}(?:&&|;)[^\n]{0,80}(?:chmod\s{1,9}\+x|\./|\b(?:ba|z)?sh\s)"
            r"|\b(?:curl|wget)\b[^\n]{0,200}(?:\n[^\n]{0,200}){1,2}?\n?[^\n]{0,20}chmod\s{1,9}\+x"
            r"|pip3?\s{1,9}install\b[^\n]{0,80}(?:--index-url|--extra-index-url|git\+|https?://)",
            re.IGNORECASE,
        ),
    ),
    (
        "guards-down",
        ("unauthorized", "disable", "setenforce", "set-mppreference", "docker", "nsenter"),
        late(
            r"node_tls_reject_unauthorized\W{0,9}0|\bsetenforce\s{1,9}0|\bufw\s{1,9}disable|\bcsrutil\s{1,9}disable|set-mppreference\b"
            r"|\bdocker\b[^\n]{0,200}(?:--privileged|\s-v\s{0,9}/:|docker\.sock|--pid[= ]host)|\bnsenter\b",
            re.IGNORECASE,
        ),
    ),
    (
        "quarantine-removed",
        ("xattr", "spctl"),
        late(rf"xattr\b{_REST}quarantine|spctl\s{{1,9}}--master-disable", re.IGNORECASE),
    ),
)
_HOST = late(
    r"(?:[^\s/@]{1,80}@)?(\[[0-9a-f:.]{2,45}\]|\d{1,3}(?:\.\d{1,3}){3}|\d{8,10}|0x[0-9a-f]{8})(?=[:/\s\"'`)>]|$)",
    re.IGNORECASE,
)
_ORDERS = late(r"https?://\S{1,200}[^\n]{0,60}\b(?:[Ff]ollow|[Oo]bey|[Ee]xecute)\b")
_FETCHED = late(r"\b(?:fetch|download|pull|load|check|curl|wget)\b", re.IGNORECASE)
# Letters of other alphabets that look like those of ours, beside one of ours.
_TWINS = (
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456\u0458\u0455\u04bb\u0501\u0410\u0412\u0415\u041a"
    "\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0405\u0408\u03bf\u0391\u0392\u0395\u0396\u0397"
    "\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a7"
)
_TWIN_LETTERS = frozenset(_TWINS)
_LOOK_ALIKE = late(rf"[A-Za-z][{_TWINS}]|[{_TWINS}][A-Za-z]")
_RUN = late(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{_BLOB},}}")
_ASCII = bytes(range(128))
# Joiners and selectors that belong to emoji; after an ASCII character they belong to nothing.
_EMOJI_JOINTS = frozenset("\u200d\ufe0e\ufe0f")


class Finding(Struct, frozen=True):
    """One suspicious place: which rule, which line, and what stands there."""

    rule: str
    line: int
    excerpt: str


def scan(text: str) -> tuple[Finding, ...]:
    """Return the findings in a text in the order of its lines, at most twenty."""
    lowered = text.lower()
    found: list[Finding] = []

    def add(rule: str, matches: Iterable[re.Match[str]]) -> None:
        found.extend(_at(rule, text, match.start()) for match in islice(matches, MAX_FINDINGS))

    for rule, hints, pattern in _RULES:
        # Searching for plain words first makes a clean text cheap: this runs on every skill that is loaded.
        for hint in hints:
            if hint in lowered if isinstance(hint, str) else hint.search(lowered):
                add(rule, pattern.finditer(text))
                break
    add("raw-address", _public_addresses(text))
    if "://" in lowered and any(map(lowered.__contains__, ("follow", "execute", "obey"))):
        add("orders-from-elsewhere", (each for each in _ORDERS.finditer(text) if _fetched(text, each.start())))
    if _has_long_run(text):
        add("encoded-blob", (match for match in _RUN.finditer(text) if _is_encoded(match[0])))
    if not text.isascii():
        others = _beyond_ascii(text)
        if not _TWIN_LETTERS.isdisjoint(others):
            add("look-alike-letters", _LOOK_ALIKE.finditer(text))
        if INVISIBLE.search(others):
            found += islice(_invisible(text), MAX_FINDINGS)
    return tuple(sorted(found, key=lambda each: (each.line, each.rule))[:MAX_FINDINGS])


def _at(rule: str, text: str, position: int) -> Finding:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    return Finding(rule, text.count("\n", 0, position) + 1, visible(line, 120))


def _public_addresses(text: str) -> Iterator[re.Match[str]]:
    at = text.find("://")
    while at >= 0:
        match = _HOST.match(text, at + 3)
        if match and _is_public(match[1]):
            yield match
        at = text.find("://", at + 3)


def _fetched(text: str, address: int) -> bool:
    """Say whether the words before an address want it to be fetched."""
    return _FETCHED.search(text, max(text.rfind("\n", 0, address) + 1, address - 60), address) is not None


def _is_public(host: str) -> bool:
    """Say whether an address is somewhere else; the cloud's metadata address counts, because only theft asks it."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return True
    if address.is_link_local:
        return True
    return not (address.is_private or address.is_loopback or address.is_unspecified or address.is_reserved)


def _has_long_run(text: str) -> bool:
    """Say whether any run without blanks is long enough to matter; looks at every 80th character, not at all of them."""
    step = _BLOB // 2
    for at in range(0, len(text) - step, step):
        piece = text[at : at + step]
        if " " not in piece and "\n" not in piece:
            return True
    return False


def _is_encoded(run: str) -> bool:
    kinds = (str.isupper, str.islower, str.isdigit)
    return all(any(map(kind, run)) for kind in kinds)


def _beyond_ascii(text: str) -> str:
    """Return the other characters alone: a few, which makes a first look at a long text cheap."""
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")


def _invisible(text: str) -> Iterator[Finding]:
    """Yield one finding for each line that hides something."""
    resume = 0
    for match in INVISIBLE.finditer(text):
        at, char = match.start(), match[0]
        joint = char in _EMOJI_JOINTS and at > 0 and not text[at - 1].isascii()
        if at < resume or joint or (char == "\ufeff" and at == 0):
            continue
        end = text.find("\n", at)
        resume = end if end >= 0 else len(text)
        place = _at("invisible-text", text, at)
        yield Finding(place.rule, place.line, f"U+{ord(char):04X} in: {place.excerpt}")
