"""A child that is told more later is at least as strict as its parent is by then."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from homarus.subagents.plan import _strictest
from homarus.tools.exec_settings import ExecRequest, stricter

_MODES = ("deny", "allowlist", "ask", "full")
WISHES = st.builds(
    ExecRequest,
    security=st.sampled_from(["", "deny", "allowlist", "full"]),
    ask=st.sampled_from(["", "off", "on-miss", "always"]),
)


@given(WISHES, WISHES, st.sampled_from(_MODES))
def test_another_run_of_a_child_is_as_strict_as_both(before: ExecRequest, now: ExecRequest, mode: str) -> None:
    run = SimpleNamespace(security=before.security, ask=before.ask)
    given_ = ExecRequest(**_strictest(run, SimpleNamespace(wish=now)))  # type: ignore[arg-type]
    rank = [_MODES.index(stricter(mode, wish)) for wish in (given_, before, now)]
    assert rank[0] <= min(rank[1:])
