"""A prompt from a workspace of 12 files of 20 kB: cold, warm, after an edit, and how often each file is opened."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from bench.measure import Ctx, Row, against
from homarus.agent.compose import Composer, PromptRequest
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import ManualClock
from homarus.core.messages import Trust
from homarus.core.routes import SessionKey
from homarus.storage.boundary import Guarded, Root
from homarus.workspace.audience import Audience
from homarus.workspace.bootstrap import Bootstrap, BootstrapRequest
from homarus.workspace.loader import WorkspaceLoader

NAMES = [
    "AGENTS",
    "SOUL",
    "IDENTITY",
    "USER",
    "TOOLS",
    "BOOTSTRAP",
    "MEMORY",
    "memory",
    "HEARTBEAT",
    "NOTES",
    "PLANS",
    "IDEAS",
]
LINE = "Some **ordinary** line of Markdown with a [link](x), `code` and a little more of it.\n- an item of a list\n\n"
# CPU milliseconds on a machine of two shared cores.
WARM_LIMIT, COLD_LIMIT = 2.0, 15.0


class CountingRoot(Root):
    """Counts opens by name."""

    opened: ClassVar[Counter[str]] = Counter()

    def read(self, name: str, *, max_bytes: int) -> Guarded:
        """Count and read."""
        self.opened[str(name)] += 1
        return super().read(name, max_bytes=max_bytes)

    def fingerprint(self, name: str) -> Guarded:
        """Count and look."""
        self.opened[str(name)] += 1
        return super().fingerprint(name)


def run(ctx: Ctx) -> list[Row]:
    """Measure whole prompts, as a turn makes them, and the workspace's own share."""
    home = ctx.folder("home")
    workspace = home / ".openclaw" / "workspace"
    workspace.mkdir(parents=True)
    for name in NAMES:
        (workspace / f"{name}.md").write_text((f"# {name}\n\n" + LINE * 200)[:20_000])
    return [*_prompts(ctx, home, workspace), *_share(ctx, workspace), *_opens(workspace)]


def _limit(item: str, seconds: float, limit: float) -> Row:
    return Row(item, seconds * 1e3, "ms", f"{limit:g} ms of CPU", seconds * 1e3 / limit, 1.0)


def _prompts(ctx: Ctx, home: Path, workspace: Path) -> list[Row]:
    env = {"HOME": str(home)}
    config = load_config(resolve_paths(env), env)
    clock = ManualClock(datetime(2026, 4, 15, 12, 0, tzinfo=UTC))
    request = PromptRequest(trust=Trust.OWNER, chat_type="direct")
    warm = Composer(config, env, clock)
    edited = Composer(config, env, clock)
    cold = iter([Composer(config, env, clock) for _ in range(ctx.runs + 1)])
    flip = iter(range(10**9))

    def after_edit() -> None:
        (workspace / "SOUL.md").write_text(f"# SOUL {next(flip)}\n\n" + LINE * 150)
        edited.prompt_for(request)

    warm.prompt_for(request)
    taken = ctx.calls({"cold": lambda: next(cold).prompt_for(request), "warm": lambda: warm.prompt_for(request)})
    # Apart from the others: an edit makes every composer's next prompt a new one.
    taken |= ctx.calls({"edit": after_edit})
    return [
        _limit("prompt, cold", taken["cold"], COLD_LIMIT),
        _limit("prompt, warm", taken["warm"], WARM_LIMIT),
        _limit("prompt after an edit", taken["edit"], COLD_LIMIT),
    ]


def _share(ctx: Ctx, workspace: Path) -> list[Row]:
    run_ = BootstrapRequest(workspace, audience=Audience(session=SessionKey.parse("main")))
    warm = Bootstrap(WorkspaceLoader(), warn=lambda _: None)
    warm.build(run_)

    def bare() -> list[str]:
        return [(workspace / f"{name}.md").read_text(encoding="utf-8", errors="replace") for name in NAMES[:9]]

    taken = ctx.calls(
        {
            "cold": lambda: Bootstrap(WorkspaceLoader(), warn=lambda _: None).build(run_),
            "warm": lambda: warm.build(run_),
            "bare": bare,
        },
        number=5,
    )
    label = "read_text of the same files"
    return [
        against("bootstrap context, cold", taken["cold"], label, taken["bare"]),
        against("bootstrap context, warm", taken["warm"], label, taken["bare"], 2.0),
    ]


def _opens(workspace: Path) -> list[Row]:
    loader = WorkspaceLoader(open_root=CountingRoot)
    rows = []
    for item in ("cold", "warm"):
        CountingRoot.opened.clear()
        loader.load(workspace)
        most = max(CountingRoot.opened.values())
        rows.append(Row(f"opens of one file, {item}", most, "open", "once", float(most), 1.0))
    return rows
