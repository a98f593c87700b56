"""Whoever attends to a session is asked, once; where nobody does, nobody is."""

from __future__ import annotations

from homarus.agent.toolkit import Approvers
from homarus.core.events import ApprovalAsked, RunEvent
from homarus.core.routes import main_session
from homarus.tools.approval import Request

KEY = main_session("main")


def request(session: str = str(KEY)) -> Request:
    return Request("q1", "d", "exec", "", "rm -r x", "a command would run", "main", session, 0, 120_000)


async def test_two_clients_of_one_session_hear_a_question_once_each() -> None:
    people, heard = Approvers(), list[RunEvent]()
    leave = [people.arrive(KEY, heard.append), people.arrive(KEY, heard.append)]
    await people.announce(request())
    assert len(heard) == 1
    assert isinstance(heard[0], ApprovalAsked)
    leave[0]()
    assert people.reachable(request())
    leave[1]()
    assert not people.reachable(request())


async def test_the_question_of_a_child_goes_to_whoever_attends_to_its_root() -> None:
    people, heard = Approvers(), list[RunEvent]()
    people.works_for("agent:main:subagent:x", str(KEY))
    people.arrive(KEY, heard.append)
    await people.announce(request("agent:main:subagent:x"))
    assert isinstance(heard[0], ApprovalAsked)
    assert "sub-agent" in heard[0].detail
