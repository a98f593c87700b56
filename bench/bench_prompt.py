"""What a prompt costs to build from a workspace of 12 files of 20 kB, against reading those files with bare system calls.

Targets: a warm build takes at most 2 ms of CPU and a cold one at most 15 ms on a machine of 2024's middle class, and no
file is read twice. The ratio is to the floor of the same run, so it means the same on any machine.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path

from bench.measure import Ctx, Row, against
from homarus.agent.compose import Composer, PromptRequest
from homarus.agent.hook_events import load_registry
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock
from homarus.core.messages import Trust
from homarus.core.tools import ToolSpec
from homarus.storage.boundary import Root
from homarus.workspace.loader import WorkspaceLoader
from homarus.workspace.names import LOADED

# All standard files, two more that the owner's hook adds, and the rules of the folder that commands run in.
FILES = tuple(LOADED)
EXTRAS = ("part1/AGENTS.md", "part2/AGENTS.md")
PROJECT = "project/AGENTS.md"
LINE = "- A rule of some length, with **bold** words, `code` and [a link](https://example.org/page).\n"
TOOLS = tuple(ToolSpec(f"tool_{number:02}", "Do one thing well.", {"type": "object"}) for number in range(26))
LIMITS = {"cold": 15.0, "warm": 2.0}


def run(ctx: Ctx) -> list[Row]:
    """Measure the build cold (nothing remembered) and warm (nothing changed), and count the reads."""
    home = ctx.folder("prompt")
    workspace = _workspace(home)
    env = {"HOME": str(home)}
    config = load_config(resolve_paths(env), env)
    hooks = load_registry(config, env, workspace[0].parent, only="agent:bootstrap")
    reads: Counter[str] = Counter()
    settled = _composer(config, env, hooks, reads)
    plain = _composer(config, env, None, Counter())
    settled.prompt_for(PromptRequest(tools=TOOLS, trust=Trust.OWNER, chat_type="direct"))
    cold_reads, again = dict(reads), Counter(reads)
    settled.prompt_for(PromptRequest(tools=TOOLS, trust=Trust.OWNER, chat_type="direct"))
    warm_reads = Counter(reads) - again
    spent = ctx.calls(
        {
            "cold": lambda: _composer(config, env, hooks, Counter()).prompt_for(
                PromptRequest(tools=TOOLS, trust=Trust.OWNER, chat_type="direct")
            ),
            "warm": lambda: settled.prompt_for(PromptRequest(tools=TOOLS, trust=Trust.OWNER, chat_type="direct")),
            "no hook": lambda: plain.prompt_for(PromptRequest(tools=TOOLS, trust=Trust.OWNER, chat_type="direct")),
            "floor": lambda: [_bare(path) for path in workspace],
        },
        number=5,
    )
    label = "read 12 files"
    rows = [
        against(f"prompt build, {kind}: CPU", spent[kind], label, spent["floor"], _target(kind, spent["floor"]))
        for kind in ("cold", "warm")
    ]
    rows.append(against("prompt build, warm, without the hook: CPU", spent["no hook"], label, spent["floor"]))
    most = max(cold_reads.values())
    return [
        *rows,
        Row("reads of one file, cold", most, "reads", "one", float(most), 1.0),
        # HEARTBEAT.md is read anew for every turn, by rule.
        Row("files read again, warm", len(warm_reads), "files", "one", float(len(warm_reads)), 1.0),
    ]


def _target(kind: str, floor: float) -> float:
    """Return the limit in milliseconds as a ratio to this run's floor."""
    return LIMITS[kind] / 1000 / floor


def _composer(config, env, hooks, reads: Counter[str]) -> Composer:
    class Counting(Root):
        def read(self, name, *, max_bytes):
            found = super().read(name, max_bytes=max_bytes)
            reads[f"{self.path}/{name}"] += found.kind == "ok"
            return found

    return Composer(config, env, SystemClock(), hooks=hooks, loader=WorkspaceLoader(open_root=Counting))


def _workspace(home: Path) -> list[Path]:
    root = home / ".openclaw" / "workspace"
    written = []
    for name in (*FILES, *EXTRAS, PROJECT):
        path = (home if name == PROJECT else root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((f"# {name}\n\n" + LINE * 300)[:20_000])
        written.append(path)
    assert len(written) == 12
    entry = {"enabled": True, "paths": ["part*/AGENTS.md"]}
    config = {
        "agents": {"defaults": {"cwd": str(home / "project"), "bootstrapTotalMaxChars": 300_000}},
        "hooks": {"internal": {"entries": {"bootstrap-extra-files": entry}}},
    }
    (home / ".openclaw" / "openclaw.json").write_text(json.dumps(config))
    # The loader does not trust the times of a file that changed a moment ago.
    time.sleep(0.2)
    return written


def _bare(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 21)
    finally:
        os.close(fd)
