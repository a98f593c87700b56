"""Every method and every event against every scope: what the table does not give, nobody gets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.messages import Trust
from homarus.gateway.devices import Pending
from homarus.gateway.methods import Call, authorize, dispatch, home, table
from homarus.gateway.protocol import Refused
from homarus.gateway.scopes import ADMIN, ALL, EVENTS, NODE, READ, TALK, WRITE, Principal, implied, narrowed, require
from homarus.runtime.client import RunOptions

NAMES = sorted(table())
SCOPES = sorted(ALL)
ANY = st.frozensets(st.sampled_from([*SCOPES, "operator.everything", "admin", ""]))
# Writes that say in their table row that they change the home; each needs an administrator or the right to pair.
CHANGING = (
    *("config.", "sessions.reset", "sessions.delete", "sessions.compact", "sessions.rewind", "agents.files.set"),
    *("agents.create", "agents.update", "agents.delete", "skills.update", "skills.install", "skills.upload"),
    *("exec.approvals.", "gateway.restart", "update."),
)


@pytest.mark.parametrize("name", NAMES)
def test_each_method_needs_its_scope_and_no_other_one_will_do(name: str) -> None:
    method = table()[name]
    assert method.scope in {*ALL, NODE}
    for scope in SCOPES:
        principal = Principal(implied({scope}), "token")
        allowed = method.scope in implied({scope})
        assert principal.may(method.scope) is allowed
        if not allowed:
            with pytest.raises(Refused, match="missing scope"):
                require(principal, method.scope)


@pytest.mark.parametrize("name", NAMES)
async def test_without_a_scope_parameters_are_not_even_read(name: str) -> None:
    nothing: Any = None
    call = Call(nothing, Principal(frozenset(), "token"), name)
    with pytest.raises(Refused) as refused:
        await dispatch(call, msgspec.Raw(b'{"this is": not json'))
    assert refused.value.code == "FORBIDDEN"


@pytest.mark.parametrize(
    "name",
    [name for name in NAMES if name.startswith(CHANGING) and not name.startswith(("config.get", "config.schema"))],
)
def test_what_changes_the_home_needs_an_administrator(name: str) -> None:
    assert table()[name].scope == ADMIN


def test_what_a_node_says_nobody_else_can_and_a_node_can_nothing_else() -> None:
    node, owner = Principal(frozenset(), "device-token", role="node"), Principal(ALL, "local")
    says = {name for name, method in table().items() if method.scope == NODE}
    assert says == {name for name, method in table().items() if node.may(method.scope)}
    assert says == {name for name, method in table().items() if not owner.may(method.scope)}
    assert {name for name, scope in EVENTS.items() if node.may(scope)} == {
        "tick",
        "presence",
        "heartbeat",
        "health",
        "shutdown",
    }


def test_parameters_can_ask_for_more() -> None:
    patch = table()["sessions.patch"]
    writer = Principal(implied({WRITE}), "token")
    authorize(writer, patch, msgspec.convert({"key": "main", "label": "x", "model": "a/b"}, patch.params))
    for wider in ({"elevatedLevel": "full"}, {"execSecurity": "full"}, {"sendPolicy": None}):
        with pytest.raises(Refused, match=ADMIN):
            authorize(writer, patch, msgspec.convert({"key": "main", **wider}, patch.params))
    for name, said in (("chat.send", "/bash ls"), ("agent", "/reset"), ("sessions.send", "/elevated full do it")):
        method = table()[name]
        where = {"chat.send": {"sessionKey": "main"}, "sessions.send": {"key": "main"}}.get(name, {})
        params = msgspec.convert({"message": said, "idempotencyKey": "x", **where}, method.params)
        with pytest.raises(Refused, match=ADMIN):
            authorize(writer, method, params)


def test_events_have_a_rule_or_are_told_to_nobody() -> None:
    assert all(scope in ALL or not scope for scope in EVENTS.values())
    assert {name for name, scope in EVENTS.items() if not scope} == {
        "tick",
        "presence",
        "heartbeat",
        "health",
        "shutdown",
    }


@given(ANY, ANY)
def test_what_is_granted_is_never_more_than_either_side(asked: frozenset[str], allowed: frozenset[str]) -> None:
    granted = narrowed(asked, allowed)
    assert granted <= implied(asked)
    assert granted <= implied(allowed)
    assert implied(granted) == granted  # nothing slips in through what a scope implies


@given(ANY)
def test_implying_is_done_after_one_step(scopes: frozenset[str]) -> None:
    once = implied(scopes)
    assert implied(once) == once <= ALL
    assert (READ in once and TALK in once) or WRITE not in once


def test_no_wish_of_a_device_holds_an_authority() -> None:
    assert not {"owner", "admin", "senderIsOwner", "token"} & set(Pending.__struct_encode_fields__)


def test_folders_are_lent_by_those_who_sit_at_the_machine() -> None:
    wish = RunOptions(folders=("/etc",), cwd="/", trust=Trust.GROUP, channel="telegram")
    for method, lent in (("local", (("/etc",), "/")), ("token", ((), "")), ("device-token", ((), ""))):
        call: Any = SimpleNamespace(principal=Principal(ALL, method))
        got = home.options_of(call, wish)
        assert (got.folders, got.cwd) == lent
        assert got.trust is Trust.OWNER
