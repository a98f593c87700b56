from homarus.core.messages import Image, Inbound
from homarus.queue.debounce import InboundDebounce
from homarus.queue.settings import InboundSettings

SETTINGS = InboundSettings(debounce_ms=0, by_channel={"telegram": 300})


def message(text: str, *, sender: str = "ann", channel: str = "telegram", images: tuple[Image, ...] = ()) -> Inbound:
    return Inbound(id=text, channel=channel, text=text, sender=sender, images=images)


def test_pieces_of_one_sender_become_one_message_and_the_wait_starts_again() -> None:
    debounce = InboundDebounce(SETTINGS)
    assert debounce.offer(message("one"), 0.0) == []
    assert debounce.offer(message("two"), 0.2) == []
    assert debounce.due(0.3) == []
    assert debounce.next_due() == 0.5
    (joined,) = debounce.due(0.5)
    assert joined.text == "one\ntwo"
    assert joined.id == "two"
    assert debounce.next_due() is None


def test_senders_and_channels_do_not_mix() -> None:
    debounce = InboundDebounce(SETTINGS)
    debounce.offer(message("a"), 0.0)
    debounce.offer(message("b", sender="bob"), 0.1)
    assert [inbound.text for inbound in debounce.offer(message("c", channel="irc"), 0.1)] == ["c"]
    assert [inbound.text for inbound in debounce.due(9.0)] == ["a", "b"]


def test_media_flushes_and_commands_pass() -> None:
    debounce = InboundDebounce(SETTINGS)
    debounce.offer(message("look"), 0.0)
    assert [inbound.text for inbound in debounce.offer(message("/stop"), 0.1, command=True)] == ["/stop"]
    picture = message("this", images=(Image("aGk=", "image/png"),))
    assert [inbound.text for inbound in debounce.offer(picture, 0.1)] == ["look", "this"]
    assert len(debounce) == 0


def test_shutdown_flushes_everything() -> None:
    debounce = InboundDebounce(SETTINGS)
    debounce.offer(message("a"), 0.0)
    assert [inbound.text for inbound in debounce.flush()] == ["a"]
