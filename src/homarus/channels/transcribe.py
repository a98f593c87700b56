"""From sound to words: `tools.media`. A program of the owner's, or a service that speaks like OpenAI's; nothing unless one is named.

What is heard is somebody's voice: it goes nowhere by itself, and only to what the configuration names.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from homarus.config.view import AgentConfig, Config
from homarus.core.errors import ConfigError, HomarusError
from homarus.core.messages import Media
from homarus.core.text import human_bytes, single_line
from homarus.models.access import Models
from homarus.models.ref import ModelRef
from homarus.net.errors import HttpError

MIN_BYTES = 1024  # less than this is a tap on the button
MAX_OUTPUT = 5_000_000
MAX_REPLY = 5_000_000
_NAMES = ("MediaPath", "AttachmentPath")


class MediaModel(Struct, frozen=True, rename="camel"):
    """One way to understand files: a program, or a model of a provider. What is empty is the capability's."""

    type: Literal["provider", "cli"] = "provider"
    capabilities: tuple[str, ...] = ()
    provider: str = ""
    model: str = ""
    base_url: str = ""
    headers: dict[str, str] = {}
    command: str = ""
    args: tuple[str, ...] = ()
    language: str = ""
    prompt: str = ""
    max_bytes: int | None = None
    max_chars: int | None = None
    timeout_seconds: float | None = None

    @property
    def name(self) -> str:
        return f"cli:{self.command}" if self.type == "cli" else f"{self.provider}/{self.model}"


class AudioSettings(Struct, frozen=True, rename="camel"):
    """`tools.media.audio`."""

    enabled: bool = True
    models: tuple[MediaModel, ...] = ()  # where an older file has them
    preferred_model: str = ""
    language: str = ""
    prompt: str = ""
    max_bytes: int = 20_000_000
    max_chars: int | None = None
    timeout_seconds: float = 60.0

    @classmethod
    def disabled(cls) -> AudioSettings:
        return cls(enabled=False)


class MediaSettings(Struct, frozen=True, rename="camel"):
    """`tools.media`."""

    models: tuple[MediaModel, ...] = ()
    audio: AudioSettings = AudioSettings()
    concurrency: int = 2

    @classmethod
    def disabled(cls) -> MediaSettings:
        return cls(audio=AudioSettings(enabled=False))


