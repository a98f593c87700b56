"""The migrations that change the shape of a value, not only its name. Each takes a draft and changes nothing else."""

from __future__ import annotations

from typing import Any

from homarus.config.draft import GONE, Draft
from homarus.config.keypath import KeyPath, lookup
from homarus.config.resolve import merge
from homarus.core.patterns import late
from homarus.core.routes import normalize_agent_id

_RANGE = late(r"\s*(\d{1,9})\s*(?:-|–|\.\.)\s*(\d{1,9})\s*")
_SNAKE = late(r"_([a-z0-9])")
_RELOAD_MODES = {"hot": "hybrid", "restart": "hybrid"}


def dotted(draft: Draft) -> None:
    """`"channels.whatsapp.blockStreaming": true` at the top level means the nested key."""
    for key in [key for key in draft.root if "." in key.strip(".")]:
        draft.move((key,), tuple(part.strip() for part in key.split(".") if part.strip()))


def roster(draft: Draft) -> None:
    """Make `agents.entries` of `agents.list[]`; an entry wins over a list item of the same id."""
    agents = draft.root.get("agents")
    if not isinstance(agents, dict):
        return
    listed, named = agents.pop("list", None), agents.get("entries")
    chosen = draft.pop(("routing", "defaultAgentId"))
    entries: dict[str, Any] = {}
    for index, item in enumerate(listed if isinstance(listed, list) else []):
        where: KeyPath = ("agents", "list", index)
        if isinstance(item, dict):
            _add_agent(draft, entries, item.get("id") or item.get("agentId") or "", item, where)
        else:
            draft.notes.append((where, "an agent must be an object", 'write { id: "name" }'))
    for name, item in named.items() if isinstance(named, dict) else ():
        where = ("agents", "entries", name)
        if isinstance(item, dict):
            below = entries.get(normalize_agent_id(name)) if name == normalize_agent_id(name) else None
            if below is not None:
                entries[name] = merge(below, item)
            else:
                _add_agent(draft, entries, name, item, where)
        elif item is not None:
            draft.notes.append((where, "an agent must be an object", "write { } for an agent without settings"))
    if isinstance(chosen, str) and isinstance(entries.get(normalize_agent_id(chosen)), dict):
        entries[normalize_agent_id(chosen)].setdefault("default", True)
    agents["entries"] = entries


def _add_agent(draft: Draft, entries: dict[str, Any], name: Any, item: dict[str, Any], where: KeyPath) -> None:
    agent_id = normalize_agent_id(name if isinstance(name, str) else str(name))
    if agent_id in entries:
        draft.notes.append((where, f"a second agent with the id '{agent_id}' is left out", "give it another id"))
        return
    entries[agent_id] = {key: value for key, value in item.items() if key not in ("id", "agentId")}
    if where != ("agents", "entries", agent_id):
        draft.origins[("agents", "entries", agent_id)] = where


def models(draft: Draft) -> None:
    """A model given as a name becomes `{ primary }`; the first era kept fallbacks and aliases in lists of their own."""
    for path, owner in draft.owners():
        for key, older in (("model", "modelFallbacks"), ("imageModel", "imageModelFallbacks")):
            if isinstance(owner.get(key), str):
                owner[key] = {"primary": owner[key]}
                draft.origins[(*path, key, "primary")] = (*path, key)
            if isinstance(owner.get(older), list):
                draft.move((*path, older), (*path, key, "fallbacks"))
        if isinstance(owner.get("allowedModels"), list):
            names: dict[str, Any] = {name: {} for name in owner["allowedModels"] if isinstance(name, str)}
            draft.pop((*path, "allowedModels"))
            draft.lay_under((*path, "models"), names, (*path, "allowedModels"))
        if isinstance(owner.get("modelAliases"), dict):
            aliases = owner.pop("modelAliases")
            named = {model: {"alias": alias} for alias, model in aliases.items() if isinstance(model, str)}
            draft.lay_under((*path, "models"), named, (*path, "modelAliases"))


def model_policy(draft: Draft) -> None:
    """Without `modelPolicy` the keys of the `models` map are the allowlist; with it, even empty, they are not."""
    defaults = draft.table("agents", "defaults")
    known = defaults.get("models")
    if "modelPolicy" not in defaults and isinstance(known, dict) and known:
        origin: KeyPath = ("agents", "defaults", "models")
        draft.put(("agents", "defaults", "modelPolicy"), {"allow": list(known)}, origin)


