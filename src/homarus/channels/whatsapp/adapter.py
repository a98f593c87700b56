"""Which of the two ways an account takes, and what both have in common: people are known by their numbers."""

from __future__ import annotations

from homarus.channels.channel import Channel, Host


def open_channel(host: Host) -> Channel:
    if host.settings.get("phoneNumberId"):
        from homarus.channels.whatsapp.cloud import Cloud

        return Cloud(host)
    from homarus.channels.whatsapp.linked import Linked

    return Linked(host)
