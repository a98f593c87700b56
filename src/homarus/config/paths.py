"""Where everything of one home lies. Pure but for two looks at the disk: which of two old places already exists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from homarus.core.errors import ConfigError, Unknown
from homarus.core.patterns import late

CONFIG_NAME = "openclaw.json"
_PROFILE = late(r"[a-z0-9][a-z0-9_-]{0,63}", re.IGNORECASE)


class Paths(msgspec.Struct, frozen=True):
    """The places of one home. Making this object creates nothing."""

    home: Path
    state_dir: Path
    config_path: Path
    profile: str | None = None
    # Set when OPENCLAW_STATE_DIR chose the state folder: then nothing may fall back to the folder in the home.
    isolated: bool = False
    # Set when an option or a variable named the configuration: then its absence is a mistake and not a fresh start.
    named: bool = False

    @property
    def agents_dir(self) -> Path:
        return self.state_dir / "agents"

    def agent_dir(self, agent_id: str) -> Path:
        """Return where an agent keeps credentials, unless its entry names an `agentDir`."""
        return self.agents_dir / agent_id / "agent"

    def sessions_dir(self, agent_id: str) -> Path:
        return self.agents_dir / agent_id / "sessions"

    def memory_db(self, agent_id: str) -> Path:
        """Return the derived search index of an agent's notes; it may be deleted at any time."""
        return self.state_dir / "state" / "memory" / f"{agent_id}.sqlite"

    @property
    def skills_dir(self) -> Path:
        return self.state_dir / "skills"

    @property
    def hooks_dir(self) -> Path:
        return self.state_dir / "hooks"

    @property
    def logs_dir(self) -> Path:
        return self.state_dir / "logs"

    @property
    def models_dir(self) -> Path:
        return self.state_dir / "models"

    @property
    def own_dir(self) -> Path:
        """Return the folder for what only homarus writes; OpenClaw never looks there."""
        return self.state_dir / "homarus"

    @property
    def default_workspace(self) -> Path:
        """Return the default agent's workspace when neither an entry nor the environment names one.

        A profile had two places over time: whichever exists is used, the one inside the profile's own folder first.
        """
        modern = self.state_dir / "workspace"
        if self.profile is None:
            return modern
        older = (self.state_dir if self.isolated else self.home / ".openclaw") / f"workspace-{self.profile}"
        shared = self.state_dir == self.home / ".openclaw"
        return modern if modern.is_dir() and not shared else older


def resolve_paths(env: Mapping[str, str], *, profile: str | None = None, config_path: Path | None = None) -> Paths:
    """Decide all places from the environment and the two global options; the options win over the variables."""
    account = Path(_setting(env, "HOME") or _account_home()).absolute()
    named = _setting(env, "OPENCLAW_HOME")
    home = expand(named, account) if named else account
    name = _profile(profile if profile is not None else env.get("OPENCLAW_PROFILE", ""))
    chosen = _setting(env, "OPENCLAW_STATE_DIR")
    state = expand(chosen, home) if chosen else _state_dir(home, name)
    asked = str(config_path) if config_path is not None else _setting(env, "OPENCLAW_CONFIG_PATH")
    file = expand(asked, home) if asked else state / CONFIG_NAME
    return Paths(home=home, state_dir=state, config_path=file, profile=name, isolated=bool(chosen), named=bool(asked))


def _state_dir(home: Path, profile: str | None) -> Path:
    """Return a profile's own folder, or the common one where an older profile lives, which had a workspace there and no more."""
    shared = home / ".openclaw"
    own = home / f".openclaw-{profile}"
    if profile is None or (not own.is_dir() and (shared / f"workspace-{profile}").is_dir()):
        return shared
    return own


def expand(text: str, home: Path) -> Path:
    """Return an absolute path: `~` is the home of this configuration, NUL bytes and outer blanks are dropped."""
    clean = text.replace("\x00", "").strip()
    if clean == "~" or clean.startswith("~/"):
        return home / clean[2:]
    return Path(clean).absolute()


def _setting(env: Mapping[str, str], name: str) -> str:
    return env.get(name, "").replace("\x00", "").strip()


def _account_home() -> str:
    """Return the home that the system knows; the variable may be unset, or empty, which would mean the root folder."""
    import os
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir or "/"
    except KeyError:
        raise ConfigError("this user has no home folder", cure="set HOME or OPENCLAW_STATE_DIR") from None


def _profile(text: str) -> str | None:
    name = text.strip()
    if not name or name.lower() == "default":
        return None
    if not _PROFILE.fullmatch(name):
        raise Unknown(
            f"profile '{name}' is no usable name",
            cure="use letters, digits, '-' and '_', at most 64, in --profile or OPENCLAW_PROFILE",
        )
    return name
