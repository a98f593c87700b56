from homarus.core.messages import Text, ToolCall, ToolResult
from homarus.tools.loopguard import COMPACTION_LOOP, Level, LoopGuard, LoopSettings, outcome, signature


def call(name: str = "read", **arguments: object) -> ToolCall:
    return ToolCall("id", name, dict(arguments))


def result(text: str = "same", **details: object) -> ToolResult:
    return ToolResult("id", "read", (Text(text),), details=dict(details))


def repeat(guard: LoopGuard, times: int, item: ToolCall, *, text: str | None = None, known: bool = True) -> list[Level]:
    levels = []
    for number in range(times):
        levels.append(guard.check(item, known=known).level)
        guard.note(item, result(text or f"r{number}"), known=known)
    return levels


def test_the_tenth_identical_call_warns_and_the_twentieth_with_an_equal_result_is_blocked() -> None:
    guard = LoopGuard(LoopSettings())
    levels = repeat(guard, 20, call(path="a"), text="same")
    assert levels[:9] == [Level.FINE] * 9
    assert levels[9:19] == [Level.WARNING] * 10
    assert levels[19] is Level.CRITICAL


def test_differing_results_are_never_critical() -> None:
    levels = repeat(LoopGuard(LoopSettings()), 29, call(path="a"))
    assert Level.CRITICAL not in levels


def test_polling_counts_only_rows_of_equal_answers() -> None:
    guard = LoopGuard(LoopSettings())
    poll = call("process", action="poll", sessionId="s")
    assert set(repeat(guard, 15, poll)) == {Level.FINE}
    levels = repeat(guard, 20, poll, text="nothing new")
    assert levels[-1] is Level.CRITICAL
    assert guard.check(poll, known=True).detector == "known_poll_no_progress"


def test_two_calls_in_turn_are_seen() -> None:
    guard = LoopGuard(LoopSettings())
    levels = []
    for number in range(21):
        item = call(path="a" if number % 2 else "b")
        levels.append(guard.check(item, known=True))
        guard.note(item, result("a" if number % 2 else "b"), known=True)
    assert levels[8].level is Level.FINE
    assert levels[9].detector == "ping_pong"
    assert levels[9].level is Level.WARNING
    assert levels[19].level is Level.CRITICAL


def test_a_tool_that_does_not_exist_is_stopped_at_ten() -> None:
    levels = repeat(LoopGuard(LoopSettings()), 10, call("nope", x=1), known=False)
    assert levels[8] is not Level.CRITICAL
    assert levels[9] is Level.CRITICAL


def test_thirty_equal_outcomes_trip_the_breaker_whatever_the_arguments() -> None:
    guard = LoopGuard(LoopSettings())
    levels = []
    for number in range(31):
        item = call(path=str(number))
        levels.append(guard.check(item, known=True))
        guard.note(item, result("not found"), known=True)
    assert levels[9].detector == "argument_churn"
    assert levels[29].level is Level.WARNING
    assert levels[30].detector == "global_circuit_breaker"
    assert levels[30].level is Level.CRITICAL


def test_three_equal_calls_after_a_compaction_end_the_run() -> None:
    guard = LoopGuard(LoopSettings())
    guard.compacted()
    notes = [guard.note(call(path="a"), result(), known=True) for _ in range(3)]
    assert notes == ["", "", COMPACTION_LOOP]
    guard.compacted()
    assert [guard.note(call(path=str(n)), result(), known=True) for n in range(4)] == [""] * 4


def test_off_is_off() -> None:
    guard = LoopGuard(LoopSettings(enabled=False))
    guard.compacted()
    assert set(repeat(guard, 40, call(path="a"), text="same")) == {Level.FINE}
    assert guard.note(call(path="a"), result(), known=True) == ""


def test_what_changes_by_nature_does_not_make_two_outcomes_differ() -> None:
    assert outcome(result("took 12 ms", durationMs=3, pid=4)) == outcome(result("took 7 ms", durationMs=9, pid=5))
    assert outcome(result("a")) != outcome(result("b"))
    assert outcome(result("a", exitCode=0)) != outcome(result("a", exitCode=1))
    assert signature(call(a=1, b=2)) == signature(call(b=2, a=1))
