"""The variables that skills bring to a run: a mapping for that run's tools alone, never the process's environment.

Two runs at a time, of two agents with two keys for the same service, each see their own.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from homarus.core.errors import HomarusError
from homarus.core.later import later
from homarus.core.patterns import late
from homarus.skills.settings import SkillSettings
from homarus.skills.snapshot import Snapshot

if TYPE_CHECKING:
    from homarus.config import redact
else:
    redact = later("homarus.config.redact")


_NAME = late(r"[A-Za-z_][A-Za-z0-9_]*")
# A skill names its own `primaryEnv`. These names would let it decide what other programs load or where they look.
_STEERING = late(
    r"(?:LD|DYLD|OPENCLAW|HOMARUS)_.*|PYTHON.*|PERL5(?:OPT|LIB|DB)|RUBY(?:OPT|LIB)|NODE_(?:OPTIONS|PATH)|JAVA_TOOL_OPTIONS"
    r"|GIT_(?:SSH.*|CONFIG.*|EXEC_PATH|ASKPASS|PAGER|EDITOR|EXTERNAL_DIFF|PROXY_COMMAND)|PATH|HOME|SHELL|IFS|ENV|BASH_ENV"
    r"|BASHOPTS|SHELLOPTS|PS4|PROMPT_COMMAND|EDITOR|VISUAL|PAGER|BROWSER|TMPDIR|(?:HTTPS?|ALL|NO)_PROXY|SSL_CERT_.*"
    r"|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE",
    re.IGNORECASE,
)

log = logging.getLogger("homarus.skills")


class RunEnv(Struct, frozen=True):
    """Variables for one run's commands. `hidden` are those of their values that must not be shown to anybody."""

    values: dict[str, str] = {}
    hidden: tuple[str, ...] = ()


def env_for_run(
    snapshot: Snapshot,
    settings: SkillSettings,
    env: Mapping[str, str],
    resolve: Callable[[Any], str],
    *,
    closed: Callable[[str], bool] = lambda _name: False,
) -> RunEnv:
    """Return what to add to a run's environment: only names that `env` does not have, the first skill's value winning.

    `resolve` turns a setting into text, following a reference to a secret; one that fails is logged and left out.
    `closed` are the names that nobody may set for a command.
    """
    added: dict[str, str] = {}
    hidden: list[str] = []

    def offer(name: str, value: Any, key: str, *, secret: bool) -> None:
        if not _NAME.fullmatch(name) or env.get(name) or name in added or value is None or value == "":
            return
        if closed(name):
            log.warning("skill %s: %s cannot be set for commands", key, name)
            return
        try:
            text = json.dumps(value) if isinstance(value, int | float) else resolve(value)
        except HomarusError as problem:
            log.warning("skill %s: %s stays unset: %s", key, name, problem)
            return
        if text and "\0" not in text:
            added[name] = text
            if secret or redact.is_secret_key(name) or redact.is_reference(value):
                hidden.append(text)

    for skill in snapshot.skills:
        entry = settings.entry(skill.key, skill.name)
        if entry is None or entry.enabled is False:
            continue
        for name, value in entry.env.items():
            offer(name, value, skill.key, secret=False)
        if skill.primary_env and entry.api_key:
            if _STEERING.fullmatch(skill.primary_env):
                log.warning("skill %s may not set %s", skill.key, skill.primary_env)
            else:
                offer(skill.primary_env, entry.api_key, skill.key, secret=True)
    return RunEnv(added, tuple(hidden))
