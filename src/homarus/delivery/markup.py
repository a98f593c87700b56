"""Tells what a model wrote for a person from what it wrote for the program: reasoning, calls, template tokens, directives.

One scan serves a whole text and one that is still arriving. It decides about a piece of text only when nothing that may
still come can change the decision, so the result does not depend on how the text was cut. What stands in a code fence or
in inline code is shown as it is, and so is prose that only names a tag. Silent tokens are `sanitize`'s business.
"""

from __future__ import annotations

import re
from collections import Counter

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.patterns import late
from homarus.core.prompt import CONTEXT_BEGIN, CONTEXT_END
from homarus.delivery.calls import (
    BRACKETS,
    CALLS,
    QUOTED,
    RESPONSES,
    RESULTS,
    RETOLD,
    WAIT,
    CallReader,
    Found,
    closing_tag,
)

_REASONING = ("think", "thinking", "thought", "antthinking", "reasoning")
_MEMORIES = ("relevant-memories", "relevant_memories")
_TURNS = ("start_of_turn", "end_of_turn")
_NAMES = {*_REASONING, *CALLS, *RESULTS, *RESPONSES, *_MEMORIES, *_TURNS, "function", "invoke", "final"}

_SPECIAL = late("[`<\\[\\]◁]|(?<=\n)")
_FENCE = late(r" {0,3}(`{3,}|~{3,})(.*)")
_INVISIBLE = "\u200b-\u200f\u2060\ufeff\u00ad"
_HEAD = late(rf"<[ \t]{{0,4}}(/?)[ \t]{{0,4}}([\w:.{_INVISIBLE}-]{{0,60}})")
_ATTRIBUTE = rf"\s{{1,10}}[\w:-]{{1,60}}\s{{0,3}}=\s{{0,3}}(?:{QUOTED}|[^\s\"'<>{{\[]{{1,200}})"
_TAG_END = late(rf"(?:{_ATTRIBUTE}){{0,20}}\s{{0,10}}(/?)\s{{0,3}}>")
_TAG_LENGTH = 600
# A tag that was never finished, and its payload.
_UNFINISHED = late(rf"(?:\s{{1,10}}[\w-]{{1,60}}=(?:{QUOTED})){{0,20}}\s{{0,10}}[{{\[]")
_THINK_TAG = late(
    rf"<[ \t]{{0,4}}(/?)[ \t]{{0,4}}(?:\w{{1,12}}:)?(?:{'|'.join(_REASONING)})(?:{_ATTRIBUTE}){{0,20}}\s{{0,10}}(/?)\s{{0,3}}>",
    re.IGNORECASE,
)

_DIRECTIVE = late(r"\[\[\s*(reply_to_current|audio_as_voice|reply_to\s*:\s*([^\]\n]{1,200}?))\s*\]\]", re.IGNORECASE)
_DIRECTIVE_BEGUN = late(r"\[\[?\s*(?:[ra][\w:\s]{0,20}|reply_to\s*:[^\]\n]{0,210})?\]?\Z", re.IGNORECASE)
_DROPPED_LINE = late(
    r"[ \t]*(?:MEDIA:[ \t]*(\S.*?)|>?[ \t]*(?:analysis|commentary|assistant|user)[ \t]+to=functions\.\w.*"
    r"|⚠️? ?🛠️? .*\bfailed\b.*|🛠️? `?run .*)[ \t]*"
)
_LINE_HEADS = ("MEDIA:", "analysis to=", "commentary to=", "assistant to=", "user to=", "⚠️ 🛠️", "⚠ 🛠", "🛠️", "🛠")
_ECHOES = (
    (CONTEXT_BEGIN, re.escape(CONTEXT_END)),
    ("<<<EXTERNAL_UNTRUSTED_CONTENT", r"<<<END_EXTERNAL_UNTRUSTED_CONTENT[^>\n]*>>>"),
    ("<<<SUBAGENT_RESULT", r"<<<END_SUBAGENT_RESULT[^>\n]*>>>"),
)
_STRAY_END = "\0"


class Directives(Struct, frozen=True):
    """What a reply asked for besides being shown."""

    reply_to_current: bool = False
    reply_to: str = ""
    as_voice: bool = False
    media: tuple[str, ...] = ()


def scan(text: str) -> tuple[str, Directives]:
    scanner = Scanner(retracts=True)
    scanner.feed(text, ended=True)
    return scanner.visible, scanner.directives


