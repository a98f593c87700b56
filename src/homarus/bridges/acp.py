"""`homarus acp`: an editor drives an agent of this home over the Agent Client Protocol, on standard input and output.

The editor is the owner's own program, and the person in front of it attends: questions of the gate are asked there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from homarus.core.errors import HomarusError
from homarus.core.events import (
    ApprovalAsked,
    Notice,
    RunEnded,
    RunEvent,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from homarus.core.messages import Assistant, Image, Message, Text, Thinking, ToolResult, Trust, User
from homarus.core.routes import SessionKey
from homarus.core.text import single_line
from homarus.runtime.client import Client, RunOptions

if TYPE_CHECKING:
    import acp

MAX_REPLAYED, MAX_LISTED = 500, 100
_KINDS = {
    **dict.fromkeys(("read", "ls", "memory_get"), "read"),
    **dict.fromkeys(("write", "edit", "apply_patch"), "edit"),
    **dict.fromkeys(("grep", "find", "memory_search", "web_search"), "search"),
    **dict.fromkeys(("exec", "process"), "execute"),
    "web_fetch": "fetch",
}
_OPTIONS = (("allow-once", "Allow once", "allow_once"), ("allow-always", "Always allow", "allow_always"), ("deny", "Deny", "reject_once"))  # fmt: skip


class AcpAgent:
    """The agent's side of the protocol; an editor may have several sessions open at once."""

    def __init__(self, client: Client, agent: str, session: str = "") -> None:
        self._client = client
        self._agent = agent
        self._fixed = session
        self._editor: Any = None
        # The folder that an editor works in, by session, until the model has been told.
        self._folders: dict[str, str] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: acp.Client) -> None:
        self._editor = conn

    async def initialize(self, protocol_version: int, **_: Any) -> Any:
        from acp import schema

        from homarus import __version__

        able = schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
            session_capabilities=schema.SessionCapabilities(
                list=schema.SessionListCapabilities(),
                resume=schema.SessionResumeCapabilities(),
                close=schema.SessionCloseCapabilities(),
            ),
        )
        info = schema.Implementation(name="homarus", title="homarus", version=__version__)
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, 1), agent_capabilities=able, agent_info=info, auth_methods=[]
        )

    async def authenticate(self, method_id: str, **_: Any) -> None:
        return None

    # Sessions. Their ids are the keys of this home.

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> Any:
        from uuid import uuid4

        from acp import schema

        _no_servers(mcp_servers)
        key = self._client.resolve(self._agent, self._fixed or f"acp-{uuid4().hex[:12]}")
        await self._begin(key, cwd)
        return schema.NewSessionResponse(session_id=str(key))

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> Any:
        """Open a session that was there before, and tell the editor what was said in it."""
        from acp import schema

        _no_servers(mcp_servers)
        key = await self._known(session_id)
        for message in await self._client.history(key, MAX_REPLAYED):
            await self._replay(str(key), message)
        await self._begin(key, cwd)
        return schema.LoadSessionResponse()

    async def resume_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> Any:
        from acp import schema

        _no_servers(mcp_servers)
        await self._begin(await self._known(session_id), cwd)
        return schema.ResumeSessionResponse()

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> Any:
        from datetime import UTC, datetime

        from acp import schema

        rows = [
            schema.SessionInfo(
                session_id=str(info.key),
                cwd=cwd or "/",
                title=info.title or info.name,
                updated_at=datetime.fromtimestamp((info.entry.updated_at or 0) / 1000, UTC).isoformat(),
            )
            for info in (await self._client.sessions(self._agent))[:MAX_LISTED]
        ]
        return schema.ListSessionsResponse(sessions=rows)

    async def close_session(self, session_id: str, **_: Any) -> Any:
        from acp import schema

        self._client.abort(self._client.resolve(self._agent, session_id), "the editor closed the session")
        self._folders.pop(session_id, None)
        return schema.CloseSessionResponse()

    async def _known(self, session_id: str) -> SessionKey:
        from acp import RequestError

        key = self._client.resolve(self._agent, session_id)
        if not any(info.key == key for info in await self._client.sessions(self._agent)):
            raise RequestError.resource_not_found(session_id)
        return key

    async def _begin(self, key: SessionKey, cwd: str) -> None:
        from acp import schema
        from acp.helpers import update_available_commands

        self._folders[str(key)] = cwd
        words = await self._client.vocabulary(key)
        rows = [schema.AvailableCommand(name=name, description=text or name) for name, text in words.commands.items()]
        await self._editor.session_update(str(key), update_available_commands(rows))

    # One turn.

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> Any:
        """Answer a prompt: everything that happens is told as it happens, and the last word is why it ended."""
        from acp import RequestError, schema

        key = self._client.resolve(self._agent, session_id)
        text, images = _said(prompt)
        folder = self._folders.pop(session_id, "")
        if folder and not text.startswith("/"):
            text = f"[working directory: {single_line(folder, 500)}]\n{text}"
        options = RunOptions(images=images, channel="acp", trust=Trust.OWNER)
        leave, ended = self._client.attend(key), RunEnded("", "ok")
        try:
            async for event in self._client.run(key, text, options):
                await self._tell(session_id, event)
                ended = event if isinstance(event, RunEnded) else ended
        except HomarusError as problem:
            raise RequestError(-32603, single_line(str(problem), 1_000)) from None
        finally:
            leave()
        await self._close(session_id, key)
        if ended.status == "error":
            raise RequestError(-32603, single_line(ended.error or "the turn failed", 1_000))
        reasons = {"aborted": "cancelled", "timeout": "cancelled"}
        return schema.PromptResponse(stop_reason=reasons.get(ended.status, "end_turn"))

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._client.abort(self._client.resolve(self._agent, session_id), "stopped in the editor")

    async def _tell(self, session_id: str, event: RunEvent) -> None:
        from acp import helpers

        update: Any = None
        match event:
            case TextDelta():
                update = helpers.update_agent_message_text(event.text)
            case Notice(kind="reply"):
                update = helpers.update_agent_message_text(f"{event.text}\n")
            case ThinkingDelta():
                update = helpers.update_agent_thought_text(event.text)
            case ToolStarted():
                update = helpers.start_tool_call(
                    event.call_id,
                    _title(event),
                    kind=_KINDS.get(event.name, "other"),
                    status="in_progress",
                    raw_input=event.arguments,
                )
            case ToolProgress():
                update = helpers.update_tool_call(event.call_id, status="in_progress", content=_content(event.text))
            case ToolEnded():
                status: Any = "failed" if event.result.is_error else "completed"
                update = helpers.update_tool_call(
                    event.result.call_id, status=status, content=_content(event.result.text)
                )
            case ApprovalAsked():
                task = asyncio.create_task(self._ask(session_id, event))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
        if update is not None:
            await self._editor.session_update(session_id, update)

    async def _ask(self, session_id: str, asked: ApprovalAsked) -> None:
        """Put a question to the person in front of the editor. Whatever goes wrong with it is a no."""
        from acp import schema
        from acp.helpers import text_block, tool_content

        body = [tool_content(text_block(f"{asked.title}\n\n{asked.detail}"))]
        call = schema.ToolCallUpdate(tool_call_id=asked.approval_id, title=single_line(asked.title, 200), content=body)
        offered = [each for each in _OPTIONS if asked.lasting or each[0] != "allow-always"]
        options = [schema.PermissionOption(option_id=each, name=name, kind=kind) for each, name, kind in offered]
        decision = "deny"
        try:
            answer = await self._editor.request_permission(session_id=session_id, tool_call=call, options=options)
            decision = getattr(answer.outcome, "option_id", "deny")
        finally:
            try:
                await self._client.answer(asked.approval_id, decision)
            except HomarusError:
                pass  # it was answered elsewhere, or its time is over

    async def _close(self, session_id: str, key: SessionKey) -> None:
        from acp import schema

        status = await self._client.status(key)
        if status.window:
            usage = schema.UsageUpdate(session_update="usage_update", used=status.used, size=status.window)
            await self._editor.session_update(session_id, usage)

    async def _replay(self, session_id: str, message: Message) -> None:
        from acp import helpers

        updates: list[Any] = []
        match message:
            case User():
                updates = [helpers.update_user_message_text(message.text)]
            case Assistant():
                for part in message.parts:
                    if isinstance(part, Text):
                        updates.append(helpers.update_agent_message_text(part.text))
                    elif isinstance(part, Thinking) and part.text:
                        updates.append(helpers.update_agent_thought_text(part.text))
                updates += [
                    helpers.start_tool_call(call.id, call.name, status="in_progress", raw_input=call.arguments)
                    for call in message.calls
                ]
            case ToolResult():
                status: Any = "failed" if message.is_error else "completed"
                updates = [helpers.update_tool_call(message.call_id, status=status, content=_content(message.text))]
        for update in updates:
            await self._editor.session_update(session_id, update)


