"""Put a short notice into the chat before and after a compaction."""

from __future__ import annotations

from homarus.hooks.events import HookEvent


def handle(event: HookEvent) -> None:
    """Read `ok`, `tokensBefore` and `tokensAfter` from the context where they are known."""
    if event.action == "compact:before":
        event.messages.append("🧹 One moment: older messages are being summarised.")
        return
    if event.context.get("ok") is False:
        event.messages.append("🧹 The summary failed; the conversation stays as it was.")
        return
    before, after = event.context.get("tokensBefore"), event.context.get("tokensAfter")
    known = isinstance(before, int) and isinstance(after, int)
    event.messages.append(f"🧹 Summarised: {before:,} → {after:,} tokens." if known else "🧹 Summarised.")
