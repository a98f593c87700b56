"""What a model says is shown as text: it moves no cursor, sets no title and rings no bell."""

from __future__ import annotations

import io

from homarus.cli.agent import TextStream
from homarus.core.events import MessageEnded, TextDelta
from homarus.core.messages import Assistant, Text


def test_a_streamed_reply_holds_no_control_characters() -> None:
    out = io.StringIO()
    stream = TextStream(out, None, None)
    for piece in ("a\x1b[31mred\x07 ", "b\x1b]0;title\x07\n", "\ttabs stay"):
        stream.take(TextDelta(piece))
    stream.take(MessageEnded(Assistant((Text("a\x1b[31mred\x07 b\x1b]0;title\x07\n\ttabs stay"),))))
    assert out.getvalue() == "a[31mred b]0;title\n\ttabs stay\n"
