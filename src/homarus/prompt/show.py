"""A report as people read it: `list`, `detail` and `map`, on a terminal and in a chat. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from homarus.prompt.report import Report, Size

MODES = ("list", "detail", "map", "json")
_ALIASES = {"show": "list", "deep": "detail"}
TOOLS_SHOWN, SKILLS_SHOWN, TOP = 30, 20, 30
_EIGHTHS = " ▏▎▍▌▋▊▉"
_HELP = """\
/context list: what fills the prompt, file by file
/context detail: the same with every section, skill and tool
/context map: a picture of the window
/context json: everything, for programs"""


def context_mode(argument: str) -> str:
    """Return what `/context <argument>` asks for; "" asks for help, and so does a word that is none of ours."""
    word = argument.strip().lower()
    word = _ALIASES.get(word, word)
    return word if word in MODES else "help"


def help_text(argument: str = "") -> str:
    lead = "" if argument.strip().lower() in {"", "help"} else f"'{argument.strip()}' is not known. Valid:\n"
    return lead + _HELP


def list_lines(report: Report) -> list[str]:
    about = report.about
    return [
        f"Context of {about.session_key or 'a new session'}" + (f" with {report.model}" if report.model else ""),
        f"Workspace: {about.workspace_dir or '-'}",
        f"Bootstrap max/file: {about.bootstrap_max_chars:,} chars",
        f"Bootstrap total: {report.files_chars:,} of {about.bootstrap_total_max_chars:,} chars"
        + _share(report.files_chars, about.bootstrap_total_max_chars),
        f"Sandbox: mode={about.sandbox.mode} sandboxed={'true' if about.sandbox.sandboxed else 'false'}",
        f"System prompt ({about.source}): {_size(report.system)} (Project Context {_size(report.project)})",
        *([f"  changed since: the next turn's would be {_size(report.since)}"] if report.since else []),
        f"  above the cache line: {_size(report.stable)}, sha256 {report.stable_sha256[:16]}",
        f"  below the cache line: {_size(report.session)}; on the next user turn: {_size(report.turn)}",
        "",
        "Injected workspace files:",
        *(_file_lines(report) or ["- none"]),
        *(f"Near the limit: {line}" for line in report.near_limit),
        *([f"Left out, the total is used up: {report.omitted} file(s)"] if report.omitted else []),
        "",
        f"Skills list (system prompt text): {_size(report.skills)} ({len(report.skill_rows)} skills)",
        *_names("Skills", [row.name for row in report.skill_rows], SKILLS_SHOWN),
        *_names("Tools", [row.name for row in report.tool_rows], TOOLS_SHOWN),
        *left_out_lines(about.tools_left_out, about.window),
        f"Tool list (system prompt text): {_size(report.tool_list)}",
        f"Tool schemas (JSON): {_size(report.tool_schemas)} (counts toward context; not shown as text)",
        "",
        f"First request: {_size(report.total)}",
        _session_line(report),
    ]


def detail_lines(report: Report) -> list[str]:
    lines = list_lines(report)
    if report.sections:
        lines += ["", "Sections:", *(f"- {row.name} [{row.tier}]: {_size(row.size)}" for row in report.sections)]
    if report.skill_rows:
        lines += ["", f"Skills by size (top {TOP}):"]
        ranked = sorted(report.skill_rows, key=lambda row: (-row.block_chars, row.name))
        lines += [f"- {row.name}: {row.block_chars:,} chars" for row in ranked[:TOP]]
    if report.tool_rows:
        lines += ["", f"Tool schemas by size (top {TOP}):"]
        by_schema = sorted(report.tool_rows, key=lambda row: (-row.schema_chars, row.name))
        lines += [
            f"- {row.name}: {row.schema_chars:,} chars | {row.properties_count} params"
            + (f" ({', '.join(row.properties)})" if row.properties else "")
            for row in by_schema[:TOP]
        ]
        lines += ["", f"Tool summaries by size (top {TOP}):"]
        by_summary = sorted(report.tool_rows, key=lambda row: (-row.summary_chars, row.name))
        lines += [f"- {row.name}: {row.summary_chars:,} chars" for row in by_summary[:TOP]]
    if report.about.messages:
        counts = ", ".join(f"{count:,} {role}" for role, count in report.about.messages.items())
        lines += ["", f"Messages: {counts}"]
    return lines


def map_lines(report: Report, *, width: int = 40, unicode: bool = True) -> list[str]:
    rows = [(name, tokens) for name, tokens in _parts(report) if tokens]
    used = sum(tokens for _, tokens in rows)
    window = report.about.window
    if window:
        rows.append(("free", max(0, window - used)))
    scale = max(window, used, 1)
    label = max(len(name) for name, _ in rows)
    number = max(len(f"{tokens:,}") for _, tokens in rows)
    title = (
        f"Window: ~{used:,} of {window:,} tok" if window else f"Used: ~{used:,} tok (the model's window is not known)"
    )
    return [
        title,
        *(
            f"{name:<{label}}  {_bar(tokens / scale, width, unicode=unicode)}  {tokens:>{number},} tok"
            f"  {100 * tokens / scale:4.1f} %"
            for name, tokens in rows
        ),
    ]


def _parts(report: Report) -> Iterable[tuple[str, int]]:
    stable = report.stable - report.project - report.skills - report.tool_list
    yield "instructions", max(0, stable.tokens)
    yield "tool list", report.tool_list.tokens
    yield "skills", report.skills.tokens
    yield "workspace files", report.project.tokens
    yield "session part", report.session.tokens
    yield "tool schemas", report.tool_schemas.tokens
    yield "next turn's facts", report.turn.tokens
    if report.about.session_tokens is not None:
        before = report.system.tokens + report.tool_schemas.tokens
        yield "conversation", max(0, report.about.session_tokens - before)


def _bar(share: float, width: int, *, unicode: bool) -> str:
    """Return a bar of fixed width; whatever is more than nothing leaves a mark."""
    eighths = max(round(share * width * 8), share > 0)
    if not unicode:
        cells = -(-eighths // 8) if eighths < 8 else round(eighths / 8)
        return ("#" * cells).ljust(width, ".")
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def _file_lines(report: Report) -> list[str]:
    lines = []
    for row in report.files:
        raw = f"raw {row.raw_chars:,} chars (~{-(-row.raw_chars // 4):,} tok)"
        injected = f"injected {row.injected_chars:,} chars (~{row.injected_tokens:,} tok)"
        where = " | on the next user turn" if row.dynamic else ""
        lines.append(f"- {row.name}: {row.state} | {raw} | {injected}{where}")
    return lines


def _names(title: str, names: Sequence[str], shown: int) -> list[str]:
    if not names:
        return [] if title == "Skills" else [f"{title}: none"]
    more = f" (+{len(names) - shown} more)" if len(names) > shown else ""
    return [f"{title}: {', '.join(names[:shown])}{more}"]


def left_out_lines(names: Sequence[str], window: int) -> list[str]:
    """Say which tools a small window leaves out, and how one of them is had all the same."""
    if not names:
        return []
    why = f"a window of {window:,} tokens has little room beside them; tools.alsoAllow brings one back by its name"
    return [f"Tools left out: {', '.join(names)} ({why})"]


def _session_line(report: Report) -> str:
    about = report.about
    total = "unknown" if about.session_tokens is None else f"{about.session_tokens:,} total"
    window = f"{about.window:,}" if about.window else "?"
    return f"Session tokens (cached): {total} / ctx={window}"


def _size(size: Size) -> str:
    return f"{size.chars:,} chars (~{size.tokens:,} tok)"


def _share(part: int, whole: int) -> str:
    if not whole:
        return ""
    flag = " NEAR LIMIT" if part >= 0.85 * whole else ""
    return f" ({100 * part / whole:.0f} %){flag}"
