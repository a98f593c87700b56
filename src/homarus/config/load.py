"""Read a configuration. What cannot be read is never replaced by weaker rules: the last good content stands in, or nothing runs.

It stands in where what is left of the text shows no rule that it lacks; a slip in the edit that forbids something stops
the program.

`load_config` is for whatever runs on the configuration, `inspect_config` for what shows or mends it. Reading changes no
byte of the files. A copy of every content that was read without error is kept in the folder `homarus` of the state
folder, once homarus has worked there; its first line names the file that it belongs to, and it stands in for no other.
The second has the texts of the files as they were written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from homarus.config.env import inline_variables, layered, parse_dotenv, substitute
from homarus.config.include import Overlay, Reader, Source
from homarus.config.keypath import KeyPath, format_path
from homarus.config.lost import losses
from homarus.config.paths import Paths, expand
from homarus.config.report import Notify, Problem, Severity
from homarus.config.restrict import faults, restricts
from homarus.config.view import AgentConfig, Config, Content
from homarus.core.errors import ConfigError, StorageError

__all__ = [
    "AgentConfig",
    "Config",
    "Problem",
    "inspect_config",
    "last_good_path",
    "load_config",
    "refuse_lost",
    "remember_good",
]

_DOTENV_BYTES = 256 * 1024
_TEXTS = "// as it was written: "
_MEND = "'homarus config edit' opens it, 'homarus config validate' lists what is wrong"


def load_config(paths: Paths, env: Mapping[str, str], *, notify: Notify | None = None) -> Config:
    """Return the configuration to run on; a missing file is an empty one.

    Raises ConfigError where a file cannot be used as it is and no last good content of the same file can stand in:
    running on defaults instead could allow what the file forbids.
    """
    config = inspect_config(paths, env)
    wrong = config.unusable
    if wrong is not None:
        key = f"{wrong.key}: " if wrong.key else ""
        raise ConfigError(f"{wrong.where}: {key}{wrong.message}", cure=f"{wrong.cure}; {_MEND}")
    remember_good(config)
    config.listen(notify)
    return config


def inspect_config(paths: Paths, env: Mapping[str, str], *, overlay: Overlay | None = None) -> Config:
    """Return whatever can be read, with every problem in its list. `overlay` tries files before they are written.

    Never raises for content. What `unusable` names must not be run on.
    """
    reader = reader_for(paths, env, overlay)
    source, document = reader.main(paths.config_path)
    problems = list(reader.problems)
    if not isinstance(document, dict):
        problems.append(Problem("error", str(paths.config_path), 1, "", "holds no object", "wrap everything in { }"))
        document = {}
    fallback = None
    if source is None or problems:
        fallback, stood_in, older = _last_good(paths, env)
        if problems and stood_in is not None and (place := _lost_rule(reader, paths, stood_in)):
            why = f"because this text differs from it at '{place}', which may restrict what may happen"
            cure = f"{problems[0].cure}; the last good content does not stand in, {why}"
            problems[0], fallback = msgspec.structs.replace(problems[0], cure=cure), None
        if fallback is not None:
            source, document = stood_in, older
            what = "cannot be used as it is" if problems else "is missing"
            cure = f"mend it, or delete {fallback} if you want to start afresh"
            message = f"{what}; the last good content stands in for it"
            problems.append(Problem("warning", str(paths.config_path), 0, "", message, cure))
        elif not problems and os.path.lexists(f"{paths.config_path}.bak"):
            message, cure = (
                "is missing, but a backup lies beside it",
                "copy the .bak file back if it was not meant to go",
            )
            problems.append(Problem("warning", str(paths.config_path), 0, "", message, cure))
        elif not problems and paths.named:
            cure = "check --config and OPENCLAW_CONFIG_PATH; 'homarus setup' makes a new one"
            problems.append(Problem("error", str(paths.config_path), 0, "", "there is no such file", cure))
    content = _content(paths, env, source, document)
    content.fallback = fallback
    content.problems = problems + content.problems
    config = Config(content)
    for severity, path, message, cure in faults(config):
        config.report(severity, path, message, cure)
    for found in losses(config):
        config.record(found)
    if fallback is None:
        config.unusable = next((found for found in config.problems if _stops(found)), None)
    else:
        # What was wrong with the file itself no longer counts; what is wrong with its stand-in does.
        config.unusable = next((found for found in config.problems[len(problems) :] if _stops(found)), None)
    return config


def _stops(problem: Problem) -> bool:
    return problem.severity == "error" and problem.file != "environment"


def _content(paths: Paths, env: Mapping[str, str], source: Source | None, document: dict[str, Any]) -> Content:
    home = layered(env, _dotenv(paths.state_dir / ".env"))
    everything = layered(home, inline_variables(document))
    content = Content(paths, source, document, everything)

    def missing(path: KeyPath, name: str) -> None:
        owner = source.owner(path) if source else None
        file, line = (str(owner[0].path), owner[0].line(owner[1])) if owner else (str(paths.config_path), 0)
        cure = f"export {name}, or write the value"
        message = f"the variable {name} is not set, so this key is not set"
        severity: Severity = "warning"
        if restricts(path):
            severity, message = "error", f"the variable {name} is not set, and this key restricts what may happen"
        content.problems.append(Problem(severity, file, line, format_path(path), message, cure))

    content.raw = substitute(document, everything, missing)
    return content


def reader_for(paths: Paths, env: Mapping[str, str], overlay: Overlay | None = None) -> Reader:
    """Return a reader that may include from the folder of the configuration and from OPENCLAW_INCLUDE_ROOTS."""
    named = env.get("OPENCLAW_INCLUDE_ROOTS", "").split(os.pathsep)
    roots = [expand(root, paths.home) for root in named if root.strip()]
    return Reader(paths.config_path.parent, roots=roots, overlay=overlay)


def _dotenv(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as handle:
            return parse_dotenv(handle.read(_DOTENV_BYTES).decode("utf-8", "replace"))
    except OSError:
        return {}


def last_good_path(paths: Paths) -> Path:
    return paths.own_dir / "openclaw.last-good.json"


def _last_good(paths: Paths, env: Mapping[str, str]) -> tuple[Path | None, Source | None, dict[str, Any]]:
    """Return what the file held when it was last read, if anybody kept it: our copy, else that of OpenClaw.

    Never a `.bak`: that is what stood there before the last change, which may have been the one that forbade something.
    """
    ours = last_good_path(paths)
    for path in (ours, Path(f"{paths.config_path}.last-good")):
        reader = reader_for(paths, env)
        source, document = reader.main(path)
        if source is None and not reader.problems:
            continue
        usable = source is not None and isinstance(document, dict) and not reader.problems
        belongs = path != ours or (source is not None and source.text.startswith(_owner_line(paths)))
        return (path, source, document) if usable and belongs else (None, None, {})
    return None, None, {}


def _lost_rule(reader: Reader, paths: Paths, stood_in: Source) -> str:
    """Return where the files as they are now may have a rule that the last good content has not, or nothing."""
    older = _texts_of(stood_in) or {str(paths.config_path): stood_in.text}
    for name, text in older.items():
        from homarus.config.torn import as_text, wanted_rule  # most files can be read

        data = reader.bytes_of(Path(name))
        if data is not None and as_text(data) != text and (place := wanted_rule(text, as_text(data))):
            return place
    return ""


def _texts_of(kept: Source) -> dict[str, str]:
    """Return the files of a last good content as they were written; nothing where that was not kept."""
    import json

    line = (kept.text.split("\n", 2)[1:2] or [""])[0]
    try:
        found = json.loads(line.removeprefix(_TEXTS)) if line.startswith(_TEXTS) else {}
    except ValueError:
        return {}
    return {name: text for name, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}


def refuse_lost(paths: Paths, env: Mapping[str, str]) -> None:
    """Raise ConfigError before a new file is made in the place of one whose last good content is known."""
    kept = _last_good(paths, env)[0]
    if kept is not None and not os.path.lexists(paths.config_path):
        raise ConfigError(
            f"{paths.config_path} is missing, but its last good content is known; nothing was written",
            cure=f"copy {kept} back to it, or delete that copy to start afresh",
        )


def _owner_line(paths: Paths) -> str:
    import json

    return f"// the last good content of {json.dumps(str(paths.config_path))}, "


def remember_good(config: Config, *, explicit: bool = False) -> bool:
    """Keep a copy of a configuration that was read without error. Variables stay as they were written.

    Without `explicit` nothing is created in a home where nothing of ours lives yet.
    """
    target = last_good_path(config.paths)
    if config.unusable is not None or config.fallback is not None or config.source is None:
        return False
    if not (explicit or config.paths.own_dir.is_dir()):
        return False
    first = f"{_owner_line(config.paths)}{config.hash}\n"
    if _starts_with(target, first.encode()):
        return False
    # Only where something changed: a turn asks each time.
    import json

    from homarus.storage.atomic import ensure_dir, write_atomic

    written = json.dumps({str(source.path): source.text for source in config.source.all()})
    text = f"{first}{_TEXTS}{written}\n{json.dumps(config.authored, ensure_ascii=False, indent=2)}\n"
    try:
        ensure_dir(target.parent)
        write_atomic(target, text.encode("utf-8", "replace"))
    except StorageError:
        return False
    return True


def _starts_with(path: Path, wanted: bytes) -> bool:
    try:
        with path.open("rb") as handle:
            return handle.read(len(wanted)) == wanted
    except OSError:
        return False
