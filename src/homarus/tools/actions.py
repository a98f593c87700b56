"""message, cron, gateway and image: each a thin door to what the composition provides behind a contract."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from homarus.core.errors import ToolError
from homarus.core.tools import Risk, ToolSpec
from homarus.tools.files import MAX_IMAGE_BYTES, image_kind
from homarus.tools.paths import Reach, locate, open_to_read, opened
from homarus.tools.tool import Tool, ToolContext, ToolOutput, allowing, said

if TYPE_CHECKING:
    from homarus.tools.services import GatewayControl, Scheduler, Sender, VisionBackend


_TEXT: dict[str, Any] = {"type": "string"}

MESSAGE = ToolSpec(
    name="message",
    order=160,
    summary="send a message to a person or chat",
    description="Send or react in a chat; without target, in this conversation. For plain answers just answer.",
    parameters={
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["send", "reply", "react", "edit", "delete", "poll"]},
            "target": _TEXT,
            "channel": _TEXT,
            "message": _TEXT,
            "media": {"type": "string", "description": "path of a file"},
            "messageId": _TEXT,
            "emoji": _TEXT,
        },
        "required": ["action"],
        "additionalProperties": True,
    },
)
CRON = ToolSpec(
    name="cron",
    order=150,
    summary="manage reminders and jobs",
    description=(
        "Manage jobs and reminders. job: {name, schedule: {kind: at|every|cron, at|everyMs|expr, tz}, "
        "payload: {kind: systemEvent|agentTurn, text|message}, sessionTarget: main|isolated}. wake: text."
    ),
    parameters={
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["status", "list", "add", "update", "remove", "run", "runs", "wake"]},
            "jobId": _TEXT,
            "job": {"type": "object"},
        },
        "required": ["action"],
    },
)
_CONFIG = ["config.get", "config.patch", "config.schema", "restart"]
GATEWAY = ToolSpec(
    name="gateway",
    order=170,
    summary="look at or change this program's configuration",
    description="Read or patch the configuration, or restart.",
    parameters={
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": _CONFIG},
            "path": _TEXT,
            "patch": {"type": "object"},
            "note": _TEXT,
        },
        "required": ["action"],
    },
)
IMAGE = ToolSpec(
    name="image",
    order=270,
    summary="look at an image with a model that sees",
    description="Ask a vision model about an image (path or URL).",
    parameters={"type": "object", "properties": {"image": _TEXT, "prompt": _TEXT}, "required": ["image"]},
)


def message_tool(sender: Sender) -> Tool:

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        if arguments["action"] in {"send", "reply"} and not (arguments.get("message") or arguments.get("media")):
            raise ToolError("there is nothing to send", cure="give message or media")
        return _said(await sender.act(context, arguments))

    aliases = {"to": "target", "text": "message", "content": "message", "path": "media", "filePath": "media"}
    return Tool(
        spec=MESSAGE, risk=Risk.SEND, run=run, group="messaging", aliases=aliases, sequential=True, children="none"
    )


def cron_tool(scheduler: Scheduler) -> Tool:

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        action, ident, job = arguments["action"], arguments.get("jobId", ""), arguments.get("job") or {}
        if action in {"update", "remove", "run"} and not ident:
            raise ToolError(f"cron {action} needs jobId", cure="see the ids with action list")
        if action in {"add", "update"} and not job:
            raise ToolError(f"cron {action} needs job", cure="give job with schedule and payload")
        if action == "wake" and not (job := {"text": arguments.get("text") or job.get("text")})["text"]:
            raise ToolError("cron wake needs text", cure="say what happened")
        return _said(await scheduler.act(context, action, ident, job))

    return Tool(
        spec=CRON,
        risk=Risk.ADMIN,
        run=run,
        group="automation",
        schema=allowing(CRON, text=_TEXT),
        aliases={"id": "jobId"},
        owner_only=True,
        children="none",
        sequential=True,
    )


def gateway_tool(control: GatewayControl) -> Tool:

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        if arguments["action"] == "config.patch" and not arguments.get("patch"):
            raise ToolError("gateway config.patch needs patch", cure="give the keys to change as an object")
        if arguments["action"] == "config.apply" and not arguments.get("raw"):
            raise ToolError("gateway config.apply needs raw", cure="give the whole configuration as JSON text")
        return _said(await control.act(context, arguments["action"], arguments))

    return Tool(
        spec=GATEWAY,
        risk=Risk.ADMIN,
        run=run,
        group="automation",
        schema=allowing(
            GATEWAY,
            action={"type": "string", "enum": [*_CONFIG, "config.apply", "update.run"]},
            raw=_TEXT,
            baseHash=_TEXT,
        ),
        owner_only=True,
        children="none",
        sequential=True,
    )


def image_tool(vision: VisionBackend, reach: Reach, *, web: bool) -> Tool:
    """Return the image tool; without the web it looks at files only."""

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        from homarus.net.egress import Egress, Limits
        from homarus.tools.target import is_url

        where = arguments["image"]
        if is_url(where):
            if not web:
                raise ToolError("images from the web cannot be fetched here", cure="give the path of a file")
            limits = Limits(MAX_IMAGE_BYTES, 30.0, elsewhere=not context.taint)
            page = await Egress().fetch(
                where.strip(), limits=limits, cancel=context.cancel, heard=lambda: context.taint.add(IMAGE.name)
            )
            data = page.body if page.status < 400 else b""
        else:
            data = _read(context, where, reach)
        kind = image_kind(data[:16])
        if not kind:
            raise ToolError("this is no image (png, jpeg, gif, webp)", cure="give the path or address of an image")
        return said(
            await vision.look(context, data, kind, arguments.get("prompt", "Describe this image.")), mimeType=kind
        )

    aliases = {"path": "image", "url": "image", "question": "prompt", "file": "image"}
    return Tool(
        spec=IMAGE,
        risk=Risk.READ,
        run=run,
        group="media",
        aliases=aliases,
        taints=True,
        exists_for=vision.can_look,
    )


def _read(context: ToolContext, path: str, reach: Reach) -> bytes:
    spot = locate(context, path, reach)
    with opened(spot) as root, os.fdopen(open_to_read(context, root, spot), "rb") as file:
        data = file.read(MAX_IMAGE_BYTES + 1) or b""  # a device that has nothing to say gives None
    if len(data) > MAX_IMAGE_BYTES:
        raise ToolError(f"{spot.path}: too large", cure="make it smaller first")
    return data


def _said(value: dict[str, Any]) -> ToolOutput:
    return said(msgspec.json.encode(value).decode(), is_error=bool(value.get("error")))
