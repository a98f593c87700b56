"""The `gateway` block of the configuration: where it listens, and what it takes as a credential."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

DEFAULT_PORT = 18789


class RateLimit(Struct, frozen=True, rename="camel"):
    """After so many wrong credentials within the window, an address is locked out. Loopback is only ever spared without a browser."""

    max_attempts: int = 10
    window_ms: int = 60_000
    lockout_ms: int = 300_000
    exempt_loopback: bool = True


class ProxyIdentity(Struct, frozen=True, rename="camel"):
    """Whom a trusted proxy names, and in which header."""

    user_header: str = ""
    required_headers: tuple[str, ...] = ()
    allow_users: tuple[str, ...] = ()
    allow_loopback: bool = False


class AuthSettings(Struct, frozen=True, rename="camel"):
    """What is taken as a credential. There is always one: `none` is read as `token`."""

    mode: Literal["token", "password", "trusted-proxy", "none"] = "token"
    token: Any = None
    password: Any = None
    rate_limit: RateLimit = RateLimit()
    trusted_proxy: ProxyIdentity = ProxyIdentity()
    # Which scopes a name that the proxy vouches for has; nobody else behind the proxy has any.
    identity_scopes: dict[str, tuple[str, ...]] = {}
    # The most that the shared secret alone gives. More needs a device that the owner approved.
    secret_scopes: tuple[str, ...] = (
        "operator.read",
        "operator.write",
        "operator.approvals",
        "operator.questions",
        "operator.talk",
    )


class PageSettings(Struct, frozen=True, rename="camel"):
    """The page for browsers. `root` is a folder with a built page, as the npm package openclaw has one."""

    enabled: bool = True
    root: str = ""
    allowed_origins: tuple[str, ...] = ()


class TlsSettings(Struct, frozen=True, rename="camel"):
    """A certificate and its key, as PEM files."""

    enabled: bool = False
    cert_path: str = ""
    key_path: str = ""


class GatewaySettings(Struct, frozen=True, rename="camel"):
    port: int = DEFAULT_PORT
    bind: Literal["loopback", "lan", "tailnet", "auto", "custom"] = "loopback"
    custom_bind_host: str = ""
    auth: AuthSettings = AuthSettings()
    control_ui: PageSettings = PageSettings()
    tls: TlsSettings = TlsSettings()
    # Addresses and networks of proxies whose forwarding headers count; from anybody else they are refused.
    trusted_proxies: tuple[str, ...] = ()
    # Listen beyond this machine without TLS and without a proxy in front, as behind a tunnel that encrypts.
    allow_plain_text: bool = False
