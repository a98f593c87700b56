"""The blocks `channels.<id>` and `channels.<id>.accounts.<account>`: what every channel has, whatever its platform.

An account's block stands over its channel's, key by key: a table or a list of an account replaces the channel's and is
never mixed with it. A block that cannot be read switches its account off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from homarus.channels.channel import Manifest, Setting
from homarus.channels.discovery import RESERVED, manifests
from homarus.config.convert import did_you_mean
from homarus.config.keypath import merge
from homarus.config.known import near
from homarus.config.view import Config
from homarus.core.errors import ConfigError
from homarus.core.routes import DEFAULT_ACCOUNT, normalize_account_id
from homarus.delivery.place import Place
from homarus.delivery.settings import StreamingSettings

Entries = tuple[str | int, ...]
GroupPolicy = Literal["allowlist", "open", "disabled"]
Visibility = Literal["all", "allowlist", "allowlist_quote"]
Bots = bool | Literal["mentions"]
Reactions = Literal["off", "own", "all", "allowlist"]

# Where orders come from that no platform brings.
_INNER = ("acp", "boot", "cron", "heartbeat", "hook", "mcp", "openai", "subagent", "system")
# Keys of these blocks that other packages read, or that have no effect; a slip is told apart from them.
_ELSEWHERE = (
    *("accounts", "tools", "toolsBySender", "streaming", "blockStreaming", "retry", "ackReaction", "responsePrefix"),
    *(
        "replyToMode",
        "reactionLevel",
        "actions",
        "commands",
        "capabilities",
        "healthMonitor",
        "execApprovals",
        "skills",
    ),
)


class _Beside:
    """The keys that stand beside those of the class: other packages' and, for a channel, its platform's own."""

    def __iter__(self) -> Iterator[str]:
        yield from _ELSEWHERE
        for manifest in manifests().values():
            yield from manifest.settings


class LoopGuard(Struct, frozen=True, rename="camel"):
    """How many messages another bot and the agent may exchange before there is a pause."""

    enabled: bool | None = None
    max_events_per_window: int | None = None
    window_seconds: float | None = None
    cooldown_seconds: float | None = None


class ImplicitMentions(Struct, frozen=True, rename="camel"):
    """What counts as a mention although nobody was named."""

    reply_to_bot: bool | None = None
    quoted_bot: bool | None = None
    thread_participation: bool | None = None


class MentionPatterns(Struct, frozen=True, rename="camel"):
    """Where the agent's name in the text counts as a mention."""

    mode: Literal["allow", "deny"] = "allow"
    allow_in: Entries = ()
    deny_in: Entries = ()


class Chat(Struct, frozen=True, rename="camel"):
    """One entry of `groups`, `channels`, `guilds`, `topics` or `direct`: what is different in that chat."""

    beside: ClassVar[tuple[str, ...]] = _ELSEWHERE

    enabled: bool = True
    allow: bool = True  # the older name
    require_mention: bool | None = None
    group_policy: GroupPolicy | None = None
    allow_from: Entries | None = None
    users: Entries | None = None
    roles: Entries | None = None
    allow_bots: Bots | None = None
    bot_loop_protection: LoopGuard | None = None
    history_limit: int | None = None
    reaction_notifications: Reactions | None = None
    system_prompt: str = ""
    channels: dict[str, Chat] | None = None
    topics: dict[str, Chat] | None = None

    @classmethod
    def disabled(cls) -> Chat:
        return cls(enabled=False)


class Direct(Struct, frozen=True, rename="camel"):
    """`dm`: whether people can write to it alone at all."""

    enabled: bool = True


class MarkdownSettings(Struct, frozen=True, rename="camel"):
    tables: Literal["code", "bullets", "block", "off"] | None = None


