"""What the configuration costs at every start, against reading and parsing the bare file."""

from __future__ import annotations

import pyjson5

from bench.measure import Ctx, Row, against
from homarus.config.edit import set_value
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.config.scan import scan

_AGENT = """
      {{ id: "agent-{n}", name: "Agent {n}", workspace: "~/w/{n}", // number {n}
        model: {{ primary: "provider/model-{n}", fallbacks: ["other/model"] }}, tools: {{ deny: ["exec", "write"] }} }},"""
_TEXT = """// a typical file of 5 kB
{{
  gateway: {{ mode: "local", port: 18789, bind: "loopback", auth: {{ mode: "token", token: "${{TOKEN}}" }} }},
  agents: {{
    defaults: {{ workspace: "~/w", model: "provider/model", thinkingDefault: "low", blockStreamingChunk: "800-1200" }},
    list: [{agents}
    ],
  }},
  session: {{ idleMinutes: 60, resetByType: {{ dm: {{ mode: "idle" }} }} }},
  channels: {{ telegram: {{ botToken: "$BOT", blockStreaming: true }} }},
}}
"""


def run(ctx: Ctx) -> list[Row]:
    """Measure loading, scanning and one edit in CPU time."""
    folder = ctx.folder("config")
    text = _TEXT.format(agents="".join(_AGENT.format(n=number) for number in range(20)))
    path = folder / "openclaw.json"
    path.write_text(text, encoding="utf-8")
    env = {"HOME": str(folder), "OPENCLAW_STATE_DIR": str(folder), "TOKEN": "t"}
    paths = resolve_paths(env)
    taken = ctx.calls(
        {
            "load": lambda: load_config(paths, env),
            "scan": lambda: scan(text),
            "edit": lambda: set_value(text, ("gateway", "port"), 1),
            "floor": lambda: pyjson5.decode(path.read_text(encoding="utf-8")),
        },
        number=20,
    )
    label = "read and parse"
    return [
        against(f"load a configuration of {len(text):,} characters", taken["load"], label, taken["floor"]),
        against("find every span of it", taken["scan"], label, taken["floor"]),
        against("change one key of it", taken["edit"], label, taken["floor"]),
    ]
