"""What a session asks for its commands: granted, refused, and never more than the configuration allows."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.context import context

from homarus.core.messages import Trust
from homarus.core.tools import Risk
from homarus.sandbox.spec import Backend, SandboxSpec
from homarus.tools.command import make_plan
from homarus.tools.exec_settings import ElevatedSettings, ExecRequest, ExecSettings, granted, stricter
from homarus.tools.gate import Allow, Ask, Case, Deny, decide
from homarus.tools.tool import Taint

OPEN = ElevatedSettings(enabled=True, allow_from={"irc": ["ann"], "mail": ["*"]})
MODES = ["deny", "allowlist", "ask", "full"]
WISHES = st.builds(
    ExecRequest,
    elevated=st.sampled_from(["off", "on", "ask", "full", "root"]),
    host=st.sampled_from(["", "sandbox", "host", "gateway", "node"]),
    security=st.sampled_from(["", "deny", "allowlist", "full", "x"]),
    ask=st.sampled_from(["", "off", "on-miss", "always", "x"]),
)


@pytest.mark.parametrize(
    ("gates", "trust", "channel", "sender", "expected"),
    [
        ([OPEN], Trust.OWNER, "terminal", "", "on"),
        ([OPEN], Trust.OWNER, "irc", "Ann", "on"),
        ([OPEN], Trust.OWNER, "irc", "eve", "off"),
        ([OPEN], Trust.OWNER, "irc", "", "off"),
        ([OPEN], Trust.OWNER, "mail", "x", "on"),
        ([OPEN], Trust.OWNER, "other", "ann", "off"),
        ([OPEN], Trust.PAIRED, "mail", "x", "off"),
        ([OPEN], Trust.EXTERNAL, "terminal", "", "off"),
        ([ElevatedSettings()], Trust.OWNER, "terminal", "", "off"),
        ([OPEN, ElevatedSettings()], Trust.OWNER, "terminal", "", "off"),
        ([OPEN, OPEN], Trust.OWNER, "terminal", "", "on"),
    ],
)
def test_who_may_leave_the_sandbox(
    gates: list[ElevatedSettings], trust: Trust, channel: str, sender: str, expected: str
) -> None:
    assert granted(ExecRequest("on"), gates, trust, channel=channel, sender=sender).elevated == expected


@given(WISHES, st.sampled_from(MODES))
def test_a_wish_never_makes_a_mode_looser(wish: ExecRequest, mode: str) -> None:
    assert MODES.index(stricter(mode, wish)) <= MODES.index(mode)


@given(WISHES, st.booleans(), st.sampled_from(list(Trust)), st.sampled_from(MODES))
def test_no_wish_runs_anything_on_the_host_that_the_configuration_would_ask_for(
    tmp_path_factory: pytest.TempPathFactory, wish: ExecRequest, tainted: bool, trust: Trust, mode: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    held = granted(wish, [OPEN], trust, channel="terminal", sender="")
    ctx = context(
        folder,
        sandbox=SandboxSpec(Backend.BWRAP, str(folder / "ws")),
        wish=held,
        trust=trust,
        taint=Taint(("web",) if tainted else ()),
    )
    plan = make_plan(ctx, {"command": "touch made"}, {})
    case = Case(
        tool="exec",
        risk=Risk.EXEC,
        trust=trust,
        tainted=tainted,
        sandbox=ctx.sandbox,
        plan=plan,
        workspace=str(ctx.workspace),
        mode=stricter(ExecSettings(mode=mode).effective, held),  # type: ignore[arg-type]
        elevated=held.elevated,
    )
    verdict = decide(case, lambda *_: False)
    if plan.on_host and isinstance(verdict, Allow):
        assert (trust, tainted, mode, held.elevated) == (Trust.OWNER, False, "full", "full")


@pytest.mark.parametrize(
    ("wish", "arguments", "on_host"),
    [
        (ExecRequest(), {}, False),
        (ExecRequest("on"), {}, True),
        (ExecRequest("on"), {"host": "sandbox"}, False),
        (ExecRequest(host="host"), {}, True),
        (ExecRequest(host="node"), {}, False),
    ],
)
def test_where_a_command_goes(tmp_path: Path, wish: ExecRequest, arguments: dict[str, str], on_host: bool) -> None:
    ctx = context(tmp_path, sandbox=SandboxSpec(Backend.BWRAP, str(tmp_path / "ws")), wish=wish)
    plan = make_plan(ctx, {"command": "ls", **arguments}, {})
    assert plan.on_host is on_host
    case = Case(
        tool="exec", risk=Risk.EXEC, trust=Trust.OWNER, tainted=False, sandbox=ctx.sandbox, plan=plan, mode="ask"
    )
    assert isinstance(decide(case, lambda *_: False), Ask if on_host else Allow)
    assert not isinstance(decide(case, lambda *_: False), Deny)
