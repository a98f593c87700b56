"""What of a message goes out as one piece each: its words, its files, and what can be tapped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath

from msgspec.structs import replace

from homarus.core.errors import DeliveryError, DeliveryFailure
from homarus.core.messages import Outbound, Poll
from homarus.core.redact import redacted
from homarus.core.text import human_bytes, single_line
from homarus.delivery.format import render
from homarus.delivery.place import Button, Piece, Place

# Returns the file to send for what a message calls it. Raises DeliveryError where the agent may not send it.
FileOf = Callable[[Outbound, str], str]


def no_files(message: Outbound, media: str) -> str:
    raise DeliveryError(DeliveryFailure.REFUSED, "no file may be sent from here")


def pieces_of(message: Outbound, place: Place, file_of: FileOf) -> tuple[tuple[Piece, ...], str]:
    """Return the pieces of a message, and what of it cannot be shown: its words, then its files.

    The first file takes short words along. A file that cannot be sent is named: the words around it speak of it.
    """
    if (poll := message.poll) is not None and _takes(place, poll):
        return tuple(replace(piece, poll=poll) for piece in render(message.text, place)[:1]), ""
    text, files, problems = message.text, list[str](), list[str]()
    for media in message.media:
        try:
            files += _file(message, media, place, file_of)
        except DeliveryError as error:
            name = single_line(PurePath(media).name or media, 80)
            problems.append(f"{name} could not be sent: {one_line(error)}")
        if not place.media and "://" in media:
            text = f"{text}\n\n{media}"
    text = "\n\n".join([text, *(f"⚠️ {problem}" for problem in problems)]).strip()
    pieces = _with_buttons(_words_and_files(text, files, message, place), message, place)
    return tuple(pieces), "; ".join(problems)


def _takes(place: Place, poll: Poll) -> bool:
    return len(poll.options) <= place.polls and max(map(len, poll.options)) <= place.poll_chars


def _words_and_files(text: str, files: list[str], message: Outbound, place: Place) -> list[Piece]:
    if files and text and not message.as_voice:
        caption = render(text, replace(place, limit=min(place.caption, place.limit), lines=0))
        if len(caption) == 1:
            return [replace(caption[0], file=files[0]), *(Piece(file=file) for file in files[1:])]
    shown = [Piece(file=file, as_voice=message.as_voice and place.voice) for file in files]
    return [*(render(text, place) if text else ()), *shown]


def _file(message: Outbound, media: str, place: Place, file_of: FileOf) -> list[str]:
    """Return the file to send for a reference; none where the reference itself is shown."""
    if not place.media:
        if "://" in media:
            return []
        raise DeliveryError(DeliveryFailure.REFUSED, "this platform takes no files")
    file = file_of(message, media)
    try:
        size = Path(file).stat().st_size
    except OSError as error:
        raise DeliveryError(DeliveryFailure.REFUSED, "it cannot be read") from error
    if size > place.media_bytes:
        most = human_bytes(place.media_bytes)
        raise DeliveryError(DeliveryFailure.REFUSED, f"it has {human_bytes(size)}, and at most {most} may be sent")
    return [file]


def _with_buttons(pieces: list[Piece], message: Outbound, place: Place) -> list[Piece]:
    """Put what can be tapped below the last piece, in one row."""
    if not (message.buttons and place.buttons and pieces):
        return pieces
    return [*pieces[:-1], replace(pieces[-1], buttons=(tuple(Button(*each) for each in message.buttons),))]


def one_line(error: Exception) -> str:
    """Return what an error says, fit for a log and for people: one line, without secrets."""
    return single_line(redacted(str(error)), 300)