class ChannelSettings(Struct, frozen=True, rename="camel"):
    """What every channel has. Without a word on it nobody is let in: strangers get a code, groups are closed."""

    beside: ClassVar[_Beside] = _Beside()

    enabled: bool = True
    name: str = ""
    default_account: str = ""
    dm_policy: Literal["pairing", "allowlist", "open", "disabled"] = "pairing"
    allow_from: Entries | None = None
    dm: Direct = Direct()
    direct: dict[str, Chat] = {}
    group_policy: GroupPolicy | None = None
    group_allow_from: Entries | None = None
    groups: dict[str, Chat] | None = None
    # Slack and Discord name the places by another word; on IRC it is a list of rooms to join, which lets nobody in.
    channels: dict[str, Chat] | tuple[Any, ...] | None = None
    guilds: dict[str, Chat] | None = None
    require_mention: bool | None = None
    mention_patterns: MentionPatterns = MentionPatterns()
    implicit_mentions: ImplicitMentions = ImplicitMentions()
    history_limit: int | None = None
    context_visibility: Visibility | None = None
    allow_bots: Bots = False
    bot_loop_protection: LoopGuard = LoopGuard()
    dangerously_allow_name_matching: bool = False
    reaction_notifications: Reactions = "own"
    reaction_allowlist: Entries = ()
    media_max_mb: float | None = None
    text_chunk_limit: int | None = None
    max_lines_per_message: int | None = None
    markdown: MarkdownSettings = MarkdownSettings()

    @classmethod
    def disabled(cls) -> ChannelSettings:
        return cls(enabled=False, dm_policy="disabled", group_policy="disabled")


class ChannelDefaults(Struct, frozen=True, rename="camel"):
    """`channels.defaults`: what holds where a channel says nothing."""

    group_policy: GroupPolicy | None = None
    context_visibility: Visibility | None = None
    implicit_mentions: ImplicitMentions = ImplicitMentions()
    bot_loop_protection: LoopGuard = LoopGuard()

    @classmethod
    def disabled(cls) -> ChannelDefaults:
        return cls(group_policy="disabled", context_visibility="allowlist")


class AccessGroup(Struct, frozen=True, rename="camel"):
    """`accessGroups.<name>`: people by channel, `*` for every channel. It lets nobody in by itself."""

    type: str = "message.senders"
    members: dict[str, Entries] = {}

    @classmethod
    def disabled(cls) -> AccessGroup:
        return cls()

    @property
    def warnings(self) -> Iterator[tuple[tuple[str, ...], str]]:
        if self.type != "message.senders":
            yield ("type",), f"'{self.type}' is not known here, so the group has no members"


class Account(Struct, frozen=True):
    """One account of a channel as the configuration has it: its settings, and its platform's own keys, secrets not yet fetched."""

    channel: str
    id: str
    settings: ChannelSettings
    place: Place
    aliases: tuple[str, ...] = ()
    own: dict[str, Any] = {}
    default: bool = False
    # Required keys that are not there.
    missing: tuple[str, ...] = ()

    @property
    def configured(self) -> bool:
        return not self.missing


def channel_block(config: Config, channel: str) -> dict[str, Any] | None:
    """Return a channel's block; None where there is none. A plain `true` switches it on, as nothing else does."""
    table = config.get("channels")
    found = table.get(channel) if isinstance(table, dict) else None
    if isinstance(found, bool):
        return {"enabled": found}
    return found if isinstance(found, dict) else None


def accounts_of(config: Config, manifest: Manifest, env: Mapping[str, str]) -> dict[str, Account]:
    """Return the accounts of a channel by id; none where the configuration has no block for it."""
    block = channel_block(config, manifest.id)
    if block is None:
        return {}
    blocks = _account_blocks(block)
    default = _default_of(block, blocks)
    return {name: _account(config, manifest, env, name, default) for name in blocks}


def account_of(config: Config, manifest: Manifest, account: str, env: Mapping[str, str]) -> Account:
    """Return one account; one that the configuration does not have is switched off."""
    found = accounts_of(config, manifest, env).get(normalize_account_id(account))
    if found is not None:
        return found
    return Account(manifest.id, normalize_account_id(account), ChannelSettings.disabled(), manifest.place)


def default_account(config: Config, channel: str) -> str:
    """Return the account that is meant where none is named: `defaultAccount`, else `default`, else the first."""
    block = channel_block(config, channel)
    return _default_of(block, _account_blocks(block)) if block is not None else DEFAULT_ACCOUNT


def fetched(account: Account, config: Config, manifest: Manifest) -> dict[str, Any]:
    """Return the account's platform keys with every secret in place. May ask programs and files: not for an event loop."""
    found = dict(account.own)
    for key, setting in manifest.settings.items():
        if setting.secret and found.get(key) not in (None, ""):
            try:
                found[key] = config.resolve(found[key])
            except ConfigError as problem:
                where = f"channels.{account.channel}.{key} (account {account.id})"
                raise ConfigError(f"{where}: {problem.message}", cure=problem.cure) from None
    return found


