"""What a command may see and use, as a value. A spec can be narrowed and never widened."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace


class Backend(StrEnum):
    """What enforces a spec. `off` enforces nothing and exists only by an explicit setting or approval."""

    BWRAP = "bwrap"
    LANDLOCK = "landlock"
    DOCKER = "docker"
    OFF = "off"


class Access(StrEnum):
    RW = "rw"
    RO = "ro"
    NONE = "none"


class Limits(Struct, frozen=True):
    """Upper bounds of one command and everything it starts. Zero means unlimited, and is the widest value there is."""

    cpu_seconds: int = 600
    memory_bytes: int = 2 << 30
    processes: int = 256
    # By how much the free space of a disk that it can write may shrink while it runs.
    disk_bytes: int = 10 << 30

    def narrow(self, other: Limits) -> Limits:
        return Limits(
            _tighter(self.cpu_seconds, other.cpu_seconds),
            _tighter(self.memory_bytes, other.memory_bytes),
            _tighter(self.processes, other.processes),
            _tighter(self.disk_bytes, other.disk_bytes),
        )


class Mount(Struct, frozen=True):
    """A folder or file that a command sees at the same path as outside."""

    path: str
    writable: bool = False


class SandboxSpec(Struct, frozen=True):
    """What one turn's commands may do. Made once per turn by `resolve`; tools have no other way to run anything."""

    backend: Backend
    workspace: str
    access: Access = Access.RW
    network: bool = False
    mounts: tuple[Mount, ...] = ()
    limits: Limits = Limits()
    env: tuple[str, ...] = ()
    image: str = ""
    binary: str = ""
    user: str = ""
    # Names at the top of the workspace that stay as they are, whatever `access` says. Nothing new appears there then.
    locked: tuple[str, ...] = ()
    # Folders that no command sees, even where they lie in a folder of the system's: the home and the state folder.
    hidden: tuple[str, ...] = ()
    # The one repository that may change. Only for a command that is git and nothing else: see `tools/git`.
    commits: str = ""
    # The agent's workspace, where commands and file tools work in a folder of the sandbox's own instead (`workspace`).
    instead_of: str = ""
    # Mounts that the owner opened for this run alone; its children work there, too.
    lent: tuple[Mount, ...] = ()
    # Why there is no sandbox although one is wanted, and what to do about it: then no command starts and no file is touched.
    refused: str = ""

    @classmethod
    def nothing(cls, workspace: str, why: str) -> SandboxSpec:
        """Return what is left where a sandbox is wanted and cannot be had."""
        return cls(Backend.BWRAP, workspace, Access.NONE, refused=why)

    @property
    def enforced(self) -> bool:
        return self.backend is not Backend.OFF

    @property
    def home_access(self) -> Access:
        """Return what a turn may do with the agent's workspace, wherever it works."""
        if not self.instead_of:
            return self.access
        return Access.RO if self.can_read(self.instead_of) else Access.NONE

    @property
    def most(self) -> Access:
        """Return what a child may do at most with its agent's workspace."""
        return self.home_access if self.enforced else Access.RW

    def folder(self, workspace: Path) -> Path:
        """Return where a turn works: in the agent's workspace, or in the folder that its sandbox has instead."""
        return Path(self.workspace) if self.instead_of else workspace

    def can_read(self, path: str) -> bool:
        """Say whether a path of the user's is visible inside; system folders are always readable and not meant here."""
        if not self.enforced or (self.access is not Access.NONE and _beneath(path, self.workspace)):
            return True
        return any(_beneath(path, mount.path) for mount in self.mounts)

    def can_write(self, path: str) -> bool:
        if not self.enforced:
            return True
        if self.access is Access.RW and _beneath(path, self.workspace):
            inner = PurePosixPath(path).relative_to(self.workspace).parts
            if not self.locked or (inner and inner[0] not in self.locked):
                return True
        return any(mount.writable and _beneath(path, mount.path) for mount in self.mounts)

    def narrow(self, wish: SandboxSpec) -> SandboxSpec:
        """Return what a child of this turn gets when it asks for `wish`: never more than this spec allows."""
        if wish.instead_of and self.enforced and not self.can_read(wish.workspace):
            # A child that would have a folder of its own works in that of its parent.
            wish = replace(wish, workspace=self.workspace, access=self.access, instead_of=self.instead_of)
        backend = wish.backend if wish.enforced or not self.enforced else self.backend
        source = wish if wish.enforced or not self.enforced else self
        return replace(
            source,
            backend=backend,
            workspace=wish.workspace,
            access=self._narrow_access(wish),
            network=self.network and wish.network,
            mounts=tuple(kept for mount in wish.with_lent(self.lent) if (kept := self._narrow_mount(mount))),
            lent=self.lent,
            limits=self.limits.narrow(wish.limits),
            env=tuple(name for name in wish.env if not self.enforced or name in self.env),
            locked=tuple(sorted({*self.locked, *wish.locked})),
            hidden=tuple(sorted({*self.hidden, *wish.hidden})),
            refused=self.refused or wish.refused,
        )

    def with_lent(self, lent: tuple[Mount, ...]) -> tuple[Mount, ...]:
        """Return the mounts with those that the owner opens; what was to be read alone can be written there then."""
        paths = {mount.path for mount in lent}
        return (*(mount for mount in self.mounts if mount.path not in paths), *lent)

    def lend(self, wish: SandboxSpec) -> SandboxSpec:
        """Return this spec as it bounds a child that runs as another agent: with that agent's folders in view, as `wish` has
        them, and without a right more. `wish` is resolved under `most`."""
        folders = [Mount(wish.workspace, wish.access is Access.RW)] if wish.access is not Access.NONE else []
        folders += [mount for mount in wish.mounts if mount.path == wish.instead_of]
        return replace(self, mounts=(*self.mounts, *folders))

    def contains(self, other: SandboxSpec) -> bool:
        """Say whether `other` allows nothing that this spec forbids."""
        if not self.enforced:
            return True
        same = other.workspace == self.workspace and other.access is Access.RW and self.access is Access.RW
        visible = [] if other.access is Access.NONE or same else [Mount(other.workspace, other.access is Access.RW)]
        return (
            other.enforced
            and (self.network or not other.network)
            and all(self._narrow_mount(mount) == mount for mount in (*visible, *other.mounts))
            and self.limits.narrow(other.limits) == other.limits
            and set(other.env) <= set(self.env)
            and set(self.locked) <= set(other.locked)
            and set(self.hidden) <= set(other.hidden)
            and other.commits in {"", self.commits}
        )

    def _narrow_access(self, wish: SandboxSpec) -> Access:
        if wish.access is Access.NONE or not self.can_read(wish.workspace):
            return Access.NONE
        writable = self.can_write(wish.workspace) or (self.access is Access.RW and wish.workspace == self.workspace)
        return Access.RW if wish.access is Access.RW and writable else Access.RO

    def _narrow_mount(self, mount: Mount) -> Mount | None:
        if not self.can_read(mount.path):
            return None
        return mount if not mount.writable or self.can_write(mount.path) else Mount(mount.path)


def _beneath(path: str, root: str) -> bool:
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in {"", "/"}:
        return True  # spelled alike: nothing to take apart
    return PurePosixPath(path).is_relative_to(root)


def _tighter(one: int, other: int) -> int:
    return min(one, other) if one and other else max(one, other)