def _no_servers(servers: Any) -> None:
    if servers:
        from acp import RequestError

        raise RequestError(
            -32602, "MCP servers of an editor are not taken over; name them in mcp.servers of this home's configuration"
        )


def _said(blocks: list[Any]) -> tuple[str, tuple[Image, ...]]:
    """Return what a prompt says in words, and its pictures; documents come with their names."""
    words: list[str] = []
    images: list[Image] = []
    for block in blocks:
        if block.type == "text":
            words.append(block.text)
        elif block.type == "image":
            images.append(Image(block.data, block.mime_type))
        elif block.type == "resource":
            inner = getattr(block.resource, "text", None)
            words.append(f"[{block.resource.uri}]\n{inner}" if inner is not None else f"[{block.resource.uri}]")
        elif block.type == "resource_link":
            words.append(f"[{block.name}: {block.uri}]")
    return "\n".join(words), tuple(images)


def _title(event: ToolStarted) -> str:
    first = next((str(value) for value in event.arguments.values() if isinstance(value, str | int)), "")
    return single_line(f"{event.name} {first}", 200)


def _content(text: str) -> list[Any]:
    from acp.helpers import text_block, tool_content

    return [tool_content(text_block(text[:20_000]))]


async def serve(client: Client, agent: str, session: str = "") -> None:
    """Serve over standard input and output until the editor is gone."""
    from acp import run_agent

    await run_agent(AcpAgent(client, agent, session))
