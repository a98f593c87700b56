"""Choose a session from a list: arrows and typing on a terminal, the newest first."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.styles import Style

from homarus.cli.chat_view import without_files
from homarus.cli.output import age, width
from homarus.core.errors import HomarusError
from homarus.core.messages import Message, User
from homarus.core.text import single_line

if TYPE_CHECKING:
    from homarus.runtime.library import Agent

MAX_SESSIONS = 50
MAX_READ = 100  # messages among which the newest words of a person are looked for
ROWS = 10
FEWEST = 2  # letters that are looked for in what was said
PAUSE = 0.1  # seconds in which nothing more is typed


class Choice(Struct, frozen=True):
    """One conversation as the list shows it: when it was used, what it is called, what was said last."""

    key: str
    name: str
    when: str
    said: str
    is_away: bool = False  # ended with /new or deleted; `key` is then the archive's

    def fits(self, wanted: str) -> bool:
        text = f"{self.name} {self.said}".casefold()
        return all(word in text for word in wanted.casefold().split())


class PutAway(Protocol):
    """The conversations of this home as its files have them: those that were ended, and what was said in each."""

    def choices(self, agent: str, now: float) -> list[Choice]:
        """Return an agent's conversations that were ended."""
        ...

    def holding(self, words: str, agents: Sequence[str], now: float) -> list[Choice]:
        """Return the conversations, ended or not, in which these words were said, each with what was said. May take a while."""
        ...

    def revive(self, choice: Choice) -> str:
        """Make a session of what was put away and return its key."""
        ...


async def pick(
    agent: Agent, away: PutAway | None, *, color: bool, here: bool = False, ready: Callable[[], None] = lambda: None
) -> str | None:
    """Let the person choose: the session's key; nothing where they thought better of it, None where there is none.

    `ready` is called when everything is read and the list is about to be shown.
    """
    now = time.time()
    choices = await choices_of(agent, now, here=here)
    choices += away.choices(agent.key.agent_id, now) if away else []
    if not choices:
        return None
    ready()

    def look(words: str) -> list[Choice]:
        found = away.holding(words, [agent.key.agent_id], now) if away else []
        return [choice for choice in found if not (here and choice.key == str(agent.key))]

    chosen = await Picker(choices, color=color, look=look).run()
    if chosen is None:
        return ""
    return away.revive(chosen) if away and chosen.is_away else chosen.key


async def choices_of(agent: Agent, now: float, *, here: bool = False) -> list[Choice]:
    """Return the sessions that a person can go on with, the newest first; with `here` not the one they are in."""
    found = []
    for info in list(await agent.client.sessions(agent.key.agent_id))[:MAX_SESSIONS]:
        try:
            messages = await agent.client.history(info.key, MAX_READ)
        except HomarusError:
            continue  # a key that nobody can read is not one to talk in
        if (here and info.key == agent.key) or not (messages or info.title):
            continue
        when = age(now - info.entry.updated_at / 1000) if info.entry.updated_at else ""
        name = info.title or str(info.key).removeprefix(f"agent:{agent.key.agent_id}:")
        found.append(Choice(info.name, name, when, newest_words(messages)))
    return found


def newest_words(messages: Sequence[Message]) -> str:
    """Return what the person said last, as it was typed."""
    said = [each for each in messages if isinstance(each, User) and not each.provenance]
    return without_files(said[-1].text) if said else ""


class Picker:
    """The list on the terminal. `run` returns what was chosen; None where somebody thought better of it.

    What is typed is looked for in the lines at once, and by `look`, in a thread, in all that was ever said.
    """

    def __init__(
        self, choices: Sequence[Choice], *, color: bool, look: Callable[[str], list[Choice]] = lambda _words: []
    ) -> None:
        self._choices = choices
        self._look = look
        self._found: list[Choice] = []
        self._looking: asyncio.Task[None] | None = None
        self._wanted = ""
        self._at = 0
        style = {"chosen": "bold reverse", "faint": "#888888"} if color else {"chosen": "reverse"}
        self.app: Application[Choice | None] = Application(
            layout=Layout(Window(FormattedTextControl(self._text), always_hide_cursor=True)),
            key_bindings=self._keys(),
            style=Style.from_dict(style),
            erase_when_done=True,
        )
        self.app.ttimeoutlen = 0.05

    @property
    def fitting(self) -> list[Choice]:
        shown = [choice for choice in self._choices if choice.fits(self._wanted)]
        keys = {choice.key for choice in shown}
        return shown + [choice for choice in self._found if choice.key not in keys]

    async def run(self) -> Choice | None:
        return await self.app.run_async()

    def _text(self) -> StyleAndTextTuples:
        found, columns = self.fitting, self.app.output.get_size().columns
        self._at = max(0, min(self._at, len(found) - 1))
        first = max(0, min(self._at - ROWS // 2, len(found) - ROWS))
        parts: StyleAndTextTuples = [("bold", "Go on with which session?"), ("", f" {self._wanted}\n")]
        for number, choice in enumerate(found[first : first + ROWS], first):
            name = single_line(choice.name, 24)
            start = f"{choice.when:>10}  {name}{' ' * (24 - width(name))}  "
            line = start + single_line(choice.said, max(10, columns - width(start) - 2))
            parts.append(("class:chosen" if number == self._at else "", f" {line}\n"))
        if not found:
            parts.append(("", " looking\n" if self._looking else " nothing fits\n"))
        parts.append(
            ("class:faint", f" {len(found)} of {max(len(found), len(self._choices))} · ↑↓ · type to find · Enter · Esc")
        )
        return parts

    def _want(self, words: str) -> None:
        self._wanted, self._at, self._found = words, 0, []
        if self._looking is None and len(words.strip()) >= FEWEST:
            self._looking = self.app.create_background_task(self._find())

    async def _find(self) -> None:
        """Look for what is typed, and again for what was typed meanwhile: one search at a time."""
        words, found = "", list[Choice]()
        while words != self._wanted:
            words, found = self._wanted, []
            await asyncio.sleep(PAUSE)
            if len(words.strip()) >= FEWEST:
                # Without what was said the names and the last words are still there to choose from.
                with suppress(HomarusError, OSError, sqlite3.Error):
                    found = await asyncio.to_thread(self._look, words)
        self._found, self._looking = found, None
        self.app.invalidate()

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("up")
        @keys.add("c-p")
        def _up(_event: KeyPressEvent) -> None:
            self._at -= 1

        @keys.add("down")
        @keys.add("c-n")
        def _down(_event: KeyPressEvent) -> None:
            self._at += 1

        @keys.add("enter")
        def _choose(event: KeyPressEvent) -> None:
            found = self.fitting
            if found or not self._looking:
                event.app.exit(result=found[self._at] if found else None)

        @keys.add("escape", eager=True)
        @keys.add("c-c")
        @keys.add("c-d")
        def _leave(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        @keys.add("backspace")
        def _shorter(_event: KeyPressEvent) -> None:
            self._want(self._wanted[:-1])

        @keys.add(Keys.Any)
        def _typed(event: KeyPressEvent) -> None:
            if event.data.isprintable():
                self._want(self._wanted + event.data)

        return keys
