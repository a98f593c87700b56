"""Files on their way out. Each is checked and copied before it is promised: what is sent later is what was checked."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from pathlib import Path
from typing import BinaryIO

from homarus.agent.home import Home
from homarus.channels.media import open_to_send
from homarus.core.errors import DeliveryError, DeliveryFailure, Denied, HomarusError
from homarus.core.messages import Outbound, Trust
from homarus.core.text import single_line, slug
from homarus.storage.atomic import ensure_dir
from homarus.storage.volume import changed
from homarus.tools.protected import is_unseen

MAX_BYTES = 100_000_000
KEPT_SECONDS = 3 * 86_400
_BLOCK = 1 << 20


class Outgoing:
    """The folder of copies. What nobody needs any more is swept away after some days."""

    def __init__(self, folder: Path, home: Home) -> None:
        self._folder = folder
        self._home = home

    def attach(self, agent_id: str, path: str, readers: Trust) -> Path:
        """Return a copy of a file that an agent wants to send: one of its workspace, or one that it was sent."""
        workspace = self._home.workspace(agent_id)
        roots = (workspace, self._home.config.paths.state_dir / "media")
        opened = open_to_send(str(Path(path.strip().removeprefix("file://")).expanduser()), roots)
        with os.fdopen(opened.fd, "rb") as source:
            found = Path(opened.real)
            hidden = any(part.startswith(".git") for part in found.parts)
            if hidden or is_unseen(opened.real, (str(workspace.resolve()),), readers):
                raise Denied(f"{single_line(path, 120)} is not for others to read")
            return self._copy(source, found)

    def take(self, path: str) -> Path:
        """Return a copy of a file that the owner chose."""
        found = Path(path).expanduser().absolute()
        try:
            found = found.resolve(strict=True)
            fd = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, RuntimeError, ValueError) as problem:
            why = getattr(problem, "strerror", "") or "there is no such file"
            raise HomarusError(f"{single_line(str(found), 120)} cannot be read: {why}") from None
        with os.fdopen(fd, "rb") as source:
            return self._copy(source, found)

    def checked(self, _message: Outbound, media: str) -> str:
        """Return a file that may be sent. Raises DeliveryError for one that nobody checked."""
        if Path(media).parent != self._folder or not Path(media).is_file():
            raise DeliveryError(DeliveryFailure.REFUSED, "the file is not there any more")
        return media

    def sweep(self) -> None:
        """Remove copies that are older than any message that waits."""
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            if path.is_file() and time.time() - path.stat().st_mtime > KEPT_SECONDS:
                path.unlink(missing_ok=True)

    def _copy(self, source: BinaryIO, path: Path) -> Path:
        """Return a copy of an open file: of what was judged, whatever has its name by now."""
        ensure_dir(self._folder)
        info = os.fstat(source.fileno())
        if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_BYTES:
            raise HomarusError(f"{single_line(str(path), 120)} is no file, or larger than {MAX_BYTES:,} bytes")
        digest = hashlib.sha256()
        while block := source.read(_BLOCK):
            digest.update(block)
        target = self._folder / f"{digest.hexdigest()[:24]}-{slug(path.stem, 40)}{path.suffix[:12]}"
        source.seek(0)
        if not target.exists():
            draft = target.with_name(f".{target.name}.{os.getpid()}")
            with draft.open("wb") as copy:
                while block := source.read(_BLOCK):
                    copy.write(block)
                os.fsync(copy.fileno())
            draft.replace(target)
        os.utime(target)
        changed(target)
        return target
