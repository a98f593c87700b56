"""How the agent behaves in chats: the keys of a channel, of `messages` and of an agent that say so."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Struct

from homarus.config.convert import one_of
from homarus.config.keypath import merge
from homarus.config.view import Config
from homarus.core.messages import Inbound
from homarus.core.routes import Route, normalize_account_id
from homarus.delivery.place import Place
from homarus.delivery.retry import RetrySettings
from homarus.delivery.settings import (
    BlockSettings,
    DeliverySettings,
    Mode,
    StreamingSettings,
    block_settings,
    preview_blocks,
    preview_mode,
)
from homarus.sessions.row import SessionEntry

EYES = "👀"


class SpeechSettings(Struct, frozen=True, rename="camel"):
    """`agents.defaults`: what of a turn its chat sees besides the answer, where its session says nothing."""

    verbose_default: Annotated[str, one_of(("off", "on", "full"))] = "off"
    reasoning_default: Annotated[str, one_of(("off", "on", "stream"))] = "off"


class Manner(Struct, frozen=True, kw_only=True):
    """How a turn speaks in its chat, worked out before it begins."""

    place: Place = Place()
    blocks: BlockSettings = BlockSettings()
    # Whether the answer is seen while it is written, and how.
    preview: Mode = "off"
    streaming: StreamingSettings = StreamingSettings()
    verbose: str = "off"
    reasoning: str = "off"
    usage: str | None = None
    # Which messages of an answer point at what they answer: `off`, `first` or `all`.
    reply_mode: str = "off"
    prefix: str = ""
    # Nothing of the answer is sent by itself: the session's send policy, or a group in which the agent uses its tool.
    muted: bool = False


class ExecApprovals(Struct, frozen=True, rename="camel"):
    """Who is asked besides the owner, by their ids on the channel."""

    enabled: bool = True
    approvers: tuple[str | int, ...] = ()


class ActionSwitches(Struct, frozen=True, rename="camel"):
    """What may be done in the chats of an account besides answering, and the names that OpenClaw has for it on some platforms."""

    reactions: bool = True
    edits: bool = True
    deletes: bool = True
    polls: bool = True
    messages: bool = True
    edit_message: bool = True
    delete_message: bool = True
    poll: bool = True
    send_message: bool = True


class ChatSettings(Struct, frozen=True, rename="camel"):
    """`channels.<id>` and one of its accounts: how the agent writes there."""

    ack_reaction: str | None = None
    response_prefix: str | None = None
    reply_to_mode: Literal["off", "first", "all", "batched"] = "off"
    exec_approvals: ExecApprovals = ExecApprovals()
    streaming: StreamingSettings = StreamingSettings()
    retry: RetrySettings = RetrySettings()
    actions: ActionSwitches = ActionSwitches()

    def is_off(self, action: str) -> bool:
        """Say whether one of `reactions`, `edits`, `deletes`, `polls` and `messages` is switched off, by whichever name."""
        may = self.actions
        return not {
            "reactions": may.reactions,
            "edits": may.edits and may.edit_message,
            "deletes": may.deletes and may.delete_message,
            "polls": may.polls and may.poll,
            "messages": may.messages and may.send_message,
        }[action]


class GroupReplies(Struct, frozen=True, rename="camel"):
    visible_replies: Literal["automatic", "message_tool"] = "automatic"


class MessagesSettings(Struct, frozen=True, rename="camel"):
    """`messages`."""

    ack_reaction: str | None = None
    ack_reaction_scope: Literal["group-mentions", "group-all", "direct", "all", "off", "none"] = "group-mentions"
    remove_ack_after_reply: bool = False
    response_prefix: str = ""
    group_chat: GroupReplies = GroupReplies()


class SendMatch(Struct, frozen=True, rename="camel"):
    """Which sessions a rule is about; what is not named fits all."""

    channel: str = ""
    chat_type: Annotated[str, one_of(("direct", "group", "channel", "room"), also=("dm",))] = ""
    key_prefix: str = ""
    raw_key_prefix: str = ""

    def fits(self, route: Route, chat_type: str) -> bool:
        key = str(route.session_key)
        bare = key.split(":", 2)[-1]
        channel, kind = self.channel.strip().lower(), self.chat_type.strip().lower()
        named = channel in ("", route.channel.lower()) and {"dm": "direct"}.get(kind, kind) in ("", chat_type)
        return named and bare.startswith(self.key_prefix) and key.startswith(self.raw_key_prefix)


class SendRule(Struct, frozen=True, rename="camel"):
    action: Literal["allow", "deny"] = "deny"
    match: SendMatch = SendMatch()


class SendPolicy(Struct, frozen=True, rename="camel"):
    """`session.sendPolicy`: where answers are sent at all. A rule that denies wins; a block that cannot be read sends nothing."""

    default: Literal["allow", "deny"] = "allow"
    rules: tuple[SendRule, ...] = ()

    @classmethod
    def disabled(cls) -> SendPolicy:
        return cls(default="deny")

    def allows(self, route: Route, chat_type: str) -> bool:
        found = {rule.action for rule in self.rules if rule.match.fits(route, chat_type)}
        return "deny" not in found and ("allow" in found or self.default == "allow")


def chat_settings(config: Config, channel: str, account: str) -> ChatSettings:
    """Return what holds for an account: its own keys over those of its channel."""
    table = config.get("channels")
    block = table.get(channel) if isinstance(table, dict) else None
    own: dict[str, Any] = dict(block) if isinstance(block, dict) else {}
    accounts = own.pop("accounts", None)
    for name, inner in accounts.items() if isinstance(accounts, dict) else ():
        if normalize_account_id(str(name)) == account and isinstance(inner, dict):
            both = {key: merge(own.get(key) or {}, inner.get(key) or {}) for key in ("streaming", "actions")}
            own |= {**inner, **both}
    return config.convert_block(own, ChatSettings, ("channels", channel))


def manner_for(config: Config, route: Route, inbound: Inbound, entry: SessionEntry, place: Place) -> Manner:
    """Return how a turn that answers a message speaks."""
    agent, chat = config.agent(route.agent_id), chat_settings(config, route.channel, route.account)
    messages, speech = config.block("messages", MessagesSettings), agent.block("", SpeechSettings)
    delivery = agent.block("", DeliverySettings)
    levels = dict((inbound.facts or {}).get("levels") or {})
    by_tool = inbound.chat_type != "direct" and messages.group_chat.visible_replies == "message_tool"
    policy = config.block("session.sendPolicy", SendPolicy)
    sends = entry.send_policy == "allow" if entry.send_policy else policy.allows(route, inbound.chat_type)
    prefix = messages.response_prefix if chat.response_prefix is None else chat.response_prefix
    if prefix == "auto":
        prefix = f"[{agent.get('identity.name') or agent.get('name') or agent.id}]"
    blocks = block_settings(delivery, chat.streaming, route.channel, place)
    preview = preview_mode(delivery, chat.streaming, route.channel, place)
    return Manner(
        place=place,
        blocks=preview_blocks(chat.streaming, place) if preview == "block" else blocks,
        preview=preview,
        streaming=chat.streaming,
        verbose=str(levels.get("verbose") or entry.verbose_level or speech.verbose_default).strip().lower(),
        reasoning=str(levels.get("reasoning") or entry.reasoning_level or speech.reasoning_default).strip().lower(),
        usage=entry.response_usage,
        reply_mode="all" if chat.reply_to_mode == "batched" else chat.reply_to_mode,
        prefix=prefix,
        muted=by_tool or not sends,
    )


def ack_reaction(config: Config, route: Route, inbound: Inbound) -> str:
    """Return the sign that a message was read, where one is shown; empty where none is."""
    messages, chat = config.block("messages", MessagesSettings), chat_settings(config, route.channel, route.account)
    scope, direct = messages.ack_reaction_scope, inbound.chat_type == "direct"
    wanted = {
        "all": True,
        "direct": direct,
        "group-all": not direct,
        "group-mentions": not direct and inbound.mentioned,
    }.get(scope, False)
    if not wanted:
        return ""
    own = messages.ack_reaction if chat.ack_reaction is None else chat.ack_reaction
    return str(config.agent(route.agent_id).get("identity.emoji") or EYES) if own is None else own
