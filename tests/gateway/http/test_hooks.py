"""Web hooks over HTTP: a token or a signature opens, wrong ones are counted, and nobody reaches a person's conversation."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import TOKEN, Served, served
from tests.scenarios.home import House, until

httpx = pytest.importorskip("httpx2")
SECRET = "a-token-for-hooks-that-is-long"
KEY = "the-senders-own-key"
RULES: dict[str, Any] = {"enabled": True, "token": SECRET}
SIGNED = {
    "match": {"path": "forge"},
    "messageTemplate": "push to {{payload.repo}}",
    "signature": {"secret": KEY},
}


async def post(home: Served, path: str, body: Any = None, **headers: str) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    async with httpx.AsyncClient(trust_env=False, timeout=120) as http:
        return await http.post(f"http://127.0.0.1:{home.port}{path}", content=data, headers=headers)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def home(tmp_path: Path):
    async with served(House(tmp_path, config={"hooks": RULES})) as found:
        yield found


async def test_work_is_taken_and_its_words_are_a_strangers(home: Served) -> None:
    found = await post(home, "/hooks/agent", {"message": "look at this", "idempotencyKey": "k1"}, **bearer(SECRET))
    assert (found.status_code, found.json()) == (200, {"ok": True, "runId": "k1"})
    await until(lambda: len(home.house.model.requests) == 1)
    prompt = home.house.model.prompts[0]
    assert "look at this" in prompt
    assert prompt != "look at this", "it is wrapped"
    found = await post(home, "/hooks/wake", {"text": "hello", "mode": "next-heartbeat"}, **{"x-openclaw-token": SECRET})
    assert found.json() == {"ok": True, "mode": "next-heartbeat", "eventOutcome": "queued"}


async def test_who_may_not_is_refused(home: Served) -> None:
    said = {"message": "hi"}
    assert (await post(home, "/hooks/agent", said)).status_code == 401
    assert (await post(home, "/hooks/agent", said, **bearer(TOKEN))).status_code == 401, "the gateway's own token"
    assert (await post(home, f"/hooks/agent?token={SECRET}", said)).status_code == 400
    assert (await post(home, "/hooks/nowhere", said, **bearer(SECRET))).status_code == 404
    assert (await post(home, "/hooks/agent", b"no json", **bearer(SECRET))).status_code == 400
    assert (await post(home, "/hooks/agent", b"x" * 300_000, **bearer(SECRET))).status_code == 413
    assert (await post(home, "/hooks/agent", said | {"sessionKey": "main"}, **bearer(SECRET))).status_code == 400
    assert (await post(home, "/hooks/agent", said | {"agentId": "nobody"}, **bearer(SECRET))).status_code == 400
    page = {"Origin": "https://evil.example", **bearer(SECRET)}
    assert (await post(home, "/hooks/agent", said, **page)).status_code == 403
    forwarded = {"X-Forwarded-For": "203.0.113.9", **bearer(SECRET)}
    assert (await post(home, "/hooks/agent", said, **forwarded)).status_code == 403
    async with httpx.AsyncClient(trust_env=False, timeout=120) as http:
        assert (await http.get(f"http://127.0.0.1:{home.port}/hooks/agent")).status_code == 405
    assert home.house.model.requests == []


async def test_guessing_is_counted_also_on_this_machine(home: Served) -> None:
    for _ in range(20):
        assert (await post(home, "/hooks/wake", {"text": "x"}, **bearer("wrong"))).status_code == 401
    found = await post(home, "/hooks/wake", {"text": "x"}, **bearer(SECRET))
    assert found.status_code == 429
    assert int(found.headers["Retry-After"]) > 0


async def test_a_signature_opens_its_own_mapping_and_nothing_else(tmp_path: Path) -> None:
    rules = {**RULES, "mappings": [SIGNED, {"match": {"path": "plain"}, "messageTemplate": "{{payload.repo}}"}]}
    async with served(House(tmp_path, config={"hooks": rules})) as home:
        body = json.dumps({"repo": "lobster"}).encode()
        good = {"x-hub-signature-256": "sha256=" + hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()}
        assert (await post(home, "/hooks/forge", body)).status_code == 401
        assert (await post(home, "/hooks/forge", body, **bearer(SECRET))).status_code == 401
        assert (await post(home, "/hooks/forge", body + b" ", **good)).status_code == 401
        for path in ("/hooks/plain", "/hooks/wake", "/hooks/agent"):
            assert (await post(home, path, body, **good)).status_code == 401
        first = (await post(home, "/hooks/forge", body, **good)).json()
        again = (await post(home, "/hooks/forge", body, **good)).json()
        assert first == again, "the same signed body is the same run"
        await until(lambda: len(home.house.model.requests) == 1)
        assert "push to lobster" in home.house.model.prompts[0]


async def test_without_a_safe_token_or_switched_off_nothing_answers(tmp_path: Path) -> None:
    for rules, status in (({"enabled": True}, 503), ({"enabled": True, "token": TOKEN}, 503), ({"token": SECRET}, 404)):
        async with served(House(tmp_path, config={"hooks": rules})) as home:
            token = rules.get("token") or SECRET
            assert (await post(home, "/hooks/wake", {"text": "x"}, **bearer(str(token)))).status_code == status


async def test_a_signed_call_is_not_replayed_by_writing_its_signature_otherwise(tmp_path: Path) -> None:
    rule = {**SIGNED, "signature": {"secret": KEY, "encoding": "base64", "prefix": ""}}
    async with served(House(tmp_path, config={"hooks": {**RULES, "mappings": [rule]}})) as home:
        body = json.dumps({"repo": "lobster"}).encode()
        good = base64.b64encode(hmac.new(KEY.encode(), body, hashlib.sha256).digest()).decode()
        first = (await post(home, "/hooks/forge", body, **{"x-hub-signature-256": good})).json()
        assert first["ok"]
        await until(lambda: len(home.house.model.requests) == 1, 60)
        # The same bytes in other letters: refused, or the same run; never a second one.
        for other in (good.rstrip("="), good.replace("+", "-").replace("/", "_").rstrip("="), f"{good}="):
            again = await post(home, "/hooks/forge", body, **{"x-hub-signature-256": other})
            assert again.status_code == 401 or again.json() == first, other
        found = await post(home, "/hooks/forge", b"x" * 300_000, **{"x-hub-signature-256": good})
        assert found.status_code == 413, "no more is read than a body may hold, whoever sends it"
        assert len(home.house.model.requests) == 1


@pytest.mark.parametrize("secret", ["", None, "${NOT_SET_ANYWHERE}"])
async def test_a_mapping_whose_key_is_missing_is_closed_and_not_open(tmp_path: Path, secret: str | None) -> None:
    rule = {**SIGNED, "signature": {"secret": secret} if secret is not None else {}}
    async with served(House(tmp_path, config={"hooks": {**RULES, "mappings": [rule]}})) as home:
        body = json.dumps({"repo": "lobster"}).encode()
        made = "sha256=" + hmac.new((secret or "").encode(), body, hashlib.sha256).hexdigest()
        assert (await post(home, "/hooks/forge", body, **{"x-hub-signature-256": made})).status_code == 401
        assert (await post(home, "/hooks/forge", body)).status_code == 401
        assert home.house.model.requests == []


async def test_a_changed_token_and_a_new_mapping_count_at_once(home: Served) -> None:
    path, other = home.house.state / "openclaw.json", "another-token-for-hooks-that-is-long"
    document = json.loads(path.read_text())
    document["hooks"] |= {"token": other, "mappings": [{"match": {"path": "plain"}, "messageTemplate": "new"}]}
    path.write_text(json.dumps(document))
    assert home.gateway.life.changed() == "hot"
    assert (await post(home, "/hooks/plain", {}, **bearer(SECRET))).status_code == 401
    assert (await post(home, "/hooks/plain", {}, **bearer(other))).status_code == 200
    await until(lambda: len(home.house.model.requests) == 1)
    document["hooks"]["path"] = "/elsewhere"
    path.write_text(json.dumps(document))
    assert home.gateway.life.changed() == "restart"
