"""Calls, results and template tokens that a server should have taken out of a model's text, in every family's notation.

Only what is surely one is hidden: a tag that is merely named, or a call that stands as an example in a sentence, is prose.
"""

from __future__ import annotations

import re

from homarus.core.patterns import late

CALLS = ("tool_call", "tool_calls", "function_call", "function_calls")
RESULTS = ("tool_result", "tool_results")
RESPONSES = ("function_response", "tool_response")

QUOTED = r"\"(?:[^\"\\]|\\.){0,400}\"|'(?:[^'\\]|\\.){0,400}'"
_STRING = r"\"(?:[^\"\\\n]|\\.)*\"|(?<=[{\[,:\s])'(?:[^'\\\n]|\\.)*'(?=\s*[,:}\]])"
_OPEN_STRING = r"\"(?:[^\"\\\n]|\\.)*\Z|(?<=[{\[,:\s])'(?:[^'\\\n]|\\.)*'?\s*\Z"
_CODE = r"(?s:```.*?```)|`[^`\n]+`|(?P<open>(?s:```.*\Z)|`{1,2}[^`\n]*\Z)"
# GLM writes a call as its name and pairs of keys and values.
_ARG_KEY = late(r"[\w.-]{1,64}\s{0,4}<arg_key(?:\s[^<]{0,80})?>\s{0,4}[\w.-]{1,80}\s{0,4}</arg_key", re.IGNORECASE)
_ARG_KEY_BEGUN = late(r"[\w.-]{1,64}\s{0,4}(?:<[^<>]{0,100}(?:>[^<>]{0,100}(?:</?[^<>]{0,20})?)?)?\Z")
_ARG_KEY_CUT = late(r"[\w.-]{1,64}\s{0,4}<arg[\w<>/\s.-]*\Z", re.IGNORECASE)

# Tokens of chat templates. What stands between two of these goes with them; the others go alone.
_BAR = "[|｜]"
_PAIRS = {
    "tool_calls_section_begin": "tool_calls_section_end",
    "tool_call_begin": "tool_call_end",
    "tool▁calls▁begin": "tool▁calls▁end",
    "tool▁call▁begin": "tool▁call▁end",
    "tool▁outputs▁begin": "tool▁outputs▁end",
    "begin_of_thought": "end_of_thought",
    "start_thinking": "end_thinking",
    "start_action": "end_action",
    "tool_call": "/tool_call",
    "tool_response": "/tool_response",
    "python_tag": "eom_id",
}
_TOKEN = late(rf"<{_BAR}([\w▁.:/-]{{1,60}}){_BAR}>")
_TOKEN_BEGUN = late(rf"</?{_BAR}{{0,2}}[^<>\n`]{{0,80}}\Z")
_ROLE = late(r"(?:system|developer|user|assistant|model|tool)(?:\n|\b)")
_ROLE_TOKENS = {"im_start", "start_header_id", "start"}
_DSML = late(rf"<(/?){_BAR}{{1,2}}\s?DSML\s?{_BAR}{{1,2}}\s?(\w+)[^<>]{{0,300}}>")
_HARMONY_END = late(r"<\|(?:end|call|return)\|>|(?=<\|(?:start|channel)\|>)")
_GEMMA = late(r"<\|(channel|tool_call|tool_response|tool|turn)>|<(?:channel|tool_call|tool_response|tool|turn)\|>")
_MINIMAX = "]<]minimax[>["

BRACKETS = ("[TOOL_CALL]", "[TOOL_RESULT]", "[TOOL_REQUEST]", "[TOOL_CALLS]")
RETOLD = ("[Tool Call:", "[Tool Result for ID", "[Historical context:")
_NAMED_BLOCK = late(r"\[([A-Za-z][\w.-]{1,80})\][ \t]*\n\s*\{")
_NAMED_BEGUN = late(r"\[[\w.-]{0,81}(?:\][ \t]*(?:\n\s*)?)?\Z")

