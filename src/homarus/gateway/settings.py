"""The `gateway` block of the configuration: where it listens, and what it takes as a credential."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from homarus.config.convert import did_you_mean
from homarus.config.keypath import KeyPath
from homarus.core.text import single_line

DEFAULT_PORT = 18789
Positive = Annotated[int, Meta(ge=1)]


class RateLimit(Struct, frozen=True, rename="camel"):
    """After so many wrong credentials within the window, an address is locked out. Loopback is only ever spared without a browser."""

    max_attempts: Positive = 10
    window_ms: Positive = 60_000
    lockout_ms: Positive = 300_000
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
    """The page for browsers. `root` is a folder with another one instead of ours, as the npm package openclaw has it."""

    enabled: bool = True
    root: str = ""
    allowed_origins: tuple[str, ...] = ()


class TlsSettings(Struct, frozen=True, rename="camel"):
    """A certificate and its key, as PEM files."""

    enabled: bool = False
    cert_path: str = ""
    key_path: str = ""


class Endpoint(Struct, frozen=True, rename="camel"):
    enabled: bool = False


class Endpoints(Struct, frozen=True, rename="camel"):
    """Ways of other programs to the agent: as far as the secret goes, they are the owner. So each is off until asked for."""

    chat_completions: Endpoint = Endpoint()
    responses: Endpoint = Endpoint()


class HttpSettings(Struct, frozen=True, rename="camel"):
    endpoints: Endpoints = Endpoints()


class InvokeSettings(Struct, frozen=True, rename="camel"):
    """Which tools `/tools/invoke` runs beyond those that are harmless, and which it never runs."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class ReloadSettings(Struct, frozen=True, rename="camel"):
    """Whether a changed file counts at once: `off` waits for the next start."""

    mode: Literal["hybrid", "off", "hot", "restart"] = "hybrid"


class RemoteSettings(Struct, frozen=True, rename="camel"):
    """The gateway on another machine that commands talk to where `gateway.mode` is `remote`."""

    url: str = ""
    token: Any = None


class NodeCommands(Struct, frozen=True, rename="camel"):
    """Commands of nodes that are allowed beyond the usual ones of their platform, and those that never are."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class NodeSettings(Struct, frozen=True, rename="camel"):
    commands: NodeCommands = NodeCommands()


class LogSettings(Struct, frozen=True, rename="camel"):
    """The gateway's own log: one line of JSON each, secrets taken out."""

    level: Literal["silent", "fatal", "error", "warn", "warning", "info", "debug", "trace"] = "info"
    file: str = ""


class GatewaySettings(Struct, frozen=True, rename="camel"):
    port: Annotated[int, Meta(ge=0, le=65_535)] = DEFAULT_PORT
    bind: Literal["loopback", "lan", "tailnet", "auto", "custom"] = "loopback"
    custom_bind_host: str = ""
    auth: AuthSettings = AuthSettings()
    control_ui: PageSettings = PageSettings()
    tls: TlsSettings = TlsSettings()
    http: HttpSettings = HttpSettings()
    mode: Literal["local", "remote"] = "local"
    remote: RemoteSettings = RemoteSettings()
    reload: ReloadSettings = ReloadSettings()
    tools: InvokeSettings = InvokeSettings()
    nodes: NodeSettings = NodeSettings()
    # Addresses and networks of proxies whose forwarding headers count; from anybody else they are refused.
    trusted_proxies: tuple[str, ...] = ()
    # Listen beyond this machine without TLS and without a proxy in front, as behind a tunnel that encrypts.
    allow_plain_text: bool = False

    @property
    def warnings(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield the names of tools and of scopes that nothing has, by their key."""
        from homarus.gateway.scopes import ALL
        from homarus.tools.policy import Rules

        for key, message in Rules(allow=self.tools.allow, deny=self.tools.deny).warnings:
            yield ("tools", *key), message
        auth = self.auth
        given: dict[tuple[str, ...], tuple[str, ...]] = {("secretScopes",): auth.secret_scopes}
        given |= {("identityScopes", name): scopes for name, scopes in auth.identity_scopes.items()}
        for key, scopes in given.items():
            for scope in scopes:
                if scope not in ALL:
                    yield (
                        ("auth", *key),
                        f"'{single_line(scope, 60)}' is no scope that exists{did_you_mean(scope, ALL)}",
                    )
