"""Look from inside: run one command in a sandbox and see what really holds. Used by `sandbox probe` and `doctor`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from homarus.core.cancel import Cancel
from homarus.core.errors import HomarusError
from homarus.sandbox.process import Order, run
from homarus.sandbox.resolve import clean_environment
from homarus.sandbox.spec import Access, SandboxSpec

# Each line prints one word if the thing that must not work does work.
_SCRIPT = r"""
test -r "$HOMARUS_PROBE_SECRET" && echo secret
for d in /root /home; do for f in "$d"/*; do test -r "$f" && echo homes && break 2; done; done
test -r /etc/shadow && echo shadow
(echo x > /usr/.homarus-probe) 2>/dev/null && echo system
(echo x > "$1/.homarus-probe") 2>/dev/null && echo workspace
for p in /proc/[0-9]*; do test "$(tr '\0' ' ' < $p/cmdline 2>/dev/null | cut -c1-4)" = init && echo processes; done
test -S /var/run/docker.sock && echo docker
(exec 3<>/dev/tcp/127.0.0.1/9) 2>/dev/null && echo network
ip link 2>/dev/null | grep -qv ' lo:' && ip link 2>/dev/null | grep -q 'state UP' && echo network
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
        """Say whether the sandbox keeps what it promises."""
        return not self.leaks and not self.failure


async def probe(spec: SandboxSpec, outer: Mapping[str, str], secret: Path) -> Finding:
    """Run the probe in a spec; `secret` is a file that no command may read."""
    if not spec.enforced:
        return Finding(spec.backend.value, failure="the sandbox is switched off")
    env = {**clean_environment(spec, {**outer, "HOMARUS_PROBE_LEAK": "1"}, {}), "HOMARUS_PROBE_SECRET": str(secret)}
    argv = ("/bin/sh", "-c", _SCRIPT, "probe", spec.workspace)
    order = Order(argv, spec.workspace if spec.access is not Access.NONE else "/", env, os.urandom(6).hex())
    try:
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