Found = tuple[int, str]  # where the scan goes on, and what is shown of what it passed
WAIT: Found = (-1, "")  # what is still to come decides


def closing_tag(name: str) -> str:
    """Return the pattern of a closing tag, with or without a prefix."""
    return rf"<\s?/\s?(?:\w{{1,12}}:)?{name}\s{{0,3}}>"


class CallReader:
    """Finds calls at one place of a text. Its methods return what to hide, `WAIT`, or nothing if it is ordinary text."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._ended = False  # nothing comes after the text
        self._after_call = False  # nothing visible since the last call
        self._minimax = False
        self.visible = ""

    def _after_blanks(self, start: int) -> int:
        while start < len(self._text) and self._text[start].isspace():
            start += 1
        return start

    def _hide_to(self, closing: str, start: int, *, json: bool = False, call: bool = True) -> Found:
        """Hide to the end of what `closing` matches, or everything. In JSON an end inside a string is none."""
        strings = rf"(?:{_STRING})|(?P<open>{_OPEN_STRING})|" if json else ""
        end = None
        for match in re.compile(rf"{strings}(?P<end>{closing})", re.IGNORECASE).finditer(self._text, start):
            if match["end"] is not None:
                end = match.end()
                break
            if not self._ended and match["open"] is not None:
                return WAIT
        if end is None and not self._ended:
            return WAIT
        if end is None and json and (plain := re.compile(closing, re.IGNORECASE).search(self._text, start)):
            end = plain.end()
        self._after_call = self._after_call or call
        return (len(self._text) if end is None else end), ""

    def _closed(self, name: str, start: int) -> Found | None:
        """Hide a block that has an end; without one it is shown."""
        closed = re.compile(closing_tag(name), re.IGNORECASE).search(self._text, start)
        if not closed:
            return None if self._ended else WAIT
        self._after_call = True
        return closed.end(), ""

    def _outside_code(self, closing: str, start: int) -> int:
        """Return where a closing mark ends that is not in code; 0 if there is none yet."""
        for match in re.compile(rf"{_CODE}|(?P<end>{closing})").finditer(self._text, start):
            if match["end"] or (match["open"] and not self._ended):
                return match.end() if match["end"] else 0
        return 0

    def _json(self, start: int) -> Found:
        """Hide one JSON value; one that never ends hides the rest."""
        depth = 0
        for match in re.compile(r"\"(?:[^\"\\]|\\.)*(?:\"|\Z)|[{\[]|[}\]]").finditer(self._text, start):
            depth += (match[0] in "{[") - (match[0] in "}]")
            if depth == 0:
                return match.end(), ""
        return (len(self._text), "") if self._ended else WAIT

    def _leads(self) -> bool:
        """Say whether the tag begins a line or follows a finished sentence, as calls do and mentions don't."""
        line = self._text[self._text.rfind("\n", 0, self._at) + 1 : self._at].rstrip()
        return not line or line[-1] in ".!?:;…>*" or self._after_call

    def _call(self, name: str, start: int, *, foreign: bool) -> Found | None:
        """Hide a call or a result if there is one behind its opening tag; a tag that is only named is prose."""
        text = self._text
        payload = self._after_blanks(start)
        leads = foreign or self._leads()
        if name in RESPONSES:
            if self._after_call or foreign:
                return self._hide_to(closing_tag(name), start)
            if payload == len(text) and not self._ended:
                return WAIT
            line = self._text[self._text.rfind("\n", 0, self._at) + 1 : self._at]
            return self._hide_to(closing_tag(name), start) if not line.strip() and "\n" in text[start:payload] else None
        if payload == len(text):
            if not self._ended:
                return WAIT
            return (payload, "") if name in CALLS and "\n" in self._text[self._at - 1 : self._at] else None
        rest = text[payload : payload + 200]
        if name in CALLS + RESULTS and rest[0] in "{[":
            ends = closing_tag(f"(?:{name}|tool_call)") if name in RESULTS else closing_tag(name)
            return self._hide_to(ends, payload, json=True)
        if name in RESULTS:
            # A result is any text; only a tag with a blank behind it, and no end, is one that a sentence names.
            closed = re.compile(closing_tag(f"(?:{name}|tool_call)"), re.IGNORECASE).search(text, payload)
            if not closed and not self._ended:
                return WAIT
            return (
                self._hide_to(closing_tag(f"(?:{name}|tool_call)"), payload)
                if closed or payload == start or leads
                else None
            )
        if rest[0] == "<" and not self._ended and re.fullmatch(r"<[^<>]{0,100}", rest):
            return WAIT
        if name in CALLS:
            return self._tagged_call(name, payload, rest, leads=leads)
        if name == "function":
            return self._closed(name, start) if leads and rest.startswith("<parameter") else None
        return self._invoke(start, foreign=foreign) if name == "invoke" else None

    def _tagged_call(self, name: str, payload: int, rest: str, *, leads: bool) -> Found | None:
        if _ARG_KEY.match(rest) or re.match(r"<function[=\s]", rest):
            return self._hide_to(closing_tag(name), payload)
        if re.match(r"<(?:\w+:)?(?:invoke|tool_call|function_call)\b", rest):
            if leads:
                return self._hide_to(closing_tag(name), payload)
            return self._before_response(name, payload)
        if not _ARG_KEY_BEGUN.match(rest):
            return None
        if not self._ended:
            return WAIT
        return self._hide_to(closing_tag(name), payload) if leads and _ARG_KEY_CUT.match(rest) else None

    def _before_response(self, name: str, start: int) -> Found | None:
        """In the middle of a sentence a call is an example, unless its result follows at once."""
        closed = re.compile(closing_tag(name) + r"\s*", re.IGNORECASE).search(self._text, start)
        if not closed:
            return None if self._ended else WAIT
        rest = self._text[closed.end() : closed.end() + 20]
        if not self._ended and "<function_response>".startswith(rest):
            return WAIT
        if not rest.startswith("<function_response"):
            return None
        self._after_call = True
        return closed.end(), ""

    def _invoke(self, start: int, *, foreign: bool) -> Found | None:
        """Hide a bare invocation where it is one: MiniMax's, or a whole message of nothing else."""
        closed = re.compile(closing_tag("invoke") + r"\s*", re.IGNORECASE).search(self._text, start)
        if not closed:
            return None if self._ended else WAIT
        rest = self._text[closed.end() : closed.end() + 24].lower()
        ends = ("</minimax:tool_call>", "<minimax:tool_call>", "<invoke")
        if not self._ended and any(end.startswith(rest) for end in ends):
            return WAIT
        alone = not self.visible.strip() and "<parameter" in self._text[start : closed.end()]
        if foreign or self._minimax or rest.startswith(ends[:2]) or (alone and (not rest or rest.startswith(ends))):
            return closed.start() + len(closed[0].rstrip()), ""
        return None

    def _token(self) -> Found | None:
        text, at = self._text, self._at
        if dsml := _DSML.match(text, at):
            ends = rf"</{_BAR}{{1,2}}\s?DSML\s?{_BAR}{{1,2}}\s?{dsml[2]}\s*>"
            return (dsml.end(), "") if dsml[1] else self._hide_to(ends, dsml.end())
        if token := _TOKEN.match(text, at):
            name = token[1].lower()
            if name in _PAIRS:
                return self._hide_to(rf"<{_BAR}{_PAIRS[name]}{_BAR}>", token.end())
            if name in _ROLE_TOKENS:
                return self._role(token.end())
            if name == "channel":
                return self._channel(token.end())
            return token.end(), ""
        if gemma := _GEMMA.match(text, at):
            if gemma[1] in {"channel", "tool_call", "tool_response"}:
                return self._hide_to(rf"<{gemma[1]}\|>", gemma.end())
            return self._role(gemma.end()) if gemma[1] == "turn" else (gemma.end(), "")
        barred = text[at + 1 : at + 2] in {"|", "｜"} or text[at + 1 : at + 3] in {"/|", "/｜"}
        return WAIT if barred and not self._ended and _TOKEN_BEGUN.match(text, at) else None

    def _role(self, start: int) -> Found:
        """Pass a token that opens a turn, and the role after it."""
        text = self._text
        if not self._ended and len(text) < start + 12:
            return WAIT
        role = _ROLE.match(text, start)
        return (role.end() if role else start), ""

    def _channel(self, start: int) -> Found:
        """Harmony names the channel of what follows; only the last one is for the reader."""
        text = self._text
        message = text.find("<|message|>", start)
        if message < 0 and not self._ended:
            return WAIT
        if text[start:].lstrip().startswith("final"):
            return (message + len("<|message|>") if message >= 0 else len(text)), ""
        return self._hide_to(_HARMONY_END.pattern, start)

    def _encoded_call(self) -> Found | None:
        text, at = self._text, self._at
        opening = f"{_MINIMAX}<tool_call>"
        if not text.startswith(opening, at):
            return WAIT if not self._ended and opening.startswith(text[at:]) else None
        end = self._outside_code(r"\]?<\]minimax\[>\[</tool_call>", at + len(opening))
        return (end, "") if end else None if self._ended else WAIT

    def _bracket_call(self, head: str) -> Found | None:
        text, start = self._text, self._at + len(head)
        payload = self._after_blanks(start)
        if payload == len(text):
            return None if self._ended else WAIT
        if head == "[TOOL_CALLS]":
            call = re.compile(r"[\w.-]{1,64}(?:\[[A-Z_]{1,10}\][\w-]{0,40})*\s{0,4}").match(text, payload)
            payload = call.end() if call else payload
            if payload == len(text) and not self._ended:
                return WAIT
            return self._json(payload) if text[payload : payload + 1] in {"{", "["} else None
        if text[payload] not in "{[":
            return None
        name = head[1:-1]
        end = self._outside_code(rf"\[(?:/{name}|END_{name})\]", payload)
        if not end and not self._ended:
            return WAIT
        return (end or len(text)), ""

    def _named_call(self) -> Found | None:
        """Hide a tool's name in brackets, its arguments and their end, each on lines of their own."""
        text, at = self._text, self._at
        if not (named := _NAMED_BLOCK.match(text, at)):
            return WAIT if not self._ended and _NAMED_BEGUN.match(text, at) else None
        ends = re.compile(rf"\}}\s*\n\[(?:END_TOOL_REQUEST|/{re.escape(named[1])})\][ \t]*(?:\n|\Z)")
        if (end := ends.search(text, named.end())) and (self._ended or end[0].endswith("\n")):
            return end.end(), ""
        return None if self._ended else WAIT

    def _retold(self, head: str) -> Found | None:
        """Hide a call or a result of an earlier model that a history told in words."""
        text, at = self._text, self._at
        if head == "[Tool Call:":
            named = re.compile(r"\[[^\]\n]{0,200}\]\s*(?:Arguments:\s*)?").match(text, at)
            if not named:
                return None if self._ended else WAIT
            if not self._ended and (named.end() == len(text) or "Arguments:".startswith(text[named.end() :])):
                return WAIT
            end = self._json(named.end())[0] if text[named.end() : named.end() + 1] in {"{", "["} else named.end()
        elif head == "[Historical context:":
            closed = re.compile(r"\][ \t]*(?:\n|\Z)").search(text, at)
            end = closed.start() + 1 if closed and (self._ended or closed[0].endswith("\n")) else -1
        else:
            following = re.compile(r"\n(?=\[(?:Tool |Historical ))").search(text, at)
            end = following.start() if following else len(text) if self._ended else -1
        if end < 0:
            return (len(text), "") if self._ended else WAIT
        if not self._ended and end == len(text):
            return WAIT
        return (end + 1 if text[end : end + 1] == "\n" else end), ""