class Transcriber:
    """Asks the ways that are configured, one after another, until one has words."""

    def __init__(self, config: Config, models: Models, env: Mapping[str, str]) -> None:
        self._config = config
        self._models = models
        self._env = env
        self._free: asyncio.Semaphore | None = None

    @property
    def ways(self) -> tuple[MediaModel, ...]:
        """Return what can be asked, in order; most homes have nothing."""
        settings = self._settings
        if not settings.audio.enabled:
            return ()
        able = [way for way in settings.models if not way.capabilities or "audio" in way.capabilities]
        wanted = settings.audio.preferred_model
        return tuple(sorted((*settings.audio.models, *able), key=lambda way: wanted not in (way.name, way.model)))

    @property
    def _settings(self) -> MediaSettings:
        return self._config.block("tools.media", MediaSettings)

    async def words(self, media: Media, agent: AgentConfig) -> str:
        """Return what is said in a file; nothing where nobody can say. Raises HomarusError when all ways failed."""
        ways, settings = self.ways, self._settings.audio
        if not ways or media.size < MIN_BYTES:
            return ""
        problems: list[str] = []
        self._free = self._free or asyncio.Semaphore(max(1, self._settings.concurrency))
        async with self._free:
            for way in ways:
                try:
                    if media.size > (limit := settings.max_bytes if way.max_bytes is None else way.max_bytes):
                        raise HomarusError(f"it has more than {human_bytes(limit)}")
                    async with asyncio.timeout(way.timeout_seconds or settings.timeout_seconds):
                        found = await (self._program(way, media) if way.type == "cli" else self._ask(way, media, agent))
                    most = way.max_chars or settings.max_chars
                    return found.strip()[:most] if most else found.strip()
                except TimeoutError:
                    problems.append(f"{way.name} took too long")
                except (HomarusError, HttpError, OSError) as problem:
                    problems.append(f"{way.name}: {single_line(str(problem), 200)}")
        raise HomarusError("; ".join(problems), cure="see tools.media in the configuration")

    # A program

    async def _program(self, way: MediaModel, media: Media) -> str:
        """Run a program on a file, without a shell; its output is the text, or the file that it wrote beside."""
        home = self._env.get("HOME", "")
        command = f"{home}{way.command[1:]}" if way.command.startswith("~/") else way.command
        program = shutil.which(command, path=self._env.get("PATH"))
        if program is None:
            raise ConfigError(f"there is no program {way.command}", cure="correct tools.media.models[].command")
        with tempfile.TemporaryDirectory(prefix="homarus-") as folder:
            given = {
                **dict.fromkeys(_NAMES, media.path),
                **dict.fromkeys(("MediaType", "AttachmentContentType"), media.mime_type),
                **dict.fromkeys(("MediaDir", "AttachmentDir"), str(Path(media.path).parent)),
                "OutputDir": folder,
                "OutputBase": str(Path(folder) / Path(media.path).stem),
            }
            args = [_filled(arg, given) for arg in way.args] or [media.path]
            output = await self._run(program, args, folder)
            return _written(Path(folder)) or output

    async def _run(self, program: str, args: list[str], folder: str) -> str:
        passed = {name: self._env[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR") if name in self._env}
        child = await asyncio.create_subprocess_exec(
            program,
            *args,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            env=passed,
            start_new_session=True,
        )
        try:
            assert child.stdout is not None
            output = b""
            while block := await child.stdout.read(65536):
                output = (output + block)[:MAX_OUTPUT]
            if code := await child.wait():
                raise HomarusError(f"it ended with status {code}")
            return output.decode("utf-8", "replace")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # with all that it started
            await child.wait()

    # A service

    async def _ask(self, way: MediaModel, media: Media, agent: AgentConfig) -> str:
        if not way.provider or not way.model:
            raise ConfigError("tools.media.models[] needs a provider and a model", cure="or a command, with type cli")
        ref = ModelRef(way.provider, way.model)
        credentials = self._models.client(agent).credentials(ref)
        if not credentials:
            raise ConfigError(f"there is no key for {way.provider}", cure="'homarus configure keys' takes one")
        endpoint = self._models.registry.endpoint(ref, credentials[0])
        base = (way.base_url or endpoint.base_url).rstrip("/")
        settings = self._settings.audio
        fields = {"model": way.model, "response_format": "json"}
        fields |= {"language": language} if (language := way.language or settings.language) else {}
        fields |= {"prompt": prompt} if (prompt := way.prompt or settings.prompt) else {}
        data = await asyncio.to_thread(Path(media.path).read_bytes)
        boundary, body = _form(fields, Path(media.path).name, media.mime_type, data)
        headers = {**dict(endpoint.headers), **{name.lower(): value for name, value in way.headers.items()}}
        headers |= {"content-type": f"multipart/form-data; boundary={boundary}"}
        headers |= {"authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        response = await self._models.http.request(
            "POST", f"{base}/audio/transcriptions", headers=headers, body=(body,)
        )
        try:
            reply = await response.read(MAX_REPLY)
        finally:
            await response.close()
        if response.status != 200:
            raise HomarusError(f"{way.provider} answered with status {response.status}")
        return _text_of(reply)


def _written(folder: Path) -> str:
    found = sorted(folder.glob("*.txt"))
    return found[0].read_bytes()[:MAX_OUTPUT].decode("utf-8", "replace") if found else ""


def _text_of(reply: bytes) -> str:
    try:
        found: Any = msgspec.json.decode(reply)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    text = found.get("text") if isinstance(found, dict) else None
    if not isinstance(text, str):
        raise HomarusError("its answer holds no text")
    return text


def _filled(arg: str, given: Mapping[str, str]) -> str:
    for name, value in given.items():
        arg = arg.replace("{{" + name + "}}", value)
    return arg


def _form(fields: Mapping[str, str], name: str, mime_type: str, data: bytes) -> tuple[str, bytes]:
    boundary = f"homarus{secrets.token_hex(12)}"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    head = f'Content-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: {mime_type}'
    parts += [f"--{boundary}\r\n{head}\r\n\r\n".encode(), data, f"\r\n--{boundary}--\r\n".encode()]
    return boundary, b"".join(parts)
