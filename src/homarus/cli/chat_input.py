"""What is typed in a chat: completions, the files that it names, the lines of earlier chats. It knows no terminal."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from homarus.core.errors import StorageError
from homarus.core.patterns import late
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.jsonl import JsonlWriter, read_lines

# What a chat does itself when it is a whole line.
LEAVE, SESSIONS = "/exit", frozenset({"/sessions", "/resume"})
LEAVING = frozenset({LEAVE, "/quit", "/bye"})
MAX_FILES = 60
MAX_SCANNED = 2_000
_FILE_NAME = late(r"[^/]/[^/]|\.[A-Za-z]\w{0,4}\Z")
_REFERENCE = late(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|([^\s"]+))')
_TYPED = late(r'(?:^|\s)@(?:"([^"\n]*)|([^\s"]*))$')
_SNIFFED = 4_096
_BREAKS = late(r"\r+")
_CONTROLS = late(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Suggestion(Struct, frozen=True):
    """One completion: `text` replaces the last `length` characters; `note` says what it is."""

    text: str
    length: int
    note: str = ""


class Words(Struct, frozen=True):
    """What is known by name in one home. `arguments` are the words that may follow a command.

    Files are looked for in `folder`, where the chat was started, and then in the agent's `workspace`.
    """

    commands: Mapping[str, str] = {}
    arguments: Mapping[str, Sequence[str]] = {}
    skills: Mapping[str, str] = {}
    folder: str = "."
    home: str = ""
    workspace: str = ""

    @property
    def roots(self) -> tuple[Path, ...]:
        return tuple(Path(root) for root in (self.folder, self.workspace) if root)


def named(commands: Iterable[str]) -> tuple[str, ...]:
    """Return the names of commands, without their slash."""
    return tuple(sorted(command.removeprefix("/") for command in commands))


def may_complete(before: str) -> bool:
    """Say whether the text before the cursor is of a kind that `suggest` knows more of, without looking anything up."""
    last = before.rpartition(" ")[2].rpartition("\n")[2]
    is_command = before.startswith("/") and "\n" not in before and before.count(" ") <= 1
    return is_command or last[:1] in {"$", "/"} or last.startswith(("./", "../", "~/")) or bool(_TYPED.search(before))


def suggest(before: str, words: Words) -> list[Suggestion]:
    """Return the completions for the text before the cursor, best first."""
    if before.startswith("/") and " " not in before and "\n" not in before:
        return _named(before, {f"/{name}": note for name, note in words.commands.items()})
    if typed := _TYPED.search(before):
        text = typed[1] if typed[1] is not None else typed[2]
        length = len(text) + (typed[1] is not None)
        return [Suggestion(_quoted(found), length, note) for found, note in _referable(text, words)]
    word = before.rpartition(" ")[2].rpartition("\n")[2]
    command = before[1:].partition(" ")[0] if before.startswith("/") else ""
    if command in words.arguments and before.count(" ") == 1:
        return _named(word, dict.fromkeys(words.arguments[command], ""))
    if word.startswith("$"):
        return _named(word, {f"${name}": note for name, note in words.skills.items()})
    if word.startswith(("./", "../", "~/")) or (word.startswith("/") and len(before) > len(word)):
        return [Suggestion(found, len(word)) for found in _files(word, Path(words.folder), words.home)]
    return []


def _named(word: str, names: Mapping[str, str]) -> list[Suggestion]:
    folded = word.lower()
    starts = [name for name in names if name.lower().startswith(folded)]
    holds = [name for name in names if folded[1:] and folded[1:] in name.lower() and name not in starts]
    return [Suggestion(name, len(word), names[name]) for name in [*starts, *holds]]


def _referable(typed: str, words: Words) -> list[tuple[str, str]]:
    """Return what can follow an `@` with where it lies; a name in both places is the first one's."""
    found: dict[str, str] = {}
    for root in words.roots:
        note = "workspace" if words.workspace and root == Path(words.workspace) else ""
        for name in _files(typed, root, words.home):
            found.setdefault(name, note)
    return list(found.items())


def _quoted(path: str) -> str:
    # A folder stays open, so that one can type on in it.
    return path if " " not in path else f'"{path}' if path.endswith("/") else f'"{path}"'


def _files(typed: str, root: Path, home: str) -> Iterator[str]:
    """Yield paths that begin as typed, folders first; hidden ones only when asked for."""
    folder, slash, name = typed.rpartition("/")
    spelled = f"{folder}{slash}"
    place = Path(spelled.replace("~", home, 1) if spelled.startswith("~/") else spelled or ".")
    base = place if place.is_absolute() else root / place
    try:
        with os.scandir(base) as entries:
            found = [(not entry.is_dir(), entry.name) for entry, _ in zip(entries, range(MAX_SCANNED), strict=False)]
    except OSError:
        return
    fitting = [
        (plain, each)
        for plain, each in sorted(found)
        if each.lower().startswith(name.lower()) and (name.startswith(".") or not each.startswith("."))
    ]
    for plain, each in fitting[:MAX_FILES]:
        yield f"{spelled}{each}{'' if plain else '/'}"


def referenced(text: str, words: Words) -> tuple[Path, ...]:
    """Return the files and folders that `@path` names in a text, each once. A word that names none is only a word."""
    return tuple(dict.fromkeys(path for _, path in _references(text, words) if path))


