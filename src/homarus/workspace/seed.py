"""Lay out a workspace: the starter files, the first-run ritual and a git repository. Nothing that exists is touched.

Every file is created exclusively. A second run finds everything there and writes nothing.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from homarus.core.clock import iso_ms
from homarus.storage.atomic import create_new, ensure_dir
from homarus.storage.boundary import Root
from homarus.workspace import names
from homarus.workspace.inject import has_tools_heading
from homarus.workspace.settings import MAX_FILE_BYTES, WorkspaceSettings
from homarus.workspace.state import (
    SetupState,
    moment,
    note_complete,
    read_shared_state,
    read_state,
    refuse_vanished,
    write_state,
)
from homarus.workspace.templates import template

_RETIRED = frozenset({names.TOOLS, names.HEARTBEAT})
# The ritual edits the very files that show use: give it time to be finished.
_RITUAL_TIME = timedelta(hours=24)
_PERSONAL = (names.SOUL, names.IDENTITY, names.USER)


class RecordPaths(Struct, frozen=True):
    """Where the facts about workspaces lie outside of them. An empty value means: there are none."""

    folder: Path | None = None
    shared_database: Path | None = None


class Seeded(Struct, frozen=True):
    workspace: Path
    created: tuple[str, ...] = ()
    brand_new: bool = False
    git: bool = False
    state: SetupState = SetupState()


Git = Callable[[Path, Mapping[str, str]], bool]


def init_git(workspace: Path, env: Mapping[str, str]) -> bool:
    """Make the workspace a git repository if git is there and quick; a failure is no failure of ours."""
    clean = {key: value for key, value in env.items() if not key.startswith("GIT_")}
    try:
        for command, seconds in ((("git", "--version"), 2), (("git", "init", "--quiet"), 10)):
            subprocess.run(
                command,
                cwd=workspace,
                env=clean,
                timeout=seconds,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def ensure_workspace(
    workspace: Path,
    *,
    settings: WorkspaceSettings,
    now: datetime,
    env: Mapping[str, str],
    places: RecordPaths | None = None,
    git: Git = init_git,
) -> Seeded:
    """Create what is missing and bring the record of the setup up to date."""
    places = places or RecordPaths()
    if places.folder is not None:
        refuse_vanished(places.folder, workspace, now)
    ensure_dir(workspace)
    if settings.skip_bootstrap:
        return Seeded(workspace)
    fresh = is_brand_new(workspace)
    known = _known_state(workspace, places)
    state, created = known, []
    # The ritual comes first: if this run dies half-way, the next one still finds a workspace that is brand new.
    if fresh and not known.seeded_at and not known.completed:
        created += _create(workspace, names.BOOTSTRAP)
        state = SetupState(seeded_at=iso_ms(now))
        write_state(workspace, state, now)
    for name in missing_files(workspace, settings, places):
        created += _create(workspace, name)
    made_repository = fresh and not os.path.lexists(workspace / ".git") and git(workspace, env)
    settled = settle(workspace, state, now)
    if settled != state:
        write_state(workspace, settled, now)
    if settled.completed and places.folder is not None:
        note_complete(places.folder, workspace, now)
    return Seeded(workspace, tuple(created), fresh, made_repository, settled)


def missing_files(workspace: Path, settings: WorkspaceSettings, places: RecordPaths) -> tuple[str, ...]:
    if settings.skip_bootstrap:
        return ()
    gone = [name for name in names.SEEDED if not os.path.lexists(workspace / name)]
    skipped = {name for name in settings.skip_optional_bootstrap_files if name in names.OPTIONAL}
    if skipped.union(gone) & _RETIRED and _is_newer_home(workspace, places):
        skipped |= _RETIRED
    return tuple(name for name in gone if name not in skipped)


def _is_newer_home(workspace: Path, places: RecordPaths) -> bool:
    """Say whether a newer OpenClaw lives here, which moved the text of these files to AGENTS.md and to its database."""
    if places.shared_database is not None:
        return True
    if not workspace.is_dir():
        return False
    with Root(workspace) as root:
        got = root.read(names.AGENTS, max_bytes=MAX_FILE_BYTES)
    return got.kind == "ok" and has_tools_heading(got.data.decode("utf-8", "replace"))


def is_brand_new(workspace: Path) -> bool:
    """Say whether nobody has lived here yet: no standard file, no memory, no skill."""
    if any(os.path.lexists(workspace / name) for name in (*names.SEEDED, *names.MEMORIES, names.MEMORY_DIR)):
        return False
    skills = workspace / names.SKILLS_DIR
    try:
        return not any((folder / "SKILL.md").exists() for folder in skills.iterdir())
    except OSError:
        return not os.path.lexists(skills) or skills.is_dir()


def settle(workspace: Path, state: SetupState, now: datetime) -> SetupState:
    """Return the milestones as the folder shows them now. Pure but for looking; a completed setup stays completed."""
    if state.completed:
        return state
    pending = os.path.lexists(workspace / names.BOOTSTRAP)
    seeded = moment(state.seeded_at)
    if pending:
        # Laid out by us a moment ago: wait. Laid out long ago, or by nobody we know of, in a home in use: over.
        over = (seeded is None or now - seeded >= _RITUAL_TIME) and _shows_use(workspace)
    else:
        over = bool(state.seeded_at) or _shows_use(workspace)
    seeded_at = state.seeded_at or (iso_ms(now) if pending else "")
    return SetupState(seeded_at, iso_ms(now) if over else "")


def _known_state(workspace: Path, places: RecordPaths) -> SetupState:
    with Root(workspace) as root:
        state = read_state(root)
    if state == SetupState() and places.shared_database is not None:
        return read_shared_state(places.shared_database, workspace)
    return state


def _create(workspace: Path, name: str) -> list[str]:
    if os.path.lexists(workspace / name):
        return []
    return [name] if create_new(workspace / name, template(name).encode()) else []


def _shows_use(workspace: Path) -> bool:
    if (workspace / names.MEMORY_DIR).is_dir():
        return True
    with Root(workspace) as root:
        for name in _PERSONAL:
            got = root.read(name, max_bytes=65_536)
            if got.kind == "ok" and got.data.decode("utf-8", "replace").strip() != template(name).strip():
                return True
    return False
