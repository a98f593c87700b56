"""One row of the index as a typed view. The row itself stays a plain object, so that fields we do not know survive."""

# No postponed annotations: these types are read at every start, and as texts each would have to be compiled for that.

from typing import Any

import msgspec
from msgspec import Struct

from homarus.sessions.codec import Json, to_ms

# Names that older versions used: read under the new name when that is absent.
_RENAMED = {"provider": "channel", "lastProvider": "lastChannel", "room": "groupChannel"}


class SessionEntry(Struct, frozen=True, rename="camel"):
    """What the index says of one session, as far as this program reads it; what is missing or odd has its default."""

    session_id: str = ""
    updated_at: int = 0
    session_file: str | None = None
    session_started_at: int = 0
    # `reset` where an older transcript of the conversation was put away for this one, and not because of `/new`.
    started_by: str | None = None
    last_interaction_at: int = 0
    created_at: int = 0
    aborted_last_run: bool = False
    status: str | None = None
    chat_type: str | None = None
    channel: str | None = None
    group_channel: str | None = None
    space: str | None = None
    subject: str | None = None
    label: str | None = None
    display_name: str | None = None
    origin: Json | None = None
    last_channel: str | None = None
    last_to: str | None = None
    last_account_id: str | None = None
    last_thread_id: str | int | None = None
    spawned_by: str | None = None
    parent_session_key: str | None = None
    spawn_depth: int = 0
    thinking_level: str | None = None
    fast_mode: bool | str | None = None
    verbose_level: str | None = None
    trace_level: str | None = None
    reasoning_level: str | None = None
    elevated_level: str | None = None
    response_usage: str | None = None
    exec_host: str | None = None
    exec_security: str | None = None
    exec_ask: str | None = None
    provider_override: str | None = None
    model_override: str | None = None
    model_override_source: str | None = None
    auth_profile_override: str | None = None
    auth_profile_override_source: str | None = None
    group_activation: str | None = None
    send_policy: str | None = None
    queue_mode: str | None = None
    queue_debounce_ms: int | None = None
    queue_cap: int | None = None
    queue_drop: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    total_tokens_fresh: bool = False
    context_tokens: int = 0
    estimated_cost_usd: float = 0.0
    model_provider: str | None = None
    model: str | None = None
    compaction_count: int = 0
    memory_flush_at: int = 0
    memory_flush_compaction_count: int | None = None
    memory_flush: Json | None = None
    skills_snapshot: Json | None = None
    system_prompt_report: Json | None = None
    last_heartbeat_text: str | None = None
    pinned_at: int = 0
    archived: bool | None = None
    imported_from: Json | None = None

    @property
    def flushed_at_compaction(self) -> int | None:
        """Return the compaction count at which memory was last flushed, in either of its two places."""
        nested = (self.memory_flush or {}).get("compactionCount")
        return nested if isinstance(nested, int) else self.memory_flush_compaction_count


_CAMEL = dict(zip(SessionEntry.__struct_fields__, SessionEntry.__struct_encode_fields__, strict=True))


def read_row(row: Any) -> SessionEntry:
    row = modern(row)
    try:
        return msgspec.convert(row, SessionEntry)
    except msgspec.ValidationError:
        pass
    good: dict[str, Any] = {}
    for field in msgspec.structs.fields(SessionEntry):
        if field.encode_name in row:
            value = row[field.encode_name]
            try:
                good[field.name] = msgspec.convert(value, field.type)
            except msgspec.ValidationError:
                if field.type is int:
                    good[field.name] = to_ms(value)
    return SessionEntry(**good)


def modern(row: Any) -> Json:
    if not isinstance(row, dict):
        return {}
    missing = {new: row[old] for old, new in _RENAMED.items() if old in row and new not in row}
    return {**row, **missing} if missing else row


def changes(**fields: Any) -> Json:
    """Return changed fields under the names that the file uses; None removes a field."""
    unknown = fields.keys() - _CAMEL.keys()
    if unknown:
        raise TypeError(f"no such field of a session: {', '.join(sorted(unknown))}")
    return {_CAMEL[name]: value for name, value in fields.items()}
