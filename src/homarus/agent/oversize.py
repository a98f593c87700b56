"""A message that the model's window does not hold, whatever else is left out: refused before it is sent, and kept in short."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from homarus.context.budget import estimate, least_room, most_for
from homarus.core.errors import HomarusError
from homarus.core.messages import Text, User
from homarus.core.patterns import late
from homarus.core.text import estimate_tokens

if TYPE_CHECKING:
    from homarus.agent.prepare import Prepared
    from homarus.agent.turn import Turn

HEAD_CHARS = 400
# How clients name what goes along with the words of a message.
_FILE = late(r'<file name="([^"\n]*)">\n(.*?)\n</file>', re.DOTALL)


def too_large(turn: Turn, prepared: Prepared, fixed: int) -> HomarusError | None:
    """Return what to say of a message that cannot fit beside prompt and tools, which take `fixed` tokens."""
    window = prepared.window_tokens
    tokens = estimate(User((Text(turn.text), *turn.images)))
    # Where the prompt leaves no room for a conversation no part of a message helps, and that is what is said of it.
    if tokens + fixed <= most_for(window) or fixed + least_room(window) > window:
        return None
    what, size = "the message", tokens
    for match in _FILE.finditer(turn.text):
        if (part := estimate_tokens(match[2])) > tokens // 2:
            what, size = match[1], part
    return HomarusError(
        f"{what} is about {size:,} tokens, and the window of {prepared.chain.primary.key} has {window:,},"
        f" of which prompt and tools take {fixed:,}",
        cure="send a part of it, or name a file in the message so that it is read in pieces; a model with a larger window"
        " takes it whole (contextWindow says how large it is)",
    )


def in_short(text: str) -> str:
    """Return what the session keeps of such a message: in full it would fail every later turn as well."""
    left = estimate_tokens(text[HEAD_CHARS:])
    return f"{text[:HEAD_CHARS]}\n[… about {left:,} tokens more were not sent: they do not fit the model's window]"
