"""What the line editor of a chat asks for: completions, and the lines of earlier chats."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from homarus.cli.chat_input import ChatHistory, Words, suggest


class Completions(Completer):
    """The pure suggestions, as the line editor wants them."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        for found in suggest(document.text_before_cursor, self._words):
            yield Completion(found.text, start_position=-found.length, display_meta=found.note)


class Remembered(History):
    """The lines of earlier chats, as the line editor wants them."""

    def __init__(self, lines: ChatHistory) -> None:
        super().__init__()
        self._lines = lines

    def load_history_strings(self) -> Iterable[str]:
        return self._lines.load()[::-1]

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield what is kept, newest first; the file is small, so nothing is done in another thread."""
        if not self._loaded:
            self._loaded_strings = list(self.load_history_strings())
            self._loaded = True
        for line in self._loaded_strings:
            yield line

    def store_string(self, string: str) -> None:
        self._lines.add(string)
