"""The chat-completion requests of one session: bytes that were joined for one are joined for the next. Pure."""

from __future__ import annotations

from homarus.core.messages import Message
from homarus.models.info import Endpoint, ModelInfo
from homarus.models.provider import ModelRequest
from homarus.models.providers.openai_wire import Fragment, Frame, encode_message, frame, join_messages, marked
from homarus.models.wire import Thread

MAX_PIECES = 24


class ChatThread(Thread[Fragment, Frame]):
    """Keeps the messages joined up to the last step: that part only grows."""

    def __init__(self, endpoint: Endpoint, info: ModelInfo) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._quirks = endpoint.quirks
        self._info = info
        # Servers that want roles to alternate may have neighbours merged across any cut.
        self._whole = self._quirks.bridge_after_tool or self._quirks.alternate_roles
        # The messages up to the last words of anybody, in a few pieces, and those from there on to the end; a comma leads.
        self._pieces: list[bytes] = []
        self._count = self._end = 0
        self._tail = b""

    def encode(self, message: Message) -> Fragment:
        """Return one message as it goes out."""
        return encode_message(message, self._quirks, self._info)

    def size_of(self, fragment: Fragment) -> int:
        """Return about how much memory a fragment holds."""
        return len(fragment.data) + len(fragment.later)

    def surround(self, request: ModelRequest) -> Frame:
        """Return what stands around the messages."""
        return frame(request, self._endpoint, self._info)

    def lay(self, around: Frame, same: int) -> list[bytes]:
        """Return a request of all fragments, the first `same` of which the request before had too."""
        self._grow(same)
        tail = self._join(self._count, self._end, mark=True) if around.marked else self._tail
        parts = [around.start, *self._pieces, tail, around.end]
        if not around.told:
            parts[1] = parts[1][1:]
        return parts

    def _grow(self, same: int) -> None:
        """Join what is new: the last step is the tail, and what is before it stands in the pieces."""
        fragments = self.fragments
        end = len(fragments)
        cut = end - 1
        while cut > 0 and (fragments[cut].role == "tool" or not fragments[cut].data):
            cut -= 1
        if same <= self._count or self._whole:
            # Also where only the message behind the pieces changed: a tool result there would belong to a batch in them.
            self._pieces, self._count = [], 0
        if cut > self._count and not self._whole:
            if len(self._pieces) == MAX_PIECES:
                # A long history is not copied for each step that it grows by, only for each of many.
                self._pieces = [b"".join(self._pieces)]
            # What was the last step for the request before is there already.
            more = self._tail if cut == self._end <= same else self._join(self._count, cut)
            if more:
                self._pieces.append(more)
            self._count = cut
        self._tail, self._end = self._join(self._count, end), end

    def _join(self, start: int, end: int, *, mark: bool = False) -> bytes:
        messages = join_messages(self.fragments[start:end], self._quirks)
        if mark and messages:
            messages[-1] = marked(messages[-1])
        return b"," + b",".join(messages) if messages else b""
