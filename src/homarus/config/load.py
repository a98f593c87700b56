"""Read a configuration. Bad content never raises: it becomes problems, and the last good file stands in for a broken one.

Reading changes no byte. A copy of the last good content is kept in the folder `homarus` of the state folder, by
`remember_good`, and only where that folder exists already or the user changed the configuration with a command.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from homarus.config.env import inline_variables, layered, parse_dotenv, substitute
from homarus.config.include import Overlay, Reader, Source
from homarus.config.keypath import KeyPath, format_path
from homarus.config.paths import Paths, expand
from homarus.config.report import Notify, Problem
from homarus.config.view import AgentConfig, Config, Content
from homarus.core.errors import StorageError

__all__ = ["AgentConfig", "Config", "Problem", "last_good_path", "load_config", "reader_for", "remember_good"]

_DOTENV_BYTES = 256 * 1024


def load_config(
    paths: Paths, env: Mapping[str, str], *, notify: Notify | None = None, overlay: Overlay | None = None
) -> Config:
    """Load the configuration of a home; a missing file is an empty one. `overlay` tries files before they are written."""
    reader = reader_for(paths, env, overlay)
    source, document = reader.main(paths.config_path)
    problems = list(reader.problems)
    if not isinstance(document, dict):
        problems.append(Problem("error", str(paths.config_path), 1, "", "holds no object", "wrap everything in { }"))
        document = {}
    fallback = None
    if any(problem.severity == "error" for problem in problems) or (source is not None and not source.data.strip()):
        fallback, stood_in, older = _last_good(paths, env)
        if fallback is not None:
            source, document = stood_in, older
            message = f"cannot be used as it is; {fallback} stands in for it"
            problems.append(
                Problem("warning", str(paths.config_path), 0, "", message, "'homarus config edit' mends it")
            )
    elif source is None and os.path.lexists(f"{paths.config_path}.bak"):
        message, cure = "is missing, but a backup lies beside it", "copy the .bak file back if it was not meant to go"
        problems.append(Problem("warning", str(paths.config_path), 0, "", message, cure))
    elif source is None and paths.named:
        message, cure = "there is no such file, so the defaults hold", "check --config and OPENCLAW_CONFIG_PATH"
        problems.append(Problem("error", str(paths.config_path), 0, "", message, cure))
    content = _content(paths, env, source, document)
    content.fallback = fallback
    content.problems = problems + content.problems
    return Config(content, notify=notify)


def _content(paths: Paths, env: Mapping[str, str], source: Source | None, document: dict[str, Any]) -> Content:
    home = layered(env, _dotenv(paths.state_dir / ".env"))
    everything = layered(home, inline_variables(document))
    content = Content(paths, source, document, everything)

    def missing(path: KeyPath, name: str) -> None:
        owner = source.owner(path) if source else None
        file, line = (str(owner[0].path), owner[0].line(owner[1])) if owner else (str(paths.config_path), 0)
        message, cure = f"the variable {name} is not set, so this key is not set", f"export {name}, or write the value"
        content.problems.append(Problem("warning", file, line, format_path(path), message, cure))

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
    """Return where the copy of the last good content lies."""
    return paths.own_dir / "openclaw.last-good.json"


def _last_good(paths: Paths, env: Mapping[str, str]) -> tuple[Path | None, Source | None, dict[str, Any]]:
    for path in (last_good_path(paths), Path(f"{paths.config_path}.last-good"), Path(f"{paths.config_path}.bak")):
        reader = reader_for(paths, env)
        source, document = reader.main(path)
        usable = source is not None and source.data.strip() and isinstance(document, dict)
        if usable and not any(problem.severity == "error" for problem in reader.problems):
            return path, source, document
    return None, None, {}


def remember_good(config: Config, env: Mapping[str, str], *, explicit: bool = False) -> bool:
    """Keep a copy of a configuration that was read without error; for commands that start the runtime or change the file.

    Without `explicit` nothing is created in a home where nothing of ours lives yet. Variables stay as they were written.
    """
    target = last_good_path(config.paths)
    if config.fallback is not None or not (explicit or config.paths.own_dir.is_dir()):
        return False
    if config.source is not None and _is_younger(target, [source.path for source in config.source.all()]):
        return False
    # Only where something changed: a turn asks each time.
    import json

    from homarus.storage.atomic import ensure_dir, write_atomic

    reader = reader_for(config.paths, env)
    source, document = reader.main(config.paths.config_path)
    if source is None or not isinstance(document, dict) or any(p.severity == "error" for p in reader.problems):
        return False
    data = (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "replace")
    try:
        if target.is_file() and target.read_bytes() == data:
            return False
        ensure_dir(target.parent)
        write_atomic(target, data)
    except (OSError, StorageError):
        return False
    return True


def _is_younger(copy: Path, files: Iterable[Path]) -> bool:
    """Say whether a copy was made after all of these files came to be what they are."""
    try:
        made = copy.stat().st_ctime_ns
        return all(max(file.stat().st_ctime_ns, file.lstat().st_ctime_ns) < made for file in files)
    except OSError:
        return False