def narrowed(place: Place, settings: ChannelSettings) -> Place:
    """Return what a platform can show, less what the settings take away; they never add."""
    limit, lines, tables = settings.text_chunk_limit, settings.max_lines_per_message, settings.markdown.tables
    if limit is not None and limit > 0:
        place = replace(place, limit=min(place.limit, limit))
    if lines is not None and lines > 0:
        place = replace(place, lines=min(place.lines or lines, lines))
    if settings.media_max_mb is not None:
        place = replace(place, media_bytes=min(place.media_bytes, max(0, int(settings.media_max_mb * 1_000_000))))
    if tables is not None:
        place = replace(place, tables="code" if tables == "block" else tables)
    return place


def _account_blocks(block: Mapping[str, Any]) -> dict[str, Any]:
    table = block.get("accounts")
    if not isinstance(table, dict) or not table:
        # Something else than a table stands there: one account, and it is off.
        return {DEFAULT_ACCOUNT: {} if not table else {"enabled": False}}
    return {normalize_account_id(str(name)): inner for name, inner in table.items()}


def _default_of(block: Mapping[str, Any], blocks: Mapping[str, Any]) -> str:
    named = block.get("defaultAccount")
    wanted = normalize_account_id(named) if isinstance(named, str) and named else DEFAULT_ACCOUNT
    return wanted if wanted in blocks else DEFAULT_ACCOUNT if DEFAULT_ACCOUNT in blocks else min(blocks)


def _account(config: Config, manifest: Manifest, env: Mapping[str, str], name: str, default: str) -> Account:
    block = channel_block(config, manifest.id) or {}
    inner = _account_blocks(block)[name]
    own = inner if isinstance(inner, dict) else {"enabled": inner is True}
    both = {key: value for key, value in block.items() if key not in {"accounts", "enabled"}} | own
    path = ("channels", manifest.id, "accounts", name)
    common = {key: value for key, value in both.items() if key not in manifest.settings}
    settings = config.convert_block(common, ChannelSettings, path)
    if "dmPolicy" not in common and settings.dm_policy == "pairing":
        settings = replace(settings, dm_policy=manifest.dm_policy)
    if block.get("enabled", True) is not True:
        settings = replace(settings, enabled=False)  # a channel that is off has no account that is on
    keys = {key: both.get(key, setting.default) for key, setting in manifest.settings.items()}
    if name == DEFAULT_ACCOUNT:
        for key, setting in manifest.settings.items():
            if keys[key] in (None, "") and setting.env and env.get(setting.env):
                keys[key] = env[setting.env]
    missing = tuple(key for key, setting in manifest.settings.items() if setting.required and keys[key] in (None, ""))
    said = merge(block.get("streaming") or {}, own.get("streaming") or {})
    streaming = config.convert_block(said, StreamingSettings, (*path, "streaming"))
    place = narrowed(manifest.place, settings)
    place = replace(place, dialect=manifest.dialects.get(str(keys.get("formatting")), place.dialect))
    lacking = {
        name: False
        for key, names in manifest.lacks.items()
        if bool(keys.get(key.lstrip("!"))) is not key.startswith("!")
        for name in names
    }
    place = replace(place, **lacking) if lacking else place
    return Account(
        channel=manifest.id,
        id=name,
        settings=settings,
        place=replace(place, chunk_mode=streaming.chunk_mode or place.chunk_mode),
        aliases=manifest.aliases,
        own={key: value for key, value in keys.items() if value is not None},
        default=name == default,
        missing=missing,
    )


# What `config validate` knows of platforms.


def more_keys() -> Iterator[str]:
    """Yield the keys that platforms have besides, as the table of known keys spells them."""
    for manifest in manifests().values():
        for key in manifest.settings:
            yield f"channels.{manifest.id}.{key}"
            yield f"channels.{manifest.id}.accounts.*.{key}"


