"""Logins are renewed at a token server that behaves like a real one: each refresh token is good for one use."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.models.servers import Answer, Seen, Server, serving

from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock, epoch_ms
from homarus.core.errors import ModelFailure
from homarus.core.messages import Text, User
from homarus.core.prompt import SystemPrompt
from homarus.models.auth import AuthStore
from homarus.models.catalog import Catalog
from homarus.models.client import ModelClient
from homarus.models.provider import ModelRequest, Stop
from homarus.models.ref import ModelRef
from homarus.models.registry import Registry
from homarus.models.select import Chain
from homarus.models.settings import AuthSettings, ModelsSettings, OAuthClient, ProviderSettings
from homarus.net.client import HttpClient

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
PROFILE = "acme:me@example.com"
EVENTS = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Provider(Server):
    """A token endpoint and a model that takes only the newest access token."""

    def __init__(self) -> None:
        super().__init__()
        self.refresh, self.access, self.number = "r0", "a0", 0
        self.forms: list[dict[str, str]] = []
        self.broken: Answer | None = None

    def choose(self, seen: Seen) -> Answer:
        if seen.path.endswith("/token"):
            return self._token({key: value[0] for key, value in parse_qs(seen.raw.decode()).items()})
        if seen.headers.get("authorization") != f"Bearer {self.access}":
            return Answer([b'{"error":{"message":"invalid api key"}}'], status=401)
        return Answer([EVENTS])

    def _token(self, form: dict[str, str]) -> Answer:
        self.forms.append(form)
        if self.broken is not None:
            return self.broken
        plain = {"content-type": "application/json"}
        if form.get("refresh_token") != self.refresh or form.get("client_id") != "program":
            refused = {"error": "invalid_grant", "error_description": "this token was used already"}
            return Answer([json.dumps(refused).encode()], status=400, headers=plain)
        self.number += 1
        self.refresh, self.access = f"r{self.number}", f"a{self.number}"
        made = {"access_token": self.access, "refresh_token": self.refresh, "expires_in": 3600, "token_type": "Bearer"}
        return Answer([json.dumps(made).encode()], headers=plain, pause=0.01)


class Place:
    """One agent with one login, and how to ask with it."""

    def __init__(self, folder: Path, server: Provider, **profile: Any) -> None:
        self.clock = ManualClock(NOW)
        self.server = server
        stored = {"type": "oauth", "provider": "acme", "access": "a0", "refresh": "r0",
                  "expires": epoch_ms(NOW) + 30_000, "email": "me@example.com", **profile}  # fmt: skip
        self.file = folder / "auth-profiles.json"
        self.file.write_text(json.dumps({"version": 1, "profiles": {PROFILE: stored}}))
        self.store = AuthStore(folder, clock=self.clock)
        self.http = HttpClient()
        self.settings = AuthSettings(oauth={"acme": OAuthClient(token_url=f"{server.url}/token", client_id="program")})

    async def ask(self) -> Stop:
        acme = ProviderSettings(base_url=self.server.url, api="openai-completions")
        registry = Registry(Catalog(ModelsSettings(providers={"acme": acme})), http=self.http, clock=self.clock)
        client = ModelClient(registry, self.store, clock=self.clock, settings=self.settings)
        request = ModelRequest("m", SystemPrompt("s"), (User((Text("hello"),)),))
        async for event in client.stream(request, Chain((ModelRef("acme", "m"),), "config"), cancel=Cancel()):
            if isinstance(event, Stop):
                return event
        raise AssertionError("no end")

    @property
    def profile(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.file.read_text())["profiles"][PROFILE]
        return found


async def test_a_login_that_ends_soon_is_renewed_and_kept(tmp_path: Path) -> None:
    async with serving(server=Provider()) as server:
        assert isinstance(server, Provider)
        place = Place(tmp_path, server)
        stop = await place.ask()
        await place.http.aclose()
    assert stop.message.text == "hi", stop.error
    assert server.forms == [{"grant_type": "refresh_token", "refresh_token": "r0", "client_id": "program"}]
    assert place.profile == {"type": "oauth", "provider": "acme", "access": "a1", "refresh": "r1",
                             "expires": epoch_ms(NOW) + 3_600_000, "email": "me@example.com"}  # fmt: skip
    assert place.file.stat().st_mode & 0o777 == 0o600


async def test_a_login_that_lasts_is_left_alone(tmp_path: Path) -> None:
    async with serving(server=Provider()) as server:
        assert isinstance(server, Provider)
        place = Place(tmp_path, server, expires=epoch_ms(NOW) + 61_000)
        assert (await place.ask()).error is None
        await place.http.aclose()
    assert server.forms == []


async def test_two_at_once_spend_one_refresh_token(tmp_path: Path) -> None:
    async with serving(server=Provider()) as server:
        assert isinstance(server, Provider)
        place = Place(tmp_path, server)
        other = Place.__new__(Place)
        other.__dict__ = {**place.__dict__, "store": AuthStore(tmp_path, clock=place.clock)}
        stops = await asyncio.gather(place.ask(), other.ask())
        await place.http.aclose()
    assert [stop.error for stop in stops] == [None, None]
    assert len(server.forms) == 1


async def test_a_login_that_the_server_forgot_says_what_to_do(tmp_path: Path) -> None:
    async with serving(server=Provider()) as server:
        assert isinstance(server, Provider)
        place = Place(tmp_path, server, refresh="stolen")
        stop = await place.ask()
        await place.http.aclose()
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.AUTH_PERMANENT
    assert "used already" in stop.error.message
    assert "log in again" in stop.error.cure
    assert place.profile["refresh"] == "stolen", "what did not work is not overwritten"


@pytest.mark.parametrize(
    "answer", [Answer([b"<html>oops</html>"], status=502), Answer([b"not json"]), Answer(cut=True)]
)
async def test_a_token_server_in_trouble_loses_nothing(tmp_path: Path, answer: Answer) -> None:
    async with serving(server=Provider()) as server:
        assert isinstance(server, Provider)
        server.broken = answer
        place = Place(tmp_path, server)
        asked = asyncio.ensure_future(place.ask())
        while not asked.done():
            await asyncio.sleep(0)
            place.clock.advance(5)
        stop = asked.result()
        await place.http.aclose()
    assert stop.error is not None
    assert stop.error.kind in {ModelFailure.SERVER, ModelFailure.TIMEOUT}
    assert place.profile["refresh"] == "r0"


async def test_a_login_that_nobody_knows_how_to_renew_is_used_as_it_is(tmp_path: Path) -> None:
    async with serving(server=Provider()) as server:
        assert isinstance(server, Provider)
        place = Place(tmp_path, server)
        place.settings = AuthSettings()
        assert (await place.ask()).error is None
        await place.http.aclose()
    assert server.forms == []


async def test_what_the_profile_says_comes_first(tmp_path: Path) -> None:
    async with serving(server=Provider()) as server:
        assert isinstance(server, Provider)
        place = Place(tmp_path, server, tokenUrl=f"{server.url}/other/token", clientId="program")
        place.settings = AuthSettings(oauth={"acme": OAuthClient(token_url="http://127.0.0.1:1/none", client_id="x")})
        assert (await place.ask()).error is None
        await place.http.aclose()
    assert server.seen[0].path.endswith("/other/token")
