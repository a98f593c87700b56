"""Questions of a child go to whoever attends to the session that it works for; where nobody does, nobody is asked."""

from __future__ import annotations

from homarus.core.events import ApprovalAsked, RunEvent
from homarus.core.routes import SessionKey, main_session
from homarus.gateway.people import People
from homarus.tools.approval import Request

CHILD = "agent:main:subagent:1"


def request(session: str) -> Request:
    return Request("id", "d", "exec", "", "rm x", "a command would run on the host", "main", session, 0, 10)


async def test_a_childs_question_reaches_the_person_at_its_root() -> None:
    people, heard = People({CHILD: "agent:main:main"}.get), []  # type: ignore[arg-type]
    assert not people.reachable(request(CHILD))

    def hear(event: RunEvent) -> None:
        assert isinstance(event, ApprovalAsked)
        heard.append(event.detail)

    leave = people.arrive(main_session("main"), hear)
    assert people.reachable(request(CHILD))
    await people.announce(request(CHILD))
    await people.announce(request("agent:main:main"))
    assert heard == ["a sub-agent asks: a command would run on the host", "a command would run on the host"]
    assert not people.reachable(request("agent:main:subagent:2"))
    leave()
    assert not people.reachable(request(CHILD))


async def test_somebody_who_attends_to_the_child_itself_is_asked_first() -> None:
    people, heard = People(lambda _session: "agent:main:main"), []  # type: ignore[var-annotated]
    people.arrive(main_session("main"), lambda _event: heard.append("root"))
    people.arrive(SessionKey.parse(CHILD), lambda _event: heard.append("child"))
    await people.announce(request(CHILD))
    assert heard == ["child"]
