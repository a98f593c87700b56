"""Figures of a served home in the text form that Prometheus reads. Counts and names alone, and a bounded number of them."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from typing import TYPE_CHECKING

from homarus.core.events import CompactionEnded, MessageEnded, ModelCalled, RunEnded, RunEvent, ToolEnded
from homarus.core.messages import Usage
from homarus.core.routes import SessionKey

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway

MAX_NAMES = 200  # different values of a label; whatever comes after them is counted as "other"
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counts what happens in all sessions of this process."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[Labels]] = {}
        self._names: dict[str, set[str]] = {}
        self.refused = 0

    def add(self, name: str, value: float = 1, **labels: str) -> None:
        key = tuple((label, self._known(label, text)) for label, text in labels.items())
        self._counts.setdefault(name, Counter())[key] += value  # type: ignore[assignment]

    def _known(self, label: str, text: str) -> str:
        names = self._names.setdefault(label, set())
        if text not in names and len(names) >= MAX_NAMES:
            return "other"
        names.add(text)
        return text

    def take(self, _session: SessionKey, event: RunEvent) -> None:
        match event:
            case ModelCalled():
                self.add("model_call_total", model=event.model, retry=str(event.attempt > 1).lower())
            case MessageEnded():
                self._used(event.message.usage, event.message.provider or "unknown")
            case ToolEnded():
                outcome = "error" if event.result.is_error else "ok"
                self.add("tool_execution_total", tool=event.result.tool_name, outcome=outcome)
                self.add("tool_execution_duration_seconds_sum", event.seconds, tool=event.result.tool_name)
            case CompactionEnded():
                self.add("compaction_total", outcome="ok" if event.ok else "error")
            case RunEnded():
                self.add("run_completed_total", outcome=event.status)
                self.add("run_duration_seconds_sum", event.seconds)
                self.add("run_duration_seconds_count")

    def _used(self, usage: Usage, provider: str) -> None:
        for kind in ("input", "output", "cache_read", "cache_write"):
            if count := getattr(usage, kind):
                self.add("model_tokens_total", count, kind=kind, provider=provider)
        if usage.cost.total:
            self.add("model_cost_usd_total", usage.cost.total, provider=provider)

    def text(self, gateway: Gateway) -> str:
        scale = 1 if sys.platform == "darwin" else 1024
        rows: list[tuple[str, str, Labels, float]] = [
            ("gauge", "uptime_seconds", (), gateway.uptime_ms / 1000),
            ("gauge", "connections", (), len(gateway.hub.connections)),
            ("gauge", "runs_active", (), len(gateway.runtime.lanes.busy)),
            ("gauge", "resident_memory_max_bytes", (), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale),
            ("counter", "connections_refused_total", (), self.refused),
        ]
        board = gateway.switchboard
        rows += [
            ("gauge", "outbox_waiting", (), len(board.outbox.pending())),
            ("gauge", "intake_waiting", (), board.intake.waiting),
        ]
        for each in board.status():
            account = (("channel", each.channel), ("account", each.account_id))
            rows.append(("gauge", "channel_connected", account, int(each.connected)))
        for channel, count in board.counts.received.items():
            rows.append(("counter", "message_received_total", (("channel", channel),), count))
        for (channel, outcome), count in board.counts.settled.items():
            rows.append(("counter", "message_delivery_total", (("channel", channel), ("outcome", outcome)), count))
        rows += [("counter", name, key, value) for name, found in self._counts.items() for key, value in found.items()]
        lines, typed = [], set[str]()
        for kind, name, labels, value in rows:
            if name not in typed:
                typed.add(name)
                lines.append(f"# TYPE homarus_{name} {kind}")
            inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
            shown = f"{{{inside}}}" if inside else ""
            lines.append(
                f"homarus_{name}{shown} {round(value, 9):g}" if value < 1e6 else f"homarus_{name}{shown} {value:.0f}"
            )
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")[:200]
