"""message, cron, gateway and image: each a thin door to what the composition provides behind a contract."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from homarus.core.errors import ToolError
from homarus.core.tools import Risk
from homarus.net.trust import SYSTEM, Trust
from homarus.tools.files import MAX_IMAGE_BYTES, image_kind
from homarus.tools.paths import Reach, locate, open_to_read, opened
from homarus.tools.tool import Tool, ToolContext, ToolOutput, allowing, said, spec

if TYPE_CHECKING:
    from homarus.tools.services import GatewayControl, Scheduler, Sender, VisionBackend


_TEXT: dict[str, Any] = {"type": "string"}

MESSAGE = spec("message")
CRON = spec("cron")
_CRON = ["status", "list", "add", "update", "remove", "run", "runs", "wake"]
_CONFIG = ["config.get", "config.patch", "config.schema", "restart"]
GATEWAY = spec("gateway")
IMAGE = spec("image")


def message_tool(sender: Sender) -> Tool:

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        if arguments["action"] in {"send", "reply"} and not (arguments.get("message") or arguments.get("media")):
            raise ToolError("there is nothing to send", cure="give message or media")
        return _said(await sender.act(context, arguments))

    aliases = {"to": "target", "text": "message", "content": "message", "path": "media", "filePath": "media"}
    aliases |= {"account": "accountId", "thread": "threadId", "message_id": "messageId"}
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
        schema=allowing(CRON, action={"type": "string", "enum": _CRON}, text=_TEXT),
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


def image_tool(vision: VisionBackend, reach: Reach, *, web: bool, trust: Trust = SYSTEM) -> Tool:
    """Return the image tool; without the web it looks at files only."""

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        from homarus.net.egress import Egress, Limits
        from homarus.tools.target import is_url

        where = arguments["image"]
        if is_url(where):
            if not web:
                raise ToolError("images from the web cannot be fetched here", cure="give the path of a file")
            limits = Limits(MAX_IMAGE_BYTES, 30.0, elsewhere=not context.taint)
            page = await Egress(trust=trust).fetch(
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
        spec=IMAGE, risk=Risk.READ, run=run, group="media", aliases=aliases, taints=True, exists_for=vision.can_look
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