def check(config: Config) -> None:
    """Report channels that are not served, platform keys of the wrong kind, and rules that let nobody or everybody in."""
    table = config.get("channels")
    for name in table if isinstance(table, dict) else ():
        manifest = manifests().get(name)
        if manifest is None:
            if name not in RESERVED and not config.is_told(("channels", name)):
                message = "has no effect here: no such channel is served"
                meant = near(name, manifests(), taken=table)
                served = f"those served are {', '.join(manifests()) or 'none yet'}; it is kept as it is"
                cure = f"did you mean '{meant}'?" if meant else served
                config.report("warning", ("channels", name), message, cure)
            continue
        block = channel_block(config, name) or {}
        _check_keys(config, manifest, block, ("channels", name))
        inner = block.get("accounts")
        seen: set[str] = set()
        for account, own in inner.items() if isinstance(inner, dict) else ():
            if (normal := normalize_account_id(str(account))) in seen:
                message = f"is the same account as another one: both are '{normal}'"
                config.report("error", ("channels", name, "accounts", account), message, "rename one; the last counts")
            seen.add(normal)
            if isinstance(own, dict):
                _check_keys(config, manifest, own, ("channels", name, "accounts", account))
        for account in accounts_of(config, manifest, config.env).values():
            _check_rules(config, account)


def unknown_channels(config: Config, path: tuple[str, ...]) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Yield where the rows of a list match a channel that nothing here is called, each with the one that is nearly called so."""
    rows, known = config.lookup(path), _known(config)
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        match = row.get("match") if isinstance(row, dict) else None
        name = match.get("channel") if isinstance(match, dict) else None
        if isinstance(name, str) and name.strip() and name.strip().lower() not in known:
            yield (*path, index, "match", "channel"), f"there is no channel '{name}' here", near(name, known)


def check_targets(config: Config) -> None:
    """Report heartbeats that are told to a channel which is nearly called so."""
    known = {*_known(config), "owner"}
    for owner in (("agents", "defaults"), *(("agents", "entries", agent.id) for agent in config.agents)):
        path = (*owner, "heartbeat", "target")
        name = config.lookup(path)
        if isinstance(name, str) and name.strip().lower() not in known and (meant := near(name, known)):
            config.report("warning", path, f"there is no channel '{name}' here", f"did you mean '{meant}'?")


def _known(config: Config) -> set[str]:
    table = config.get("channels")
    return {*manifests(), *(table if isinstance(table, dict) else ()), *RESERVED, *_INNER}


def _check_keys(config: Config, manifest: Manifest, block: Mapping[str, Any], path: tuple[str, ...]) -> None:
    for key, setting in manifest.settings.items():
        value = block.get(key)
        if value is not None and not fits(value, setting):
            wanted = f"one of {', '.join(setting.words)}" if setting.words else _KINDS[setting.type][1]
            told = f"must be {wanted}{did_you_mean(value, setting.words)}"
            config.report("error", (*path, key), told, "correct it; the account is off until then")


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "text"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "strings": ((list,), "a list of texts"),
    "object": ((dict, list), "an object or a list"),
}


def fits(value: Any, setting: Setting) -> bool:
    """Say whether a value can stand for a platform's key. A secret may be a reference, and a variable is always text."""
    if setting.words and value not in ("", *setting.words):
        return False
    if isinstance(value, str) and setting.type == "boolean":
        return value.strip().lower() in ("", "true", "false", "1", "0")
    if isinstance(value, str):
        return setting.type != "object" and (setting.type != "number" or value.strip().isdecimal())
    if setting.secret and isinstance(value, dict):
        return True
    if setting.type == "strings":
        return isinstance(value, list) and all(isinstance(item, str | int) for item in value)
    if isinstance(value, bool):
        return setting.type == "boolean"
    return isinstance(value, int) if setting.type == "string" else isinstance(value, _KINDS[setting.type][0])


def _check_rules(config: Config, account: Account) -> None:
    settings, path = account.settings, ("channels", account.channel)
    if not settings.enabled:
        return
    if settings.dm_policy == "open" and "*" not in (settings.allow_from or ()):
        cure = 'write allowFrom: ["*"] to let everybody in, or dmPolicy: "allowlist"'
        config.report("warning", (*path, "dmPolicy"), "lets in only those whom allowFrom names", cure)
    if settings.dm_policy == "allowlist" and not settings.allow_from:
        cure = "name people in allowFrom, or approve them with 'homarus pairing approve'"
        config.report("warning", (*path, "allowFrom"), "is empty, so nobody but those approved is let in", cure)
