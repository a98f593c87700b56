"""Sound to words: by a program of the owner's, or by a server on loopback that speaks like OpenAI's."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.channels.homes import configured

from homarus.channels.transcribe import Transcriber
from homarus.config.blocks import validate
from homarus.core.clock import SystemClock
from homarus.core.errors import HomarusError
from homarus.core.messages import Media
from homarus.models.access import Models


@pytest.fixture
def sound(tmp_path: Path) -> Media:
    path = tmp_path / "voice.ogg"
    path.write_bytes(b"OggS" + b"x" * 3000)
    return Media("voice", "audio/ogg", "voice.ogg", 3004, "r", str(path))


def transcriber(folder: Path, media: dict, **document) -> Transcriber:
    config = configured(folder, tools={"media": media}, **document)
    assert config.unusable is None
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "SECRET": "hush"}
    return Transcriber(config, Models(config, env, clock=SystemClock()), env)


async def words(made: Transcriber, sound: Media) -> str:
    return await made.words(sound, made._config.default_agent)


def program(*lines: str, **more) -> dict:
    args = ["-c", "\n".join(("import os, sys, time", *lines)), *more.pop("args", ["{{MediaPath}}"])]
    return {"type": "cli", "command": sys.executable, "args": args, "capabilities": ["audio"], **more}


async def test_nothing_is_heard_where_nothing_is_configured(tmp_path, sound):
    assert await words(transcriber(tmp_path, {}), sound) == ""
    models = [program("print('words')")]
    assert await words(transcriber(tmp_path, {"models": models, "audio": {"enabled": False}}), sound) == ""
    assert await words(transcriber(tmp_path, {"models": [{**models[0], "capabilities": ["image"]}]}), sound) == ""


async def test_a_program_is_given_the_file_and_nothing_else(tmp_path, sound):
    way = program("print(os.path.basename(sys.argv[1]), os.environ.get('SECRET'), len(open(sys.argv[1]).read()))")
    assert await words(transcriber(tmp_path, {"models": [way]}), sound) == "voice.ogg None 3004"


async def test_what_a_program_writes_beside_is_its_answer(tmp_path, sound):
    way = program("print('progress'); open(sys.argv[1] + '.txt', 'w').write('the words')", args=["{{OutputBase}}"])
    assert await words(transcriber(tmp_path, {"audio": {"models": [way]}}), sound) == "the words"


async def test_a_name_is_no_option_and_no_shell_reads_it(tmp_path, sound):
    evil = tmp_path / "$(touch pwned); -x.ogg"
    evil.write_bytes(b"x" * 2000)
    way = program("print(sys.argv[1])")
    found = await words(
        transcriber(tmp_path, {"models": [way]}), Media("voice", "audio/ogg", "v", 2000, "r", str(evil))
    )
    assert found == str(evil)
    assert not (tmp_path / "pwned").exists()


async def test_the_next_way_is_asked_when_one_fails(tmp_path, sound):
    ways = [
        program("sys.exit(3)"),
        program("time.sleep(600)", timeoutSeconds=0.3),
        {**program("print('never')"), "maxBytes": 10},
        {"type": "cli", "command": "no-such-program"},
        program("print('at last, all of it')", maxChars=7),
    ]
    assert await words(transcriber(tmp_path, {"models": ways}), sound) == "at last"
    with pytest.raises(HomarusError, match=r"status 3.*too long.*more than.*no-such-program"):
        await words(transcriber(tmp_path, {"models": ways[:4]}), sound)


async def test_a_program_that_is_given_up_is_ended_with_all_it_started(tmp_path, sound):
    pids = tmp_path / "pids"
    for seconds in (2, 60):  # a slow machine may not come to write before it is ended
        way = program(
            "import subprocess",
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])",
            f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')",
            "time.sleep(600)",
            timeoutSeconds=seconds,
        )
        with pytest.raises(HomarusError, match="too long"):
            await words(transcriber(tmp_path, {"models": [way]}), sound)
        if pids.exists():
            break
    for pid in map(int, pids.read_text().split()):
        for _ in range(6000):
            stat = Path(f"/proc/{pid}/stat")
            if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
                break
            await asyncio.sleep(0.01)
        else:
            raise AssertionError(f"{pid} still runs")


async def test_a_tap_on_the_button_is_no_speech(tmp_path, sound):
    way = program("print('words')")
    assert (
        await words(transcriber(tmp_path, {"models": [way]}), Media("voice", "audio/ogg", "v", 100, "r", sound.path))
        == ""
    )


@asynccontextmanager
async def server(status: int, reply: bytes):
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        seen.append(head + await reader.readexactly(length))
        writer.write(
            b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, len(reply), reply)
        )
        await writer.drain()
        writer.close()

    made = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with made:
        yield f"http://127.0.0.1:{made.sockets[0].getsockname()[1]}/v1", seen


def service(base: str) -> dict:
    return {"models": {"providers": {"speech": {"baseUrl": base, "apiKey": "sk-hush", "api": "openai-completions"}}}}


async def test_a_service_is_asked_with_the_key_of_its_provider(tmp_path, sound):
    media = {"models": [{"provider": "speech", "model": "whisper-1"}], "audio": {"language": "de"}}
    async with server(200, b'{"text": " hallo "}') as (base, seen):
        made = transcriber(tmp_path, media, **service(base))
        assert await words(made, sound) == "hallo"
        await made._models.aclose()
    [request] = seen
    assert request.startswith(b"POST /v1/audio/transcriptions HTTP/1.1")
    for part in (
        b"Bearer sk-hush",
        b'name="model"\r\n\r\nwhisper-1',
        b'name="language"\r\n\r\nde',
        b'filename="voice.ogg"',
    ):
        assert part in request
    assert Path(sound.path).read_bytes() in request


@pytest.mark.parametrize(("status", "reply"), [(401, b"sk-hush is wrong"), (200, b"{}"), (200, b"<html>"), (500, b"")])
async def test_a_service_that_fails_says_so_without_the_key(tmp_path, sound, status, reply):
    media = {"models": [{"provider": "speech", "model": "whisper-1"}]}
    async with server(status, reply) as (base, _seen):
        made = transcriber(tmp_path, media, **service(base))
        with pytest.raises(HomarusError) as failed:
            await words(made, sound)
        await made._models.aclose()
    assert "sk-hush" not in str(failed.value)


async def test_the_preferred_way_is_first(tmp_path):
    ways = [program("print(1)"), {"provider": "speech", "model": "whisper-1"}]
    made = transcriber(tmp_path, {"models": ways, "audio": {"preferredModel": "speech/whisper-1"}})
    assert [way.type for way in made.ways] == ["provider", "cli"]


def test_a_block_that_cannot_be_read_hears_nothing(tmp_path):
    config = configured(tmp_path, tools={"media": {"models": "whisper"}})
    made = Transcriber(config, Models(config, {}, clock=SystemClock()), {})
    assert made.ways == ()
    assert any(problem.key == "tools.media.models" for problem in validate(config))
