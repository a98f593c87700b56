"""How a request fails: in a way that another try may cure, or in one that only a person can."""


class HttpError(Exception):
    """There is no reply, or only half of one. Another try may help."""


class NoConnection(HttpError):
    """The server does not take connections now, so nothing was sent."""


class Refused(HttpError):
    """The network, a proxy or a certificate says no, and will say it again until somebody acts on `cure`."""

    def __init__(self, message: str, cure: str) -> None:
        super().__init__(message)
        self.cure = cure
