"""Renew a stored OAuth login before its access token ends (RFC 6749, section 6). Whoever logged in is not asked again.

A refresh token is often good for one use, so two turns or two processes must never spend the same one: a lock is held
over the call, and whoever comes second finds the new token in the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import Locked, ModelError, ModelFailure
from homarus.core.text import single_line
from homarus.models.auth import AuthStore
from homarus.models.rotation import Credential
from homarus.models.settings import OAuthClient
from homarus.net.client import HttpClient
from homarus.net.errors import HttpError
from homarus.storage.locks import OwnerLock

# A token that ends this soon is renewed before it is used: a turn may take a while.
EARLY_MS = 60_000
CALL_SECONDS = 30.0
LOCK_TRIES, LOCK_PAUSE = 300, 0.1
MAX_BODY = 1 << 20


def is_due(credential: Credential, now: int) -> bool:
    return credential.kind == "oauth" and bool(credential.expires) and credential.expires - EARLY_MS <= now


async def renewed(
    credential: Credential, store: AuthStore, client: OAuthClient | None, *, http: HttpClient, clock: Clock
) -> Credential:
    """Return a login that is good now; as it was where nothing is known about how to renew it.

    Raises `ModelError`: permanent where the server no longer knows the login, else one that is worth another try.
    """
    async with _alone(store, credential.id, clock):
        profile = store.profile(credential.id)
        fresh = next((item for item in store.credentials(credential.provider) if item.id == credential.id), credential)
        if not is_due(fresh, epoch_ms(clock.now())):
            return fresh
        form, url = _request(profile, client or OAuthClient(), store)
        if not url or not form.get("refresh_token"):
            return fresh
        answer = await _ask(url, form, credential.id, http)
        lasts = answer.get("expires_in")
        ends = epoch_ms(clock.now()) + int(lasts * 1000) if isinstance(lasts, int | float) and lasts > 0 else 0
        changes: dict[str, Any] = {"access": answer["access_token"], "expires": ends}
        if isinstance(answer.get("refresh_token"), str):
            changes["refresh"] = answer["refresh_token"]
        store.put(credential.id, changes)
        return replace(fresh, secret=answer["access_token"], expires=ends)


@asynccontextmanager
async def _alone(store: AuthStore, profile: str, clock: Clock) -> AsyncIterator[None]:
    """Hold the right to renew the logins of one file, also against other processes, without stopping the loop."""
    path = store.path.with_suffix(".json.renew.lock")
    for left in range(LOCK_TRIES, -1, -1):
        try:
            lock = OwnerLock.acquire(path, purpose=f"renewing {profile}", now=clock.now())
            break
        except Locked as problem:
            if not left:
                raise ModelError(ModelFailure.TIMEOUT, f"{profile} is being renewed by another process") from problem
            await asyncio.sleep(LOCK_PAUSE)
    try:
        yield
    finally:
        lock.release()


def _request(profile: dict[str, Any], client: OAuthClient, store: AuthStore) -> tuple[dict[str, str], str]:
    """Return the form to send and where; what the profile itself says comes before the configuration."""
    form = {
        "grant_type": "refresh_token",
        "refresh_token": profile.get("refresh"),
        "client_id": profile.get("clientId") or client.client_id,
        "client_secret": store.resolve(secret)
        if (secret := profile.get("clientSecret") or client.client_secret)
        else "",
        "scope": client.scope,
    }
    url = profile.get("tokenUrl") or client.token_url
    return {name: value for name, value in form.items() if isinstance(value, str) and value}, str(url)


async def _ask(url: str, form: dict[str, str], profile: str, http: HttpClient) -> dict[str, Any]:
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    try:
        async with asyncio.timeout(CALL_SECONDS):
            response = await http.request("POST", url, headers=headers, body=[urlencode(form).encode()])
            try:
                body = await response.read(MAX_BODY)
            finally:
                await response.close()
    except (TimeoutError, OSError, HttpError) as problem:
        said = str(problem) or type(problem).__name__
        raise ModelError(ModelFailure.TIMEOUT, f"{profile} could not be renewed at {url}: {said}") from problem
    try:
        answer = msgspec.json.decode(body)
    except ValueError:
        answer = None
    if response.status == 200 and isinstance(answer, dict) and isinstance(answer.get("access_token"), str):
        return answer
    raise _refused(profile, url, response.status, answer, form.values())


def _refused(profile: str, url: str, status: int, answer: Any, sent: Iterable[str]) -> ModelError:
    from homarus.models.errors import hidden

    fields = answer if isinstance(answer, dict) else {}
    why = single_line(str(fields.get("error_description") or fields.get("error") or f"HTTP {status}"), 200)
    why = hidden(why, (text for text in sent if text != "refresh_token"))
    # The server's other complaints (a wrong client, a wrong form) are as final as a login that it no longer knows.
    final = status in {400, 401, 403}
    return ModelError(
        ModelFailure.AUTH_PERMANENT if final else ModelFailure.SERVER,
        f"{profile} could not be renewed at {url}: {why}",
        status=status,
        cure=f"log in again and store the new login as {profile}" if final else "",
    )
