from __future__ import annotations

import pytest

from homarus.config.reload import Change, plan_reload


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"session": {"x": 1}}, {"session": {"x": 2}}, [Change(("session", "x"), "hot")]),
        ({}, {"gateway": {"port": 1}}, [Change(("gateway", "port"), "restart")]),
        ({"gateway": {"port": 1}}, {"gateway": {"port": 2}}, [Change(("gateway", "port"), "restart")]),
        (
            {"gateway": {"auth": {"rateLimit": 1}}},
            {"gateway": {"auth": {"rateLimit": 2}}},
            [Change(("gateway", "auth", "rateLimit"), "hot")],
        ),
        (
            {"channels": {"t": {"a": 1, "b": 1}, "s": {}}},
            {"channels": {"t": {"a": 2, "b": 2}, "s": {}}},
            [Change(("channels", "t"), "part")],
        ),
        (
            {"agents": {"entries": {"a": {"heartbeat": {"every": "1h"}}}}},
            {"agents": {"entries": {"a": {"heartbeat": {"every": "2h"}}}}},
            [Change(("agents", "entries", "a"), "part")],
        ),
        ({"meta": {"x": 1}}, {"meta": {"x": 2}}, [Change(("meta", "x"), "none")]),
        ({"x": 1}, {"x": True}, [Change(("x",), "hot")]),
        *(
            ({}, {name: {"x": 1}}, [Change((name, "x"), "hot")])
            for name in ("agents", "models", "messages", "tools", "skills", "mcp", "ui", "logging", "auth", "memory")
        ),
        (
            {},
            {"plugins": {"entries": {"a": {"enabled": True}}}},
            [Change(("plugins", "entries", "a", "enabled"), "restart")],
        ),
        (
            {},
            {"hooks": {"token": "x", "path": "/y"}},
            [Change(("hooks", "path"), "restart"), Change(("hooks", "token"), "part")],
        ),
    ],
)
def test_what_a_change_takes(old: dict, new: dict, changes: list) -> None:
    assert list(plan_reload(old, new)) == changes