def memory_search(draft: Draft) -> None:
    """`memory.search` (newest, wins) and `memorySearch` become one block of the defaults and of each entry."""
    for new, old in (
        (("memory", "search"), ("agents", "defaults", "memorySearch")),
        *((((*path, "memory", "search"), (*path, "memorySearch"))) for path, _ in draft.tables("agents", "entries")),
    ):
        newest = draft.pop(new)
        if not isinstance(newest, dict):
            continue
        older = draft.pop(old)
        draft.lay_under(old, newest, new)
        if isinstance(older, dict):
            draft.lay_under(old, older, old)


def sandbox(draft: Draft) -> None:
    """`sandbox.perSession` was a flag before there were three scopes."""
    for path, owner in draft.owners():
        block = owner.get("sandbox")
        if isinstance(block, dict) and isinstance(block.get("perSession"), bool):
            scope = "session" if block.pop("perSession") else "shared"
            draft.lay_under((*path, "sandbox", "scope"), scope, (*path, "sandbox", "perSession"))


def session(draft: Draft) -> None:
    """`pruneDays` was a number of days before it was a duration."""
    days = draft.pop(("session", "maintenance", "pruneDays"))
    if days is not GONE:
        text = f"{days}d" if isinstance(days, int) and not isinstance(days, bool) else days
        draft.lay_under(("session", "maintenance", "pruneAfter"), text, ("session", "maintenance", "pruneDays"))


def streaming(draft: Draft) -> None:
    """Chunk sizes as `800-1200`, coalescing as true or false, channel streaming as a flag or one word."""
    for _, owner in [*draft.owners(), *draft.channels()]:
        for key in ("blockStreamingChunk", "draftChunk"):
            match = _RANGE.fullmatch(owner[key]) if isinstance(owner.get(key), str) else None
            if match:
                low, high = sorted((int(match[1]), int(match[2])))
                owner[key] = {"minChars": low, "maxChars": high}
        if isinstance(owner.get("blockStreamingCoalesce"), bool):
            owner["blockStreamingCoalesce"] = {"enabled": owner["blockStreamingCoalesce"]}
    for _, channel in draft.channels():
        word = channel.get("streaming")
        if isinstance(word, bool):
            word = "partial" if word else "off"
        if isinstance(word, str):
            channel["streaming"] = {"mode": word}
        if isinstance(channel.get("streamMode"), bool):
            channel["streamMode"] = "partial" if channel["streamMode"] else "off"


def gateway(draft: Draft) -> None:
    """Reload modes that were retired mean the one that replaced both."""
    reload = draft.table("gateway", "reload")
    if isinstance(reload.get("mode"), str):
        reload["mode"] = _RELOAD_MODES.get(reload["mode"], reload["mode"])


def servers(draft: Draft) -> None:
    """One API name of model providers, and the spellings of other programs for MCP servers."""
    for _, provider in draft.tables("models", "providers"):
        if provider.get("api") == "openai":
            provider["api"] = "openai-completions"
    for path, server in draft.tables("mcp", "servers"):
        for key in [key for key in server if "_" in key]:
            draft.move((*path, key), (*path, _SNAKE.sub(lambda match: match[1].upper(), key)))
        draft.move((*path, "type"), (*path, "transport"))
        if isinstance(server.get("disabled"), bool):
            draft.lay_under((*path, "enabled"), not server.pop("disabled"), (*path, "disabled"))


def variables(draft: Draft) -> None:
    """Names directly under `env` are variables; everything else there has a block of its own."""
    for name in [name for name, value in draft.table("env").items() if isinstance(value, str) and name != "vars"]:
        draft.move(("env", name), ("env", "vars", name))


def idle_reset(draft: Draft) -> None:
    """`session.idleMinutes` by itself resets an idle session; a `session.reset` without a mode also does so every day."""
    reset = draft.table("session", "reset")
    moved = draft.origins.get(("session", "reset", "idleMinutes")) == ("session", "idleMinutes")
    if moved and lookup(draft.document, ("session", "reset")) is None:
        reset.setdefault("mode", "idle")
