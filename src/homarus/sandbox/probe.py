"""Look from inside: run one command in a sandbox and see what really holds. Used by `sandbox probe` and `doctor`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.cancel import Cancel
from homarus.core.errors import HomarusError
from homarus.sandbox import scratch
from homarus.sandbox.process import Order, run
from homarus.sandbox.resolve import clean_environment
from homarus.sandbox.spec import Access, SandboxSpec

_PREFIX = ".homarus-probe-"
# Each line prints one word if the thing that must not work does work. It really opens: asking whether one may is answered
# by the permissions of a file, which a sandbox does not change.
_SCRIPT = r"""
opens() { (: < "$1") 2>/dev/null; }
opens "$HOMARUS_PROBE_SECRET" && echo secret
for d in /root /home; do for f in "$d"/* "$d"/.[a-z]*; do opens "$f" && echo homes && break 2; done; done
opens /etc/shadow && echo shadow
(echo x > /usr/.homarus-probe) 2>/dev/null && echo system
(echo x > "$1/.homarus-probe") 2>/dev/null && echo workspace
for p in /proc/[0-9]*; do
  { test "$p" != "/proc/$$" && tr '\0' ' ' < "$p/environ" | grep -q "$3"; } 2>/dev/null && echo processes
done
for s in /var/run/docker.sock /run/docker.sock; do curl -s -m 2 --unix-socket "$s" http://x/_ping >/dev/null 2>&1 && echo docker; done
tail -n +3 /proc/net/dev 2>/dev/null | grep -qv '^ *lo:' && echo network
bash -c "exec 3<>/dev/tcp/127.0.0.1/$2" 2>/dev/null && echo network
env | grep -q '^HOMARUS_PROBE_LEAK=' && echo environment
rm -f "$1/.homarus-probe"
echo done
"""
_WORDS = {
    "secret": "a file outside of the workspace can be read",
    "homes": "home folders can be read",
    "shadow": "password hashes can be read",
    "system": "the system can be changed",
    "workspace": "the workspace can be changed although it must not",
    "processes": "processes outside can be seen",
    "docker": "the Docker socket can be reached",
    "network": "the network can be reached",
    "environment": "our environment leaks in",
}


class Finding(Struct, frozen=True):
    """What the probe found: nothing means that all of it holds."""

    backend: str
    leaks: tuple[str, ...] = ()
    # Why the probe could not be made; then nothing at all is known.
    failure: str = ""

    @property
    def holds(self) -> bool:
        return not self.leaks and not self.failure


@asynccontextmanager
async def _neighbours() -> AsyncIterator[tuple[int, str]]:
    """Put something beside the sandbox that must not be found from inside: a port, and a process with a word."""
    word = f"neighbour-{os.urandom(8).hex()}"
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", "read x"), stdin=asyncio.subprocess.PIPE, env={"WORD": word, "PATH": "/usr/bin:/bin"}
    )
    try:
        yield server.sockets[0].getsockname()[1], word
    finally:
        server.close()
        process.kill()
        await process.wait()


async def probe(spec: SandboxSpec, outer: Mapping[str, str], secret: Path) -> Finding:
    """Run the probe in a spec; `secret` is a file that no command may read."""
    if not spec.enforced:
        return Finding(spec.backend.value, failure="the sandbox is switched off")
    env = {**clean_environment(spec, {**outer, "HOMARUS_PROBE_LEAK": "1"}, {}), "HOMARUS_PROBE_SECRET": str(secret)}
    try:
        async with _neighbours() as (port, word):
            argv = ("/bin/sh", "-c", _SCRIPT, "probe", spec.workspace, str(port), word)
            folder = spec.workspace if spec.access is not Access.NONE else "/"
            order = Order(argv, folder, env, os.urandom(6).hex())
            output, ended = await run(spec, order, limit=10_000, seconds=20, cancel=Cancel())
    except (HomarusError, OSError) as problem:
        return Finding(spec.backend.value, failure=str(problem))
    words = output.decode("utf-8", "replace").split()
    if ended is None or "done" not in words:
        return Finding(spec.backend.value, failure=f"the probe did not run: {' '.join(words)[:200] or 'no answer'}")
    expected = {"workspace"} if spec.access is Access.RW else set()
    expected |= {"network"} if spec.network else set()
    return Finding(
        spec.backend.value,
        tuple(_WORDS[word] for word in dict.fromkeys(words) if word in _WORDS and word not in expected),
    )


def try_out(spec: SandboxSpec, outer: Mapping[str, str]) -> Finding:
    """Run the probe with a secret of its own, in the agent's workspace or, where that is not made yet, in a spare one."""
    # Below the home if possible: a private /tmp hides what lies in ours, whatever else it shows.
    home = outer.get("HOME", "")
    top = home if home and os.access(home, os.W_OK) and not spec.can_read(home) else scratch.TOP
    scratch.sweep(top, _PREFIX)  # of a probe that was killed
    folder = scratch.make(top, _PREFIX)
    try:
        secret, spare = Path(folder.path, "secret"), Path(folder.path, "spare")
        secret.touch()
        if not Path(spec.workspace).is_dir():
            spare.mkdir()
            spec = replace(spec, workspace=str(spare))
        return asyncio.run(probe(spec, outer, secret))
    finally:
        folder.remove()
