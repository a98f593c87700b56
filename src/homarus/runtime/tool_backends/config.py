"""The gateway tool's other side: the configuration as `homarus config` shows and changes it, and nothing else of this machine.

Secrets are hidden in what is shown, and a hidden value that is written back keeps what it stood for. Every change was
shown to the owner before it comes here: the gate asks for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homarus.config.view import Config
from homarus.core.errors import ConfigError, Denied, HomarusError, ToolError, installing
from homarus.core.messages import Trust
from homarus.tools.services import Json
from homarus.tools.tool import ToolContext


class ConfigBackend:
    """The `GatewayControl` of a home without a running gateway."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._config = config
        self._env = env

    async def act(self, context: ToolContext, action: str, arguments: Json) -> Json:
        """Show or patch the configuration; for the owner alone."""
        if context.trust is not Trust.OWNER:
            raise Denied("the configuration is the owner's", cure="ask the owner")
        path = str(arguments.get("path") or "")
        try:
            match action:
                case "config.get":
                    return self._get(path)
                case "config.schema":
                    from homarus.config.blocks import build_schema

                    return {"path": path, "schema": build_schema(path)}
                case "config.patch":
                    return self._patch(path, arguments["patch"])
                case "config.apply":
                    return self._apply(arguments["raw"], str(arguments.get("baseHash") or ""))
                case "update.run":
                    raise ToolError(
                        "homarus is updated by the package manager that installed it",
                        cure=f"tell the owner to run it: {installing('-U homarus')}",
                    )
                case _:
                    raise ToolError(
                        "nothing here can restart itself",
                        cure="ask the owner to start homarus again; say why in a sentence",
                    )
        except ConfigError as problem:
            raise ToolError(problem.message, cure=problem.cure or "see config.schema") from None
        except ToolError:
            raise
        except HomarusError as problem:
            raise ToolError(problem.message, cure=problem.cure) from None

    def _get(self, path: str) -> Json:
        from homarus.config.keypath import lookup, parse_path
        from homarus.config.load import load_config
        from homarus.config.redact import redact

        config = load_config(self._config.paths, self._env)
        # What stands around a value decides whether it is a secret, so the whole is hidden before a part is looked up.
        value = lookup(redact(config.document), config.canonical(parse_path(path)) if path else ())
        return {"path": path, "file": str(config.paths.config_path), "hash": config.hash, "value": value}

    def _apply(self, raw: str, base: str) -> Json:
        """Replace the whole configuration; what was hidden in it and comes back hidden stays as it is."""
        from homarus.config.edit import parse_text
        from homarus.config.load import load_config
        from homarus.config.redact import redact

        config = load_config(self._config.paths, self._env)
        if base and base != config.hash:
            raise ToolError("the configuration has changed since it was read", cure="read it again with config.get")
        wanted = parse_text(raw, "raw")
        if not isinstance(wanted, dict):
            raise ToolError("raw holds no object", cure="give the whole configuration, as config.get shows it")
        return self._patch("", _difference(redact(config.document), wanted))

    def _patch(self, path: str, patch: Any) -> Json:
        from homarus.config.keypath import parse_path
        from homarus.config.load import load_config
        from homarus.config.write import Operation, change

        config = load_config(self._config.paths, self._env)
        steps = parse_path(path) if path else ()
        done = change(config, self._env, [Operation("patch", steps, patch)])
        files = [str(item.path) for item in done]
        note = "it holds from the next start" if files else "nothing changed"
        return {"changed": files, "diff": "\n".join(item.diff for item in done)[:4_000], "note": note}


def _difference(old: Any, new: Any) -> Any:
    """Return the merge patch that makes one document of another."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    changed = {key: _difference(old.get(key), value) for key, value in new.items() if old.get(key) != value}
    return {**{key: None for key in old if key not in new}, **changed}
