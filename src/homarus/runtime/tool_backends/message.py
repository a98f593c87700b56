"""The message tool's way to people. In its own chat a turn may always write; other chats are the owner's to open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from homarus.core.errors import ConfigError, DeliveryError, Denied, ToolError
from homarus.core.messages import Trust
from homarus.core.text import single_line
from homarus.runtime.chat_actions import ChatActions, Queued, Words
from homarus.tools.services import Json
from homarus.tools.tool import ToolContext

if TYPE_CHECKING:
    from homarus.runtime.runtime import Runtime
    from homarus.runtime.switchboard import Switchboard, Target

MAX_CHARS = 100_000


class CrossContext(Struct, frozen=True, rename="camel"):
    """Where a turn of a chat may write besides: in other chats of its channel, and on other channels."""

    allow_within_provider: bool = True
    allow_across_providers: bool = False

    @classmethod
    def disabled(cls) -> CrossContext:
        return cls(allow_within_provider=False)


class MessageSettings(Struct, frozen=True, rename="camel"):
    """`tools.message`."""

    cross_context: CrossContext = CrossContext()


class MessageBackend:
    """The `Sender` of a home. Beyond what is checked here, the gate asks as for everything that leaves the house."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def act(self, context: ToolContext, arguments: Json) -> Json:
        board = self._runtime.outlet
        if board is None:
            raise ToolError("no channel is served in this process", cure="it works where 'homarus gateway run' runs")
        try:
            where = self._where(board, context, arguments)
            return await self._act(board, where, context, arguments)
        except Queued as waits:
            return {"status": "queued", "note": str(waits)}
        except (ConfigError, DeliveryError) as problem:
            raise ToolError(problem.message, cure=problem.cure) from None

    async def _act(self, board: Switchboard, where: Target, context: ToolContext, arguments: Json) -> Json:
        action, doer = str(arguments["action"]), ChatActions(board)
        text, message_id = str(arguments.get("message") or ""), str(arguments.get("messageId") or "")
        ident = f"tool.{context.session_id}.{context.run_id}.{context.call_id}"
        if len(text) > MAX_CHARS:
            raise ToolError(f"the message is longer than {MAX_CHARS:,} characters", cure="say it in short")
        if action in {"send", "reply"}:
            media = [str(arguments["media"])] if arguments.get("media") else []
            readers = Trust.GROUP if context.shared or context.taint else context.trust
            files = tuple(str(board.attach(context.agent_id, path, readers)) for path in media)
            answers = message_id if action == "reply" else str(arguments.get("replyTo") or "")
            return await doer.send(where, Words(text=text, files=files, reply_to=answers), ident)
        if action == "poll":
            options = arguments.get("pollOption") or arguments.get("options") or ()
            question = str(arguments.get("pollQuestion") or text)
            return await doer.poll(where, question, [str(each) for each in options], ident)
        if action == "react":
            newest = message_id or board.answers(context.session)
            on = arguments.get("remove") is not True
            return await doer.react(where, newest, str(arguments.get("emoji") or ""), on=on)
        if action == "edit":
            return await doer.edit(where, message_id, text)
        if action == "delete":
            return await doer.delete(where, message_id)
        raise ToolError(
            f"there is no action '{single_line(action, 40)}'", cure="send, reply, react, edit, delete, poll"
        )

    def _where(self, board: Switchboard, context: ToolContext, arguments: Json) -> Target:
        """Return where a call leads; without a target, to the chat that the turn answers."""
        route = context.route
        channel, to = str(arguments.get("channel") or ""), str(arguments.get("target") or "")
        account, thread = str(arguments.get("accountId") or ""), str(arguments.get("threadId") or "")
        home = route.place is not None
        if not to:
            if not home or (channel and channel != route.channel):
                raise ToolError("this conversation is in no chat", cure="give channel and target")
            return board.target(route.channel, route.to, route.account, thread or route.thread)
        where = board.target(channel or (route.channel if home else ""), to, account or (route.account if home else ""))
        elsewhere = (where.channel, where.account, where.to) != (route.channel, route.account, route.to)
        if home and elsewhere:
            rules = self._runtime.home.config.block("tools.message", MessageSettings).cross_context
            same = where.channel == route.channel
            if not (rules.allow_within_provider if same else rules.allow_across_providers):
                key = "allowWithinProvider" if same else "allowAcrossProviders"
                raise Denied("this chat may not write elsewhere", cure=f"the owner's tools.message.crossContext.{key}")
        if elsewhere and context.trust not in {Trust.OWNER, Trust.PAIRED}:
            raise Denied("only the owner may have messages sent to others")
        return board.target(where.channel, where.to, where.account, thread)