class Scanner(CallReader):
    """Reads a model's text as it comes; `visible` is what is sure to be shown of it.

    It only grows, except that a `</think>` whose beginning was lost takes back what stands before it, if `retracts`. A
    stream cannot take back what it has shown: there the answer begins with a new paragraph.
    """

    def __init__(self, *, retracts: bool = False) -> None:
        super().__init__()
        self._retracts = retracts
        self._look_again = 0
        self._unclosed = False  # no reasoning ends in the rest of the text
        self._fence = ""
        self._loose = False  # the fence began in the middle of a line, so text may follow its end
        self._prose: Counter[str] = Counter()  # opening tags that were shown: their ends are shown too
        self._skip_blank = False
        self.directives = Directives()

    def feed(self, text: str, *, ended: bool = False) -> None:
        self._text += text
        self._ended = ended
        if len(self._text) < self._look_again and not ended:
            return
        while self._at < len(self._text):
            at, piece = self._step()
            if at < 0:
                # A long block is looked through again when it has grown by a part of its length, not with every word.
                self._look_again = len(self._text) + (len(self._text) - self._at) // 16
                break
            if piece == _STRAY_END:
                self.visible = "" if self._retracts or not self.visible.strip() else f"{self.visible.rstrip()}\n\n"
                piece = ""
            self._after_call = self._after_call and not piece.strip()
            self._at = at
            self.visible += piece

    def _step(self) -> Found:
        text, at = self._text, self._at
        starts_line = at == 0 or text[at - 1] == "\n"
        if self._fence:
            return self._fenced(starts_line)
        found = self._line() if starts_line else None
        if not found:
            match text[at]:
                case "`":
                    found = self._ticks()
                case "<":
                    found = self._angle(starts_line)
                case "[":
                    found = self._bracket(starts_line)
                case "]":
                    found = self._encoded_call()
                case "◁":
                    found = self._between("◁think▷", "◁/think▷")
        if found:
            return found
        stop = _SPECIAL.search(text, at + 1)
        end = stop.start() if stop else len(text)
        return end, text[at:end]

    def _rest_of_line(self) -> tuple[str, bool]:
        end = self._text.find("\n", self._at)
        return self._text[self._at : end if end >= 0 else None], end >= 0 or self._ended

    def _line(self) -> Found | None:
        line, whole = self._rest_of_line()
        end = min(self._at + len(line) + 1, len(self._text))
        skip, self._skip_blank = self._skip_blank, False
        if skip and not line.strip():
            self._skip_blank = True
            return (end, "") if whole else WAIT
        if (fence := _FENCE.match(line)) and not (fence[1][0] == "`" and "`" in fence[2]):
            if whole:
                self._fence, self._loose = fence[1], False
            return (end, self._text[self._at : end]) if whole else WAIT
        begun = line.lstrip(" \t>")[:20]
        if not any(head.startswith(begun) or begun.startswith(head) for head in _LINE_HEADS) and begun.strip("`~"):
            return None
        if not whole:
            self._skip_blank = skip
            return WAIT
        if not (dropped := _DROPPED_LINE.fullmatch(line)):
            return None
        if dropped[1]:
            media = dropped[1].strip("`\"'")
            self.directives = replace(self.directives, media=(*self.directives.media, media))
            self._skip_blank = not self.visible.strip() or self.visible.endswith("\n\n")
        return end, ""

    def _fenced(self, starts_line: bool) -> Found:
        line, whole = self._rest_of_line()
        end = min(self._at + len(line) + 1, len(self._text))
        if starts_line:
            mark = _FENCE.match(line)
            if not whole and (mark or not line.strip(" `~")):
                return WAIT
            if mark and mark[1].startswith(self._fence) and (self._loose or not mark[2].strip()):
                self._fence = ""
                end = self._at + mark.end(1)
        return end, self._text[self._at : end]

    def _ticks(self) -> Found:
        text, at = self._text, self._at
        run = re.compile("`+").match(text, at)
        assert run is not None
        line, whole = self._rest_of_line()
        size = len(run[0])
        for other in re.finditer("`+", line[size:]):
            end = run.end() + other.end()
            if len(other[0]) == size:
                return (end, text[at:end]) if end < len(text) or self._ended else WAIT
        if not whole:
            return WAIT
        if size >= 3 and at + len(line) < len(text) and re.fullmatch(r"[\w+.-]*\s*", line[size:]):
            self._fence, self._loose = run[0], True
            return at + len(line) + 1, f"{line}\n"
        return run.end(), run[0]

    def _echo(self) -> Found | None:
        """Hide what the program wrote around its own words and those of strangers, when a model repeats it."""
        text, at = self._text, self._at
        for opening, closing in _ECHOES:
            if text.startswith(opening, at):
                line, whole = self._rest_of_line()
                if not whole:
                    return WAIT
                return self._hide_to(closing, at + len(line)) if line.rstrip().endswith(">>>") else None
            if not self._ended and opening.startswith(text[at:]):
                return WAIT
        return None

    def _angle(self, starts_line: bool) -> Found | None:
        text, at = self._text, self._at
        if starts_line and (echo := self._echo()):
            return echo
        if (token := self._token()) is not None:
            return token
        head = _HEAD.match(text, at)
        assert head is not None
        if text[head.end() :] in {"", "|"}:
            return None if self._ended else WAIT
        space, _, name = re.sub(f"[{_INVISIBLE}]", "", head[2]).lower().rpartition(":")
        if name not in _NAMES:
            return None
        closing = bool(head[1])
        if not (end := _TAG_END.match(text, head.end(), at + _TAG_LENGTH)):
            if name in CALLS + RESULTS and not closing and _UNFINISHED.match(text, head.end()):
                return self._hide_to(closing_tag(name), head.end(), json=True)
            return WAIT if not self._ended and len(text) < at + _TAG_LENGTH and self._may_end(head.end()) else None
        if name in _REASONING:
            return self._reasoning(end.end(), closing=closing, single=bool(end[1]))
        if name == "final":
            return (end.end(), "") if ">" not in text[head.end() : end.end() - 1] else None
        if name in _TURNS:
            return self._role(end.end()) if name == "start_of_turn" else (end.end(), "")
        if name in _MEMORIES:
            return (end.end(), "") if closing or end[1] else self._hide_to(closing_tag(name), end.end(), call=False)
        if space == "minimax" and name == "tool_call":
            self._minimax = True
            return end.end(), ""
        if closing or end[1]:
            if self._prose[name] > 0:
                self._prose[name] -= closing
                return end.end(), text[at : end.end()]
            return end.end(), ""
        found = self._call(name, end.end(), foreign=bool(space))
        if found is None:
            self._prose[name] += 1
            return end.end(), text[at : end.end()]
        return found

    def _may_end(self, start: int) -> bool:
        """Say whether a tag that has no end yet may still get one: no other tag and no payload begins before."""
        rest = re.sub(QUOTED, "", self._text[start:])
        return not re.search(r"[<>]|^\s*[^\s\w/]", rest.partition('"')[0].partition("'")[0])

    def _reasoning(self, start: int, *, closing: bool, single: bool) -> Found:
        text = self._text
        if single and not closing:
            return start, ""
        if closing:
            after = self._after_blanks(start)
            if after == len(text):
                return (start, "") if self._ended else WAIT
            return after, _STRAY_END
        depth, last = 1, 0
        for tag in _THINK_TAG.finditer(text, start) if not self._unclosed else ():
            if tag[2] or text[tag.start() - 1] == text[tag.end() : tag.end() + 1] == "`":
                continue
            depth += -1 if tag[1] else 1
            last = tag.end() if tag[1] else last
            if depth == 0:
                # A tag in ticks does not count, so whether a tick follows must be known.
                return (last, "") if self._ended or last < len(text) or text[tag.start() - 1] != "`" else WAIT
        if not self._ended:
            return WAIT
        if last:
            return last, ""
        self._unclosed = True
        # All of a reply inside one block that never ends: it is all the person would get.
        return (len(text) if self.visible.strip() else start), ""

    def _between(self, opening: str, closing: str) -> Found | None:
        """Hide from one fixed word to another."""
        text, at = self._text, self._at
        if not text.startswith(opening, at):
            return WAIT if not self._ended and opening.startswith(text[at:]) else None
        return self._hide_to(re.escape(closing), at + len(opening))

    def _bracket(self, starts_line: bool) -> Found | None:
        text, at = self._text, self._at
        if found := _DIRECTIVE.match(text, at):
            return self._direct(found)
        if not self._ended and _DIRECTIVE_BEGUN.match(text, at):
            return WAIT
        rest = text[at : at + 40]
        for head in ("[THINK]", "[/THINK]", *BRACKETS, *RETOLD):
            if rest.startswith(head):
                match head:
                    case "[THINK]":
                        return self._hide_to(r"\[/THINK\]", at + len(head))
                    case "[/THINK]":
                        return self._reasoning(at + len(head), closing=True, single=False)
                return self._retold(head) if head in RETOLD else self._bracket_call(head)
            if not self._ended and head.startswith(rest):
                return WAIT
        return self._named_call() if starts_line else None

    def _direct(self, found: re.Match[str]) -> Found:
        """Note a directive. It leaves one blank where it stood between words, and nothing elsewhere."""
        text, word = self._text, found[1].lower()
        after = re.compile(r"[ \t]*").match(text, found.end())
        assert after is not None
        if after.end() == len(text) and not self._ended:
            return WAIT
        self.directives = replace(
            self.directives,
            reply_to_current=self.directives.reply_to_current or word == "reply_to_current",
            as_voice=self.directives.as_voice or word == "audio_as_voice",
            reply_to=found[2].strip() if found[2] else self.directives.reply_to,
        )
        before = self.visible[-1:]
        joins = before.strip() and after.end() < len(text) and text[after.end()] != "\n"
        return after.end(), " " if joins else ""