def missing(text: str, words: Words) -> tuple[str, ...]:
    """Return what reads like the name of a file behind an `@`, and is none: whoever wrote it believes that it goes along."""
    return tuple(name for name, path in _references(text, words) if path is None and _FILE_NAME.search(name))


def _references(text: str, words: Words) -> Iterator[tuple[str, Path | None]]:
    for match in _REFERENCE.finditer(text):
        spelled = match[1] or match[2]
        plain = spelled.rstrip(".,;:!?)]}'")  # a sentence may end right after a name
        yield plain, _existing(spelled, words) or _existing(plain, words)


def _existing(name: str, words: Words) -> Path | None:
    if not name or "\x00" in name:
        return None
    own = Path(words.home, name[2:]) if name.startswith("~/") and words.home else Path(name)
    for path in (own,) if own.is_absolute() else tuple(root / own for root in words.roots):
        try:
            if path.exists():
                return path
        except OSError:  # a name that is too long is no name
            continue
    return None


def typeable(text: str) -> str:
    """Return text without control characters: nobody means to send one, whichever keys or paste brought it."""
    return _CONTROLS.sub("", text)


def _with_line_feeds(pasted: str) -> str:
    """Return pasted text with one line feed for each line break.

    Terminals make a CR of each LF, and some of the one in CR LF, too. That is what happened where breaks only come in pairs
    and empty lines are among them; pairs alone are paragraphs more often, whose empty lines must stay.
    """
    breaks = [len(found) for found in _BREAKS.findall(pasted)]
    if "\n" not in pasted and max(breaks, default=0) >= 4 and not any(count % 2 for count in breaks):
        return pasted.replace("\r\r", "\n")
    return pasted.replace("\r\n", "\n").replace("\r", "\n")


def dropped(pasted: str, words: Words) -> str:
    """Return pasted text as it goes into the line: paths of files, as terminals paste what is dropped on them, become `@` names."""
    text = typeable(_with_line_feeds(pasted))
    line = text.strip()
    if "\n" in line or not line.startswith(("/", "~/", "'", '"', "file:")):
        return text
    try:
        names = [unquote(urlsplit(word).path) if word.startswith("file:") else word for word in shlex.split(line)]
    except ValueError:
        return text
    if not names or any(not name.startswith(("/", "~/")) for name in names):
        return text
    paths = [_existing(name, words) for name in names]
    if not all(path is not None and _is_sendable(path) for path in paths):
        return text
    return " ".join(f'@"{path}"' if " " in str(path) else f"@{path}" for path in paths) + " "


def _is_sendable(path: Path) -> bool:
    """Say whether a file looks like a text or a picture; a program whose path is pasted is meant as words."""
    from homarus.cli.agent import picture

    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(_SNIFFED)
    except OSError:
        return False
    return bool(picture(head)) or b"\0" not in head


# Programs that give out the picture on the clipboard, under Wayland, X and macOS.
_CLIPBOARDS = (
    ("wl-paste", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
    ("pngpaste", "-"),
)
CLIPBOARD_SECONDS = 3.0
MAX_PASTED = 20


async def clipboard_picture() -> bytes:
    """Return the picture on the clipboard, or nothing where there is none or no program to ask."""
    from homarus.cli.agent import picture

    for line in _CLIPBOARDS:
        if not shutil.which(line[0]):
            continue
        process = await asyncio.create_subprocess_exec(
            *line, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            data, _ = await asyncio.wait_for(process.communicate(), CLIPBOARD_SECONDS)
        except TimeoutError:
            process.kill()
            continue
        if picture(data):
            return data
    return b""


def keep_picture(folder: Path, name: str, data: bytes) -> Path:
    """Put a pasted picture into a file, so that it can be named; only the newest ones stay."""
    ensure_dir(folder)
    for old in sorted(folder.glob("*.png"))[: -MAX_PASTED + 1]:
        old.unlink(missing_ok=True)
    path = folder / f"{name}.png"
    write_atomic(path, data)
    return path


MAX_LINES = 2_000
MAX_CHARS = 20_000


class ChatHistory:
    """The lines of earlier chats, oldest first. A line that begins with a space is not kept, as in a shell."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> list[str]:
        """Return what is kept; a file that has grown too long is cut on the way."""
        if not self.path.exists():
            return []
        try:
            values = [line.value for line in read_lines(self.path)]
        except OSError:
            return []
        lines = [value["text"] for value in values if isinstance(value, dict) and isinstance(value.get("text"), str)]
        if len(lines) > 2 * MAX_LINES:
            kept = lines[-MAX_LINES:]
            try:
                write_atomic(self.path, b"".join(msgspec.json.encode({"text": text}) + b"\n" for text in kept))
            except StorageError:
                return kept
        return lines[-MAX_LINES:]

    def add(self, text: str) -> None:
        """Keep one line; a disk that is full must not end a conversation."""
        if not text.strip() or text.startswith(" ") or len(text) > MAX_CHARS:
            return
        try:
            ensure_dir(self.path.parent)
            with JsonlWriter.open(self.path) as file:
                file.append({"text": text}, durable=False)
        except StorageError:
            return
