"""The models of one configuration, ready for use: names, chains, levels, `auto`, and a client per agent.

This is the one door through which the rest of the program comes; everything behind it is small and pure where it can be.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from homarus.config.convert import did_you_mean
from homarus.config.keypath import KeyPath
from homarus.config.view import AgentConfig, Config
from homarus.core.clock import Clock, chance, epoch_ms
from homarus.core.errors import ConfigError, ModelError
from homarus.models.auth import AuthStore, env_credentials
from homarus.models.calls import CallBook
from homarus.models.catalog import Catalog
from homarus.models.client import ModelClient
from homarus.models.info import ModelInfo
from homarus.models.levels import LEVELS, nearest, parse_level
from homarus.models.named import names_of
from homarus.models.ref import NOTEBOOK, ModelRef, Names, split_ref
from homarus.models.registry import BUILTIN, LOCAL, Factory, Registry
from homarus.models.rotation import Credential
from homarus.models.select import AUTO, Chain, Override, chain
from homarus.models.settings import AgentModelSettings, AuthSettings, ModelsSettings
from homarus.net.client import HttpClient
from homarus.net.proxy import proxies_from
from homarus.net.trust import trust_from


def can_run_files() -> bool:
    """Say whether the extra is installed that runs a model file."""
    return importlib.util.find_spec("xllamacpp") is not None


class Picked(Struct, frozen=True):
    """What `auto` chose, and why, in words for people."""

    ref: ModelRef
    why: str


class Models:
    """One per process and home: one HTTP client, and one catalogue and one registry for what the configuration says now."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        *,
        clock: Clock,
        http: HttpClient | None = None,
        dice: Callable[[], float] = chance,
    ) -> None:
        self.config = config
        self._env = config.variables(env)
        self.http = http or HttpClient(proxies=proxies_from(self._env), trust=trust_from(self._env))
        self._clock = clock
        self._dice = dice
        self.server_seconds = 0.0  # how long a server on this machine may think; 0 is what `discover` finds right
        self.calls = CallBook(config.paths.own_dir)
        self._factories: dict[str, Factory] = {}
        self._begin()

    def _begin(self) -> None:
        config, self._made_from = self.config, self._facts()
        self.catalog = Catalog(config.block("models", ModelsSettings))
        self.registry = Registry(
            self.catalog,
            http=self.http,
            clock=self._clock,
            models_dir=config.paths.models_dir,
            resolve=self._secret,
            factories=self._factories,
        )
        self._auth = config.block("auth", AuthSettings)
        self._stores: dict[str, AuthStore] = {}
        self._clients: dict[str, ModelClient] = {}
        self._picked: dict[str, Picked] = {}
        self._asked: set[str] = set()

    def _facts(self) -> tuple[object, ...]:
        config = self.config
        folders = {agent.id: agent.agent_dir for agent in config.agents}
        return config.get("models"), config.get("auth"), config.default_agent.id, folders

    def reread(self) -> None:
        """Go on with what the configuration says now. A turn that runs keeps the client that it has."""
        if self._facts() != self._made_from:
            self._begin()

    def _secret(self, value: Any) -> str:
        """Return a secret, or nothing where its reference cannot be followed: then another credential is tried."""
        try:
            return self.config.resolve(value)
        except ConfigError as problem:
            self.config.report("warning", ("models",), problem.message, problem.cure)
            return ""

    def names(self, agent: AgentConfig) -> Names:
        return names_of(agent, self.catalog)

    def store(self, agent: AgentConfig) -> AuthStore:
        """Return an agent's credentials; those of the main agent are visible to others only with `auth.inherit`."""
        found = self._stores.get(agent.id)
        if found is None:
            main = self.config.default_agent
            parent = self.store(main) if self._auth.inherit and agent.id != main.id else None
            found = AuthStore(agent.agent_dir, clock=self._clock, resolve=self._secret, parent=parent)
            self._stores[agent.id] = found
        return found

    def client(self, agent: AgentConfig) -> ModelClient:
        found = self._clients.get(agent.id)
        if found is None:
            found = self._clients[agent.id] = ModelClient(
                self.registry,
                self.store(agent),
                clock=self._clock,
                settings=self._auth,
                last_resort=self.bare_keys,
                dice=self._dice,
            )
            found.heard = self._heard
        return found

    def is_called(self, ref: ModelRef) -> bool:
        """Say whether a call of a model may fail for reasons of its own: it is a server, or a file. Only of these it is noted."""
        return ref.provider == LOCAL or self.registry.is_remote(ref.provider)

    def _heard(self, ref: ModelRef, error: ModelError | None) -> None:
        if self.is_called(ref):
            self.calls.note(ref.key, error, epoch_ms(self._clock.now()))

    def bare_keys(self, provider: str) -> list[Credential]:
        """Return keys that no profile holds: from the environment, then from the configuration."""
        keys = env_credentials(provider, self.catalog.provider(provider).env, self._env)
        own = self.catalog.own_settings(provider).api_key
        key = self._secret(own) if own else ""
        if key and all(item.secret != key for item in keys):
            keys.append(Credential(f"config:{provider}", provider, "api_key", key))
        return keys

    def info(self, ref: ModelRef) -> ModelInfo:
        return self.registry.info(ref)

    def window(self, agent: AgentConfig, ref: ModelRef) -> int:
        """Return how many tokens an agent may fill of a model's window: its `contextTokens` caps it."""
        cap = agent.block("", AgentModelSettings).context_tokens
        window = self.info(ref).window
        return min(cap, window) if cap is not None and cap > 0 else window

    async def chain(self, agent: AgentConfig, *, override: Override | None = None, images: bool = False) -> Chain:
        """Return the models of a turn; where nothing is configured, `auto` picks one."""
        found = chain(
            agent.raw, self.names(agent), override=override, images=images, sees=lambda ref: self.info(ref).sees
        )
        if found.models:
            await self._learn(found.models)
            return found
        picked = await self.auto(agent)
        return Chain((picked.ref,), AUTO, strict=True)

    async def _learn(self, refs: Sequence[ModelRef]) -> None:
        """Ask servers on this machine with how large a window they run the named models; one that is not there is asked again."""
        for name in {ref.provider for ref in refs} - self._asked:
            known = self.catalog.provider(name)
            told = all(self.catalog.is_told_window(ref) for ref in refs if ref.provider == name)
            if told or not known.local or not known.base_url:
                continue
            from homarus.models.discover import probe

            if server := await probe(self.http, name, known.base_url, self.server_seconds):
                for served in server.models:
                    self.catalog.learn(ModelRef(name, served.id), served.window)
                if name != "ollama":  # which gives a model its window when it loads it, so it is asked each time
                    self._asked.add(name)

    async def auto(self, agent: AgentConfig) -> Picked:
        """Pick a model without being told: a key, a server on this machine, a file, and at last the notebook.

        The choice holds for the life of the process, so that a conversation does not change its model between turns.
        """
        found = self._picked.get(agent.id)
        if found is None:
            found = self._by_key(agent) or await self._by_server() or self._by_file()
            found = found or Picked(ModelRef(*NOTEBOOK.split("/")), self._nothing())
            self._picked[agent.id] = found
        return found

    def _by_key(self, agent: AgentConfig) -> Picked | None:
        store = self.store(agent)
        for provider in self.catalog.providers():
            known = self.catalog.provider(provider)
            if known.local or provider in {BUILTIN, LOCAL}:
                continue
            keys = [*env_credentials(provider, known.env, self._env), *store.credentials(provider)]
            first = next(self.catalog.models(provider), None)
            model = known.default or (first.id if first else "")
            if keys and model:
                source = keys[0].id.removeprefix("env:")
                return Picked(ModelRef(provider, model), f"there is a key for {known.name} ({source})")
        return None

    async def _by_server(self) -> Picked | None:
        from homarus.models.discover import discover

        for server in await discover(self.http, self.catalog, seconds=self.server_seconds):
            if server.chat_models:
                model = server.chat_models[0]
                ref = ModelRef(server.provider, model.id)
                self.catalog.learn(ref, model.window)
                return Picked(ref, f"{self.catalog.provider(server.provider).name} runs at {server.base_url}")
        return None

    def _nothing(self) -> str:
        from homarus.models.gguf import find_models

        if not can_run_files() and any(find_models(self.config.paths.models_dir)):
            return "no key and no model server was found, and the extra 'local' that runs model files is not installed"
        return "no key, no model server and no model file was found"

    def _by_file(self) -> Picked | None:
        from homarus.models.gguf import NotGguf, find_models, read_info

        if not can_run_files():
            return None
        for path in find_models(self.config.paths.models_dir):
            try:
                read_info(path)
            except NotGguf:
                continue
            return Picked(ModelRef(LOCAL, path.stem), f"{path.name} lies in the models folder")
        return None

    def params(self, agent: AgentConfig, ref: ModelRef) -> dict[str, Any]:
        """Return the user's request settings for a model: provider, shared model entry, agent's model entry; later wins."""
        merged = dict(self.catalog.own_settings(ref.provider).params)
        for entries in (self.config.defaults.get("models"), agent.entry.get("models")):
            merged |= _params(entries, ref)
        return merged

    def level(self, agent: AgentConfig, ref: ModelRef, *, inline: str = "", session: str = "") -> str:
        """Return the thinking level of a turn, fitted to the model: the first of inline, session, agent, model, defaults."""
        info = self.info(ref)
        entry, entries = agent.entry, ("agents", "entries", agent.id)
        defaults, common = self.config.defaults, ("agents", "defaults")
        # Each with the key that says it; whoever asks in a message hears at once of a word that is no level.
        said: tuple[tuple[Any, KeyPath], ...] = (
            (inline, ()),
            (session, ()),
            (entry.get("thinkingDefault"), (*entries, "thinkingDefault")),
            _param(entry, entries, ref),
            _param(defaults, common, ref),
            (defaults.get("thinkingDefault"), (*common, "thinkingDefault")),
            (info.default_level, ()),
        )
        for text, key in said:
            level = parse_level(text) if isinstance(text, str) and text else None
            if isinstance(text, str) and text and level is None and key and not self.config.is_told(key):
                message = f"must be one of {', '.join(LEVELS)}{did_you_mean(text, LEVELS)}"
                self.config.report("error", key, message, "correct the value or remove the key; it does not count")
            if level:
                return nearest(level, info.levels) if info.levels else level if not info.known else "off"
        return nearest("medium", info.levels) if info.reasons else "off"

    async def aclose(self) -> None:
        """Close every connection; call it in the event loop that used them."""
        await self.http.aclose()


def _param(owner: Mapping[str, Any], path: KeyPath, ref: ModelRef) -> tuple[Any, KeyPath]:
    """Return the thinking level of a model's entry, and its key."""
    name = _entry_of(owner.get("models"), ref)
    return _params(owner.get("models"), ref).get("thinking"), (*path, "models", name, "params", "thinking")


def _entry_of(entries: Any, ref: ModelRef) -> str:
    """Return the name under which a table of models has one, or nothing."""
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        found = split_ref(name)
        if found is not None and found.key == ref.key and isinstance(entry, dict):
            return str(name)
    return ""


def _params(entries: Any, ref: ModelRef) -> dict[str, Any]:
    name = _entry_of(entries, ref)
    params = entries[name].get("params") if name else None
    return dict(params) if isinstance(params, dict) else {}
