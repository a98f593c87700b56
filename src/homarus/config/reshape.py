"""The migrations that change the shape of a value, not only its name. Each takes a draft and changes nothing else."""

from __future__ import annotations

from typing import Any

from homarus.config.keypath import KeyPath, differing, lookup, merge
from homarus.core.patterns import late
from homarus.core.routes import normalize_agent_id

GONE: Any = object()


class Draft:
    """A working copy; the document it was made from never changes."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.root: dict[str, Any] = _copy(document)
        # canonical path -> the path as it was written
        self.origins: dict[KeyPath, KeyPath] = {}
        # path as written, what is wrong, the cure
        self.notes: list[tuple[KeyPath, str, str]] = []
        # canonical path, and where the older spelling stands whose value another one lies over
        self.hidden: list[tuple[KeyPath, KeyPath]] = []

    def get(self, *path: str) -> Any:
        return lookup(self.root, path)

    def table(self, *path: str) -> dict[str, Any]:
        """Return the object at a path, or an empty one where there is none."""
        value = lookup(self.root, path)
        return value if isinstance(value, dict) else {}

    def tables(self, *path: str) -> list[tuple[KeyPath, dict[str, Any]]]:
        """Return every object among the values of the object at a path, with its own path."""
        return [((*path, name), value) for name, value in self.table(*path).items() if isinstance(value, dict)]

    def owners(self) -> list[tuple[KeyPath, dict[str, Any]]]:
        return [
            *(item for item in self.tables("agents") if item[0][1] == "defaults"),
            *self.tables("agents", "entries"),
        ]

    def channels(self) -> list[tuple[KeyPath, dict[str, Any]]]:
        found = []
        for path, channel in self.tables("channels"):
            accounts = channel.get("accounts")
            found.append((path, channel))
            for name, account in accounts.items() if isinstance(accounts, dict) else ():
                if isinstance(account, dict):
                    found.append(((*path, "accounts", name), account))
        return found

    def pop(self, path: KeyPath) -> Any:
        """Take a value out of the document; `GONE` where there was none."""
        parent = lookup(self.root, path[:-1])
        return parent.pop(path[-1], GONE) if isinstance(parent, dict) else GONE

    def put(self, path: KeyPath, value: Any, origin: KeyPath) -> None:
        parent = self._parent(path)
        if parent is not None:
            parent[str(path[-1])] = value
            self.origins.setdefault(path, origin)

    def lay_under(self, path: KeyPath, value: Any, origin: KeyPath) -> None:
        """Put a value where the document says nothing of its own; objects merge, and what is there wins."""
        parent = self._parent(path)
        if parent is None:
            self.notes.append(
                (origin, "is hidden by a value that is no object", "write the newer spelling as an object")
            )
            return
        last = str(path[-1])
        parent[last] = self.merged(value, parent[last], path, origin) if last in parent else value
        self.origins.setdefault(path, origin)

    def merged(self, under: Any, over: Any, path: KeyPath, origin: KeyPath) -> Any:
        """Lay what one spelling says over what another says of the same, and note where they differ."""
        self.hidden += ((where, (*origin, *where[len(path) :])) for where in differing(under, over, path))
        return merge(under, over)

    def move(self, old: KeyPath, new: KeyPath) -> None:
        """Move a value to its canonical place; a value that already stands there wins."""
        value = self.pop(old)
        if value is not GONE:
            self.lay_under(new, value, old)

    def _parent(self, path: KeyPath) -> dict[str, Any] | None:
        here = self.root
        for step in path[:-1]:
            inner = here.get(str(step))
            if inner is None:
                inner = here[str(step)] = {}
            if not isinstance(inner, dict):
                return None
            here = inner
        return here


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


_RANGE = late(r"\s*(\d{1,9})\s*(?:-|–|\.\.)\s*(\d{1,9})\s*")
_SNAKE = late(r"_([a-z0-9])")
_RELOAD_MODES = {"hot": "hybrid", "restart": "hybrid"}


def dotted(draft: Draft) -> None:
    """`"channels.whatsapp.blockStreaming": true` at the top level means the nested key."""
    for key in [key for key in draft.root if "." in key.strip(".")]:
        path = tuple(part.strip() for part in key.split(".") if part.strip())
        if "[" in key or (path[:2] == ("agents", "list") and len(path) > 2) or path[0] == "bindings":
            draft.notes.append(((key,), "names a place in a list, which a key cannot do", "write the list itself"))
        else:
            draft.move((key,), path)


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
                listed_at = draft.origins.get(where, where)
                entries[name] = draft.merged(below, item, where, listed_at)
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
