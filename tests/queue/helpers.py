from homarus.core.messages import Image, Inbound, Trust
from homarus.core.routes import Route, main_session
from homarus.queue.collect import Queued
from homarus.queue.modes import Rules


def queued(
    text: str,
    *,
    to: str = "a",
    rules: Rules | None = None,
    images: tuple[Image, ...] = (),
    trust: Trust = Trust.EXTERNAL,
) -> Queued:
    inbound = Inbound(id=text, channel="test", text=text, peer=to, images=images, trust=trust)
    return Queued(f"{to}/{text}", inbound, Route("main", main_session("main"), "test", to=to), rules or Rules())
